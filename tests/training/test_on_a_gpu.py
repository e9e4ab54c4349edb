"""Laws of training on a GPU: it learns what a CPU learns, repeats where it says so, and goes on from a state."""

from dataclasses import replace

import pytest
import torch

from methods import METHODS, NOISY
from procrustes_kge.graphs.graph import split_graph
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training.costs import measured
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import run
from procrustes_kge.training.recipes import learned
from procrustes_kge.training.state import copied
from procrustes_kge.training.supervised import Supervised
from toys import rotated_graph, same

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]
every_method = pytest.mark.parametrize(("method", "settings"), METHODS.values(), ids=METHODS)
GPU = torch.device("cuda")


@every_method
def test_with_deterministic_a_seed_repeats_to_the_last_bit(method, settings):
    settings = replace(settings, device="cuda", deterministic=True, epochs=8, validate_every=2, patience=2)
    found, again = (run(method, NOISY, settings) for _ in range(2))
    assert found.epochs == again.epochs
    assert same(found.model, again.model)


def test_full_batch_repeats_to_the_last_bit_without_it():
    for method, settings in METHODS.values():
        if method is FullBatch:
            models = [run(method, NOISY, replace(settings, device="cuda", epochs=8)).model for _ in range(2)]
            assert same(*models)


@every_method
def test_a_trainer_goes_on_from_a_state_as_if_it_had_never_stopped(method, settings):
    settings = replace(settings, device="cuda", deterministic=True, epochs=6, validate_every=2)
    torch.use_deterministic_algorithms(True)
    try:
        with torch.no_grad():
            one = method(NOISY, settings, GPU).trainer(0)
            for _ in range(3):
                one.epoch()
            state = copied(one.state())
            rest = [float(one.epoch()) for _ in range(3)]
            other = method(NOISY, replace(settings, seed=99), GPU).trainer(0)
            other.restore(state)
            assert [float(other.epoch()) for _ in range(3)] == rest
            assert same(one.model(), other.model())
            one.restore(state)  # back, after steps that may have been recorded
            assert [float(one.epoch()) for _ in range(3)] == rest
    finally:
        torch.use_deterministic_algorithms(False)


@every_method
def test_a_gpu_learns_about_what_a_cpu_learns(method, settings):
    graph = split_graph(rotated_graph(), valid=0.0, test=0.0)
    settings = replace(settings, epochs=30, validate_every=5, patience=0)
    if method is Supervised:
        settings = replace(settings, learning_rate=0.01, epochs=60)
    found = {device: learned(graph, replace(settings, device=device)) for device in ("cpu", "cuda")}
    losses = {device: each.curve[-1].loss / each.curve[0].loss for device, each in found.items()}
    mrrs = {device: evaluate(each.model.to("cpu"), graph, "valid").mrr for device, each in found.items()}
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=0.2, abs=0.05)
    assert mrrs["cuda"] == pytest.approx(mrrs["cpu"], abs=0.1)


@pytest.mark.parametrize("pilot", [40, 100])
def test_the_time_of_full_batch_is_measured_with_more_segments_than_a_part_has(pilot):
    """Scratch memory for the segments of a part was once too small for those that are timed together."""
    graph = rotated_graph()
    settings = FitSettings(dim=400, segment=4, pilot=pilot, device="cuda", epochs=4)
    costs = measured(graph, settings, 0.2)
    assert costs.learning(graph, settings, settings.epochs) > 0
    assert learned(graph, settings).model.vectors.isfinite().all()
