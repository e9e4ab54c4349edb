"""What training asks of a query, written plainly: one at a time, for autograd to differentiate."""

import math

import torch
from torch.nn.functional import logsigmoid


def squared(query, table, answers, weight):
    """Return ½ v Σ ‖q − answer‖²."""
    return weight / 2 * (query - table[answers]).square().sum()


def softmax(query, table, answers, weight, label_smoothing=0.0):
    """Return −m Σ target log p: the target is shared by the answers, and a little by all entities."""
    logs = (table @ query).log_softmax(dim=0)
    return -weight * ((1 - label_smoothing) * logs[answers].sum() + label_smoothing * len(answers) * logs.mean())


def sampled_softmax(query, table, answers, weight, drawn, entities):
    """Return −v Σ log p(answer), where each negative that was drawn stands for as many as were not."""
    negatives = [entity for entity in drawn if entity not in answers]
    stands_for = max(entities - len(answers), 1) / max(len(negatives), 1)
    reached, missed = table[answers] @ query, table[negatives] @ query
    denominator = torch.cat([reached, missed + math.log(stands_for)]).logsumexp(dim=0)
    return weight * (len(answers) * denominator - reached.sum())


def sigmoid(query, table, answers, weight, drawn, settings):
    """Return −v Σ (log σ(answer) + Σ w log σ(−negative)), the weights w held fixed."""
    negatives = [entity for entity in drawn if entity not in answers]
    reached, missed = (
        settings.sharpness * (settings.margin - torch.linalg.vector_norm(query - table[entities], dim=1))
        for entities in (answers, negatives)
    )
    shares = (settings.adversarial_temperature * missed).softmax(dim=0).detach()
    return -weight * (logsigmoid(reached).sum() + len(answers) * (shares * logsigmoid(-missed)).sum())
