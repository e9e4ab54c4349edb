"""What a run folder holds: made of a run, written, read, brought to the format of today, checked, made into a run.

settings.json        kind of model, method and its settings
paths.safetensors    paths as evidence, their weights, and what they are worth; where there are any
model.safetensors    vectors, rotations (may be left out), translations, scales; of a baseline, what its module holds
entities.txt         a name per line, in row order; relations.txt likewise
labels.json          readable names of entities, where there are any; relation_labels.json likewise
triples.safetensors  train, valid and test as ids
calibration.json     what turns scores into probabilities, where there were validation triples enough to tell
report.json          dataset, settings, metrics, learning curve, footprint, versions
history.json         changes after the training, where there were any; before-000001.safetensors … to undo each of them
manifest.json        size and checksum of each of these, and the format of them all
README.md            the model card, made from the report; the user's to edit, so it is not in the manifest

Whoever sends a run folder may have written anything into it, with checksums that fit. So nothing is built, or computed,
from a file before it has been compared with the others.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.calibration import Calibration
from procrustes_kge.models.paths import LONGEST, NO_STEP
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.with_paths import MOST_PATHS, WithPaths
from procrustes_kge.runs.card import CARD
from procrustes_kge.runs.experiment import Run
from procrustes_kge.runs.rebuilding import rebuilt
from procrustes_kge.runs.tensors import Spec, check_finite, read_tensors, write_tensors
from procrustes_kge.system.files import names_in, parsed_json, write_json, write_names
from procrustes_kge.system.sealed import MANIFEST, Sealed
from procrustes_kge.system.written import RECORD
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import METHODS, method_name, settings_of, values_of
from procrustes_kge.training.restoring import restore_contrasted_relations, restore_relations
from procrustes_kge.training.rotations import of_directions
from procrustes_kge.validation import check_entries, kind_of
from procrustes_kge.words import counted

Contents = dict[str, Any]  # by file: an object of JSON, a list of names, or tensors by name

KIND, FORMAT = "run", 6

SETTINGS, REPORT, MODEL, TRIPLES = "settings.json", "report.json", "model.safetensors", "triples.safetensors"
PATHS, CALIBRATION, HISTORY = "paths.safetensors", "calibration.json", "history.json"
BEFORE = re.compile(r"before-\d{6}\.safetensors")
ENTITIES, RELATIONS, LABELS, RELATION_LABELS = "entities.txt", "relations.txt", "labels.json", "relation_labels.json"
NEEDED = {SETTINGS, REPORT, MODEL, ENTITIES, RELATIONS}
FILES = NEEDED | {TRIPLES, PATHS, CALIBRATION, HISTORY, LABELS, RELATION_LABELS, MANIFEST, RECORD, CARD}
ABOUT = {
    **{"model": str, "graph": str | None, "translate": bool, "scale": bool, "inverses": bool},
    **{"method": str | None, "settings": dict | None, "options": dict | None},
}

SINCE_6 = (
    *("inverses", "relation_weight", "regulariser_power", "query_regularisation", "scale_regularisation"),
    *("init_std", "init_scale"),
)


def _with_inverses(contents: Contents) -> Contents:
    """Return contents of format 5 with the settings of contrastive training that came with format 6."""
    about = {**contents[SETTINGS], "inverses": False}
    if about.get("method") == "contrast" and isinstance(about.get("settings"), dict):
        plain = values_of(ContrastSettings())
        about["settings"] = {name: plain[name] for name in SINCE_6} | about["settings"]
    return {**contents, SETTINGS: about}


# From a format to the next; formats before 5 had no manifest.
MIGRATIONS: dict[int, Callable[[Contents], Contents]] = {5: _with_inverses}


def contents_of(run: Run, relations: bool = True) -> Contents:
    """Return what is saved of a run; without its relations, only what they cannot be computed from."""
    graph, settings = run.graph, run.settings
    model = run.model.embedding if isinstance(run.model, WithPaths) else run.model
    about = {
        "model": model.name if isinstance(model, TrainedBaseline) else "procrustes",
        "graph": graph.name if graph else None,
        "translate": isinstance(model, Procrustes) and model.translations is not None,
        "scale": isinstance(model, Procrustes) and model.scales is not None,
        "inverses": isinstance(model, Procrustes) and model.inverses,
        "method": method_name(settings) if settings else None,
        "settings": values_of(settings) if settings else None,
        "options": asdict(model.options) if isinstance(model, TrainedBaseline) else None,
    }
    left_out = set() if relations else {"rotations"}
    if not relations and about["method"] in (None, "fit"):
        left_out.add("translations")  # these follow from the entities as well
    tables = model.module.state_dict() if isinstance(model, TrainedBaseline) else model.tables()
    contents: Contents = {
        SETTINGS: about,
        REPORT: run.report,
        MODEL: {name: table for name, table in tables.items() if name not in left_out},
        ENTITIES: list(model.entities),
        RELATIONS: list(model.relations),
        LABELS: model.entities.labels,
        RELATION_LABELS: model.relations.labels,
        TRIPLES: {split: graph.split(split) for split in SPLITS} if graph else {},
        PATHS: run.model.evidence_tables() if isinstance(run.model, WithPaths) else {},
        CALIBRATION: run.calibration.as_json() if run.calibration else {},
    }
    return {name: content for name, content in contents.items() if content or name in NEEDED}


def write(contents: Contents, folder: Path) -> None:
    """Write each content to its file."""
    writers: dict[str, Callable[[Path, Any], None]] = {
        **{".json": write_json, ".txt": write_names},
        **{".safetensors": lambda path, tensors: write_tensors(tensors, path)},
    }
    for name, content in contents.items():
        writers[Path(name).suffix](folder / name, content)


def read(folder: Sealed) -> Contents:
    """Return the contents of a run folder, of the format of today."""
    readers: dict[str, Callable[[str], Any]] = {
        ".json": lambda name: parsed_json(folder.read(name), name),
        ".txt": lambda name: names_in(folder.read(name), name),
        ".safetensors": lambda name: read_tensors(folder, name),
    }
    if strange := [name for name in folder.manifest.files if not is_of_a_run(name)]:
        raise ValueError(f"{min(strange)} is no file of a run")
    # What a change replaced is read when it is undone.
    known = (name for name in folder.manifest.files if Path(name).suffix in readers and not BEFORE.fullmatch(name))
    contents = {name: readers[Path(name).suffix](name) for name in known}
    for number in range(folder.manifest.format, FORMAT):
        contents = MIGRATIONS[number](contents)
    return contents


def is_of_a_run(name: str) -> bool:
    """Say whether a run folder may have a file of this name."""
    return name in FILES or bool(BEFORE.fullmatch(name))


def check(contents: Contents) -> None:
    """Refuse contents that do not belong together, or of which no model could be made."""
    if missing := NEEDED - contents.keys():
        raise ValueError(f"{min(missing)} is missing")
    about, tensors = contents[SETTINGS], contents[MODEL]
    _check_about(about)
    check_report(contents[REPORT])
    check_history(contents.get(HISTORY, {"changes": []}))
    sizes = []
    for file, labels in ((ENTITIES, LABELS), (RELATIONS, RELATION_LABELS)):
        check_names(contents[file], contents.get(labels, {}), file, labels)
        sizes.append(len(contents[file]))
    check_finite(tensors, MODEL)
    if about["model"] == "procrustes":
        _check_tables(tensors, about, *sizes)
        _check_sizes(tensors["vectors"], about["settings"] or {})
    if about["graph"] is None and TRIPLES in contents:
        raise ValueError(f"there are triples, but {SETTINGS} has no name for their graph")
    if about["graph"] is not None and TRIPLES not in contents:
        raise ValueError(f"{TRIPLES} is missing")
    if PATHS in contents:
        _check_paths(contents[PATHS], sizes[1], TRIPLES in contents)
    if CALIBRATION in contents:
        calibration_of(contents)
    if TRIPLES in contents:
        check_triples(contents[TRIPLES], *sizes)
    elif about["model"] == "procrustes" and "rotations" not in tensors:
        raise ValueError("both the relations and the triples to compute them from are missing")


def run_of(contents: Contents) -> Run:
    """Return the run that was saved; ValueError where the contents do not belong together."""
    check(contents)
    about, tensors = contents[SETTINGS], contents[MODEL]
    entities = Vocabulary(contents[ENTITIES], "entity", contents.get(LABELS))
    relations = Vocabulary(contents[RELATIONS], "relation", contents.get(RELATION_LABELS))
    nothing = dict.fromkeys(SPLITS, torch.empty(0, 3, dtype=torch.int64))
    splits = contents.get(TRIPLES, nothing)
    graph = Graph(about["graph"] or "", entities, relations, *(splits[split] for split in SPLITS))
    # Of a baseline the model first: its settings have the same options, which are believed when the tables fit them.
    of_baseline = rebuilt(about, graph, tensors) if about["model"] in BASELINES else None
    settings = settings_of(about["method"], about["settings"]) if about["method"] else None
    embedding = of_baseline or _procrustes(tensors, about, graph, settings)
    model = embedding if PATHS not in contents else WithPaths.of_tables(embedding, contents[PATHS], graph.train)
    kept = graph if TRIPLES in contents else None
    return Run(model, kept, settings, contents[REPORT], calibration=calibration_of(contents))


def calibration_of(contents: Contents) -> Calibration | None:
    """Return what turns scores into probabilities, where it is kept."""
    if CALIBRATION not in contents:
        return None
    return Calibration.of_json(contents[CALIBRATION], 2 * len(contents[RELATIONS]), CALIBRATION)


def _procrustes(tensors: Mapping[str, Tensor], about: Mapping[str, Any], graph: Graph, settings: Any) -> Procrustes:
    """Return our model; relations that were left out are computed from the entities and the training triples."""
    vectors, rotations = tensors["vectors"], tensors.get("rotations")
    translations, scales = tensors.get("translations"), tensors.get("scales")
    if rotations is None and not isinstance(settings, ContrastSettings):
        rotations, translations = restore_relations(vectors, graph, about["translate"])
    elif rotations is None and settings.relations == "step":
        if vectors.shape[1] % settings.groups:
            raise ValueError(f"groups {settings.groups} in {SETTINGS}, but vectors of {vectors.shape[1]} segments")
        inverses = about["inverses"]
        rotations = restore_contrasted_relations(vectors, graph, settings.groups, translations, scales, inverses)
    elif rotations is None:  # by Eq. 3 too, of vectors that were not translated; its own b are kept
        rotations, _ = restore_relations(vectors, graph, translate=False)
        rotations = of_directions(rotations, 2 * len(rotations)) if about["inverses"] else rotations
    return Procrustes(graph.entities, graph.relations, vectors, rotations, translations, scales)


def _check_about(about: Mapping[str, Any]) -> None:
    check_entries(about, ABOUT, SETTINGS)
    model, method = about["model"], about["method"]
    if model != "procrustes" and model not in BASELINES:
        raise ValueError(f"{SETTINGS} has a model {model!r}, which this version does not know")
    if (method is None) != (about["settings"] is None) or method not in (None, *METHODS):
        raise ValueError(f"{SETTINGS} has a method {method!r}, which this version does not know")
    own, given = ("fit", "contrast") if model == "procrustes" else ("train",), about["options"]
    if method not in (None, *own) or (given is None) != (model == "procrustes"):
        raise ValueError(f"{SETTINGS} has a model {model!r} with the method {method!r} or options of another")


def check_report(report: Mapping[str, Any]) -> None:
    """Refuse figures that are none; all else in a report is for people."""
    metrics = report.get("metrics")
    splits = {} if metrics is None else metrics
    if not isinstance(splits, dict) or not all(isinstance(found, dict) for found in splits.values()):
        raise ValueError(f"{REPORT}: metrics are not figures by split")
    for split, found in splits.items():
        if type(found.get("mrr", 0.0)) not in (int, float) or not math.isfinite(found.get("mrr", 0.0)):
            raise ValueError(f"{REPORT}: the MRR of {split} is {kind_of(found['mrr'])}, expected a finite number")
    if not isinstance(report.get("recipe"), str | None):
        raise ValueError(f"{REPORT}: recipe is {kind_of(report['recipe'])}, expected a name")


def check_history(content: Mapping[str, Any]) -> None:
    """Refuse a history that is none: changes have numbers that rise."""
    check_entries(content, {"changes": list}, HISTORY)
    before = 0
    for change in content["changes"]:
        number = change.get("number") if isinstance(change, dict) else None
        if type(number) is not int or not before < number < 10**6:
            raise ValueError(f"{HISTORY} has changes without numbers that rise")
        before = number


def check_names(names: Sequence[str], labels: Mapping[str, Any], file: str, file_of_labels: str) -> None:
    """Refuse names that are empty, or not unique, and labels that are not text."""
    if not names:
        raise ValueError(f"{file} has no names")
    if "" in names:
        raise ValueError(f"{file}, line {names.index('') + 1}: an empty name")
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise ValueError(f"{file} has the name {twice!r} twice; names are unique")
    if not all(isinstance(label, str) for label in labels.values()):
        raise ValueError(f"{file_of_labels} has a label that is not text")


def _check_tables(tensors: Mapping[str, Tensor], about: Mapping[str, Any], entities: int, relations: int) -> None:
    """Refuse tables that do not fit the names, the settings or each other."""
    kept = {"vectors"} | ({"scales"} if about["scale"] else set())
    translations = {"translations"} if about["translate"] else set()
    whole = kept | {"rotations"} | translations
    least = kept | (translations if about["method"] == "contrast" else set())
    if tensors.keys() not in (whole, least):
        wanted = whole if "rotations" in tensors else least
        missing, strange = wanted - tensors.keys(), tensors.keys() - wanted
        seen = f"{min(missing)!r} is missing" if missing else f"it has {min(strange)!r}, which {SETTINGS} does not know"
        raise ValueError(f"{MODEL}: {seen}")
    vectors = tensors["vectors"]
    segments, width = vectors.shape[1:] if vectors.ndim == 3 else (1, 1)
    shapes = {
        "vectors": (entities, segments, width),
        "rotations": (relations * (2 if about["inverses"] else 1), segments, width, width),
        "translations": (2 * relations, segments, width),
        "scales": (2 * relations, segments, width),
    }
    for name in filter(tensors.__contains__, shapes):
        found, expected = Spec(tensors[name].dtype, tuple(tensors[name].shape)), Spec(torch.float32, shapes[name])
        if found != expected:
            named = f"for {counted(entities, 'entity')} and {counted(relations, 'relation')}"
            raise ValueError(f"{MODEL}: {name} are {found}, expected {expected} {named}")


def _check_sizes(vectors: Tensor, settings: Mapping[str, Any]) -> None:
    """Refuse settings of other vectors."""
    sizes = {"dim": vectors[0].numel(), "segment": vectors.shape[2]}
    for name, size in sizes.items():
        value = settings.get(name)
        if type(value) is int and value > 0 and value != size:  # other values are no settings of anything
            raise ValueError(f"{SETTINGS}: {name} {value!s:.60}, but the vectors have {size}")


def _check_paths(tables: Mapping[str, Tensor], relations: int, triples: bool) -> None:
    """Refuse paths that are not walks from direction to direction, or too many of them to be walked."""
    if not triples:
        raise ValueError(f"{TRIPLES} is missing, along which the paths of {PATHS} lead")
    if strange := tables.keys() ^ {"asked", "steps", "weights", "worth"}:
        raise ValueError(f"{PATHS}: {min(strange)!r} is {'unknown' if min(strange) in tables else 'missing'}")
    count = len(tables["asked"]) if tables["asked"].ndim else 0
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        **{"asked": (torch.int64, (count,)), "steps": (torch.int64, (count, LONGEST))},
        **{"weights": (torch.float32, (count,)), "worth": (torch.float32, (2 * relations,))},
    }
    for name, wanted in shapes.items():
        found, expected = Spec(tables[name].dtype, tuple(tables[name].shape)), Spec(*wanted)
        if found != expected:
            raise ValueError(f"{PATHS}: {name} are {found}, expected {expected}")
    check_finite(tables, PATHS)
    asked, steps = tables["asked"], tables["steps"]
    directions, ended = torch.cat([asked[:, None], steps], dim=1), steps == NO_STEP
    whole = (
        (directions[:, :2] >= 0).all() and (directions >= NO_STEP).all() and not (ended[:, :-1] & ~ended[:, 1:]).any()
    )
    if not whole or (directions >= 2 * relations).any():
        raise ValueError(f"{PATHS} has paths of directions that no relation has")
    if len(directions.unique(dim=0)) < count:
        raise ValueError(f"{PATHS} has a path twice")
    if (most := int(torch.bincount(asked, minlength=1).max())) > MOST_PATHS:
        raise ValueError(f"{PATHS} has {most:,} paths of one direction, expected at most {MOST_PATHS}")
    if (tables["worth"] < 0).any():
        raise ValueError(f"{PATHS}: paths are worth less than nothing")


def check_triples(splits: Mapping[str, Tensor], entities: int, relations: int) -> None:
    """Refuse splits that are not triples of rows that have a name."""
    if strange := splits.keys() ^ set(SPLITS):
        raise ValueError(f"{TRIPLES}: {min(strange)!r} is {'unknown' if min(strange) in splits else 'missing'}")
    names = torch.tensor([entities, relations, entities])
    for split, triples in splits.items():
        if triples.dtype != torch.int64 or triples.ndim != 2 or triples.shape[1] != 3:
            seen = Spec(triples.dtype, tuple(triples.shape))
            raise ValueError(f"{TRIPLES}: {split} are {seen}, expected int64 with three columns")
        if bool(((triples < 0) | (triples >= names)).any()):
            raise ValueError(f"{TRIPLES}: {split} has ids that have no name")
