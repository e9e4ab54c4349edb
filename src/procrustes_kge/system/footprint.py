"""What a training cost: seconds, peak memory, energy and CO2, measured from the outside.

A part of the machine that has an energy counter is read; any other is estimated, and the footprint says so.
No failure of a meter reaches the measured block.
"""

import csv
import ctypes
import importlib.metadata
import importlib.util
import json
import logging
import math
import os
import platform
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch

from procrustes_kge.errors import InputError

WORLD_G_PER_KWH = 473.0  # all electricity of 2024, as CO2 equivalent: Ember, Global Electricity Review 2025
# Without codecarbon; watts over cores are 4.4 for an EPYC 7763, 6.6 for a Ryzen 5950X, 9.4 for a Xeon 8375C.
WATTS_PER_BUSY_CORE = 7.0
WATTS_PER_GB = 0.375  # without codecarbon: 3 W for a module of 8 GB
SHORTEST_PAUSE = 1.0  # seconds between readings: a child process is seen within a second of its start
PAUSE_PER_READING = 200  # times what the last reading took, so that reading costs at most 0.5 % of a run
JOULES_PER_KWH = 3.6e6

Result = TypeVar("Result")


@dataclass(frozen=True)
class Footprint:
    """The cost of a measured block. MB are 10⁶ bytes; kwh = cpu + gpu + ram; g_co2 = kwh · grid_g_per_kwh."""

    seconds: float
    kwh: float
    cpu_kwh: float
    gpu_kwh: float
    ram_kwh: float
    g_co2: float
    peak_memory_mb: float  # of this process alone; 0 where the system does not say
    gpu_peak_memory_mb: float  # 0 without CUDA
    grid_g_per_kwh: float
    grid: str  # 'world average', 'given', or a country as in 'FRA'
    method: str  # how each part was measured or estimated, in words
    estimated: bool  # True when any part is an estimate, or missing, rather than a meter reading

    def as_dict(self) -> dict[str, float | str | bool]:
        """Return the fields by name, ready for JSON."""
        return asdict(self)


class Meter:
    """Measures from its making until stop, which sets `footprint`."""

    footprint: Footprint

    def __init__(self, grid: str | float | None, device: torch.device | str) -> None:
        self.intensity, self.grid = grid_intensity(grid)
        self.device = torch.device(device)
        if self.device.type == "cuda":
            _attempt(lambda: torch.cuda.reset_peak_memory_stats(self.device))
            _attempt(lambda: torch.cuda.synchronize(self.device))  # work queued so far belongs to others
        self.hardware = _attempt(_Hardware)  # 0.2 s the first time: before the clock starts
        self.gpu = _attempt(lambda: _GpuCounter(self.device))
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak restarts from what is held now
        self.cpu_seconds = sum(os.times()[:4])  # of this process and of its children that have ended
        self.started = time.perf_counter()

    def stop(self) -> None:
        """Read every meter and set `footprint`."""
        if self.device.type == "cuda":
            _attempt(lambda: torch.cuda.synchronize(self.device))  # work still queued belongs to the block
        seconds, peak = time.perf_counter() - self.started, _peak_memory()
        gpu_kwh, gpu_peak, gpu_method, gpu_metered = self._stop_gpu()
        cpu_kwh, ram_kwh, method, metered = self._stop_hardware(seconds, peak)
        kwh = cpu_kwh + gpu_kwh + ram_kwh
        self.footprint = Footprint(
            seconds=seconds,
            kwh=kwh,
            cpu_kwh=cpu_kwh,
            gpu_kwh=gpu_kwh,
            ram_kwh=ram_kwh,
            g_co2=kwh * self.intensity,
            peak_memory_mb=peak,
            gpu_peak_memory_mb=gpu_peak,
            grid_g_per_kwh=self.intensity,
            grid=self.grid,
            method=method + gpu_method,
            estimated=not (metered and gpu_metered),
        )

    def _stop_gpu(self) -> tuple[float, float, str, bool]:
        """Return kWh and peak MB of the GPU, the method in words, and whether the kWh were metered."""
        if self.device.type == "cpu":
            return 0.0, 0.0, "", True
        kwh = self.gpu if isinstance(self.gpu, Exception) else _attempt(self.gpu.stop)
        peak = _attempt(lambda: torch.cuda.max_memory_allocated(self.device) / 1e6)
        peak_mb = 0.0 if isinstance(peak, Exception) else peak
        if isinstance(kwh, Exception):
            return 0.0, peak_mb, f"; {self.device.type} not metered, its energy is missing ({kwh})", False
        return kwh, peak_mb, "; gpu measured by NVML counter (whole device)", True

    def _stop_hardware(self, seconds: float, peak_mb: float) -> tuple[float, float, str, bool]:
        """Return the kWh of processor and memory, the method in words, and whether all of it was metered."""
        readings = self.hardware if isinstance(self.hardware, Exception) else _attempt(self.hardware.stop)
        if not isinstance(readings, Exception):
            return readings
        cpu_kwh = WATTS_PER_BUSY_CORE * (sum(os.times()[:4]) - self.cpu_seconds) / JOULES_PER_KWH
        ram_kwh = WATTS_PER_GB * peak_mb / 1000 * seconds / JOULES_PER_KWH
        absent = isinstance(readings, ImportError) and readings.name == "codecarbon"
        cause = "is not installed" if absent else f"failed: {readings!r}"
        rates = f"{WATTS_PER_BUSY_CORE:g} W per busy core and {WATTS_PER_GB:g} W per GB of peak memory"
        return cpu_kwh, ram_kwh, f"estimated at {rates} (codecarbon {cause})", False


