"""Ranks against their definition, against what must come out of planted scorers, and against PyKEEN's evaluator."""

import gc
import os
import weakref
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models import ranking
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.ranking import (
    Evaluation,
    Metrics,
    count_places,
    evaluate,
    rank,
)
from procrustes_kge.system import threads
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn
from toys import builds, random_graph, random_graphs


@dataclass(frozen=True)
class Table:
    """A model that reads its scores off a table: relation (r + R asks for heads), asked entity, candidate."""

    scores_of: torch.Tensor

    def encode(self, graph=None):
        return self.scores_of

    def query(self, encoded, heads, relations):
        return encoded[relations, heads]

    def scores(self, encoded, queries, candidates=None):
        return queries if candidates is None else queries.gather(1, candidates)


needs_archives = pytest.mark.skipif(
    not os.environ.get("PROCRUSTES_DATA"), reason="PROCRUSTES_DATA names no folder of benchmark archives"
)


def random_table(graph, values=3, seed=0):
    """Return a table of small whole numbers, so that most answers are tied with others."""
    shape = (2 * len(graph.relations), len(graph.entities), len(graph.entities))
    return Table(torch.randint(values, shape, generator=torch.Generator().manual_seed(seed)).float())


def tables(**options):
    """Draw a graph with test triples, and a model of it."""

    def made(graph, values, seed):
        return graph, random_table(graph, values, seed)

    graphs = random_graphs(fewest_triples=6, **options)
    return builds(made, graph=graphs, values=st.integers(1, 4), seed=st.integers(0, 2**31))


def questions(triples, relations):
    """Yield (asked, relation, answer): every tail, then every head."""
    yield from ((head, relation, tail) for head, relation, tail in triples.tolist())
    yield from ((tail, relation + relations, head) for head, relation, tail in triples.tolist())


def known_answers(graph, splits=SPLITS):
    """Return {(asked, relation): answers} over the splits."""
    known = {}
    for split in splits:
        for asked, relation, answer in questions(graph.split(split), len(graph.relations)):
            known.setdefault((asked, relation), set()).add(answer)
    return known


def ranks_by_definition(table, graph, triples, splits=SPLITS):
    """Return [(optimistic, pessimistic, candidates)] by looking at one candidate after another."""
    known, rows = known_answers(graph, splits), []
    for asked, relation, answer in questions(triples, len(graph.relations)):
        scores = table.scores_of[relation, asked].tolist()
        others = [
            score
            for entity, score in enumerate(scores)
            if entity != answer and entity not in known.get((asked, relation), ())
        ]
        better = sum(score > scores[answer] for score in others)
        tied = sum(score == scores[answer] for score in others)
        rows.append((1 + better, 1 + better + tied, 1 + len(others)))
    return rows


def rows_of(ranks):
    return list(zip(ranks.optimistic.tolist(), ranks.pessimistic.tolist(), ranks.candidates.tolist(), strict=True))


def same(left, right, tolerance=1e-12):
    """Whether two Metrics agree in every figure."""
    assert left.as_dict() == pytest.approx(right.as_dict(), rel=tolerance, abs=tolerance)


# The definition.


@given(tables())
def test_ranks_are_their_definition(case):
    graph, table = case
    ranks = evaluate(table, graph).ranks
    expected = ranks_by_definition(table, graph, graph.test)
    assert rows_of(ranks) == expected
    assert ranks.realistic.tolist() == [(optimistic + pessimistic) / 2 for optimistic, pessimistic, _ in expected]


@given(tables(), st.sets(st.sampled_from(SPLITS)))
def test_only_the_known_answers_of_the_given_splits_are_left_out(case, splits):
    graph, table = case
    ranks = rank(table, graph, graph.test, KnownAnswers.of(graph, sorted(splits) or ["train"]))
    assert rows_of(ranks) == ranks_by_definition(table, graph, graph.test, sorted(splits) or ["train"])


