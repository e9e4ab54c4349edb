"""The frame of the command: its verbs, how each is loaded, and how errors are shown."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from procrustes_kge.cli import completing
from procrustes_kge.cli.help import CONTEXT, Command, Group
from procrustes_kge.cli.interrupts import INTERRUPTED, end_at_once, raise_again
from procrustes_kge.cli.streams import flushed_output, prepare_streams
from procrustes_kge.cli.values import in_our_words
from procrustes_kge.errors import InputError
from procrustes_kge.system.files import explain_read_errors
from procrustes_kge.version import __version__

Function = TypeVar("Function", bound=Callable[..., Any])
VERBS = (
    "train",
    "tune",
    "resume",
    "evaluate",
    "predict",
    "score",
    "neighbours",
    "analogy",
    "missing",
    "explain",
    "calibrate",
    "relations",
    "report",
    "export",
    "import-vectors",
    "map",
    "update",
    "check",
    "data",
    "bench",
)  # each a module of this package

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, or auto: a GPU if there is one.")]
_RUN = {"help": "A folder written by `procrustes train`.", "show_default": False, "autocompletion": completing.runs}
RunFolder = Annotated[Path, typer.Argument(**_RUN)]


class Verb(typer.Typer):
    """A verb whose commands have help in plain text."""

    def command(self, *names: Any, **options: Any) -> Callable[[Function], Function]:
        """Return a decorator that makes a function a command."""
        return super().command(*names, **{"cls": Command, "context_settings": CONTEXT, **options})


def new_verb(**options: Any) -> Verb:
    """Return a verb without commands."""
    plain = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}
    return Verb(**{"cls": Group, "context_settings": CONTEXT, **plain, **options})


class Verbs(Group):
    """The verbs, each loaded when it is first used: `procrustes --version` does not wait for PyTorch."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(VERBS)  # type: ignore[assignment]  # loaded by get_command

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb by its name."""
        return _loaded(cmd_name) if cmd_name in VERBS else None

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; a value that no flag takes is a mistake like any other."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            raise in_our_words(error) or error from None


@cache
def _loaded(verb: str) -> Any:
    end_at_once()
    try:
        return typer.main.get_command(import_module(f"procrustes_kge.cli.{verb.replace('-', '_')}").verb)
    finally:
        raise_again()


WELCOME = """Predict missing links in a knowledge graph, in seconds.

Start here: train on the dataset that comes with the package, then ask what a dog is.

    procrustes train
    procrustes predict runs/wordnet-mini --head dog.n.01 --relation hypernym

Then use your own file, with a head, a relation and a tail on each line.

    procrustes train my-triples.tsv
"""

app = new_verb(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=True,
    help=WELCOME,
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"procrustes-kge {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Handle the flags that belong to no verb."""


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a user's mistake ends in one sentence and exit code 2."""
    prepare_streams()
    try:
        with explain_read_errors(), flushed_output():
            app(args=list(arguments) if arguments is not None else None, prog_name="procrustes")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("error: memory ran out; give it less to read, or more memory", file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("interrupted", file=sys.stderr)
        raise
