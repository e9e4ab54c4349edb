"""Laws of each study: a glance at a small graph measures every row, and its figures say what was found."""

import functools
import json
import re

import pytest
import torch

pytest.importorskip("matplotlib", reason="figures need the extra `plots`")

from laws import is_orthogonal, slow_but
from procrustes_kge.bench.paper import DATASETS, NAMES
from procrustes_kge.bench.studies import (
    STUDIES,
    ablation,
    bandwidth,
    dims,
    efficiency,
    find_study,
    kept,
    schedule,
    seeds,
)
from procrustes_kge.bench.studies.drawing import draw_study
from procrustes_kge.bench.studies.kept import Conducted, findings, read_study
from procrustes_kge.bench.studies.plain import PlainTraining, Variant
from procrustes_kge.bench.studies.study import Bench, Place
from procrustes_kge.bench.table import shipped_line, table_rows
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.linalg import spherise
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.full_batch_settings import FitSettings
from toys import rotated_graph

pytestmark = pytest.mark.slow

GRAPH = rotated_graph()
PLACE = Place(GRAPH, "cpu")


def glance(name, folder, graph=GRAPH):
    """Conduct a study of a small graph quickly; return what it found."""
    conducted = Conducted(find_study(name), Place(graph, "cpu", quick=True), folder)
    list(conducted.measured())
    return conducted