@given(tables())
def test_known_answers_of_all_splits_are_left_out_but_never_the_asked_one(case):
    graph, _ = case
    known = known_answers(graph)
    asked = list(questions(graph.test, len(graph.relations)))
    # Known answers score highest, as a model that has learned them all should: none of them may push another down.
    scores = torch.zeros(2 * len(graph.relations), len(graph.entities), len(graph.entities))
    for (entity, relation), answers in known.items():
        scores[relation, entity, list(answers)] = 1
    evaluation = evaluate(Table(scores), graph)
    assert evaluation.pessimistic.mrr == evaluation.mrr == 1
    expected = [len(graph.entities) - len(known[entity, relation]) + 1 for entity, relation, _ in asked]
    assert evaluation.ranks.candidates.tolist() == expected


@given(st.data(), st.integers(1, 6), st.integers(1, 8), st.sampled_from([torch.float32, torch.float64]))
def test_places_are_counted_one_by_one(data, count, entities, dtype):
    numbers = st.integers(-1, 1)
    table = data.draw(st.lists(st.lists(numbers, min_size=entities, max_size=entities), min_size=count, max_size=count))
    places = st.integers(0, entities - 1)
    answers = data.draw(st.lists(places, min_size=count, max_size=count))
    known = data.draw(st.sets(st.tuples(st.integers(0, count - 1), places)))
    rows, entries = torch.tensor(sorted(known), dtype=torch.int64).view(-1, 2).unbind(dim=1)
    counts = count_places(torch.tensor(table, dtype=dtype), torch.tensor(answers), rows, entries)
    for row, (scores, answer) in enumerate(zip(table, answers, strict=True)):
        left = [score for entity, score in enumerate(scores) if entity == answer or (row, entity) not in known]
        higher, equal = (sum(score > scores[answer] for score in left), left.count(scores[answer]))
        assert counts[row].tolist() == [higher, equal, len(left)]


# What must come out.


@given(random_graphs(fewest_triples=6), st.sampled_from([0.0, -7.5, 1e30]))
def test_a_constant_scorer_ranks_in_the_middle(graph, constant):
    table = random_table(graph)
    evaluation = evaluate(Table(torch.full_like(table.scores_of, constant)), graph)
    assert torch.equal(evaluation.ranks.realistic, (evaluation.ranks.candidates + 1) / 2)
    for metrics in (evaluation.both, evaluation.tail, evaluation.head, *evaluation.relations.values()):
        assert metrics.amri == pytest.approx(0, abs=1e-12)
    assert (evaluation.ranks.optimistic == 1).all()
    assert torch.equal(evaluation.ranks.pessimistic, evaluation.ranks.candidates)


@given(random_graphs(fewest_triples=6))
def test_a_perfect_scorer_has_perfect_figures(graph):
    table = random_table(graph).scores_of
    for asked, relation, answer in questions(graph.test, len(graph.relations)):
        table[relation, asked, answer] = 10
    evaluation = evaluate(Table(table), graph)
    assume(evaluation.ranks.candidates.min() > 1)
    expected = Metrics(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2 * len(graph.test))
    assert evaluation.both == evaluation.optimistic == evaluation.pessimistic == expected


@given(random_graphs(fewest_triples=6))
def test_the_worst_scorer_ranks_last(graph):
    table = random_table(graph).scores_of
    for asked, relation, answer in questions(graph.test, len(graph.relations)):
        table[relation, asked, answer] = -1
    ranks = evaluate(Table(table), graph).ranks
    assert torch.equal(ranks.optimistic, ranks.candidates)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("spread", ["one", "all"])
def test_scores_that_are_not_finite_are_refused(score, spread):
    graph = random_graph(6, 2, 30)
    table = random_table(graph).scores_of
    head, relation, _ = graph.test[0].tolist()
    if spread == "one":
        table[relation, head, 3] = score
    else:
        table[:] = score
    with pytest.raises(InputError, match="not finite"):
        evaluate(Table(table), graph)


def test_near_misses_are_no_ties():
    graph = random_graph(6, 2, 30)
    table = torch.ones_like(random_table(graph).scores_of)
    for asked, relation, answer in questions(graph.test, len(graph.relations)):
        table[relation, asked, answer] = 1 + 2**-23  # the next number of float32
    assert evaluate(Table(table), graph).pessimistic.mrr == 1


# What does not matter.


