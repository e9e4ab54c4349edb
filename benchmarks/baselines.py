"""Rows of the paper's table, as `procrustes bench table` writes them, and the tries by which validation chose settings.

python benchmarks/baselines.py complex-wn18rr                     train, rank, write complex-wn18rr.json
python benchmarks/baselines.py complex-wn18rr --try "dim=500 epochs=30" --try batch=256         look at validation alone

It needs no more than PyTorch, numpy, jaxtyping and safetensors. Rows whose file is there are left alone, unless they
are named. Every try is added to tried.json. `python benchmarks/tables.py table` makes a table of the rows, `tried` one
of the tries.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_origin, get_type_hints

import result_files
from procrustes_kge import InputError, read_graph, recipe
from procrustes_kge.bench.table import Row, filled, missing, table_rows, trained
from procrustes_kge.training.recipes import Settings, has_setting
from procrustes_kge.training.supervised_settings import TrainSettings


def parsed(settings: Settings, change: str) -> dict[str, Any]:
    """Return a change of a setting from words such as regularisation=0.05."""
    name, _, value = change.partition("=")
    if not has_setting(settings, name):
        raise InputError(f"{name} is no setting of this recipe")
    options = settings.options if isinstance(settings, TrainSettings) else settings
    kind = (get_type_hints(type(settings)) | get_type_hints(type(options)))[name]
    if kind is bool and value.lower() not in ("true", "false"):
        raise InputError(f"{name} {value!r}, expected true or false")
    if kind is bool:
        return {name: value.lower() == "true"}
    if get_origin(kind) in (Union, UnionType) and value.isdecimal():  # a number or a word
        kind = int
    try:
        return {name: kind(value) if kind in (int, float) else value}
    except ValueError:
        raise InputError(f"{name} {value!r}, expected a {'whole ' if kind is int else ''}number") from None


def tried(row: Row, words: str, device: str) -> dict[str, Any]:
    """Train a row with some settings changed, and return how it ranks the validation triples."""
    graph, plain = read_graph(row.dataset), recipe(row.recipe)
    changes = {name: value for each in words.split() for name, value in parsed(plain, each).items()}
    report = trained(graph, recipe(row.recipe, graph, **{"device": device, **changes}), row.recipe, ["valid"])
    return {
        "row": row.name,
        "changes": changes,
        "valid_mrr": report["metrics"]["valid"]["mrr"],
        "epochs": report["epochs"],
        "seconds": report["footprint"]["seconds"],
        "device": report["device"],
    }


def remember(found: dict[str, Any], folder: Path) -> None:
    """Add a try to those that were made before."""
    file = folder / "tried.json"
    before = json.loads(file.read_text(encoding="utf-8"))["tries"] if file.exists() else []
    result_files.write("tried", {"tries": [*before, found]}, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="RECIPE-DATASET; where none is named, all without a file"
    )
    parser.add_argument(
        "--try",
        action="append",
        default=[],
        metavar="CHANGES",
        dest="tries",
        help="settings to change, such as 'dim=500 epochs=30': look at validation alone",
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    try:
        rows = table_rows(arguments.rows) if arguments.rows else missing(table_rows(), arguments.folder)
        for row, words in product(rows, arguments.tries):
            found = tried(row, words, arguments.device)
            remember({"commit": arguments.commit, **found}, arguments.folder)
            cost = f"{found['epochs']} epochs in {found['seconds']:.0f} s"
            print(f"{row.name:<24}{words}   valid {found['valid_mrr']:.4f}   {cost}", flush=True)
        if arguments.tries:
            return
        lines = []
        for line in filled(rows, arguments.folder, arguments.device, arguments.commit):
            print(line, flush=True)
            lines.append(line)
    except InputError as error:
        parser.error(str(error))
    if any(line.problem for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
