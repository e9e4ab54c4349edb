"""Evidence for an answer: the training triples that speak most for it, the walks that lead there, and its like.

One measure ranks them all: how far the answer's score falls without a triple (`influence`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import normalize

from procrustes_kge.errors import InputError
from procrustes_kge.explore.evidence.influence import Refolding, falls_by_turning
from procrustes_kge.explore.evidence.walks import Walk, Weighted, kept_promises, walks_between
from procrustes_kge.graphs.graph import SPLITS, Graph
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models.paths import strength
from procrustes_kge.models.predictor import Answering
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import rank
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.words import listed

LOOKED_AT = 20  # walks whose triples are all weighed, and triples that turn the relation
Names = tuple[str, str, str]


@dataclass(frozen=True)
class Witness:
    """A training triple that speaks for an answer: without it, the answer's score would fall so far."""

    triple: Names
    fall: float
    role: str  # what it has to do with the answer, in words


@dataclass(frozen=True)
class Route:
    """A walk along training triples from head to tail, how far the score falls without them, and how often it is right.

    Of `ends` entities to which the same steps lead from others, so many are answers in training: `right` of them.
    """

    triples: tuple[Names, ...]
    text: str
    fall: float
    right: int
    ends: int


@dataclass(frozen=True)
class Like:
    """A known answer of the same relation whose two ends lie near those of the triple: 1 is the same place."""

    triple: Names
    near: float


