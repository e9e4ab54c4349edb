"""Known answers, against a plain dictionary."""

import weakref
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.graphs.graph import SPLITS, Vocabulary
from procrustes_kge.graphs.known_answers import KnownAnswers, known_answers
from toys import graph_of, random_graph, random_graphs


def queries_of(graph, seed, count=30):
    """Return random queries of a graph, some of which have no answer."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randint(most, (count,), generator=generator) for most in (len(graph.entities), 2 * len(graph.relations))
    )


@given(random_graphs(), st.sets(st.sampled_from(SPLITS), min_size=1), st.integers(0, 99))
def test_known_answers_are_those_of_a_plain_dictionary(graph, splits, seed):
    relations, plain = len(graph.relations), {}
    for split in splits:
        for head, relation, tail in graph.split(split).tolist():
            plain.setdefault((head, relation), set()).add(tail)
            plain.setdefault((tail, relation + relations), set()).add(head)
    known = KnownAnswers.of(graph, sorted(splits))
    asked = queries_of(graph, seed)
    answers = [sorted(plain.get(query, ())) for query in zip(*(ids.tolist() for ids in asked), strict=True)]
    rows, found = known.look_up(*asked)
    expected = [(row, answer) for row, each in enumerate(answers) for answer in each]
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == expected
    assert known.count(*asked).tolist() == [len(each) for each in answers]
    assert len(known.queries.answers) == sum(map(len, plain.values()))


def test_every_split_is_known_unless_some_are_chosen():
    graph = random_graph(20, 1, 300)
    sizes = [2 * len(graph.split(split)) for split in SPLITS]
    assert len(KnownAnswers.of(graph).queries.answers) == sum(sizes)
    assert [len(KnownAnswers.of(graph, [split]).queries.answers) for split in SPLITS] == sizes


@given(graph=random_graphs(), seed=st.integers(0, 99))
def test_known_answers_say_of_any_candidate_whether_it_is_one(graph, seed):
    known, count = KnownAnswers.of(graph), len(graph.entities)
    asked = queries_of(graph, seed)
    candidates = torch.randint(count, (30, 7), generator=torch.Generator().manual_seed(seed))
    rows, answers = known.look_up(*asked)
    plain = torch.zeros(30, count, dtype=torch.bool)
    plain[rows, answers] = True
    assert torch.equal(known.hold(*asked, candidates), plain.gather(1, candidates))
    assert torch.equal(known.hold(*asked, torch.arange(count)), plain)


@pytest.mark.parametrize("ids", [[0, 1], []])
def test_where_nothing_is_known_nothing_is_found(ids):
    known = KnownAnswers.of(graph_of(["a r b", "b r c"]), ["valid"]).to(torch.device("cpu"))
    asked = torch.tensor(ids, dtype=torch.int64)
    assert [len(found) for found in known.look_up(asked, asked)] == [0, 0]
    assert not known.count(asked, asked).any()
    assert not known.hold(asked, asked, torch.arange(3)).any()


class Unnamed(Vocabulary):
    """A vocabulary of so many names that none is kept."""

    def __init__(self, count, kind):
        super().__init__((), kind)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return f"{self.kind} {index}"


@given(st.integers(0, 2**31))
def test_the_largest_graphs_overflow_nothing(seed):
    # Ids as large as they come: as one number, relation, entity and answer would not fit into 64 bits.
    entities, relations, generator = 200_000_000, 20_000, torch.Generator().manual_seed(seed)
    small = random_graph(30, 6, 200, seed)
    ids, kinds = (
        size - 1 - torch.arange(count) * (size // count) - torch.randint(2, (count,), generator=generator)
        for size, count in ((entities, 30), (relations, 6))
    )
    moved = [torch.stack([ids[each[:, 0]], kinds[each[:, 1]], ids[each[:, 2]]], 1) for each in map(small.split, SPLITS)]
    large = replace(
        small,
        **dict(zip(SPLITS, moved, strict=True)),
        entities=Unnamed(entities, "entity"),
        relations=Unnamed(relations, "relation"),
    )
    known, few = KnownAnswers.of(large), KnownAnswers.of(small)
    asked, sides = queries_of(small, seed)
    far = ids[asked], kinds[sides % 6] + relations * (sides // 6)
    rows, found = known.look_up(*far)
    plain = few.look_up(asked, sides)
    assert set(zip(rows.tolist(), found.tolist(), strict=True)) == {
        (row, int(ids[answer])) for row, answer in zip(plain[0].tolist(), plain[1].tolist(), strict=True)
    }
    assert torch.equal(known.count(*far), few.count(asked, sides))
    assert torch.equal(known.hold(*far, ids), few.hold(asked, sides, torch.arange(30)))


def test_all_answers_are_collected_once_for_a_graph_and_let_go_with_it():
    graph = random_graph(entities=6, relations=2, triples=20, seed=0)
    found = known_answers(graph)
    assert known_answers(graph) is found
    assert found.queries.answers.equal(KnownAnswers.of(graph).queries.answers)
    kept = weakref.ref(found)
    del graph, found
    assert kept() is None
