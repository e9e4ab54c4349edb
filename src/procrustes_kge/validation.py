"""Checks of settings, shared by all methods: a message says what was seen, what was expected and what to try."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from procrustes_kge.errors import InputError
from procrustes_kge.words import either, unknown

MOST = 10**18  # of a whole number: PyTorch takes no size over 64 bits


# Of the fields of a class, each class once: types that are written as text take a millisecond to read.
types_of: Callable[[type], dict[str, Any]] = cache(get_type_hints)
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def check_types(kind: type, values: Mapping[str, Any]) -> None:
    """Refuse values, as a file may hold them, that are of another type than the field of their name."""
    for name, hint in types_of(kind).items():
        if name in values and hint in _KINDS:
            value = values[name]
            if type(value) is not hint and not (hint is float and type(value) is int):
                raise InputError(f"{spoken(name)} {value!r:.60}, expected {_KINDS[hint]}")


def check_entries(found: Any, kinds: Mapping[str, Any], where: str) -> None:
    """Refuse an object out of a file that has other entries than these, or values of other kinds: ValueError."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is {kind_of(found)}, expected an object")
    if strange := found.keys() ^ kinds.keys():
        raise ValueError(f"{where}: {min(strange)!r:.60} is {'unknown' if min(strange) in found else 'missing'}")
    for name, kind in kinds.items():
        if type(found[name]) not in (get_args(kind) or (kind,)):  # true is no number
            raise ValueError(f"{where}: {name} is {kind_of(found[name])}")


def kind_of(value: object) -> str:
    """Return in words of what kind a value of JSON is."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def check_choices(settings: Any) -> None:
    """Refuse unknown words, and anything else in a field that takes a number or a word."""
    hints = types_of(type(settings))
    for field in fields(settings):
        hint, value = hints[field.name], getattr(settings, field.name)
        if get_origin(hint) is Literal and value not in get_args(hint):
            raise InputError(unknown(spoken(field.name), value, get_args(hint)))
        if get_origin(hint) in (Union, UnionType):
            words = [word for each in get_args(hint) if get_origin(each) is Literal for word in get_args(each)]
            if value not in words and (type(value) is not int or not 1 <= value <= MOST):
                expected = either([*words, "a whole number of at least 1"])
                raise InputError(f"{spoken(field.name)} {value!s:.60}, expected {expected}")


def check_whole(settings: Any, names: Iterable[str], least: int) -> None:
    """Refuse fields that are too small or not whole."""
    for name in names:
        value = getattr(settings, name)
        if not isinstance(value, int) or value < least:
            raise InputError(f"{spoken(name)} {value!s:.60}, expected a whole number of at least {least}")
        if value > MOST:
            raise InputError(f"{spoken(name)} {value!s:.60}, expected a whole number of at most {MOST}")


def check_odd(**numbers: int) -> None:
    """Refuse even numbers, and name their neighbours."""
    for name, value in numbers.items():
        if value % 2 == 0:
            tries = either(each for each in (value - 1, value + 1) if each > 0)
            raise InputError(f"{spoken(name)} {value}, expected an odd number; try {tries}")


def check_range(settings: Any, name: str, most: float, above: bool = False) -> None:
    """Refuse a number below 0 (or not above it) or over `most`; NaN too."""
    value = getattr(settings, name)
    if not (0 < value <= most if above else 0 <= value <= most):
        low, high = ("above 0", ", at most") if above else ("from 0", " to")
        high = f"{high} {most:g}" if isfinite(most) else ("" if above else " up")
        raise InputError(f"{spoken(name)} {value}, expected a number {low}{high}")


def check_segments(dim: int, segment: int, groups: int = 1) -> None:
    """Refuse a vector that cannot be cut into equal segments, equally many in each group."""
    parts = f"{groups} groups of segments" if groups > 1 else "segments"
    check_divides(dim, segment * groups, f"{parts} of {segment}")


def check_divides(dim: int, by: int, what: str, setting: str | None = None, least: int = 1) -> None:
    """Refuse a vector that cannot be cut into equal parts; name the nearest that can, and what else may be set."""
    if dim % by:
        below, smallest = dim - dim % by, -(-least // by) * by
        tries = either(sorted({max(below, smallest), max(below + by, smallest)}))
        tries += f", or another --{setting}" if setting else ""
        raise InputError(f"dimension {dim} does not divide into {what}; try {tries}")


def spoken(name: str) -> str:
    """Return a field's name as words."""
    return name.replace("_", " ")
