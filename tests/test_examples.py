"""What the pages show works: their Python runs, their commands are understood, their links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from procrustes_kge.cli.app import app
from procrustes_kge.errors import InputError
from procrustes_kge.runs.store import load
from procrustes_kge.training.budget import parse_size, parse_time
from procrustes_kge.training.recipes import check_recipe, recipes_with

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PYTHON = ("python", "pycon")


def fences(page, *languages):
    """Return the blocks of code of a page in these languages, each with the number of its first line."""
    text = page.read_text(encoding="utf-8")
    found = FENCE.finditer(text)
    return [(text.count("\n", 0, each.start(2)) + 1, each[2]) for each in found if each[1] in languages]


# The blocks of a page follow one another, as a reader types them. With every type checked, as in this process, they
# would take minutes.
RUN = """
import doctest, sys
page, *blocks = sys.argv[1:]
names = {"__name__": "__main__"}
for start, block in zip(blocks[::2], blocks[1::2]):
    exec(compile("\\n" * (int(start) - 1) + block, page, "exec"), names)
sys.exit(doctest.testfile(page, module_relative=False).failed)
"""
# What is there before a page begins.
TRAINED = """
from procrustes_kge import learn, read_graph, recipe, save
graph = read_graph("wordnet-mini")
save(learn(graph, recipe("fast", graph, "cpu", dim=40, epochs=2)), "runs/wordnet-mini", graph)
"""
BEFORE = dict.fromkeys(
    (
        "after-training.md",
        "missing.md",
        "exchange.md",
        "cookbook.md",
        "map.md",
        "relations.md",
        "report.md",
        "tutorial.md",
    ),
    TRAINED,
)


def printed_by(page, blocks, folder):
    """Return what blocks of a page print, and then its examples with prompts, run as a user runs them."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [str(word) for place, block in [(1, BEFORE.get(page.name, "")), *blocks] for word in (place, block)]
    command = [sys.executable, "-c", RUN, str(page), *words]
    ended = subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


LONG = ("baselines.md", "exchange.md", "paths.md", "tuning.md")  # they train many models, or wait for PyKEEN
WITH_PYTHON = [
    pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in LONG else [])
    for page in PAGES
    if fences(page, *PYTHON)
]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_runs(page, tmp_path):
    said = printed_by(page, fences(page, "python"), tmp_path)
    if page.name == "README.md":
        assert "canine.n.02" in said
        assert (tmp_path / "runs" / "dogs" / "model.safetensors").is_file()


@pytest.mark.parametrize("wrong", ["1 / 0", ">>> 1 + 1\n3\n"], ids=["python", "pycon"])
def test_python_that_fails_is_found(wrong, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```{'pycon' if '>>>' in wrong else 'python'}\n{wrong}\n```\n")
    with pytest.raises(AssertionError, match="line 4"):
        printed_by(page, fences(page, "python"), tmp_path)


@pytest.mark.slow
def test_the_five_lines_run_with_a_baseline_too(tmp_path):
    ((place, block),) = fences(ROOT / "README.md", "python")
    lines = block.replace('"fast", graph, dim=200', '"distmult", graph, "cpu", dim=20, epochs=1, negatives=64')
    assert "distmult" in lines
    assert "MRR" in printed_by(ROOT / "README.md", [(place, lines)], tmp_path)
    assert load(tmp_path / "runs" / "dogs").name == "distmult"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_python_of_a_page_is_left_out(page):
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"^```(\w*)$", text, flags=re.MULTILINE)) <= {"", "sh", *PYTHON}
    assert text.count(">>> ") == sum(block.count(">>> ") for _, block in fences(page, "pycon"))


def commands(page):
    """Return the lines of a page's shell blocks, those of a pipe each on its own, without comments and variables."""
    found = []
    for _, block in fences(page, "sh"):
        for line in filter(None, map(str.strip, block.replace("\\\n", " ").splitlines())):
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("|") if "|" in words else len(words)
                command, words = words[:end], words[end + 1 :]
                found.append(command)
    return found


