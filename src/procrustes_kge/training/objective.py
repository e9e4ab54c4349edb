"""What training asks of scores: the loss of a batch of queries, and where it pulls queries and entities.

Scores are dot products, s = q · x, so every gradient is a matrix G = ∂loss/∂s and two products: G X for the queries,
Gᵀ q for the entities. A row (a query) has n answers of weight v each; its mass is m = n v. All functions return the
loss of each row and the gradient of the queries, and add the gradient of the entities to `pull`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

ALIGNED = 8


class Sigmoid(NamedTuple):
    """Scores sharpness · (margin − ‖q − x‖), each on its own: −v (log σ(answer) + Σ w log σ(−negative)) per answer.

    The weights w are softmax(temperature · score) over the negatives, all alike with temperature 0, and held fixed.
    """

    margin: float
    sharpness: float = 1.0
    adversarial_temperature: float = 0.0


class Answers(NamedTuple):
    """The answers of a batch: the row and the entity of each, what each answer of a row weighs, and how many it has."""

    rows: Int[Tensor, " answers"]
    entities: Int[Tensor, " answers"]
    weights: Float[Tensor, " rows"]
    counts: Float[Tensor, " rows"]


class Draw(NamedTuple):
    """The negatives of a batch: groups of queries share what is drawn."""

    entities: int  # out of which negatives are drawn
    height: int  # queries in a group
    drawn: Int[Tensor, "groups k"]
    columns: Int[Tensor, " answers"]  # where each answer stands in its group's draw; k or more: nowhere


def against_none(
    queries: Float[Tensor, "rows d"], table: Float[Tensor, "n d"], found: Answers, pull: Float[Tensor, "n d"]
) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows d"]]:
    """Bring queries and answers together: ½ v Σ ‖q − answer‖²."""
    rows, answers, weights, _ = found
    apart = queries[rows] - table[answers]
    weighted = weights[rows, None] * apart
    pull.index_add_(0, answers, -weighted)
    losses = torch.zeros_like(weights).index_add_(0, rows, (weighted * apart).sum(dim=1) / 2)
    return losses, torch.zeros_like(queries).index_add_(0, rows, weighted)


def padded_zeros(vectors: Float[Tensor, "n d"], dtype: torch.dtype | None = None) -> Float[Tensor, "n_padded d_padded"]:
    """Return zeros, as many as vectors or a few more: of sizes divisible by eight, which a GPU multiplies fastest.

    With 40,943 rows of 500 numbers instead, it falls back to products that take three to five times as long.
    """
    return vectors.new_zeros([-(-size // ALIGNED) * ALIGNED for size in vectors.shape], dtype=dtype)


def rounded(
    vectors: Float[Tensor, "n d"], into: Float[Tensor, "n_padded d_padded"] | None = None
) -> Float[Tensor, "n_padded d_padded"]:
    """Return vectors in bfloat16, padded with zeros."""
    if into is None:
        into = padded_zeros(vectors, torch.bfloat16)
    into[: vectors.shape[0], : vectors.shape[1]] = vectors
    return into


def against_all(
    queries: Float[Tensor, "rows d"],
    table: Float[Tensor, "n_padded d_padded"],
    found: Answers,
    pull: Float[Tensor, "n d"],
    label_smoothing: float = 0.0,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows d"]]:
    """Softmax over all entities: −v Σ log p(answer).

    G = m (p − target), target 1/n on each answer; `label_smoothing` moves that share of it evenly to all entities (and
    is left out of the losses). Answers of a row of mass 0 change nothing. Products are made in the table's precision,
    the softmax in float32. The table has the entities in its first rows, and may be padded with zeros.
    """
    (rows, answers, weights, counts), (entities, dim) = found, pull.shape
    mass = weights * counts
    extra = (0, table.shape[1] - dim)
    surprise = pad(queries, extra).to(table.dtype) @ table.T
    surprise[:, entities:] = -torch.inf
    if table.dtype == queries.dtype:
        surprise -= surprise.logsumexp(dim=1, keepdim=True)
        logs = surprise[rows, answers]
        likely = surprise.exp_()[rows, answers]
    else:
        # Computed in float32 inside the kernel and rounded once: no float32 copy of the scores has to exist.
        surprise = surprise.softmax(dim=1)
        likely = surprise[rows, answers].to(queries.dtype)
        logs = likely.clamp_min(torch.finfo(likely.dtype).tiny).log()
    losses = torch.zeros_like(weights).index_add_(0, rows, -weights[rows] * logs)
    surprise[rows, answers] = (likely - (1 - label_smoothing) / counts[rows].clamp_min(1)).to(table.dtype)
    weighted = mass[:, None] * queries
    gradient = mass[:, None] * (surprise @ table)[:, :dim]
    pull += (surprise.T @ pad(weighted, extra).to(table.dtype))[:entities, :dim]
    if label_smoothing:
        gradient -= label_smoothing / entities * mass[:, None] * table[:, :dim].sum(dim=0, dtype=queries.dtype)
        pull -= label_smoothing / entities * weighted.sum(dim=0)
    return losses, gradient


def against_some(
    queries: Float[Tensor, "groups height d"],
    table: Float[Tensor, "n d"],
    found: Answers,
    pull: Float[Tensor, "n d"],
    draw: Draw,
    sigmoid: Sigmoid | None = None,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, "groups height d"]]:
    """Contrast each answer with the entities drawn for its group; an answer of the same row is no negative.

    Without `sigmoid` it is the softmax loss of `against_all` over `draw.entities` of them, its denominator estimated: a
    negative that was drawn stands for those that were not. With every entity drawn the estimate is exact.
    """
    (rows, answers, weights, counts), (entities, _, drawn, columns) = found, draw
    (groups, height, dim), count = queries.shape, drawn.shape[1]
    own, theirs, candidates = queries.flatten(0, 1)[rows], table[answers], table[drawn]
    # A spare column takes the answers that were not drawn, so that nothing has to be counted on the host.
    taken = torch.zeros(groups * height, count + 1, dtype=torch.bool, device=drawn.device)
    # Filled by place: `taken[rows, columns] = True` would copy a number from the host, and wait for the GPU.
    taken.view(-1).index_fill_(0, rows * (count + 1) + columns.clamp(max=count), True)
    taken = taken[:, :count]
    reached, scores = (own * theirs).sum(dim=1), (queries @ candidates.mT).view(-1, count)
    if sigmoid is None:
        # Counted from the answers: summing the flags would first make numbers of them all.
        own_drawn = torch.zeros_like(weights).index_add_(0, rows, (columns < count).to(weights.dtype))
        stand_for = (entities - counts).clamp_min(1) / (count - own_drawn).clamp_min(1)
        losses, of_answer, of_drawn = _softmax(reached, scores, taken, found, stand_for)
    else:
        lengths, drawn_lengths = queries.square().sum(dim=-1), candidates.square().sum(dim=-1)
        far = (lengths[:, :, None] + drawn_lengths[:, None]).view(-1, count) - 2 * scores
        near = (own - theirs).square().sum(dim=1)
        losses, of_answer, of_drawn = _sigmoid(near, far, taken, found, sigmoid)
    of_drawn = of_drawn.view(groups, height, count)
    gradient, of_entity = of_drawn @ candidates, of_drawn.mT @ queries
    if sigmoid is not None:  # a distance holds −½‖q‖² and −½‖x‖² beside q·x: ∂/∂q = x − q, ∂/∂x = q − x
        gradient -= of_drawn.sum(dim=2, keepdim=True) * queries
        of_entity -= of_drawn.sum(dim=1)[..., None] * candidates
        own, theirs = own - theirs, theirs - own
    gradient.view(-1, dim).index_add_(0, rows, of_answer[:, None] * theirs)
    pull.index_add_(0, drawn.flatten(), of_entity.flatten(0, 1))
    pull.index_add_(0, answers, of_answer[:, None] * own)
    return losses, gradient


def _softmax(
    reached: Float[Tensor, " answers"],
    scores: Float[Tensor, "rows k"],
    taken: Bool[Tensor, "rows k"],
    found: Answers,
    stand_for: Float[Tensor, " rows"],
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " answers"], Float[Tensor, "rows k"]]:
    """Return the losses, ∂/∂(answers' scores) and ∂/∂(drawn scores), each negative counted `stand_for` times.

    The scores are overwritten.
    """
    rows, _, weights, counts = found
    lifted = scores.add_(stand_for.log()[:, None]).masked_fill_(taken, -torch.inf)  # in place: no new pages
    # The largest score is taken off before exponentials are: they cannot overflow.
    top = lifted.amax(dim=1).scatter_reduce_(0, rows, reached, "amax").clamp_min_(torch.finfo(scores.dtype).min)
    lifted = lifted.sub_(top[:, None]).exp_()
    raised = (reached - top[rows]).exp()
    total = lifted.sum(dim=1).index_add_(0, rows, raised).clamp_min_(torch.finfo(scores.dtype).tiny)
    losses = torch.zeros_like(weights).index_add_(0, rows, weights[rows] * ((total.log() + top)[rows] - reached))
    share = weights * counts / total
    return losses, share[rows] * raised - weights[rows], lifted.mul_(share[:, None])


def _sigmoid(
    near: Float[Tensor, " answers"],
    far: Float[Tensor, "rows k"],
    taken: Bool[Tensor, "rows k"],
    found: Answers,
    sigmoid: Sigmoid,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " answers"], Float[Tensor, "rows k"]]:
    """Return the losses, ∂/∂(q · answer) and ∂/∂(q · drawn) of the log-sigmoid loss, given squared distances."""
    rows, _, weights, counts = found
    # ∂‖q − x‖/∂(q·x) = −1/‖q − x‖. A distance of 0 has no direction, so it is kept off 0.
    near, far = near.clamp_min(1e-4).sqrt(), far.clamp_min(1e-4).sqrt()
    answer, negative = (sigmoid.sharpness * (sigmoid.margin - distance) for distance in (near, far))
    share = (sigmoid.adversarial_temperature * negative).masked_fill_(taken, -torch.inf).softmax(dim=1).nan_to_num_()
    share *= (weights * counts)[:, None]
    losses = -(share * logsigmoid(-negative)).sum(dim=1)
    losses.index_add_(0, rows, -weights[rows] * logsigmoid(answer))
    of_answer = -sigmoid.sharpness * weights[rows] * torch.sigmoid(-answer) / near
    return losses, of_answer, sigmoid.sharpness * share * torch.sigmoid(negative) / far
