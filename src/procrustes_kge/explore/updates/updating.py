"""New entities, new relations and new facts for a trained model, and facts taken away, without training again.

triples ─changed→ graph ─extended→ model with empty rows ─fold→ model ─warm epochs→ model
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.updates.folding import check_foldable, fold, unreachable
from procrustes_kge.graphs.changing import Changed, changed
from procrustes_kge.graphs.graph import SPLITS, Graph
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.baselines import build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.paths import NO_STEP, Paths
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.with_paths import Embedding, WithPaths
from procrustes_kge.runs.experiment import Model, Run
from procrustes_kge.system.memory import explain_out_of_memory
from procrustes_kge.training.recipes import Settings, learned, warm
from procrustes_kge.training.trainer import Report
from procrustes_kge.words import counted, shortened

STALE = ("metrics", "curve", "footprint", "seconds", "tuning", "repeat")  # entries of a report: of the training alone
MOST_SHOWN = 5  # names in a note


@dataclass(frozen=True)
class Updated(Run):
    """A run after a change: model, graph, settings and report; what was counted, and what the user should know."""

    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    new: tuple[str, ...] = ()  # names of entities

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.counts["added"] or self.counts["removed"])


def add(
    model: Model | Run, triples: Any, *, graph: Graph | None = None, settings: Settings | None = None, epochs: int = 0
) -> Updated:
    """Return a run with triples added, and vectors for the entities and relations among them that are new.

    `model` is what `load_run` returns, or a model with the graph it was trained on, and its settings. `triples` are
    anything that `read_graph` reads. All else stays as it is, unless `epochs` of training follow, from there.
    """
    return change(_run(model, graph, settings), read_update(triples, _run(model, graph, settings)), None, epochs)


def remove(
    model: Model | Run, triples: Any, *, graph: Graph | None = None, settings: Settings | None = None, epochs: int = 0
) -> Updated:
    """Return a run without these triples, and the entities they were about where those that are left want them."""
    return change(_run(model, graph, settings), None, read_update(triples, _run(model, graph, settings)), epochs)


def _run(model: Model | Run, graph: Graph | None, settings: Settings | None) -> Run:
    run = model if isinstance(model, Run) else Run(model, graph, settings, {})
    if run.graph is None:
        raise InputError(
            "an update needs the graph that the model was trained on, and this has none; give it as graph=… "
            "(a run saved with it has it)"
        )
    return run


def read_update(source: Any, run: Run, **options: Any) -> Graph:
    """Return the triples of an update as a graph of their own, by the rules of `read_graph`."""
    assert run.graph is not None
    known = {*run.graph.entities, *run.graph.relations}
    update = source if isinstance(source, Graph) else read_graph(source, valid=0, test=0, known=known, **options)
    triples = torch.cat([update.split(split) for split in SPLITS])
    return replace(update, train=triples, valid=triples[:0], test=triples[:0])


def change(
    run: Run, adding: Graph | None, removing: Graph | None, epochs: int = 0, report: Report | None = None
) -> Updated:
    """Return the run with triples added and removed; the graphs have names of their own, and all triples in train."""
    if type(epochs) is not int or epochs < 0:
        raise InputError(f"epochs {epochs}, expected a whole number of at least 0")
    if epochs and run.settings is None:
        raise InputError(
            f"{counted(epochs, 'epoch')}, but the settings of the training are not known; leave epochs out"
        )
    assert run.graph is not None
    found = changed(run.graph, adding, removing)
    notes = [*(adding.notes if adding else ()), *(removing.notes if removing else ()), *found.notes]
    if found.empty:
        return Updated(run.model, run.graph, run.settings, run.report, found.counts, tuple(notes))
    embedding = run.model.embedding if isinstance(run.model, WithPaths) else run.model
    check_foldable(embedding, found.counts["relations"])
    notes += _unconnected(found)
    with explain_out_of_memory(f"an update of {run.graph.name}", "fewer triples at a time"):
        grown = fold(
            extended(embedding, found), found.graph, found.concerned, found.fresh, found.relations, run.settings
        )
    if epochs and run.settings is not None:
        grown = learned(found.graph, warm(run.settings, epochs), report, start=grown).model
    model = _with_paths(run.model, grown, found.graph) if isinstance(run.model, WithPaths) else grown
    new = tuple(found.graph.entities[row] for row in torch.nonzero(found.fresh).flatten().tolist())
    about = _report(run.report, found.graph)
    return Updated(model, found.graph, run.settings, about, found.counts, tuple(notes), new)


def _unconnected(found: Changed) -> list[str]:
    """Say which new entities nothing known leads to; refuse an update all of whose entities are such."""
    new = torch.zeros(len(found.graph.relations), dtype=torch.bool)
    new[found.relations] = True
    loose = torch.nonzero(unreachable(found.graph.train, found.fresh, new)).flatten().tolist()
    if not loose:
        return []
    names = shortened([repr(found.graph.entities[row]) for row in loose], MOST_SHOWN)
    added = found.graph.train[-found.counts["added"] :, [0, 2]]
    if bool(found.fresh[added].all()) and len(loose) == int(found.fresh.sum()):
        raise InputError(
            f"none of the {counted(len(loose), 'entity')} of the update is in the graph ({names}), so nothing says "
            "where they lie; are names spelled as there? add triples that link them to it"
        )
    return [f"{counted(len(loose), 'new entity')} that nothing known leads to, so placed at random: {names}"]


def extended(model: Embedding, found: Changed) -> Embedding:
    """Return the model with rows for the names of a changed graph: zeros for new entities, usual ones for relations."""
    graph, kept = found.graph, found.kept.to(model.table.device)
    many, more = len(graph.entities) - len(kept), len(found.relations)

    def entities(table: Tensor) -> Tensor:
        return torch.cat([table[kept], table.new_zeros(many, *table.shape[1:])])

    if isinstance(model, TrainedBaseline):
        module = build(model.name, graph, model.options).to(model.table.device)
        state = model.module.state_dict()
        state |= {name: entities(state[name]) for name in ("entities", "biases") if name in state}
        module.load_state_dict(state)
        return TrainedBaseline(model.name, model.options, graph.entities, graph.relations, module.eval())
    tables: dict[str, Any] = {"vectors": entities(model.vectors)}
    if more:
        tables |= _more_relations(model, more)
    return replace(model, entities=graph.entities, relations=graph.relations, **tables)


def _more_relations(model: Procrustes, more: int) -> dict[str, Tensor]:
    """Return the tables of relations with rows for new ones: the identity, no translation, scales as long as others."""

    def with_rows(table: Tensor, rows: Tensor) -> Tensor:
        halves = table.split(len(model.relations))
        return torch.cat([each for half in halves for each in (half, rows)])

    width = model.rotations.shape[-1]
    eye = torch.eye(width).to(model.rotations).expand(more, *model.rotations.shape[1:])
    tables = {"rotations": with_rows(model.rotations, eye)}
    if model.translations is not None:
        tables["translations"] = with_rows(
            model.translations, model.translations.new_zeros(more, *model.translations.shape[1:])
        )
    if model.scales is not None:
        usual = model.scales.square().mean(dim=0, keepdim=True).sqrt()
        tables["scales"] = with_rows(model.scales, usual.expand(more, *usual.shape[1:]))
    return tables


def _with_paths(model: WithPaths, embedding: Embedding, graph: Graph) -> WithPaths:
    """Return the changed embedding with the same paths, along the triples of the changed graph."""
    before, more = len(model.relations), len(graph.relations) - len(model.relations)

    def renumbered(directions: Int[Tensor, " *some"]) -> Int[Tensor, " *some"]:
        return torch.where(directions >= before, directions + more, directions)

    steps = torch.where(model.paths.steps == NO_STEP, NO_STEP, renumbered(model.paths.steps))
    paths = Paths(renumbered(model.paths.asked), steps, model.paths.weights)
    nothing = model.worth.new_zeros(more)
    worth = torch.cat([model.worth[:before], nothing, model.worth[before:], nothing])
    return WithPaths(embedding, paths, worth, graph.train.to(model.worth.device))


def _report(report: dict[str, Any], graph: Graph) -> dict[str, Any]:
    """Return the report of a changed run: what it says of the graph is new, what it says of the training is stale."""
    past = report.get("before_updates") or {name: report[name] for name in ("metrics", "checksum") if name in report}
    return {
        **report,
        "checksum": graph.checksum,
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": {split: len(graph.split(split)) for split in SPLITS},
        "metrics": {},
        "stale": [name for name in STALE if name in report],
        "before_updates": past,
    }
