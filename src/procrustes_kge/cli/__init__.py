"""The command `procrustes`: arguments → functions → a few lines of text, or JSON."""

from collections.abc import Sequence

from procrustes_kge.cli.app import run
from procrustes_kge.system import process


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the process, which has to happen before PyTorch is loaded, and run the command."""
    process.prepare_process()
    run(arguments)
