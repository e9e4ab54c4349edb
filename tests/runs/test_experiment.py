"""Laws of an experiment: it learns once and measures that alone, then ranks, and its report says all."""

import json
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import ClassVar

import pytest
import torch

from folders import CONTRAST, FIT
from procrustes_kge import __version__
from procrustes_kge.errors import InputError
from procrustes_kge.models.ranking import PROTOCOL, evaluate
from procrustes_kge.runs import experiment as experiment_module
from procrustes_kge.runs.experiment import Watcher, experiment, ranked
from procrustes_kge.runs.store import load_run, save
from procrustes_kge.training.recipes import METHODS, learned, values_of
from procrustes_kge.training.trainer import Learned
from toys import rotated_graph, same, small_settings

NO_TRIPLES = torch.empty(0, 3, dtype=torch.int64)
WAYS = {
    "fit": replace(FIT, epochs=6, validate_every=2),
    "contrast": replace(CONTRAST, epochs=6, validate_every=2),
    "train": small_settings("distmult", epochs=6, validate_every=2),
}
every_way = pytest.mark.parametrize("method", WAYS)


class Listing(Watcher):
    """Remember everything that happens, in its order."""

    def __init__(self):
        self.events = []

    def learn(self, graph, settings, checkpoints=None):
        self.events.append("learn")
        return learned(graph, settings)

    def rank(self, model, graph, split, seconds=None):
        self.events.append(f"rank {split}")
        return evaluate(model, graph, split, seconds=seconds)

    def on_learned(self, found, footprint):
        assert isinstance(found, Learned)
        self.events.append(("learned", found.epochs, footprint))

    def on_ranked(self, split, evaluation):
        self.events.append((split, evaluation.mrr))


@every_way
def test_a_model_is_learned_ranked_and_reported(method):
    graph, settings = rotated_graph(), WAYS[method]
    found, alone = experiment(graph, settings, "a recipe", grid="50"), learned(graph, settings)
    assert same(found.model, alone.model)
    report = found.report
    assert report["metrics"] == {split: evaluate(alone.model, graph, split).as_dict() for split in ("valid", "test")}
    assert report["curve"] == [asdict(point) for point in alone.curve]
    assert [point["epoch"] for point in report["curve"]] == [1, 2, 3, 4, 5, 6]
    assert [point["valid_mrr"] is not None for point in report["curve"]] == [False, True] * 3
    assert (report["method"], METHODS[method]) == (method, type(settings))
    assert report["settings"] == values_of(settings)
    assert (report["recipe"], report["epochs"], report["seed"]) == ("a recipe", 6, settings.seed)
    assert report["model"] == ("distmult" if method == "train" else "procrustes")
    assert (report["dataset"], report["checksum"]) == (graph.name, graph.checksum)
    assert report["triples"] == {"train": 384, "valid": 48, "test": 48}
    assert (report["footprint"]["grid"], report["footprint"]["grid_g_per_kwh"]) == ("given", 50)
    assert report["protocol"] == PROTOCOL
    assert report["versions"]["procrustes-kge"] == __version__


@every_way
def test_a_report_is_read_back_from_its_run_folder(method, tmp_path):
    graph, settings = rotated_graph(), WAYS[method]
    found = experiment(graph, settings)
    save(found.model, tmp_path / "run", graph, settings, found.report)
    assert load_run(tmp_path / "run").report == found.report
    json.dumps(found.report, allow_nan=False)


def test_learning_alone_is_measured_and_all_else_comes_after_it(monkeypatch):
    watcher, measure = Listing(), experiment_module.measure

    @contextmanager
    def listed(grid, device):
        watcher.events.append("started")
        with measure(grid, device) as meter:
            yield meter
        watcher.events.append("stopped")

    monkeypatch.setattr(experiment_module, "measure", listed)
    found = experiment(rotated_graph(), WAYS["fit"], watcher=watcher)
    footprint = watcher.events.pop(3)[2]
    mrr = {split: metrics["mrr"] for split, metrics in found.report["metrics"].items()}
    assert watcher.events == [
        *("started", "learn", "stopped"),
        *("rank valid", ("valid", mrr["valid"])),
        *("rank test", ("test", mrr["test"])),
    ]
    assert found.report["footprint"] == footprint.as_dict()


@pytest.mark.parametrize(
    ("splits", "ranked"), [(("valid", "test"), ["test"]), (["test", "train"], ["test", "train"]), ((), [])]
)
def test_splits_that_have_triples_are_ranked_once_each(splits, ranked):
    watcher, graph = Listing(), replace(rotated_graph(), valid=NO_TRIPLES)
    found = experiment(graph, WAYS["contrast"], splits=splits, watcher=watcher)
    assert list(found.report["metrics"]) == ranked
    assert [event for event in watcher.events if "rank" in event] == [f"rank {split}" for split in ranked]
    assert {point["valid_mrr"] for point in found.report["curve"]} == {None}


def test_a_training_that_diverges_is_neither_ranked_nor_reported():
    watcher, settings = Listing(), replace(CONTRAST, learning_rate=900.0, epochs=30, validate_every=1)
    with pytest.raises(InputError, match="learning rate 900; try --learning-rate 225"):
        experiment(rotated_graph(), settings, watcher=watcher)
    assert watcher.events == ["learn"]


def test_the_time_for_ranking_is_shared_by_the_splits():
    class Timed(Watcher):
        shares: ClassVar = []

        def rank(self, model, graph, split, seconds=None):
            self.shares.append(seconds)
            return evaluate(model, graph, split)

    graph = rotated_graph()
    model = learned(graph, WAYS["fit"]).model
    ranked(model, graph, watcher=Timed(), seconds=10.0)
    assert 0 < Timed.shares[0] <= 5 < Timed.shares[1] < 10
    Timed.shares.clear()
    ranked(model, graph, watcher=Timed())
    assert Timed.shares == [None, None]
