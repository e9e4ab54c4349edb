"""Laws of the search for missing triples: it finds what looking at every pair finds, wherever it was stopped."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.explore.missing.kept_search import Kept, fingerprint
from procrustes_kge.explore.missing.missing import Search, Slots, identity, missing, search_for
from procrustes_kge.explore.missing.pairs import Grid, Pairs
from procrustes_kge.explore.scores.products import products_of
from procrustes_kge.graphs.facts import LOOPS
from procrustes_kge.graphs.known_answers import known_answers
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.calibration import Calibration
from procrustes_kge.runs.experiment import Run
from procrustes_models import close, drawn
from scorers import tables
from toys import all_scores, planted_model, random_graph, small_baseline

SMALL = Grid(7, 3, 4)


def by_definition(model, graph, relations=None, k=None, any_kind=False, key=lambda relation, score: score):
    """Return (relation, head, tail, score) of every triple that may be missing, best first, one after another."""
    known = {tuple(row) for split in (graph.train, graph.valid, graph.test) for row in split.tolist()}
    scores, found = all_scores(model, graph).tolist(), []
    for relation in range(len(graph.relations)) if relations is None else relations:
        rows = [row for row in graph.train.tolist() if row[1] == relation]
        heads, tails = {row[0] for row in rows}, {row[2] for row in rows}
        loops = sum(head == tail for head, _, tail in rows) >= LOOPS * len(rows)
        found += [
            (relation, head, tail, scores[relation][head][tail])
            for head in range(len(graph.entities))
            for tail in range(len(graph.entities))
            if (any_kind or (head in heads and tail in tails))
            and (head, relation, tail) not in known
            and (loops or head != tail)
        ]
    found.sort(key=lambda row: (-key(row[0], row[3]), -row[3], *row[:3]))
    return found[:k]


def by_search(model, graph, relations=None, k=10**6, any_kind=False, **options):
    everything = range(len(graph.relations))
    best = Search(model, graph, list(relations or everything), k, any_kind, **{"grid": SMALL, **options}).run()
    rows = zip(best.triples.tolist(), best.scores.tolist(), strict=True)
    return [(relation, head, tail, score) for (head, relation, tail), score in rows]


@given(tables(), st.integers(1, 60), st.booleans(), st.integers(1, 2))
def test_the_best_of_all_pairs_are_found_in_one_order_where_many_are_tied(case, k, any_kind, workers):
    graph, table = case
    expected = by_definition(table, graph, None, k, any_kind)
    assert by_search(table, graph, None, k, any_kind, workers=workers) == expected


def trained(name, graph):
    options, module = BASELINES[name].Options(dim=16), small_baseline(name, graph)
    return TrainedBaseline(name, options, graph.entities, graph.relations, module.eval())


def models():
    graph = random_graph(30, 4, 150)
    kinds = {
        "procrustes": drawn(scale=True, translate=True),
        "with inverses": drawn(inverses=True),
        **{name: (trained(name, graph), graph) for name in ("complex", "roth")},
    }
    return [pytest.param(*case, id=name) for name, case in kinds.items()]


@pytest.mark.parametrize(("model", "graph"), models())
@pytest.mark.parametrize("any_kind", [False, True])
def test_every_model_is_searched_exactly(model, graph, any_kind):
    expected = by_definition(model, graph, k=40, any_kind=any_kind)
    found = by_search(model, graph, k=40, any_kind=any_kind)
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    close(torch.tensor([row[3] for row in found]), torch.tensor([row[3] for row in expected]))


def with_lengths(spread=30.0):
    """Return a model whose entities differ in length, so that bounds leave most pairs out."""
    model, graph = drawn(scale=True, translate=True)
    lengths = torch.logspace(0, -1, len(graph.entities)) ** spread**0.5
    return replace(model, vectors=model.vectors * lengths[:, None, None]), graph


def test_what_a_bound_leaves_out_could_not_have_come_in():
    model, graph = with_lengths()
    everything = torch.arange(len(graph.entities))
    pairs = Pairs(model, model, graph, known_answers(graph), 1, everything, everything, SMALL)
    queries = model.query(model, pairs.heads, torch.ones_like(pairs.heads))
    scores = products_of(model, model).only(pairs.tails).scores(queries)
    for row in range(len(pairs.heads)):
        for column in range(len(pairs.tails)):
            assert scores[row:, column:].max() <= pairs.reach(row, column)
    floor = float(scores.flatten().topk(5).values.min())
    left = sum(pairs.left(job, floor) for job in range(pairs.jobs))
    assert 0 < left < pairs.count / 2
    assert sum(pairs.left(job, float("-inf")) for job in range(pairs.jobs)) == pairs.count
    assert [row[:3] for row in by_search(model, graph, k=5, any_kind=True)] == [
        row[:3] for row in by_definition(model, graph, k=5, any_kind=True)
    ]


def calibration(relations, steps=4):
    """Return a calibration in which each relation has another curve, all with steps."""
    knots, numbers = torch.arange(2 * steps).double().numpy(), 2 * relations
    evidence = (knots // 2) - 2
    spreads = 1 + torch.arange(numbers).double().numpy() % 3
    plain = {"slopes": spreads, "offsets": -spreads, "examples": (spreads * 0).astype("int64")}
    return Calibration(knots, evidence, spreads / 2, spreads / 2, **plain, prior=0.2, triples=9)


@pytest.mark.slow
@given(tables(), st.integers(1, 40))
def test_relations_are_merged_by_probability(case, k):
    graph, table = case
    curve = calibration(len(graph.relations))

    def key(relation, score):
        return float(curve.probability(score, relation))

    expected = by_definition(table, graph, None, k, True, key)
    assert by_search(table, graph, None, k, True, calibration=curve) == expected


class Stopping(Kept):
    """Keeps every place, and stops the search after some of them."""

    def __init__(self, folder, identity, search, after):
        super().__init__(folder, identity)
        self.search, self.after = search, after

    def run(self):
        def stop(_):
            self.after -= 1
            if self.after == 0:
                self.search.stop.set()

        return self.search.run(self, stop)


def test_a_search_that_was_stopped_again_and_again_ends_with_the_same_list_bit_for_bit(tmp_path):
    model, graph = with_lengths(3.0)

    def search():
        return Search(model, graph, [2, 0, 1], 30, True, workers=2, grid=SMALL)

    whole, stops = search().run(), 0
    while True:
        again = search()
        best = Stopping(tmp_path / "kept", identity(again, model), again, after=2).run()
        if not again.stop.is_set():
            break
        stops += 1
    assert stops > 5
    assert best.scores.equal(whole.scores)
    assert best.triples.equal(whole.triples)


def test_one_worker_finds_what_two_do_bit_for_bit():
    model, graph = with_lengths(3.0)
    one, two = (Search(model, graph, [0, 1], 50, True, workers=count, grid=SMALL).run() for count in (1, 2))
    assert one.scores.equal(two.scores)
    assert one.triples.equal(two.triples)


@pytest.mark.parametrize("change", [{"k": 9}, {"any_kind": False}, {"relations": [1]}, {"grid": Grid(8, 3, 4)}])
def test_another_search_does_not_go_on_from_this_one(change, tmp_path):
    model, graph = drawn()
    search = Search(model, graph, [0, 1], 8, True, grid=SMALL)
    Stopping(tmp_path / "kept", identity(search, model), search, after=1).run()
    other = replace(search, **change)
    with pytest.raises(InputError, match="is of another search"):
        other.run(Kept(tmp_path / "kept", identity(other, model)))


def test_a_place_that_was_damaged_is_refused(tmp_path):
    model, graph = drawn()
    search = Search(model, graph, [0, 1], 8, True, grid=SMALL)
    Stopping(tmp_path / "kept", identity(search, model), search, after=1).run()
    for file in ("found.safetensors", "state.json", "manifest.json"):
        whole = (tmp_path / "kept" / file).read_bytes()
        for damage in (whole[:-3], whole[:-3] + b"???", b""):
            (tmp_path / "kept" / file).write_bytes(damage)
            with pytest.raises(InputError, match="damaged"):
                search.run(Kept(tmp_path / "kept", identity(search, model)))
        (tmp_path / "kept" / file).write_bytes(whole)


def test_models_with_other_numbers_have_other_fingerprints():
    one, _ = drawn()
    other = replace(one, vectors=one.vectors.clone())
    assert fingerprint(one) == fingerprint(other)
    other.vectors[3, 1, 1] += 1e-6
    assert fingerprint(one) != fingerprint(other)


def test_planted_triples_that_were_taken_out_are_the_first_that_are_missing():
    model, graph = planted_model()
    hidden = torch.cat([graph.valid, graph.test])
    nothing = graph.train[:0]
    taken = replace(graph, valid=nothing, test=nothing)
    names = {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in hidden.tolist()}
    found = missing(model, graph=taken, k=len(hidden), any_kind=True)  # each is the head of a relation once
    assert {(each.head, each.relation, each.tail) for each in found} == names


def test_more_than_there_is_gives_all_there_is():
    model, graph = drawn()
    found = missing(model, graph.relations[0], graph=graph, k=10**9)
    assert len(found) == len(by_definition(model, graph, [0]))


def test_slots_are_what_training_has_seen():
    graph = random_graph(20, 5, 60)
    slots = Slots(graph, any_kind=False)
    for relation in range(5):
        rows = graph.train[graph.train[:, 1] == relation]
        heads, tails = slots.of(relation)
        assert heads.tolist() == sorted(set(rows[:, 0].tolist()))
        assert tails.tolist() == sorted(set(rows[:, 2].tolist()))
        assert slots.pairs(relation) == len(heads) * len(tails)


def test_a_plan_counts_all_pairs_and_bounds_the_memory():
    model, graph = with_lengths()
    plan = search_for(model, graph, k=5, any_kind=True).plan()
    assert plan.pairs == len(graph.entities) ** 2 * len(graph.relations)
    assert 0 < plan.left <= plan.pairs
    assert plan.seconds > 0
    assert plan.memory > 0


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_a_k_that_is_none_is_refused(k, unchecked):
    model, graph = drawn()
    with pytest.raises(InputError, match="expected a whole number of at least 1"):
        missing(model, graph=graph, k=k)


def test_scores_that_are_no_numbers_are_refused():
    model, graph = drawn()
    broken = replace(model, vectors=model.vectors * float("nan"))
    with pytest.raises(InputError, match="not finite"):
        missing(broken, graph=graph)


def test_a_relation_without_training_triples_is_explained():
    model, graph = drawn()
    kept = graph.train[graph.train[:, 1] != 2]
    with pytest.raises(InputError, match="add --any"):
        missing(model, graph.relations[2], graph=replace(graph, train=kept))


def test_answers_have_names_labels_and_probabilities_where_there_are_any():
    model, graph = planted_model()
    assert missing(model, graph=graph, k=1)[0].probability is None
    curve = calibration(len(graph.relations))
    run = Run(model, graph, None, {}, calibration=curve)
    found = missing(run, graph.relations[1], k=3)
    assert [each.rank for each in found] == [1, 2, 3]
    for each in found:
        assert each.relation == graph.relations[1]
        assert each.head_label == graph.entities.label(graph.entities.id(each.head))
        assert each.probability == pytest.approx(float(curve.probability(each.score, 1)))
