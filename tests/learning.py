"""Queries, tables and objectives that are all drawn, and the loss of a batch of them written plainly."""

from dataclasses import dataclass

import torch
from hypothesis import assume, settings, strategies as st

import plain
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE, QueryBatches
from procrustes_kge.linalg import spherise
from procrustes_kge.training.deck import Deck
from procrustes_kge.training.gradients import Objective, Tables
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.objective import Sigmoid
from procrustes_kge.training.optimisers import Adagrad
from toys import builds, random_graphs, random_orthogonal

KINDS = ("none", "all", "smoothed", "some", "sigmoid")
WHOLE = ("none", "all", "smoothed")  # where no negatives are drawn
SIGMOID = Sigmoid(margin=1.5, sharpness=2.0, adversarial_temperature=0.7)
SEEDS = st.integers(0, 2**31)
HEIGHTS = st.sampled_from([1, 3, QUERIES_PER_TILE])  # tiles of one row have no padding, others do
ALL_AT_ONCE = 10**6
FEWER, FEW = settings(max_examples=15), settings(max_examples=5)  # where an example takes many steps


def objective(kind, negatives=3, **others):
    """Return an objective of a kind."""
    return Objective(
        negatives={"none": 0, "all": None, "smoothed": None}.get(kind, negatives),
        sigmoid=SIGMOID if kind == "sigmoid" else None,
        label_smoothing=0.3 if kind == "smoothed" else 0.0,
        **others,
    )


@dataclass(frozen=True)
class Problem:
    """Queries of a graph, tables to start from, and what is asked of them."""

    graph: Graph
    batches: QueryBatches
    tables: Tables
    objective: Objective
    seed: int

    def generator(self):
        """Return random numbers, the same every time."""
        return torch.Generator().manual_seed(self.seed)

    def whole(self, generator=None):
        """Return all queries in one batch."""
        (batch,) = self.batches.epoch(ALL_AT_ONCE, generator or self.generator())
        return batch

    def dealt(self, batch):
        """Return the negatives of a batch, from a shuffled deck."""
        if not self.objective.negatives:
            return None
        deck = Deck(len(self.graph.entities), torch.device("cpu"))
        deck.shuffle(self.generator())
        return deck.deal(batch, self.objective.negatives)

    def learner(self, optimiser=Adagrad, unit=False):
        """Return a learner that has seen nothing yet, equal to any other of this problem."""
        tables = Tables(*(None if table is None else table.clone() for table in self.tables))
        if unit:
            points = tables.vectors.view(-1, *tables.rotations.shape[1:3]).transpose(0, 1)
            tables = tables._replace(vectors=spherise(points).transpose(0, 1).flatten(1))
        learner = Learner(tables, self.objective, optimiser, self.generator(), unit)
        learner.deck.shuffle(learner.generator)
        return learner


def problem(graph, asked, segments=2, width=3, height=3, scale=False, translate=False, seed=0, dtype=torch.float64):
    """Return a problem whose tables are drawn."""
    generator, relations = torch.Generator().manual_seed(seed), len(graph.relations)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    rotations = random_orthogonal(width, generator, (relations, segments)).to(dtype)
    tables = Tables(
        normal(len(graph.entities), segments * width),
        torch.cat([rotations, rotations.mT]),
        normal(2 * relations, segments, width) if translate else None,
        1 + normal(2 * relations, segments, width) / 4 if scale else None,
    )
    return Problem(graph, QueryBatches.of(graph.train, len(graph.entities), relations, height), tables, asked, seed)


@st.composite
def problems(draw, kinds=KINDS, dtype=torch.float64, **others):
    """Draw a problem of any kind and size."""
    graph = draw(random_graphs())
    asked = objective(
        draw(st.sampled_from(kinds)),
        negatives=draw(st.integers(1, len(graph.entities) - 1)),
        regularisation=draw(st.sampled_from([0.0, 0.1])),
        power=draw(st.sampled_from([2.0, 1.5, 3.0])),
        crowd=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        query_regularisation=draw(st.sampled_from([1.0, 3.0])),
        scale_regularisation=draw(st.sampled_from([0.0, 0.1])),
        **{"relation_weight": draw(st.sampled_from([0.0, 0.7])), **others},
    )
    sizes = {"segments": draw(st.integers(1, 3)), "width": draw(st.integers(2, 4)), "height": draw(HEIGHTS)}
    sides = {"scale": draw(st.booleans()), "translate": draw(st.booleans())}
    seed = draw(SEEDS)
    return draw(builds(lambda: problem(graph, asked, **sizes, **sides, seed=seed, dtype=dtype)))


