"""Names made of values, whatever holds them: one rule for frames, rows, labels and Parquet.

The helper process that reads Parquet imports this: it is to start fast, without numpy and PyTorch.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import ROLES, Columns, named

PLAIN = (str, int)  # nearly all values, of which nothing has to be asked
SAMPLE = 1000  # values of a column that are looked at for what they have in common


def columns_of_values(where: str, columns: Iterable[list[Any]], notes: Sequence[str]) -> Columns:
    """Return columns of names, made of columns of values."""
    found = []
    for role, values in zip(ROLES, columns, strict=True):
        found.append(texts(where, role, values))
        notes = [*notes, *remarks(role, values)]
    return named(where, found, notes)


def texts(where: str, role: str, values: Sequence[Any], before: int = 0) -> list[str]:
    """Return values as names; errors count rows from those that come `before`."""
    try:
        return [str(value) if type(value) in PLAIN else name_of(value) for value in values]
    except (TypeError, ValueError):
        row, value = next((row, value) for row, value in enumerate(values, start=before + 1) if not _is_named(value))
        seen = "is not UTF-8" if isinstance(value, bytes) else f"is of type {type(value).__name__}"
        raise InputError(f"{where}, row {row}: the {role} {seen}, expected a name: text or a number") from None


def remarks(role: str, values: Sequence[Any]) -> list[str]:
    """Return a note where values are decimals that are whole, as pandas makes of whole numbers where one is missing."""
    whole = next((each for each in values[:SAMPLE] if isinstance(each, float) and each.is_integer()), None)
    return [] if whole is None else [f"the {role}s are decimal numbers: {whole} is another name than {whole:.0f}"]


def name_of(value: Any) -> str:
    """Return a value as a name, a missing one as none; what holds several values is a TypeError."""
    if hasattr(value, "detach"):  # a tensor
        value = value.item() if value.ndim == 0 else value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | Mapping | Set) or type(value).__name__ == "ndarray":
        raise TypeError
    # NaN and NaT differ from themselves; of NA, pandas does not say whether it does.
    missing = value is None or type(value).__name__ == "NAType" or value != value
    return "" if missing else str(value)


def _is_named(value: Any) -> bool:
    try:
        str(value) if type(value) in PLAIN else name_of(value)
    except (TypeError, ValueError):
        return False
    return True
