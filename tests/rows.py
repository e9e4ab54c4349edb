"""What tests of the paper's table share: a small graph by any name, short trainings, and made-up reports."""

from dataclasses import replace

from procrustes_kge.runs.experiment import Watcher
from procrustes_kge.training.recipes import changed, has_setting, learned
from toys import rotated_graph

GRAPH = rotated_graph()


def small_graph(name):
    """Return a small graph by the name of any dataset."""
    return replace(GRAPH, name=name)


class Brief(Watcher):
    """Learn so briefly that many rows may be trained, after what a test wants done first."""

    def __init__(self, first=lambda settings: None):
        self.first = first

    def learn(self, graph, settings, checkpoints=None):
        self.first(settings)
        small = {"dim": 20, "epochs": 1, **({"segment": 5} if has_setting(settings, "segment") else {})}
        return learned(graph, changed(settings, **small), checkpoints=checkpoints)


def unwanted(settings):
    raise AssertionError("nothing is to be trained")


def report_like(mrr, seconds=1.0, recipe="fast", dataset="wn18rr"):
    """Return as much of a report as a table looks at."""
    test = {"mrr": mrr, "hits@1": 0.1, "hits@3": 0.2, "hits@10": 0.3}
    footprint = {"seconds": seconds, "g_co2": 0.5}
    about = {"recipe": recipe, "dataset": dataset, "epochs": 3, "device": "a machine"}
    return {**about, "metrics": {"test": test}, "footprint": footprint}
