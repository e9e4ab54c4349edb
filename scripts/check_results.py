"""Compare what is made from result files with them: tables and pictures in the pages, the package's results, recipes.

python scripts/check_results.py            name what differs; exit code 1 if anything does
python scripts/check_results.py --write    write tables, pictures and the package's results again where they differ
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import pictures  # noqa: E402
import result_files  # noqa: E402
import tables  # noqa: E402
from procrustes_kge.bench.studies import STUDIES  # noqa: E402
from procrustes_kge.bench.studies.drawing import draw_study, study_files  # noqa: E402
from procrustes_kge.bench.table import SHIPPED, Row, read_line, table_rows  # noqa: E402
from procrustes_kge.system.files import write_json  # noqa: E402
from procrustes_kge.training.baseline_recipes import PUBLISHED  # noqa: E402
from procrustes_kge.training.recipes import ALL_OPTIONS, values_of  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
TABLE = re.compile(r"(?<=<!-- )(?P<name>[^/].*?) -->\n(?P<shown>.*?)(?=<!-- /(?P=name) -->)", re.DOTALL)


def table_problems(pages: tuple[Path, ...] = PAGES, write: bool = False) -> Iterator[str]:
    """Compare every table between `<!-- name -->` and `<!-- /name -->` with what its result file gives."""
    used = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name, shown in TABLE.findall(text):
            used.add(name.split()[0])
            if name.split()[0] not in tables.TABLES:
                yield f"{page.name}: there is no table `{name}`; expected one of {', '.join(tables.TABLES)}"
                continue
            printed = f"{tables.printed(name)}\n"
            if shown != printed:
                text = text.replace(f"<!-- {name} -->\n{shown}", f"<!-- {name} -->\n{printed}")
                hint = "written again" if write else "run scripts/check_results.py --write"
                yield f"{page.name}: the table `{name}` is not what benchmarks/tables.py prints; {hint}"
        if write:
            page.write_text(text, encoding="utf-8")
    for name in tables.TABLES.keys() - used:
        yield f"the table `{name}` is on no page; add <!-- {name} --> and <!-- /{name} --> to one, or remove it"


def picture_problems(drawn: dict[Path, str] | None = None, write: bool = False) -> Iterator[str]:
    """Compare every picture with what is drawn from the result files, and find those that nothing draws."""
    drawn = pictures.pictures() if drawn is None else drawn
    for file, content in drawn.items():
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            hint = "drawn anew" if write else "run scripts/check_results.py --write"
            yield f"{file.name}: is not what benchmarks/pictures.py draws; {hint}"
            if write:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
    for folder in {file.parent for file in drawn}:
        for file in sorted(set(folder.glob("*")) - drawn.keys()):
            yield f"{file.name}: nothing draws it; add it to benchmarks/pictures.py, or remove it"


def figure_problems(
    write: bool = False, studies: Path = result_files.RESULTS / "studies", folder: Path = FIGURES
) -> Iterator[str]:
    """Compare the figures of studies in the pages with what is drawn from what they found, and find strangers."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in study_files(studies):
            for fresh in draw_study(file, Path(scratch), (".svg",)):
                shown = folder / fresh.name
                if not shown.exists() or shown.read_bytes() != fresh.read_bytes():
                    hint = "drawn anew" if write else "run scripts/check_results.py --write"
                    yield f"{shown.name}: is not what is drawn from {file.name}; {hint}"
                    if write:
                        folder.mkdir(parents=True, exist_ok=True)
                        shutil.copy(fresh, shown)
        drawn = {each.name for each in Path(scratch).iterdir()}
    names = tuple(f"{name}-" for name in STUDIES)
    for shown in sorted(folder.glob("*.svg")):
        if shown.name.startswith(names) and shown.name not in drawn:
            yield f"{shown.name}: no study of benchmarks/results/studies draws it; remove it"


def shipped_problems(
    write: bool = False, results: Path = result_files.RESULTS, file: Path | None = None
) -> Iterator[str]:
    """Compare the results that come with the package with the result files of the table's rows."""
    file = file or Path(str(SHIPPED))
    figures = {row.name: read_line(row, results).figures for row in table_rows()}
    wanted = {name: asdict(found) for name, found in figures.items() if found is not None}
    if not file.exists() or json.loads(file.read_text(encoding="utf-8")) != wanted:
        if write:
            write_json(file, wanted)
        hint = "written again" if write else "run scripts/check_results.py --write"
        yield f"{file.name}: the package's results are not those of benchmarks/results; {hint}"


def recipe_problems() -> Iterator[str]:
    """Compare the settings that a baseline's row was trained with with those of its recipe."""
    for row in table_rows():
        if row.recipe not in PUBLISHED:
            continue
        for run in json.loads(row.file(result_files.RESULTS).read_text(encoding="utf-8"))["runs"]:
            yield from _differences(row, run["settings"])


def _differences(row: Row, settings: dict[str, Any]) -> Iterator[str]:
    wanted = values_of(PUBLISHED[row.recipe][row.dataset])
    unused = {"device", "seed", *(["regularisation"] if wanted["regulariser"] == "none" else [])}
    unused |= ALL_OPTIONS - wanted.keys()  # older files have the options of every model
    for name, value in result_files.renamed(settings).items():
        if name not in unused and value != wanted.get(name):
            yield f"{row.name}: trained with {name} {value}, but its recipe has {wanted.get(name)}; train the row again"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what differs again")
    arguments = parser.parse_args()
    problems = [
        *shipped_problems(arguments.write),
        *table_problems(write=arguments.write),
        *picture_problems(write=arguments.write),
        *figure_problems(arguments.write),
        *recipe_problems(),
    ]
    print("\n".join(problems) if problems else "README, docs and the package show what the result files hold")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
