"""What tests of run folders share: short trainings, models of any names, and ways to damage a folder."""

import json
from functools import cache

import safetensors.torch
import torch

from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.runs.contents import FORMAT
from procrustes_kge.system.sealed import seal
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn
from toys import rotated_graph, same

FIT = FitSettings(dim=20, segment=5, epochs=3, patience=0, seed=4, device="cpu")
CONTRAST = ContrastSettings(
    dim=20, segment=5, epochs=20, batch=256, learning_rate=0.5, seed=4, validate_every=0, device="cpu", workers=1
)
REPORT = {"dataset": "rotated", "metrics": {"test": {"mrr": 1 / 3}}, "notes": ["naïve ☃"], "recipe": None}
MODEL, TRIPLES = "model.safetensors", "triples.safetensors"


@cache
def learned(settings):
    """Return a model, its graph and its settings."""
    graph = rotated_graph()
    return learn(graph, settings), graph, settings


def model_of(entities, relations=("r",), labels=None, width=3, relation_labels=None, segments=2):
    """Return an untrained model of these names."""
    generator = torch.Generator().manual_seed(0)
    return Procrustes(
        Vocabulary(entities, "entity", labels),
        Vocabulary(relations, "relation", relation_labels),
        torch.randn(len(entities), segments, width, generator=generator),
        torch.randn(len(relations), segments, width, width, generator=generator),
    )


def graph_for(model, train, valid=(), test=()):
    """Return a graph of the model's names and of triples of ids."""
    splits = (torch.tensor(rows, dtype=torch.int64).view(-1, 3) for rows in (train, valid, test))
    return Graph("small", model.entities, model.relations, *splits)


def same_model(one, other):
    """Tell whether two models are equal bit for bit, names and labels included."""
    return (
        same(one, other)
        and (one.entities.names, one.entities.labels) == (other.entities.names, other.entities.labels)
        and (one.relations.names, one.relations.labels) == (other.relations.names, other.relations.labels)
    )


def files_in(folder):
    """Return everything under a folder: paths, and the bytes of files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# Ways to damage a folder; after `reseal` the manifest says that it is whole.


def reseal(folder, format=FORMAT, kind="run"):
    seal(folder, kind, format)


def edit_settings(**changes):
    def edit(folder):
        about = json.loads((folder / "settings.json").read_text())
        (folder / "settings.json").write_text(json.dumps({**about, **changes}))

    return edit


def change_setting(**changes):
    """Change settings of the training."""

    def edit(folder):
        about = json.loads((folder / "settings.json").read_text())
        edit_settings(settings={**about["settings"], **changes})(folder)

    return edit


def drop_from_settings(name):
    """Drop a setting of the training."""

    def edit(folder):
        about = json.loads((folder / "settings.json").read_text())
        edit_settings(settings={key: value for key, value in about["settings"].items() if key != name})(folder)

    return edit


def drop_setting(name):
    def edit(folder):
        about = json.loads((folder / "settings.json").read_text())
        del about[name]
        (folder / "settings.json").write_text(json.dumps(about))

    return edit


def edit_tensors(file, **changes):
    """Change tensors by functions of them; None drops one."""

    def edit(folder):
        tensors = safetensors.torch.load_file(folder / file)
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        for name, change in changes.items():
            tensor = tensors.pop(name)
            if change is not None:
                tensors[name] = change(tensor).contiguous()
        safetensors.torch.save_file(tensors, folder / file)

    return edit


def write(file, content):
    return lambda folder: (folder / file).write_bytes(content)


def remove(*files):
    return lambda folder: [(folder / file).unlink() for file in files]


def drop_last_line(file):
    def edit(folder):
        lines = (folder / file).read_text().splitlines(keepends=True)
        (folder / file).write_text("".join(lines[:-1]))

    return edit


def edit_names(file, names):
    """Replace lines, by number."""

    def edit(folder):
        lines = (folder / file).read_text().splitlines()
        lines = [names.get(number, line) for number, line in enumerate(lines)]
        (folder / file).write_text("".join(f"{line}\n" for line in lines))

    return edit


def with_id(column, value):
    def change(triples):
        triples[-1, column] = value
        return triples

    return change
