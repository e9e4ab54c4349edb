"""Energy counters: of processors and memory (RAPL, as Linux shows it), and of a CUDA device (NVML)."""

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

import torch

POWERCAP = Path("/sys/class/powercap")
PAUSE = 30.0  # seconds between readings; no counter wraps around in less than a minute


class RaplCounters:
    """The joules that this machine's processors and memory have used since this was made.

    The counters wrap around when they are full, so a thread reads them every half minute.
    """

    def __init__(self) -> None:
        parts = [(path, (path / "name").read_text()) for path in sorted(POWERCAP.glob("intel-rapl:*"))]
        self.zones = {
            "cpu": [_Zone(path) for path, name in parts if name.startswith("package")],  # cores lie within packages
            "ram": [_Zone(path) for path, name in parts if name.startswith("dram")],
        }
        if not self.zones["cpu"]:
            raise OSError("this machine has none that can be read")
        self.error: OSError | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, name="energy", daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        try:
            while not self.ended.wait(PAUSE):
                self._read()
        except OSError as error:
            self.error = error

    def _read(self) -> None:
        for zone in (*self.zones["cpu"], *self.zones["ram"]):
            zone.read()

    def stop(self) -> dict[str, float]:
        """Return the joules of processors ('cpu') and of memory ('ram'): 0 where nothing was counted."""
        self.ended.set()
        self.thread.join()
        if self.error is not None:
            raise self.error
        self._read()
        return {part: sum(zone.microjoules for zone in zones) / 1e6 for part, zones in self.zones.items()}


class _Zone:
    """One counter of RAPL."""

    def __init__(self, folder: Path) -> None:
        self.file, self.full = folder / "energy_uj", int((folder / "max_energy_range_uj").read_text())
        self.last, self.microjoules = int(self.file.read_text()), 0

    def read(self) -> None:
        """Add what has been used since the last reading."""
        now = int(self.file.read_text())
        self.microjoules += now - self.last if now >= self.last else now - self.last + self.full
        self.last = now


class GpuCounter:
    """The joules that a CUDA device has used since this was made, by all processes."""

    def __init__(self, device: torch.device) -> None:
        if device.type != "cuda":
            raise OSError("none is known for this kind of device")
        # By UUID, since CUDA_VISIBLE_DEVICES renumbers the devices for CUDA and not for NVML.
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}".encode()
        self.nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByUUID", uuid, ctypes.byref(self.handle))
        self.first = self._read()

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.nvml, name)(*arguments)
        if status != 0:
            raise OSError(f"{name} answered {status}")

    def _read(self) -> int:
        millijoules = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(millijoules))
        return millijoules.value

    def stop(self) -> float:
        """Return the joules."""
        return (self._read() - self.first) / 1000
