"""A run folder: everything that ranking and predicting need, in open formats, written whole or not at all.

`contents` says what is in it. Its manifest is written last, and every file is compared with it as it is read.
"""

import difflib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch

from procrustes_kge.errors import DamagedFolderError, InputError, in_one_line
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.calibration import Calibration
from procrustes_kge.models.procrustes import Procrustes, both_ways
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.runs.card import CARD, is_ours, write_card
from procrustes_kge.runs.contents import (
    CALIBRATION,
    FORMAT,
    KIND,
    MIGRATIONS,
    MODEL,
    RELATIONS,
    REPORT,
    SETTINGS,
    check,
    check_report,
    contents_of,
    is_of_a_run,
    read,
    run_of,
    write,
)
from procrustes_kge.runs.experiment import Model, Run
from procrustes_kge.runs.jobs import SUFFIX, unfinished
from procrustes_kge.runs.saved import SavedRun
from procrustes_kge.system.durable import locked, put_folder
from procrustes_kge.system.files import (
    explain_write_errors,
    nearest_folder,
    parsed_json,
    scratch_folder,
    write_json,
)
from procrustes_kge.system.memory import is_out_of_memory
from procrustes_kge.system.sealed import (
    MANIFEST,
    DamagedError,
    Sealed,
    open_plain,
    read_manifest,
    replace,
    seal,
    stamp,
)
from procrustes_kge.training.recipes import Settings

Result = TypeVar("Result")

LARGEST_SETTINGS = 2**16  # bytes; they have two thousand
PATIENCE = 10.0  # seconds that an addition to a report waits for another
PAUSES = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # seconds, before a folder that is being replaced is read again
SHORT = 0.003
LONGEST_NAME = 255 - len(SUFFIX)  # bytes
UNREADABLE = (OSError, ValueError, KeyError, TypeError, RuntimeError, ArithmeticError)  # what damaged contents raise


def save(
    model: Model,
    folder: str | Path,
    graph: Graph | None = None,
    settings: Settings | None = None,
    report: Mapping[str, Any] | None = None,
    relations: bool = True,
    calibration: Calibration | None = None,
) -> None:
    """Save a run folder. An existing run folder is replaced, unless it contains other files.

    Without `graph`, the saved run can predict but not rank. With `relations=False`, rotations are left out and computed
    again from the entities and the training triples on loading; the folder is smaller, and a model trained by `fit`
    gives the same answers. A baseline is always saved with its relations. With `calibration`, probabilities are kept.
    """
    check_target(folder)
    target = Path(folder).resolve()
    _check_belongs(model, graph, settings, relations)
    contents = contents_of(Run(model, graph, settings, dict(report or {}), calibration=calibration), relations)
    try:
        check(contents)
    except ValueError as error:
        raise InputError(
            f"{folder}: not saved, since it could not be loaded ({in_one_line(error)}); correct it first"
        ) from error

    def fill(fresh: Path) -> None:
        write(contents, fresh)
        seal(fresh, KIND, FORMAT)

    put(target, fill)


def put(target: Path, fill: Callable[[Path], None]) -> None:
    """Write a folder beside its target and exchange it with what is there: it is there whole or not at all.

    A model card that the user has changed goes along.
    """
    with explain_write_errors(target), locked(target), scratch_folder(target) as scratch:
        fresh = scratch / "fresh"
        fresh.mkdir()
        fill(fresh)
        if (target / CARD).is_file() and not is_ours(target / CARD):
            shutil.copyfile(target / CARD, fresh / CARD)
        write_card(fresh, parsed_json((fresh / REPORT).read_bytes(), REPORT))
        target.parent.mkdir(parents=True, exist_ok=True)
        put_folder(fresh, target)


def update_report(folder: str | Path, **changes: Any) -> None:
    """Change entries of a saved run's report; those of a mapping, as of the metrics, join what it holds already."""
    target = Path(folder)
    with explain_write_errors(target / REPORT), locked(target, PATIENCE):
        try:
            report = parsed_json(opened(target, verify=True).read(REPORT), REPORT)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder}: its report cannot be read ({in_one_line(error)}); give a folder that `save` wrote"
            ) from error
        for name, change in changes.items():
            held = report.get(name)
            report[name] = {**held, **change} if isinstance(held, dict) and isinstance(change, Mapping) else change
        try:
            check_report(report)
        except ValueError as error:
            raise InputError(f"{folder}: its report stays as it was ({in_one_line(error)}); correct it") from error
        replace(target, REPORT, lambda path: write_json(path, report))
        write_card(target, report)


