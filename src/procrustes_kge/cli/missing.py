"""procrustes missing: all likely triples that the graph does not hold."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn

from procrustes_kge.cli import interrupts
from procrustes_kge.cli.app import Device, Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import TimeLeft, print_json, progress_bar, say_unless
from procrustes_kge.errors import InputError
from procrustes_kge.explore.missing.kept_search import SUFFIX, Kept
from procrustes_kge.explore.missing.missing import Plan, Search, identity, named, search_for
from procrustes_kge.explore.questions.answers import MissingTriple
from procrustes_kge.explore.questions.writing import as_records, check_target, write_answers
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.store import load_run
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.files import scratch_folder
from procrustes_kge.system.memory import explain_out_of_memory
from procrustes_kge.training.budget import spoken_time
from procrustes_kge.words import counted, listed

STOPPING = b"keeping what was found; press Ctrl-C again to stop at once\n"
verb = new_verb()


@verb.command()
def missing(
    run: RunFolder,
    relation: Annotated[
        list[str] | None,
        typer.Option("--relation", "-r", help="Name of a relation; may be given again.", show_default="all"),
    ] = None,
    count: Annotated[int, typer.Option("-k", "--count", help="How many triples to find.")] = 100,
    any_kind: Annotated[bool, typer.Option("--any", help="Keep entities never seen beside the relation.")] = False,
    out: Annotated[Path | None, typer.Option(help="A .tsv, .csv, .json or .parquet file to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that this did not write.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where this search was stopped.")] = False,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Find the likeliest triples that the graph does not hold, of some relations or of all, best first.

    Every head that training has seen with a relation is compared with every such tail. The list is exact. Ctrl-C keeps
    what was found in FILE.partial, or RUN.missing.partial; the same command with --resume goes on, to the same list.

    Examples:

        procrustes missing runs/wordnet-mini --relation hypernym -k 20
        procrustes missing runs/wordnet-mini -k 1000 --out missing.tsv
    """
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    if out is not None:
        check_target(out, force)
    say, opened = say_unless(as_json), load_run(run)
    model = opened.model if device == "cpu" else opened.model.to(choose_device(device))
    search = search_for(model, opened.graph, relation, count, any_kind, opened.calibration)
    graph: Graph = search.graph
    place = (out or run.resolve()).with_name(f"{(out or run.resolve()).name}{'' if out else '.missing'}{SUFFIX}")
    kept = Kept(place, identity(search, model))
    _check_place(kept, count, resume)
    plan = search.plan()
    say(_announced(search, plan))
    started = time.perf_counter()
    _searched(search, kept)
    seconds = time.perf_counter() - started
    found = named(search.place.best, search)
    if out is not None:
        write_answers(out, MissingTriple, found, force)
    kept.remove()
    if as_json:
        about = {"run": str(run), "pairs": plan.pairs, "estimated_seconds": plan.seconds, "seconds": seconds}
        print_json({**about, "triples": as_records(found)})
        return
    for each in () if out else found:
        head, tail = (graph.entities.shown(graph.entities.id(name)) for name in (each.head, each.tail))
        sure = "" if each.probability is None else f"{each.probability:6.3f}"
        print(f"{each.rank:>3}  {each.score:8.3f}{sure}   {head}   {each.relation}   {tail}")
    said = [f"searched in {seconds:.1f} s, estimated {plan.seconds:.1f} s"]
    if len(found) < count:
        said.append(f"all {counted(len(found), 'triple')} that are not known")
    if out:
        said.append(f"{counted(len(found), 'triple')} in {out}")
    say("   ".join(said))


def _check_place(kept: Kept, count: int, resume: bool) -> None:
    """Refuse a search that was stopped and is not to be resumed, or a place that cannot be written to."""
    before = kept.read(count) if resume else None
    if not resume and kept.folder.exists():
        raise InputError(f"{kept.folder}: a search was stopped here; add --resume to go on with it, or delete it")
    if before is None:
        try:
            with scratch_folder(kept.folder):
                pass
        except InputError as error:
            raise InputError(f"{error}; with --out FILE the search is kept beside that file") from error


def _announced(search: Search, plan: Plan) -> str:
    """Return in words what is searched, and what that is expected to take."""
    graph = search.graph
    names = listed(graph.relations.shown(each) for each in search.relations)
    what = names if len(search.relations) < 4 else counted(len(search.relations), "relation")
    time_left = f"at most about {spoken_time(plan.seconds)}"
    memory = f"{plan.memory / 1e6:,.0f} MB beside the model"
    return f"{graph.name}   {what}: {counted(plan.pairs, 'pair')} of entities, {time_left}, {memory}"


def _searched(search: Search, kept: Kept) -> None:
    """Search with a bar; a signal keeps what was found and says how to go on."""
    what, number = f"comparing {counted(search.pairs, 'pair')} of entities", 0
    columns = TextColumn("searching"), BarColumn(), TaskProgressColumn(), TimeLeft()
    try:
        interrupts.stop_first(search.stop.set, STOPPING)
        with progress_bar(*columns) as bar, explain_out_of_memory(what, "a smaller -k"):
            task = bar.add_task("", total=1.0)
            search.run(kept, lambda share: bar.update(task, completed=share))
        number = interrupts.release()
    except (KeyboardInterrupt, SystemExit):
        _tell(kept)
        raise
    finally:
        interrupts.release()
    if number:
        _tell(kept)
        interrupts.interrupt(number)


def _tell(kept: Kept) -> None:
    there = f"{kept.folder} holds what was found; the same command with --resume goes on"
    print(there if kept.folder.exists() else "nothing is kept of this search", file=sys.stderr)
