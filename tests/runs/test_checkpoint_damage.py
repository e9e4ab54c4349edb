"""Laws of a checkpoint with anything written into it: it is refused in a sentence, or the one before is used."""

import json
import shutil

import pytest
import torch

from folders import edit_tensors
from methods import METHODS, NOISY
from procrustes_kge.errors import DamagedFolderError, InputError
from procrustes_kge.runs import checkpoints
from procrustes_kge.runs.checkpoints import FACTS, FolderCheckpoints, read_checkpoint
from procrustes_kge.system.sealed import seal
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.recipes import learned

_, SETTINGS = METHODS["full batch"]


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """The checkpoints of a training that was stopped in its second part."""
    folder = tmp_path_factory.mktemp("master")
    kept = FolderCheckpoints(folder / "kept", "1")
    due = kept.due

    def stop(part, epoch):
        if part:
            kept.stop()
        return due(part, epoch)

    kept.due = stop
    with pytest.raises(Stopped):
        learned(NOISY, SETTINGS, checkpoints=kept)
    return folder / "kept"


@pytest.fixture
def kept(master, tmp_path):
    """A copy of them."""
    return shutil.copytree(master, tmp_path / "kept")


def last(kept):
    return max(kept.glob("checkpoint-*"))


def edit_facts(**changes):
    """Change what a checkpoint knows, by the last name of a path; what it knows of its stage too."""

    def edit(folder):
        content = json.loads((folder / FACTS).read_text())
        for known in (content, content["stages"][content["stage"]]):
            known.update({name: change for name, change in changes.items() if name in known})
        (folder / FACTS).write_text(json.dumps(content))

    return edit


ABSURD = {
    "no facts": lambda folder: (folder / FACTS).write_text("{}"),
    "brackets": lambda folder: (folder / FACTS).write_text("[" * 200_000),
    "no curve": edit_facts(curve=None),
    "a curve of words": edit_facts(curve=["up"]),
    "points of words": edit_facts(curve=[{"epoch": "one", "loss": 1.0, "valid_mrr": None}]),
    "epochs in words": edit_facts(epochs="many"),
    "parts in words": edit_facts(parts={"first": 1}),
    "parts of no epochs": edit_facts(parts={"0": -3}),
    "parts without a file": edit_facts(parts={"7": 3}),
    "a stage that is not there": edit_facts(stage="breakfast"),
    "parts added that no file has": edit_facts(added=3),
    "sizes in words": edit_facts(sizes=["large"]),
    "identities in words": edit_facts(identities={"training": "mine"}),
}


@pytest.mark.parametrize("kind", ABSURD)
def test_absurd_facts_are_refused_and_the_checkpoint_before_is_used(kind, kept):
    newest = last(kept)
    ABSURD[kind](newest)
    seal(newest, checkpoints.KIND, checkpoints.FORMAT)
    with pytest.raises(DamagedFolderError, match=rf"{FACTS}|missing"):
        read_checkpoint(newest)
    with pytest.warns(UserWarning, match="damaged .* and so not used"):
        assert FolderCheckpoints(kept).current not in (None, newest)


def test_a_checkpoint_of_another_version_is_refused_in_a_sentence(kept):
    for kind, format in ((checkpoints.KIND, checkpoints.FORMAT + 1), ("run", checkpoints.FORMAT)):
        seal(last(kept), kind, format)
        with pytest.raises(InputError, match=rf"a {kind} of format {format}, this version reads .* train again"):
            FolderCheckpoints(kept)


def noise(folder, name):
    (folder / name).write_bytes(bytes(range(256)) * 20)


TABLES = {
    "noise": noise,
    "a table less": lambda folder, name: edit_tensors(name, **{"trainer.0.vectors": None})(folder),
    "a table of one number": lambda folder, name: edit_tensors(name, **{"trainer.0.vectors": lambda _: torch.ones(())})(
        folder
    ),
    "a table of float64": lambda folder, name: edit_tensors(name, **{"trainer.0.vectors": torch.Tensor.double})(folder),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_state_of_something_else_is_refused_in_a_sentence(kind, kept):
    newest = last(kept)
    for file in newest.glob("part-*"):
        TABLES[kind](newest, file.name)
    seal(newest, checkpoints.KIND, checkpoints.FORMAT)
    with pytest.raises(InputError, match=r"damaged|is of another training") as refusal:
        learned(NOISY, SETTINGS, checkpoints=FolderCheckpoints(kept))
    assert "train again" in str(refusal.value)
    assert "\n" not in str(refusal.value)
