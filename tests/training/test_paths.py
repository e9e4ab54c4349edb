"""Laws of mining and weighing paths: planted rules are found, chance is not, and a seed repeats."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from folders import model_of
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.models.paths import Paths
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training.path_mining import expected_walks, inverse, mined, reverse
from procrustes_kge.training.path_weights import PULL, Examples, first_weights, learned_weights
from procrustes_kge.training.path_worth import WORTHS, best_worths, worths_that_gain
from procrustes_kge.training.paths import with_paths
from toys import graph_of, random_graph, random_graphs

PARENT, GRANDPARENT, CHANCE = range(3)


def families(seed=0, people=300):
    """Return a graph where grandparent = parent ∘ parent, beside a relation of chance; a third is held out."""
    generator = torch.Generator().manual_seed(seed)
    parents = [(child // 2, PARENT, child) for child in range(2, people)]
    parent = {child: head for head, _, child in parents}
    grand = torch.tensor([(parent[head], GRANDPARENT, child) for head, _, child in parents if head in parent])
    grand = grand[torch.randperm(len(grand), generator=generator)]
    chance = torch.randint(people, (people, 3), generator=generator)
    chance[:, 1] = CHANCE
    third = len(grand) // 6
    names = Vocabulary((f"p{i}" for i in range(people)), "entity")
    relations = Vocabulary(("parent", "grandparent", "chance"), "relation")
    train = torch.cat([torch.tensor(parents), chance, grand[2 * third :]])
    return Graph("families", names, relations, train, grand[:third], grand[third : 2 * third])


def embedding_of(graph, width=4):
    return model_of(graph.entities.names, graph.relations.names, width=width)


def test_a_planted_rule_is_found_and_ranks_what_is_held_out_first():
    graph = families()
    found = with_paths(embedding_of(graph), graph)
    model = found.model
    assert evaluate(model.embedding, graph).mrr < 0.1
    assert evaluate(model, graph).tail.hits_at_10 == 1  # grandchildren of one person have equal scores from paths
    assert evaluate(model, graph).head.hits_at_1 == 1
    assert found.about["valid"]["without"] < 0.1 < found.about["valid"]["gain"]
    head, _, tail = graph.test[0].tolist()
    assert model.reasons(head, GRANDPARENT, tail)[0].steps == ("parent", "parent")
    assert model.reasons(tail, GRANDPARENT + 3, head)[0].steps == ("parent⁻¹", "parent⁻¹")


@pytest.mark.slow
def test_chance_is_worth_nothing():
    for seed in range(3):
        graph = random_graph(60, 3, 600, seed)
        found = with_paths(embedding_of(graph), graph, seed=seed)
        gain = evaluate(found.model, graph).mrr - evaluate(found.model.embedding, graph).mrr
        assert found.about["worth"] == 0 or abs(gain) < 0.05
        if found.about["worth"] == 0:
            assert gain == 0


def test_confidence_is_one_where_a_rule_always_holds():
    graph = families()
    [place] = [[PARENT + 3, PARENT + 3, -1]]
    paths = Paths(torch.tensor([GRANDPARENT + 3]), torch.tensor([place]), torch.zeros(1))
    triples = graph.train[graph.train[:, 1] == GRANDPARENT]
    tails, directions, heads = (each[len(triples) :] for each in both_queries(triples, 3))
    examples = Examples.of(paths, KnownAnswers.of(graph, ("train",)), tails, directions, heads)
    confidences, hits = examples.confidences(1)
    assert hits.tolist() == [len(triples)]
    assert confidences.item() == pytest.approx(len(triples) / (len(triples) + 5))


def test_an_edge_does_not_support_itself():
    # Each pair is linked once. If the asked edge counted, the relation's own inverse would always lead to the answer.
    graph = graph_of([f"a{i} r b{i}" for i in range(20)] + [f"a{i} s b{(i + 1) % 20}" for i in range(20)])
    candidates = mined(graph, KnownAnswers.of(graph, ("train",)), torch.Generator().manual_seed(0))
    assert not ((candidates.steps >= 0).sum(dim=1) == 1).any()


def test_mining_finds_symmetric_inverse_and_longer_rules():
    pairs = [(f"a{i}", f"b{i}") for i in range(10)]
    graph = graph_of([row for a, b in pairs for row in (f"{a} like {b}", f"{b} like {a}", f"{b} of {a}")])
    candidates = mined(graph, KnownAnswers.of(graph, ("train",)), torch.Generator().manual_seed(0))
    found = {(each, *steps) for each, steps in zip(candidates.asked.tolist(), candidates.steps.tolist(), strict=True)}
    like, of, count = 0, 1, 2
    assert (like, like + count, -1, -1) in found  # like is symmetric
    assert (of, like, -1, -1) in found
    assert (of + count, like, -1, -1) in found
    assert (candidates.share > 0).all()
    assert (candidates.share <= 1).all()


@given(st.integers(1, 5), st.integers(0, 99))
def test_reversing_a_path_twice_is_no_change(relations, seed):
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randint(2 * relations, (20, 3), generator=generator)
    steps = torch.where(torch.arange(3) < torch.randint(1, 4, (20, 1), generator=generator), steps, -1)
    assert reverse(reverse(steps, relations), relations).equal(steps)
    lengths = (steps >= 0).sum(dim=1)
    ends = steps[torch.arange(20), lengths - 1]
    assert reverse(steps, relations)[:, 0].equal(inverse(ends, relations))


def test_expected_walks_are_those_of_a_regular_graph():
    # Three edges of r leave an entity, one of them the one that is asked about; and back along r⁻¹ lead two others.
    graph = graph_of([f"{block}{i} r {block + 1}{j}" for block in range(6) for i in range(3) for j in range(3)])
    generator = torch.Generator().manual_seed(0)
    steps = torch.tensor([[0, -1, -1], [0, 1, -1]])
    edges = KnownAnswers.of(graph, ("train",))
    walks = expected_walks(edges, torch.tensor([0, 0]), steps, 1, generator)
    assert walks.tolist() == pytest.approx([2, 4])


@pytest.mark.slow
@given(graph=random_graphs(fewest_triples=12), seed=st.integers(0, 99))
def test_learned_weights_are_where_the_loss_is_flat(graph, seed):
    generator = torch.Generator().manual_seed(seed)
    relations = len(graph.relations)
    steps = torch.randint(2 * relations, (6, 3), generator=generator)
    table = torch.cat([torch.zeros(6, 1, dtype=torch.int64), steps], dim=1).unique(dim=0)
    paths = Paths(table[:, 0], table[:, 1:].contiguous(), torch.zeros(len(table)))
    heads, _, tails = graph.train.unbind(dim=1)
    asked = torch.zeros_like(heads)
    edges = KnownAnswers.of(graph, ("train",))
    examples = Examples.of(paths, edges, heads, asked, tails)
    begin = first_weights(examples.confidences(len(paths))[0])
    weights = learned_weights(examples, begin) if len(examples.cells) else begin
    weights = weights.double().requires_grad_()
    loss = PULL * (weights - begin.double()).square().sum()
    for head, tail in zip(heads.tolist(), tails.tolist(), strict=True):
        one = torch.tensor([head]), torch.tensor([0]), torch.tensor([tail])
        scores = evidence_of(paths, weights, edges, *one)
        known = edges.hold(one[0], one[1], torch.arange(len(graph.entities))[None])[0]
        scores = torch.where(known & (torch.arange(len(scores)) != tail), 0, scores)  # other answers as if not reached
        loss = loss + scores.logsumexp(0) - scores[tail]
    [gradient] = torch.autograd.grad(loss, weights)
    assert gradient.abs().max() < 0.01 * len(heads) ** 0.5


def evidence_of(paths, weights, edges, head, direction, hidden):
    found = paths.found(edges, head, direction, hidden)
    scores = torch.zeros(edges.entities, dtype=torch.float64)
    return scores.index_add(0, found.entities, weights[found.paths] * (1 + 0.3 * found.counts.double().log()))


def test_a_seed_repeats():
    graph = families()
    one, other, third = (with_paths(embedding_of(graph), graph, seed=seed).model for seed in (1, 1, 2))
    assert all(table.equal(other.evidence_tables()[name]) for name, table in one.evidence_tables().items())
    assert not one.paths.weights.equal(third.paths.weights)


def test_a_direction_of_few_queries_chooses_as_all_do():
    few, many = 3, 1000
    ranks = torch.full((few + many, len(WORTHS)), 0.5, dtype=torch.float64)
    ranks[:few, 2] += 0.01
    ranks[few:, 5] += 0.1
    asked = torch.cat([torch.zeros(few), torch.ones(many)]).long()
    assert best_worths(ranks, asked, 3).tolist() == [5, 5, 5]
    ranks[:, 1:] = 0.4
    assert best_worths(ranks, asked, 3).tolist() == [0, 0, 0]


def test_a_gain_within_its_error_is_no_gain():
    generator, used = torch.Generator().manual_seed(0), 0
    asked, half = torch.zeros(400, dtype=torch.int64), torch.arange(400) % 2
    for _ in range(50):
        noise = 0.05 * torch.randn(400, len(WORTHS), generator=generator, dtype=torch.float64)
        used += bool(worths_that_gain(0.5 + noise, asked, half, 1)[0].any())
        noise[:, 4] += 0.05
        places, about = worths_that_gain(0.5 + noise, asked, half, 1)
        assert places.tolist() == [4]
        assert about["gain"] == pytest.approx(0.05, abs=0.02)
    assert used < 50 * 0.3  # one standard error: about one in six


@pytest.mark.parametrize(
    "graph",
    {
        "one relation": graph_of(["a r b", "b r c", "c r a"], valid=["a r c"]),
        "no validation": graph_of(["a r b", "b r c", "a s c", "b s a"]),
        "no path": graph_of(["a r b", "c s d"], valid=["a r d"]),
        "loops alone": graph_of(["a r a", "b r b"], valid=["a r b"]),
        "a relation that is not in train": graph_of(["a r b", "b r c"], valid=["a s b"]),
        "the same triple again": graph_of(["a r b", "a r b", "b r a", "c r b", "b r c"], valid=["a r c"]),
    }.values(),
)
def test_odd_graphs_have_paths_or_none(graph):
    found = with_paths(embedding_of(graph), graph)
    assert (found.about["valid"] is None) == (len(graph.valid) == 0 or found.about["paths"] == 0)
    assert found.model.worth.isfinite().all()
    assert evaluate(found.model, replace(graph, test=graph.train)).mrr > 0


def test_without_time_there_are_no_paths():
    graph = families()
    found = with_paths(embedding_of(graph), graph, seconds=0)
    assert (found.about["paths"], found.about["worth"]) == (0, 0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_weighs_the_same_paths_alike():
    graph = families()
    model, theirs = (with_paths(embedding_of(graph).to(device), graph).model for device in ("cpu", "cuda"))
    assert theirs.worth.is_cuda
    ours, tables = model.evidence_tables(), theirs.to("cpu").evidence_tables()
    for name in ("asked", "steps"):
        assert ours[name].equal(tables[name])
    torch.testing.assert_close(ours["weights"], tables["weights"], atol=1e-2, rtol=1e-2)
    head, _, tail = graph.test[0].tolist()
    here, there = (each.reasons(head, GRANDPARENT, tail) for each in (model, theirs))
    assert [reason.entities for reason in here] == [reason.entities for reason in there]
    assert evaluate(theirs, graph).mrr == pytest.approx(evaluate(model, graph).mrr, abs=0.02)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_seed_repeats_on_a_gpu():
    graph = families()
    one, other = (with_paths(embedding_of(graph).to("cuda"), graph).model.evidence_tables() for _ in range(2))
    assert all(table.equal(other[name]) for name, table in one.items())
