"""How long the command has been running, the loading of its modules included."""

import time

_started = time.perf_counter()


def restart() -> None:
    """Take this moment as the command's beginning."""
    global _started  # noqa: PLW0603  # a process has one beginning
    _started = time.perf_counter()


def elapsed() -> float:
    """Return the seconds since the command began."""
    return time.perf_counter() - _started
