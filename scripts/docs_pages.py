"""Pages that `make docs` adds to those of docs/: those beside it, and the API reference, a page for each room."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGE = "procrustes_kge"
BESIDE = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
# The public names by the room that they live in, in the order in which a user meets them.
JOBS = {
    "graphs": "Read triples",
    "training": "Learn",
    "models": "Rank",
    "explore": "Ask, explain, update",
    "figures": "Maps and reports",
    "runs": "Save, load, export",
    "errors": "Errors",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the API reference to the navigation."""
    config.nav = [*(config.nav or []), {"API reference": list(api_pages())}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    beside = {page: (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](") for name, page in BESIDE.items()}
    for name, content in {**beside, **api_pages()}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to what is beside docs/ in the repository to its page."""
    for name, page in BESIDE.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    return markdown


def api_pages() -> dict[str, str]:
    """Return the pages of the reference: the public names, then a page for each room."""
    package = griffe.load(PACKAGE, search_paths=[ROOT / "src"])
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    names = [name for layer in layers for name in layer.split(" | ") if not name.startswith("_")]
    rooms = [package.modules[name] for name in names]
    pages = {"api/index.md": public_names(package, [room.name for room in rooms])}
    for room in rooms:
        pages[f"api/{room.name}.md"] = (
            f"# {room.name}\n\n::: {room.path}\n    options:\n      show_root_heading: false\n"
        )
    return pages


def public_names(package: Any, rooms: list[str]) -> str:
    """Return the page of the names that can be imported from the package, with the first sentence of each."""
    found = [alias for alias in package.all_members.values() if alias.is_alias and not alias.name.startswith("_")]
    lines = ["# API reference", "", f"These names are imported from `{PACKAGE}`:", ""]
    for room, job in JOBS.items():
        lines += [f"## {job}", "", "| name | what it is |", "|---|---|"]
        for alias in found:
            if alias.target_path.split(".")[1] == room:
                target = package[alias.target_path.removeprefix(f"{PACKAGE}.")]
                lines.append(f"| [`{alias.name}`][{target.path}] | {first_sentence(target.docstring.value)} |")
        lines.append("")
    if missing := [alias.name for alias in found if not any(f"[`{alias.name}`]" in line for line in lines)]:
        raise ValueError(f"public names of a room without a heading in JOBS: {', '.join(missing)}")
    listed = ", ".join(f"[{room}]({room}.md)" for room in rooms)
    return "\n".join([*lines, "## All modules", "", f"Room by room, for readers of the code: {listed}.", ""])


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, on one line that a table can hold."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0].replace("|", "\\|")
