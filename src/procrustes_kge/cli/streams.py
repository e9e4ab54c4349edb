"""Standard output and error that cannot fail: not on a name that cannot be shown, nor when nobody reads."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from procrustes_kge.errors import InputError


class _Unfailing(io.FileIO):
    """A file that may be a pipe: once nobody reads it (`| head`), what is written goes nowhere, and work goes on.

    What else keeps it from writing, such as a full disk, is told once.
    """

    told = False

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes
        except OSError as error:
            if not self.told:
                self.told = True
                seen = f"the output cannot be written ({error.strerror})"
                raise InputError(f"{seen}; mend that or send it elsewhere") from None
            return memoryview(data).nbytes


@contextmanager
def flushed_output() -> Iterator[None]:
    """Write out what the work printed while an error can still be told."""
    try:
        yield
    finally:
        if sys.stdout is not None:  # closed
            sys.stdout.flush()


def prepare_streams() -> None:
    """Write names that the terminal cannot show as \\u…, and ignore output that nobody reads.

    The last lines are written when Python shuts down, where an error would be a traceback and another exit code.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        stream.reconfigure(errors="backslashreplace")
        raw = getattr(stream.buffer, "raw", stream.buffer)  # the same where Python is told to buffer nothing (-u)
        if type(raw) is io.FileIO and raw.fileno() in (1, 2):  # the process's own, which a test may have replaced
            stream.flush()
            unfailing: Any = _Unfailing(raw.fileno(), "w", closefd=False)
            whole = stream.encoding, "backslashreplace", None, stream.line_buffering, stream.write_through
            setattr(
                sys, name, io.TextIOWrapper(unfailing if stream.buffer is raw else io.BufferedWriter(unfailing), *whole)
            )