def keep_calibration(folder: str | Path, calibration: Calibration) -> None:
    """Put a calibration into a saved run, in place of the one that it may have."""
    target = Path(folder)
    with explain_write_errors(target / CALIBRATION), locked(target, PATIENCE):
        try:
            names = opened(target, verify=True).read(RELATIONS).decode("utf-8", "surrogatepass")
            Calibration.of_json(calibration.as_json(), 2 * names.count("\n"), CALIBRATION)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder}: no calibration was kept ({in_one_line(error)}); give the run that it was made for"
            ) from error
        replace(target, CALIBRATION, lambda path: write_json(path, calibration.as_json()))


def check_target(folder: str | Path, changed: bool = False) -> None:
    """Refuse a place where no run folder can be written, before any work is done; or where none can be `changed`."""
    target = Path(folder)
    with explain_write_errors(target):
        if problem := _problem(target, changed):
            raise InputError(f"{target}: {problem}; choose another --out")
    try:
        with scratch_folder(target.resolve()):  # permissions do not say all
            pass
    except InputError as error:
        parent = nearest_folder(target)
        raise InputError(f"{target}: {parent} is not a folder that can be written to; choose another --out") from error


def _problem(target: Path, changed: bool) -> str | None:
    name = target.resolve().name
    if name.endswith(SUFFIX):
        return f"a name that ends in {SUFFIX} is that of a training that was stopped"
    if len(os.fsencode(name)) > LONGEST_NAME:
        return f"its name has {len(os.fsencode(name))} bytes, expected at most {LONGEST_NAME}"
    if target.exists() or target.is_symlink():
        if not (target.is_dir() and (_is_run(target) or not any(target.iterdir()))):
            return "exists and is not a run folder, so it is not overwritten"
        if guests := sorted(file.name for file in target.iterdir() if _is_guest(file, changed)):
            return f"holds {guests[0]} too, which replacing it would delete"
        if Path.cwd().is_relative_to(target.resolve()):
            return "you are inside this folder, so it is not replaced"
    return None


def _is_guest(file: Path, changed: bool) -> bool:
    """Say whether a file in a run folder is the user's. An edited card is: it goes along where a run is changed."""
    return not is_of_a_run(file.name) or (file.name == CARD and not changed and not is_ours(file))


def _is_run(folder: Path) -> bool:
    """Say whether a folder is a run, of any format, whole or damaged."""
    try:
        return read_manifest(folder).kind == KIND
    except (OSError, DamagedError):
        return all((folder / name).is_file() for name in (SETTINGS, MODEL))


def _check_belongs(model: Model, graph: Graph | None, settings: Settings | None, relations: bool) -> None:
    """Refuse a graph or settings that are not those of the model, or relations left out that do not follow."""
    if isinstance(model, WithPaths):
        if graph is None or not graph.train.equal(model.train.cpu()):
            raise InputError("a model with paths is saved with the graph that they lead through; give it as graph=…")
        model = model.embedding
    if not relations and graph is None:
        raise InputError("a model saved without its relations needs the graph they are computed from")
    if isinstance(model, TrainedBaseline):
        if settings is not None and getattr(settings, "options", None) != model.options:
            raise InputError(f"the settings are not of {model.name}; give those that the model was trained with")
        if not relations:
            raise InputError(f"the relations of a {model.name} model do not follow from its entities; save both")
    elif not relations and settings is None and not _follows_from_vectors(model):
        raise InputError("a model of contrast saved without its relations needs the settings it was trained with")
    if graph is not None and _names(graph) != _names(model):
        raise InputError(
            f"the graph {graph.name} has other names than the model; save it with the graph it was trained on"
        )


