"""The queries that triples answer: each pair (entity, direction) once, with all its answers.

A direction is a relation asked for tails (r) or for heads (r + R), so a triple (h, r, t) answers two queries: t answers
(h, r), and h answers (t, r + R).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.linalg import starts
from procrustes_kge.words import counted

LARGEST = 2**63 - 1  # of a 64-bit integer


@dataclass(frozen=True)
class Queries:
    """Every query of some triples, sorted by direction and then by entity, with its answers."""

    entities: Int[Tensor, " queries"]
    directions: Int[Tensor, " queries"]
    offsets: Int[Tensor, " queries_and_one"]  # where the answers of each start
    answers: Int[Tensor, " answers"]

    def __len__(self) -> int:
        return len(self.entities)

    @property
    def counts(self) -> Int[Tensor, " queries"]:
        """How many answers each has."""
        return self.offsets.diff()

    def to(self, device: torch.device | str) -> Queries:
        """Return the same queries on another device."""
        return Queries(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))

    def by_side(self, relations: int) -> tuple[Queries, Queries]:
        """Return the queries for tails, and those for heads."""
        middle = int((self.directions < relations).sum())
        cut = int(self.offsets[middle])
        return (
            Queries(self.entities[:middle], self.directions[:middle], self.offsets[: middle + 1], self.answers[:cut]),
            Queries(self.entities[middle:], self.directions[middle:], self.offsets[middle:] - cut, self.answers[cut:]),
        )


def both_queries(triples: Int[Tensor, "n 3"], relations: int) -> tuple[Int[Tensor, " twice_n"], ...]:
    """Return entity, direction and answer of every triple's query for its tail, then of every one for its head."""
    head, relation, tail = triples.unbind(dim=1)
    return torch.cat([head, tail]), torch.cat([relation, relation + relations]), torch.cat([tail, head])


def group_by_query(triples: Int[Tensor, "n 3"], entities: int, relations: int, distinct: bool = True) -> Queries:
    """Return the queries that triples answer, on the device where the triples are.

    If distinct, a query has each answer once, in ascending order; else as often as triples give it, in their order.
    """
    # Numbering the queries first keeps keys small: direction · N² would overflow for 10⁸ entities.
    check_keys(2 * relations, entities, "direction")
    check_keys(2 * len(triples), entities, "query")
    asked, directions, answers = both_queries(triples.long(), relations)
    keys, order = (directions * entities + asked).sort(stable=True)
    answers = answers[order]
    keys, counts = keys.unique_consecutive(return_counts=True)
    if distinct:
        numbers = torch.arange(len(keys), device=keys.device).repeat_interleave(counts)
        answered = (numbers * entities + answers).unique()
        counts, answers = torch.bincount(answered // entities, minlength=len(keys)), answered % entities
    return Queries(keys % entities, keys // entities, starts(counts), answers)


def check_keys(many: int, entities: int, what: str) -> None:
    """Refuse sizes whose numbers many · entities + entity do not fit into 64 bits."""
    if (many + 1) * entities > LARGEST:
        raise InputError(
            f"{counted(many, what)} and {counted(entities, 'entity')}, expected numbers with a product below "
            f"{LARGEST:,}; train on part of the graph"
        )
