"""Settings of `train`: how a baseline is trained; what the model is, its own options say."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES, baseline
from procrustes_kge.models.baselines.embedded import ModelOptions
from procrustes_kge.training.schedule import Schedule, spoken_sizes
from procrustes_kge.validation import check_choices, check_range
from procrustes_kge.words import counted, either


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Schedule):
    """Settings of `train`, which trains a baseline."""

    smaller: ClassVar[str] = "a smaller --dim or --batch, fewer --negatives or --shared-negatives"
    # With half as many, noise can stop a training too soon.
    validation_triples: Annotated[int, "rank at most this many validation triples, always the same ones"] = 2000
    model: Annotated[str, f"train a baseline instead: {either(BASELINES)}"] = "complex"
    options: ModelOptions = field(default_factory=BASELINES["complex"].Options)  # the model's own settings
    batch: Annotated[int | Literal["full"], "queries per step; full: all of them"] = 1024
    negatives: Annotated[
        int | Literal["all", "kvsall"],
        "negatives per answer: a number, or all entities (1vsAll); kvsall: all answers of a query at once (KvsAll)",
    ] = "all"
    shared_negatives: Annotated[bool, "all queries of a step share their negatives, which is many times faster"] = False
    loss: Annotated[
        Literal["softmax", "sigmoid", "margin"],
        "softmax: cross-entropy over the candidates; sigmoid: binary cross-entropy; margin: margin ranking loss",
    ] = "softmax"
    loss_margin: Annotated[float, "margin loss: by how much an answer should score above a negative"] = 6.0
    adversarial_temperature: Annotated[
        float, "sigmoid loss: temperature of self-adversarial negatives; 0: all weigh the same"
    ] = 0.0
    negative_weight: Annotated[float, "sigmoid loss: weight of the negatives together; the answer has weight 1"] = 1.0
    label_smoothing: Annotated[float, "label smoothing: probability spread over all entities"] = 0.0
    subsampling: Annotated[bool, "weigh a triple by the inverse square root of how many answers its queries have"] = (
        False
    )
    regulariser: Annotated[
        Literal["none", "n2", "n3", "dura"], "penalty on the vectors of a triple; see --regularisation"
    ] = "none"
    regularisation: Annotated[float, "weight of the regulariser"] = 0.0
    optimiser: Annotated[Literal["adagrad", "adam"], "optimiser of the vectors"] = "adagrad"
    learning_rate_decay: Annotated[float, "multiply the learning rate by this after every epoch"] = 1.0
    weight_average: Annotated[float, "keep a moving average (EMA) of the weights with this decay; 0: none"] = 0.0
    tf32: Annotated[bool, "a GPU may train in TF32"] = True

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        super().__post_init__()
        wanted = baseline(self.model).Options
        if type(self.options) is not wanted:
            given = type(self.options).__qualname__
            raise InputError(f"options are {given} for the model {self.model}, expected {wanted.__qualname__}")
        check_choices(self)
        check_range(self, "learning_rate_decay", 1000, above=True)
        check_range(self, "negative_weight", 1e6, above=True)
        for name in ("loss_margin", "adversarial_temperature", "regularisation"):
            check_range(self, name, 1000)
        for name in ("label_smoothing", "weight_average"):
            check_range(self, name, 0.99)
        # Settings that exclude each other, or would change nothing.
        if self.negatives == "all" and self.loss != "softmax":
            instead = "--loss softmax, --negatives kvsall or --negatives 256"
            raise InputError(f"{self.loss} loss with negatives all; try {instead}")
        if self.negatives == "kvsall" and self.loss == "margin":
            raise InputError("margin loss with negatives kvsall; give a number, such as --negatives 256")
        if self.label_smoothing and isinstance(self.negatives, int):
            raise InputError(f"label smoothing with negatives {self.negatives}; it is for --negatives all or kvsall")
        if self.negatives == "kvsall" and baseline(self.model).sees_answers:
            raise InputError(
                f"{self.model} with negatives kvsall would see the answers among its neighbours; try --negatives all"
            )
        if self.subsampling and self.negatives == "kvsall":
            raise InputError(
                "subsampling weighs triples, but with negatives kvsall each query counts once; try --no-subsampling"
            )
        for name, plain in (("adversarial_temperature", 0), ("negative_weight", 1)):
            if getattr(self, name) != plain and not (isinstance(self.negatives, int) and self.loss == "sigmoid"):
                flag, words = name.replace("_", "-"), name.replace("_", " ")
                instead = f"--{flag} {plain}, or both --loss sigmoid and --negatives 256"
                raise InputError(f"{words} is for the sigmoid loss with drawn negatives; try {instead}")

    @property
    def dim(self) -> int:
        """The length of an entity's vector."""
        return self.options.dim

    def __str__(self) -> str:
        most = "up to " if self.patience else ""
        return (
            f"{self.dim:,} numbers, {most}{counted(self.epochs, 'epoch')}, {spoken_sizes(self.batch, self.negatives)}"
        )


OF_TRAINING = frozenset(field.name for field in fields(TrainSettings)) - {"model", "options"}


def option_names(model: str) -> tuple[str, ...]:
    """Return the names of a baseline's own options."""
    return tuple(field.name for field in fields(baseline(model).Options))


def baseline_settings(model: str, **values: Any) -> TrainSettings:
    """Return settings of a baseline; a value is an option of the model or a setting of training, by its name."""
    own = option_names(model)
    options = baseline(model).Options(**{name: value for name, value in values.items() if name in own})
    training = {name: value for name, value in values.items() if name not in own}
    return TrainSettings(model=model, options=options, **training)
