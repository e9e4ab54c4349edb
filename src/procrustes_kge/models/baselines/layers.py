"""Layers that draw from a model's own generators, never from PyTorch's global ones; some are faster on a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, pad

Sides = tuple[int, int]  # of an image: height and width


class RandomSource:
    """One generator for each kind of device, made from the seed when it is first asked for.

    All layers of a model share one source. It is no part of the weights: a checkpoint keeps its `state` beside them.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, torch.Generator] = {}
        self._restored: dict[str, Tensor] = {}  # of devices that nothing was drawn on since

    def on(self, device: torch.device | str) -> torch.Generator:
        """Return the generator of a device; on another one of the same kind, it goes on where it was."""
        device = torch.device(device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        generator = self._generators.get(device.type)
        if generator is None or device != generator.device:
            state = self._restored.pop(device.type, None) if generator is None else generator.get_state()
            generator = torch.Generator(device).manual_seed(self.seed % 2**63)
            if state is not None:
                generator.set_state(state)
            self._generators[device.type] = generator
        return generator

    def state(self) -> dict[str, Tensor]:
        """Return all that the next draws depend on, by kind of device."""
        return self._restored | {kind: generator.get_state() for kind, generator in self._generators.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the state of a source with this seed; devices that it leaves out start from the seed again.

        A generator that is there already is kept: a recorded step of a GPU may draw from it.
        """
        for kind, generator in self._generators.items():
            if kind in state:
                generator.set_state(state[kind].cpu())
            else:
                generator.manual_seed(self.seed % 2**63)
        self._restored = {kind: each.cpu() for kind, each in state.items() if kind not in self._generators}

    def __deepcopy__(self, memo: dict[int, Any]) -> RandomSource:
        """Return a source that draws the same from here on; generators themselves cannot be copied."""
        copied = RandomSource(self.seed)
        copied.restore(self.state())
        return copied


class Linear(nn.Linear):
    """A linear map, drawn from a model's own generator."""

    def __init__(self, inputs: int, outputs: int, random: RandomSource, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        _draw(self, random)

    def reset_parameters(self) -> None:
        """Draw nothing: PyTorch would do so from its global generator."""


class Filters(nn.Conv2d):
    """A convolution; on a GPU it is one product, after which no maps have to be reordered."""

    def __init__(
        self, channels: int, maps: int, kernel: Sides, random: RandomSource, padding: Sides = (0, 0), bias: bool = True
    ) -> None:
        super().__init__(channels, maps, kernel, padding=padding, bias=bias)
        self.down, self.across = padding
        _draw(self, random)

    def reset_parameters(self) -> None:
        """Draw nothing: PyTorch would do so from its global generator."""

    def forward(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b maps rows columns"]:
        return self.by_product(image) if image.is_cuda else super().forward(image)

    def by_product(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b maps rows columns"]:
        """Do the same by one product with all windows, which leaves the maps of a place side by side."""
        windows = pad(image, (self.across, self.across, self.down, self.down))
        for axis, side in enumerate(self.kernel_size, start=2):
            windows = windows.unfold(axis, side, 1)
        return linear(windows.movedim(1, 3).flatten(3), self.weight.flatten(1), self.bias).movedim(-1, 1)


def _draw(layer: nn.Linear | nn.Conv2d, random: RandomSource) -> None:
    """Draw weights and biases as PyTorch does: evenly between ±1/√n, n being the inputs of one output."""
    generator = random.on("cpu")
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    if layer.bias is not None:
        bound = 1 / math.sqrt(layer.weight[0].numel())
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


class Dropout(nn.Module):
    """In training, sets a share of the numbers to zero and scales the others up to make up for it."""

    def __init__(self, share: float, random: RandomSource) -> None:
        super().__init__()
        self.share, self.random = share, random

    def forward(self, numbers: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the numbers; outside of training, and with a share of 0, they are unchanged."""
        if not (self.training and self.share):
            return numbers
        kept = self.units(numbers).bernoulli_(1 - self.share, generator=self.random.on(numbers.device))
        return numbers * kept.div_(1 - self.share)

    def units(self, numbers: Float[Tensor, "*shape"]) -> Float[Tensor, ...]:
        """Return an empty table of what is kept or left out together: each number on its own."""
        return torch.empty_like(numbers)

    def extra_repr(self) -> str:
        return f"share={self.share}"


class Dropout2d(Dropout):
    """In training, sets a share of the feature maps to zero, each of them whole."""

    def units(self, numbers: Float[Tensor, "b maps height width"]) -> Float[Tensor, "b maps 1 1"]:
        """Return an empty table of what is kept or left out together: a map of one image."""
        return numbers.new_empty(*numbers.shape[:2], 1, 1)


class ChannelNorm(nn.BatchNorm1d):
    """Batch normalisation of [b, channels, *size], computed with the channels of a place side by side.

    Channel by channel, as libraries do it, few channels leave most of a GPU idle.
    """

    def forward(self, maps: Float[Tensor, "b channels *size"]) -> Float[Tensor, "b channels *size"]:
        """Return all maps, each with mean 0 and variance 1 over the batch, scaled and shifted."""
        places = maps.movedim(1, -1)
        # Flat before and after: one channel alone would keep a stride that hides from PyTorch how it lies.
        found = super().forward(places.flatten().view(-1, self.num_features)).flatten()
        return found.view(places.shape).movedim(-1, 1)
