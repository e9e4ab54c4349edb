"""What is said of the machine is said on every system."""

from pathlib import Path

import pytest
import torch

from procrustes_kge.system import machine
from procrustes_kge.system.machine import peak_memory_mb, processor_name, restart_peak_memory


@pytest.fixture
def linux(monkeypatch, tmp_path):
    """Stand in for what Linux shows: nothing, unless a test writes it."""
    monkeypatch.setattr(machine, "Path", lambda path: tmp_path / Path(path).name)
    return tmp_path


def test_the_processor_has_its_name_and_number_of_cores(linux):
    (linux / "cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: Fast 9000  \n\nprocessor\t: 1\nmodel name\t: Fast 9000\n"
    )
    assert processor_name() == "Fast 9000, 2 cores"


@pytest.mark.parametrize("text", [None, "processor\t: 0\nBogoMIPS\t: 50.00\n"])
def test_a_processor_without_a_name_is_called_by_its_kind(linux, text):
    if text is not None:
        (linux / "cpuinfo").write_text(text)
    assert processor_name()


def test_the_peak_holds_what_was_held_and_is_known_without_linux_too(linux):
    held = torch.ones(25_000_000)  # 100 MB
    assert peak_memory_mb() > held.nbytes / 1e6
    restart_peak_memory()
    assert peak_memory_mb() > 0
