"""Triples grouped by (entity, direction), against a plain dictionary."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.queries import check_keys, group_by_query
from procrustes_kge.words import counted


@st.composite
def groupings(draw, entities=(5, 200_000_000), relations=(3, 20_000)):
    """Draw triples, some of them twice, and the sizes that their ids stay below: of a toy, or of the largest graphs."""
    case = draw(st.integers(0, len(entities) - 1))
    count, kinds = entities[case], relations[case]
    entity = st.one_of(st.integers(0, 4), st.integers(count - 3, count - 1))
    relation = st.one_of(st.integers(0, 2), st.integers(kinds - 2, kinds - 1))
    rows = draw(st.lists(st.tuples(entity, relation, entity), max_size=40))
    rows += draw(st.lists(st.sampled_from(rows), max_size=5)) if rows else []
    return rows, count, kinds


def tensor(rows):
    return torch.tensor(rows, dtype=torch.int64).view(-1, 3)


def plainly(rows, relations):
    """Return the answers of each (direction, entity), in the order of the triples."""
    answers = {}
    for head, relation, tail in rows:
        answers.setdefault((relation, head), []).append(tail)
        answers.setdefault((relation + relations, tail), []).append(head)
    return answers


def grouped(queries):
    """Return the same of queries, whose order must be that of direction, then entity."""
    bounds = queries.offsets.tolist()
    answers = [queries.answers[first:last].tolist() for first, last in pairwise(bounds)]
    pairs = list(zip(queries.directions.tolist(), queries.entities.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    return dict(zip(pairs, answers, strict=True))


@given(groupings())
def test_a_query_has_its_answers_in_the_order_of_the_triples(case):
    rows, entities, relations = case
    queries = group_by_query(tensor(rows), entities, relations, distinct=False)
    assert grouped(queries) == plainly(rows, relations)
    assert len(queries.answers) == 2 * len(rows)


@given(groupings())
def test_a_query_has_each_distinct_answer_once_in_ascending_order(case):
    rows, entities, relations = case
    queries = group_by_query(tensor(rows), entities, relations)
    assert grouped(queries) == {pair: sorted(set(found)) for pair, found in plainly(rows, relations).items()}
    assert queries.counts.tolist() == [len(found) for found in grouped(queries).values()]


@given(groupings())
def test_the_two_sides_hold_what_the_whole_holds(case):
    rows, entities, relations = case
    queries = group_by_query(tensor(rows), entities, relations)
    tails, heads = queries.by_side(relations)
    assert (tails.directions < relations).all()
    assert (heads.directions >= relations).all()
    assert grouped(tails) | grouped(heads) == grouped(queries)
    assert len(tails) + len(heads) == len(queries)


@given(groupings())
def test_short_integers_do_not_overflow(case):
    rows, entities, relations = case
    for distinct in (True, False):
        found = [group_by_query(each, entities, relations, distinct) for each in (tensor(rows), tensor(rows).int())]
        assert grouped(found[0]) == grouped(found[1])


@pytest.mark.parametrize(("many", "entities"), [(2**40, 2**23), (2**63, 1), (1, 2**62)])
def test_sizes_that_no_64_bits_can_number_are_refused(many, entities):
    with pytest.raises(InputError, match=f"{counted(many, 'query')} and {counted(entities, 'entity')}, expected .*; "):
        check_keys(many, entities, "query")
    check_keys(many // 4, entities, "query")


def test_too_many_directions_are_refused_before_anything_is_computed():
    with pytest.raises(InputError, match="directions"):
        group_by_query(tensor([(0, 0, 1)]), 2**50, 2**13)
