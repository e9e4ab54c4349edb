"""Help pages in plain text: flags in groups, the usual ones on `--help`, all of them on `--help-all`.

A docstring is the text of its page; lines indented by four are shown as they are.
"""

import re
from inspect import cleandoc
from typing import Any, no_type_check

import typer
from typer.core import TyperCommand, TyperGroup

WIDEST = 100
COLUMN = 26  # characters for the names of flags; longer ones have a line of their own
CONTEXT = {"help_option_names": ["--help", "-h"], "max_content_width": WIDEST}
EVERYTHING = "procrustes_kge.help"  # whether a context shows all flags
OTHERS = "Options"
# Of commands with many flags: the groups of flags, the usual ones before the bar.
GROUPS = {
    "train": {
        "Graph": "columns labels | header separator valid test split-seed",
        "Recipe": "recipe model dim epochs |",
        "Time and memory": "time memory device |",
        "Output": "out json | entities-only grid",
    },
    "tune": {
        "Graph": "columns labels | header separator valid test split-seed",
        "Recipe": "recipe model dim epochs |",
        "Search": "time trials resume device |",
        "Output": "out json |",
    },
}
VALUES = {  # what stands after a flag
    "checkpoint_every": "TIME|NUMBER",
    "columns": "H,R,T",
    "count": "NUMBER",
    "device": "DEVICE",
    "folder": "FOLDER",
    "format": "FORMAT",
    "grid": "GRID",
    "head": "NAME",
    "labels": "FILE",
    "memory": "SIZE",
    "model": "NAME",
    "only": "ROW",
    "out": "FOLDER",
    "recipe": "NAME",
    "relation": "NAME",
    "replay": "CHANGES",
    "separator": "CHARACTER",
    "split": "SPLIT",
    "tail": "NAME",
    "time": "TIME",
}


class Page:
    """A command whose help is plain text."""

    def collect_usage_pieces(self: Any, ctx: Any) -> list[str]:
        """Return what follows the command, arguments in capitals."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.upper().strip("{}") for piece in pieces]

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        """Write the whole page."""
        self.format_usage(ctx, formatter)
        for paragraph in cleandoc(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            if paragraph.startswith("    "):
                formatter.write("".join(f"{line[2:]}\n" for line in paragraph.splitlines()))
            else:
                formatter.write_text(_plain(paragraph))
        sections = self.sections(ctx)
        lengths = [len(names) for rows in sections.values() for names, _ in rows]
        width = max((length for length in lengths if length <= COLUMN), default=0)  # the same in all sections
        for heading, rows in sections.items():
            with formatter.section(typer.style(heading, bold=True)):
                formatter.write_dl([(names.ljust(width), words) for names, words in rows], col_max=COLUMN)

    def sections(self: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return the groups of flags that this page shows, each flag with its help."""
        groups, everything = GROUPS.get(str(self.name), {}), bool(ctx.meta.get(EVERYTHING))
        found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in groups}
        if hasattr(self, "list_commands"):
            commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
            found["Commands"] = [(name, _first_sentence(command.help)) for name, command in commands]
        params = {_flag(param): param for param in self.get_params(ctx)}
        order = [*(param.name for param in params.values() if _is_argument(param)), *_all_flags(groups)]
        for flag in sorted(params, key=lambda flag: order.index(flag) if flag in order else len(order)):
            heading, usual = _group(flag, groups, params[flag])
            if usual or everything:
                found.setdefault(heading, []).append(_row(params[flag], ctx))
        if OTHERS in found:  # last, with --help
            found[OTHERS] = found.pop(OTHERS)
        return {heading: rows for heading, rows in found.items() if rows}


class Command(Page, TyperCommand):
    """A command with such a page."""


class Group(Page, TyperGroup):
    """A group of commands with such a page."""


@no_type_check  # typer asks for this type, and passes a context of the parent class
def show_everything(context: typer.Context, wanted: bool) -> bool:
    """Print the page with all flags, and leave."""
    if wanted:
        context.meta[EVERYTHING] = True
        typer.echo(context.get_help())
        raise typer.Exit
    return wanted


def _all_flags(groups: dict[str, str]) -> list[str]:
    return " ".join(groups.values()).replace("|", "").split()


def _group(flag: str, groups: dict[str, str], param: Any) -> tuple[str, bool]:
    """Return the heading that a flag or an argument stands under, and whether it is a usual one."""
    if _is_argument(param):
        return next(iter(groups), "Arguments"), True
    for heading, flags in groups.items():
        usual, _, others = flags.partition("|")
        if flag in (usual + others).split():
            return heading, flag in usual.split()
    return getattr(param, "rich_help_panel", None) or OTHERS, not groups or flag in ("help", "help-all")


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _flag(param: Any) -> str:
    return next((name.removeprefix("--") for name in param.opts if name.startswith("--")), str(param.name))


def _row(param: Any, ctx: Any) -> tuple[str, str]:
    """Return the names of a flag with what stands after it, and its help with its default."""
    shown, words = param.get_help_record(ctx)
    words = re.sub(r"\[default: \((.*)\)\]", r"[default: \1]", _plain(words))
    if _is_argument(param):
        return param.name.upper(), words
    flag, names = _flag(param), ", ".join(sorted(param.opts, key=len))
    if param.is_flag:
        others = ", ".join(param.secondary_opts)
        names = names.replace("--", "--[no-]") if others.startswith("--no-") else f"{names}, {others}".strip(", ")
        return names, re.sub(r" *\[default: [^\]]*\]", "", words)
    return f"{names} {param.metavar or VALUES.get(flag) or _kind(shown)}", words


def _kind(shown: str) -> str:
    """Return what a value is, in our words for Typer's, such as <int> or [npy|parquet]."""
    kind = shown.split()[-1].strip("<>[]")
    return kind if "|" in kind else "NUMBER" if re.match("int|float", kind, re.IGNORECASE) else "TEXT"


def _plain(text: str) -> str:
    return text.replace("`", "")


def _first_sentence(text: str | None) -> str:
    return _plain(cleandoc(text or "")).partition("\n\n")[0].replace("\n", " ")
