"""The exceptions for mistakes that a user can make and correct."""

from pathlib import Path
from typing import Any

LONGEST = 300  # characters of a reason


class InputError(ValueError):
    """A mistake in the input; the message says what was seen, what was expected and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class DamagedFolderError(InputError):
    """A folder of ours is not as it was written; `reason` says what is wrong, the message what to do as well."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DivergedError(InputError):
    """Training diverged; `model` has the last good weights."""

    def __init__(self, message: str, model: Any) -> None:
        super().__init__(message)
        self.model = model


def in_one_line(error: Exception) -> str:
    """Return an error in one short line of characters that can be printed: it may have words of a file in it."""
    if isinstance(error, OSError) and error.filename:
        reason = f"{Path(error.filename).name}: {error.strerror}"
    else:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    line = " ".join(reason.split())
    line = line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
