"""The search for settings, on validation triples alone: one change at a time around some, one seed each.

python benchmarks/search.py                                 every study, on the GPU where there is one
python benchmarks/search.py accurate --datasets wn18rr      one study of one dataset

Vectors of 500 numbers stand for the 2,000 of the recipes. `accurate` and `small` start from what suits the two graphs,
which the recipe had before `ideas.py` looked at nine; the others from the recipe of their name. `relations: gradient`
is no setting of the package: rotations descended number by number, as other models do, to see what solving them is
worth. Each study writes its trials, the start first, to benchmarks/results/search-STUDY-DATASET.json; `python
benchmarks/tables.py` makes tables of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

import result_files
import ten_graphs
from procrustes_kge import Graph, read_graph, recipe
from procrustes_kge.runs.experiment import device_name, experiment
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training import learner
from procrustes_kge.training.gradients import Gradients, Tables
from procrustes_kge.training.optimisers import Adagrad
from procrustes_kge.training.recipes import Settings, changed, values_of
from procrustes_kge.training.rotations import Rotations, of_rotations

DIM = 500
Change = dict[str, Any]
BOTH: dict[str, list[Change]] = {
    "accurate": [
        {"relations": "positives"},
        {"scale": False},
        {"translate": False},
        {"scale": False, "translate": False},
        {"crowd": 0.0},
        {"crowd": 0.5},
        {"crowd": 1.0},
        {"dropout": 0.0},
        {"dropout": 0.1},
        {"dropout": 0.2},
        {"dropout": 0.4},
        {"regularisation": 0.02},
        {"regularisation": 0.05},
        {"regularisation": 0.07},
        {"regularisation": 0.1},
        {"regularisation": 0.15},
        {"label_smoothing": 0.1},
        {"learning_rate": 0.1},
        {"learning_rate": 0.4},
        {"rotation_learning_rate": 0.5},
        {"rotation_learning_rate": 2.0},
        {"segment": 4},
        {"segment": 10},
        {"segment": 50},
        {"dim": 200},
        {"dim": 1000},
        {"dim": 2000},
        {"dim": 1000, "groups": 2},
        {"dim": 2000, "groups": 2},
        {"dim": 2000, "groups": 4},
        {"epochs": 15},
        {"epochs": 60},
        {"warm_start": 20},
        {"warm_start": 20, "epochs": 15},
        {"negatives": 2048},
        {"lengths": "unit", "regularisation": 0.0},
        {"label_smoothing": 0.1, "epochs": 60},
        {"label_smoothing": 0.1, "epochs": 60, "dim": 2000, "groups": 4},
        {"batch": 1024},
    ],
    "small": [
        {"relations": "positives"},
        {"relations": "gradient"},
        {"warm_start": 20},
        {"warm_start": 20, "epochs": 15},
        {"epochs": 15},
    ],
    "paper+tb": [{"learning_rate": 0.005}, {"learning_rate": 0.02}, {"translate": False}],
    "paper+ns": [{"adversarial_temperature": 0.0}, {"margin": 0.6}, {"translate": False}],
    "paper+ns+tb": [
        {"adversarial_temperature": 0.0},
        {"adversarial_temperature": 1.0},
        {"margin": 0.6},
        {"margin": 0.9},
        {"sharpness": 14.0},
        {"negatives": 512},
        {"translate": False},
    ],
}
ONE: dict[tuple[str, str], list[Change]] = {
    ("paper+tb", "wn18rr"): [{"epochs": 30}],
    ("paper+tb", "fb15k-237"): [{"epochs": 12}],
    ("paper+ns", "wn18rr"): [{"learning_rate": 0.06}],
    ("paper+ns", "fb15k-237"): [{"learning_rate": 0.1}],
    ("paper+ns+tb", "wn18rr"): [{"learning_rate": 0.02}, {"learning_rate": 0.1}, {"crowd": 0.5}],
    ("paper+ns+tb", "fb15k-237"): [{"learning_rate": 0.01}, {"epochs": 10}, {"epochs": 40}],
}


class DescendedRotations(Rotations):
    """Rotations that move by Adagrad, number by number, and back to the nearest orthogonal matrices."""

    def __init__(
        self,
        rotations: Float[Tensor, "directions segments width width"],
        positives: bool,
        inverses: bool = False,
        fuses: bool = False,
    ) -> None:
        super().__init__(rotations, positives, inverses, fuses)
        self.adagrad = Adagrad(rotations[: len(self.squares)])

    def stepped(
        self, tables: Tables, gathered: Gradients, learning_rate: float | Tensor
    ) -> Float[Tensor, "rotations segments width width"]:
        """Return rotations after a step."""
        moved = tables.rotations[: len(self.squares)].clone()
        gradient = of_rotations(gathered.rotations, len(moved)) / gathered.rotations_weight
        self.adagrad(moved, gradient, 0.2 * learning_rate)  # as entities move
        return self.polar(moved)


@contextmanager
def descended() -> Iterator[None]:
    """Let trainings move rotations by gradient."""
    learner.Rotations = DescendedRotations  # type: ignore[attr-defined]
    try:
        yield
    finally:
        learner.Rotations = Rotations  # type: ignore[attr-defined]


def trial(graph: Graph, settings: Settings, change: Change) -> dict[str, Any]:
    """Train once with a change and rank the validation triples."""
    by_gradient = change.get("relations") == "gradient"
    with descended() if by_gradient else nullcontext():
        report = experiment(graph, changed(settings, **({} if by_gradient else change)), splits=["valid"]).report
    valid = report["metrics"]["valid"]
    sides = {side: valid[side]["mrr"] for side in ("tail", "head")}
    return {"valid_mrr": valid["mrr"], **sides, "seconds": report["footprint"]["seconds"]}


def start(study: str, graph: Graph, arguments: argparse.Namespace) -> Settings:
    """Return the settings at the start of a study."""
    if study in ("accurate", "small"):
        return ten_graphs.former(graph, arguments.device, dim=arguments.dim)
    return recipe(study, graph, arguments.device, dim=arguments.dim)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"all of {', '.join(BOTH)} where none is named")
    parser.add_argument("--datasets", nargs="*", default=["wn18rr", "fb15k-237"])
    parser.add_argument("--dim", type=int, default=DIM)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    for dataset in arguments.datasets:
        graph = read_graph(dataset)
        for study in arguments.studies or BOTH:
            base = start(study, graph, arguments)
            about = {
                "commit": arguments.commit,
                "device": device_name(choose_device(arguments.device)),
                "dataset": graph.name,
                "checksum": graph.checksum,
                "settings": values_of(base),
            }
            trials: list[dict[str, Any]] = []
            for change in [{}, *BOTH[study], *ONE.get((study, dataset), [])]:
                if change and all(getattr(base, name) == value for name, value in change.items()):
                    continue
                trials.append({"change": change, **trial(graph, base, change)})
                print(f"{study} {dataset} {trials[-1]}", flush=True)
                name = f"search-{study.replace('+', '-')}-{graph.name}"
                result_files.write(name, {**about, "trials": trials}, arguments.folder)


if __name__ == "__main__":
    main()
