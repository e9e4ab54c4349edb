"""Packages that only some work needs: an extra of the installation brings each, and where it is missing it is named."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from procrustes_kge.errors import InputError

EXTRAS = {
    "polars": "parquet",
    "pyoxigraph": "rdf",
    "backports.zstd": "zstd",
    "compression.zstd": "zstd",  # a part of Python from 3.14 on
    "codecarbon": "co2",
    "pycountry": "co2",
    "optuna": "tune",
    "pykeen": "exchange",
    "matplotlib": "plots",
    "faiss": "index",
}


def package(name: str, work: str) -> Any:
    """Import a package of an extra; `work` says in a few words what needs it."""
    try:
        return import_module(name)
    except ImportError:
        raise _missing(name, work) from None


def require(name: str, work: str) -> None:
    """Refuse work whose package is not installed; it is not imported here."""
    if find_spec(name) is None:
        raise _missing(name, work)


def _missing(name: str, work: str) -> InputError:
    return InputError(f"{work} needs {name}: {how_to_get(name)}")


def how_to_get(name: str) -> str:
    """Return the command that installs the extra of a package.

    >>> how_to_get("polars")
    "pip install 'procrustes-kge[parquet]'"
    """
    return f"pip install 'procrustes-kge[{EXTRAS[name]}]'"
