"""A flag for every setting of every method, made from the fields of the settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.training.recipes import METHODS, OWN, recipes_with

_HOLDERS: list[Any] = [*METHODS.values(), *(model.Options for model in BASELINES.values())]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one flag per field of any method's settings; those that are used arrive as `changes`."""
    names = list(dict.fromkeys(field.name for kind in _HOLDERS for field in fields(kind) if field.name != "options"))
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_flag(name)) for name in names
    ]
    own = [
        parameter
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
        if name != "changes"
    ]

    @wraps(command)
    def wrapped(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in names}
        command(**values, changes={name: value for name, value in chosen.items() if value is not None})

    wrapped.__signature__ = inspect.Signature(own + flags)  # type: ignore[attr-defined]
    return wrapped


def _flag(name: str) -> Any:
    """Return the flag of a setting: its values and words are those of every method that has it."""
    hints = [
        get_type_hints(kind, include_extras=True)[name]
        for kind in _HOLDERS
        if name in {field.name for field in fields(kind)}
    ]
    kinds = [hint.__origin__ for hint in hints]
    kind, reading = kinds[0], dict[str, Any]()
    if get_origin(kind) is Literal:
        kind = Literal[tuple(_words(kinds))]
    elif get_origin(kind) in (Union, UnionType):
        words = _words(part for each in kinds for part in get_args(each) if get_origin(part) is Literal)
        kind, reading = str, {"parser": number_or_word, "metavar": "|".join(["NUMBER", *words])}
    about = "; or ".join(dict.fromkeys(hint.__metadata__[0] for hint in hints))
    flag = "--" + name.replace("_", "-")
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=f"{about[0].upper()}{about[1:]}.",
        rich_help_panel=f"Settings of {_recipes(name)}, where they differ from the recipe's own",
        **reading,
    )
    return Annotated[kind | None, option]


def number_or_word(text: str) -> int | str:
    """Return the number that these digits write, or the text as it is, for the settings to judge."""
    return int(text) if text.isdecimal() else text


def _words(literals: Any) -> list[str]:
    return list(dict.fromkeys(word for each in literals for word in get_args(each)))


def _recipes(setting: str) -> str:
    """Return, in words, the recipes that have this setting."""
    recipes = recipes_with(setting, "the baselines (--model)")
    every = {tuple(OWN): "every recipe of our own", (*OWN, "the baselines (--model)"): "every recipe"}
    return every.get(tuple(recipes)) or ", ".join(recipes)
