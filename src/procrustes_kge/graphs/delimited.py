"""Delimited text: the separator and the header are recognised, and an error names the line."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice, repeat

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import SAY_WHICH, Columns, choose, named, numbered, recognised, shortened
from procrustes_kge.graphs.contents import decode
from procrustes_kge.graphs.limits import MOST_COLUMNS
from procrustes_kge.words import counted

SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "space": " ", "semicolon": ";", "pipe": "|"}
# Spreadsheets quote names in comma and semicolon files; elsewhere a quotation mark is part of the name.
QUOTING_SEPARATORS = (",", ";")
SAMPLE_ROWS = 20  # enough to outvote a stray comma in a name, few enough to cost nothing
SAMPLE_CHARACTERS = 65_536  # room for those rows


def parse_delimited(
    data: bytes,
    where: str,
    separator: str | None = None,
    header: bool | None = None,
    wanted: Sequence[str] | None = None,
) -> Columns:
    """Return the columns of delimited text; `where` names it in errors.

    A header is recognised by three words that are known, or by the names that are wanted. A first line without them
    counts as a triple, but a doubtful one.
    """
    text = decode(data, where)
    end = text.find("\n", SAMPLE_CHARACTERS)
    sample = text[:end] if end > 0 else text  # of whole lines, however long
    if separator is None:
        separator = guess_separator(sample)
    separator = SEPARATORS.get(separator.lower(), separator)
    if separator not in SEPARATORS.values():
        raise InputError(f"separator {separator!r} is not known; use tab, comma, space, ';' or '|'")
    rows = numbered_rows(sample, separator, where)
    line, first = next(rows, (0, []))
    given, skipped = header, list(map(str.strip, first))
    if header is None:
        header = _is_header(skipped) or not all(map(str.isdecimal, wanted or ()))
    _, typical = next(rows, (0, first)) if header else (line, first)
    width = len(typical) if typical else 3
    if width < 3 or (width > 3 and not (header or wanted)):
        raise _fault(text, separator, where, int(header), 3)
    # A line that is skipped, but is no header of these columns, may be a comment.
    places, taken = choose(skipped if header and len(skipped) == width else numbered(width), wanted, where)
    names, repeated = _without(_names(text, separator, where, int(header), width), first if header else [], width)
    notes = [f"{counted(1 + repeated, 'header line')} skipped ({shortened(skipped)})"] if header else []
    if not header or places != list(range(width)):
        notes += taken

    def place(row: int) -> str:
        rows = islice(numbered_rows(text, separator, where), int(header), None)
        number, _ = next(islice((each for each in rows if not repeated or each[1] != first), row, None))
        return f"{where}, line {number}"

    doubtful = "" if header or given is False else f"{where}, line {line}"
    return named(where, (names[place::width] for place in places), notes, place, doubtful)


def _is_header(words: Sequence[str]) -> bool:
    """Say whether the words of a line are known as names of head, relation and tail."""
    places = recognised(words)
    if places is None:
        return False
    # One-letter words in another order ('t r s') are more likely a triple of a toy graph.
    return places == [0, 1, 2] or min(len(words[place]) for place in places) > 1


def _names(text: str, separator: str, where: str, skip: int, width: int) -> list[str]:
    """Return the names of all lines after the first `skip`, in file order, `width` to a line."""
    # Lines are cut all at once; only a fault is looked for line by line.
    names, widths = list[str](), set[int]()
    if separator in QUOTING_SEPARATORS and '"' in text:
        for _, row in islice(numbered_rows(text, separator, where), skip, None):
            names += row
            widths.add(len(row))
    else:
        if separator == " " and "  " in text:
            text = re.sub(" {2,}", " ", text)
        # Not splitlines: it also breaks lines at \x0b, U+2028 and others, which may be part of a name.
        lines = list(filter(None, map(str.strip, text.split("\n"), repeat(" \r"))))[skip:]
        widths = {separators + 1 for separators in set(map(str.count, lines, repeat(separator)))}
        if widths == {width}:
            names = separator.join(lines).split(separator)
    if not widths <= {width}:
        raise _fault(text, separator, where, skip, width)
    return names


def _without(names: list[str], header: list[str], width: int) -> tuple[list[str], int]:
    """Return names without the rows that repeat the header, as joined files have them, and how many they were."""
    if len(header) != width or header[0] not in names[::width]:
        return names, 0
    rows = (names[start : start + width] for start in range(0, len(names), width))
    kept = [name for row in rows if row != header for name in row]
    return kept, (len(names) - len(kept)) // width


def numbered_rows(text: str, separator: str, where: str = "") -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the names, not yet stripped, of every line that is not blank."""
    lines = io.StringIO(text)  # ends lines at \n alone
    if separator not in QUOTING_SEPARATORS or '"' not in text:
        for number, line in enumerate(lines, start=1):
            if stripped := line.strip(" \r\n"):
                # Columns are often aligned with several spaces.
                once = re.sub(" {2,}", " ", stripped) if separator == " " and "  " in stripped else stripped
                yield number, _checked(once, separator, where, number).split(separator)
        return
    # Strict, or an open quotation mark would swallow the rest of the file into one name.
    checked = (_checked(line, separator, where, number) for number, line in enumerate(lines, start=1))
    reader, number = csv.reader(checked, delimiter=separator, skipinitialspace=True, strict=True), 1
    try:
        for row in reader:
            if len(row) > 1 or any(row):
                yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{where}, line {number}: cannot be split into columns ({error}); "
            'put quotation marks around whole names and double those inside: "the ""Iron"" Lady"'
        ) from None