def refused(words):
    """Return why a command cannot be meant; '' where it can."""
    name, *rest = words
    if name == "procrustes":
        return not_understood(rest)
    if name == "make":
        return f"no target {rest}" if set(rest) - TARGETS else ""
    if name == "pip":
        wanted = {extra for word in rest for extra in re.findall(r"\[(.*)\]", word)}
        return f"no extras {wanted}" if {each for extra in wanted for each in extra.split(",")} - set(EXTRAS) else ""
    if name.endswith("python") and rest[0] != "-m":
        return "" if (ROOT / rest[0]).is_file() else f"no file {rest[0]}"
    return "" if name in ("cut", "export", "sed") or name.endswith("python") else f"an unknown command {name}"


def not_understood(words):
    """Return why `procrustes` refuses words before it opens any file; '' where it does not."""
    command, path = typer.main.get_command(app), []
    while hasattr(command, "commands") and words and command.get_command(None, words[0]):
        path.append(words[0])
        command, words = command.get_command(None, words[0]), words[1:]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        return f"no verb {words[0]}"
    try:
        given = command.make_context(" ".join(path), list(words)).params
        if path == ["train"]:
            check_training({name: value for name, value in given.items() if value is not None})
    except InputError as error:
        return str(error)
    except Exception as error:  # of whichever parser typer uses
        return f"{path}: {getattr(error, 'message', error)}"
    return ""


def check_training(given):
    """Refuse flags that no recipe of this name has, as the command does before it reads a graph."""
    settings = {name: value for name, value in given.items() if name != "time" and recipes_with(name, "a baseline")}
    check_recipe(given.get("recipe_name") or settings.pop("model", "accurate"), **settings)
    parse_time(given.get("time", "1s"))
    parse_size(given.get("memory", "1GB"))


@pytest.mark.parametrize("page", [page for page in PAGES if fences(page, "sh")], ids=lambda page: page.name)
def test_the_commands_of_a_page_are_understood(page):
    found = {shlex.join(words): refused(words) for words in commands(page)}
    assert found
    assert {line: problem for line, problem in found.items() if problem} == {}


def test_commands_that_are_wrong_are_refused():
    wrong = (
        "procrustes trian graph.tsv",
        "procrustes train graph.tsv --focus 2",
        "procrustes train graph.tsv --recipe quick",
        "procrustes train graph.tsv --recipe fast --negatives 3",
        "procrustes train graph.tsv --time soon",
        "procrustes train graph.tsv --dim many",
        "procrustes predict runs/graph --heads a",
        "make tests",
        "pip install '.[everything]'",
        "python benchmarks/nothing.py",
        "conda install it",
    )
    assert [line for line in wrong if not refused(shlex.split(line))] == []
    right = ("procrustes bench table --only umls", "procrustes train --model rotate --dim 20", "pip install .")
    assert {line: problem for line in right if (problem := refused(shlex.split(line)))} == {}


LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
WITH_LINKS = (*PAGES, ROOT / "CHANGELOG.md")


def anchors(page):
    """Return what the headings of a page are linked by."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    """Return the links of a page that lead to no file, or to no heading of one; those to other sites are not tried."""
    text, broken = FENCE.sub("", page.read_text(encoding="utf-8")), []
    for link in (each[1] or each[2] for each in LINK.finditer(text)):
        place, _, anchor = link.partition("#")
        file = (page.parent / place).resolve() if place else page
        if not link.startswith("https://") and not (file.is_file() and (not anchor or anchor in anchors(file))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", WITH_LINKS, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert broken_links(page) == []


def test_links_that_lead_nowhere_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('# One\n\n[a](page.md#one) [b](#two) [c](gone.md) <img src="gone.svg"> [d](https://e.org)\n')
    assert broken_links(page) == ["#two", "gone.md", "gone.svg"]


def test_every_page_can_be_found():
    lists = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.md", "mkdocs.yml")}
    names = [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "index.md"]
    assert len(names) > 8
    assert [(place, name) for place, text in lists.items() for name in names if name not in text] == []
