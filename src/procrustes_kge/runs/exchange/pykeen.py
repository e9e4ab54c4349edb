"""A model as one of PyKEEN, in memory: its scores are the same, and PyKEEN ranks, predicts and trains on with it.

Inverse relations are relations of their own, as PyKEEN has them: 2r asks for tails of r, 2r + 1 for heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from pykeen.models import ERModel, Model
from pykeen.nn import Interaction
from pykeen.triples import KGInfo
from torch import Tensor, nn

from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.predictor import Answering
from procrustes_kge.models.procrustes import Procrustes


class ProcrustesInteraction(Interaction[Tensor, Sequence[Tensor], Tensor]):
    """score(h, r, t) = (c ∘ (h Q) + b) · t, in segments."""

    entity_shape = ("sw",)
    relation_shape = ("swv", "sv", "sv")

    def forward(self, h: Tensor, r: Sequence[Tensor], t: Tensor) -> Tensor:
        """Return the scores of triples, whose leading axes are broadcast."""
        rotations, scales, translations = r
        wanted = torch.einsum("...sw,...swv->...sv", h, rotations) * scales + translations
        return torch.einsum("...sv,...sv->...", wanted, t)


class PredictorModel(Model):
    """Any other model of ours behind the questions that PyKEEN asks; it is not trained on."""

    hpo_default: ClassVar[dict[str, Any]] = {}

    def __init__(self, predictor: Answering) -> None:
        sizes = KGInfo(len(predictor.entities), len(predictor.relations), create_inverse_triples=True)
        super().__init__(triples_factory=sizes, random_seed=0)
        self.predictor = predictor
        self.module = predictor.module if isinstance(predictor, TrainedBaseline) else nn.Module()
        self.nothing = nn.Parameter(torch.zeros(1), requires_grad=False)  # PyKEEN asks a parameter for its device

    def _directions(self, relations: Tensor) -> Tensor:
        """Return r, or r + R for what PyKEEN calls 2r + 1."""
        return relations // 2 + relations % 2 * len(self.predictor.relations)

    def score_t(self, hr_batch: Tensor, *, tails: Tensor | None = None, **_: Any) -> Tensor:
        """Return the scores of tails."""
        encoded = self.predictor.encode()
        queries = self.predictor.query(encoded, hr_batch[:, 0], self._directions(hr_batch[:, 1]))
        if tails is not None and tails.ndim == 1:
            tails = tails.expand(len(hr_batch), -1)
        return self.predictor.scores(encoded, queries, tails)

    def score_h(self, rt_batch: Tensor, *, heads: Tensor | None = None, **_: Any) -> Tensor:
        """Return the scores of heads: the tails of the inverse relation."""
        return self.score_t(torch.stack([rt_batch[:, 1], rt_batch[:, 0] ^ 1], dim=1), tails=heads)

    def score_hrt(self, hrt_batch: Tensor, **_: Any) -> Tensor:
        """Return the scores of triples, asked for their tails."""
        return self.score_t(hrt_batch[:, :2], tails=hrt_batch[:, 2:])

    def score_r(self, ht_batch: Tensor, *, relations: Tensor | None = None, **_: Any) -> Tensor:
        """Return the scores of relations."""
        asked = torch.arange(self.num_relations) if relations is None else relations
        asked = asked.expand(len(ht_batch), -1)
        flat = torch.stack([each.flatten() for each in (ht_batch[:, :1].expand_as(asked), asked)], dim=1)
        tails = ht_batch[:, 1:].expand_as(asked).reshape(-1, 1)
        return self.score_t(flat, tails=tails).view(asked.shape)

    def collect_regularization_term(self) -> Tensor:
        """Return nothing: it is not trained on."""
        return torch.zeros(())

    def _reset_parameters_(self) -> None: ...

    def _get_entity_len(self, *, mode: Any) -> int:
        return self.num_entities


def pykeen_model(model: Answering) -> Any:
    """Return a model of PyKEEN's with the same scores."""
    made = _embedding(model) if isinstance(model, Procrustes) else PredictorModel(model)
    return made.eval()


def _embedding(model: Procrustes) -> Any:
    """Return an ERModel: a table of entities, and for each direction the tables of Q, c and b."""
    (entities, segments, width), relations = model.vectors.shape, len(model.relations)
    rotations = model.rotations if model.inverses else torch.cat([model.rotations, model.rotations.mT])
    plain = model.vectors.new_ones(2 * relations, segments, width)
    tables = [
        rotations,
        plain if model.scales is None else model.scales,
        torch.zeros_like(plain) if model.translations is None else model.translations,
    ]
    order = torch.arange(2 * relations).view(2, relations).T.flatten()  # tails and heads of a relation in turn
    made = ERModel(
        triples_factory=KGInfo(entities, relations, create_inverse_triples=True),
        interaction=ProcrustesInteraction(),
        entity_representations_kwargs={"shape": (segments, width)},
        relation_representations=[None] * len(tables),
        relation_representations_kwargs=[{"shape": tuple(table.shape[1:])} for table in tables],
        random_seed=0,
    )
    representations: list[Any] = [*made.entity_representations, *made.relation_representations]
    with torch.no_grad():
        for each, table in zip(representations, [model.vectors, *(table[order] for table in tables)], strict=True):
            each._embeddings.weight.copy_(table.flatten(1))
    return made