def _checked(line: str, separator: str, where: str, number: int) -> str:
    """Return a line; refuse it before it is cut into more columns than a table may have."""
    if len(line) >= MOST_COLUMNS and (columns := line.count(separator) + 1) > MOST_COLUMNS:
        seen = f"{where}, line {number}: {columns:,} columns, expected {MOST_COLUMNS:,} at most"
        raise InputError(f"{seen}; is the file damaged? keep the columns that are needed")
    return line


def _share_of_triples(text: str, separator: str, limit: int | None = None, width: int = 3) -> float:
    """Return which share of the first `limit` lines has three columns, or `width`, when cut at the separator."""
    try:
        widths = [len(row) for _, row in islice(numbered_rows(text, separator), limit)]
    except InputError:
        return 0.0
    return widths.count(width) / max(len(widths), 1)


def guess_separator(text: str) -> str:
    """Return a tab or a comma if the first lines have one, else a space."""
    if any("\t" in line for line in islice(io.StringIO(text), SAMPLE_ROWS)):
        return "\t"
    # Names may have commas too, so spaces win where they alone make every line a triple; but
    # 'Paris, capital_of, France' is one either way, and there the comma is meant.
    commas, spaces = (_share_of_triples(text, separator, SAMPLE_ROWS) for separator in (",", " "))
    return " " if "," not in text or commas < spaces == 1.0 else ","


def _fault(text: str, separator: str, where: str, skip: int, width: int) -> InputError:
    """Return the error for the first line, after the first `skip`, that does not hold `width` names."""
    rows = islice(numbered_rows(text, separator, where), skip, None)
    number, row = next((number, row) for number, row in rows if len(row) != width)
    advice, seen = _advice(text, text.split("\n")[number - 1], separator, len(row)), counted(len(row), "column")
    if len(row) > 3:
        seen += f" ({shortened(list(map(str.strip, row)))})"
    expected = "3 (head, relation, tail)" if width == 3 else f"{width} as in the lines above"
    return InputError(f"{where}, line {number}: {seen}, expected {expected}; {advice}")


def _advice(text: str, line: str, separator: str, columns: int) -> str:
    """Return what to do about a line with too few or too many columns."""
    if line.lstrip().startswith(("#", "%", "//")):
        return "if it is a comment, remove it; --header skips one in the first line"
    for word, other in SEPARATORS.items():
        # Semicolons and pipes are rare as separators: one line alone does not speak for them, but all do, of any width.
        rare = other in ";|"
        tested, width = (text, max(3, line.count(other) + 1)) if rare else (line, 3)
        if other != separator and other in line and _share_of_triples(tested, other, width=width) == 1.0:
            shown = "tab" if other == "\t" else repr(other)
            return f"is the separator a {word}? try --separator {shown}"
    if (columns == 1 and len(line.split(maxsplit=3)) > 3) or (columns > 3 and separator == " "):
        return "names with spaces in them need tabs between the columns"
    if columns < 3:
        return "complete the line or remove it"
    all_alike = _share_of_triples(text, separator, width=columns) == 1.0 and line != text.strip()
    if separator in QUOTING_SEPARATORS and not all_alike:
        return f"put names with {separator!r} in them in quotation marks, or {SAY_WHICH}"
    return SAY_WHICH