@given(tables(), st.integers(1, 200), st.integers(1, 3))
def test_neither_chunks_nor_workers_matter(case, room, workers):
    graph, table = case
    expected = evaluate(table, graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SCORES_RANKED_AT_ONCE", room)
        patch.setattr(threads, "cores", lambda: workers)
        found = evaluate(table, graph)
    assert rows_of(found.ranks) == rows_of(expected.ranks)
    assert found.as_dict() == expected.as_dict()


@given(tables(), st.integers(1, 60))
def test_progress_comes_chunk_by_chunk_to_the_end(case, room):
    graph, table = case
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SCORES_RANKED_AT_ONCE", room)
        evaluate(table, graph, progress=lambda done, total: told.append((done, total)))
    at_once = max(1, room // len(graph.entities))
    total = -(-2 * len(graph.test) // at_once)
    assert told == [(done, total) for done in range(1, total + 1)]


@given(tables())
def test_a_rising_function_of_the_scores_ranks_alike(case):
    graph, table = case
    moved = Table(3 * table.scores_of.double() - 5)
    assert rows_of(evaluate(moved, graph).ranks) == rows_of(evaluate(table, graph).ranks)


@given(tables())
def test_the_inverse_question_is_the_question_of_the_transposed_graph(case):
    graph, table = case
    flipped = {split: graph.split(split)[:, [2, 1, 0]] for split in SPLITS}
    count = len(graph.relations)
    other = Table(torch.cat([table.scores_of[count:], table.scores_of[:count]]))
    straight, turned = evaluate(table, graph), evaluate(other, replace(graph, **flipped))
    assert (straight.tail, straight.head) == (turned.head, turned.tail)
    same(straight.both, turned.both)


# Views of the same ranks.


@given(tables())
def test_every_view_is_the_metrics_of_its_questions(case):
    graph, table = case
    evaluation = evaluate(table, graph)
    ranks = evaluation.ranks
    asked = list(questions(graph.test, len(graph.relations)))
    training = set(graph.train[:, [0, 2]].flatten().tolist())
    seen = torch.tensor([asked in training and answer in training for asked, _, answer in asked])
    relation = torch.tensor([relation % len(graph.relations) for _, relation, _ in asked])
    tail = torch.tensor([relation < len(graph.relations) for _, relation, _ in asked])

    def metrics(mask):
        return Metrics.of(ranks.realistic[mask], ranks.candidates[mask])

    assert evaluation.both == metrics(torch.ones(len(asked), dtype=torch.bool))
    assert evaluation.mrr == evaluation.both.mrr
    assert evaluation.tail == metrics(tail)
    assert evaluation.head == metrics(~tail)
    assert evaluation.seen_only == metrics(seen)
    assert evaluation.optimistic == Metrics.of(ranks.optimistic, ranks.candidates)
    assert evaluation.pessimistic == Metrics.of(ranks.pessimistic, ranks.candidates)
    assert evaluation.relations == {
        graph.relations[index]: metrics(relation == index) for index in sorted(set(relation.tolist()))
    }


@given(tables())
def test_the_whole_is_the_mean_of_its_parts(case):
    graph, table = case
    evaluation = evaluate(table, graph)
    assert evaluation.tail.count == evaluation.head.count == len(graph.test)
    for parts in ([evaluation.tail, evaluation.head], list(evaluation.relations.values())):
        assert sum(part.count for part in parts) == evaluation.both.count
        for name in ("mrr", "hits_at_1", "hits_at_3", "hits_at_10", "mean_rank"):
            mean = sum(getattr(part, name) * part.count for part in parts) / evaluation.both.count
            assert getattr(evaluation.both, name) == pytest.approx(mean, abs=1e-12)


@given(tables())
def test_optimists_are_never_below_realists_nor_realists_below_pessimists(case):
    graph, table = case
    evaluation = evaluate(table, graph)
    views = [evaluation.optimistic, evaluation.both, evaluation.pessimistic]
    for name in ("hits_at_1", "hits_at_3", "hits_at_10", "mean_rank", "amri"):
        figures = [getattr(view, name) for view in views]
        assert figures == sorted(figures, reverse=name != "mean_rank")
    assert evaluation.optimistic.mrr >= evaluation.pessimistic.mrr


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 20)), min_size=1, max_size=20))
def test_metrics_are_plain_means(pairs):
    ranks, candidates = [place for place, _ in pairs], [place + more for place, more in pairs]
    metrics = Metrics.of(torch.tensor(ranks), torch.tensor(candidates))
    count = len(pairs)
    assert metrics.mrr == pytest.approx(sum(1 / place for place in ranks) / count)
    for k, share in ((1, metrics.hits_at_1), (3, metrics.hits_at_3), (10, metrics.hits_at_10)):
        assert share == pytest.approx(sum(place <= k for place in ranks) / count)
    assert metrics.mean_rank == pytest.approx(sum(ranks) / count)
    room = sum((size - 1) / 2 for size in candidates)
    assert metrics.amri == (pytest.approx(1 - sum(place - 1 for place in ranks) / room) if room else 0)
    assert metrics.count == count


