"""The exceptions for mistakes that a user can make and correct."""

from typing import Any


class InputError(ValueError):
    """A mistake in the input; the message says what was seen, what was expected and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class DivergedError(InputError):
    """Training diverged; `model` has the last good weights."""

    def __init__(self, message: str, model: Any) -> None:
        super().__init__(message)
        self.model = model
