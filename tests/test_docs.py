"""What the pages name is there: functions, files, flags. That what they show works is in `test_examples.py`.

Their tables and pictures are compared with the result files by `scripts/check_results.py`.
"""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

import procrustes_kge
from procrustes_kge.cli.app import app

ROOT = Path(__file__).parents[1]
PACKAGE = Path(procrustes_kge.__file__).parent
PAGES = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
NEED_TRITON = ("kernels.distances", "kernels.full_batch")

NAME = re.compile(r"(?<=`)[A-Za-z]\w*(?:\.[A-Za-z]\w*)+(?=`)")
SUFFIXES = (".json", ".md", ".py", ".safetensors", ".toml", ".txt", ".vec", ".npy", ".npz", ".parquet", ".yml", ".lock")
FILE = re.compile(r"(?<=`)(?:tests/|benchmarks/|scripts/)?[a-z]\w*(?:/[\w*]*)*(?:/|\.py)(?=`)")
FLAG = re.compile(r"(?<![\w!<-])--[a-z][a-z0-9-]*")
VERB = re.compile(r"procrustes (bench \w+|data get|\w[\w-]*)")
OF_OTHERS = {"--try", "--write", "--version", "--only", "--minutes"}  # of scripts, and of the command before any verb
OF_OTHERS |= {"--install-completion"}  # of the shell
OF_OTHERS |= {"--require-hashes", "--no-deps", "--no-build-isolation"}  # of pip


@cache
def modules():
    """Return the modules of the package, each by what follows the package's name."""
    names = (".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py"))
    return [name.removesuffix(".__init__") for name in names if name not in ("__init__", "__main__", *NEED_TRITON)]


def missing_names(text):
    """Return each `module.name` in a text that is not in the code; variables of the text's own Python are left out."""
    names = [name for name in NAME.findall(text) if f"{name.split('.')[0]} = " not in text]
    return [name for name in names if not name.endswith(SUFFIXES) and not is_there(name)]


def is_there(name):
    """Say whether some module, named in full or by its last word, has what follows its name."""
    words = name.split(".")
    return any(
        f".{module}".endswith(f".{'.'.join(words[:size])}")
        and has(import_module(f"procrustes_kge.{module}"), words[size:])
        for size in range(1, len(words) + 1)
        for module in modules()
    )


def has(found, names):
    """Say whether an attribute of an attribute … is there; a field of a class is, without a default too."""
    for name in names:
        if not hasattr(found, name):
            return name in {*getattr(found, "__dataclass_fields__", ()), *getattr(found, "_fields", ())}
        found = getattr(found, name)
    return True


def missing_files(text):
    """Return each file or folder that a text names, from the package or from the root, and that is not there."""
    return [name for name in FILE.findall(text) if not any(any(root.glob(name)) for root in (PACKAGE, ROOT))]


def flags_of(command):
    """Return the flags of a command of typer."""
    return {flag for each in command.params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("--")}


@cache
def verbs():
    """Return the flags of each verb of the command, those of verbs of verbs under both words."""
    command, found = typer.main.get_command(app), {}
    for name in command.list_commands(None):
        verb = command.get_command(None, name)
        found[name] = flags_of(verb)
        for inner in verb.commands.values() if isinstance(verb, TyperGroup) else ():
            found[f"{name} {inner.name}"] = flags_of(inner)
    return {name: {*flags, "--help"} for name, flags in found.items()}


def unknown_flags(text):
    """Return the flags in a text that no command has, and those behind a verb that the verb has not."""
    known = set().union(*verbs().values(), OF_OTHERS)
    unknown = [flag for flag in FLAG.findall(text) if flag not in known]
    for line in re.split(r"\n|`", text):
        if verb := VERB.match(line):
            unknown += [flag for flag in FLAG.findall(line.split("#")[0]) if flag not in verbs().get(verb[1], ())]
    return unknown


@every_page
def test_what_a_page_names_is_in_the_code(page):
    text = page.read_text(encoding="utf-8")
    assert missing_names(text) == []
    assert missing_files(text) == []


def test_every_equation_has_a_function():
    text = (ROOT / "docs" / "maths.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \|$", text.split("## ")[0], flags=re.MULTILINE)[1:]
    assert len(rows) > 20
    assert [row for row in rows if not NAME.search(row.split(" | ")[-1])] == []


def test_every_room_is_on_the_page_that_lists_them():
    rooms = [path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(rooms) > 5
    assert [room for room in rooms if f"| `{room}/` |" not in text] == []


@every_page
def test_every_flag_that_a_page_names_exists(page):
    assert unknown_flags(page.read_text(encoding="utf-8")) == []


def test_what_is_not_there_is_found():
    assert missing_names("`linalg.spherise` `ranking.Ranks.realistic` `models.ranking.rank` `report.json`") == []
    assert missing_names("one = 1, so that `one.real` is a number") == []
    assert missing_names("`loop.Trainer.pause` `linalg.sphere` `room.name` `Ranks.realistic`") == [
        "loop.Trainer.pause",
        "linalg.sphere",
        "room.name",
        "Ranks.realistic",
    ]
    assert missing_files("`training/loop.py` `training/*_settings.py` `runs/` `linalg.py` `tests/test_docs.py`") == []
    assert missing_files("`training/loops.py` `attic/`") == ["training/loops.py", "attic/"]
    assert unknown_flags("<!-- best --> `--no-translate`, --dim 3 and\nprocrustes bench table --only umls  # --x") == [
        "--x"
    ]
    assert unknown_flags("`--focus 1` and\n`procrustes predict run --dim 5`") == ["--focus", "--dim"]
