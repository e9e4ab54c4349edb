"""Parts of the report that come from a run's own report: settings, learning curve, trials, metrics, cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from procrustes_kge.explore.overview import Overview
from procrustes_kge.figures import svg
from procrustes_kge.figures.everyday import co2_in_words, energy_in_words, spoken_seconds
from procrustes_kge.figures.markup import Content, Markup, element, folded, joined, name, table
from procrustes_kge.models.ranking import figure
from procrustes_kge.training.recipes import values_of
from procrustes_kge.validation import spoken
from procrustes_kge.words import counted

MEASURES = {"mrr": "MRR", "hits@1": "hits@1", "hits@3": "hits@3", "hits@10": "hits@10", "mean_rank": "mean rank"}
VIEWS = {
    "": "both sides",
    "tail": "asked for tails",
    "head": "asked for heads",
    "seen_only": "entities seen in train alone",
    "optimistic": "ties count for the answer",
    "pessimistic": "ties count against it",
}
EXTREMES = 10  # relations that are hardest, and easiest
FEWEST = 5  # queries of a relation: with fewer, its MRR is an accident
MOST_POINTS, MOST_ROWS = 400, 400  # of a curve, and of a table


class Shown(NamedTuple):
    """A run on a page: what is known of it, its name there, and its number, which gives it a colour."""

    overview: Overview
    name: str
    number: int

    @property
    def report(self) -> Mapping[str, Any]:
        """The run's own report."""
        return self.overview.run.report

    def part(self, key: str) -> dict[str, Any]:
        """Return an object of the report; an empty one where there is none."""
        found = self.report.get(key)
        return found if isinstance(found, dict) else {}


def number(value: Any) -> float | None:
    """Return a number of a report; None of anything else: whoever wrote it may have written that."""
    fine = type(value) in (int, float) and math.isfinite(value)
    return float(value) if fine else None


def share(value: Any) -> str:
    """Return a share as tables print it, or a dash."""
    found = number(value)
    return "–" if found is None else figure(found)


def side_by_side(runs: Sequence[Shown], draw: Callable[[Shown], Content]) -> Markup:
    """Return what is drawn of each run, beside each other where there is room."""
    parts = []
    for run in runs:
        heading = element("h3", svg.legend([(run.name, run.number)])) if len(runs) > 1 else None
        parts.append(element("article", heading, draw(run), class_="run"))
    return element("div", parts, class_="runs")


def best_split(run: Shown) -> str | None:
    """Return the split whose metrics count: test, or what there is."""
    metrics = run.part("metrics")
    return next((split for split in ("test", "valid", "train") if "mrr" in (metrics.get(split) or {})), None)


def glance(runs: Sequence[Shown]) -> Markup:
    """Return a row for each run: what it is, how good, and at what cost."""
    rows = []
    for run in runs:
        split = best_split(run)
        found = run.part("metrics")[split] if split else {}
        cost, model = run.part("footprint"), run.overview.run.model
        seconds, kwh = number(cost.get("seconds")), number(cost.get("kwh"))
        rows.append(
            [
                name(run.name),
                name(str(run.report.get("recipe") or "–")),
                f"{model.kind}, {model.dim:,}",
                split or "not ranked",
                *(share(found.get(each)) for each in ("mrr", "hits@1", "hits@10")),
                "–" if seconds is None else spoken_seconds(seconds),
                "–" if kwh is None else f"{kwh * 1000:.2g} Wh",
            ]
        )
    headings = ("run", "recipe", "model, numbers", "ranked", "MRR", "hits@1", "hits@10", "training", "energy")
    return table("Runs at a glance", headings, rows, numbers_from=4)


def settings(runs: Sequence[Shown]) -> Markup:
    """Return the commands that repeat the runs, the settings in which they differ, and those that they share."""
    commands = [
        element("p", "Repeat ", name(run.name), ": ", element("code", run.report["repeat"]))
        for run in runs
        if isinstance(run.report.get("repeat"), str)
    ]
    columns = [run.part("settings") or _settings_of(run) for run in runs]
    rows = {each: [_plain(column.get(each, "–")) for column in columns] for column in columns for each in column}
    differing = [[spoken(each), *values] for each, values in rows.items() if len(set(values)) > 1]
    alike = [(spoken(each), values[0]) for each, values in rows.items() if len(set(values)) == 1]
    headings = ["setting", *(name(run.name) for run in runs)]
    parts = [
        table("Settings in which they differ", headings, differing) if differing else None,
        element("h3", "Settings that they share" if len(runs) > 1 else "Settings") if alike else None,
        listed(alike) if alike else None,
    ]
    return joined([commands, parts if rows else _unknown("settings"), side_by_side(runs, _made_with)])