@dataclass(frozen=True)
class Explanation:
    """Why a model holds a triple true: what speaks for it, strongest first, and what is left without the strongest.

    `rank` is that of the tail among all entities, as the model has it. `with_all` and `without` are ranks where the
    two entities are computed again, from all their training triples and from all but the named ones. The triple itself,
    if training has it, never counts.
    """

    triple: Names
    known: str | None  # the split that has the triple
    score: float
    rank: float
    witnesses: tuple[Witness, ...]
    routes: tuple[Route, ...]
    alike: tuple[Like, ...]
    with_all: float
    without: float
    sentence: str  # the triple and what speaks for it in words, labels for names

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for programs."""
        return asdict(self)


def explain(model: Answering, graph: Graph, triple: Iterable[str], k: int = 5) -> Explanation:
    """Return the k training triples that speak most for a triple, the walks that lead there, and known answers like it.

    `triple` are three names: head, relation, tail. A model whose queries lie in another space than its entities is an
    `InputError`.
    """
    if k < 1:
        raise InputError(f"k {k}, expected a whole number of at least 1")
    names = tuple(triple)
    if len(names) != 3:
        raise InputError(f"{len(names)} names, expected three: head, relation and tail")
    found = graph.entities.id(names[0]), graph.relations.id(names[1]), graph.entities.id(names[2])
    return Examination(model, graph, *found).explanation(k)


class Examination:
    """All that is asked of a model to explain one triple."""

    def __init__(self, model: Answering, graph: Graph, head: int, relation: int, tail: int) -> None:
        self.model, self.graph, self.head, self.relation, self.tail = model, graph, head, relation, tail
        self.embedding: Any = model.embedding if isinstance(model, WithPaths) else model
        self.triple = torch.tensor([head, relation, tail])
        self.refolding = Refolding(self.embedding, graph, self.triple)
        self.edges = model.edges if isinstance(model, WithPaths) else KnownAnswers.of(graph, SPLITS[:1])
        self.falls: dict[int, float] = {}
        self.ends: dict[int, Weighted] = {}
        self._weigh_ends()
        self._weigh_turning()
        self._weigh_paths()
        self.walks = walks_between(graph, head, tail, self.ends[head], self.ends[tail], LOOKED_AT)
        self._weigh_between()

    def strongest(self, k: int) -> list[int]:
        """Return the rows of the training triples without which the score falls most; only such as make it fall."""
        order = sorted(self.falls.items(), key=lambda each: (-each[1], each[0]))
        return [row for row, fall in order[:k] if fall > 0]

    def explanation(self, k: int) -> Explanation:
        """Return what was found."""
        chosen = self.strongest(k)
        answer = rank(self.model, self.graph, self.triple[None]).realistic[0].item()
        with torch.no_grad():
            encoded = self.model.encode(self.graph)
            query = self.model.query(encoded, self.triple[:1], self.triple[1:2])
            score = self.model.scores(encoded, query)[0, self.tail].item()
        roles = self._roles()
        return Explanation(
            self._names(self.triple),
            next((each for each in SPLITS if (self.graph.split(each) == self.triple).all(dim=1).any()), None),
            score,
            answer,
            tuple(Witness(self._names(self.graph.train[row]), self.falls[row], roles.get(row, "")) for row in chosen),
            self._routes(k),
            self._alike(k),
            self.refolded_rank(torch.zeros(0, dtype=torch.int64)),
            self.refolded_rank(torch.tensor(chosen, dtype=torch.int64)),
            self._sentence(chosen),
        )

    def _sentence(self, chosen: list[int]) -> str:
        said = self._said(self.triple)
        if not chosen:
            return f"nothing in training speaks for {said}"
        return f"{said}, because {listed(self._said(self.graph.train[row]) for row in chosen)}"

    def _said(self, triple: Tensor) -> str:
        head, relation, tail = triple.tolist()
        entities, relations = self.graph.entities, self.graph.relations
        return f"{entities.label(head)} {relations.label(relation)} {entities.label(tail)}"

    def _add(self, rows: Tensor, falls: Tensor) -> None:
        for row, fall in zip(rows.tolist(), falls.tolist(), strict=True):
            self.falls[row] = self.falls.get(row, 0.0) + fall

    def _weigh_ends(self) -> None:
        """Weigh the triples of head and tail: without one, the entity lies elsewhere."""
        relations = len(self.graph.relations)
        for entity, other, direction in (
            (self.head, self.tail, self.relation + relations),
            (self.tail, self.head, self.relation),
        ):
            query = self.refolding.points(self.refolding.encoded, torch.tensor([other]), torch.tensor([direction]))
            rows, falls = self.refolding.falls(entity, query)
            self.ends[entity] = Weighted.of(self.graph, entity, rows, falls)
            self._add(rows, falls)

    def _weigh_turning(self) -> None:
        """Weigh the triples of the same relation: without one, its rotation is another."""
        if isinstance(self.embedding, Procrustes):
            rows, falls = falls_by_turning(self.embedding, self.graph, self.triple)
            ours = torch.isin(rows, torch.tensor(list(self.falls), dtype=torch.int64))
            ours[falls.argsort(descending=True, stable=True)[:LOOKED_AT]] = True
            self._add(rows[ours], falls[ours])

    def _weigh_paths(self) -> None:
        """Weigh the triples along the paths that a model with paths walks."""
        if not isinstance(self.model, WithPaths):
            return
        paths, asked = self.model.paths, self.triple.to(self.model.worth.device)
        head, direction, wanted = asked[:1], asked[1:2], asked[2:]
        ways: dict[int, list[set[int]]] = {}
        for walks in paths.walks(self.edges, head, direction, hidden=wanted):
            ours = walks.visited[-1] == wanted
            visited = torch.stack(walks.visited, dim=1)[ours].tolist()
            for path, entities in zip(walks.paths[ours].tolist(), visited, strict=True):
                steps = paths.steps[path].tolist()
                rows = {self._row(*edge) for edge in zip(entities, steps, entities[1:], strict=False)}
                ways.setdefault(path, []).append(rows)
        for path, each in ways.items():
            worth = float(self.model.worth[direction] * paths.weights[path])
            whole = float(strength(torch.tensor(len(each))))
            for row in set[int]().union(*each):
                left = len(each) - sum(row in way for way in each)
                rest = float(strength(torch.tensor(left))) if left else 0.0
                self.falls[row] = self.falls.get(row, 0.0) + worth * (whole - rest)

    def _row(self, entity: int, direction: int, other: int) -> int:
        backwards, relation = divmod(direction, len(self.graph.relations))
        ends = (other, relation, entity) if backwards else (entity, relation, other)
        return int(torch.nonzero((self.graph.train == torch.tensor(ends)).all(dim=1))[0])

    def _weigh_between(self) -> None:
        """Weigh the triples amid walks of three steps: they move a neighbour, and the neighbour an end."""
        relations = len(self.graph.relations)
        asking = {self.head: (self.tail, self.relation + relations), self.tail: (self.head, self.relation)}
        done = set[int]()
        for walk in self.walks:
            if len(walk.rows) < 3 or walk.rows[1] in done:
                continue
            done.add(walk.rows[1])
            for end, near, link in (
                (self.head, walk.entities[1], walk.rows[0]),
                (self.tail, walk.entities[2], walk.rows[2]),
            ):
                other, direction = asking[end]
                query = self.refolding.points(self.refolding.encoded, torch.tensor([other]), torch.tensor([direction]))
                fall = self.refolding.fall_from_afar(walk.rows[1], near, link, end, query)
                self.falls[walk.rows[1]] = self.falls.get(walk.rows[1], 0.0) + fall

    def _roles(self) -> dict[int, str]:
        """Return in words what triples have to do with the answer."""
        roles = dict[int, str]()
        for walk in self.walks:
            for row in walk.rows:
                roles.setdefault(row, f"on the way {self._way(walk)}" if len(walk.rows) > 1 else self._direct(walk))
        relation = self.graph.relations.label(self.relation)
        for entity in (self.head, self.tail):
            name = self.graph.entities.label(entity)
            for row in self.ends[entity].rows.tolist():
                same = int(self.graph.train[row, 1]) == self.relation
                roles.setdefault(row, f"{name} has {relation} elsewhere too" if same else f"says where {name} lies")
        for row in self.falls:
            roles.setdefault(row, f"another {relation}, which turns alike")
        return roles

    def _direct(self, walk: Walk) -> str:
        backwards, relation = divmod(walk.steps[0], len(self.graph.relations))
        if relation == self.relation:
            return "the same the other way round"
        return "the two the other way round" if backwards else "the same two"

    def _way(self, walk: Walk) -> str:
        return " → ".join(map(self.graph.entities.label, walk.entities))

    def _routes(self, k: int) -> tuple[Route, ...]:
        weighed = [(sum(self.falls.get(row, 0.0) for row in set(walk.rows)), walk) for walk in self.walks]
        best = sorted(weighed, key=lambda each: (-each[0], each[1]))[:k]
        kept = kept_promises(self.graph, self.edges, self.relation, [walk.steps for _, walk in best])
        return tuple(
            Route(tuple(self._names(self.graph.train[row]) for row in walk.rows), self._text(walk), fall, *counts)
            for (fall, walk), counts in zip(best, kept, strict=True)
        )

    def _text(self, walk: Walk) -> str:
        relations = self.graph.relations
        steps = (
            relations.label(step % len(relations)) + ("⁻¹" if step >= len(relations) else "") for step in walk.steps
        )
        first, *others = map(self.graph.entities.label, walk.entities)
        return "".join([first, *(f" {step} → {name}" for step, name in zip(steps, others, strict=True))])

    def _alike(self, k: int) -> tuple[Like, ...]:
        """Return known answers of the relation between other entities that lie near: a mean of two cosines."""
        train = self.graph.train
        rows = torch.nonzero(
            (train[:, 1] == self.relation) & (train[:, 0] != self.head) & (train[:, 2] != self.tail)
        ).flatten()
        table = normalize(self.refolding.table, dim=1)
        heads, tails = (table[train[rows, column]] for column in (0, 2))
        near = (heads @ table[self.head] + tails @ table[self.tail]) / 2
        order = near.argsort(descending=True, stable=True)[:k]
        return tuple(
            Like(self._names(train[row]), each)
            for row, each in zip(rows[order].tolist(), near[order].tolist(), strict=True)
        )

    def refolded_rank(self, without: Int[Tensor, " n"]) -> float:
        """Return the rank of the tail where both entities are computed again without some triples."""
        refolding = self.refolding
        head = refolding.folded(self.head, without)
        tail = refolding.folded(self.tail, without)
        query = refolding.asking(self.head, head, self.relation)
        with torch.no_grad():
            scores = self.embedding.scores(refolding.encoded, query)[0]
            own = refolding.scores(query, self.tail, tail)[0, 0]
        known = torch.zeros(len(scores), dtype=torch.bool)
        _, answers = self.edges.look_up(self.triple[:1], self.triple[1:2])
        known[answers] = True
        known[self.tail] = True
        others = scores[~known]
        return float(1 + (others > own).sum() + (others == own).sum() / 2)

    def _names(self, triple: Tensor) -> Names:
        head, relation, tail = triple.tolist()
        return self.graph.entities[head], self.graph.relations[relation], self.graph.entities[tail]
