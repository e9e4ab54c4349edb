"""Laws of `procrustes explain`."""

import json

import pytest

from procrustes_kge.runs.store import save
from procrustes_kge.training.recipes import learn
from toys import graph_of, small_settings

ASKED = ("turn 4", "turn 2", "turn 6")


def test_evidence_in_words_and_for_programs(procrustes, planted):
    lines = procrustes("explain", "runs/planted", *ASKED, "-k", 2).splitlines()
    assert lines[0].startswith("element 4 turn 2 element 6   score 5.000   rank 1   (")
    assert lines[1].startswith("because ")
    assert lines[2].startswith("  1 ")
    assert lines[4].startswith("without   2 triples, its two entities computed again: rank 1 → ")
    printed = json.loads(procrustes("explain", "runs/planted", *ASKED, "-k", 2, "--json"))
    assert printed["triple"] == list(ASKED)
    assert len(printed["witnesses"]) == len(printed["routes"]) == len(printed["alike"]) == 2
    assert f"{printed['witnesses'][0]['fall']:.3f}" in lines[2]
    _, graph = planted
    names = {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.train.tolist()}
    for each in printed["witnesses"]:
        assert tuple(each["triple"]) in names
    assert printed["sentence"].startswith("element 4 turn 2 element 6, because ")


def test_names_that_are_unknown_are_suggested(refused, planted):
    named = {"seen": "'turn 444'", "remedy": "turn 4"}
    refused("explain", "runs/planted", "turn 444", *ASKED[1:], setting="entity", **named)
    refused("explain", "runs/planted", ASKED[0], "turns", ASKED[2], setting="relation", seen="'turns'", remedy="Known")
    refused("explain", "runs/planted", *ASKED, "-k", 0, setting="-k", seen=0, remedy="at least 1")


def test_what_has_no_triples_has_no_evidence(refused, planted):
    save(planted[0], "bare")
    refused("explain", "bare", *ASKED, setting="bare", seen="saved without its triples", remedy="save it with graph=…")


def test_an_answer_without_evidence_is_said(procrustes, planted):
    graph = graph_of(["a r b"], test=["c s d"])
    save(learn(graph, small_settings("distmult", epochs=1)), "runs/little", graph)
    lines = procrustes("explain", "runs/little", "c", "s", "d").splitlines()
    assert lines[1:] == ["nothing in training speaks for c s d"]


@pytest.mark.parametrize("name", ["roth"])
def test_a_model_that_cannot_says_so(refused, here, name):
    graph = graph_of(["a r b", "b r c"])
    save(learn(graph, small_settings(name, epochs=1)), "runs/little", graph)
    refused("explain", "runs/little", "a", "r", "b", setting="RotH", seen="another space", remedy="every other --model")
