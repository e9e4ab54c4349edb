"""Laws of the speed report: counts follow the formulas, floors follow the counts, and nothing here judges a time."""

import json
import re
from dataclasses import replace

import pytest
import torch

from procrustes_kge.bench.speed import (
    MachineRates,
    Timing,
    best_answers,
    best_of,
    full_batch_epoch,
    machine_rates,
    ranking,
    softmax_epoch,
    trained,
    verdict,
)
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from toys import rotated_graph

CPU = torch.device("cpu")
RATES = MachineRates(copy=1e9, products=1e10, half_products=4e10)
SMALL = FitSettings(dim=40, segment=8, epochs=2, pilot=8, device="cpu")


@pytest.mark.slow
def test_a_machine_copies_and_multiplies():
    rates = machine_rates(CPU)
    assert rates.copy > 0
    assert rates.half_products == rates.products > 0
    assert "GB/s" in str(rates)
    assert "bfloat16" not in str(rates)
    assert "bfloat16 40" in str(RATES)


def test_the_best_of_several_leaves_the_first_out():
    calls = []
    best_of(lambda: calls.append(1), CPU, times=3)
    assert len(calls) == 4


@pytest.mark.parametrize(("optimiser", "tables"), [("turn", 2), ("adam", 6)])
def test_a_full_batch_epoch_moves_its_tables_and_multiplies_three_times(optimiser, tables, monkeypatch):
    monkeypatch.setattr("procrustes_kge.bench.speed.MOST_EPOCHS", 2)
    graph = rotated_graph()
    timing = full_batch_epoch(graph, replace(SMALL, optimiser=optimiser), RATES)
    assert timing.bytes == tables * 4 * len(graph.entities) * 40
    assert timing.operations == 3 * 2 * len(graph.train) * 40 * 8
    assert timing.floor == max(timing.bytes / RATES.copy, timing.operations / RATES.products)
    assert timing.ratio == timing.seconds / timing.floor


def test_a_softmax_epoch_compares_every_query_with_every_entity():
    graph = rotated_graph()
    settings = ContrastSettings(dim=40, segment=8, batch=128, device="cpu")
    all_of_them, some = (softmax_epoch(graph, replace(settings, negatives=many), RATES) for many in ("all", 20))
    assert all_of_them.operations / some.operations == len(graph.entities) / 20
    assert "all entities" in all_of_them.work
    assert "20 entities" in some.work


def test_training_and_ranking_are_timed_and_say_how_good_the_model_is():
    graph = rotated_graph()
    timing, model = trained(graph, SMALL, "small", seeds=2)
    assert "two-sided test MRR" in timing.note
    assert "lowest of 2 seeds" in timing.note
    assert timing.ratio is None
    assert model.dim == 40
    ranked = ranking(graph, model, RATES)
    assert "ms per triple" in ranked.note
    assert ranked.operations == 4 * len(graph.test) * len(graph.entities) * 40


def test_the_best_answers_are_found_among_as_many_entities_as_asked_for():
    timing = best_answers(CPU, RATES, dim=40, entities=1000)
    assert "1,000 entities" in timing.work
    assert timing.bytes == 4 * 1000 * 40 / 2


def test_a_line_of_the_table_stands_under_its_heading():
    counted, bare = Timing("work", 1.0, 1e9, 1e9, 0.5), Timing("other work", 1.0, note="a note")
    assert len(str(counted)) == len(Timing.heading())
    assert str(counted).split() == ["work", "1", "1", "1", "0.5", "2.0"]
    assert str(bare).split() == ["other", "work", "1", "a", "note"]
    assert json.loads(json.dumps(counted.as_dict()))["ratio"] == 2.0


def test_the_verdict_is_one_sentence_of_what_was_timed():
    epochs = [Timing("epoch, full batch", 0.2, floor=0.1), Timing("epoch, softmax", 3.0, floor=0.5)]
    whole = [Timing("training, fast, dim 500", 24.0), Timing("ranking 9 test triples", 3.0, floor=1.0)]
    theirs = [Timing("PyKEEN: one epoch, RotatE, dim 200", 60.0), Timing("PyKEEN: ranking", 9.0)]
    said = verdict("umls", [*epochs, *whole, *theirs])
    for words in ("umls in 24 s", "ranked in 3 s", "2.0 to 6.0 times", "2.5 times as long"):
        assert words in said
    for some in (epochs, whole, theirs, [*epochs, *whole], []):
        sentence = verdict("umls", some)
        assert re.fullmatch(r"[A-Z][^;]*[^.]\.", sentence)
        assert ("PyKEEN" in sentence) is False
        assert ("least time" in sentence) == (some[:2] == epochs)
