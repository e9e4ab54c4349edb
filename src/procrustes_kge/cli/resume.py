"""procrustes resume: go on with a training that was stopped."""

import os
from pathlib import Path
from typing import Annotated

import typer

from procrustes_kge.cli.app import Json, new_verb
from procrustes_kge.cli.job import Every, carry_out, interval
from procrustes_kge.cli.terminal import say_unless, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.runs.jobs import SUFFIX, Job, read_job, unfinished
from procrustes_kge.runs.store import check_target, load_run
from procrustes_kge.system.durable import locked
from procrustes_kge.system.files import remove_stale_scratch

verb = new_verb()


@verb.command()
def resume(
    run: Annotated[Path, typer.Argument(help="The run folder that the training was to make.", show_default=False)],
    checkpoint_every: Every = None,
    as_json: Json = False,
) -> None:
    """Go on with a training that was stopped: by Ctrl-C, a kill, a full disk, or a power cut.

    It ends as one that was never stopped ends, to the last bit on the same machine.

    Examples:

        procrustes resume runs/my-triples
    """
    every, place = interval(checkpoint_every), unfinished(Path(os.path.normpath(run)))
    folder = place.with_name(place.name.removesuffix(SUFFIX))
    with warnings_as_notes(), locked(folder):
        for target in (place, folder):
            remove_stale_scratch(target)
        if not (place / "job").exists():
            raise InputError(_nothing_to_resume(folder))
        job, say = read_job(place), say_unless(as_json)
        if isinstance(job, Job):
            check_target(folder)
            say(f"{job.graph.describe()}\n{job.recipe}: going on")
            carry_out(job, folder, every, say, as_json=as_json)
        else:
            from procrustes_kge.cli.bench import table

            table(folder, **{**job, "as_json": as_json or job["as_json"]})


def _nothing_to_resume(folder: Path) -> str:
    if not folder.exists():
        place = unfinished(folder)
        return f"{folder}: no training to resume, {place / 'job'} is missing; `procrustes train` begins one"
    ranks = "" if load_run(folder).report.get("metrics") else f"; `procrustes evaluate {folder}` ranks it"
    return f"{folder}: its training has ended, so there is nothing to resume{ranks}"