@contextmanager
def measure(grid: str | float | None = None, device: torch.device | str = "cpu") -> Iterator[Meter]:
    """Measure the block; `footprint` of the meter is set when the block ends, also when it raises.

    `grid` is what grid_intensity reads. `device` is where the block computes: a CUDA device is metered too.
    Of two blocks where one holds the other, the outer one's peak memory starts again with the inner one.
    """
    meter = Meter(grid, device)
    try:
        yield meter
    finally:
        meter.stop()


def grid_intensity(grid: str | float | None = None) -> tuple[float, str]:
    """Return grams of CO2 per kWh and their source: 'given', a country such as 'FRA', or 'world average'.

    `grid` is that number, an ISO country code of two or three letters, or 'world'; None asks the environment
    variable PROCRUSTES_GRID and, where that is not set, the world.
    """
    text = str(os.environ.get("PROCRUSTES_GRID") or "world" if grid is None else grid).strip()
    if text.lower() in ("world", "world average"):
        return WORLD_G_PER_KWH, "world average"
    try:
        grams = float(text)
    except ValueError:
        return _country_intensity(text)
    if not math.isfinite(grams) or grams < 0:
        raise InputError(f"grid {text}: expected grams of CO2 per kWh, a number from 0 up such as 56")
    return grams, "given"


def _country_intensity(code: str) -> tuple[float, str]:
    """Look a country up in codecarbon's table, without importing codecarbon."""
    package = importlib.util.find_spec("codecarbon")
    if package is None or not package.submodule_search_locations:
        raise InputError(
            f"grid {code!r}: the figures of countries come with codecarbon, which is not installed; "
            "install it, or give a number of grams of CO2 per kWh"
        )
    table = Path(package.submodule_search_locations[0], "data", "private_infra", "global_energy_mix.json")
    countries = json.loads(table.read_text(encoding="utf-8"))
    letters = code.upper()
    with suppress(ImportError):  # without it, codes of three letters alone
        import pycountry

        letters = getattr(pycountry.countries.get(alpha_2=letters), "alpha_3", letters)
    if letters not in countries:
        raise InputError(
            f"grid {code!r} is not known; expected grams of CO2 per kWh (such as 56), "
            "an ISO country code (such as FRA or FR) or 'world'"
        )
    return float(countries[letters]["carbon_intensity"]), letters


