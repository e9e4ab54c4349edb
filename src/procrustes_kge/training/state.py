"""States of trainers: flat tables by name, which a checkpoint can hold and a trainer can go back to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from procrustes_kge.errors import InputError

State = dict[str, Tensor]


class Remembering:
    """An object whose state is its `remembered` attributes: tables, numbers, generators, such objects, or None."""

    remembered: ClassVar[tuple[str, ...]]

    def state(self) -> State:
        """Return all that what follows depends on: the tables themselves, no copies."""
        found = State()
        for name in self.remembered:
            value = getattr(self, name)
            if isinstance(value, Remembering):
                found |= merged(**{name: value.state()})
            elif isinstance(value, torch.Generator):
                found[name] = value.get_state()
            elif value is not None:
                # A Python float has 64 bits: with fewer, what goes on from here would differ in the last digit.
                found[name] = torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        return found

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for name in self.remembered:
            value = getattr(self, name)
            if isinstance(value, Remembering):
                value.restore(part_of(state, name))
            elif isinstance(value, torch.Generator):
                value.set_state(state[name].cpu())
            elif isinstance(value, Tensor):
                value.copy_(state[name])  # in place: others may hold the table
            elif value is not None:
                setattr(self, name, type(value)(state[name]))
            elif name in state or part_of(state, name):
                raise ValueError(f"{type(self).__name__} has nothing that the state's {name!r} could be restored to")


def merged(**parts: Mapping[str, Tensor]) -> State:
    """Return the states of several parts as one, each name behind that of its part."""
    return {f"{part}.{name}": table for part, state in parts.items() for name, table in state.items()}


def part_of(state: Mapping[str, Tensor], part: str) -> State:
    """Return the state of one part out of `merged`."""
    return {name.removeprefix(f"{part}."): table for name, table in state.items() if name.startswith(f"{part}.")}


def check_fits(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse a state without the tables that are expected, or with tables of another kind: it is of something else."""
    for name, table in expected.items():
        if name not in state or (state[name].shape, state[name].dtype) != (table.shape, table.dtype):
            seen = f"is {str(state[name].dtype)[6:]} of {[*state[name].shape]}" if name in state else "is missing"
            wanted = f"expected {str(table.dtype)[6:]} of {[*table.shape]}"
            raise InputError(f"the checkpoint is of another training ({name} {seen}, {wanted}); train again")


def copied(state: Mapping[str, Tensor]) -> State:
    """Return a copy that further training leaves alone."""
    return {name: table.clone() for name, table in state.items()}


def copy_into(tables: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Write a state into tables of the same names, in place: others may hold the tables."""
    for name, table in tables.items():
        table.copy_(state[name])
