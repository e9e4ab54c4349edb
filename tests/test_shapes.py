"""The shapes of every function are checked while the tests run, whatever room it is in."""

import pkgutil
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location

import pytest
import torch
from jaxtyping import TypeCheckError

import procrustes_kge

MODULES = [each.name for each in pkgutil.walk_packages(procrustes_kge.__path__, "procrustes_kge.")]
COMPILED = "procrustes_kge.kernels"  # Triton compiles kernels as they stand
SCRATCH = '''"""Add two vectors."""

from jaxtyping import Float
from torch import Tensor


def add(one: Float[Tensor, " n"], other: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    return one + other
'''


def is_checked(module):
    """Say whether a module was loaded by the hook that checks shapes."""
    return type(module.__spec__.loader).__module__.startswith("jaxtyping")


@pytest.mark.parametrize("name", [name for name in MODULES if not f"{name}.".startswith(f"{COMPILED}.")])
def test_every_module_is_checked(name):
    assert is_checked(import_module(name))


def test_no_room_is_without_modules():
    rooms = {name.split(".")[1] for name in MODULES}
    assert rooms >= {"cli", "bench", "runs", "training", "models", "kernels", "layouts", "graphs", "system", "linalg"}
    assert "procrustes_kge.models.baselines.embedded" in MODULES


def test_a_module_that_the_hook_missed_would_be_seen(tmp_path):
    (tmp_path / "scratch.py").write_text(SCRATCH)
    spec = spec_from_file_location("scratch", tmp_path / "scratch.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not is_checked(module)
    assert module.add(torch.ones(3), torch.ones(1)).shape == (3,)  # and no one would have said a word


@pytest.mark.parametrize("room", ["models", "models.baselines"])
def test_a_wrong_shape_in_a_new_module_of_a_room_is_refused(room, tmp_path, monkeypatch):
    (tmp_path / "scratch.py").write_text(SCRATCH)
    package = import_module(f"procrustes_kge.{room}")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    add = import_module(f"procrustes_kge.{room}.scratch").add
    del sys.modules[f"procrustes_kge.{room}.scratch"], package.scratch
    assert add(torch.ones(3), torch.ones(3)).shape == (3,)
    with pytest.raises(TypeCheckError):
        add(torch.ones(3), torch.ones(1))