def listed(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Return words and what they stand for, in as many columns as there is room for."""
    items = [element("div", element("dt", word), element("dd", value)) for word, value in pairs]
    return element("dl", items, class_="columns")


def _settings_of(run: Shown) -> dict[str, Any]:
    found = run.overview.run.settings
    return values_of(found) if found is not None else {}


def _made_with(run: Shown) -> Content:
    versions = ", ".join(f"{each} {value}" for each, value in run.part("versions").items())
    said = [str(run.report[each]) for each in ("device", "protocol") if isinstance(run.report.get(each), str)]
    words = ". ".join(filter(None, [*said, versions]))
    return element("p", words, class_="quiet") if words else None


def _plain(value: Any) -> str:
    if value == "" or value is None:
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(each)}" for key, each in value.items()) or "–"
    return "yes" if value is True else "no" if value is False else str(value)


def _unknown(what: str) -> Markup:
    return element("p", f"The run does not say its {what}.", class_="quiet")


def curves(runs: Sequence[Shown]) -> Markup:
    """Return validation MRR by epoch, all runs in one picture, and each run's loss: losses do not compare."""
    pictures = [_picture("validation MRR by epoch", runs, "valid_mrr", "validation MRR")]
    for run in runs:
        title = f"loss by epoch{f', {run.name}' if len(runs) > 1 else ''}"
        pictures.append(_picture(title, [run], "loss", "loss"))
    if not any(pictures):
        return element("p", "The run has no learning curve: it was saved without one.", class_="quiet")
    legend = svg.legend([(run.name, run.number) for run in runs]) if len(runs) > 1 else None
    unvalidated = [run.name for run in runs if _points(run, "loss") and not _points(run, "valid_mrr")]
    said = [element("p", "Trained without validation: ", name(each), class_="quiet") for each in unvalidated]
    tables = [_curve_table(run) for run in runs]
    return joined([legend, element("div", pictures, class_="figures"), said, folded("The curve as numbers", tables)])


def _picture(title: str, runs: Sequence[Shown], key: str, words: str) -> Markup | None:
    series = [svg.Series(run.name, _points(run, key), run.number) for run in runs]
    drawn = svg.line_chart(title, series, "epoch", words)
    return element("figure", drawn, element("figcaption", f"{title[0].upper()}{title[1:]}.")) if drawn else None


def _curve(run: Shown) -> list[dict[str, Any]]:
    found = run.report.get("curve")
    rows = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return rows[:: max(1, len(rows) // MOST_POINTS)]


def _points(run: Shown, key: str) -> list[tuple[float, float]]:
    pairs = ((number(row.get("epoch")), number(row.get(key))) for row in _curve(run))
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def _curve_table(run: Shown) -> Markup:
    rows = [
        [_plain(row.get("epoch")), f"{number(row.get('loss')) or 0:.5g}", share(row.get("valid_mrr"))]
        for row in _curve(run)
    ]
    return table(f"Learning curve of {run.name}", ["epoch", "loss", "validation MRR"], rows)


def trials(runs: Sequence[Shown]) -> Markup | None:
    """Return what a search for settings tried, where there was one."""
    searched = [run for run in runs if isinstance(run.part("tuning").get("trials"), list)]
    return side_by_side(searched, _trials) if searched else None


def _trials(run: Shown) -> Content:
    tuning = run.part("tuning")
    tried = [each for each in tuning["trials"] if isinstance(each, dict)]
    points = [(float(place), number(each.get("valid_mrr"))) for place, each in enumerate(tried, start=1)]
    dots = [(x, y) for x, y in points if y is not None]
    best = [(x, max(y for _, y in dots[: place + 1])) for place, (x, _) in enumerate(dots)]
    series = [svg.Series("best so far", best, run.number)]
    title = f"Best validation MRR after each of {counted(len(tried), 'trial')}"
    rows = [
        [str(place), str(each.get("stage") or ""), _plain(each.get("changes") or {}), share(each.get("valid_mrr")),
         spoken_seconds(number(each.get("seconds")) or 0), str(each.get("failed") or "")]
        for place, each in enumerate(tried, start=1)
    ]  # fmt: skip
    headings = ("trial", "stage", "changes", "validation MRR", "took", "failed")
    drawn = svg.line_chart(title, series, "trial", "validation MRR") if len(dots) > 1 else None
    said = element("p", str(tuning["said"])) if tuning.get("said") else None
    listed = folded(f"All {counted(len(tried), 'trial')}", table("Trials", headings, rows[:MOST_ROWS], numbers_from=3))
    return [said, element("figure", drawn, element("figcaption", f"{title}.")) if drawn else None, listed]


def metrics(runs: Sequence[Shown]) -> Markup:
    """Return the figures of every split, by side and by other views."""
    return side_by_side(runs, _metrics)


def _metrics(run: Shown) -> Content:
    parts: list[Content] = []
    for split, found in run.part("metrics").items():
        rows = []
        for view, words in VIEWS.items():
            values = found.get(view) if view else found
            if isinstance(values, dict) and "mrr" in values:
                cells = [
                    f"{number(values.get(key)) or 0:,.1f}" if key == "mean_rank" else share(values.get(key))
                    for key in MEASURES
                ]
                rows.append([words, *cells, f"{int(number(values.get('count')) or 0):,}"])
        if rows:
            parts.append(table(f"Ranks of {split} triples", ["view", *MEASURES.values(), "queries"], rows))
        ranked, triples = number(found.get("ranked")), number(found.get("triples"))
        if ranked is not None and triples is not None and ranked < triples:
            words = f"{ranked:,.0f} of {counted(int(triples), 'triple')} were ranked, drawn at random: time was short."
            parts.append(element("p", words, class_="quiet"))
    if parts:
        return element("div", parts, class_="tables")
    ask = element("code", f"procrustes evaluate {run.overview.run.folder}")
    return element("p", "Not ranked so far; ", ask, " ranks it.", class_="quiet")


def by_relation(runs: Sequence[Shown]) -> Markup | None:
    """Return the hardest and the easiest relations, and a table of all."""
    having = [run for run in runs if _of_relations(run)]
    return side_by_side(having, _by_relation) if having else None


def _of_relations(run: Shown) -> list[tuple[str, dict[str, Any]]]:
    split = best_split(run)
    found = (run.part("metrics").get(split) or {}).get("relations") if split else None
    rows = found.items() if isinstance(found, dict) else ()
    return [
        (each, values) for each, values in rows if isinstance(values, dict) and number(values.get("mrr")) is not None
    ]


def _by_relation(run: Shown) -> Content:
    every = sorted(_of_relations(run), key=lambda item: item[1]["mrr"])
    firm = [item for item in every if (number(item[1].get("count")) or 0) >= FEWEST] or every
    half = min(EXTREMES, len(firm) // 2)
    hardest, easiest = firm[: max(half, 1)], firm[len(firm) - half :][::-1]
    parts: list[Content] = []
    for title, some in (("Hardest relations", hardest), ("Easiest relations", easiest)):
        if some:
            values = [(_shown(run, each), values["mrr"], figure(values["mrr"])) for each, values in some]
            drawn = svg.bars(f"{title}, MRR", values, number=run.number)
            parts.append(element("figure", drawn, element("figcaption", f"{title}, by MRR.")))
    pictures = element("div", parts, class_="figures")
    rows = [
        [name(_shown(run, each)), f"{int(number(v.get('count')) or 0):,}", share(v["mrr"]), share(v.get("hits@10")),
         *(share((v.get(side) or {}).get("mrr")) for side in ("tail", "head"))]
        for each, v in sorted(every, key=lambda item: -(number(item[1].get("count")) or 0))[:MOST_ROWS]
    ]  # fmt: skip
    headings = ("relation", "queries", "MRR", "hits@10", "MRR of tails", "of heads")
    more = f", {MOST_ROWS} of them with most queries" if len(every) > MOST_ROWS else ""
    title = f"Ranks by relation of {best_split(run)} triples"
    return [pictures, folded(f"All {counted(len(every), 'relation')}{more}", table(title, headings, rows))]


def _shown(run: Shown, each: str) -> str:
    relations = run.overview.run.model.relations
    return relations.labels.get(each, each)


def footprint(runs: Sequence[Shown]) -> Markup:
    """Return what training cost, beside things that a person knows."""
    return side_by_side(runs, _footprint)


def _footprint(run: Shown) -> Content:
    found = {key: number(value) for key, value in run.part("footprint").items()}
    kwh, grams, seconds = found.get("kwh"), found.get("g_co2"), found.get("seconds")
    if kwh is None or grams is None or seconds is None:
        return _unknown("footprint")
    cost = run.part("footprint")
    known = "estimated" if cost.get("estimated") else "measured"
    rows = [
        ["training", spoken_seconds(seconds)],
        ["memory at its peak", f"{found.get('peak_memory_mb') or 0:,.0f} MB"],
        ["energy", f"{kwh * 1000:.2g} Wh, {known}"],
        ["CO2", f"{grams:.2g} g, at {found.get('grid_g_per_kwh') or 0:,.0f} g per kWh ({cost.get('grid')})"],
    ]
    if gpu := found.get("gpu_peak_memory_mb"):
        rows.insert(2, ["memory of the GPU at its peak", f"{gpu:,.0f} MB"])
    said = f"The energy is {energy_in_words(kwh)}. The CO2 is {co2_in_words(grams)}."
    method = element("p", str(cost["method"]), class_="quiet") if isinstance(cost.get("method"), str) else None
    return [table("What training cost", ["what", "how much"], rows, numbers_from=2), element("p", said), method]
