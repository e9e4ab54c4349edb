"""Random numbers of a model's own: PyTorch's global generators are not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


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
                generator.set_state(state[kind])
            else:
                generator.manual_seed(self.seed % 2**63)
        self._restored = {kind: each for kind, each in state.items() if kind not in self._generators}

    def __deepcopy__(self, memo: dict[int, Any]) -> RandomSource:
        """Return a source that draws the same from here on; generators themselves cannot be copied."""
        copied = RandomSource(self.seed)
        copied.restore(self.state())
        return copied
