"""States of trainers: flat tables by name, which a checkpoint can hold and a trainer can go back to."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

State = dict[str, Tensor]


def merged(**parts: Mapping[str, Tensor]) -> State:
    """Return the states of several parts as one, each name behind that of its part."""
    return {f"{part}.{name}": table for part, state in parts.items() for name, table in state.items()}


def part_of(state: Mapping[str, Tensor], part: str) -> State:
    """Return the state of one part out of `merged`."""
    return {name.removeprefix(f"{part}."): table for name, table in state.items() if name.startswith(f"{part}.")}


def copied(state: Mapping[str, Tensor]) -> State:
    """Return a copy that further training leaves alone."""
    return {name: table.clone() for name, table in state.items()}


def copy_into(tables: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Write a state into tables of the same names, in place: others may hold the tables."""
    for name, table in tables.items():
        table.copy_(state[name])


def drawing(generator: torch.Generator) -> State:
    """Return what a generator's next draws depend on."""
    return {"generator": generator.get_state()}


def draw_on(generator: torch.Generator, state: Mapping[str, Tensor]) -> None:
    """Let a generator go on where `drawing` was called."""
    generator.set_state(state["generator"].cpu())
