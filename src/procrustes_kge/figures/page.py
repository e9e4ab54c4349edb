"""Self-contained pages: one HTML file that opens from disk, asks nobody for anything, and runs no script but ours.

Names come from graphs that nobody vouches for. They travel as JSON, which no HTML parser looks into, and scripts write
them as text. Were one to slip through all the same, the page's policy runs only the scripts whose checksums it lists,
and allows no request.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from procrustes_kge.errors import InputError
from procrustes_kge.system.files import explain_write_errors, scratch_folder
from procrustes_kge.system.written import put_in_place

POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"
REMEDY = "choose another --out, or add --force (in Python, force=True) to replace it"
NO_SCRIPT = "This page draws with JavaScript, which is switched off here."


def bundled(name: str) -> str:
    """Return a script or a style that comes with the package, such as map.js; `web/` has its source."""
    return (resources.files("procrustes_kge.figures") / "web" / name).read_text(encoding="utf-8")


def page(
    title: str,
    body: str,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    data: Mapping[str, object] | None = None,
) -> str:
    """Return a page. `body` is HTML of ours; `data` is what the scripts find as JSON in elements of these ids."""
    policy = "; ".join([POLICY, f"style-src {_checksums(styles)}", f"script-src {_checksums(scripts)}"])
    head = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        *(f"<style>{style}</style>" for style in map(_whole, styles)),
        "</head>",
        "<body>",
        body,
        f"<noscript>{NO_SCRIPT}</noscript>" if scripts else "",
    ]
    blocks = (
        f'<script type="application/json" id="{name}">{inert_json(each)}</script>'
        for name, each in (data or {}).items()
    )
    ending = [*blocks, *(f"<script>{script}</script>" for script in map(_whole, scripts)), "</body>", "</html>", ""]
    # A name that holds half of a surrogate pair has no bytes in UTF-8; in JSON and here it is written out.
    return "\n".join([*head, *ending]).encode("utf-8", "backslashreplace").decode("utf-8")


def inert_json(content: object) -> str:
    """Return JSON without any character that ends a script element or begins a tag, a comment or an entity.

    >>> inert_json(["</script>", "<!--", "a&b"])
    '["\\\\u003c/script\\\\u003e","\\\\u003c!--","a\\\\u0026b"]'
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda mark: f"\\u{ord(mark[0]):04x}", text)


def _checksums(texts: Sequence[str]) -> str:
    sums = (hashlib.sha256(_whole(text).encode("utf-8")).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in sums) or "'none'"


def _whole(text: str) -> str:
    """Return a script or a style as a browser reads it: it counts line ends as one character, so there is one kind."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if re.search("</(?:script|style)|<!--", text, flags=re.IGNORECASE):
        raise ValueError("a script or style that ends its own element")
    return text


def write_page(path: str | Path, text: str, force: bool = False) -> Path:
    """Write a page, whole or not at all. A file that was not written by this package is replaced only by force."""
    return put_file_in_place(Path(path), text.encode("utf-8"), force)


def put_file_in_place(target: Path, content: bytes, force: bool = False) -> Path:
    """Write a file of ours into a folder of the user's."""
    with explain_write_errors(target):
        if not target.parent.is_dir():
            raise InputError(f"{target.parent}: no such folder to write {target.name} into; choose another --out")
        if target.is_dir():
            raise InputError(f"{target}: is a folder, expected the name of a file; choose another --out")
        with scratch_folder(target) as scratch:
            fresh = scratch / target.name
            fresh.write_bytes(content)
            put_in_place({target: fresh}, scratch, REMEDY, force)
    return target