class _Hardware:
    """Codecarbon's meters of processor and memory, read now and then by a thread of their own.

    A first and a last reading would not do: energy counters wrap around and child processes end. The load is
    that of this process and its children: nobody else's work on a shared machine is charged to the block.
    """

    def __init__(self) -> None:
        # CPU, RAM or GPU, which is read elsewhere; a chip that codecarbon meters in pieces names its part.
        named = [(getattr(part, "chip_part", type(part).__name__), part) for part in _detect_hardware()]
        self.parts = [(name, part) for name, part in named if name in ("CPU", "RAM")]
        self.kwh = {"CPU": 0.0, "RAM": 0.0}
        self.error: Exception | None = None
        self.ended = threading.Event()
        for _, part in self.parts:
            part.start()
        self.last = time.perf_counter()
        self.thread = threading.Thread(target=self._watch, name="footprint", daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        pause = SHORTEST_PAUSE
        while self.error is None and not self.ended.wait(pause):
            self.error = _attempt(self._read)
            pause = max(SHORTEST_PAUSE, PAUSE_PER_READING * (time.perf_counter() - self.last))

    def _read(self) -> None:
        now = time.perf_counter()
        duration, self.last = now - self.last, now
        for name, part in self.parts:
            _, energy = part.measure_power_and_energy(last_duration=duration)
            self.kwh[name] += energy.kWh

    def stop(self) -> tuple[float, float, str, bool]:
        """Return the kWh of processor and memory, the method in words, and whether all of it was metered."""
        self.ended.set()
        self.thread.join()
        if self.error:
            raise self.error
        self._read()
        described = {name: _describe(name, part) for name, part in self.parts}
        (cpu_words, cpu_metered), (ram_words, ram_metered) = described["CPU"], described["RAM"]
        cpu_kwh, ram_kwh = self.kwh["CPU"], self.kwh["RAM"]
        # Some virtual machines show a counter that stands still.
        if not (cpu_kwh >= 0 and ram_kwh >= 0) or (cpu_metered and cpu_kwh == 0):
            raise RuntimeError(f"it counted {self.kwh} kWh")
        method = f"codecarbon {importlib.metadata.version('codecarbon')}: {cpu_words}, {ram_words}"
        return cpu_kwh, ram_kwh, method, cpu_metered and ram_metered


def _describe(name: str, part: Any) -> tuple[str, bool]:
    """Say in words how codecarbon reads a part, and whether what it reads is a meter."""
    mode = getattr(part, "_mode", "")
    if mode in ("cpu_load", "constant"):
        return f"cpu estimated from the load of this process and a rated {part._tdp:g} W", False
    if type(part).__name__ == "RAM":
        return "memory estimated from its size", False
    return f"{name.lower()} measured by {mode.replace('_', ' ') or type(part).__name__} (whole machine)", True


def _detect_hardware() -> list[Any]:
    """Return the parts of this machine as codecarbon finds them, without a word, a file or a connection."""
    logger = logging.getLogger("codecarbon")
    muted, logger.disabled = logger.disabled, True  # it logs while it is imported, before log_level is heard
    try:
        with warnings.catch_warnings(action="ignore"):
            from codecarbon import OfflineEmissionsTracker

            _attempt(_introduce_processor)
            # All of this is said because a user's own settings of codecarbon may say otherwise.
            tracker = OfflineEmissionsTracker(
                tracking_mode="process",
                output_methods=[],
                emissions_endpoint=None,
                output_dir=tempfile.gettempdir(),
                log_level="critical",
                allow_multiple_runs=True,
                pue=1.0,
            )
            # Never started: its threads would sample every second at any cost, and print what goes wrong.
            tracker.get_detected_hardware()
            return list(tracker._hardware)
    finally:
        logger.disabled = muted


def _introduce_processor() -> None:
    """Tell codecarbon the processor's name, as Linux gives it, and the rated power that its own table holds.

    By itself it asks py-cpuinfo for the name, which starts another Python and takes over a second, and reads
    the table by pandas, whose 70 MB would count in the peak memory of the block. If this fails, it does so.
    """
    cpuinfo: Any = import_module("cpuinfo")
    cpu: Any = import_module("codecarbon.core.cpu")
    answer, asked = {"brand_raw": _processors()[0]}, cpuinfo.get_cpu_info
    cpuinfo.get_cpu_info = lambda: answer
    try:
        cpu.detect_cpu_model()  # remembers its answer
    finally:
        cpuinfo.get_cpu_info = asked

    def rated_watts(name: str) -> float | None:
        table = Path(cpu.__file__).parents[1] / "data" / "hardware" / "cpu_power.csv"
        with table.open(encoding="utf-8", newline="") as file:
            watts = {row["Name"]: row["TDP"] for row in csv.DictReader(file)}
        match = rated._get_matching_cpu(name, {"Name": list(watts)})
        return float(watts[match]) if match else None

    rated = cpu.TDP.__new__(cpu.TDP)
    rated._get_cpu_power_from_registry = rated_watts
    rated.__init__()
    cache: Any = import_module("codecarbon.core.hardware_cache")
    cache._tdp = rated


def _processors() -> list[str]:
    """Return the name of each processor core, as Linux gives it."""
    return re.findall(r"^model name\s*: *(.*\S)", Path("/proc/cpuinfo").read_text(), flags=re.MULTILINE)


def processor_name() -> str:
    """Return the name of this machine's processor and how many cores it has."""
    cores = _attempt(_processors)
    if isinstance(cores, Exception) or not cores:
        return platform.processor() or platform.machine()
    return f"{cores[0]}, {len(cores)} cores"


class _GpuCounter:
    """NVML's count of the energy that a CUDA device has used since its driver was loaded."""

    def __init__(self, device: torch.device) -> None:
        if device.type != "cuda":
            raise NotImplementedError("it has no energy counter that we know")
        self.nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        # By UUID, since CUDA_VISIBLE_DEVICES renumbers the devices for CUDA and not for NVML.
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}".encode()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByUUID", uuid, ctypes.byref(self.handle))
        self.joules = self._read()

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.nvml, name)(*arguments)
        if status != 0:
            raise OSError(f"{name} answered {status}")

    def _read(self) -> float:
        millijoules = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(millijoules))
        return millijoules.value / 1000

    def stop(self) -> float:
        """Return the kWh used since the making of this counter."""
        return (self._read() - self.joules) / JOULES_PER_KWH


def _peak_memory() -> float:
    """Return the peak of this process in MB: since its last reset on Linux, of its whole life elsewhere."""
    with suppress(OSError, IndexError):
        status = Path("/proc/self/status").read_text()
        return int(re.findall(r"^VmHWM:\s+(\d+) kB", status, flags=re.MULTILINE)[0]) * 1024 / 1e6
    with suppress(ImportError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return 0.0  # Windows has no such module


def _attempt(step: Callable[[], Result]) -> Result | Exception:
    """Return what the step returns, or the exception that it raised: no meter may stop a training."""
    try:
        return step()
    except Exception as error:
        return error
