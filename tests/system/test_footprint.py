import ctypes
import json
import os
import sys
import threading
import time
import types
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.system import energy, footprint
from procrustes_kge.system.energy import RaplCounters
from procrustes_kge.system.footprint import WORLD_G_PER_KWH, Footprint, grid_intensity, measure


@pytest.fixture(autouse=True)
def no_grid_from_outside(monkeypatch):
    monkeypatch.delenv("PROCRUSTES_GRID", raising=False)


def assert_adds_up(result: Footprint) -> None:
    assert result.kwh == result.cpu_kwh + result.gpu_kwh + result.ram_kwh
    assert min(result.cpu_kwh, result.gpu_kwh, result.ram_kwh) >= 0
    assert result.kwh > 0
    assert result.g_co2 == result.kwh * result.grid_g_per_kwh


# what is measured


def test_a_block_has_its_seconds_and_some_energy():
    with measure(grid=100) as meter:
        time.sleep(0.3)
    assert meter.footprint.seconds >= 0.3
    assert meter.footprint.peak_memory_mb > 0
    assert meter.footprint.gpu_kwh == meter.footprint.gpu_peak_memory_mb == 0
    assert_adds_up(meter.footprint)


@pytest.mark.slow
def test_a_block_that_works_costs_more_of_the_processor_than_one_that_sleeps(no_counter):
    with measure() as asleep:
        time.sleep(0.3)
    with measure() as awake:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    assert awake.footprint.cpu_kwh > asleep.footprint.cpu_kwh


def test_no_thread_outlives_the_block(powercap):
    before = threading.active_count()
    with measure():
        pass
    assert threading.active_count() == before


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
    with measure("FRA"):
        pass


# what goes wrong


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, StopIteration])
def test_an_error_of_the_block_passes_and_the_footprint_is_there(error):
    raised = error("mine")
    with pytest.raises(error) as caught, measure() as meter:
        raise raised
    assert caught.value is raised
    assert_adds_up(meter.footprint)


def test_a_peak_that_cannot_begin_again_is_said(monkeypatch):
    monkeypatch.setattr(footprint, "restart_peak_memory", broken)
    with measure() as meter:
        pass
    assert "peak memory (of the whole process instead): broken on purpose" in meter.footprint.method
    assert meter.footprint.peak_memory_mb > 0


# counters of the processor and of memory


@pytest.fixture
def no_counter(monkeypatch, tmp_path):
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)


class Powercap:
    """A folder of counters as Linux shows them."""

    def __init__(self, folder):
        self.folder, self.full = folder, 1_000_000_000

    def count(self, zone, microjoules, name=None):
        place = self.folder / zone
        place.mkdir(exist_ok=True)
        (place / "energy_uj").write_text(f"{microjoules}\n")
        (place / "max_energy_range_uj").write_text(f"{self.full}\n")
        if name is not None:
            (place / "name").write_text(f"{name}\n")


@pytest.fixture
def powercap(monkeypatch, tmp_path):
    """Two processors, one with a counter of memory, and what must not be counted twice."""
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    shown = Powercap(tmp_path)
    shown.count("intel-rapl:0", 100, "package-0")
    shown.count("intel-rapl:0:0", 100, "core")
    shown.count("intel-rapl:0:1", 100, "dram")
    shown.count("intel-rapl:1", 100, "package-1")
    shown.count("intel-rapl:2", 100, "psys")
    shown.count("intel-rapl-mmio:0", 100, "package-0")
    return shown


def spend(powercap, joules):
    for zone in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl:2"):
        powercap.count(zone, round(100 + joules * 1e6))


def test_counters_are_read_and_named_and_nothing_is_counted_twice(powercap):
    with measure() as meter:
        spend(powercap, 360)
    assert meter.footprint.cpu_kwh == pytest.approx(2 * 360 / 3.6e6)
    assert meter.footprint.ram_kwh == pytest.approx(360 / 3.6e6)
    assert meter.footprint.method == "cpu measured by RAPL (whole machine), memory measured by RAPL (whole machine)"
    assert not meter.footprint.estimated
    assert_adds_up(meter.footprint)


@given(spent=st.lists(st.integers(0, 999_999_999), min_size=1, max_size=10))
def test_a_counter_that_comes_round_is_read_through(spent, tmp_path_factory):
    powercap = Powercap(tmp_path_factory.mktemp("powercap"))
    powercap.count("intel-rapl:0", 123, "package-0")
    with patch.object(energy, "POWERCAP", powercap.folder):
        counters = RaplCounters()
    shown = 123
    for microjoules in spent:
        shown = (shown + microjoules) % powercap.full
        powercap.count("intel-rapl:0", shown)
        counters._read()
    assert counters.stop() == {"cpu": sum(spent) / 1e6, "ram": 0}


def test_counters_are_read_during_the_block(powercap, monkeypatch):
    monkeypatch.setattr(energy, "PAUSE", 0.001)
    read = threading.Event()
    counters = RaplCounters()
    monkeypatch.setattr(counters, "_read", read.set)
    assert read.wait(30)
    counters.stop()


def assert_estimated(result: Footprint, cause: str) -> None:
    assert result.estimated
    assert "cpu estimated at" in result.method
    assert "memory estimated at" in result.method
    assert f"energy counter of the processor: {cause}" in result.method
    assert_adds_up(result)


def test_without_a_counter_there_is_an_estimate_that_says_so(no_counter):
    with measure() as meter:
        time.sleep(0.01)
    assert_estimated(meter.footprint, "this machine has none")