def test_no_questions_have_no_figures():
    nothing = Metrics.of(torch.empty(0), torch.empty(0, dtype=torch.int64))
    assert [getattr(nothing, field.name) for field in fields(Metrics)] == [0] * len(fields(Metrics))


def test_a_graph_in_which_nothing_was_seen_has_no_figures_for_seen_entities():
    graph = replace(random_graph(6, 2, 30), train=torch.empty(0, 3, dtype=torch.int64))
    evaluation = evaluate(random_table(graph), graph)
    assert evaluation.seen_only.count == 0
    assert evaluation.both.count == 2 * len(graph.test)


def test_a_split_without_triples_is_refused():
    graph = replace(random_graph(6, 2, 30), test=torch.empty(0, 3, dtype=torch.int64))
    with pytest.raises(InputError, match="random has no test triples"):
        evaluate(random_table(graph), graph)
    assert evaluate(random_table(graph), graph, "valid").both.count == 2 * len(graph.valid)


def test_an_evaluation_tells_all_its_views():
    graph = random_graph(6, 2, 30)
    evaluation = evaluate(random_table(graph), graph)
    assert isinstance(evaluation, Evaluation)
    told = evaluation.as_dict()
    assert {name: told[name] for name in evaluation.both.as_dict()} == evaluation.both.as_dict()
    for view in ("tail", "head", "seen_only", "optimistic", "pessimistic"):
        assert told[view] == getattr(evaluation, view).as_dict()
    assert told["relations"] == {name: metrics.as_dict() for name, metrics in evaluation.relations.items()}
    assert f"{evaluation.mrr:.3f}".lstrip("0") in repr(evaluation)


def test_any_class_with_the_three_answers_is_a_predictor():
    assert isinstance(random_table(random_graph(3, 1, 5)), LinkPredictor)
    assert not isinstance(object(), LinkPredictor)


# PyKEEN's evaluator, on its own filter and its own arithmetic.


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


FITTED = FitSettings(dim=24, segment=8, epochs=8, patience=0, learning_rate=0.2, translate=False, device="cpu")
CONTRASTED = ContrastSettings(dim=24, segment=8, epochs=2, negatives=100, batch=512, device="cpu")


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


def test_where_scores_do_not_fit_in_memory_fewer_are_held_at_once(monkeypatch):
    graph = random_graph(12, 3, 60)
    monkeypatch.setattr(ranking, "SCORES_RANKED_AT_ONCE", 12 * 4)  # several chunks
    table = random_table(graph)
    expected = evaluate(table, graph)
    count, sizes = ranking.count_places, []

    def crowded(scores, *others):
        sizes.append(len(scores))
        if len(scores) > 3:
            raise torch.OutOfMemoryError
        return count(scores, *others)

    monkeypatch.setattr(ranking, "count_places", crowded)
    assert evaluate(table, graph).as_dict() == expected.as_dict()
    assert max(sizes) > 3
    sizes.clear()
    rank(table, graph, graph.test, workers=1)
    first = next(place for place, size in enumerate(sizes) if size <= 3)
    assert max(sizes[first:]) <= 3  # what has fitted is remembered
    monkeypatch.setattr(ranking, "count_places", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError))
    with pytest.raises(torch.OutOfMemoryError):
        evaluate(table, graph)


def test_a_model_that_was_ranked_is_let_go_with_its_last_name():
    graph = random_graph(entities=6, relations=2, triples=20, seed=0)
    model = learn(graph, FitSettings(dim=4, segment=2, epochs=1, patience=0, device="cpu"))
    evaluate(model, graph, "train")
    gone = weakref.ref(model)
    gc.disable()  # so that no ring of references is looked for
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
