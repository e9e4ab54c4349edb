"""What the tests of graphs share: Parquet read without another process, where the process is not what is tested."""

import io
import json
from types import SimpleNamespace

import pytest

from procrustes_kge.graphs import parquet


@pytest.fixture(scope="module")
def parquet_here():
    """Read Parquet in this process, by what the other process runs, without its limits."""

    def here(module, given, where, seconds):
        output = io.BytesIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parquet, "sys", SimpleNamespace(stdin=_stream(given), stdout=_stream(output)))
            parquet.answer(parquet._write_names)
        content, _, report = output.getvalue().rpartition(parquet.BEGINS)
        return content, json.loads(report)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_ended", here)
        patch.setattr(parquet, "_limit", lambda *_: None)
        patch.setattr(parquet, "signal", SimpleNamespace(signal=lambda *_: None, SIGINT=None, SIG_IGN=None))
        patch.setattr(parquet, "os", SimpleNamespace(_exit=lambda _: None))
        yield


def _stream(data):
    return SimpleNamespace(buffer=data if isinstance(data, io.BytesIO) else io.BytesIO(data))
