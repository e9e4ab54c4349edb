"""The model card of a run, README.md: what is in the report, for people, and on top the metadata that model hubs read.

A card is the user's to edit: it is no part of what the manifest seals, and one that was changed is left alone. One that
was not is known by its last line, which has a checksum of all lines before it.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from procrustes_kge.errors import printable
from procrustes_kge.models.ranking import figure
from procrustes_kge.system.durable import put_file
from procrustes_kge.system.files import scratch_folder
from procrustes_kge.system.sealed import DamagedError, open_plain
from procrustes_kge.words import listed

CARD = "README.md"
LARGEST, LONGEST = 2**20, 200  # bytes of a card; characters of a name or a value in it
MOST_ROWS = 100  # of a table: a report may come from anyone
METRICS = ("mrr", "hits@1", "hits@3", "hits@10")
TAGS = ("knowledge-graph-embeddings", "link-prediction", "knowledge-graph")
DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # what hubs take for the name of a dataset
_LAST = re.compile(rb"<!-- written by procrustes, sha256 ([0-9a-f]{64}) -->\n\Z")


def card(report: Mapping[str, Any]) -> str:
    """Return the card that a report makes."""
    text = "\n".join([*_front(report), *_body(report)]) + "\n"
    return f"{text}<!-- written by procrustes, sha256 {_sum(text.encode())} -->\n"


def _sum(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def is_ours(file: Path) -> bool:
    """Say whether a card is as it was written."""
    try:
        with open_plain(file) as opened:
            text = opened.read(LARGEST + 1)
    except (OSError, DamagedError):
        return False
    found = _LAST.search(text)
    return found is not None and found[1].decode() == _sum(text[: found.start()])


def write_card(folder: Path, report: Mapping[str, Any]) -> None:
    """Write the card of a report, unless the report is empty, or the user has changed the card that is there."""
    place = folder / CARD
    if not report or ((place.exists() or place.is_symlink()) and not is_ours(place)):
        return
    with scratch_folder(place) as scratch:
        fresh = scratch / CARD
        fresh.write_text(card(report), encoding="utf-8", newline="")
        put_file(fresh, place)


# Metadata: YAML, of which all JSON is a part.


def _front(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the front matter."""
    dataset, figures = report.get("dataset"), _figures(report)
    yield "---"
    yield "# license: yours to choose; hubs want one, such as apache-2.0"
    yield "library_name: procrustes-kge"
    yield "tags:"
    for tag in [*TAGS, *([str(report["model"])] if DATASET.fullmatch(str(report.get("model", ""))) else [])]:
        yield f"- {_quoted(tag)}"
    known = isinstance(dataset, str) and DATASET.fullmatch(dataset)
    if known:
        yield f"datasets:\n- {_quoted(dataset)}"
    if figures:
        yield "metrics:\n" + "\n".join(f"- {_quoted(name)}" for name in METRICS)
    if known and "test" in figures:
        values = [
            {"type": name, "name": name, "value": round(figures["test"][name], 4), "verified": False}
            for name in METRICS
            if name in figures["test"]
        ]
        result = {
            "task": {"type": "link-prediction", "name": "Link prediction"},
            "dataset": {"type": dataset, "name": dataset, "split": "test"},
            "metrics": values,
        }
        yield f"model-index:\n- name: {_quoted(_title(report))}\n  results:\n  - {_quoted(result)}"
    grams = _number(_within(report, "footprint", "g_co2"))
    if grams is not None:
        about = {"emissions": grams, "source": "procrustes-kge", "training_type": "pre-training"}
        yield f"co2_eq_emissions: {_quoted(about)}"
    yield "---\n"


def _quoted(value: Any) -> str:
    """Return a value of YAML that is read as it is, whatever is in it: JSON without what breaks a line."""
    return json.dumps(value, ensure_ascii=True)


