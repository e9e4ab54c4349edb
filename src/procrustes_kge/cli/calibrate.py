"""procrustes calibrate: what turns the scores of a run into probabilities."""

import time
from pathlib import Path
from typing import Any

from procrustes_kge.cli.app import Device, Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.explore.calibration import calibrate as calibrated, reliability
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.experiment import Model
from procrustes_kge.runs.store import keep_calibration, load_run, update_report
from procrustes_kge.system.devices import choose_device
from procrustes_kge.words import counted

verb = new_verb()


@verb.command()
def calibrate(run: RunFolder, device: Device = "auto", as_json: Json = False) -> None:
    """Learn from validation triples how likely an answer of each score is right, and keep that with the run.

    `train` does so by itself; this is for runs that have no probabilities yet. Then the test triples tell how far the
    probabilities are to be trusted, which is saved in the run's report.json.

    Examples:

        procrustes calibrate runs/wordnet-mini
    """
    opened = load_run(run)
    if opened.graph is None:
        raise InputError(f"{run}: saved without its triples, so nothing tells probabilities; save it with graph=…")
    started = time.perf_counter()
    with warnings_as_notes():
        about = keep_probabilities(opened.model.to(choose_device(device)), opened.graph, run)
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"run": str(run), "seconds": seconds, "calibration": about})
        return
    print(f"calibrated on {counted(about['triples'], 'validation triple')} in {seconds:.1f} s, kept in {run}")
    among = f"entities with such a score, if one of {about['one_of']:,} is right"
    print(f"a probability is the share of right answers among {among}")
    if about["test"] is None:
        print("there are no test triples to measure it on")
        return
    print(_table(about["test"]))


def keep_probabilities(model: Model, graph: Graph, folder: Path, seconds: float | None = None) -> dict[str, Any]:
    """Calibrate, measure on test triples where there are any, keep both with the run, and return what is reported."""
    found = calibrated(model, graph, seconds=seconds and seconds / 2)
    test = reliability(found, model, graph, seconds=seconds and seconds / 2) if len(graph.test) else None
    about = {
        "triples": found.triples,
        "relations_of_their_own": int((found.examples > 0).sum()),
        "one_of": round(1 / found.prior),
        "test": test,
    }
    keep_calibration(folder, found)
    update_report(folder, calibration=about)
    return about


def _table(test: dict[str, Any]) -> str:
    """Return how probabilities and shares agree, bin by bin."""
    lines = [f"test   calibration error {figure(test['answers']['error'])} of the ten best answers, "]
    lines[0] += f"{figure(test['even']['error'])} at even odds   {counted(test['triples'], 'triple')}"
    lines += ["  ten best answers: said  right  answers"]
    lines += [
        f"{each['probability']:>23.3f}  {each['right']:.3f}  {each['weight']:,.0f}" for each in test["answers"]["bins"]
    ]
    return "\n".join(lines)
