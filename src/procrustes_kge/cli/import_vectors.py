"""procrustes import-vectors: a run from entity vectors that were learned elsewhere."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from procrustes_kge.cli.app import Device, Json, new_verb
from procrustes_kge.cli.calibrate import keep_probabilities
from procrustes_kge.cli.reading_flags import Reading, Source, with_reading
from procrustes_kge.cli.terminal import TerminalWatcher, print_json, say_unless
from procrustes_kge.errors import InputError
from procrustes_kge.explore.importing.importing import from_vectors
from procrustes_kge.runs.exchange.vectors import read_vectors
from procrustes_kge.runs.experiment import ranked
from procrustes_kge.runs.store import check_target, save, update_report
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.files import read_json
from procrustes_kge.words import counted

verb = new_verb()


@verb.command("import-vectors")
@with_reading
def import_vectors(
    graph: Source,
    vectors: Annotated[Path, typer.Argument(help="A file of vectors with their names.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The run folder to write.", show_default=False)],
    names: Annotated[
        Path | None, typer.Option(help="File with a name on each line.", show_default="the .txt beside the vectors")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="The array, tensor or column to take, if there are several.")
    ] = None,
    segment: Annotated[
        int | None, typer.Option(help="Dimension of a segment.", show_default="near 20, so that it divides them")
    ] = None,
    lengths: Annotated[
        Literal["unit", "free"], typer.Option(help="Scale segments to length one, or take vectors as they are.")
    ] = "unit",
    missing: Annotated[
        Literal["fold", "leave-out"],
        typer.Option(help="Entities without a vector: folded in from their neighbours, or left out."),
    ] = "fold",
    translate: Annotated[bool, typer.Option(help="Relations translate as well as rotate.")] = True,
    reading: Reading = Reading(),  # noqa: B008  # frozen
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Make a run from entity vectors, with relations solved for them in closed form.

    Reads .npy, .npz, Parquet, safetensors, and word2vec as text or binary; nothing is unpickled. Vectors are found by
    the names of entities; those with other names are not used. What was done is printed, and kept in report.json.

    Examples:

        procrustes import-vectors my-triples.tsv vectors.parquet --out runs/imported
        procrustes import-vectors wordnet-mini glove.txt --out runs/glove --missing leave-out
    """
    say = say_unless(as_json)
    check_target(out)
    most = reading.check()
    given = read_vectors(vectors, names, table, most)
    read = reading.read(graph)
    say(read.describe())
    run = from_vectors(read, given, segment=segment, lengths=lengths, missing=missing, translate=translate)
    about = run.report["imported"]
    rows, dim = given.table.shape
    used = f"used {about['vectors']:,}, in segments of {about['segment']}"
    say(f"read   {counted(rows, 'vector')} of {dim:,} numbers, {used}")
    for note in about["notes"]:
        say(f"  {note}")
    assert run.graph is not None
    save(run.model, out, run.graph, None, run.report)
    say(f"saved  {out}")
    model = run.model.to(choose_device(device))
    try:
        keep_probabilities(model, run.graph, out)
    except InputError as error:
        say(f"no probabilities: {error}")
    update_report(out, metrics=ranked(model, run.graph, watcher=TerminalWatcher(say)))
    if as_json:
        print_json(read_json(out / "report.json"))
