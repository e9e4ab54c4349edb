"""The exceptions for mistakes that a user can make and correct."""

from pathlib import Path
from typing import Any

LONGEST, LONGEST_REASON = 1000, 300  # characters of a message, and of a reason within one


class InputError(ValueError):
    """A mistake in the input; the message says what was seen, what was expected and what to do.

    The command line prints the message without a traceback and exits with code 2. What a file has put into it is shown
    in one line of characters that can be printed, and of no great length.
    """

    def __init__(self, message: str) -> None:
        line = printable(message)
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}")


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


def in_one_line(error: BaseException) -> str:
    """Return an error as a short reason: it may have words of a file in it."""
    if isinstance(error, OSError) and error.filename:
        reason = f"{Path(error.filename).name}: {error.strerror}"
    else:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    line = printable(" ".join(reason.split()))
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}…"


def printable(text: str) -> str:
    """Return text in one line, with escapes for what would move a terminal's cursor or change its colours.

    >>> printable("two\\nlines, \\x1b[31mred")
    'two\\\\nlines, \\\\x1b[31mred'
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
