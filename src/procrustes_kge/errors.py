"""The exceptions for mistakes that a user can make and correct."""

from typing import Any

LONGEST = 1000  # characters of a message


class InputError(ValueError):
    """A mistake in the input; the message says what was seen, what was expected and what to do.

    The command line prints the message without a traceback and exits with code 2. What a file has put into it is shown
    in one line of characters that can be printed, and of no great length.
    """

    def __init__(self, message: str) -> None:
        line = printable(message)
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}")


class DivergedError(InputError):
    """Training diverged; `model` has the last good weights."""

    def __init__(self, message: str, model: Any) -> None:
        super().__init__(message)
        self.model = model


def printable(text: str) -> str:
    """Return text in one line, with escapes for what would move a terminal's cursor or change its colours.

    >>> printable("two\\nlines, \\x1b[31mred")
    'two\\\\nlines, \\\\x1b[31mred'
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
