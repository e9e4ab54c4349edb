"""Settings of `contrast`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.training.gradients import Objective
from procrustes_kge.training.objective import Sigmoid
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.validation import check_choices, check_range, check_segments, check_whole
from procrustes_kge.words import counted

MOST_OF_RELATIONS = 2**28  # multiplications to predict the relation of one pair: seconds for a thousand of them


@dataclass(frozen=True, kw_only=True)
class ContrastSettings(Schedule):
    """Settings of `contrast`, which trains with negatives or mini-batches. The recipe `accurate` has its own values."""

    smaller: ClassVar[str] = "a smaller --dim or more --groups"
    epochs: Annotated[int, "number of epochs; validation may stop earlier"] = 30
    learning_rate: Annotated[float, "learning rate; in accurate and paper+… it falls to zero over the epochs"] = 0.2
    # The learning rate falls over all epochs, and the last are the best.
    patience: Annotated[int, "stop after this many validations without a better MRR; 0: train all epochs"] = 0
    # For the learning curve alone, unless there is patience.
    validate_every: Annotated[int, "validate every so many epochs; 0: never"] = 10
    dim: Annotated[int, "dimension of the entity vectors"] = 2000
    segment: Annotated[int, "dimension of a segment, the part that one orthogonal matrix rotates"] = 20
    groups: Annotated[int, "train the vectors in this many equal parts, one after another; their scores add up"] = 1
    batch: Annotated[int | Literal["full"], "queries per step; full: all of them"] = 2048
    chunk: Annotated[int, "queries scored at once, to limit memory; 0: chosen automatically"] = 0
    negatives: Annotated[
        int | Literal["none", "all"],
        "negatives per answer: a number, or all entities (1vsAll); none: with the squared loss",
    ] = "all"  # the best use of a GPU; a CPU affords a number
    loss: Annotated[
        Literal["softmax", "sigmoid", "squared"],
        "softmax: cross-entropy over the candidates; sigmoid: binary cross-entropy; "
        "squared: squared distances (no negatives)",
    ] = "softmax"
    margin: Annotated[
        float, "distance at which answers end; in our own recipes relative to that of two random entities"
    ] = 0.8
    sharpness: Annotated[float, "sigmoid loss: steepness around the margin"] = 7.0
    adversarial_temperature: Annotated[
        float, "sigmoid loss: temperature of self-adversarial negatives; 0: all weigh the same"
    ] = 2.0
    lengths: Annotated[Literal["free", "unit"], "free: entity vectors of any length; unit: centred, of length one"] = (
        "free"  # how well known an entity is shows in its length
    )
    relations: Annotated[
        Literal["step", "positives"],
        "step: rotations take Procrustes steps; positives: solved from the positive triples alone (Eq. 3)",
    ] = "step"
    optimiser: Annotated[Literal["adagrad", "adam"], "optimiser of the vectors"] = "adagrad"
    rotation_learning_rate: Annotated[float, "step size of the rotations"] = 1.0
    inverses: Annotated[bool, "learn separate parameters for inverse relations"] = False  # Qᵀ is the inverse of Q
    scale: Annotated[bool, "relations scale as well as rotate"] = True
    translate: Annotated[bool, "relations translate as well as rotate: h Q + b"] = True
    regularisation: Annotated[float, "weight of the regulariser"] = 0.05  # DURA, of entities and queries
    regulariser_power: Annotated[
        float, "power of the lengths of segments in the regulariser; 2: their squares; 3: their cubes, as N3 has them"
    ] = 2.0
    query_regularisation: Annotated[
        float, "regularisation of a query, relative to that of its entity and, twice, of the answer"
    ] = 1.0
    scale_regularisation: Annotated[float, "weight of the regulariser of relations' scales"] = 0.0
    init_std: Annotated[float, "standard deviation of the initial weights"] = 0.01  # of vectors, where lengths are free
    init_scale: Annotated[
        float, "relations' scales at the start; 1: all are 1; less: random, of this standard deviation"
    ] = 1.0  # that start near 0 and are regularised, relations choose which coordinates they use
    dropout: Annotated[float, "dropout of the query vector"] = 0.2
    label_smoothing: Annotated[float, "label smoothing: probability spread over all entities"] = 0.0
    crowd: Annotated[float, "weight of a query with n answers: n to this power"] = 1.0
    relation_weight: Annotated[
        float,
        "weight of predicting the relation too: the cross-entropy over all directions given both ends of a triple, "
        "beside 1 for that of the answer",
    ] = 0.0  # validation has to ask for it: on some graphs it learns how they were made
    warm_start: Annotated[int, "epochs of full-batch training without negatives to start from"] = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        super().__post_init__()
        check_choices(self)
        check_whole(self, ("dim", "segment", "groups"), least=1)
        check_whole(self, ("warm_start", "chunk"), least=0)
        check_segments(self.dim, self.segment, self.groups)
        for name in ("rotation_learning_rate", "sharpness"):
            check_range(self, name, 1000, above=True)
        check_range(self, "init_std", 1000, above=True)
        check_range(self, "init_scale", 1, above=True)
        weights = ("regularisation", "query_regularisation", "scale_regularisation", "relation_weight")
        for name in (*weights, "adversarial_temperature", "margin"):
            check_range(self, name, 1000)
        if not 1 <= self.regulariser_power <= 10:
            raise InputError(f"regulariser power {self.regulariser_power:g}, expected a number from 1 to 10")
        for name in ("dropout", "label_smoothing"):
            check_range(self, name, 0.99)
        check_range(self, "crowd", 2)
        if (self.negatives == "none") != (self.loss == "squared"):
            instead = "--negatives all" if self.negatives == "none" else "--negatives none"
            raise InputError(
                f"{self.loss} loss with negatives {self.negatives}: the squared loss alone uses none; try {instead}"
            )
        if self.negatives == "all" and self.loss == "sigmoid":
            raise InputError("sigmoid loss with negatives all; give a number, such as --negatives 128")
        if self.loss == "sigmoid" and self.lengths == "free":
            raise InputError(
                "sigmoid loss with free lengths: it compares distances, which need unit vectors; try --lengths unit"
            )
        if self.relation_weight and self.loss != "softmax":
            raise InputError(
                f"relation weight {self.relation_weight:g} with the {self.loss} loss: relations are predicted from "
                "products, by softmax; try --loss softmax"
            )
        if self.label_smoothing and self.negatives != "all":
            raise InputError(f"label smoothing with negatives {self.negatives}; it is for --negatives all")
        if self.negatives == "none" and self.lengths == "free":
            raise InputError("free lengths without negatives: all vectors would shrink to zero; try --lengths unit")

    @property
    def segments(self) -> int:
        """The number of segments in a vector."""
        return self.dim // self.segment

    def compared(self, entities: int) -> int:
        """Return how many of all entities a query is compared with."""
        return self.negatives if isinstance(self.negatives, int) else {"all": entities, "none": 0}[self.negatives]

    @property
    def objective(self) -> Objective:
        """What a step improves."""
        apart = (2 * self.segments) ** 0.5  # the distance of two random entities of unit segments
        sigmoid = Sigmoid(self.margin * apart, self.sharpness / apart, self.adversarial_temperature)
        return Objective(
            negatives=self.negatives if isinstance(self.negatives, int) else {"none": 0, "all": None}[self.negatives],
            sigmoid=sigmoid if self.loss == "sigmoid" else None,
            label_smoothing=self.label_smoothing,
            regularisation=self.regularisation,
            power=self.regulariser_power,
            query_regularisation=self.query_regularisation,
            scale_regularisation=self.scale_regularisation,
            dropout=self.dropout,
            crowd=self.crowd,
            positives=self.relations == "positives",
            inverses=self.inverses,
            relation_weight=self.relation_weight,
        )


def check_fit(graph: Graph, settings: ContrastSettings) -> None:
    """Refuse settings that ask more than the graph has, or more than can be computed."""
    directions = 2 * len(graph.relations)
    if settings.relation_weight and directions * settings.dim * settings.segment > MOST_OF_RELATIONS:
        raise InputError(
            f"relation weight {settings.relation_weight:g} with {counted(len(graph.relations), 'relation')} and "
            f"segments of {settings.segment}: each triple would take "
            f"{directions * settings.dim * settings.segment:,} multiplications; try --segment 2 or --relation-weight 0"
        )
    if isinstance(settings.negatives, int) and settings.negatives >= len(graph.entities):
        asked, instead = counted(settings.negatives, "negative"), "--negatives all"
        has = counted(len(graph.entities), "entity")
    elif isinstance(settings.batch, int) and settings.batch > 2 * len(graph.train):
        asked, instead = f"batch {settings.batch:,}", "--batch full"
        has = f"{counted(len(graph.train), 'training triple')}, which make two queries each"
    else:
        return
    raise InputError(f"{asked}, but the graph {graph.name} has {has}; try a smaller number or {instead}")
