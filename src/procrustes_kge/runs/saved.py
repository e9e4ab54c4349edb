"""A run read from its folder, with graph and report, so it can say more than its model alone."""

from dataclasses import dataclass
from pathlib import Path

from procrustes_kge.errors import printable
from procrustes_kge.models.described import as_table
from procrustes_kge.models.predictor import Answer
from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.experiment import Run


@dataclass(frozen=True, repr=False)
class SavedRun(Run):
    """A run that was read from `folder`: model, graph, settings and report."""

    folder: Path

    def tails(self, head: str, relation: str, k: int = 10) -> list[Answer]:
        """Return the k best answers to (head, relation, ?); the head itself only if training has such triples."""
        return self.model.tails(head, relation, k, self.graph)

    def heads(self, relation: str, tail: str, k: int = 10) -> list[Answer]:
        """Return the k best answers to (?, relation, tail); the tail itself only if training has such triples."""
        return self.model.heads(relation, tail, k, self.graph)

    @property
    def results(self) -> dict[str, str]:
        """The recipe and the MRR (on test, else on another split), as far as the report has them."""
        found = {"recipe": self.report.get("recipe")}
        metrics = self.report.get("metrics") or {}
        split = next((split for split in ("test", "valid", "train") if "mrr" in metrics.get(split, ())), None)
        if split:
            found[f"{split} MRR"] = figure(metrics[split]["mrr"])
        return {name: printable(str(each)) for name, each in found.items() if each}

    def __repr__(self) -> str:
        return " · ".join(
            [f"{self.folder}   {self.model!r}", *(f"{name} {each}" for name, each in self.results.items())]
        )

    def _repr_html_(self) -> str:
        return as_table(str(self.folder), {"model": self.model.kind, **self.model.counts, **self.results})
