"""A flag for every setting of every method, made from the fields of the settings."""

import inspect
from collections.abc import Callable
from functools import wraps
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from procrustes_kge.cli.help import show_everything
from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.training.recipes import DEFAULT, METHODS, OWN, baseline_recipes, recipes_with
from procrustes_kge.words import either, listed, unknown

RECIPES = f"Settings to start from: {either(OWN)}, or the name of a baseline."  # the words of --recipe
# Of every method and model: the type of each setting, with its words. A setting without words is no flag.
_HINTS: list[dict[str, Any]] = [
    {name: hint for name, hint in get_type_hints(kind, include_extras=True).items() if get_origin(hint) is Annotated}
    for kind in (*METHODS.values(), *(model.Options for model in BASELINES.values()))
]
_HELP_ALL = Annotated[bool, typer.Option("--help-all", help="Show all flags.", is_eager=True, callback=show_everything)]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for every field of any method's settings; the flags that are used arrive as `changes`."""
    flags = {name: _flag(name) for hints in _HINTS for name in hints}
    own = dict(inspect.signature(command, eval_str=True).parameters)
    kind = own.pop("changes").kind
    extra = [inspect.Parameter(name, kind, default=None, annotation=flag) for name, flag in flags.items()]
    extra.append(inspect.Parameter("help_all", kind, default=False, annotation=_HELP_ALL))

    @wraps(command)
    def wrapped(help_all: bool = False, **values: Any) -> None:
        chosen = {name: values.pop(name) for name in flags}
        command(**values, changes={name: value for name, value in chosen.items() if value is not None})

    wrapped.__signature__ = inspect.Signature([*own.values(), *extra])  # type: ignore[attr-defined]
    return wrapped


def _flag(name: str) -> Any:
    """Return the flag of a setting: its values and words are those of every method that has it."""
    hints = [each[name] for each in _HINTS if name in each]
    kinds = [hint.__origin__ for hint in hints]
    kind, reading = kinds[0], dict[str, Any]()
    if get_origin(kind) is Literal:
        kind = Literal[tuple(_words(kinds))]
        reading = {"metavar": "|".join(_words(kinds))}
    elif get_origin(kind) in (Union, UnionType):
        words = _words(part for each in kinds for part in get_args(each) if get_origin(part) is Literal)
        kind, reading = str, {"parser": number_or_word, "metavar": "|".join(["NUMBER", *words])}
    flag = "--" + name.replace("_", "-")
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=sentence(joined(hint.__metadata__[0] for hint in hints)),
        rich_help_panel=f"Settings of {_recipes(name)}",
        **reading,
    )
    return Annotated[kind | None, option]


def recipe_name_of(model: str | None, name: str | None) -> str:
    """Return the recipe that is asked for: of a model, the one of the same name or another of its own."""
    if model is None:
        return name or DEFAULT
    model, asked = model.lower(), model  # papers and tables write capitals
    if model not in BASELINES:
        raise InputError(unknown("model", asked, BASELINES))
    own = baseline_recipes(model)
    if name is not None and name not in own:
        raise InputError(f"--model {model} has no recipe {name}; try --recipe {either(own)}, or leave --model out")
    return name or model


def joined(descriptions: Any) -> str:
    """Return what several descriptions of a setting say, each part once.

    >>> joined(["learning rate", "learning rate; radians for turn"])
    'learning rate; radians for turn'
    """
    return "; ".join(dict.fromkeys(part for each in descriptions for part in each.split("; ")))


def sentence(words: str) -> str:
    """Return words as a sentence; a value at its start, as in `cpu, cuda` or `free: …`, stays as it is typed.

    >>> sentence("learning rate"), sentence("cpu, cuda, or auto"), sentence("free: of any length")
    ('Learning rate.', 'cpu, cuda, or auto.', 'free: of any length.')
    """
    is_value = words.split()[0][-1] in ",:"
    return f"{words[0] if is_value else words[0].upper()}{words[1:]}."


def number_or_word(text: str) -> int | str:
    """Return the number that these digits write, or the text as it is, for the settings to judge."""
    return int(text) if text.isdecimal() else text


def _words(literals: Any) -> list[str]:
    return list(dict.fromkeys(word for each in literals for word in get_args(each)))


def _recipes(setting: str) -> str:
    """Return, in words, the recipes that have this setting."""
    recipes = recipes_with(setting, "the baselines")
    every = {tuple(OWN): "our own recipes", (*OWN, "the baselines"): "every recipe"}
    return every.get(tuple(recipes)) or listed(recipes)
