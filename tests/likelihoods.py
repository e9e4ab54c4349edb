"""Models that were never trained, and the loss of a graph's triples by a model's own scores."""

from dataclasses import replace

import torch
from hypothesis import strategies as st

from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.training.restoring import Likelihood
from toys import builds, random_graphs, random_orthogonal


def drawn_model(graph, segments, width, size, translate, scale, seed, dtype=torch.float64):
    """Return a model that was never trained, in float64 so that rounding does not hide a rise, and its graph."""
    generator = torch.Generator().manual_seed(seed)
    directions = 2 * len(graph.relations)

    def normal(rows):
        return torch.randn(rows, segments, width, generator=generator, dtype=torch.float64)

    tables = (
        size * normal(len(graph.entities)),
        random_orthogonal(width, generator, (len(graph.relations), segments)),
        normal(directions) if translate else None,
        normal(directions) if scale else None,
    )
    tables = (None if table is None else table.to(dtype) for table in tables)
    return Procrustes(graph.entities, graph.relations, *tables), graph


def drawn_models(sizes, **fixed):
    """Draw a model and a graph: any number of segments, with and without scales and translations."""
    return builds(
        drawn_model,
        graph=random_graphs(),
        segments=st.integers(1, 4),
        width=st.integers(1, 5),
        size=st.sampled_from(sizes),
        translate=st.booleans(),
        scale=st.booleans(),
        seed=st.integers(0, 2**31),
        **fixed,
    )


def likelihood_of(model, graph):
    return Likelihood(model.vectors, graph, model.translations, model.scales)


def losses_of(model, graph, rotations=None):
    """Return −log p of each relation's answers, both directions, by the model's own scores of all entities."""
    model = model if rotations is None else replace(model, rotations=rotations)
    head, relation, tail = graph.train.unbind(dim=1)
    losses = model.vectors.new_zeros(len(graph.relations))
    for asked, direction, answer in ((head, relation, tail), (tail, relation + len(graph.relations), head)):
        scores = model.scores(model, model.query(model, asked, direction))
        logs = scores.log_softmax(dim=1).gather(1, answer[:, None])[:, 0]
        losses = losses.index_add(0, relation, -logs)
    return losses


def close(left, right, tolerance=1e-9):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)
