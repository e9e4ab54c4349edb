"""Laws of `procrustes import-vectors`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from procrustes_kge.runs.store import load, load_run


@pytest.fixture
def vectors(procrustes, run):
    """The vectors of a run, in a file."""
    procrustes("export", run, "vectors.npz")
    return "vectors.npz"


def test_exported_vectors_make_the_same_run_again(procrustes, run, vectors):
    graph = load_run(run).graph
    printed = procrustes(
        "import-vectors", "ring.tsv", vectors, "--out", "runs/again", "--lengths", "free", "--segment", 10
    )
    first, second, *_ = printed.splitlines()
    assert first.startswith("ring   40 entities")
    assert second == "read   40 vectors of 40 numbers, used 40, in segments of 10"
    assert "saved  runs/again\n" in printed
    found = load_run("runs/again")
    assert found.graph.checksum == graph.checksum
    assert torch.equal(found.model.vectors, load(run).vectors)
    assert found.report["metrics"]["test"]["mrr"] > 0
    assert Path("runs/again/README.md").exists()
    assert procrustes("predict", "runs/again", "--head", "e3", "--relation", "next", "-k", 1)
    report = json.loads(procrustes("import-vectors", "ring.tsv", vectors, "--out", "runs/again", "--json"))
    assert report["imported"]["segment"] == 20


def test_what_was_done_is_told(procrustes, run, vectors):
    found = np.load(vectors)
    np.savez("some.npz", names=[*found["names"][3:], "stranger"], vectors=found["vector"][[*range(3, 40), 0]])
    printed = procrustes("import-vectors", "ring.tsv", "some.npz", "--out", "runs/some")
    assert "  1 vector with other names not used (stranger)\n" in printed
    assert "  3 entities without a vector folded in from their neighbours (" in printed
    printed = procrustes("import-vectors", "ring.tsv", "some.npz", "--out", "runs/some", "--missing", "leave-out")
    assert "  3 entities without a vector left out, with their triples (" in printed
    assert len(load("runs/some").entities) == 37


def test_names_may_be_in_a_file_of_their_own(procrustes, run):
    procrustes("export", run, "vectors.npy")
    Path("vectors.txt").rename("called.txt")
    flags = ("--names", "called.txt", "--lengths", "free", "--out", "runs/again")
    procrustes("import-vectors", "ring.tsv", "vectors.npy", *flags)
    assert torch.equal(load("runs/again").vectors.flatten(1), load(run).vectors.flatten(1))


def broken(name, **arrays):
    np.savez(name, **arrays)
    return name


def test_what_cannot_be_is_refused_and_nothing_is_written(refused, run, vectors):
    found = dict(np.load(vectors))
    nan = found["vector"].copy()
    nan[0, 0] = np.nan
    objects = Path("objects.npy")
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    Path("graph.vec").write_text("9000000000 300\na 1 2\n")
    before = ("import-vectors", "ring.tsv")
    after = ("--out", "runs/x")
    cases = [
        ("nowhere.npy", "nowhere.npy", "cannot be read", "check its name"),
        (objects, "objects.npy", "objects", "never unpickled"),
        ("graph.vec", "graph.vec", "9,000,000,000 words", "download or write it again"),
        (broken("shape.npz", names=found["names"], vectors=found["vector"][:9]), "shape.npz", "9 rows", "each row"),
    ]
    for file, setting, seen, remedy in cases:
        refused(*before, file, *after, setting=setting, seen=seen, remedy=remedy)
    refused(*before, vectors, *after, "--table", "x", setting="vectors.npz", seen="'x'", remedy="there are")
    refused(*before, vectors, "--out", ".", setting=".", seen="not a run folder", remedy="--out")
    later = {"described": True}
    file = broken("nan.npz", names=found["names"], vectors=nan)
    refused(*before, file, *after, setting="1 vector", seen="nan", remedy="leave these vectors out", **later)
    file = broken("others.npz", names=[f"x{row}" for row in range(40)], vectors=found["vector"])
    refused(*before, file, *after, setting="40 names", seen="'x0'", remedy="--names", **later)
    refused(*before, vectors, *after, "--segment", 7, setting="40 numbers", seen="of 7", remedy="try 5 or 8", **later)
    assert not Path("runs/x").exists()
