"""Models that read their scores off a table, and ranks by definition: one candidate after another."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import strategies as st

from procrustes_kge.graphs.graph import SPLITS
from toys import builds, random_graphs


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


def queries(triples, relations):
    """Yield (asked, relation, answer): every tail, then every head."""
    yield from ((head, relation, tail) for head, relation, tail in triples.tolist())
    yield from ((tail, relation + relations, head) for head, relation, tail in triples.tolist())


def known_answers(graph, splits=SPLITS):
    """Return {(asked, relation): answers} over the splits."""
    known = {}
    for split in splits:
        for asked, relation, answer in queries(graph.split(split), len(graph.relations)):
            known.setdefault((asked, relation), set()).add(answer)
    return known


def ranks_by_definition(table, graph, triples, splits=SPLITS):
    """Return [(optimistic, pessimistic, candidates)] by looking at one candidate after another."""
    known, rows = known_answers(graph, splits), []
    for asked, relation, answer in queries(triples, len(graph.relations)):
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
