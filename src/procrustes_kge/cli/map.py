"""procrustes map: a picture of the entity vectors that one can turn, search and read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json, warnings_as_notes
from procrustes_kge.errors import InputError, printable
from procrustes_kge.explore.space.clusters import Cluster
from procrustes_kge.explore.space.columns import Column, read_column
from procrustes_kge.explore.space.space import MOST_POINTS, Space, beside, space_of
from procrustes_kge.explore.space.topics import Topic
from procrustes_kge.figures.map import SUFFIXES, write_map
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.runs.store import load_run
from procrustes_kge.words import counted, either

verb = new_verb()


@verb.command("map")
def map_run(
    run: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option(help=f"The file to write: {either(SUFFIXES)}.", show_default="RUN-map.html, beside the run"),
    ] = None,
    other: Annotated[Path | None, typer.Option("--beside", help="Another run, shown beside this one.")] = None,
    column: Annotated[
        list[Path] | None, typer.Option(help="A file with a name and a value on each line, to colour by. Repeatable.")
    ] = None,
    projection: Annotated[Literal["pca", "umap"], typer.Option(help="umap needs umap-learn.")] = "pca",
    points: Annotated[int, typer.Option(help="The most entities to show.")] = MOST_POINTS,
    seed: Annotated[int, typer.Option(help="Of umap; pca has no chance in it.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that was not written by `map`.")] = False,
    as_json: Json = False,
) -> None:
    """Write a map of the entity vectors, and print the arms of the cloud with their clusters.

    The page is one file that opens from disk: turn it, search it, colour it by cluster, by degree, by the slots of
    relations or by columns of your own. A name that ends in .svg, .png or .pdf makes a picture for print.

    Examples:

        procrustes map runs/wordnet-mini
        procrustes map runs/wordnet-mini --out map.svg
        procrustes map runs/wn18rr --beside runs/wn18rr-rotate --column frequencies.tsv
    """
    target = out or _beside_the_run(run)
    if target.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {target}: its suffix does not say what to write; use {either(SUFFIXES)}")
    spaces: list[Space] = []
    with warnings_as_notes():
        for folder in (run, other):
            if folder is None:
                continue
            opened = load_run(folder)
            columns = _columns(column or (), opened.model.entities, needed=not spaces)
            space = space_of(opened.model, opened.graph, str(folder), columns, projection, points, seed)
            spaces.append(beside(space, spaces[0]) if spaces else space)
        written = write_map(spaces, target, force)
    size = written.stat().st_size
    if as_json:
        print_json({"file": str(written), "bytes": size, "pictures": [_as_json(space) for space in spaces]})
        return
    for space in spaces:
        print("\n".join(_lines(space)))
    print(f"wrote  {written}   {size / 1e6:.1f} MB")


def _beside_the_run(run: Path) -> Path:
    """Return where the page goes: not into the folder, which holds a run and nothing else."""
    whole = run if run.name not in ("", "..") else run.resolve()
    return whole.with_name(f"{whole.name}-map.html")


def _columns(files: Sequence[Path], entities: Vocabulary, needed: bool) -> list[Column]:
    """Read the user's columns; a run that is shown beside another may have no entity in them."""
    read = []
    for file in files:
        try:
            read.append(read_column(file, entities))
        except InputError:
            if needed:
                raise
    return read


def _lines(space: Space) -> list[str]:
    lines = [printable(f"{space.title}   {space.about}"), *(f"note   {printable(note)}" for note in space.notes)]
    if not space.clusters:
        return [*lines, "no clusters: no direction of the cloud stands out from chance"]
    for cluster, topic in zip(space.clusters, space.topics, strict=True):
        typical = printable(", ".join(space.typical(cluster)))
        said = printable(f"   ({topic})") if topic else ""
        lines.append(f"{cluster.name:<5}  {counted(len(cluster.rows), 'entity'):>15}   {typical}{said}")
    return lines


def _as_json(space: Space) -> dict[str, object]:
    return {
        "run": space.title,
        "projection": space.method,
        "shown": len(space.shown),
        "entities": len(space.entities),
        "shares_of_variance": list(space.shares),
        "notes": list(space.notes),
        "clusters": [_cluster(space, *each) for each in zip(space.clusters, space.topics, strict=True)],
    }


def _cluster(space: Space, cluster: Cluster, topic: Topic | None) -> dict[str, object]:
    return {
        "name": cluster.name,
        "arm": cluster.arm,
        "size": len(cluster.rows),
        "typical": [space.entities.names[int(space.shown[row])] for row in cluster.typical],
        "labels": [space.label(row) for row in cluster.typical],
        "topic": topic._asdict() if topic else None,
    }
