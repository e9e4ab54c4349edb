"""Graphs and models with planted answers, and graphs with none.

The dihedral group of an M-gon has 2M elements: turns k, and turns followed by a mirror. Entities are its elements, and
relation y sends entity x to x·y: one definite answer from either side. Multiplying by y permutes the elements, which is
an orthogonal map, so rotations that answer every question exist; as y·z and z·y differ, no translation could.
"""

import functools
import math
import random
from dataclasses import fields

import torch
from hypothesis import strategies as st

from procrustes_kge.graphs.datasets import DATASETS
from procrustes_kge.graphs.graph import Graph, Vocabulary, split_graph
from procrustes_kge.models.baselines import BASELINES, build
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.training.supervised_settings import baseline_settings

CORNERS = 30
FACTORS = ((1, 0), (2, 0), (5, 0), (8, 0), (0, 1), (3, 1), (7, 1), (11, 1))  # (turn, mirror) of each relation
ELEMENTS = [(turn, mirror) for mirror in (0, 1) for turn in range(CORNERS)]


def times(left, right):
    """Return the product of two elements: a mirror on the left reverses the turn on the right."""
    (turn, mirror), (more, again) = left, right
    return (turn + (-more if mirror else more)) % CORNERS, mirror ^ again


def rotated_graph(seed=0, factors=FACTORS):
    """Return a graph whose held-out triples follow from those in training, and which orthogonal maps answer."""
    place = {element: row for row, element in enumerate(ELEMENTS)}
    triples = [(place[x], r, place[times(x, y)]) for r, y in enumerate(factors) for x in ELEMENTS]
    everything = Graph(
        "rotated",
        Vocabulary(map(_name, ELEMENTS), "entity", {_name(x): f"element {row}" for x, row in place.items()}),
        Vocabulary(map(_name, factors), "relation"),
        torch.tensor(triples),
        _no_triples(),
        _no_triples(),
    )
    return split_graph(everything, valid=0.1, test=0.1, seed=seed)


