"""A run folder: everything that ranking and predicting need, in open formats, written whole or not at all.

settings.json        format version, kind of model, method and its settings
model.safetensors    vectors, rotations (may be left out), translations, scales; of a baseline, what its module holds
entities.txt         a name per line, in row order; relations.txt likewise
labels.json          readable names of entities, where there are any; relation_labels.json likewise
triples.safetensors  train, valid and test as ids
report.json          dataset, settings, metrics, learning curve, footprint, versions
"""

import difflib
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.models.baselines import BASELINES, baseline, build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.procrustes import Procrustes, both_ways
from procrustes_kge.runs.experiment import Model, Run, method_name
from procrustes_kge.runs.saved import SavedRun
from procrustes_kge.system.files import (
    explain_write_errors,
    nearest_folder,
    read_json,
    read_names,
    scratch_folder,
    write_json,
    write_json_atomically,
    write_names,
)
from procrustes_kge.system.written import RECORD
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import METHODS, Settings, settings_of, values_of
from procrustes_kge.training.restoring import restore_contrasted_relations, restore_relations

FORMAT = 4
FILES = {"settings.json", "labels.json", "relation_labels.json", "report.json", "entities.txt", "relations.txt"}
FILES |= {"model.safetensors", "triples.safetensors", RECORD}  # the last of what was exported here


def save(
    model: Model,
    folder: str | Path,
    graph: Graph | None = None,
    settings: Settings | None = None,
    report: Mapping[str, Any] | None = None,
    relations: bool = True,
) -> None:
    """Save a run folder. An existing run folder is replaced, unless it contains other files.

    Without `graph`, the saved run can predict but not rank. With `relations=False`, rotations are left out and computed
    again from the entities and the training triples on loading; the folder is smaller, and a model trained by `fit`
    gives the same answers. A baseline is always saved with its relations.
    """
    check_target(folder)
    target = Path(folder).resolve()
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
    # Written beside its target and renamed: a run folder is there whole or not at all.
    with scratch_folder(target) as scratch:
        fresh, old = scratch / "fresh", scratch / "old"
        fresh.mkdir()
        _write(fresh, Run(model, graph, settings, dict(report or {})), relations)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if target.exists():
                target.rename(old)
            fresh.rename(target)
        except BaseException:
            if old.exists() and not target.exists():
                old.rename(target)
            raise


