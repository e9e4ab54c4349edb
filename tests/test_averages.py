"""Laws of averaged weights: what they are, and that a model gets its own back."""

import pytest
import torch
from torch import nn

from procrustes_kge.averages import Average, copied


def network():
    """Return a small network that has weights, statistics, and a count that is no fraction."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def moved(module):
    """Train the network's weights and statistics a little, in place."""
    module(torch.randn(8, 3))
    with torch.no_grad():
        for weights in module.parameters():
            weights.add_(torch.randn_like(weights))


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_an_average_is_the_sum_of_all_epochs_weights_by_their_age(share):
    module, epochs = network(), []
    average = Average(module, share)
    for _ in range(5):
        moved(module)
        average.add()
        epochs.append(copied(module))
    shares = [share**4] + [(1 - share) * share**age for age in (3, 2, 1, 0)]
    assert sum(shares) == pytest.approx(1)
    for name, found in average.weights.items():
        if name.endswith("num_batches_tracked"):
            assert found == 5
        else:
            expected = sum(each * epoch[name] for each, epoch in zip(shares, epochs, strict=True))
            assert (found - expected).abs().max() < 1e-5


def test_a_model_shows_its_average_where_its_weights_are_and_gets_them_back():
    module = network()
    average = Average(module, 0.5)
    for _ in range(2):
        moved(module)
        average.add()
    places, before = [weights.data_ptr() for weights in module.parameters()], copied(module)
    with average.shown():
        assert all(each.equal(average.weights[name]) for name, each in module.state_dict().items())
        assert not module[0].weight.equal(before["0.weight"])
    assert all(each.equal(before[name]) for name, each in module.state_dict().items())
    assert places == [weights.data_ptr() for weights in module.parameters()]


def test_without_a_share_there_is_no_average_and_no_memory_for_it():
    module = network()
    average = Average(module, 0.0)
    average.add()
    before = copied(module)
    with average.shown():
        assert all(each.equal(before[name]) for name, each in module.state_dict().items())
    assert average.weights is None