def _figures(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the metrics of each split, as far as they are numbers."""
    found = {}
    for split in ("valid", "test"):
        numbers = {name: _number(_within(report, "metrics", split, name)) for name in METRICS}
        known = {name: number for name, number in numbers.items() if number is not None}
        if "mrr" in known:
            found[split] = known
    return found


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None


# For people.


def _title(report: Mapping[str, Any]) -> str:
    model, dataset = report.get("model"), report.get("dataset")
    kind = "Procrustes" if model in (None, "procrustes") else _plain(model)
    return f"{kind} embedding of {_plain(dataset)}" if dataset else f"{kind} embedding of a knowledge graph"


def _body(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {_escaped(_title(report))}\n"
    counts = [f"{report[noun]:,} {noun}" for noun in ("entities", "relations") if type(report.get(noun)) is int]
    triples = report.get("triples")
    train = triples.get("train") if isinstance(triples, dict) else None
    counts += [f"{train:,} training triples"] if type(train) is int else []
    yield "A knowledge-graph embedding: a vector for each entity, and for each relation what turns heads into tails."
    yield f"It has {listed(counts)}.\n" if counts else ""
    yield from _use()
    yield from _results(report)
    yield from _made(report)
    yield from _limits(report)


def _use() -> Iterator[str]:
    yield "## Use\n"
    yield '```python\nfrom procrustes_kge import load_run\n\nrun = load_run("this-folder")'
    yield "print(run.model.entities[:5], run.model.relations[:5])"
    yield "print(run.tails(run.model.entities[0], run.model.relations[0], k=3))\n```\n"
    yield "On the command line, `procrustes predict this-folder --head NAME --relation NAME`.\n"


def _results(report: Mapping[str, Any]) -> Iterator[str]:
    figures = _figures(report)
    if figures:
        yield "## Results\n"
        yield "Each triple asks for its tail and for its head; the right answer is ranked among all entities, without"
        yield "other answers that are known. Ties count half.\n"
        rows = [
            [split, *(figure(found[name]) if name in found else "" for name in METRICS)]
            for split, found in figures.items()
        ]
        yield from _table(["split", *METRICS], rows)
    error = _number(_within(report, "calibration", "test", "answers", "error"))
    if error is not None:
        yield f"Probabilities are off by {figure(error)} on average (expected calibration error, test triples).\n"


def _made(report: Mapping[str, Any]) -> Iterator[str]:
    facts: dict[str, Any] = {name: report.get(name) for name in ("recipe", "method", "epochs", "device", "checksum")}
    facts |= {f"version of {name}": value for name, value in _mapping(report.get("versions")).items()}
    facts["seconds of training"] = _within(report, "footprint", "seconds")
    facts = {**_mapping(report.get("settings")), **facts}
    facts |= {f"imported {name}": value for name, value in _mapping(report.get("imported")).items() if name != "notes"}
    rows = [
        [_plain(name).replace("_", " "), _value(value)] for name, value in facts.items() if value not in (None, "", [])
    ]
    if rows:
        yield "## How it was made\n"
        yield from _table(["", ""], rows)


def _limits(report: Mapping[str, Any]) -> Iterator[str]:
    yield "## Limits\n"
    yield "Answers are guesses from the training triples, with whatever is wrong or one-sided in those. The model knows"
    yield "only the entities and relations that are listed here.\n"
    notes = [*_listed(report.get("notes")), *_listed(_mapping(report.get("imported")).get("notes"))]
    if notes:
        yield "\n".join(f"- {_escaped(_plain(note))}" for note in notes[:MOST_ROWS]) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for row in rows[:MOST_ROWS]:
        yield f"| {' | '.join(_escaped(cell) for cell in row)} |"
    yield ""


def _mapping(value: Any) -> dict[str, Any]:
    return {str(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _within(report: Mapping[str, Any], *names: str) -> Any:
    value: Any = report
    for name in names:
        value = _mapping(value).get(name)
    return value


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _plain(value)


def _plain(value: Any) -> str:
    """Return a value of a report in one short line."""
    line = " ".join(printable(str(value)).split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def _escaped(text: str) -> str:
    """Return text that Markdown and HTML show as it is.

    >>> _escaped("a|b <i> *c*")
    'a\\\\|b &lt;i&gt; \\\\*c\\\\*'
    """
    return re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", html.escape(text, quote=False))
