"""Weights averaged over epochs: single epochs wander around what they agree on, which ranks better."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The running average of a model's weights: of what it was before an epoch it keeps `share`.

    Buffers are averaged like weights, but those that are no fractions, which are taken as they are.
    """

    def __init__(self, module: nn.Module, share: float) -> None:
        self.module, self.share = module, share
        self.weights: dict[str, Tensor] | None = None

    @torch.no_grad()
    def add(self) -> None:
        """Count the weights of an epoch; the first are taken as they are."""
        if not self.share:
            return
        if self.weights is None:
            self.weights = copied(self.module)
        for name, now in self.module.state_dict().items():
            mean = self.weights[name]
            mean.lerp_(now, 1 - self.share) if mean.is_floating_point() else mean.copy_(now)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Give the model its averaged weights for a while, in place: what was recorded with its weights stays good."""
        if self.weights is None:
            yield
            return
        last = copied(self.module)
        self.module.load_state_dict(self.weights)
        try:
            yield
        finally:
            self.module.load_state_dict(last)


def copied(module: nn.Module) -> dict[str, Tensor]:
    """Return the weights as they are now."""
    return {name: each.clone() for name, each in module.state_dict().items()}
