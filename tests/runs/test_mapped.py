"""Laws of runs without PyTorch: what `load_run` refuses is not answered, and what is read is what was saved."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.runs.mapped import mapped_run
from procrustes_kge.runs.store import load_run, save
from procrustes_kge.runs.tensors import write_tensors
from procrustes_kge.system.sealed import MANIFEST, seal
from toys import planted_model

USED = ("settings.json", "model.safetensors", "triples.safetensors", "entities.txt", "relations.txt", "labels.json")


@pytest.fixture
def run(tmp_path):
    model, graph = planted_model()
    save(model, tmp_path / "run", graph)
    return tmp_path / "run"


def test_what_is_mapped_is_what_was_saved(run):
    mapped, loaded = mapped_run(run), load_run(run)
    for name, table in loaded.model.tables().items():
        assert (mapped.tables[name] == table.numpy()).all()
        assert not mapped.tables[name].flags.writeable
    for split in SPLITS:
        assert (mapped.splits[split] == loaded.graph.split(split).numpy()).all()
    assert mapped.entities.names == loaded.model.entities.names
    assert mapped.entities.labels == loaded.model.entities.labels
    assert mapped.relations.names == loaded.model.relations.names


@pytest.mark.parametrize("file", [*USED, MANIFEST])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_a_file_with_one_bit_changed_is_not_used(file, place, run):
    whole = bytearray((run / file).read_bytes())
    whole[round(place * (len(whole) - 2))] ^= 1
    (run / file).write_bytes(whole)
    assert mapped_run(run) is None
    with pytest.raises(InputError):
        load_run(run)


@pytest.mark.parametrize("file", [*USED, MANIFEST])
def test_a_file_that_is_cut_longer_missing_or_a_link_is_not_used(file, run, tmp_path):
    whole = (run / file).read_bytes()
    for content in (whole[:-2], whole + b"\0", b""):
        (run / file).write_bytes(content)
        assert mapped_run(run) is None
    (run / file).unlink()
    assert mapped_run(run) is None
    (tmp_path / "elsewhere").write_bytes(whole)
    (run / file).symlink_to(tmp_path / "elsewhere")
    assert mapped_run(run) is None


def hostile(run, change):
    """Change a run, and seal it again, so that every checksum fits."""
    change(run)
    (run / MANIFEST).unlink()
    seal(run, "run", 6)


def _settings(**changes):
    def change(run):
        content = json.loads((run / "settings.json").read_text())
        (run / "settings.json").write_text(json.dumps({**content, **changes}))

    return change


def _lines(file, change):
    return lambda run: (run / file).write_text("".join(change((run / file).read_text().splitlines(keepends=True))))


def _tensors(file, change):
    def changed(run):
        loaded = load_run(run)
        tables = loaded.model.tables() if file[0] == "m" else {each: loaded.graph.split(each) for each in SPLITS}
        write_tensors(change({name: table.clone() for name, table in tables.items()}), run / file)

    return changed


def _with(name, value):
    def change(tables):
        tables[name].view(-1)[-1] = value
        return tables

    return change


HOSTILE = {
    "a name twice": _lines("entities.txt", lambda lines: [*lines[:-1], lines[0]]),
    "a name that is empty": _lines("relations.txt", lambda lines: ["\n", *lines[1:]]),
    "no names": _lines("relations.txt", lambda lines: []),
    "a label that is none": lambda run: (run / "labels.json").write_text('{"turn 1": 3}'),
    "no graph, but triples": _settings(graph=None),
    "vectors that are not numbers": _tensors("model.safetensors", _with("vectors", float("nan"))),
    "rotations that are infinite": _tensors("model.safetensors", _with("rotations", float("inf"))),
    "an id that has no name": _tensors("triples.safetensors", _with("test", 60)),
    "an id below zero": _tensors("triples.safetensors", _with("train", -1)),
    "a split too few": _tensors("triples.safetensors", lambda splits: {"train": splits["train"]}),
    "a header of nothing": lambda run: (run / "model.safetensors").write_bytes(b"\0" * 100),
    "settings that are a list": lambda run: (run / "settings.json").write_text("[]"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_contents_that_do_not_belong_together_are_not_used_though_their_checksums_fit(kind, run):
    hostile(run, HOSTILE[kind])
    assert mapped_run(run) is None
    with pytest.raises(InputError):
        load_run(run)


def test_a_folder_that_is_none_of_ours_is_not_used(tmp_path, run):
    assert mapped_run(tmp_path / "gone") is None
    (tmp_path / "empty").mkdir()
    assert mapped_run(tmp_path / "empty") is None
    (run / MANIFEST).unlink()
    seal(run, "run", 99)
    assert mapped_run(run) is None
    (run / MANIFEST).unlink()
    seal(run, "checkpoint", 6)
    assert mapped_run(run) is None


def test_what_is_mapped_stays_as_it_was_when_the_run_is_replaced(run):
    mapped = mapped_run(run)
    before = mapped.tables["vectors"].copy()
    shutil.move(run, run.with_name("older"))
    other, graph = planted_model(seed=1)
    save(other, run, graph)
    assert (mapped.tables["vectors"] == before).all()
    assert not np.array_equal(mapped_run(run).tables["vectors"], before)
    assert Path(run, MANIFEST).is_file()
