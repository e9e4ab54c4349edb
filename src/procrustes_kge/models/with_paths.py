"""An embedding, and paths as evidence beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.graphs.queries import group_by_query
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.paths import NO_STEP, Paths, strength
from procrustes_kge.models.predictor import Answering, Candidates, Ids, Scores
from procrustes_kge.models.procrustes import Procrustes

HALF = 2**16  # an id is carried as two numbers below this, which float32 holds exactly up to 4·10⁹ entities
CARRIED = 3  # numbers that a query has more than that of the embedding
QUERIES_AT_ONCE = 128  # each has a thousand walks or two, rarely many thousands
MOST_PATHS = 128  # of a direction

Embedding = Procrustes | TrainedBaseline


class Reason(NamedTuple):
    """A walk that is evidence for an answer: what it adds to the score, its steps by name, and the entities it meets.

    A step against a relation's direction has the relation's name with ⁻¹.
    """

    gain: float  # of its path, which may be walked in several ways
    walks: int  # how many walks of this path lead to the answer
    steps: tuple[str, ...]
    entities: tuple[str, ...]  # from the asked entity to the answer

    def __str__(self) -> str:
        """Return the walk as a line: a, then step and entity in turn."""
        first, *others = self.entities
        parts = (f" {step} → {name}" for step, name in zip(self.steps, others, strict=True))
        return "".join([first, *parts])


@dataclass(frozen=True, eq=False, repr=False)
class WithPaths(Answering):
    """score(y) = embedding's score of y + a_ρ · Σ_p w_p (1 + 0.3 log walks_p(x, y)), for the query (x, ρ).

    The sum is over the paths of direction ρ that lead from x to y along training triples; a_ρ ≥ 0 is what paths are
    worth beside the embedding, in its scores, per unit of log-odds.
    """

    embedding: Embedding
    paths: Paths
    worth: Float[Tensor, " directions"]
    train: Int[Tensor, "n 3"]

    @property
    def entities(self) -> Vocabulary:  # type: ignore[override]
        """The names of the embedding's entities."""
        return self.embedding.entities

    @property
    def relations(self) -> Vocabulary:  # type: ignore[override]
        """The names of the embedding's relations."""
        return self.embedding.relations

    @property
    def kind(self) -> str:
        """The name of the embedding's kind, and that paths stand beside it."""
        return f"{self.embedding.kind} with paths"

    @property
    def dim(self) -> int:
        """The length of an entity's vector."""
        return self.embedding.dim

    @property
    def counts(self) -> dict[str, int]:
        """How many of what it has, by nouns in the singular."""
        return {**self.embedding.counts, "path": len(self.paths)}

    @property
    def table(self) -> Float[Tensor, "entities d"]:
        """The entity vectors of the embedding."""
        return self.embedding.table

    @cached_property
    def edges(self) -> KnownAnswers:
        """The training triples, along which walks go."""
        queries = group_by_query(self.train, len(self.entities), len(self.relations))
        return KnownAnswers(len(self.entities), queries)

    def to(self, device: torch.device | str) -> WithPaths:
        """Return the same model on another device."""
        moved = {name: getattr(self, name).to(device) for name in ("embedding", "paths", "worth", "train")}
        return replace(self, **moved)

    @classmethod
    def of_tables(cls, embedding: Embedding, tables: Mapping[str, Tensor], train: Int[Tensor, "n 3"]) -> WithPaths:
        """Return the model whose `evidence_tables` these are."""
        paths = Paths(tables["asked"], tables["steps"], tables["weights"])
        return cls(embedding, paths, tables["worth"], train)

    def evidence_tables(self) -> dict[str, Tensor]:
        """Return what is saved beside the embedding and the triples, by name."""
        paths = self.paths
        return {"asked": paths.asked, "steps": paths.steps, "weights": paths.weights, "worth": self.worth}

    def encode(self, graph: Graph | None = None) -> Any:
        """Return the tables of the embedding; what paths need is made once, and kept."""
        _ = self.edges, self.paths.levels  # before threads share them
        return self.embedding.encode(graph)

    def query(self, encoded: Any, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        """Return the embedding's query, then the entity (in two halves) and the direction that are asked about."""
        point = self.embedding.query(encoded, heads, relations)
        carried = torch.stack([heads // HALF, heads % HALF, relations], dim=1)
        return torch.cat([point, carried.to(point)], dim=1)

    def scores(self, encoded: Any, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        """Return the embedding's scores, plus what paths add to them."""
        point, carried = queries[:, :-CARRIED].contiguous(), queries[:, -CARRIED:].long()
        scores = self.embedding.scores(encoded, point, candidates)
        heads, relations = carried[:, 0] * HALF + carried[:, 1], carried[:, 2]
        for some in torch.arange(len(queries), device=queries.device).split(QUERIES_AT_ONCE):
            evidence = self.evidence(heads[some], relations[some])
            scores[some] += evidence if candidates is None else evidence.gather(1, candidates[some])
        return scores

    def evidence(self, heads: Ids, relations: Ids) -> Scores:
        """Return what paths add to the score of every entity."""
        worth = self.worth[relations]
        found = self.paths.found(self.edges, heads, torch.where(worth > 0, relations, NO_STEP))
        return worth[:, None] * self.paths.evidence(found, len(heads), len(self.entities))

    def reasons(self, entity: int, relation: int, answer: int, k: int = 3) -> list[Reason]:
        """Return the k paths that add most to an answer's score, each with a walk; relation r + R asks for heads."""
        if k < 1:
            raise InputError(f"k {k}, expected a whole number of at least 1")
        asked = (torch.tensor([each], device=self.worth.device) for each in (entity, relation, answer))
        head, direction, wanted = asked
        ways: dict[int, list[tuple[int, ...]]] = {}
        for walks in self.paths.walks(self.edges, head, direction, hidden=wanted):
            ours = walks.visited[-1] == wanted
            visited = torch.stack(walks.visited, dim=1)[ours].tolist()
            for path, entities in zip(walks.paths[ours].tolist(), visited, strict=True):
                ways.setdefault(path, []).append(tuple(entities))
        found = [self._reason(path, sorted(each)) for path, each in ways.items()]
        return sorted(found, key=lambda reason: (-reason.gain, reason.steps))[:k]

    def _reason(self, path: int, ways: list[tuple[int, ...]]) -> Reason:
        steps = [step for step in self.paths.steps[path].tolist() if step != NO_STEP]
        worth = self.worth[self.paths.asked[path]] * self.paths.weights[path]
        gain = float(worth * strength(torch.tensor(len(ways))))
        names = tuple(self.entities[each] for each in ways[0])
        return Reason(gain, len(ways), tuple(map(self._step, steps)), names)

    def _step(self, direction: int) -> str:
        backwards, relation = divmod(direction, len(self.relations))
        return self.relations[relation] + ("⁻¹" if backwards else "")
