"""Laws of models without PyTorch: each agrees with its plain twin, and what it cannot do is left to that."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from procrustes_kge.explore.questions.nearest import neighbours
from procrustes_kge.explore.questions.predicting import predict
from procrustes_kge.explore.scores.asked import ask
from procrustes_kge.explore.scores.fast import SCORERS, mapped_asked
from procrustes_kge.models.baselines import BASELINES, build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.runs.store import load_run, save
from procrustes_models import MODELS, made
from toys import every_query, options_of, random_graph

CHOICES = {
    "distmult": [{}, {"inverses": False}],
    "complex": [{}, {"inverses": False}],
    "quate": [{}, {"inverses": False}],
    "transe": [{}, {"inverses": False}, {"norm": 2}],
    "rotate": [{}, {"inverses": False}],
}
BILINEAR = [pytest.param(name, options, id=f"{name} {options}") for name, each in CHOICES.items() for options in each]


def trained(name, graph, **options):
    chosen = BASELINES[name].Options(dim=16, **options)
    module = build(name, graph, chosen).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for table in (module.entities, module.relations):
            table.normal_(generator=generator)
    return TrainedBaseline(name, chosen, graph.entities, graph.relations, module)


def agree(folder, graph):
    """Compare the scores of every query, and the answers to some, with those of the plain twin."""
    fast, plain = mapped_asked(folder), ask(load_run(folder))
    assert fast is not None
    entities, directions = (each.numpy() for each in every_query(graph))
    ours, theirs = (asked.scorer.scores(entities, directions) for asked in (fast, plain))
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    np.testing.assert_allclose(fast.scorer.vectors(), plain.scorer.vectors())
    assert (fast.entities.names, fast.relations.labels) == (plain.entities.names, plain.relations.labels)
    assert fast.kind == plain.kind
    for split, triples in plain.facts.splits.items():
        assert (fast.facts.splits[split] == triples).all()
    for entity in range(0, len(graph.entities), 7):
        head, relation = graph.entities[entity], graph.relations[entity % len(graph.relations)]
        some, others = (predict(asked, head, relation, k=20, known=True) for asked in (fast, plain))
        assert [row.score for row in some] == pytest.approx([row.score for row in others], rel=1e-5, abs=1e-5)
        clear = [place for place, row in enumerate(others[:10]) if _far_from_others(others, row)]
        for place in clear:  # equal scores may come in another order
            assert replace(some[place], score=0) == replace(others[place], score=0)


def _far_from_others(rows, row):
    return sum(abs(row.score - other.score) < 1e-4 * (1 + abs(row.score)) for other in rows) == 1


@pytest.mark.parametrize("name", MODELS)
def test_our_models_agree_with_their_twin(name, tmp_path):
    model, graph = made(name)
    save(model, tmp_path / "run", graph)
    agree(tmp_path / "run", graph)


@pytest.mark.parametrize(("name", "options"), BILINEAR)
def test_simple_baselines_agree_with_their_twin(name, options, tmp_path):
    graph = random_graph(30, 4, 150)
    save(trained(name, graph, **options), tmp_path / "run", graph)
    agree(tmp_path / "run", graph)


@pytest.mark.parametrize("name", sorted(BASELINES.keys() - SCORERS.keys()))
def test_other_models_are_left_to_their_twin(name, tmp_path):
    graph = random_graph(30, 4, 150)
    small = {"dim": 16, "height": 4, "blocks": 4}
    options = BASELINES[name].Options(**{each: small[each] for each in small.keys() & options_of(name)})
    model = TrainedBaseline(name, options, graph.entities, graph.relations, build(name, graph, options).eval())
    save(model, tmp_path / "run", graph)
    assert mapped_asked(tmp_path / "run") is None
    assert ask(tmp_path / "run").kind == model.kind


def test_a_run_without_its_relations_is_left_to_the_twin_that_computes_them(tmp_path):
    model, graph = made("fitted")
    save(model, tmp_path / "run", graph, relations=False)
    assert mapped_asked(tmp_path / "run") is None


def test_a_run_without_triples_answers_too(tmp_path):
    model, graph = made("planted")
    save(model, tmp_path / "run")
    assert mapped_asked(tmp_path / "run") is not None
    (best,) = predict(tmp_path / "run", "turn 4", "turn 2", k=1)
    assert best.answer == "turn 6"
    assert graph.entities[4] == "turn 4"


def test_no_question_of_a_simple_model_loads_torch(tmp_path):
    model, graph = made("contrasted, scaled and translated")
    save(model, tmp_path / "run", graph)
    questions = (
        "import sys\n"
        "from procrustes_kge.explore.questions.judging import score\n"
        "from procrustes_kge.explore.questions.nearest import neighbours\n"
        "from procrustes_kge.explore.questions.predicting import predict\n"
        "print(predict(sys.argv[1], 'turn 4', 'turn 2', k=1)[0].answer)\n"
        "neighbours(sys.argv[1], 'turn 4'), score(sys.argv[1], 'turn 4', 'turn 2', 'turn 6')\n"
        "assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-c", questions, str(tmp_path / "run")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path.cwd())
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == predict(load_run(tmp_path / "run"), "turn 4", "turn 2", k=1)[0].answer


def test_neighbours_agree_with_the_twin(tmp_path):
    model, graph = made("planted")
    save(model, tmp_path / "run", graph)
    some, others = (neighbours(source, "turn 4", k=5) for source in (tmp_path / "run", load_run(tmp_path / "run")))
    assert [row.similarity for row in some] == pytest.approx([row.similarity for row in others], rel=1e-5)
