"""What an examination finds of a folder that was saved: a run, a training that was stopped, or a checkpoint of one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from procrustes_kge.errors import DamagedFolderError, InputError, in_one_line
from procrustes_kge.runs.card import CARD
from procrustes_kge.runs.checkpoints import NAME, check_same, numbered, read_checkpoint
from procrustes_kge.runs.jobs import JOB, SUFFIX, Job, read_job, unfinished
from procrustes_kge.runs.several import read_report
from procrustes_kge.runs.store import loaded, steadily
from procrustes_kge.runs.tensors import read_tensors
from procrustes_kge.system.files import stale_scratch, stale_within
from procrustes_kge.system.sealed import MANIFEST, DamagedError, Sealed
from procrustes_kge.system.written import RECORD
from procrustes_kge.training.recipes import Settings

RUN, UNFINISHED, CHECKPOINT = "run", "training that was stopped", "checkpoint"


@dataclass(frozen=True)
class Verdict:
    """What is in a folder, and what is wrong with it, in words by file or folder; nothing where it is sound."""

    folder: Path
    kind: str
    files: int
    bytes: int
    problems: Mapping[str, str]
    others: Sequence[str] = ()  # files that are no part of it
    scratch: Sequence[Path] = ()  # what writers that were killed have left
    whole: Sequence[str] = ()  # checkpoints from which a training can go on

    @property
    def sound(self) -> bool:
        """Whether all is as it was saved."""
        return not self.problems


def examine(folder: str | Path) -> Verdict:
    """Compare every file with the manifest, then what the files hold with each other.

    Of a run that is not there yet, the training that was stopped is examined. What is nothing of ours, or of another
    version, is an `InputError`.
    """
    target = Path(folder)
    stopped = not target.exists() and unfinished(target).is_dir()
    return steadily(unfinished(target) if stopped else target, _examined, sure=False)


def _examined(folder: Path) -> Verdict:
    if NAME.fullmatch(folder.name):
        return _verdict(folder, CHECKPOINT, read_whole)
    if (folder / JOB).is_dir() or numbered(folder):
        return _of_training(folder)
    return _verdict(folder, RUN, loaded)


def read_whole(checkpoint: Path, settings: Settings | None = None) -> None:
    """Read all that a training, of these settings if they are known, needs to go on from a checkpoint."""
    content = read_checkpoint(checkpoint)
    try:
        if settings is not None:
            check_same(content, settings)
        sealed = Sealed(checkpoint)
        for name in sealed.manifest.files:
            if name.endswith(".safetensors"):
                read_tensors(sealed, name)
    except (OSError, ValueError) as error:
        reason = in_one_line(error)
        raise DamagedFolderError(f"{checkpoint}: damaged ({reason})", reason) from error


def _verdict(folder: Path, kind: str, read: Callable[[Path], Any]) -> Verdict:
    """Examine a sealed folder, which is read when all its files are as they were."""
    problems, others, sizes = dict[str, str](), list[str](), list[int]()
    try:
        sealed = Sealed(folder)
        problems = sealed.problems()
        sizes = [entries[0].bytes for entries in sealed.manifest.files.values()]
        others = sorted({each.name for each in folder.iterdir()} - {*sealed.manifest.files, MANIFEST, RECORD, CARD})
    except (OSError, DamagedError):
        pass  # reading says it
    if not problems:
        try:
            read(folder)
        except DamagedFolderError as error:
            problems = {folder.name: error.reason}
    return Verdict(folder, kind, len(sizes), sum(sizes), problems, others, stale_scratch(folder.resolve()))


def _of_training(folder: Path) -> Verdict:
    """Examine a job, its checkpoints, and of a table the reports of the trainings that are done."""
    parts = {JOB: _verdict(folder / JOB, JOB, lambda _: read_job(folder))} if (folder / JOB).is_dir() else {}
    settings = _settings_of(folder)
    places = _checkpoints_in(folder)
    for each in places:
        parts[str(each.relative_to(folder))] = _verdict(each, CHECKPOINT, partial(read_whole, settings=settings))
    if _checkpoints_in(folder) != places:
        raise InputError(f"{folder}: its training goes on meanwhile; look again when it has ended")
    problems = {
        name if file == part.folder.name else f"{name}/{file}": f"{name}/{said}"
        for name, part in parts.items()
        for file, said in part.problems.items()
    }
    for report in sorted(folder.glob("*.json")):
        try:
            read_report(report)
        except DamagedFolderError as error:
            problems[report.name] = error.reason
    run = folder.with_name(folder.name.removesuffix(SUFFIX))
    left = [*stale_scratch(folder.resolve()), *stale_scratch(run.resolve()), *stale_within(folder)]
    sizes = [(part.files, part.bytes) for part in parts.values()]
    files, octets = (sum(each) for each in zip(*sizes, strict=True))
    whole = [name for name, part in parts.items() if part.kind == CHECKPOINT and part.sound]
    others = [f"{name}/{file}" for name, part in parts.items() for file in part.others]
    return Verdict(folder, UNFINISHED, files, octets, problems, others, left, whole)


def _settings_of(folder: Path) -> Settings | None:
    """Return the settings of a job, if there is one that can be read."""
    try:
        job = read_job(folder)
    except InputError:
        return None
    return job.settings if isinstance(job, Job) else None


def _checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints of a training, or of those that make a table."""
    places = (folder, *(each for each in sorted(folder.iterdir()) if each.is_dir()))
    return [each for place in places for _, each in numbered(place)]
