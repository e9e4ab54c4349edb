"""What `train` does, and how long; what a model is, its own options say."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES, baseline
from procrustes_kge.models.baselines.embedded import ModelOptions
from procrustes_kge.training.schedule import Schedule, spoken_sizes
from procrustes_kge.validation import check_choices, check_range


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Schedule):
    """What `train` does with a baseline, and how long."""

    smaller: ClassVar[str] = "a smaller --dim or --batch, fewer --negatives, or --shared-negatives"
    validation_triples: Annotated[int, "most triples that a validation ranks, the same ones each time"] = (
        2000  # with half as many, noise can stop a training too soon
    )
    model: Annotated[str, f"which baseline: {', '.join(BASELINES)}"] = "complex"
    options: ModelOptions = field(default_factory=BASELINES["complex"].Options)  # what the model is
    batch: Annotated[int | Literal["full"], "queries in a step; full: as many as there are, or fit into memory"] = 1024
    negatives: Annotated[
        int | Literal["all", "kvsall"],
        "entities that an answer is compared with: a number, all, or all with all answers of a query at once (kvsall)",
    ] = "all"
    shared_negatives: Annotated[bool, "all queries of a step have the same negatives, many times as fast"] = False
    loss: Annotated[
        Literal["softmax", "sigmoid", "margin"],
        "softmax: which entity is the answer; sigmoid: is each one; margin: answers better than negatives by a margin",
    ] = "softmax"
    loss_margin: Annotated[float, "margin loss: by how much answers are to be better"] = 6.0
    adversarial_temperature: Annotated[
        float, "sigmoid loss: how much the nearest negatives count more (self-adversarial); 0: all alike"
    ] = 0.0
    negative_weight: Annotated[float, "sigmoid loss: weight of all negatives of an answer, whose own weight is 1"] = 1.0
    label_smoothing: Annotated[float, "share of the certainty of answers that is given to all entities alike"] = 0.0
    subsampling: Annotated[bool, "triples count less, the more answers their two queries have: by the root of it"] = (
        False
    )
    regulariser: Annotated[Literal["none", "n2", "n3", "dura"], "what keeps the numbers of a triple small"] = "none"
    regularisation: Annotated[float, "weight of what keeps vectors short"] = 0.0
    optimiser: Annotated[Literal["adagrad", "adam"], "how vectors move"] = "adagrad"
    learning_rate_decay: Annotated[float, "what the learning rate is multiplied by after every epoch"] = 1.0
    weight_average: Annotated[
        float, "learn a mean of the weights after each epoch; the share that older ones keep; 0: the last alone"
    ] = 0.0
    tf32: Annotated[bool, "a GPU may round what it multiplies to ten bits while it trains"] = True

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        super().__post_init__()
        wanted = baseline(self.model).Options
        if type(self.options) is not wanted:
            given = type(self.options).__qualname__
            raise InputError(f"{given} for the model {self.model}, expected {wanted.__qualname__}")
        check_choices(self)
        check_range(self, "learning_rate_decay", 1000, above=True)
        check_range(self, "negative_weight", 1e6, above=True)
        for name in ("loss_margin", "adversarial_temperature", "regularisation"):
            check_range(self, name, 1000)
        for name in ("label_smoothing", "weight_average"):
            check_range(self, name, 0.99)
        # Settings that exclude each other, or would change nothing.
        if self.negatives == "all" and self.loss != "softmax":
            instead = "--loss softmax, or --negatives kvsall or a number"
            raise InputError(f"{self.loss} loss with all negatives; try {instead}")
        if self.negatives == "kvsall" and self.loss == "margin":
            raise InputError("margin loss with kvsall; give --negatives a number such as 256")
        if self.label_smoothing and isinstance(self.negatives, int):
            raise InputError(f"label smoothing with {self.negatives} negatives; it is for --negatives all or kvsall")
        if self.negatives == "kvsall" and baseline(self.model).sees_answers:
            raise InputError(f"{self.model} would see all answers of a query at once; try --negatives all")
        if self.subsampling and self.negatives == "kvsall":
            raise InputError("subsampling is for triples, but with kvsall a query counts once; try --no-subsampling")
        for name, plain in (("adversarial_temperature", 0), ("negative_weight", 1)):
            if getattr(self, name) != plain and not (isinstance(self.negatives, int) and self.loss == "sigmoid"):
                flag, words = name.replace("_", "-"), name.replace("_", " ")
                instead = f"--{flag} {plain}, or --loss sigmoid and --negatives 256"
                raise InputError(f"{words} is for the sigmoid loss with drawn negatives; try {instead}")

    @property
    def dim(self) -> int:
        """How many numbers an entity's vector has."""
        return self.options.dim

    def __str__(self) -> str:
        most = "up to " if self.patience else ""
        return f"{self.dim:,} numbers, {most}{self.epochs:,} epochs, {spoken_sizes(self.batch, self.negatives)}"


OF_TRAINING = frozenset(field.name for field in fields(TrainSettings)) - {"model", "options"}


def option_names(model: str) -> tuple[str, ...]:
    """Return the names of a baseline's own options."""
    return tuple(field.name for field in fields(baseline(model).Options))


def baseline_settings(model: str, **values: Any) -> TrainSettings:
    """Return settings of a baseline; each value is an option of the model, or says how it trains, by its name."""
    own = option_names(model)
    options = baseline(model).Options(**{name: value for name, value in values.items() if name in own})
    training = {name: value for name, value in values.items() if name not in own}
    return TrainSettings(model=model, options=options, **training)