def texts_of(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def no_git():
    """Ask no git for the commit, again and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "commit", lambda: None)
        yield


def few(patch):
    """Leave studies few rows, and few epochs."""
    patch.setattr(efficiency, "NAMES", {name: NAMES[name] for name in ("accurate", "fast", "paper", "distmult")})
    patch.setattr(schedule, "BASELINES", ("distmult",))
    patch.setattr(bandwidth, "RECIPES", ("paper", "fast", "accurate", "distmult"))
    patch.setattr(seeds, "SEEDS", 2)
    patch.setattr(dims, "BRIEF_DIMS", (20, 40))
    patch.setattr(dims, "BRIEF_SEGMENTS", (2, 10))
    patch.setattr(ablation, "EPOCHS", 30)


@pytest.fixture(scope="module")
def glances(tmp_path_factory):
    """Return what a study of a small graph found, by its name, with few of the baselines: `make slow` has all."""

    @functools.cache
    def found(name):
        with pytest.MonkeyPatch.context() as patch:
            few(patch)
            return glance(name, tmp_path_factory.mktemp(name))

    return found


EACH = slow_but(("efficiency", "bandwidth", "schedule", "seeds"), STUDIES)


@pytest.mark.parametrize("name", EACH)
def test_a_glance_measures_every_row(name, glances):
    found = glances(name).findings
    assert [row.problem for row in found.rows] == [None] * len(glances(name).plan)


@pytest.mark.parametrize("name", EACH)
def test_a_figure_names_what_it_shows_and_is_the_same_again(name, glances, tmp_path):
    file = glances(name).file
    written, again = (draw_study(file, tmp_path / place, (".svg",)) for place in ("one", "other"))
    for one, other in zip(written, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    words = " ".join(each for svg in written for each in texts_of(svg))
    assert "rotated" in words
    shown = {
        "efficiency": ("MRR per second", "PROCRUSTES, accurate", "DistMult"),
        "bandwidth": ("triples processed", "PROCRUSTES", "DistMult"),
        "dims": ("Accuracy and dimension", "accurate", "fast", "paper", "segments of 10"),
        "ablation": ("full batch, no", "neither", "closed form", "paper, norm"),
        "schedule": ("seconds of training", "distmult", "is reached by"),
        "seeds": ("fast, 2 seeds", "±"),
        "restored": ("fast, as trained", "no rotations"),
    }
    assert [each for each in shown[name] if each not in words] == []


@pytest.mark.parametrize("name", EACH)
def test_what_failed_is_a_gap_that_the_figure_names(name, glances, tmp_path):
    content = read_study(glances(name).file)
    content["rows"][1] = {**content["rows"][1], "figures": None, "problem": "out of memory on purpose"}
    file = tmp_path / f"{name}-gap.json"
    file.write_text(json.dumps(content))
    words = " ".join(each for svg in draw_study(file, tmp_path, (".svg",)) for each in texts_of(svg))
    assert "out of memory on purpose" in words


@pytest.mark.parametrize("name", EACH)
def test_a_study_without_any_figures_is_still_drawn(name, glances, tmp_path):
    content = read_study(glances(name).file)
    content["rows"] = [{**row, "figures": None, "problem": "it failed"} for row in content["rows"]]
    file = tmp_path / f"{name}-none.json"
    file.write_text(json.dumps(content))
    assert draw_study(file, tmp_path, (".svg",))
    file.write_text(json.dumps({**content, "rows": []}))
    assert draw_study(file, tmp_path, (".svg",))


def test_a_study_that_is_gone_on_with_has_the_same_figures(tmp_path, monkeypatch):
    few(monkeypatch)
    whole = glance("seeds", tmp_path / "whole")
    stopped = Conducted(find_study("seeds"), Place(GRAPH, "cpu", quick=True), tmp_path / "stopped")
    for _ in zip(range(4), stopped.measured(), strict=False):
        pass
    again = glance("seeds", tmp_path / "stopped")
    assert [row["mrr"] for row in again.findings.rows] == [row["mrr"] for row in whole.findings.rows]
    assert again.findings.rows[:4] == stopped.findings.rows[:4]


def test_results_that_come_with_the_package_are_taken_unless_all_is_trained_anew(monkeypatch):
    found = find_study("efficiency")
    monkeypatch.setattr("procrustes_kge.bench.studies.efficiency.kind_of_graph", lambda graph: "wn18rr")
    taken = {row.name: row.measure(Bench(PLACE)) for row in found.plan(Place(GRAPH, "cpu"))}
    assert taken.keys() == NAMES.keys()
    known = {row.recipe: shipped_line(row).figures for row in table_rows(["wn18rr"])}
    assert {name: figures["mrr"] for name, figures in taken.items()} == {name: known[name].mrr for name in taken}
    anew = found.plan(Place(GRAPH, "cpu", anew=True))
    assert all("settings" in row.about for row in anew)


def test_the_papers_points_are_drawn_on_its_benchmarks_alone(tmp_path, glances):
    content = read_study(glances("efficiency").file) | {"quick": False}
    for graph, expected in (("mine", False), (next(iter(DATASETS)), True)):
        file = tmp_path / f"efficiency-{graph}.json"
        file.write_text(json.dumps({**content, "graph": graph}))
        words = [" ".join(texts_of(svg)) for svg in draw_study(file, tmp_path, (".svg",))]
        assert all(("GTX 1080 Ti" in each) == expected for each in words)


# What no setting offers.


def test_the_plain_training_takes_the_steps_of_fit():
    settings = FitSettings(
        dim=20, segment=5, optimiser="adam", translate=False, learning_rate=0.01, device="cpu", validate_every=0
    )
    plain = PlainTraining(GRAPH, Variant(dim=20, segment=5), torch.device("cpu"))
    start = plain.vectors.clone()
    training = FullBatch(GRAPH, settings, torch.device("cpu"))
    with torch.no_grad():
        trainers = [training.trainer(part) for part in range(len(training.sizes))]
        for _ in range(5):
            plain.epoch()
            for trainer in trainers:
                trainer.epoch()
        for trainer in trainers:
            training.add(trainer)
        found = training.vectors.transpose(0, 1)
        # Adam's first steps are as long however small a gradient is: where it is rounding, they differ.
        assert (spherise(plain.vectors) - found).abs().mean() < 2e-3 < (found - start).abs().mean()


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_without_lengths_of_one_entities_come_together(centre, normalise):
    variant = Variant(centre=centre, normalise=normalise, dim=20, segment=5, learning_rate=0.02)
    training = PlainTraining(GRAPH, variant, torch.device("cpu"))
    assert training.spread() == pytest.approx(1, abs=0.01)
    with torch.no_grad():
        for _ in range(150):
            training.epoch()
    assert (training.spread() < 0.5) == (not normalise)


def test_a_rotation_by_gradient_is_orthogonal_too():
    training = PlainTraining(GRAPH, Variant(rotation_learning_rate=0.1, dim=20, segment=5), torch.device("cpu"))
    for _ in range(3):
        training.epoch()
    assert is_orthogonal(training.rotations())


def test_an_mrr_is_reached_when_a_curve_is_first_there():
    points = [[1.0, 1, 0.1], [2.0, 2, 0.3], [3.0, 3, 0.2], [4.0, 4, None]]
    assert schedule.reached(points, 0.25) == 2.0
    assert schedule.reached(points, 0.1) == 1.0
    assert schedule.reached(points, 0.4) is None


def test_the_grid_has_every_pair_of_batches_and_negatives():
    assert len(ablation.GRID) == 6
    rows = find_study("ablation").plan(Place(GRAPH, "cpu", quick=True))
    assert len([row for row in rows if row.about["part"] == "grid"]) == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_glance_at_the_embedded_graph_has_no_gaps(name, tmp_path):
    found = glance(name, tmp_path, read_graph("wordnet-mini"))
    assert found.findings.gaps == []
    assert findings(read_study(found.file)).rows
