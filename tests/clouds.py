"""Clouds of points with planted arms and topics, and clouds with none."""

import torch

from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.models.procrustes import Procrustes
from toys import random_orthogonal

TOPICS, SIZE = 2, 60  # of each arm, and entities of each
DIM = 24


def planted_cloud(arms=3, core=1500, seed=0):
    """Return vectors with a round core and arms of tight topics, and the arm and the topic of each row (−1: core)."""
    generator = torch.Generator().manual_seed(seed)
    basis = random_orthogonal(DIM, generator).float()
    vectors, labels = [0.15 * torch.randn(core, DIM, generator=generator)], [torch.full((core, 2), -1)]
    for arm in range(arms):
        for topic in range(TOPICS):
            own = basis[arms + arm * TOPICS + topic]
            reach = 3 + torch.rand(SIZE, 1, generator=generator)
            noise = 0.05 * torch.randn(SIZE, DIM, generator=generator)
            vectors.append(reach * basis[arm] + 0.8 * own + noise)
            labels.append(torch.tensor([[arm, topic]]).expand(SIZE, 2))
    return torch.cat(vectors), torch.cat(labels)


def run_of(vectors, names=None, labels=None, triples=None, relations=("likes", "knows")):
    """Return a model of these vectors, and a graph of its names: a chain, unless triples are given."""
    names = [f"e{row}" for row in range(len(vectors))] if names is None else names
    entities = Vocabulary(names, "entity", labels)
    known = Vocabulary(relations, "relation")
    if triples is None:
        triples = [(row, row % len(known), row + 1) for row in range(len(names) - 1)]
    none = torch.empty(0, 3, dtype=torch.int64)
    graph = Graph("cloud", entities, known, torch.tensor(triples, dtype=torch.int64).view(-1, 3), none, none)
    rotations = torch.eye(vectors.shape[1]).expand(len(known), 1, -1, -1).contiguous()
    return Procrustes(entities, known, vectors[:, None].contiguous(), rotations), graph
