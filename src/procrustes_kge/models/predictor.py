"""What every model can do; the training loop, ranking and answers by name need nothing else."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.facts import Facts
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.models.described import as_line, as_table
from procrustes_kge.models.highest import highest

Ids = Int[Tensor, " b"]  # of entities or directions, one for each query
Candidates = Int[Tensor, "b k"] | None  # entities to score for each query; None: all
Scores = Float[Tensor, "b n"]


@runtime_checkable
class LinkPredictor(Protocol):
    """A model that scores entities as answers to queries. Relation r + R is the query for heads of relation r."""

    def encode(self, graph: Graph | None = None) -> Any:
        """Return the entity and relation tables, computed once per step or evaluation."""

    def query(self, encoded: Any, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        """Return the point where the answer to each query should lie."""

    def scores(self, encoded: Any, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        """Return how well each entity, or each given candidate, answers each query: higher is better."""


class Answer(NamedTuple):
    """An entity that may complete a triple; of two answers to one query, the one with the higher score is better."""

    name: str
    score: float
    label: str


class Answering(LinkPredictor):
    """A model that knows the names of its entities and relations, and so answers by name."""

    entities: Vocabulary
    relations: Vocabulary

    @property
    def kind(self) -> str:
        """The name of this kind of model."""
        return type(self).__name__

    @property
    def dim(self) -> int:
        """The length of an entity's vector."""
        raise NotImplementedError

    @property
    def counts(self) -> dict[str, int]:
        """How many of what it has, by nouns in the singular."""
        return {"entity": len(self.entities), "relation": len(self.relations), "dimension": self.dim}

    def __repr__(self) -> str:
        return as_line(self.kind, self.counts)

    def _repr_html_(self) -> str:
        return as_table(self.kind, self.counts)

    def tails(self, head: str, relation: str, k: int = 10, graph: Graph | None = None) -> list[Answer]:
        """Return the k best answers to (head, relation, ?), best first."""
        return self.answers(self.entities.id(head), self.relations.id(relation), k, graph)

    def heads(self, relation: str, tail: str, k: int = 10, graph: Graph | None = None) -> list[Answer]:
        """Return the k best answers to (?, relation, tail), best first."""
        return self.answers(self.entities.id(tail), self.relations.id(relation) + len(self.relations), k, graph)

    def answers(self, entity: int, relation: int, k: int, graph: Graph | None = None) -> list[Answer]:
        """Return the k best answers to a query of ids, best first; relation r + R asks for heads.

        The model itself holds no triples. Given the graph it was trained on, the queried entity is left out of the
        answers if hardly any training triple of the relation links an entity to itself.
        """
        if k < 1:
            raise InputError(f"k {k}, expected a whole number of at least 1")
        with torch.no_grad():
            encoded = self.encode()
            scores = self.scores(encoded, self.query(encoded, *torch.tensor([[entity], [relation]])))[0]
        if graph is None or may_answer_itself(graph, entity, relation % len(self.relations)):
            ids = best(scores, k)
        else:
            ids = best(scores, k + 1)
            ids = ids[ids != entity][:k]
        found = zip(ids.tolist(), scores[ids].tolist(), strict=True)
        return [Answer(self.entities[index], score, self.entities.label(index)) for index, score in found]


def may_answer_itself(graph: Graph, entity: int, relation: int) -> bool:
    """Say whether an entity may be related to itself: the graph holds this very triple, or training enough like it."""
    return facts_of(graph).may_answer_itself(entity, relation)


def facts_of(graph: Graph) -> Facts:
    """Return what a graph holds, as arrays that share its memory."""
    splits = {split: graph.split(split).cpu().numpy() for split in SPLITS}
    return Facts(splits, len(graph.entities), len(graph.relations))


def best(scores: Float[Tensor, " n"], k: int) -> Int[Tensor, " at_most_k"]:
    """Return the ids of the k highest scores, or of all if those are fewer, in the order of (−score, id)."""
    return torch.from_numpy(highest(scores.float().cpu().numpy(), k)).to(scores.device)
