"""What `train` does, and how long."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.embedded import sees_answers
from procrustes_kge.validation import check_choices, check_range, check_whole


@dataclass(frozen=True)
class TrainSettings:
    """What `train` does, and how long. What a model has no use for is not looked at."""

    model: Annotated[str, f"which baseline: {', '.join(BASELINES)}"] = "complex"
    dim: Annotated[int, "numbers in an entity's vector"] = 200
    relation_dim: Annotated[int, "numbers in a relation's vector, where it may differ"] = 200
    epochs: Annotated[int, "most epochs to train; validation may choose fewer"] = 100
    batch: Annotated[
        int | Literal["full"], "questions in a step, or as many as their scores have room for; full: all of them"
    ] = 1024
    against: Annotated[
        int | Literal["all", "labels"],
        "all: each answer against all entities; labels: all answers of a question at once; or so many drawn negatives",
    ] = "all"
    shared: Annotated[bool, "all questions of a step have the same negatives, which is many times as fast"] = False
    loss: Annotated[
        Literal["softmax", "logistic", "margin"],
        "softmax: which entity is the answer; logistic: is each one; margin: answers better than negatives by a margin",
    ] = "softmax"
    margin: Annotated[float, "distance up to which an entity is an answer, or by which answers are to be better"] = 6.0
    focus: Annotated[float, "how much the nearest negatives count more (self-adversarial); 0: all alike"] = 0.0
    outweigh: Annotated[float, "what all negatives of an answer weigh together, itself being 1 (logistic loss)"] = 1.0
    smoothing: Annotated[float, "share of the certainty of labels that is given to all entities alike"] = 0.0
    even: Annotated[bool, "triples count less, the more answers their two questions have: by the root of it"] = False
    penalty: Annotated[Literal["none", "n2", "n3", "dura"], "what keeps the numbers of a triple small"] = "none"
    decay: Annotated[float, "weight of the penalty"] = 0.0
    step: Annotated[Literal["adagrad", "adam"], "how weights move"] = "adagrad"
    learning_rate: Annotated[float, "size of a step"] = 0.1
    rate_decay: Annotated[float, "what the learning rate is multiplied by after every epoch"] = 1.0
    average: Annotated[
        float, "learn a mean of the weights after each epoch; this is the share that older ones keep; 0: the last alone"
    ] = 0.0
    kernel: Annotated[int, "ConvE, InteractE: side of a filter"] = 3
    filters: Annotated[int, "ConvE, InteractE: how many"] = 32
    layers: Annotated[int, "R-GCN: how far a neighbour may be"] = 2
    blocks: Annotated[int, "R-GCN: equal parts of a vector that a relation turns each on its own"] = 100
    input_dim: Annotated[int, "SACN: numbers in an entity's vector before its neighbours are added"] = 100
    most: Annotated[int, "A2N: most neighbours that are looked at; a GPU makes room for as many"] = 200
    height: Annotated[int, "ConvE: rows of a head's half of the image"] = 10
    permutations: Annotated[int, "InteractE: images of a question"] = 1
    feature_dropout: Annotated[float, "share of the filters' answers left out"] = 0.0
    edge_dropout: Annotated[float, "R-GCN, A2N, SACN: share of the neighbours left out"] = 0.0
    graph_dropout: Annotated[float, "SACN: share of what neighbours say left out"] = 0.0
    inverses: Annotated[bool, "a relation has vectors of its own for each direction"] = True
    norm: Annotated[int, "TransE: 1 or 2"] = 1
    spread: Annotated[float, "spread of the first weights, where a model leaves it open"] = 1e-3
    group: Annotated[int, "OTE: numbers that are turned together"] = 4
    query_dropout: Annotated[float, "share of a query's numbers left out at random"] = 0.0
    input_dropout: Annotated[float, "share of what goes into the network left out, of TransE's entities"] = 0.0
    relation_dropout: Annotated[float, "TuckER: share of a relation's matrix left out"] = 0.0
    patience: Annotated[int, "validations without a better MRR before stopping; 0: train all epochs"] = 5
    validate_every: Annotated[int, "epochs between validations"] = 5
    seed: Annotated[int, "the same seed on the same machine gives the same result"] = 0
    tf32: Annotated[bool, "a GPU may round what it multiplies to ten bits while it trains"] = True
    device: Annotated[str, "cpu, cuda, cuda:1, or auto: the GPU where there is one"] = "auto"
    deterministic: Annotated[bool, "refuse GPU algorithms that may round differently from run to run"] = False

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        if self.model not in BASELINES:
            raise InputError(f"unknown model {self.model!r}, expected {' or '.join(BASELINES)}")
        check_choices(self)
        check_whole(self, ("dim", "relation_dim", "epochs", "group", "validate_every"), least=1)
        check_whole(self, ("kernel", "filters", "height", "permutations"), least=1)
        check_whole(self, ("layers", "blocks", "input_dim", "most"), least=1)
        check_whole(self, ("patience",), least=0)
        for name in ("learning_rate", "rate_decay", "spread"):
            check_range(self, name, 1000, above=True)
        check_range(self, "outweigh", 1e6, above=True)
        for name in ("margin", "focus", "decay"):
            check_range(self, name, 1000)
        dropouts = [field.name for field in fields(self) if field.name.endswith("_dropout")]
        for name in ("smoothing", "average", *dropouts):
            check_range(self, name, 0.99)
        if self.norm not in (1, 2):
            raise InputError(f"norm {self.norm}, expected 1 or 2")
        if self.against == "all" and self.loss != "softmax":
            instead = "--loss softmax, or --against labels or a number of negatives"
            raise InputError(f"{self.loss} loss against all entities; try {instead}")
        if self.against == "labels" and self.loss == "margin":
            raise InputError("margin loss with labels; give --against a number of negatives such as 256")
        if self.smoothing and isinstance(self.against, int):
            raise InputError(f"smoothing against {self.against} negatives; it is for --against all or labels")
        if self.against == "labels" and sees_answers(BASELINES[self.model]):
            raise InputError(f"{self.model} would see all answers of a question at once; try --against all")
        if self.even and self.against == "labels":
            raise InputError("even is for triples, but with --against labels a question counts once; try --no-even")
        for name, plain in (("focus", 0), ("outweigh", 1)):
            if getattr(self, name) != plain and not (isinstance(self.against, int) and self.loss == "logistic"):
                instead = f"--{name} {plain}, or --loss logistic and --against 256"
                raise InputError(f"{name} is for logistic loss with drawn negatives; try {instead}")

    @property
    def segments(self) -> int:
        """How many parts of a vector are trained on their own: it is one."""
        return 1

    def __str__(self) -> str:
        many = "all" if self.batch == "full" else f"{self.batch:,}"
        against = {"all": "all entities", "labels": "all entities, all answers at once"}.get(str(self.against))
        most = "up to " if self.patience else ""
        return (
            f"{self.dim:,} numbers, {most}{self.epochs:,} epochs, {many} questions a step against "
            f"{against or f'{self.against:,} negatives'}"
        )
