"""Random numbers of a model's own, and the layers that draw from them."""

import copy

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from procrustes_kge.models.baselines.layers import Dropout, Dropout2d, Filters, Linear, RandomSource


def drawn(source, count=4):
    return torch.rand(count, generator=source.on("cpu"))


@given(st.integers(-(2**70), 2**70))
def test_a_seed_repeats_and_a_device_has_one_generator(seed):
    one, other = RandomSource(seed), RandomSource(seed)
    assert drawn(one).equal(drawn(other))
    assert one.on("cpu") is one.on(torch.device("cpu"))
    assert not drawn(one).equal(drawn(RandomSource(seed + 1)))


@given(before=st.integers(0, 3), between=st.integers(0, 3))
def test_a_copy_and_a_restored_source_go_on_alike(before, between):
    source = RandomSource(7)
    for _ in range(before):
        drawn(source)
    copied, state, restored = copy.deepcopy(source), source.state(), RandomSource(7)
    for _ in range(between):
        drawn(restored)
    restored.restore(state)
    expected = drawn(source)
    assert drawn(copied).equal(expected)
    assert drawn(restored).equal(expected)


def test_a_state_waits_for_its_device_and_is_not_lost():
    away = {"cuda": torch.ones(16, dtype=torch.uint8)}
    source = RandomSource(0)
    drawn(source)
    source.restore(away)
    assert drawn(source).equal(drawn(RandomSource(0)))  # what the state leaves out starts from the seed again
    assert copy.deepcopy(source).state()["cuda"].equal(away["cuda"])


def test_a_restored_generator_is_the_one_that_was_there():
    source = RandomSource(0)
    generator = source.on("cpu")
    source.restore(RandomSource(1).state())
    assert source.on("cpu") is generator


@pytest.mark.parametrize("bias", [False, True])
def test_weights_start_as_those_of_pytorch(bias):
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        plain = [nn.Linear(5, 7, bias=bias), nn.Conv2d(2, 4, (3, 1), bias=bias)]
    random = RandomSource(3)
    ours = [Linear(5, 7, random, bias=bias), Filters(2, 4, (3, 1), random, bias=bias)]
    for one, other in zip(ours, plain, strict=True):
        for weights, expected in zip(one.parameters(), other.parameters(), strict=True):
            assert weights.equal(expected)


@pytest.mark.parametrize("kind", [Dropout, Dropout2d])
def test_nothing_is_left_out_without_a_share_or_outside_of_training(kind):
    numbers = torch.randn(3, 4, 5, 6)
    assert kind(0.5, RandomSource(0)).eval()(numbers) is numbers
    assert kind(0.0, RandomSource(0)).train()(numbers) is numbers


@given(share=st.floats(0.05, 0.95), seed=st.integers(0, 2**31))
def test_what_is_kept_makes_up_for_what_is_left_out(share, seed):
    numbers = torch.ones(40, 50, requires_grad=True)
    found = Dropout(share, RandomSource(seed)).train()(numbers)
    kept = found.detach() != 0
    torch.testing.assert_close(found[kept], torch.full_like(found[kept], 1 / (1 - share)))
    assert kept.double().mean().item() == pytest.approx(1 - share, abs=0.06)
    found.sum().backward()
    assert numbers.grad.equal(found)


def test_feature_maps_are_left_out_whole():
    found = Dropout2d(0.5, RandomSource(0)).train()(torch.ones(20, 30, 4, 5)).flatten(2)
    assert (found == found[..., :1]).all()
    assert 0.4 < (found[..., 0] == 0).double().mean() < 0.6


def test_layers_of_one_source_draw_in_turn():
    source, numbers = RandomSource(0), torch.ones(100)
    first, second = Dropout(0.5, source).train(), Dropout(0.5, source).train()
    assert not first(numbers).equal(second(numbers))