def close(left, right, tolerance=1e-9):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def named(tables):
    """Return the tables that there are, by name."""
    return {name: table for name, table in tables._asdict().items() if table is not None}


def plain_losses(tables, batch, asked, draw, kept=None):
    """Return the loss of each row of a batch (`kept`: what dropout leaves of queries), and the sum that is learned."""
    tile, shape = len(batch.asked) // len(batch.tiles), tables.rotations.shape[1:3]
    losses, total = [], torch.zeros((), dtype=torch.float64)
    for row, entity in enumerate(batch.asked.tolist()):
        direction, answers = int(batch.tiles[row // tile]), batch.answers[batch.rows == row].tolist()
        if not answers:
            losses.append(torch.zeros((), dtype=torch.float64))
            continue
        weight = len(answers) ** (asked.crowd - 1)
        query = torch.einsum("sw,swv->sv", tables.vectors[entity].view(shape), tables.rotations[direction])
        query = query if tables.scales is None else tables.scales[direction] * query
        query = query if tables.translations is None else query + tables.translations[direction]
        query = query.flatten()
        drawn = None if draw is None else draw.drawn[row // draw.height].tolist()
        compared = query if kept is None else query * kept[row]
        reported, learned = _query_loss(asked, compared, tables.vectors, answers, weight, drawn)
        losses.append(reported.detach())
        powers, of_query = (_powers(rows, shape, asked.power) for rows in (tables.vectors, query[None]))
        lengths = len(answers) * (powers[entity] + asked.query_regularisation * of_query[0]) + 2 * powers[answers].sum()
        total = total + learned + asked.regularisation * weight * lengths
        if tables.scales is not None and asked.scale_regularisation:
            of_scales = _powers(tables.scales[direction][None], shape, asked.power).sum()
            total = total + asked.scale_regularisation * weight * len(answers) * of_scales
        total = total + asked.relation_weight * weight * _relation_loss(tables, entity, direction, answers)
    return torch.stack(losses), total


def _powers(rows, shape, power):
    """Return Σ_s ‖x_s‖^p of each row."""
    return torch.linalg.vector_norm(rows.view(len(rows), *shape), dim=2).pow(power).sum(dim=1)


def _relation_loss(tables, entity, direction, answers):
    """Return −Σ log p(direction) over the answers: each direction scores by its own query about the entity."""
    asked = tables.vectors[entity].view(tables.rotations.shape[1:3])
    queries = torch.einsum("sw,rswv->rsv", asked, tables.rotations)
    queries = queries if tables.scales is None else queries * tables.scales
    queries = queries if tables.translations is None else queries + tables.translations
    scores = tables.vectors[answers] @ queries.flatten(1).T
    return -scores.log_softmax(dim=1)[:, direction].sum()


def _query_loss(asked, query, vectors, answers, weight, drawn):
    """Return what one query loses, as it is reported and as it is differentiated."""
    if asked.negatives == 0:
        loss = plain.squared(query, vectors, answers, weight)
    elif asked.negatives is None:
        smoothed = plain.softmax(query, vectors, answers, weight, asked.label_smoothing)
        return plain.softmax(query, vectors, answers, weight), smoothed
    elif asked.sigmoid is None:
        loss = plain.sampled_softmax(query, vectors, answers, weight, drawn, len(vectors))
    else:
        assume(torch.linalg.vector_norm(query - vectors, dim=1).min() > 0.02)  # shorter distances are lengthened
        loss = plain.sigmoid(query, vectors, answers, weight, drawn, asked.sigmoid)
    return loss, loss
