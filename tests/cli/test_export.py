"""Laws of `procrustes export`."""

import json
from pathlib import Path

import numpy as np
import polars

from procrustes_kge.runs.store import load


def test_the_suffix_gives_the_format(procrustes, refused, run):
    for name, kind in (("v.npy", "npy"), ("v.parquet", "parquet"), ("v.vec", "word2vec")):
        assert json.loads(procrustes("export", run, name, "--json"))["format"] == kind
    refused("export", run, "v.bin", setting="format", seen="v.bin", remedy="add --format")


def test_vectors_are_exported_with_their_names(procrustes, run):
    model = load(run)
    table = model.vectors.flatten(1).numpy()
    printed = procrustes("export", run, "vectors.npy")
    assert printed == "wrote  vectors.npy, vectors.txt   40 vectors of 40 numbers\n"
    assert np.array_equal(np.load("vectors.npy"), table)
    assert Path("vectors.txt").read_text().splitlines() == list(model.entities)
    printed = json.loads(procrustes("export", run, "--format", "parquet", "vectors.parquet", "--json"))
    assert printed == {"format": "parquet", "files": ["vectors.parquet"], "shape": [40, 40]}
    assert polars.read_parquet("vectors.parquet")["name"].to_list() == list(model.entities)
    procrustes("export", run, "vectors.vec", "--format", "word2vec")
    first, second = Path("vectors.vec").read_text().splitlines()[:2]
    assert first == "40 40"
    assert np.array_equal(np.array(second.split()[1:], dtype=np.float32), table[0])
