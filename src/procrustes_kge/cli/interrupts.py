"""Ctrl-C ends the command with one word and exit code 130.

While the command works, Ctrl-C raises KeyboardInterrupt: what is half written is removed on the way out. While modules
load, and while Python shuts down, that exception would be swallowed or shown as a traceback: there the process ends at
once. This module imports next to nothing, for until it is loaded Ctrl-C is Python's own.
"""

import os
import signal
from types import FrameType

INTERRUPTED = 130  # 128 and the number of the signal, as shells have it


def end_at_once() -> None:
    """Let Ctrl-C end the process at once, from here on."""
    _change(signal.default_int_handler, _end)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, from here on."""
    _change(_end, signal.default_int_handler)


def hold() -> None:
    """Let Ctrl-C wait, from here on, until what has been learned is saved. A second one does not wait."""
    _change(signal.default_int_handler, _wait)


def release() -> bool:
    """Let Ctrl-C raise KeyboardInterrupt again; say whether one has waited."""
    waited = signal.getsignal(signal.SIGINT) is _interrupt
    _change(_wait, signal.default_int_handler)
    _change(_interrupt, signal.default_int_handler)
    return waited


def _wait(number: int, frame: FrameType | None) -> None:
    _change(_wait, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _change(old: object, new: object) -> None:
    """Replace our own handler or Python's; a signal that is ignored, as under nohup, stays ignored."""
    if signal.getsignal(signal.SIGINT) is old:
        try:  # noqa: SIM105  # contextlib takes longer to load than all of this
            signal.signal(signal.SIGINT, new)  # type: ignore[arg-type]
        except ValueError:  # not the main thread, which alone receives signals
            pass
