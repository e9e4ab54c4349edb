import ctypes
import json
import os
import sys
import threading
import time
import types
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.system import footprint
from procrustes_kge.system.footprint import WORLD_G_PER_KWH, Footprint, grid_intensity, measure


@pytest.fixture(autouse=True)
def no_grid_from_outside(monkeypatch):
    monkeypatch.delenv("PROCRUSTES_GRID", raising=False)


def assert_adds_up(result: Footprint) -> None:
    assert result.kwh == result.cpu_kwh + result.gpu_kwh + result.ram_kwh
    assert min(result.cpu_kwh, result.gpu_kwh, result.ram_kwh) >= 0
    assert result.kwh > 0
    assert result.g_co2 == result.kwh * result.grid_g_per_kwh


def with_sampling(monkeypatch) -> None:
    monkeypatch.setattr(footprint, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(footprint, "PAUSE_PER_READING", 0)


class Part:
    """A part of a machine that uses 36 kW."""

    def __init__(self, chip_part: str, mode: str, kilowatts: float = 36.0) -> None:
        self.chip_part, self._mode, self.kilowatts = chip_part, mode, kilowatts

    def start(self) -> None:
        pass

    def measure_power_and_energy(self, last_duration: float) -> tuple[None, types.SimpleNamespace]:
        return None, types.SimpleNamespace(kWh=self.kilowatts * last_duration / 3600)


# what is measured


def test_a_block_has_its_seconds_and_some_energy():
    with measure(grid=100) as meter:
        time.sleep(0.3)
    assert meter.footprint.seconds >= 0.3
    assert meter.footprint.method.startswith("codecarbon")
    assert meter.footprint.peak_memory_mb > 0
    assert meter.footprint.gpu_kwh == meter.footprint.gpu_peak_memory_mb == 0
    assert_adds_up(meter.footprint)


def test_a_block_that_works_costs_more_of_the_processor_than_one_that_sleeps():
    with measure() as asleep:
        time.sleep(0.3)
    with measure() as awake:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    if "load of this process" not in asleep.footprint.method:
        pytest.skip("the counter of this machine counts the work of others too")
    assert awake.footprint.cpu_kwh > asleep.footprint.cpu_kwh


def test_readings_during_the_block_cover_all_of_it_once(monkeypatch):
    with_sampling(monkeypatch)
    monkeypatch.setattr(footprint, "_detect_hardware", lambda: [Part("CPU", "intel_rapl"), Part("RAM", "rails")])
    before = time.perf_counter()
    with measure() as meter:
        time.sleep(0.3)
    after = time.perf_counter()
    assert meter.footprint.seconds <= meter.footprint.cpu_kwh * 3600 / 36 <= after - before


def test_the_thread_of_the_meter_ends_with_the_block():
    with measure():
        assert "footprint" in [thread.name for thread in threading.enumerate()]
    assert "footprint" not in [thread.name for thread in threading.enumerate()]


def test_the_footprint_is_json():
    with measure() as meter:
        pass
    fields = meter.footprint.as_dict()
    assert Footprint(**json.loads(json.dumps(fields))) == meter.footprint


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux resets the peak")
def test_peak_memory_sees_what_the_block_holds_and_not_what_was_freed_before():
    with measure() as warm:  # everything that measuring itself loads is loaded by now
        pass
    before = torch.ones(50_000_000)  # 200 MB
    del before
    with measure() as empty:
        pass
    with measure() as full:
        torch.ones(50_000_000)
    assert empty.footprint.peak_memory_mb < warm.footprint.peak_memory_mb + 100
    assert full.footprint.peak_memory_mb > empty.footprint.peak_memory_mb + 150


def test_measuring_prints_nothing_and_leaves_no_file(monkeypatch, tmp_path, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with measure("FRA"):
        time.sleep(0.1)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_measuring_opens_no_connection(monkeypatch):
    def refuse(*_: object) -> None:
        pytest.fail("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setenv("CODECARBON_EMISSIONS_ENDPOINT", "http://localhost:1")
    monkeypatch.setenv("CODECARBON_OUTPUT_METHODS", "api")
    with measure() as meter:
        pass
    assert meter.footprint.method.startswith("codecarbon")


# what goes wrong


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, StopIteration])
def test_an_error_of_the_block_passes_and_the_footprint_is_there(error):
    raised = error("mine")
    with pytest.raises(error) as caught, measure() as meter:
        raise raised
    assert caught.value is raised
    assert_adds_up(meter.footprint)


def assert_estimated(result: Footprint, cause: str) -> None:
    assert result.estimated
    assert result.method.startswith("estimated at")
    assert cause in result.method
    assert_adds_up(result)


def test_without_codecarbon_there_is_an_estimate_that_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with measure() as meter:
        time.sleep(0.01)
    assert_estimated(meter.footprint, "codecarbon is not installed")


def test_the_estimate_charges_busy_cores_and_memory(monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    monkeypatch.setattr(footprint, "_peak_memory", lambda: 2000.0)
    spent = iter([(1.0, 0.0, 0.0, 0.0, 0.0), (2.0, 1.0, 3.0, 0.0, 9.0)])  # five seconds, three of them children's
    monkeypatch.setattr(os, "times", lambda: next(spent))
    with measure() as meter:
        pass
    assert meter.footprint.cpu_kwh == pytest.approx(footprint.WATTS_PER_BUSY_CORE * 5 / 3.6e6)
    seconds = meter.footprint.seconds
    assert meter.footprint.ram_kwh == pytest.approx(footprint.WATTS_PER_GB * 2 * seconds / 3.6e6)


def broken(*_: object, **__: object) -> None:
    raise OSError("broken on purpose")


@pytest.mark.parametrize(
    "step",
    [
        "codecarbon.OfflineEmissionsTracker",
        "codecarbon.external.hardware.CPU.start",
        "codecarbon.external.hardware.CPU.measure_power_and_energy",
    ],
)
@pytest.mark.parametrize("seconds", [0, 0.1])  # at the end of the block, or already during it
def test_when_codecarbon_breaks_there_is_an_estimate_that_says_why(monkeypatch, capfd, step, seconds):
    with_sampling(monkeypatch)
    monkeypatch.setattr(step, broken)
    with measure() as meter:
        time.sleep(seconds)
    assert_estimated(meter.footprint, "broken on purpose")
    assert capfd.readouterr() == ("", "")


def test_codecarbon_by_itself_finds_the_same_processor(monkeypatch):
    from codecarbon.core import hardware_cache, util

    introduced = [getattr(part, "_tdp", None) for part in footprint._detect_hardware()]
    hardware_cache.clear_cache()
    util.detect_cpu_model.cache_clear()
    monkeypatch.setattr(footprint, "_introduce_processor", broken)
    assert [getattr(part, "_tdp", None) for part in footprint._detect_hardware()] == introduced


def test_counters_are_read_and_named_and_a_gpu_of_codecarbon_is_left_out(monkeypatch):
    parts = [Part("RAM", "dram_rails"), Part("GPU", "any"), Part("CPU", "intel_rapl")]
    monkeypatch.setattr(footprint, "_detect_hardware", lambda: parts)
    with measure() as meter:
        time.sleep(0.05)
    words = "cpu measured by intel rapl (whole machine), ram measured by dram rails (whole machine)"
    assert meter.footprint.method.endswith(words)
    assert not meter.footprint.estimated
    assert meter.footprint.cpu_kwh == meter.footprint.ram_kwh >= 0.05 * 36 / 3600
    assert meter.footprint.gpu_kwh == 0


@pytest.mark.parametrize("kilowatts", [0.0, -1.0, float("nan")])
def test_a_counter_that_stands_still_or_runs_backwards_is_not_believed(monkeypatch, kilowatts):
    parts = [Part("RAM", "dram_rails"), Part("CPU", "intel_rapl", kilowatts)]
    monkeypatch.setattr(footprint, "_detect_hardware", lambda: parts)
    with measure() as meter:
        time.sleep(0.01)
    assert_estimated(meter.footprint, "it counted")


# the GPU


class FakeNvml:
    """A library of one GPU whose counter grows by 7.2 kJ at each reading."""

    def __init__(self, uuid: bytes, unsupported: bool = False) -> None:
        self.uuid, self.unsupported, self.millijoules = uuid, unsupported, 5_000

    def nvmlInit_v2(self) -> int:  # noqa: N802 (NVML's name)
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid, handle) -> int:  # noqa: N802
        handle._obj.value = 42
        return 0 if uuid == self.uuid else 6

    def nvmlDeviceGetTotalEnergyConsumption(self, handle, millijoules) -> int:  # noqa: N802
        assert handle.value == 42
        self.millijoules += 7_200_000
        millijoules._obj.value = self.millijoules
        return 3 if self.unsupported else 0


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(uuid="ab-cd"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 3_000_000)


def test_the_counter_of_the_gpu_is_read_before_and_after(monkeypatch, cuda):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: FakeNvml(b"GPU-ab-cd"))
    with measure(device="cuda:1") as meter:
        pass
    assert meter.footprint.gpu_kwh == pytest.approx(7200 / 3.6e6)
    assert meter.footprint.gpu_peak_memory_mb == 3
    assert meter.footprint.method.endswith("; gpu measured by NVML counter (whole device)")
    assert_adds_up(meter.footprint)


