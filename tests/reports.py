"""Runs to report on: ordinary ones, one with hostile names, one of next to nothing, and one whose report is rubbish."""

from pathlib import Path

import torch

from folders import graph_for, model_of
from procrustes_kge.runs.experiment import experiment
from procrustes_kge.runs.saved import SavedRun
from procrustes_kge.training.full_batch_settings import FitSettings
from toys import rotated_graph

HOSTILE = (
    "<script>document.title='run'</script>",
    "</script></style></title><img src=x onerror=\"document.title='run'\">",
    "'\"><svg onload=document.title='run'>",
    "javascript:document.title='run'",
    "&lt;script&gt;\u2028",
    "\u202eright to left",
    "\x07bell",
    "北京 天安门",
    "القاهرة",
    "🦊 fox 👩‍👩‍👧",
    "a" * 300,
    "]]>-->",
)
SETTINGS = FitSettings(dim=40, segment=10, epochs=6, validate_every=2, seed=1, device="cpu", workers=1)
TUNING = {
    "said": "validation MRR .5, before .4",
    "seconds": 3.0,
    "chosen": {"learning_rate": 0.1},
    "trials": [
        {"changes": {}, "stage": "start", "valid_mrr": 0.4, "error": 0.0, "seconds": 1.0, "failed": ""},
        {"changes": {"learning_rate": 9.0}, "stage": "race", "valid_mrr": None, "seconds": 1.0, "failed": "diverged"},
        {"changes": {"learning_rate": 0.1}, "stage": "race", "valid_mrr": 0.5, "error": 0.01, "seconds": 1.0},
    ],
}
BINS = [{"from": k / 10, "to": (k + 1) / 10, "weight": 9 - k, "probability": k / 10, "right": k / 12} for k in range(9)]
CALIBRATION = {"triples": 50, "test": {"answers": {"error": 0.031, "bins": BINS}}}


def ordinary(folder="runs/rotated", **changes):
    """Return a run with everything that a report may have."""
    graph = rotated_graph()
    run = experiment(graph, SETTINGS, "fast")
    report = {
        **run.report,
        "tuning": TUNING,
        "calibration": CALIBRATION,
        "repeat": "procrustes train rotated",
        **changes,
    }
    return SavedRun(run.model, graph, run.settings, report, Path(folder))


def hostile():
    """Return a run with names that would like to be more than names."""
    names = [*HOSTILE, *(f"e{row}" for row in range(60))]
    labels = {f"e{row}": name for row, name in enumerate(HOSTILE)}
    model = model_of(names, HOSTILE[:6], labels, relation_labels={HOSTILE[3]: HOSTILE[0]})
    drawn = torch.randint(len(names), (200, 2), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [(head, place % 6, tail) for place, (head, tail) in enumerate(drawn)]
    graph = graph_for(model, rows[20:], rows[:10], rows[10:20])
    figures = {"mrr": 0.5, "hits@1": 0.1, "hits@10": 0.9, "count": 20}
    report = {
        "recipe": HOSTILE[0],
        "repeat": f"procrustes train '{HOSTILE[1]}'",
        "settings": dict.fromkeys(HOSTILE, HOSTILE[2]),
        "versions": {HOSTILE[0]: HOSTILE[1]},
        "device": HOSTILE[2],
        "metrics": {"test": {**figures, "relations": dict.fromkeys(HOSTILE, figures)}},
        "curve": [{"epoch": HOSTILE[0], "loss": 1.0}, {"epoch": 1, "loss": 0.5, "valid_mrr": 0.1}],
        "tuning": {"said": HOSTILE[0], "trials": [{"changes": {HOSTILE[1]: HOSTILE[0]}, "failed": HOSTILE[2]}]},
        "footprint": {"kwh": 1e-4, "g_co2": 0.05, "seconds": 3.0, "grid": HOSTILE[0], "method": HOSTILE[1]},
    }
    return SavedRun(model, graph, None, report, Path("runs", "<b onclick=x>"))


def tiny():
    """Return a run of three entities and one relation, without labels, validation or figures."""
    model = model_of(["a", "b", "c"], ["r"])
    return SavedRun(model, graph_for(model, [(0, 0, 1), (1, 0, 2)]), None, {}, Path("runs/tiny"))


def rubbish():
    """Return a run whose report is not what it should be."""
    report = {
        **{"settings": 3, "curve": "x", "tuning": {"trials": 7}, "footprint": [1], "versions": None, "recipe": None},
        **{"metrics": {"test": {"mrr": 0.2, "relations": "x", "tail": 4}}, "calibration": {"test": 1}, "repeat": 5},
    }
    model = model_of([f"e{row}" for row in range(8)])
    return SavedRun(model, None, None, report, Path("runs/rubbish"))
