"""Figures agree with PyKEEN's evaluator, on its own filter and its own arithmetic."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.ranking import Metrics, evaluate
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn
from scorers import random_table
from toys import random_graph

needs_archives = pytest.mark.skipif(
    not os.environ.get("PROCRUSTES_DATA"), reason="PROCRUSTES_DATA names no folder of benchmark archives"
)


def pykeen_evaluation(model, graph, triples):
    """Return PyKEEN's evaluator after it ranked the triples by our model's scores, ranks as float64."""
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import Model
    from pykeen.triples import KGInfo

    class Wrapped(Model):
        """Our scores behind PyKEEN's interface."""

        hpo_default = {}  # noqa: RUF012

        def __init__(self):
            sizes = KGInfo(len(graph.entities), len(graph.relations), create_inverse_triples=False)
            super().__init__(triples_factory=sizes, random_seed=0)
            self.nothing = torch.nn.Parameter(torch.zeros(1))  # PyKEEN asks a parameter for its device

        def score_t(self, hr_batch, **options):
            encoded = model.encode(graph)
            return model.scores(encoded, model.query(encoded, hr_batch[:, 0], hr_batch[:, 1]))

        def score_h(self, rt_batch, **options):
            encoded = model.encode(graph)
            return model.scores(encoded, model.query(encoded, rt_batch[:, 1], rt_batch[:, 0] + len(graph.relations)))

        def _reset_parameters_(self): ...
        def _get_entity_len(self, *, mode): ...
        def score_hrt(self, hrt_batch, **options): ...
        def score_r(self, ht_batch, **options): ...
        def collect_regularization_term(self): ...

    evaluator = RankBasedEvaluator(
        filtered=True,
        metrics=["mean_reciprocal_rank", *["hits_at_k"] * 3, "mean_rank", "adjusted_mean_rank_index", "count"],
        metrics_kwargs=[None, {"k": 1}, {"k": 3}, {"k": 10}, None, None, None],
        add_defaults=False,
        clear_on_finalize=False,
    )
    others = [graph.split(split) for split in SPLITS]
    evaluator.evaluate(Wrapped(), triples, batch_size=64, use_tqdm=False, additional_filter_triples=others)
    for parts in evaluator.ranks.values():
        parts[:] = [part.astype("float64") for part in parts]  # its figures would be float32
    return evaluator


def figures(results, side, kind):
    names = ("mean_reciprocal_rank", "hits@1", "hits@3", "hits@10", "mean_rank", "adjusted_mean_rank_index", "count")
    keys = ("mrr", "hits@1", "hits@3", "hits@10", "mean_rank", "amri", "count")
    found = results.to_dict()[side][kind]
    assert len(found) == len(names)
    lookup = {results.key_from_string(name).metric: key for name, key in zip(names, keys, strict=True)}
    return {lookup[name]: value for name, value in found.items()}


def agree_with_pykeen(evaluation, evaluator):
    """Assert equal ranks and figures, all kinds, all sides."""
    ranks = evaluation.ranks
    results = evaluator.finalize()
    for side, mask in (("tail", ranks.asks_tail), ("head", ~ranks.asks_tail)):
        for kind in ("optimistic", "realistic", "pessimistic"):
            theirs = torch.cat([torch.from_numpy(part) for part in evaluator.ranks[side, kind]])
            assert torch.equal(getattr(ranks, kind)[mask].double(), theirs)
            own = Metrics.of(getattr(ranks, kind)[mask], ranks.candidates[mask])
            assert own.as_dict() == pytest.approx(figures(results, side, kind), rel=1e-12, abs=1e-12)
    for kind, own in (
        ("realistic", evaluation.both),
        ("optimistic", evaluation.optimistic),
        ("pessimistic", evaluation.pessimistic),
    ):
        assert own.as_dict() == pytest.approx(figures(results, "both", kind), rel=1e-12, abs=1e-12)
    assert evaluation.tail.as_dict() == pytest.approx(figures(results, "tail", "realistic"), rel=1e-12, abs=1e-12)
    assert evaluation.head.as_dict() == pytest.approx(figures(results, "head", "realistic"), rel=1e-12, abs=1e-12)


def rounded(model):
    """Return a model of multiples of 1/4: its scores are exact in float32, summed in any order, and many are equal."""

    def steps(numbers):
        return (numbers * 4).round() / 4

    return replace(model, **{name: steps(table) for name, table in model.tables().items()})


SMALL = {"dim": 24, "segment": 8, "validate_every": 0, "device": "cpu"}
FITTED = FitSettings(**SMALL, epochs=8, learning_rate=0.2, translate=False)
CONTRASTED = ContrastSettings(**SMALL, epochs=2, negatives=100, batch=512)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("wordnet-mini", FITTED),
        ("wordnet-mini", CONTRASTED),
        pytest.param("umls", FITTED, marks=needs_archives),
        pytest.param("wn18rr", FITTED, marks=needs_archives),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_trained_model_is_ranked_as_pykeen_ranks_it(name, settings):
    graph = read_graph(name)
    graph = replace(graph, test=graph.test[:300])
    model = rounded(learn(graph, settings))
    assert (model.scales is not None) == (settings is CONTRASTED)
    evaluation = evaluate(model, graph)
    ties = evaluation.ranks.pessimistic > evaluation.ranks.optimistic
    assert ties.double().mean() > 0.1
    agree_with_pykeen(evaluation, pykeen_evaluation(model, graph, graph.test))


@pytest.mark.parametrize("seed", range(3))
def test_seen_only_ranks_the_triples_that_pykeen_keeps(seed):
    from pykeen.triples import TriplesFactory

    graph = random_graph(60, 2, 100, seed)
    labelled = {
        split: [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.split(split).tolist()]
        for split in SPLITS
    }

    def factory(rows, **ids):
        return TriplesFactory.from_labeled_triples(np.array(rows, dtype=str), **ids)

    train = factory(labelled["train"])
    kept = factory(labelled["test"], entity_to_id=train.entity_to_id, relation_to_id=train.relation_to_id)
    kept = {tuple(row) for row in kept.triples.tolist()}
    assert len(kept) < len(graph.test)  # PyKEEN drops triples of unseen entities
    chosen = torch.tensor([row in kept for row in labelled["test"]])
    table = random_table(graph, values=5, seed=seed)
    evaluation = evaluate(table, graph)
    assert torch.equal(evaluation.ranks.seen, chosen.repeat(2))
    results = pykeen_evaluation(table, graph, graph.test[chosen]).finalize()
    assert evaluation.seen_only.as_dict() == pytest.approx(figures(results, "both", "realistic"), rel=1e-12, abs=1e-12)
