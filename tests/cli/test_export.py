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
    assert printed == "wrote  vectors.npy, vectors.txt   40 vectors of dimension 40\n"
    assert np.array_equal(np.load("vectors.npy"), table)
    assert Path("vectors.txt").read_text().splitlines() == list(model.entities)
    printed = json.loads(procrustes("export", run, "--format", "parquet", "vectors.parquet", "--json"))
    assert printed == {"what": "entities", "format": "parquet", "files": ["vectors.parquet"], "shape": [40, 40]}
    assert polars.read_parquet("vectors.parquet")["name"].to_list() == list(model.entities)
    procrustes("export", run, "vectors.vec", "--format", "word2vec")
    first, second = Path("vectors.vec").read_text().splitlines()[:2]
    assert first == "40 40"
    assert np.array_equal(np.array(second.split()[1:], dtype=np.float32), table[0])


def test_a_source_file_is_not_replaced(refused, procrustes, run):
    before = Path("ring.tsv").read_bytes()
    command = ("export", run, "ring.tsv", "--format", "word2vec")
    refused(*command, setting="ring.tsv", seen="was not written by procrustes", remedy="add --force")
    assert Path("ring.tsv").read_bytes() == before
    procrustes(*command, "--force")
    assert Path("ring.tsv").read_text().startswith("40 40\n")


def test_relations_are_exported(procrustes, run):
    printed = procrustes("export", run, "r.npy", "--what", "relations")
    assert printed.startswith("wrote  r.npy, r.txt")
    assert "   3 relations: rotation 4 × 10 × 10" in printed
    assert np.array_equal(np.load("r.npy"), load(run).rotations.numpy())
    assert json.loads(procrustes("export", run, "r.parquet", "--what", "relations", "--json")) == {
        **{"what": "relations", "format": "parquet", "files": ["r.parquet"]},
        "shape": [3, 4, 10, 10],
    }


def test_every_format_is_written(procrustes, run):
    for name, kind in (("a.npz", "npz"), ("b.safetensors", "safetensors"), ("c.sql", "pgvector")):
        assert json.loads(procrustes("export", run, name, "--json"))["format"] == kind
    for kind in ("word2vec-binary", "projector", "postgresql"):
        printed = procrustes("export", run, f"of-{kind}", "--format", kind)
        assert printed.endswith("   40 vectors of dimension 40\n")


def test_predicted_triples_are_exported(procrustes, refused, run):
    printed = procrustes("export", run, "predicted.ttl", "--predictions", 5)
    assert printed.startswith("wrote  predicted.ttl   5 predicted triples with their ")
    assert Path("predicted.ttl").read_text().count("<< ") == 5
    about = json.loads(procrustes("export", run, "predicted.nt", "--predictions", 7, "--json"))
    assert (about["format"], about["triples"]) == ("ntriples", 7)
    printed = procrustes("export", run, "nodes.csv", "--format", "neo4j", "--predictions", 3)
    assert "\nload it with  neo4j-admin database import full --nodes=nodes.csv" in printed
    assert Path("nodes-relationships.csv").read_text().count(",predicted,") == 3
    refused("export", run, "v.npy", "--predictions", 3, setting="--predictions", seen="npy holds none", remedy="turtle")
    refused("export", run, "p.nt", "--predictions", 0, setting="--predictions", seen="0", remedy="at least 1")