def planted_model(seed=0, segments=5, width=6, factors=FACTORS):
    """Return a model in which every tail is exactly h Q, and its graph.

    A segment is a point carried around by a representation ρ of the group: x lies at v ρ(x) and y turns by ρ(y), so
    v ρ(x) ρ(y) = v ρ(x·y). A mirror and turns by 1, 2 or more steps at a time act on the planes of a random basis.
    """
    generator = torch.Generator().manual_seed(seed)
    graph = rotated_graph(seed, factors)
    vectors = torch.empty(len(graph.entities), segments, width)
    rotations = torch.empty(len(graph.relations), segments, width, width)
    for segment in range(segments):
        speeds = 1 + torch.randperm(CORNERS // 2 - 1, generator=generator)[: width // 2]
        basis = random_orthogonal(width, generator)
        start = torch.randn(width, generator=generator, dtype=torch.float64)
        start /= start.norm()
        vectors[:, segment] = torch.stack([start @ _turned(x, speeds, basis) for x in ELEMENTS]).float()
        rotations[:, segment] = torch.stack([_turned(y, speeds, basis) for y in factors]).float()
    return Procrustes(graph.entities, graph.relations, vectors, rotations), graph


def random_graph(entities, relations, triples, seed=0):
    """Return a graph of so many different triples (or all there are), drawn evenly; a third of them are held out.

    Entities and relations may be unseen in training, or occur nowhere; heads may be their own tails.
    """
    cells = entities * relations * entities
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(cells, generator=generator)[:triples]
    rows = torch.stack([drawn // (relations * entities), drawn // entities % relations, drawn % entities], dim=1)
    test, valid = rows[: len(rows) // 6], rows[len(rows) // 6 : len(rows) // 3]
    return Graph(
        "random",
        Vocabulary((f"entity {index}" for index in range(entities)), "entity"),
        Vocabulary((f"relation {index}" for index in range(relations)), "relation"),
        rows[len(rows) // 3 :],
        valid,
        test,
    )


@functools.cache
def as_large_as(dataset):
    """Return a graph with the counts of a registered dataset, and nothing else of it."""
    known = DATASETS[dataset]
    splits = (torch.zeros(count, 3, dtype=torch.int64) for count in known.triples)
    entities, relations = map(str, range(known.entities)), map(str, range(known.relations))
    return Graph("counted", Vocabulary(entities, "entity"), Vocabulary(relations, "relation"), *splits)


def random_graphs(most_entities=10, most_relations=4, fewest_triples=1, most_triples=50):
    """Draw a random graph; small ones are dense, so questions have several answers."""
    return builds(
        random_graph,
        entities=st.integers(3, most_entities),
        relations=st.integers(1, most_relations),
        triples=st.integers(fewest_triples, most_triples),
        seed=st.integers(0, 2**31),
    )


def builds(target, **strategies):
    """Draw target(...) as `st.builds` does, where target calls the package.

    The checker of types throws dice to choose which item of a tuple it looks at; hypothesis allows no dice but its own.
    """

    @functools.wraps(target)
    def undisturbed(**drawn):
        state = random.getstate()
        try:
            return target(**drawn)
        finally:
            random.setstate(state)

    return st.builds(undisturbed, **strategies)


def random_orthogonal(width, generator, batch=(), dtype=torch.float64):
    """Return orthogonal matrices drawn evenly."""
    matrices, triangles = torch.linalg.qr(torch.randn(*batch, width, width, generator=generator, dtype=dtype))
    return matrices * triangles.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]


def _name(element):
    return f"turn {element[0]}{' and mirror' if element[1] else ''}"


def _no_triples():
    return torch.empty(0, 3, dtype=torch.int64)


def _turned(element, speeds, basis):
    """Return ρ(element), orthogonal."""
    turn, mirror = element
    matrix = torch.zeros_like(basis)
    for plane, speed in enumerate(speeds.tolist()):
        angle = 2 * math.pi * speed * turn / CORNERS
        rotation = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]).to(basis)
        block = slice(2 * plane, 2 * plane + 2)
        matrix[block, block] = rotation @ torch.diag(torch.tensor([1.0, -1.0 if mirror else 1.0])).to(basis)
    return basis @ matrix @ basis.mT


def graph_of(train, valid=(), test=()):
    """Return a graph of rows such as 'a r b', a letter a name."""
    splits = [[row.split() for row in rows] for rows in (train, valid, test)]
    every = [row for rows in splits for row in rows]
    entities = Vocabulary(dict.fromkeys(name for row in every for name in row[::2]), "entity")
    relations = Vocabulary(dict.fromkeys(row[1] for row in every), "relation")
    ids = [[(entities.id(head), relations.id(name), entities.id(tail)) for head, name, tail in rows] for rows in splits]
    return Graph("odd", entities, relations, *(torch.tensor(rows, dtype=torch.int64).view(-1, 3) for rows in ids))


def tables(model):
    """Return the tables of any model."""
    return model.tables() if hasattr(model, "tables") else model.module.state_dict()


def same(one, other):
    """Say whether two models are equal bit for bit."""
    ours, theirs = tables(one), tables(other)
    return ours.keys() == theirs.keys() and all(table.equal(theirs[name]) for name, table in ours.items())


def baseline_of(name, graph, seed=0, **options):
    """Return an untrained baseline of a graph, with these options and the model's own defaults."""
    return build(name, graph, BASELINES[name].Options(**options), seed)


def options_of(name):
    """Return the names of a baseline's options."""
    return {field.name for field in fields(BASELINES[name].Options)}


def small_baseline(name, graph, seed=0, dim=16, **options):
    """Return a small baseline of a graph, with these options and others that suit few numbers."""
    small = {"relation_dim": 6, "init_std": 0.5, "kernel": 3, "filters": 4, "height": 4, "input_dim": 8, "blocks": 4}
    fitting = {option: value for option, value in small.items() if option in options_of(name)}
    return baseline_of(name, graph, seed, dim=dim, **(fitting | options))


def small_settings(name="complex", **values):
    """Return settings of a small baseline: options that suit few numbers, and a short training on the CPU."""
    small = {"dim": 32, "relation_dim": 16, "init_std": 0.1, "height": 4, "blocks": 4}
    fitting = {option: value for option, value in small.items() if option in options_of(name)}
    short = {"epochs": 60, "batch": 128, "patience": 0, "validate_every": 0, "device": "cpu", "workers": 1}
    return baseline_settings(name, **(short | fitting | values))


def scrambled(model, seed=0):
    """Return a model in evaluation and float64, every number of it drawn, so that a forgotten one shows."""
    model, generator = model.double().eval(), torch.Generator().manual_seed(seed)
    for name, values in model.state_dict().items():
        if values.is_floating_point():
            drawn = torch.rand(values.shape, generator=generator, dtype=torch.float64)
            values.copy_(drawn + 0.5 if name.endswith("running_var") else 2 * drawn - 1)
    return model


def scrambled_baseline(name, graph, seed=0, **options):
    """Return a small baseline in evaluation and float64, every number of it drawn."""
    return scrambled(small_baseline(name, graph, seed, **options), seed)


def some_queries(graph, count=12, seed=0):
    """Return entities and directions of queries, drawn evenly."""
    generator = torch.Generator().manual_seed(seed)
    heads = torch.randint(len(graph.entities), (count,), generator=generator)
    return heads, torch.randint(2 * len(graph.relations), (count,), generator=generator)


def every_query(graph):
    """Return entities and directions of all queries, direction after direction."""
    entities, directions = len(graph.entities), 2 * len(graph.relations)
    return torch.arange(entities).repeat(directions), torch.arange(directions).repeat_interleave(entities)


def all_scores(model, graph):
    """Return the scores of all queries: direction, asked entity, candidate."""
    encoded = model.encode(graph)
    scores = model.scores(encoded, model.query(encoded, *every_query(graph)))
    return scores.view(2 * len(graph.relations), len(graph.entities), -1).detach()


def arriving(edges, relations, entity):
    """Yield (direction, sender) of what arrives at an entity: every triple arrives at both its ends."""
    for head, relation, tail in edges.tolist():
        if head == entity:
            yield relation, tail
        if tail == entity:
            yield relation + relations, head
