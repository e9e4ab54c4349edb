"""The command that repeats a run exactly, whatever was chosen for it."""

import shlex
from typing import Any

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.training.recipes import Settings, recipe, values_of


def repeating_command(source: str, graph: Graph, recipe_name: str, settings: Settings, options: dict[str, Any]) -> str:
    """Return `procrustes train` with the flags that give these settings, and other options that are not None."""
    words = ["procrustes", "train", source, "--recipe", recipe_name]
    flags = {**differing(graph, recipe_name, settings), **options}
    for name, value in flags.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return shlex.join(words)


def differing(graph: Graph, recipe_name: str, settings: Settings) -> dict[str, Any]:
    """Return the changes with which a recipe becomes these settings."""
    wanted, changes = values_of(settings), {} if settings.device == "auto" else {"device": settings.device}
    while True:
        found = values_of(recipe(recipe_name, graph, **changes))
        more = {name: value for name, value in wanted.items() if found[name] != value and changes.get(name) != value}
        if not more:
            return changes
        changes |= more  # a change may bring others with it, as shorter vectors bring fewer groups
