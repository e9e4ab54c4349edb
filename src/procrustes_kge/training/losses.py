"""Losses: of each answer and its negatives, or of all answers of a query at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, logsigmoid, relu

from procrustes_kge.training.supervised_settings import TrainSettings


def sigmoid(
    answers: Float[Tensor, " b"], negatives: Float[Tensor, "b k"], settings: TrainSettings
) -> Float[Tensor, " b"]:
    """Return −(log σ(answer) + v Σ w log σ(−negative)) / (1 + v), the weights w held fixed.

    w = softmax(temperature · score) over the negatives (self-adversarial). With a `negative_weight` v = 1 negatives
    count as much as the answer, whatever their number; where v is their number and
    all w are equal, each of them does.
    """
    shares, weight = (settings.adversarial_temperature * negatives.detach()).softmax(dim=1), settings.negative_weight
    return -(logsigmoid(answers) + weight * (shares * logsigmoid(-negatives)).sum(dim=1)) / (1 + weight)


def softmax(
    answers: Float[Tensor, " b"], negatives: Float[Tensor, "b k"], settings: TrainSettings
) -> Float[Tensor, " b"]:
    """Return −log of the share of the answer among itself and its negatives."""
    scores = torch.cat([answers[:, None], negatives], dim=1)
    return cross_entropy(scores, torch.zeros_like(answers, dtype=torch.int64), reduction="none")


def margin(
    answers: Float[Tensor, " b"], negatives: Float[Tensor, "b k"], settings: TrainSettings
) -> Float[Tensor, " b"]:
    """Return by how much negatives come nearer than the margin allows."""
    return relu(settings.loss_margin - answers[:, None] + negatives).mean(dim=1)


Loss = Callable[[Tensor, Tensor, TrainSettings], Tensor]
LOSSES: dict[str, Loss] = {"softmax": softmax, "sigmoid": sigmoid, "margin": margin}


def kvsall(scores: Float[Tensor, "b n"], labels: Float[Tensor, "b n"], settings: TrainSettings) -> Float[Tensor, ""]:
    """Return the loss of queries with all their answers, labelled 1, per query.

    For the sigmoid loss a score of zero means odds of one in N, those of any entity: ranks do not change, but models
    without a bias, or with one that moves slowly, need not learn first that most entities are no answers.
    """
    if settings.loss == "softmax":
        shares = labels / labels.sum(dim=1, keepdim=True)
        return cross_entropy(scores, shares, label_smoothing=settings.label_smoothing)
    count = labels.shape[1]
    if settings.label_smoothing:
        labels = (1 - settings.label_smoothing) * labels + 1 / count
    return binary_cross_entropy_with_logits(scores - math.log(count), labels, reduction="sum") / len(labels)
