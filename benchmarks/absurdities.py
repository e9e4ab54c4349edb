"""Settings that no training has, written into folders whose manifests say that all is well."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from procrustes_kge.system.sealed import MANIFEST, read_manifest, seal

FILES = ("settings.json", "job.json", "facts.json")
FREE = {  # text or numbers that may be anything, or are for people
    *("seed", "version", "recipe", "source", "name", "grid", "replay", "device", "graph", "id"),
}
OPEN = ("labels", "relation_labels", "options", "planned")  # any names, or those of flags
NUMBERS = [-1, -(10**9), 10**30, 10**400, float("nan"), float("inf"), -float("inf"), -0.5, 1e308]
OTHERS: list[Any] = ["", "many", "1" * 100_000, "☃\n" * 50, None, True, [], [1, 2], {}, {"a": {"b": []}}, [[[[]]]]]
TEXTS = [
    *(b"[" * 200_000, b'{"a":' * 100_000, b'{"a": 1' + b"0" * 5_000 + b"}", b"NaN", b"1e999", b"\xff\xfe", b""),
    *(b"[]", b'"text"', b"{}", b'{"a": "\\ud800"}', b"\x00" * 1000, b'{"a": 1}' * 1000, b"null", b"-", b"[1, 2"),
]


def make_absurd(chance: random.Random, folder: Path, masters: list[Path]) -> str:
    """Make the settings of a folder absurd, and seal it again; return what was changed."""
    file = chance.choice([each for each in sorted(folder.rglob("*.json")) if each.name in FILES])
    if chance.random() < 0.05:
        text = chance.choice(TEXTS)
        file.write_bytes(text)
        what = f"the text: {file.name} {text[:20]!r}"
    else:
        content = json.loads(file.read_text())
        what = f"{chance.choice([change_value, change_value, change_value, drop, add])(chance, content)}"
        file.write_text(json.dumps(content))
    places = [file.parent]
    if file.name == "facts.json":  # of all checkpoints: else the one before would do
        for other in file.parent.parent.glob("checkpoint-*"):
            (other / file.name).write_bytes(file.read_bytes())
            places.append(other)
    for place in places:
        manifest = read_manifest(place)
        seal(place, manifest.kind, manifest.format)
    assert (file.parent / MANIFEST).exists()
    return f"{what} in {file.name}"


def change_value(chance: random.Random, content: dict[str, Any]) -> str:
    """Replace a value, in all places that have it, by one that it cannot have."""
    holder, key = chance.choice([*places_in(content)])
    value = chance.choice([each for each in absurd_for(str(key), holder[key]) if each != holder[key]])
    for other, name in [*places_in(content)]:
        if (other is holder and name == key) or (isinstance(name, str) and name == key and name in DEEP):
            other[name] = value
    return f"a value: {key} {json.dumps(value)[:40]}"


DEEP = {"dim", "layers", "blocks", "filters", "kernel", "height", "relation_dim", "input_dim", "permutations", "model"}


def absurd_for(key: str, value: Any) -> list[Any]:
    """Return values that a setting cannot have."""
    if key in DEEP and isinstance(value, int):
        return [0, 10**9, 100_000, 999_983, *NUMBERS, *OTHERS]
    if key in ("loss", "valid_mrr", "time") and isinstance(value, float | None):
        return [each for each in OTHERS if each is not None]
    if key in OPEN:
        return [each for each in [*NUMBERS, *OTHERS] if not isinstance(each, dict | None)]
    if key == "curve":  # which may be empty
        return [each for each in [*NUMBERS, *OTHERS] if each != []]
    if isinstance(value, bool):
        return [*(each for each in OTHERS if each is not True), 1, 0]
    if key == "seed":
        return [each for each in [*NUMBERS, *OTHERS] if type(each) is not int]
    if isinstance(value, int | float):
        return [*NUMBERS, *OTHERS]
    return [*NUMBERS, *(each for each in OTHERS if type(each) is not type(value) or key not in FREE)]


def drop(chance: random.Random, content: dict[str, Any]) -> str:
    """Drop a value."""
    holder, key = chance.choice([(holder, key) for holder, key in places_in(content) if isinstance(holder, dict)])
    del holder[key]
    return f"dropped: {key}"


def add(chance: random.Random, content: dict[str, Any]) -> str:
    """Add a value that nothing knows."""
    holders = [content, *(value for key, value in content.items() if isinstance(value, dict) and key not in OPEN)]
    name = chance.choice(["magic", "", "☃", "x" * 100_000, "__class__", "options", "self"])
    chance.choice([holder for holder in holders if name not in holder])[name] = chance.choice([*NUMBERS, *OTHERS])
    return f"added: {name[:20]}"


def places_in(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in nested JSON: what holds it, and its name or number there."""
    for key in content if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], dict | list) and key not in OPEN:
            yield from places_in(content[key])