@pytest.mark.parametrize("nvml", [FakeNvml(b"GPU-other"), FakeNvml(b"GPU-ab-cd", unsupported=True), None])
def test_a_gpu_that_cannot_be_metered_is_said_to_be_missing(monkeypatch, cuda, nvml):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: nvml or broken())
    with measure(device="cuda") as meter:
        pass
    assert meter.footprint.gpu_kwh == 0
    assert meter.footprint.gpu_peak_memory_mb == 3
    assert "; cuda not metered, its energy is missing" in meter.footprint.method
    assert meter.footprint.estimated


@pytest.mark.parametrize("device", ["cuda:99", "mps"])
def test_a_device_that_is_not_there_does_not_stop_the_block(device):
    with measure(device=device) as meter:
        pass
    assert "not metered" in meter.footprint.method
    assert meter.footprint.gpu_peak_memory_mb == 0


# the grid


def test_the_world_is_the_default_and_can_be_named():
    assert grid_intensity(None) == grid_intensity("world") == (WORLD_G_PER_KWH, "world average")
    assert grid_intensity("World average") == (WORLD_G_PER_KWH, "world average")


@given(grams=st.floats(min_value=0, allow_infinity=False))
def test_a_number_is_taken_as_given(grams):
    assert grid_intensity(grams) == grid_intensity(str(grams)) == (grams, "given")