def test_a_counter_of_processors_alone_leaves_memory_to_be_estimated(powercap):
    powercap.count("intel-rapl:0:1", 100, "uncore")
    with measure() as meter:
        spend(powercap, 1)
    assert meter.footprint.method.startswith("cpu measured by RAPL (whole machine), memory estimated at 0.375 W per GB")
    assert meter.footprint.estimated


def test_the_estimate_charges_busy_cores_and_memory(monkeypatch, no_counter):
    monkeypatch.setattr(footprint, "peak_memory_mb", lambda: 2000.0)
    own, children = iter([1.0, 3.0]), iter([(7.0, 7.0, 0.0, 0.0, 0.0), (8.0, 8.0, 2.0, 1.0, 9.0)])
    monkeypatch.setattr(time, "process_time", lambda: next(own))
    monkeypatch.setattr(os, "times", lambda: next(children))
    with measure() as meter:
        pass
    assert meter.footprint.cpu_kwh == pytest.approx(footprint.WATTS_PER_BUSY_CORE * 5 / 3.6e6)
    seconds = meter.footprint.seconds
    assert meter.footprint.ram_kwh == pytest.approx(footprint.WATTS_PER_GB * 2 * seconds / 3.6e6)


def broken(*_: object, **__: object) -> None:
    raise OSError("broken on purpose")


@pytest.mark.parametrize("step", ["__init__", "stop"])
def test_when_a_counter_breaks_there_is_an_estimate_that_says_why(monkeypatch, capfd, step, no_counter):
    monkeypatch.setattr(RaplCounters, "__init__", lambda _: None)
    monkeypatch.setattr(RaplCounters, step, broken)
    with measure() as meter:
        time.sleep(0.01)
    assert_estimated(meter.footprint, "broken on purpose")
    assert capfd.readouterr() == ("", "")


def test_a_counter_that_breaks_during_the_block_says_so_at_its_end(powercap, monkeypatch):
    monkeypatch.setattr(energy, "PAUSE", 0.001)
    with measure() as meter:
        (powercap.folder / "intel-rapl:1" / "energy_uj").unlink()
        meter.machine.thread.join(30)
        powercap.count("intel-rapl:1", 200)
    assert_estimated(meter.footprint, "[Errno 2] No such file")


def test_a_counter_that_stands_still_is_not_believed(powercap):
    with measure() as meter:
        time.sleep(0.01)
    assert_estimated(meter.footprint, "it does not count")


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
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
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
    assert ", gpu measured by NVML (whole device)" in meter.footprint.method
    assert_adds_up(meter.footprint)


@pytest.mark.parametrize("nvml", [FakeNvml(b"GPU-other"), FakeNvml(b"GPU-ab-cd", unsupported=True), None])
def test_a_gpu_that_cannot_be_metered_is_said_to_be_missing(monkeypatch, cuda, nvml):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: nvml or broken())
    with measure(device="cuda") as meter:
        pass
    assert meter.footprint.gpu_kwh == 0
    assert meter.footprint.gpu_peak_memory_mb == 3
    assert ", energy of cuda is missing" in meter.footprint.method
    assert "; energy counter of cuda: " in meter.footprint.method
    assert meter.footprint.estimated


@pytest.mark.parametrize("device", ["cuda:99", "mps"])
def test_a_device_that_is_not_there_does_not_stop_the_block(device):
    with measure(device=device) as meter:
        pass
    assert f"energy of {device} is missing" in meter.footprint.method
    assert f"energy counter of {device}: " in meter.footprint.method
    assert meter.footprint.gpu_peak_memory_mb == 0


def test_a_gpu_that_fails_to_end_its_work_is_said_and_stops_nothing(monkeypatch, cuda):
    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    with measure(device="cuda") as meter:
        pass
    assert "waiting for the GPU: broken on purpose" in meter.footprint.method


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
    with pytest.raises(InputError, match="a number of at least 0"):
        grid_intensity(grid)


@pytest.mark.parametrize("grid", ["XYZ", "XX", "France", "", "56 g"])
def test_an_unknown_grid_says_what_is_accepted(grid):
    with pytest.raises(InputError, match=r"such as 56\), an ISO country code \(such as FRA or FR\) or world"):
        grid_intensity(grid)


def test_a_wrong_grid_is_refused_before_the_block_runs():
    with pytest.raises(InputError), measure("XYZ"):
        pytest.fail("the block ran")


def test_countries_need_codecarbon_and_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with pytest.raises(InputError, match=r"needs codecarbon: pip install 'procrustes-kge\[co2\]', or give grams"):
        grid_intensity("FRA")
    assert grid_intensity("56") == (56.0, "given")


def test_without_codecarbon_a_country_of_the_environment_is_the_world_and_says_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    monkeypatch.setenv("PROCRUSTES_GRID", "FRA")
    with measure() as meter:
        pass
    assert meter.footprint.grid_g_per_kwh == WORLD_G_PER_KWH
    assert meter.footprint.grid == "world average; FRA needs pip install 'procrustes-kge[co2]'"


def test_two_letters_need_pycountry_and_three_do_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycountry", None)
    assert grid_intensity("FRA")[1] == "FRA"
    with pytest.raises(InputError, match=r"needs pycountry: pip install 'procrustes-kge\[co2\]'"):
        grid_intensity("FR")


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_what_came_before_a_stop_is_taken_to_be_like_the_rest(seconds):
    with measure(50) as meter:
        sum(range(10**6))
    alone, both = meter.footprint, meter.footprint.after(seconds)
    times = (alone.seconds + seconds) / alone.seconds
    for name in ("seconds", "kwh", "cpu_kwh", "ram_kwh", "g_co2"):
        assert getattr(both, name) == pytest.approx(times * getattr(alone, name))
    assert both.g_co2 == pytest.approx(50 * both.kwh)
    assert ("before a stop" in both.method) == (seconds > 0)
