"""Print tables from benchmarks/results/*.json: no number is typed by hand.

python benchmarks/tables.py                     six telling rows, for the README
python benchmarks/tables.py results             our recipes, for docs/results.md
python benchmarks/tables.py table               the paper's table with our figures, for docs/results.md
python benchmarks/tables.py best                the baselines beside their best published figures, for docs/baselines.md
python benchmarks/tables.py default             which recipe is best within a minute, for docs/choosing-a-recipe.md
python benchmarks/tables.py search accurate     what each setting of a recipe is worth, for docs/tuning.md
python benchmarks/tables.py ideas               what each idea is worth on nine graphs, for docs/tuning.md
python benchmarks/tables.py tuned cuda          what tuning gains on ten graphs, for docs/tuning.md
python benchmarks/tables.py plateau             how far the two benchmarks go, for docs/tuning.md
python benchmarks/tables.py restoring           what leaving the rotations out costs, for docs/after-training.md
python benchmarks/tables.py speed cpu wn18rr    epochs, training and ranking beside their floors, for docs/speed.md
python benchmarks/tables.py growth cpu          how an epoch grows, for docs/speed.md
python benchmarks/tables.py memory cpu wn18rr   what a training takes beyond its table, for docs/speed.md
python benchmarks/tables.py verification        what checksums cost, for docs/after-training.md
python benchmarks/tables.py missing             missing triples, one question, and the index, for docs/missing.md
python benchmarks/tables.py checkpoints cpu     what a checkpoint costs, for docs/speed.md
python benchmarks/tables.py steps               what the optimiser of the recipe `fast` is worth, for docs/maths.md
python benchmarks/tables.py paths               what paths as evidence add, for docs/paths.md
python benchmarks/tables.py probabilities       how far probabilities are to be trusted, for docs/probabilities.md
python benchmarks/tables.py evidence            what taking evidence away does to answers, for docs/explaining.md
python benchmarks/tables.py folding             how well added entities are answered, for docs/updating.md
python benchmarks/tables.py tried               what was tried with the baselines, for whoever tries more

`python scripts/check_results.py` compares all but the last with the pages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import mean
from typing import Any

import result_files
from procrustes_kge.bench.paper import DATASETS
from procrustes_kge.bench.table import MISSING, Row, as_markdown, read_line, table_rows
from procrustes_kge.models.ranking import figure
from procrustes_kge.training.baseline_recipes import PUBLISHED
from tables_of_settings import flags_of, ideas_table, mean_of, plateau_table, search_table, steps_table, tuned_table

# Result file, dataset, recipe, and flags beside it.
ROWS = (
    ("accurate-wn18rr", "wn18rr", "accurate", ""),
    ("cpu-accurate-wn18rr", "wn18rr", "accurate", " --device cpu"),
    ("fast-wn18rr", "wn18rr", "fast", ""),
    ("fast-wn18rr-d500", "wn18rr", "fast", " --dim 500"),
    ("cpu-wn18rr-d500", "wn18rr", "fast", " --dim 500 --device cpu"),
    ("paper-wn18rr", "wn18rr", "paper", ""),
    ("paper-ns-wn18rr", "wn18rr", "paper+ns", ""),
    ("paper-tb-wn18rr", "wn18rr", "paper+tb", ""),
    ("paper-ns-tb-wn18rr", "wn18rr", "paper+ns+tb", ""),
    ("accurate-fb15k-237", "fb15k-237", "accurate", ""),
    ("cpu-accurate-fb15k-237", "fb15k-237", "accurate", " --device cpu"),
    ("fast-fb15k-237", "fb15k-237", "fast", ""),
    ("fast-fb15k-237-d500", "fb15k-237", "fast", " --dim 500"),
    ("paper-fb15k-237", "fb15k-237", "paper", ""),
    ("paper-ns-fb15k-237", "fb15k-237", "paper+ns", ""),
    ("paper-tb-fb15k-237", "fb15k-237", "paper+tb", ""),
    ("paper-ns-tb-fb15k-237", "fb15k-237", "paper+ns+tb", ""),
    ("cpu-accurate-umls", "umls", "accurate", " --device cpu"),
)

# Those of them that a newcomer should see.
TELLING = ("accurate-wn18rr", "cpu-accurate-wn18rr", "fast-wn18rr", "accurate-fb15k-237")

# Two-sided filtered MRR on WN18RR and FB15k-237 as published, and by whom.
BEST = {
    "transe": (0.228, 0.313, "LibKGE"),
    "distmult": (0.452, 0.343, "LibKGE"),
    "complex": (0.49, 0.36, "the authors of N3"),
    "rgcn": (0.417, 0.248, "the paper's table"),
    "conve": (0.442, 0.339, "LibKGE"),
    "a2n": (0.450, 0.317, "its authors"),
    "sacn": (0.470, 0.352, "its authors; on WN18RR reached by no one else"),
    "tucker": (0.470, 0.358, "its authors"),
    "quate": (0.481, 0.311, "its authors, without type constraints"),
    "interacte": (0.463, 0.354, "its authors"),
    "roth": (0.496, 0.344, "its authors; their code's page has .489"),
    "rotate": (0.477, 0.337, "its authors"),
    "rotate-paper": (0.439, 0.297, "the paper's table"),
    "ote": (0.485, 0.351, "its authors"),
    "ote-paper": (0.448, 0.309, "the paper's table"),
}
SHORT = 0.005


def best_table() -> str:
    """Return, in Markdown, each baseline's test MRR beside the best published, those marked that fall short of it."""
    heading = ["", "WN18RR", "published", "FB15k-237", "published", "by"]
    lines = [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|"]
    for recipe, (*published, by) in BEST.items():
        cells = [Row(recipe, "wn18rr").title]
        for dataset, theirs in zip(("wn18rr", "fb15k-237"), published, strict=True):
            found = read_line(Row(recipe, dataset), result_files.RESULTS).figures
            short = found is not None and found.mrr < theirs - SHORT
            cells += [(figure(found.mrr) if found else MISSING) + (" ▾" if short else ""), figure(theirs)]
        lines.append(f"| {' | '.join([*cells, by])} |")
    return "\n".join(lines)


def tried_table() -> str:
    """Return, in Markdown, the validation MRR of what was tried with the baselines, row after row of the table."""
    lines = ["| validation MRR | changed | then | the row has |", "|---|---|---|---|"]
    tries = json.loads((result_files.RESULTS / "tried.json").read_text(encoding="utf-8"))["tries"]
    for row in table_rows():
        for each in (each for each in tries if each["row"] == row.name):
            words = flags_of(result_files.renamed(each["changes"]))
            kept = json.loads(row.file(result_files.RESULTS).read_text(encoding="utf-8"))["runs"][0]
            mrrs = [f"{mrr:.4f}".lstrip("0") for mrr in (each["valid_mrr"], kept["metrics"]["valid"]["mrr"])]
            lines.append(f"| {DATASETS[row.dataset]}, {row.title} | {words} | {' | '.join(mrrs)} |")
    return "\n".join(lines)


def telling_table() -> str:
    """Return, in Markdown, four rows of ours and, for each dataset, the best of the baselines: means over the seeds."""
    lines = ["| graph | recipe or model | MRR | hits@1 | hits@10 | seconds | on |", "|---|---|---|---|---|---|---|"]
    for dataset, title in DATASETS.items():
        best = _best_baseline(dataset)
        telling = (row for row in ROWS if row[0] in TELLING and _is_there(row[0]))
        rows = [(name, f"`{recipe}`") for name, graph, recipe, _ in telling if graph == dataset]
        for name, words in [*rows, (best.name, f"{best.title}, best of 13 others")]:
            runs = _runs(name)
            test = [run["metrics"]["test"] for run in runs]
            figures = [mean_of(test, key) for key in ("mrr", "hits@1", "hits@10")]
            seconds = mean(run["footprint"]["seconds"] for run in runs)
            shown = f"{seconds:.{0 if seconds > 100 else 1}f}"
            cells = [title, words, f"**{figures[0]}**", *figures[1:], shown, runs[0]["device"]]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _best_baseline(dataset: str) -> Row:
    """Return the row of the table with the highest test MRR among those of other models."""
    rows = [row for row in table_rows([dataset]) if row.recipe in PUBLISHED]
    return max(rows, key=lambda row: mean(run["metrics"]["test"]["mrr"] for run in _runs(row.name)))


def _is_there(name: str) -> bool:
    return (result_files.RESULTS / f"{name}.json").exists()


def _runs(name: str) -> list[dict[str, Any]]:
    """Return the reports in a result file, one for each seed."""
    runs: list[dict[str, Any]] = json.loads((result_files.RESULTS / f"{name}.json").read_text(encoding="utf-8"))["runs"]
    return runs


def results_table() -> str:
    """Return the table in Markdown: two-sided first, then each side; means over the seeds."""
    lines = [
        "| `procrustes train` | MRR | H@1 | H@3 | H@10 | tails only | heads only | paper | seconds | g CO2 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, dataset, recipe, flags in (row for row in ROWS if _is_there(row[0])):
        command, printed = f"{dataset} --recipe {recipe}{flags}", Row(recipe, dataset).printed
        paper = figure(printed.mrr) if printed else ""
        runs = _runs(name)
        test = [run["metrics"]["test"] for run in runs]
        figures = [mean_of(test, key) for key in ("mrr", "hits@1", "hits@3", "hits@10")]
        sides = [mean_of([view[side] for view in test], "mrr") for side in ("tail", "head")]
        seconds = mean(run["footprint"]["seconds"] for run in runs)
        grams = mean(run["footprint"]["g_co2"] for run in runs)
        cells = [f"`{command}`", f"**{figures[0]}**", *figures[1:], *sides, paper, f"{seconds:.1f}", f"{grams:.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def paper_table() -> str:
    """Return the paper's table with our figures in Markdown."""
    return as_markdown(read_line(row, result_files.RESULTS) for row in table_rows())


def default_table() -> str:
    """Return, in Markdown, the validation MRR of two recipes within a minute on the CPU."""
    content = json.loads((result_files.RESULTS / "default-cpu.json").read_text(encoding="utf-8"))
    lines = ["| within a minute | `fast` | `accurate` |", "|---|---|---|"]
    found: dict[str, dict[str, str]] = {}
    for row in content["rows"]:
        cell = f"{figure(row['valid_mrr'])} in {row['seconds']:.0f} s, dim {row['settings']['dim']}"
        found.setdefault(row["dataset"], {})[row["recipe"]] = cell
    lines += [f"| {dataset} | {cells['fast']} | {cells['accurate']} |" for dataset, cells in found.items()]
    return "\n".join(lines)


def restoring_table() -> str:
    """Return, in Markdown, the validation MRR as trained and with rotations computed from the rest."""
    content = json.loads((result_files.RESULTS / "restoring.json").read_text(encoding="utf-8"))
    lines = ["| validation MRR | as trained | rotations restored | seconds |", "|---|---|---|---|"]
    for row in content["rows"]:
        cells = [row["dataset"], figure(row["trained"]), figure(row["restored"]), f"{row['seconds']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def speed_table(device: str, dataset: str) -> str:
    """Return, in Markdown, timings beside their floors."""
    content = json.loads((result_files.RESULTS / f"speed-{device}-{dataset}.json").read_text(encoding="utf-8"))
    lines = ["| work | seconds | GB | GFLOP | floor | ratio | |", "|---|---|---|---|---|---|---|"]
    for timing in content["timings"]:
        counted = [f"{timing[key] / 1e9:.3g}" for key in ("bytes", "operations")]
        counted += [f"{timing['floor']:.3g}", f"{timing['ratio'] or 0:.1f}"]
        cells = [
            timing["work"],
            f"{timing['seconds']:.3g}",
            *(counted if timing["floor"] else [""] * 4),
            timing["note"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def growth_table(device: str) -> str:
    """Return, in Markdown, the milliseconds of an epoch as each size doubles, and each doubling by each clock."""
    content = json.loads((result_files.RESULTS / f"growth-{device}.json").read_text(encoding="utf-8"))
    clocks = {"doublings": "each doubling", "processor_doublings": "of the processor's seconds"}
    judged = {title: content[name] for name, title in clocks.items() if name in content}
    heading = ["ms an epoch", *(f"× {size}" for size in content["sizes"]), *judged]
    lines = [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|"]
    for name in ("dim", "triples", "relations"):
        cells = [name, *(_milliseconds(seconds) for seconds in content[name])]
        for doublings in judged.values():
            cells.append(", ".join(f"{each['ratio']:.3f} ± {each['error']:.2g}" for each in doublings[name]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.0f}" if seconds >= 0.1 else f"{1000 * seconds:.3g}"


def memory_table(device: str, dataset: str) -> str:
    """Return, in Markdown, the memory of a training for two lengths of vectors."""
    content = json.loads((result_files.RESULTS / f"memory-{device}-{dataset}.json").read_text(encoding="utf-8"))
    sizes = content["bytes"]
    lines = [f"| {' | '.join(f'--dim {dim}' for dim in sizes)} |", "|---" * len(sizes) + "|"]
    return "\n".join([*lines, f"| {' | '.join(f'{size / 1e6:.0f} MB' for size in sizes.values())} |"])


def checkpoints_table(device: str) -> str:
    """Return, in Markdown, the size of a checkpoint, and the time to write it and to read it again."""
    content = json.loads((result_files.RESULTS / f"checkpoints-{device}.json").read_text(encoding="utf-8"))
    lines = [
        "| recipe | MB | writing, ms | of training, when made every 5 minutes | checking when resumed, ms |",
        "|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        writing = f"{row['milliseconds']:,} | {row['per_cent']:.2f} %"
        lines.append(f"| `{row['recipe']}` | {row['megabytes']:,} | {writing} | {row['reading_milliseconds']:,} |")
    return "\n".join(lines)


def verification_table() -> str:
    """Return, in Markdown, the time to open a run folder with checksums and without."""
    content = json.loads((result_files.RESULTS / "verification.json").read_text(encoding="utf-8"))
    lines = ["| recipe | MB | opening, ms | without checksums, ms | `check`, ms |", "|---|---|---|---|---|"]
    for row in content["rows"]:
        times = (f"{row[f'{name}_milliseconds']:,}" for name in ("verified", "trusted", "check"))
        lines.append(f"| `{row['recipe']}` | {row['megabytes']:,} | {' | '.join(times)} |")
    return "\n".join(lines)


def missing_table() -> str:
    """Return, in Markdown, what a search for missing triples took, one question, and search by an index."""
    found, index = (
        json.loads((result_files.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("missing-cpu", "index-cpu")
    )
    stops = "the same list" if found["same_after_stops"] else "another list"
    rows = {
        f"all missing triples of `{found['relation']}`, {found['pairs']:,} pairs": f"{found['seconds']:.0f} s",
        "estimate before": f"at most {found['estimated_seconds']:.0f} s",
        "peak memory, PyTorch included": f"{found['peak_megabytes']:.0f} MB",
        f"stopped {found['stops']} times and gone on with": stops,
        "one question, from the start of the process to its end": f"{found['question_seconds']:.2f} s",
        "the same with PyTorch": f"{found['question_seconds_with_torch']:.2f} s",
        f"index of {index['entities']:,} vectors of {index['dim']} numbers: recall@10": f"{index['recall@10']:.3f}",
        "one query by the index, and exactly": _two_times(index["one"]),
        "each of many queries": _two_times(index["many"]),
        "codes, and vectors": f"{index['codes_megabytes']:.0f} MB, {index['vectors_megabytes']:.0f} MB",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows.items())])


def _two_times(row: dict[str, float]) -> str:
    return f"{row['index_milliseconds']:.1f} ms, {row['exact_milliseconds']:.0f} ms"


def paths_table() -> str:
    """Return what paths add on each graph, as means over seeds."""
    lines = ["| graph | without | with | seconds to weigh | seconds to rank 1,000 triples, without and with |"]
    lines.append("|---|---|---|---|---|")
    for file in sorted(result_files.RESULTS.glob("paths-*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        found = [each["checked"] for each in content["results"]]
        weigh = mean(each["paths"]["seconds"] for each in content["results"])
        ways = {
            way: (
                mean(each[way]["mrr"] for each in found),
                mean(each[way]["seconds"] / each["triples"] * 1000 for each in found),
            )
            for way in ("without", "with")
        }
        (before, short), (after, long) = ways["without"], ways["with"]
        lines.append(
            f"| {content['dataset']} ({content['device']}) | {figure(before)} | {figure(after)} "
            f"| {weigh:.0f} | {short:.1f}, {long:.1f} |"
        )
    return "\n".join(lines)


def probabilities_table() -> str:
    """Return, in Markdown, the calibration error on test triples of each graph."""
    lines = [
        "| graph | recipe | validation triples | ten best answers | even odds | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for file in sorted(result_files.RESULTS.glob("calibration-*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        errors = " | ".join(figure(found[name]["error"]) for name in ("answers", "even"))
        cells = f"{found['dataset']} | `{found['recipe']}`, {found['settings']['dim']} numbers | {found['triples']:,}"
        lines.append(f"| {cells} | {errors} | {found['seconds']:.1f} |")
    return "\n".join(lines)


def evidence_table() -> str:
    """Return, in Markdown, how many answers fell without named and without random triples: means over seeds."""
    lines = ["| graph | without | rank lower | rank higher | MRR before | MRR after |", "|---|---|---|---|---|---|"]
    for file in sorted(result_files.RESULTS.glob("evidence-*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        before = mean(each["mrr"] for each in found["results"])
        for name, words in (("named", "named triples"), ("random", "random ones of the same entities")):
            shares = [mean(each[name][key] for each in found["results"]) for key in ("lower", "higher", "mrr")]
            lower, higher, after = map(figure, shares)
            what = f"{found['dataset']} | {found['taken']} {words}"
            lines.append(f"| {what} | {lower} | {higher} | {figure(before)} | {after} |")
    return "\n".join(lines)


def folding_table() -> str:
    """Return, in Markdown, how entities that were added are answered, beside a model that was trained with them."""
    lines = ["| graph | recipe | added | trained again | new entities | seconds to add 1,000 | seconds to train | on |"]
    lines.append("|---" * 8 + "|")
    for file in sorted(result_files.RESULTS.glob("folding-*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        mrrs = " | ".join(figure(found["metrics"][way]["mrr"]) for way in ("added", "retrained"))
        seconds = f"{found['seconds_for_a_thousand']:.1f} | {found['seconds_of_retraining']:.1f}"
        what = f"{DATASETS[found['dataset']]} | `{found['recipe']}`"
        lines.append(f"| {what} | {mrrs} | {found['new']:,} | {seconds} | {found['device']} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[..., str]] = {
    "probabilities": probabilities_table,
    "evidence": evidence_table,
    "folding": folding_table,
    "telling": telling_table,
    "results": results_table,
    "table": paper_table,
    "best": best_table,
    "default": default_table,
    "restoring": restoring_table,
    "search": search_table,
    "ideas": ideas_table,
    "tuned": tuned_table,
    "plateau": plateau_table,
    "speed": speed_table,
    "growth": growth_table,
    "memory": memory_table,
    "checkpoints": checkpoints_table,
    "verification": verification_table,
    "missing": missing_table,
    "steps": steps_table,
    "paths": paths_table,
}
ON_NO_PAGE = {"tried": tried_table}


def printed(name: str) -> str:
    """Return a table by its name and what it is of, such as `growth cpu`."""
    table, *which = name.split()
    return {**TABLES, **ON_NO_PAGE}[table](*which)


if __name__ == "__main__":
    print(printed(" ".join(sys.argv[1:]) or "telling"))
