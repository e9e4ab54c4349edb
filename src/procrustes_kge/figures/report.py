"""The report: one page about one run or several side by side, to keep or to send; it opens without a network.

It holds no script: charts are SVG, what is long is folded by the page itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from importlib import resources
from pathlib import Path

from procrustes_kge.errors import InputError
from procrustes_kge.explore.overview import Overview, overview
from procrustes_kge.figures import report_model, report_run
from procrustes_kge.figures.markup import Markup, element, joined
from procrustes_kge.figures.page import page, write_page
from procrustes_kge.figures.report_run import Shown
from procrustes_kge.runs.saved import SavedRun
from procrustes_kge.runs.store import load_run
from procrustes_kge.version import __version__
from procrustes_kge.words import counted, shortened

MOST = 12  # runs on a page
MEANINGS = {
    "MRR": "the mean of 1/rank of the right answer; 1 is perfect",
    "hits@k": "the share of queries whose right answer is among the first k",
    "rank": "the place of the right answer among all entities, other known answers left out, ties counted half",
    "asked for tails, for heads": "each triple asks (head, relation, ?) and (?, relation, tail)",
}


def report(runs: Sequence[str | Path | SavedRun], path: str | Path, force: bool = False) -> Path:
    """Write a page about runs, and return where it is. A file that was not written here is replaced only by force."""
    check_count(runs)
    loaded = [run if isinstance(run, SavedRun) else load_run(run) for run in runs]
    return write_page(path, report_page([overview(run) for run in loaded]), force)


def check_count(runs: Sequence[object]) -> None:
    """Refuse no run, and more than a page has room for."""
    if not 1 <= len(runs) <= MOST:
        raise InputError(f"{counted(len(runs), 'run')} on a page, expected 1 to {MOST}; make several pages")


def report_page(overviews: Iterable[Overview]) -> str:
    """Return the page about some runs."""
    runs = _named(list(overviews))
    parts = {
        "Results": report_run.glance(runs),
        "The graph": report_model.graphs(runs),
        "Settings": report_run.settings(runs),
        "Learning": report_run.curves(runs),
        "Search for settings": report_run.trials(runs),
        "Ranks": report_run.metrics(runs),
        "Relations, hard and easy": report_run.by_relation(runs),
        "Cost": report_run.footprint(runs),
        "Map of the entities": report_model.maps(runs),
        "What relations are": report_model.relations(runs),
        "Sample answers": report_model.predictions(runs),
        "Probabilities": report_model.calibration(runs),
        "Words": _meanings(),
    }
    there = {title: part for title, part in parts.items() if part is not None}
    links = [element("li", element("a", title, href=f"#{_id(title)}")) for title in there]
    sections = [
        element("section", element("h2", title, id=_id(title)), part, aria_labelledby=_id(title))
        for title, part in there.items()
    ]
    title = shortened([run.name for run in runs], 3)
    body = joined(
        [
            element("a", "Skip to the results", href="#results", class_="skip"),
            element("header", element("h1", element("bdi", title)), _made(runs)),
            element("nav", element("ul", links), aria_label="Contents"),
            element("main", sections),
        ]
    )
    return page(f"Report: {title}", body, styles=[_style()])


def _named(overviews: Sequence[Overview]) -> list[Shown]:
    """Return the runs with names of their own: the folder's, or its whole path where two are alike."""
    short = [each.run.folder.resolve().name or str(each.run.folder) for each in overviews]
    times = Counter(short)
    names = [str(each.run.folder) if times[name] > 1 else name for each, name in zip(overviews, short, strict=True)]
    again = Counter(names)
    names = [f"{name} ({place})" if again[name] > 1 else name for place, name in enumerate(names, start=1)]
    return [Shown(each, name, place) for place, (each, name) in enumerate(zip(overviews, names, strict=True))]


def _made(runs: Sequence[Shown]) -> Markup:
    graphs = dict.fromkeys(run.overview.facts.graph.name for run in runs if run.overview.facts is not None)
    of = [" on ", element("bdi", shortened(list(graphs), 3))] if graphs else []
    by = f". Made by procrustes-kge {__version__} on {date.today().isoformat()}."
    return element("p", counted(len(runs), "run"), *of, by, class_="quiet")


def _id(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


def _meanings() -> Markup:
    return element("dl", [[element("dt", word), element("dd", meaning)] for word, meaning in MEANINGS.items()])


def _style() -> str:
    return (resources.files("procrustes_kge.figures") / "report.css").read_text(encoding="utf-8")
