"""The name of this machine's processor, and the most memory that this process has held."""

import platform
import re
import sys
from pathlib import Path


def processor_name() -> str:
    """Return the name of this machine's processor and how many cores it has."""
    cores = re.findall(r"^model name\s*: *(.*\S)", _read(Path("/proc/cpuinfo")), flags=re.MULTILINE)
    return f"{cores[0]}, {len(cores)} cores" if cores else platform.processor() or platform.machine()


def restart_peak_memory() -> None:
    """Reset the peak to what is held now, on Linux; elsewhere it stays that of the whole process."""
    if (file := Path("/proc/self/clear_refs")).exists():
        file.write_text("5")


def peak_memory_mb() -> float:
    """Return the most memory that this process has held, in 10⁶ bytes; 0 where the system does not say (Windows)."""
    if peak := re.findall(r"^VmHWM:\s+(\d+) kB", _read(Path("/proc/self/status")), flags=re.MULTILINE):
        return int(peak[0]) * 1024 / 1e6
    try:
        import resource
    except ImportError:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _read(path: Path) -> str:
    """Return a text that Linux shows, or nothing elsewhere."""
    return path.read_text() if path.exists() else ""
