"""The deck that negatives are dealt from."""

from __future__ import annotations

import torch

from procrustes_kge.layouts.batches import Batch
from procrustes_kge.training.objective import Draw
from procrustes_kge.training.state import Remembering


class Deck(Remembering):
    """All entities in random order, to draw negatives from: no draw has one twice, and all come equally often."""

    remembered = ("next",)

    def __init__(self, entities: int, device: torch.device) -> None:
        self.cards = torch.arange(entities, device=device)
        self.place = self.cards.clone()  # of each entity in the deck
        self.next = torch.zeros((), dtype=torch.int64, device=device)

    def shuffle(self, generator: torch.Generator) -> None:
        """Bring all entities into a new random order."""
        # In place, as all that a step reads: a recorded step finds it where it was.
        self.cards.copy_(torch.randperm(len(self.cards), device=self.cards.device, generator=generator))
        self.place.copy_(self.cards.argsort())

    def deal(self, batch: Batch, count: int) -> Draw:
        """Draw `count` entities for each group of about `count` queries."""
        tile, size = len(batch.asked) // len(batch.tiles), len(self.cards)
        height = min(max(1, count // tile) * tile, len(batch.asked))
        groups = -(-len(batch.asked) // height)
        starts = (self.next + count * torch.arange(groups, device=self.cards.device)) % size
        self.next.add_(count * groups).remainder_(size)
        drawn = self.cards[(starts[:, None] + torch.arange(count, device=starts.device)) % size]
        return Draw(size, height, drawn, (self.place[batch.answers] - starts[batch.rows // height]) % size)