def test_a_country_is_known_by_two_letters_and_by_three():
    assert grid_intensity("FRA") == grid_intensity("fr") == grid_intensity(" Fra ")
    grams, name = grid_intensity("FRA")
    assert name == "FRA"
    assert 0 < grams < grid_intensity("POL")[0]


def test_the_environment_is_asked_when_nothing_is_given(monkeypatch):
    monkeypatch.setenv("PROCRUSTES_GRID", "12.5")
    assert grid_intensity(None) == (12.5, "given")
    assert grid_intensity(3) == (3.0, "given")
    monkeypatch.setenv("PROCRUSTES_GRID", "DEU")
    assert grid_intensity(None)[1] == "DEU"
    monkeypatch.setenv("PROCRUSTES_GRID", "")
    assert grid_intensity(None)[1] == "world average"


@pytest.mark.parametrize("grid", [-1, "-0.5", float("nan"), "nan", float("inf")])
def test_a_number_that_cannot_be_says_what_is_expected(grid):
    with pytest.raises(InputError, match="a number from 0 up"):
        grid_intensity(grid)


@pytest.mark.parametrize("grid", ["XYZ", "XX", "France", "", "56 g"])
def test_an_unknown_grid_says_what_is_accepted(grid):
    with pytest.raises(InputError, match=r"such as 56\), an ISO country code \(such as FRA or FR\) or 'world'"):
        grid_intensity(grid)


def test_a_wrong_grid_is_refused_before_the_block_runs():
    with pytest.raises(InputError), measure("XYZ"):
        pytest.fail("the block ran")


def test_countries_need_codecarbon_and_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with pytest.raises(InputError, match="come with codecarbon, which is not installed; install it, or give"):
        grid_intensity("FRA")
    assert grid_intensity("56") == (56.0, "given")


def test_two_letters_need_pycountry_and_three_do_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycountry", None)
    assert grid_intensity("FRA")[1] == "FRA"
    with pytest.raises(InputError):
        grid_intensity("FR")
