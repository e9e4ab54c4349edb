"""Laws of what can be asked: a folder, a run and a model answer alike, and what is none says so."""

from dataclasses import replace

import pytest
import torch

from laws import refused
from procrustes_kge.explore.asked import ask
from procrustes_kge.explore.predicting import predict
from procrustes_kge.runs.store import load_run, save
from scorers import random_table
from toys import planted_model, random_graph


def test_a_folder_a_run_and_a_model_answer_alike(tmp_path):
    model, graph = planted_model()
    save(model, tmp_path / "run", graph)
    run = load_run(tmp_path / "run")
    sources = [tmp_path / "run", str(tmp_path / "run"), run, ask(run), ask(tmp_path / "run")]
    expected = predict(model, 4, 1, k=5, graph=graph, known=True)
    for source in sources:
        found = predict(source, 4, 1, k=5, known=True)
        assert [row.score for row in found] == pytest.approx([row.score for row in expected], abs=1e-5)
        assert (found[0].answer, found[0].known) == (expected[0].answer, expected[0].known)


def test_a_model_of_ones_own_answers_with_its_graph():
    graph = random_graph(9, 2, 30)
    model = random_table(graph, values=100)
    assert predict(model, 0, 1, k=3, graph=graph)[0].tail in graph.entities
    refused(lambda: predict(model, 0, 1), setting="Table", seen="does not know the names", remedy="graph=")


def test_a_graph_of_other_names_is_refused():
    model, graph = planted_model()
    other = random_graph(9, 2, 30)
    refused(lambda: ask(model, other), setting="graph", seen="other names", remedy="it was trained on")
    assert ask(model, graph).facts.splits.keys() == {"train", "valid", "test"}


def test_a_run_without_its_graph_knows_nothing_and_answers(tmp_path):
    model, _ = planted_model()
    save(model, tmp_path / "run")
    found = predict(tmp_path / "run", 4, 1, k=99)
    assert len(found) == 60
    assert {row.known for row in found} == {None}


def test_probabilities_are_none_without_calibration():
    asked = ask(*planted_model())
    assert asked.probabilities(torch.zeros(3).numpy(), [0, 1, 2]) == [None] * 3
    assert replace(asked, calibration=None).spelled(9) == f"{asked.relations[1]}⁻¹"
    assert [asked.inverse(each) for each in (1, 9)] == [9, 1]
