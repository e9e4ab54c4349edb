"""The command `procrustes`: arguments → functions → a few lines of text, or JSON."""

import sys
from collections.abc import Sequence

from procrustes_kge.cli import clock, interrupts


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the process, which has to happen before PyTorch is loaded, and run the command."""
    interrupts.end_at_once()
    clock.restart()
    from procrustes_kge.cli.app import run
    from procrustes_kge.system.process import prepare_process

    prepare_process()
    try:
        interrupts.raise_again()
        run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(interrupts.INTERRUPTED)
    finally:
        interrupts.leave()
        if arguments is None:  # the process ends with its command
            interrupts.end_at_once()
