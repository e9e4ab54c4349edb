"""Laws of the likelihood as a function of the rotations: its gradient, its curvature, and that steps never lower it."""

from dataclasses import replace

import torch
from hypothesis import given, strategies as st

from laws import is_orthogonal
from likelihoods import close, drawn_model, drawn_models, likelihood_of, losses_of
from procrustes_kge.linalg import procrustes_step
from procrustes_kge.training.restoring import Likelihood
from toys import random_graph

# The likelihood.


@given(drawn_models([0.1, 1.0, 2.0]))
def test_the_likelihood_is_that_of_the_models_own_scores(drawn):
    model, graph = drawn
    losses, _ = likelihood_of(model, graph).at(model.rotations)
    close(losses, losses_of(model, graph))


@given(drawn_models([0.1, 1.0, 10.0]))
def test_the_gradient_is_that_of_autograd(drawn):
    model, graph = drawn
    rotations = model.rotations.clone().requires_grad_()
    losses_of(model, graph, rotations).sum().backward()
    _, gradient = likelihood_of(model, graph).at(model.rotations)
    close(gradient, rotations.grad, 1e-9 * max(1.0, rotations.grad.abs().max().item()))


@given(drawn_models([0.5, 1.0]))
def test_the_gradient_is_that_of_finite_differences(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    _, gradient = likelihood.at(model.rotations)
    direction = torch.randn(model.rotations.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ahead, behind = (likelihood.at(model.rotations + step * direction)[0].sum() for step in (1e-5, -1e-5))
    close((ahead - behind) / 2e-5, (gradient * direction).sum(), 1e-5)


@given(drawn_models([1.0]))
def test_looking_at_other_rotations_leaves_nothing_behind(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    before, bound = likelihood.at(model.rotations), likelihood.curvature()
    likelihood.at(model.rotations.mT)
    after = likelihood.at(model.rotations)
    assert all(one.equal(other) for one, other in zip(before, after, strict=True))
    assert likelihood.curvature().equal(bound)


def test_the_likelihood_of_long_vectors_is_that_of_the_models_own_scores_too():
    model, graph = drawn_model(random_graph(8, 1, 42), 3, 3, 10.0, translate=False, scale=False, seed=0)
    losses, _ = likelihood_of(model, graph).at(model.rotations)
    close(losses, losses_of(model, graph))


# The law.


@given(drawn_models([0.1, 1.0, 3.0, 10.0]))
def test_a_procrustes_step_under_the_curvature_never_lowers_the_likelihood(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    losses, rotations = losses_of(model, graph), model.rotations
    for _ in range(3):
        _, gradient = likelihood.at(rotations)
        rotations = procrustes_step(rotations, gradient, likelihood.curvature())
        after = losses_of(model, graph, rotations)
        assert bool((after <= losses + 1e-10 * losses.clamp_min(1)).all())  # of every relation on its own
        assert is_orthogonal(rotations)
        losses = after


@given(drawn_models([0.1, 1.0, 2.0]))
def test_the_law_holds_for_the_losses_that_are_returned(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    losses, gradient = likelihood.at(model.rotations)
    after, _ = likelihood.at(procrustes_step(model.rotations, gradient, likelihood.curvature()))
    assert bool((after <= losses + 1e-10 * losses.clamp_min(1)).all())


@given(drawn_models([0.1, 1.0, 10.0]), st.sampled_from([0.01, 0.3, 1.0, 3.0]), st.integers(0, 2**31))
def test_the_loss_lies_below_its_tangent_and_the_curvature_anywhere(drawn, far, seed):
    """Also between orthogonal matrices: loss(Q) ≤ loss(Q₀) + ⟨∂loss, Q − Q₀⟩ + ½ Σ_s L_s ‖Q_s − Q₀_s‖²."""
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    losses = losses_of(model, graph)
    _, gradient = likelihood.at(model.rotations)
    generator = torch.Generator().manual_seed(seed)
    moved = far * torch.randn(model.rotations.shape, generator=generator, dtype=torch.float64)
    tangent = losses + (gradient * moved).sum(dim=(1, 2, 3))
    bound = tangent + (likelihood.curvature() * moved.square().sum(dim=(2, 3))).sum(dim=1) / 2
    after = losses_of(model, graph, model.rotations + moved)
    assert bool((after <= bound + 1e-10 * bound.abs().clamp_min(1)).all())
    assert bool((after >= tangent - 1e-10 * bound.abs().clamp_min(1)).all())  # convex


def test_a_tenth_of_the_curvature_is_no_bound():
    """The law is not had for nothing: of a hundred models, some would break it."""

    def rises(seed):
        model, graph = drawn_model(random_graph(5, 1, 40, seed), 1, 2, 1.0, translate=False, scale=False, seed=seed)
        likelihood = likelihood_of(model, graph)
        losses, gradient = likelihood.at(model.rotations)
        after, _ = likelihood.at(procrustes_step(model.rotations, gradient, 0.1 * likelihood.curvature()))
        return bool((after > losses + 1e-9).any())

    assert any(map(rises, range(100)))


@given(drawn_models([1.0]), st.floats(0.1, 10))
def test_the_curvature_grows_with_the_fourth_power_of_length_and_the_square_of_scales(drawn, factor):
    model, graph = drawn
    bound = likelihood_of(model, graph).curvature()
    longer = replace(model, vectors=factor * model.vectors)
    close(likelihood_of(longer, graph).curvature(), factor**4 * bound, 1e-8)
    ones = torch.ones(2 * len(graph.relations), *model.vectors.shape[1:], dtype=torch.float64)
    plain, stretched = (likelihood_of(replace(model, scales=each), graph).curvature() for each in (None, factor * ones))
    close(stretched, factor**2 * plain, 1e-8)


@given(drawn_models([1.0]))
def test_moving_all_entities_alike_changes_no_reach(drawn):
    """Scores against all entities move alike with a shift of the answers: only how far these spread counts."""
    model, graph = drawn
    alike = replace(model, vectors=model.vectors[:1].expand_as(model.vectors).contiguous())
    close(likelihood_of(alike, graph).curvature(), torch.zeros(model.rotations.shape[:2], dtype=torch.float64), 1e-18)


@given(drawn_models([0.1, 1.0, 10.0]))
def test_against_some_entities_too_a_step_under_the_curvature_never_raises_the_loss(drawn):
    model, graph = drawn
    many = max(1, len(graph.entities) // 2)
    likelihood = Likelihood(model.vectors, graph, model.translations, model.scales, many)
    losses, gradient = likelihood.at(model.rotations)
    again, _ = likelihood.at(model.rotations)
    assert losses.equal(again)  # the same entities each time
    tiny = torch.finfo(losses.dtype).tiny ** 0.5
    tried = procrustes_step(model.rotations, gradient, likelihood.curvature().clamp_min(tiny))
    new_losses, _ = likelihood.at(tried)
    assert (new_losses <= losses * (1 + 1e-9) + 1e-9).all()
