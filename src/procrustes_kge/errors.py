"""The exceptions for mistakes that a user can make and correct."""

from typing import Any


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
