"""Laws of `procrustes relations`."""

import json

import pytest

from procrustes_kge.explore.relations.relations import KINDS
from procrustes_kge.runs.store import save
from toys import planted_model


@pytest.fixture
def turns(here):
    """A run with a turn, its inverse, its double, and a mirror."""
    model, graph = planted_model(segments=8, width=8, factors=((1, 0), (29, 0), (2, 0), (0, 1)))
    save(model, "runs/turns", graph)
    save(model, "runs/bare")
    return model


def test_what_stands_out_has_a_star(procrustes, turns):
    lines = procrustes("relations", "runs/turns").splitlines()
    assert lines[0].startswith("runs/turns   4 relations   a cosine by chance: ")
    starred = [line[2:].partition("  ")[0] for line in lines if line.startswith("* ")]
    assert starred[0] == "turn 0 and mirror"
    assert "turn 1 = turn 29⁻¹" in starred
    assert {"turn 2 = turn 1 then turn 1", "turn 2 = turn 29⁻¹ then turn 29⁻¹"} & set(starred)
    assert lines[-1].startswith("note: ")


def test_json_has_all_and_the_table_what_was_asked_for(procrustes, turns):
    found = json.loads(procrustes("relations", "runs/turns", "--json"))
    assert found.keys() == {"run", *KINDS, "chance", "notes"}
    best = found["symmetric"][0]
    assert best["relations"] == ["turn 0 and mirror"]
    assert best["found"]
    assert best["score"] == pytest.approx(1, abs=1e-4)
    assert 0 <= best["exchanged"] < best["in_train"] <= 1
    few = json.loads(procrustes("relations", "runs/turns", "--json", "--only", "inverse"))
    assert few == {name: found[name] for name in ("run", "inverse", "chance", "notes")}
    lines = procrustes("relations", "runs/turns", "--only", "symmetric", "-k", "2").splitlines()
    assert len([line for line in lines if "(." in line]) == 2


def test_a_run_without_its_triples_is_read_all_the_same(procrustes, turns):
    said = procrustes("relations", "runs/bare", "--only", "symmetric")
    assert "* turn 0 and mirror" in said
    assert "saved without its triples" in said


def test_mistakes_are_one_sentence(refused, turns):
    refused("relations", "runs/turns", "-k", "0", setting="-k", seen="0", remedy="at least 1")
    refused("relations", "runs/turns", "--only", "symetric", setting="kind", seen="symetric", remedy="symmetric")
    refused("relations", "runs/turn", setting="runs/turn", seen="no such run", remedy="did you mean")
