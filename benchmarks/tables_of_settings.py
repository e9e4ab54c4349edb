"""Tables of what settings are worth: searches, ideas, optimisers, tuning. `tables.py` prints them."""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

import result_files
from procrustes_kge.bench.paper import DATASETS
from procrustes_kge.models.ranking import figure

TUNED = {"was": "by a rule of thumb", "default": "as it is", "tuned": "tuned", "reference": "best of the record"}


def search_table(study: str) -> str:
    """Return, in Markdown, the validation MRR at the start of a search and after each change, on both benchmarks."""
    starts: list[dict[str, Any]] = []
    found: dict[str, dict[str, str]] = {}
    datasets = ("wn18rr", "fb15k-237")
    for dataset in datasets:
        file = result_files.RESULTS / f"search-{study.replace('+', '-')}-{dataset}.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        starts.append(result_files.renamed(content["settings"]))
        for trial in content["trials"]:
            cells = found.setdefault(json.dumps(result_files.renamed(trial["change"])), {})
            cells[dataset] = f"{figure(trial['valid_mrr'])} in {trial['seconds']:.1f} s"
    lines = ["| | WN18RR | FB15k-237 |", "|---|---|---|"]
    for key, cells in found.items():
        change = json.loads(key)
        shown = []
        for dataset, start in zip(datasets, starts, strict=True):
            same = all(start[name] == value for name, value in change.items())
            shown.append(cells.get(dataset, "as at the start" if same else ""))
        first = flags_of(change) or f"at the start, `--dim {starts[0]['dim']}`"
        lines.append(f"| {first} | {' | '.join(shown)} |")
    return "\n".join(lines)


def ideas_table() -> str:
    """Return, in Markdown, what each change of one start gives on each graph: differences in validation MRR."""
    found: dict[str, dict[str, list[float]]] = {}
    for file in sorted(result_files.RESULTS.glob("ideas-*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        for row in content["results"]:
            found.setdefault(row["idea"], {}).setdefault(content["dataset"], []).append(row.get("valid_mrr", 0.0))
    start = {graph: mean(seen) for graph, seen in found.pop("the start").items()}
    lines = [f"| | {' | '.join(start)} |", "|---" * (len(start) + 1) + "|"]
    lines.append(f"| at the start | {' | '.join(map(figure, start.values()))} |")
    for idea, seen in found.items():
        cells = [f"{mean(seen[graph]) - mrr:+.3f}" if graph in seen else "" for graph, mrr in start.items()]
        lines.append(f"| {idea} | {' | '.join(cells)} |")
    return "\n".join(lines)


def steps_table() -> str:
    """Return, in Markdown, the validation MRR of each optimiser, with and without a translation, and after how long."""
    rows = json.loads((result_files.RESULTS / "steps.json").read_text(encoding="utf-8"))["rows"]
    heading: list[str] = []
    found: dict[str, list[str]] = {}
    for row in map(result_files.renamed, rows):
        where = f"{DATASETS[row['dataset']]}, `{'h Q + b' if row['translate'] else 'h Q'}`"
        heading += [] if where in heading else [where]
        found.setdefault(row["optimiser"], []).append(f"{figure(row['valid_mrr'])} after {row['epochs']} epochs")
    lines = [f"| | {' | '.join(heading)} |", "|---" * (len(heading) + 1) + "|"]
    return "\n".join([*lines, *(f"| `{name}` | {' | '.join(cells)} |" for name, cells in found.items())])


def flags_of(settings: dict[str, Any]) -> str:
    """Return settings as the command's flags."""
    return ", ".join(_flag(name, value) for name, value in settings.items())


def _flag(name: str, value: Any) -> str:
    name = name.replace("_", "-")
    return f"`--{'' if value else 'no-'}{name}`" if isinstance(value, bool) else f"`--{name} {value}`"


def tuned_table(device: str) -> str:
    """Return, in Markdown, validation and test MRR of each graph, tuned and not: means over seeds."""
    content = json.loads((result_files.RESULTS / f"tuned-{device}.json").read_text(encoding="utf-8"))
    rows = content["rows"]
    shown = [row for row in TUNED if any(each["row"] == row for each in rows)]
    lines = [f"| {content['device']}, {content['time']:.0f} s | {' | '.join(TUNED[row] for row in shown)} |"]
    lines.append("|---" * (len(shown) + 1) + "|")
    for graph in dict.fromkeys(each["graph"] for each in rows):
        cells = []
        for row in shown:
            found = [each for each in rows if (each["graph"], each["row"]) == (graph, row)]
            mrrs = " / ".join(mean_of(found, split) for split in ("valid", "test") if found and split in found[0])
            as_it_is = row == "tuned" and all(not each["search"]["chosen"] for each in found)
            cells.append(f"{mrrs} \\*" if as_it_is and found else mrrs)
        lines.append(f"| {graph} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plateau_table() -> str:
    """Return, in Markdown, the candidates of `plateau.py` that the test triples were ranked with: means over seeds."""
    results = json.loads((result_files.RESULTS / "plateau.json").read_text(encoding="utf-8"))["results"]
    lines = ["| graph | candidate | seeds | validation MRR | test MRR | seconds |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(each["name"] for each in results if "test_mrr" in each):
        found = [each for each in results if each["name"] == name]
        figures = " | ".join(mean_of(found, f"{split}_mrr") for split in ("valid", "test"))
        seconds = mean(each["seconds"] for each in found)
        graph = DATASETS.get(found[0]["dataset"], found[0]["dataset"])
        lines.append(f"| {graph} | `{name}` | {len(found)} | {figures} | {seconds:.1f} |")
    return "\n".join(lines)


def mean_of(found: list[dict[str, Any]], key: str) -> str:
    """Return the mean of a figure, with three digits."""
    return figure(mean(each[key] for each in found))