def _names(named: Graph | Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return named.entities.names, named.relations.names


def _follows_from_vectors(model: Procrustes) -> bool:
    """Say whether the map for heads is the inverse of that for tails, as in a model of `fit`."""
    unit = torch.allclose(model.vectors.norm(dim=-1), model.vectors.new_ones(()), atol=1e-3)
    if model.scales is not None or model.inverses or not unit:
        return False
    if model.translations is None:
        return True
    backwards = both_ways(model.rotations, model.translations[: len(model.relations)])
    return torch.allclose(backwards, model.translations, atol=1e-4)


def load(folder: str | Path, verify: bool = True) -> Model:
    """Return the model of a run folder."""
    return load_run(folder, verify).model


def load_run(folder: str | Path, verify: bool = True) -> SavedRun:
    """Return everything in a run folder: model, graph, settings and report.

    A folder that is missing, damaged or of another version is an `InputError`. With `verify=False`, files are not
    compared with their checksums. A folder that is replaced meanwhile is read again: it is one run or the other.
    """
    return steadily(Path(folder), lambda source: loaded(source, verify), sure=verify)


def loaded(source: Path, verify: bool = True) -> SavedRun:
    """Return what a run folder holds at this moment."""
    sealed = opened(source, verify)
    try:
        run = run_of(read(sealed))
    except UNREADABLE as error:
        if is_out_of_memory(error):
            raise
        raise _damaged(source, error) from error
    return SavedRun(run.model, run.graph, run.settings, run.report, source, calibration=run.calibration)


def steadily(source: Path, work: Callable[[Path], Result], sure: bool = True) -> Result:
    """Return work(source), done while nobody replaced the folder; unless it is `sure` of that itself when it succeeds.

    Where folders cannot be exchanged there is a moment without any: one that is missing is looked for again.
    """
    for pause in PAUSES:
        time.sleep(pause)
        before = stamp(source)
        try:
            result = work(source)
            if sure or stamp(source) == before:
                return result
        except InputError:
            if stamp(source) == before and (before is not None or pause > SHORT):
                raise
    raise InputError(f"{source}: is being replaced by another process again and again; try again")


def opened(source: Path, verify: bool = True) -> Sealed:
    """Open a run folder of a format that this version reads."""
    if source.name.endswith(SUFFIX) or not source.is_dir():
        _refuse_what_was_stopped(source)
    if not source.is_dir():
        beside = [each.name for each in source.parent.iterdir() if each.is_dir()] if source.parent.is_dir() else []
        near = (source.parent / name for name in difflib.get_close_matches(source.name, beside))
        others = [each for each in (Path("runs", source.name), *near) if (each / SETTINGS).is_file()]
        hint = f"did you mean {others[0]}?" if others else "`procrustes train` makes one"
        raise InputError(f"{source}: no such run folder; {hint}")
    try:
        sealed = Sealed(source, verify)
    except FileNotFoundError as error:
        raise _without_manifest(source) from error
    except (OSError, ValueError) as error:
        raise _damaged(source, error) from error
    kind, format = sealed.manifest.kind, sealed.manifest.format
    if kind != KIND:
        raise InputError(f"{source}: holds a {kind}, expected a run; give a folder that `procrustes train` wrote")
    if format > FORMAT:
        raise InputError(f"{source}: written in format {format}, this version reads {FORMAT}; upgrade procrustes-kge")
    if format < (oldest := min(MIGRATIONS, default=FORMAT)):
        raise _too_old(source, format, oldest)
    return sealed


def _refuse_what_was_stopped(source: Path) -> None:
    place = unfinished(source)
    if len(os.fsencode(place.name)) <= LONGEST_NAME + len(SUFFIX) and (place / "job").is_dir():
        run = place.with_name(place.name.removesuffix(SUFFIX))
        raise InputError(f"{run}: its training was stopped before it ended; `procrustes resume {run}` goes on with it")


def _without_manifest(source: Path) -> InputError:
    try:
        with open_plain(source / SETTINGS) as file:
            about = parsed_json(file.read(LARGEST_SETTINGS), SETTINGS)
    except FileNotFoundError:
        wanted = "give one that `procrustes train` wrote"
        return InputError(f"{source}: not a run folder, it has no {SETTINGS}; {wanted}")
    except (OSError, ValueError) as error:
        return _damaged(source, error)
    if isinstance(about.get("format"), int):
        return _too_old(source, about["format"], min(MIGRATIONS, default=FORMAT))
    return _damaged(source, DamagedError(f"{MANIFEST} is missing"))


def _too_old(source: Path, format: int, oldest: int) -> InputError:
    remedy = "train again, or open it with the version that wrote it"
    return InputError(f"{source}: written in format {format}, this version reads formats from {oldest} on; {remedy}")


def _damaged(source: Path, error: Exception) -> DamagedFolderError:
    reason = in_one_line(error)
    remedy = "restore it from a copy or train again"
    return DamagedFolderError(f"{source}: damaged or truncated ({reason}); {remedy}", reason)
