"""Laws of the study of what entities store: relations come back from entities, and without them little is left."""

import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plots`")

from procrustes_kge.bench.studies import restored as study
from procrustes_kge.bench.studies.study import Bench, Findings, Place, Result
from procrustes_kge.training.full_batch_settings import FitSettings
from toys import planted_model, rotated_graph

GRAPH = rotated_graph()
PLACE = Place(GRAPH, "cpu", quick=True)


@pytest.mark.parametrize("translate", [False, True])
def test_relations_of_full_batch_come_back_as_they_were(translate):
    settings = FitSettings(dim=60, segment=10, epochs=30, patience=0, translate=translate, device="cpu", workers=1)
    told = []
    found = study.measured(settings, Bench(PLACE, told.append))
    for way in ("restored", "eq3"):
        assert found[way]["mrr"] == pytest.approx(found["trained"]["mrr"], abs=1e-6)
    assert found["alike"] == pytest.approx(1, abs=1e-4)
    assert found["none"]["mrr"] < found["trained"]["mrr"] / 2
    assert found["mrr"] == found["trained"]["mrr"]
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)


def test_likeness_is_that_of_rotations():
    model, _ = planted_model()
    other, _ = planted_model(seed=1)
    assert study.likeness(model, model) == pytest.approx(1, abs=1e-5)
    assert abs(study.likeness(model, other)) < 0.3


@pytest.mark.slow
def test_every_recipe_of_ours_has_a_row_and_is_drawn():
    rows = study.plan(PLACE)
    assert [row.name for row in rows] == list(study.RECIPES)
    results = [Result(row.name, row.about, row.measure(Bench(PLACE))) for row in rows[:3]]
    results.append(Result(rows[3].name, rows[3].about, problem="out of memory"))
    (figure,) = study.draw(Findings("restored", "rotated", True, "cpu", 4, results)).values()
    words = " ".join(text.get_text() for text in figure.findobj(lambda each: hasattr(each, "get_text")))
    assert "accurate, as trained" in words
    assert "out of memory" in words.replace("\n", " ")
