"""How the command ends by a signal: Ctrl-C (SIGINT) with exit code 130, SIGTERM with 143, each with a word.

While the command works, a signal raises KeyboardInterrupt or SystemExit: what is half written is removed on the way
out. While it trains, the first signal only asks to stop: what has been learned so far is kept. While modules load, and
while Python shuts down, an exception would be swallowed or shown as a traceback: there Ctrl-C ends the process at once.
This module imports next to nothing, for until it is loaded Ctrl-C is Python's own.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143  # 128 and the number of the signal, as shells have it
ASKED = b"finishing this epoch, so that nothing is lost; press Ctrl-C again to stop at once\n"

_stop: Callable[[], None] | None = None
_told = ASKED
_asked = 0  # the signal that came while `stop_first` was in force


def end_at_once() -> None:
    """Let Ctrl-C end the process at once, from here on."""
    _change(signal.SIGINT, signal.default_int_handler, _end)
    _change(signal.SIGTERM, _terminate, signal.SIG_DFL)


def leave() -> None:
    """Leave signals to the program that called the command."""
    release()
    _change(signal.SIGTERM, _terminate, signal.SIG_DFL)


def raise_again() -> None:
    """Let signals raise exceptions, from here on."""
    _change(signal.SIGINT, _end, signal.default_int_handler)
    _change(signal.SIGTERM, signal.SIG_DFL, _terminate)


def stop_first(stop: Callable[[], None], told: bytes = ASKED) -> None:
    """Let the first signal from here on call `stop`, and nothing more but words. A second one does not wait."""
    global _stop, _told, _asked  # a process has one set of handlers
    _stop, _told, _asked = stop, told, 0
    _change(signal.SIGINT, signal.default_int_handler, _ask)
    _change(signal.SIGTERM, _terminate, _ask)


def release() -> int:
    """Let signals raise exceptions again; return the number of the one that has asked to stop, or 0."""
    global _stop, _asked
    _change(signal.SIGINT, _ask, signal.default_int_handler)
    _change(signal.SIGTERM, _ask, _terminate)
    _stop, asked, _asked = None, _asked, 0
    return asked


def interrupt(number: int) -> NoReturn:
    """End as a signal would have ended the command."""
    if number == signal.SIGTERM:
        sys.exit(TERMINATED)
    raise KeyboardInterrupt


def _ask(number: int, frame: FrameType | None) -> None:
    global _asked  # noqa: PLW0603
    if _asked:
        interrupt(number)
    _asked = number
    os.write(2, _told)
    if _stop is not None:
        _stop()


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(TERMINATED)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _change(number: int, old: object, new: object) -> None:
    """Replace our own handler or Python's; a signal that is ignored, as under nohup, stays ignored."""
    if signal.getsignal(number) is old:
        try:  # noqa: SIM105  # contextlib takes longer to load than all of this
            signal.signal(number, new)  # type: ignore[arg-type]
        except ValueError:  # not the main thread, which alone receives signals
            pass
