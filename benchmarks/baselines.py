"""Rows of the paper's table, as `procrustes bench table` writes them, or a search by validation.

python benchmarks/baselines.py complex-wn18rr          one row: train, rank, write complex-wn18rr.json
python benchmarks/baselines.py complex-wn18rr --valid --set decay=0.05 --set epochs=30     look at validation alone

It needs no more than PyTorch, numpy, jaxtyping and safetensors. Rows whose file is there are left alone, unless they
are named. `python benchmarks/tables.py table` makes a table of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_type_hints

import records
from procrustes_kge import InputError, read_graph, recipe
from procrustes_kge.ranking import figure
from procrustes_kge.recipes import Settings, has_setting
from procrustes_kge.table import Row, filled, missing, table_rows, trained


def parsed(settings: Settings, change: str) -> dict[str, Any]:
    """Return a change of a setting from words such as decay=0.05."""
    name, _, value = change.partition("=")
    if not has_setting(settings, name):
        raise InputError(f"{name} is no setting of this recipe")
    kind = get_type_hints(type(settings))[name]
    if kind is bool and value.lower() not in ("true", "false"):
        raise InputError(f"{name} {value!r}, expected true or false")
    if kind is bool:
        return {name: value.lower() == "true"}
    try:
        return {name: kind(value) if kind in (int, float) else value}  # settings tell a number from a word
    except ValueError:
        raise InputError(f"{name} {value!r}, expected a {'whole ' if kind is int else ''}number") from None


def validated(row: Row, changes: list[str], device: str) -> str:
    """Train a row with some settings changed and return a line on how it ranks the validation triples."""
    plain = recipe(row.recipe)
    values = {name: value for each in changes for name, value in parsed(plain, each).items()}
    graph = read_graph(row.dataset)
    settings = recipe(row.recipe, graph, **{"device": device, **values})
    report = trained(graph, settings, row.recipe, ["valid"])
    found, seconds = report["metrics"]["valid"], report["footprint"]["seconds"]
    cost = f"{report['epochs']} epochs in {seconds:.0f} s"
    return f"{row.name:<24}{' '.join(changes)}   valid {figure(found['mrr'])}   {cost}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="RECIPE-DATASET; where none is named, all without a file"
    )
    parser.add_argument("--valid", action="store_true", help="look at validation alone, and write nothing")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE", dest="changes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=records.RESULTS)
    parser.add_argument("--commit", default=records.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    if arguments.changes and not arguments.valid:
        parser.error("--set is for --valid: a row of the table is a recipe as it is")
    try:
        rows = table_rows(arguments.rows) if arguments.rows else missing(table_rows(), arguments.folder)
        if arguments.valid:
            for row in rows:
                print(validated(row, arguments.changes, arguments.device), flush=True)
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