def update_report(folder: str | Path, **changes: Any) -> None:
    """Change entries of a saved run's report; those of a mapping, as of the metrics, join what it holds already."""
    file = Path(folder, "report.json")
    try:
        report = read_json(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: its report cannot be read ({error}); give a folder that `save` wrote") from error
    for name, change in changes.items():
        held = report.get(name)
        report[name] = {**held, **change} if isinstance(held, dict) and isinstance(change, Mapping) else change
    write_json_atomically(file, report)


def check_target(folder: str | Path) -> None:
    """Refuse a place where no run folder can be written, before any work is done."""
    target = Path(folder)
    with explain_write_errors(target):
        if problem := _problem(target):
            raise InputError(f"{target}: {problem}; choose another --out")


def _problem(target: Path) -> str | None:
    if target.exists() or target.is_symlink():
        is_run = all((target / name).is_file() for name in ("settings.json", "model.safetensors"))
        if not (target.is_dir() and (is_run or not any(target.iterdir()))):
            return "exists and is not a run folder, so it is not overwritten"
        if guests := sorted(file.name for file in target.iterdir() if file.name not in FILES):
            return f"holds {guests[0]} too, which replacing it would delete"
        if Path.cwd().is_relative_to(target.resolve()):
            return "you are inside this folder, so it is not replaced"
    parent = nearest_folder(target)
    try:
        tempfile.TemporaryDirectory(dir=parent).cleanup()  # permissions do not say all
    except OSError:
        return f"{parent} is not a folder that can be written to"
    return None


def _names(named: Graph | Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return named.entities.names, named.relations.names


def _write(folder: Path, run: Run, relations: bool) -> None:
    model, graph, settings = run.model, run.graph, run.settings
    about = {
        "format": FORMAT,
        "model": model.name if isinstance(model, TrainedBaseline) else "procrustes",
        "graph": graph.name if graph else None,
        "translate": isinstance(model, Procrustes) and model.translations is not None,
        "scale": isinstance(model, Procrustes) and model.scales is not None,
        "method": method_name(settings) if settings else None,
        "settings": values_of(settings) if settings else None,
        "options": asdict(model.options) if isinstance(model, TrainedBaseline) else None,
    }
    left_out = set() if relations else {"rotations"}
    if not relations and about["method"] in (None, "fit"):
        left_out.add("translations")  # these follow from the entities as well
    tables = model.module.state_dict() if isinstance(model, TrainedBaseline) else model.tables()
    tensors = {name: table.cpu().contiguous() for name, table in tables.items() if name not in left_out}
    _save_tensors(tensors, folder / "model.safetensors")
    write_json(folder / "settings.json", about)
    write_json(folder / "report.json", run.report)
    write_names(folder / "entities.txt", model.entities)
    write_names(folder / "relations.txt", model.relations)
    for name, names in (("labels.json", model.entities), ("relation_labels.json", model.relations)):
        if names.labels:
            write_json(folder / name, names.labels)
    if graph is not None:
        # Copied, since no two may share memory.
        triples = {split: graph.split(split).clone(memory_format=torch.contiguous_format) for split in SPLITS}
        _save_tensors(triples, folder / "triples.safetensors")
    for file in folder.glob("*.safetensors"):  # written readable by their owner alone
        file.chmod((folder / "settings.json").stat().st_mode)


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors; a failure is an OSError, as for any other file."""
    try:
        safetensors.torch.save_file(tensors, path)
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error


def load(folder: str | Path) -> Model:
    """Return the model of a run folder."""
    return load_run(folder).model


def load_run(folder: str | Path) -> SavedRun:
    """Return everything in a run folder: model, graph, settings and report.

    A folder that is missing, damaged or of another version is an `InputError`.
    """
    source = Path(folder)
    if not source.is_dir():
        beside = [each.name for each in source.parent.iterdir() if each.is_dir()] if source.parent.is_dir() else []
        near = (source.parent / name for name in difflib.get_close_matches(source.name, beside))
        others = [each for each in (Path("runs", source.name), *near) if (each / "settings.json").is_file()]
        hint = f"did you mean {others[0]}?" if others else "`procrustes train` makes one"
        raise InputError(f"{source}: no such run folder; {hint}")
    if not (source / "settings.json").is_file():
        raise InputError(f"{source}: not a run folder, it has no settings.json; give one that `procrustes train` wrote")
    try:
        about = read_json(source / "settings.json")
        if about.get("format") == FORMAT and about.get("model") in ("procrustes", *BASELINES):
            run = _read(source, about)
            return SavedRun(run.model, run.graph, run.settings, run.report, source)
    except (OSError, safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise InputError(f"{source}: damaged or truncated ({reason}); train again or restore it from a copy") from error
    seen = f"format {about.get('format')} of model {about.get('model')!r}"
    known = "'procrustes' or a baseline"
    raise InputError(f"{source}: written in {seen}, this version reads format {FORMAT} of {known}; train again")


def _read(source: Path, about: dict[str, Any]) -> Run:
    files = (source / "labels.json", source / "relation_labels.json")
    labels, relation_labels = (read_json(file) if file.exists() else None for file in files)
    entities = Vocabulary(read_names(source / "entities.txt"), "entity", labels)
    relations = Vocabulary(read_names(source / "relations.txt"), "relation", relation_labels)
    # Copied, since the file aligns them as no allocator does, and a product may round by its alignment.
    loaded = safetensors.torch.load_file(source / "model.safetensors")
    tensors = {name: tensor.clone() for name, tensor in loaded.items()}
    if about["model"] == "procrustes":
        _check_tables(tensors, len(entities), len(relations))
    graph = None
    if (source / "triples.safetensors").exists():
        triples = safetensors.torch.load_file(source / "triples.safetensors")
        train, valid, test = (triples[split] for split in SPLITS)
        _check_ids(triples, len(entities), len(relations))
        graph = Graph(about["graph"], entities, relations, train, valid, test)
    method, values = about["method"], about["settings"]
    if (method is None) != (values is None) or method not in (None, *METHODS):
        raise ValueError(f"settings.json has a method {method!r}, which this version does not know")
    settings, report = settings_of(method, values) if method else None, read_json(source / "report.json")
    names = graph or Graph("", entities, relations, *(torch.empty(0, 3, dtype=torch.int64),) * 3)
    if about["model"] in BASELINES:
        return Run(_read_baseline(tensors, about, names), graph, settings, report)
    if graph is None and "rotations" not in tensors:
        raise ValueError("both the relations and the triples to compute them from are missing")
    return Run(_read_procrustes(tensors, about, names, settings), graph, settings, report)


def _read_baseline(tensors: dict[str, Tensor], about: dict[str, Any], graph: Graph) -> TrainedBaseline:
    name, options = about["model"], baseline(about["model"]).Options(**about["options"])
    module = build(name, graph, options)
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:  # PyTorch's word for tables that are missing or do not fit
        raise ValueError(" ".join(str(error).split())) from None
    return TrainedBaseline(name, options, graph.entities, graph.relations, module.eval())


def _read_procrustes(
    tensors: dict[str, Tensor], about: dict[str, Any], graph: Graph, settings: Settings | None
) -> Procrustes:
    """Return our model; relations that were left out are computed from the entities and the training triples."""
    vectors, rotations, translations = tensors["vectors"], tensors.get("rotations"), None
    scales = tensors["scales"] if about["scale"] else None
    if about["translate"] and (rotations is not None or isinstance(settings, ContrastSettings)):
        translations = tensors["translations"]
    if rotations is None:
        if not isinstance(settings, ContrastSettings):
            rotations, translations = restore_relations(vectors, graph, about["translate"])
        elif settings.relations == "step":
            rotations = restore_contrasted_relations(vectors, graph, settings.groups, translations, scales)
        else:  # by Eq. 3 too, of vectors that were not translated; its own b are kept
            rotations, _ = restore_relations(vectors, graph, translate=False)
    return Procrustes(graph.entities, graph.relations, vectors, rotations, translations, scales)


def _follows_from_vectors(model: Procrustes) -> bool:
    """Say whether the map for heads is the inverse of that for tails, as in a model of `fit`."""
    unit = torch.allclose(model.vectors.norm(dim=-1), model.vectors.new_ones(()), atol=1e-3)
    if model.scales is not None or not unit:
        return False
    if model.translations is None:
        return True
    backwards = both_ways(model.rotations, model.translations[: len(model.relations)])
    return torch.allclose(backwards, model.translations, atol=1e-4)


def _check_tables(tensors: Mapping[str, Tensor], entities: int, relations: int) -> None:
    """Refuse tables that do not fit the names or each other."""
    segments, width = tensors["vectors"].shape[1:] if tensors["vectors"].ndim == 3 else (1, 1)
    expected = {
        "vectors": (entities, segments, width),
        "rotations": (relations, segments, width, width),
        "translations": (2 * relations, segments, width),
        "scales": (2 * relations, segments, width),
    }
    for name, shape in expected.items():
        if name in tensors and tuple(tensors[name].shape) != shape:
            seen = f"{name} of shape {tuple(tensors[name].shape)}, expected {shape}"
            raise ValueError(f"{seen} for {entities:,} names of entities and {relations:,} of relations")


def _check_ids(splits: Mapping[str, Tensor], entities: int, relations: int) -> None:
    """Refuse triples of ids that have no name."""
    names = torch.tensor([entities, relations, entities])
    for split, triples in splits.items():
        if triples.ndim != 2 or triples.shape[1] != 3:
            raise ValueError(f"{split} triples of shape {tuple(triples.shape)}, expected three columns")
        if bool(((triples < 0) | (triples >= names)).any()):
            raise ValueError(f"{split} triples with ids that have no name")
