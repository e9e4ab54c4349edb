"""From the file of a study to its figures; nothing is measured."""

from __future__ import annotations

from pathlib import Path

from procrustes_kge.bench.studies import STUDIES, find_study
from procrustes_kge.bench.studies.kept import findings, read_study
from procrustes_kge.errors import InputError, in_one_line
from procrustes_kge.figures.style import SUFFIXES, can_draw, save_figures


def draw_study(file: Path, folder: Path, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """Draw a study from its file into a folder; return what was written."""
    can_draw()
    content = read_study(file)
    study = find_study(content["study"])
    try:
        figures = study.draw(findings(content))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        reason = in_one_line(error)
        raise InputError(f"{file}: its rows cannot be drawn ({reason}); delete it to measure anew") from error
    return save_figures(figures, folder / file.stem, suffixes)


def study_files(place: Path) -> list[Path]:
    """Return the file, or those of a folder whose names are those of studies; there has to be one."""
    if not place.is_dir():
        return [place]
    found = [file for file in sorted(place.glob("*.json")) if file.name.split("-")[0] in STUDIES]
    if not found:
        raise InputError(f"{place}: has no file of a study; `procrustes bench dims --out {place}` makes one")
    return found
