"""procrustes data: the datasets known by name."""

from pathlib import Path
from typing import Annotated, Any, no_type_check

import typer

from procrustes_kge.cli.app import Json, new_verb
from procrustes_kge.cli.terminal import print_json, read_with_bar
from procrustes_kge.errors import InputError
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.graph import SPLITS

verb = new_verb(name="data")


@verb.callback(invoke_without_command=True)
@no_type_check  # typer asks for this type, and passes a context of the parent class
def data(context: typer.Context, as_json: Json = False) -> None:
    """List the datasets that can be used by name, with licence and citation.

    Examples:

        procrustes data
        procrustes data get wn18rr
    """
    if context.invoked_subcommand:
        return
    if as_json:
        print_json({each.name: _described(each) for each in datasets.DATASETS.values()})
        return
    for each in datasets.DATASETS.values():
        here = "ready" if datasets.is_local(each.name) else "to download"
        print(
            f"{each.name:<14}{each.entities:>7,} entities {each.relations:>4} relations {sum(each.triples):>8,} triples"
            f"   {here}\n{'':14}{each.summary}\n{'':14}licence: {each.licence}\n{'':14}{each.citation}"
        )


def _described(known: datasets.Dataset) -> dict[str, Any]:
    return {
        "summary": known.summary,
        "entities": known.entities,
        "relations": known.relations,
        "triples": dict(zip(SPLITS, known.triples, strict=True)),
        "address": known.archive.address if known.archive else None,
        "sha256": known.sha256,
        "local": datasets.is_local(known.name),
        "licence": known.licence,
        "citation": known.citation,
    }


@verb.command()
def get(
    name: Annotated[str, typer.Argument(help="A name listed by `procrustes data`.")], as_json: Json = False
) -> None:
    """Download a dataset, unless it is there already, and check it."""
    name = datasets.dataset(name).name
    if Path(name).exists():
        raise InputError(f"{name}: a file or folder here has this name and would be read instead; run this elsewhere")
    graph = read_with_bar(name)
    if as_json:
        counts = {"entities": len(graph.entities), "relations": len(graph.relations)}
        triples = {split: len(graph.split(split)) for split in SPLITS}
        print_json({"dataset": graph.name, "checksum": graph.checksum, **counts, "triples": triples})
        return
    print(graph.describe())
    for head, relation, tail in graph.train[:3].tolist():
        print(f"  {graph.entities.shown(head)}  {graph.relations.shown(relation)}  {graph.entities.shown(tail)}")
