"""The exceptions for mistakes that a user can make and correct."""

from typing import Any


class InputError(ValueError):
    """A mistake in what the user gave: the message says what was seen, what was expected and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class DivergedError(InputError):
    """Training diverged; `model` is the last that was good."""

    def __init__(self, message: str, model: Any) -> None:
        super().__init__(message)
        self.model = model
