"""Laws of the help pages: few flags at first, all of them on demand, and nothing wider than the terminal."""

import re

import pytest

from procrustes_kge.cli.help import GROUPS

PAGES = (
    "",
    "train",
    "tune",
    "evaluate",
    "predict",
    "score",
    "neighbours",
    "analogy",
    "relations",
    "report",
    "export",
    "check",
    "data",
    "data get",
    "bench",
    "bench speed",
    "bench table",
)


def flags(page):
    """Return the flags that a page lists, by their long names."""
    return re.findall(r"^  (?:-\w, )?--((?:\[no-\])?[a-z0-9-]+)", page, re.MULTILINE)


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    "page", [*((name, "--help") for name in PAGES), *((name, "--help-all") for name in GROUPS)], ids=" ".join
)
def test_no_line_is_wider_than_the_terminal(page, width, procrustes, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = procrustes(*page[0].split(), page[1])
    assert max(map(len, shown.splitlines())) <= width
    assert not re.search(r"; or\b|Cpu|`|<\w+>", shown)


@pytest.mark.parametrize("verb", GROUPS)
def test_the_usual_flags_fit_a_screen_and_stand_in_groups(verb, procrustes, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = procrustes(verb, "--help")
    usual = [flag for group in GROUPS[verb].values() for flag in group.partition("|")[0].split()]
    assert flags(page) == [*usual, "help-all", "help"]
    assert len(usual) <= 12
    assert len(page.splitlines()) <= 50
    places = [page.index(f"\n{heading}:\n") for heading in GROUPS[verb]]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", GROUPS)
def test_all_flags_are_shown_on_demand_each_once(verb, procrustes):
    usual, everything = flags(procrustes(verb, "--help")), flags(procrustes(verb, "--help-all"))
    assert set(usual) < set(everything)
    assert len(set(everything)) == len(everything)
    grouped = {flag for group in GROUPS[verb].values() for flag in group.replace("|", "").split()}
    assert grouped <= {flag.removeprefix("[no-]") for flag in everything}


def test_the_first_page_says_what_to_do_first(procrustes):
    page = procrustes("--help")
    assert page.index("procrustes train\n") < page.index("procrustes predict") < page.index("my-triples.tsv")
    assert page.index("my-triples.tsv") < page.index("Commands:")
