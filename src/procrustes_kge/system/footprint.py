"""What a training costs: seconds, peak memory, energy and CO2, measured from the outside.

Energy counters are read where the machine has them; the rest is estimated, and the footprint says so. A meter that
fails never disturbs the measured block.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from procrustes_kge.errors import InputError
from procrustes_kge.system.energy import GpuCounter, RaplCounters
from procrustes_kge.system.extras import how_to_get, package
from procrustes_kge.system.machine import peak_memory_mb, restart_peak_memory

WORLD_G_PER_KWH = 473.0  # all electricity of 2024, as CO2 equivalent: Ember, Global Electricity Review 2025
# Rated watts over cores are 4.4 for an EPYC 7763, 6.6 for a Ryzen 5950X, 9.4 for a Xeon 8375C.
WATTS_PER_BUSY_CORE = 7.0
WATTS_PER_GB = 0.375  # 3 W for a module of 8 GB
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

    def after(self, seconds: float) -> Footprint:
        """Return the cost with seconds before, taken to be like the rest: nothing but their number is known."""
        if not seconds:
            return self
        times = (self.seconds + seconds) / max(self.seconds, 1e-9)
        parts = {name: times * getattr(self, name) for name in ("kwh", "cpu_kwh", "gpu_kwh", "ram_kwh", "g_co2")}
        method = f"{self.method}; {seconds:.1f} s before a stop taken to be like the rest"
        return replace(self, seconds=self.seconds + seconds, method=method, estimated=True, **parts)

    def as_dict(self) -> dict[str, float | str | bool]:
        """Return the fields by name, ready for JSON."""
        return asdict(self)


class Energy(NamedTuple):
    """What one part of the machine used, how that is known in words, and whether it was measured."""

    kwh: float
    words: str
    measured: bool


class Meter:
    """Measures from its making until stop, which sets `footprint`."""

    footprint: Footprint

    def __init__(self, grid: str | float | None, device: torch.device | str) -> None:
        self.intensity, self.grid = grid_intensity(grid)
        self.device, self.problems = torch.device(device), list[str]()
        self.on_cuda = self.device.type == "cuda" and (self.device.index or 0) < torch.cuda.device_count()
        self._on_gpu("peak memory of the GPU", torch.cuda.reset_peak_memory_stats)
        self._on_gpu("waiting for the GPU", torch.cuda.synchronize)  # work queued so far belongs to others
        self.gpu = None
        if self.device.type != "cpu":
            self.gpu = self._attempt(f"energy counter of {self.device}", lambda: GpuCounter(self.device))
        self.machine = self._attempt("energy counter of the processor", RaplCounters)
        self._attempt("peak memory (of the whole process instead)", restart_peak_memory)
        self.cpu_seconds = _cpu_seconds()
        self.started = time.perf_counter()

    def stop(self) -> None:
        """Read every meter and set `footprint`."""
        self._on_gpu("waiting for the GPU", torch.cuda.synchronize)  # work still queued belongs to the block
        seconds, peak = time.perf_counter() - self.started, peak_memory_mb()
        counted = self._attempt("energy counter of the processor", self.machine.stop) if self.machine else None
        joules = counted or {"cpu": 0.0, "ram": 0.0}
        if counted and not joules["cpu"]:  # as some virtual machines show
            self.problems.append("energy counter of the processor: it does not count")
        busy = WATTS_PER_BUSY_CORE * (_cpu_seconds() - self.cpu_seconds)
        cpu = _energy("cpu", joules["cpu"], busy, f"{WATTS_PER_BUSY_CORE:g} W per busy core")
        held = WATTS_PER_GB * peak / 1000 * seconds
        ram = _energy("memory", joules["ram"], held, f"{WATTS_PER_GB:g} W per GB of its peak")
        gpu = self._gpu()
        parts = [part for part in (cpu, ram, gpu) if part.words]
        kwh = cpu.kwh + gpu.kwh + ram.kwh
        gpu_peak = self._on_gpu("peak memory of the GPU", torch.cuda.max_memory_allocated)
        self.footprint = Footprint(
            seconds=seconds,
            kwh=kwh,
            cpu_kwh=cpu.kwh,
            gpu_kwh=gpu.kwh,
            ram_kwh=ram.kwh,
            g_co2=kwh * self.intensity,
            peak_memory_mb=peak,
            gpu_peak_memory_mb=(gpu_peak or 0) / 1e6,
            grid_g_per_kwh=self.intensity,
            grid=self.grid,
            method="; ".join([", ".join(part.words for part in parts), *self.problems]),
            estimated=not all(part.measured for part in parts),
        )

    def _gpu(self) -> Energy:
        if self.device.type == "cpu":
            return Energy(0.0, "", True)
        joules = self._attempt(f"energy counter of {self.device}", self.gpu.stop) if self.gpu else None
        if joules is None:
            return Energy(0.0, f"energy of {self.device} is missing", False)
        return Energy(joules / JOULES_PER_KWH, "gpu measured by NVML (whole device)", True)

    def _on_gpu(self, what: str, step: Callable[[torch.device], Result]) -> Result | None:
        return self._attempt(what, lambda: step(self.device)) if self.on_cuda else None

    def _attempt(self, what: str, step: Callable[[], Result]) -> Result | None:
        """Return what a step returns; None where it fails, and `method` says why: no meter may stop a training."""
        try:
            return step()
        except Exception as error:
            self.problems.append(f"{what}: {error}")
            return None


def _energy(part: str, joules: float, estimate: float, rule: str) -> Energy:
    if joules:
        return Energy(joules / JOULES_PER_KWH, f"{part} measured by RAPL (whole machine)", True)
    return Energy(estimate / JOULES_PER_KWH, f"{part} estimated at {rule}", False)


def _cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


@contextmanager
def measure(grid: str | float | None = None, device: torch.device | str = "cpu") -> Iterator[Meter]:
    """Measure a block of code; the meter's `footprint` is set when the block ends, even by an exception.

    `grid` is passed to `grid_intensity`. `device` is where the block computes; a CUDA device is metered too. If blocks
    are nested, the peak memory of the outer one starts again with the inner one.
    """
    meter = Meter(grid, device)
    try:
        yield meter
    finally:
        meter.stop()


def grid_intensity(grid: str | float | None = None) -> tuple[float, str]:
    """Return grams of CO2 per kWh and their source: 'given', a country such as 'FRA', or 'world average'.

    `grid` is such a number, an ISO country code of two or three letters, or 'world'. None means the environment
    variable PROCRUSTES_GRID or, if that is not set, the world average. If the figures of countries are not installed,
    a country of the environment stops no training: it is the world average then, and the source says why.
    """
    text = str(os.environ.get("PROCRUSTES_GRID") or "world" if grid is None else grid).strip()
    if text.lower() in ("world", "world average"):
        return WORLD_G_PER_KWH, "world average"
    try:
        grams = float(text)
    except ValueError:
        if grid is None and not _country_table():
            return WORLD_G_PER_KWH, f"world average; {text} needs {how_to_get('codecarbon')}"
        return _country_intensity(text)
    if not math.isfinite(grams) or grams < 0:
        raise InputError(f"grid {text}, expected grams of CO2 per kWh, a number of at least 0 such as 56")
    return grams, "given"


def _country_table() -> Path | None:
    """Return codecarbon's table of countries, found without importing codecarbon; None where it is not installed."""
    found = importlib.util.find_spec("codecarbon")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0], "data", "private_infra", "global_energy_mix.json")


def _country_intensity(code: str) -> tuple[float, str]:
    """Look a country up in codecarbon's table."""
    table = _country_table()
    if table is None:
        remedy = f"{how_to_get('codecarbon')}, or give grams of CO2 per kWh, such as 56"
        raise InputError(f"grid {code!r}: the figure of a country needs codecarbon: {remedy}")
    countries = json.loads(table.read_text(encoding="utf-8"))
    letters = code.upper()
    if len(letters) == 2:
        pycountry = package("pycountry", f"grid {code!r}: a code of two letters")
        letters = getattr(pycountry.countries.get(alpha_2=letters), "alpha_3", letters)
    if letters not in countries:
        expected = "grams of CO2 per kWh (such as 56), an ISO country code (such as FRA or FR) or world"
        raise InputError(f"unknown grid {code!r}, expected {expected}")
    return float(countries[letters]["carbon_intensity"]), letters
