"""What `contrast` does, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from procrustes_kge.errors import InputError
from procrustes_kge.training.gradients import Objective
from procrustes_kge.training.objective import Sigmoid
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.validation import check_choices, check_range, check_segments, check_whole


@dataclass(frozen=True, kw_only=True)
class ContrastSettings(Schedule):
    """What `contrast` does, and how long."""

    smaller: ClassVar[str] = "a smaller --dim, more --groups"
    epochs: Annotated[int, "most epochs to train; validation may choose fewer"] = 30
    learning_rate: Annotated[float, "size of a step; of the largest, where it falls to nothing in the end"] = 0.2
    # The learning rate falls over all epochs, and the last are the best.
    patience: Annotated[int, "validations without a better MRR before stopping; 0: train all epochs"] = 0
    validate_every: Annotated[int, "epochs between validations; 0: never validate"] = (
        10  # for the learning curve alone, unless there is patience
    )
    dim: Annotated[int, "numbers in an entity's vector"] = 2000
    segment: Annotated[int, "numbers in a segment, each rotated by a matrix of its own"] = 20
    groups: Annotated[int, "equal parts of a vector that are trained one after another; scores add up"] = 1
    batch: Annotated[int | Literal["full"], "queries in a step; full: as many as there are, or fit into memory"] = 2048
    chunk: Annotated[int, "queries compared at once, to bound memory; 0: as many as a step has and fit"] = 0
    negatives: Annotated[
        int | Literal["none", "all"], "entities that an answer is contrasted with: a number, none, all"
    ] = "all"  # the best use of a GPU; a CPU affords a number
    loss: Annotated[
        Literal["softmax", "sigmoid", "squared"],
        "softmax: which entity is the answer; sigmoid: is each one; squared: answers alone, no negatives",
    ] = "softmax"
    margin: Annotated[float, "sigmoid: where answers end, as a share of the distance of two random entities"] = 0.8
    sharpness: Annotated[float, "sigmoid: how fast it passes from answer to negative"] = 7.0
    adversarial_temperature: Annotated[
        float, "sigmoid loss: how much the nearest negatives count more (self-adversarial); 0: all alike"
    ] = 2.0
    lengths: Annotated[Literal["free", "unit"], "free: entities as long as they get; unit: centred, of length one"] = (
        "free"  # how well known an entity is shows in its length
    )
    relations: Annotated[
        Literal["step", "positives"], "step: rotations by procrustes_step; positives: by Eq. 3, answers alone"
    ] = "step"
    optimiser: Annotated[Literal["adagrad", "adam"], "how vectors move"] = "adagrad"
    rotation_learning_rate: Annotated[float, "size of a rotation's step"] = 1.0
    scale: Annotated[bool, "let each relation scale the coordinates that it has rotated"] = True
    translate: Annotated[bool, "let each relation translate as well as rotate: h Q + b"] = True
    regularisation: Annotated[float, "weight of what keeps vectors short"] = 0.05  # DURA, of entities and queries
    dropout: Annotated[float, "share of a query's numbers left out at random"] = 0.2
    label_smoothing: Annotated[float, "share of the certainty of answers that is given to all entities alike"] = 0.0
    crowd: Annotated[float, "a query with n answers counts n to this power"] = 1.0
    warm_start: Annotated[int, "epochs of `fit` to start from, full batch and without negatives"] = 0
    workers: Annotated[int, "threads on the CPU; 0: one per core, or one alone where steps are small"] = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        super().__post_init__()
        check_choices(self)
        check_whole(self, ("dim", "segment", "groups"), least=1)
        check_whole(self, ("warm_start", "chunk", "workers"), least=0)
        check_segments(self.dim, self.segment, self.groups)
        for name in ("rotation_learning_rate", "sharpness"):
            check_range(self, name, 1000, above=True)
        for name in ("regularisation", "adversarial_temperature", "margin"):
            check_range(self, name, 1000)
        for name in ("dropout", "label_smoothing"):
            check_range(self, name, 0.99)
        check_range(self, "crowd", 2)
        if (self.negatives == "none") != (self.loss == "squared"):
            raise InputError(
                f"{self.loss} loss with {self.negatives} negatives; the squared loss is the one that has none"
            )
        if self.negatives == "all" and self.loss == "sigmoid":
            raise InputError("sigmoid loss with all negatives; give --negatives a number such as 128")
        if self.loss == "sigmoid" and self.lengths == "free":
            raise InputError("sigmoid loss with free lengths: distances that products do not rank; try --lengths unit")
        if self.label_smoothing and self.negatives != "all":
            raise InputError(f"label smoothing with {self.negatives} negatives; it is for --negatives all")
        if self.negatives == "none" and self.lengths == "free":
            raise InputError("free lengths without negatives all shrink to nothing; try --lengths unit")

    @property
    def segments(self) -> int:
        """How many segments a vector has."""
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
            dropout=self.dropout,
            crowd=self.crowd,
            positives=self.relations == "positives",
        )
