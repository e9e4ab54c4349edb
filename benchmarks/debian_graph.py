"""Debian's package index as a knowledge graph: what packages depend on, come from, and are for.

    python benchmarks/debian_graph.py debian.tsv            # reads `apt-cache dumpavail`, after `apt-get update`
    python benchmarks/debian_graph.py debian.tsv --index FILE

Writes triples, one per line, and beside them a JSON file with the checksum of the index and its date.
"""

import argparse
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

from procrustes_kge.system.files import write_json_atomically

RELATED = (
    "Depends",
    "Pre-Depends",
    "Recommends",
    "Suggests",
    "Enhances",
    "Breaks",
    "Conflicts",
    "Replaces",
    "Provides",
)
FACTS = ("Source", "Section", "Maintainer", "Homepage")
LISTS = Path("/var/lib/apt/lists")


def triples(index: str) -> Iterator[tuple[str, str, str]]:
    """Yield (package, relation, target) for every statement of an index; of alternatives, each."""
    for paragraph in index.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, flags=re.MULTILINE))
        package = fields.get("Package")
        if not package:
            continue
        for field in RELATED:
            # Versions, architectures and build profiles are left out: `libc6:any (>= 2.34) [amd64]` is libc6.
            for target in re.split(r"[,|]", fields.get(field, "")):
                if name := re.match(r"[^\s:(\[<]+", target.strip()):
                    yield package, field.lower(), name[0]
        for field in FACTS:
            if value := fields.get(field, "").strip():
                yield package, field.lower(), _shortened(field, value)
        for tag in fields.get("Tag", "").split(","):
            facet, colons, _ = tag.strip().partition("::")
            if colons:
                yield package, facet, tag.strip()


def _shortened(field: str, value: str) -> str:
    """Return what is shared: a source without its version, an address without its path, a maintainer's name."""
    if field == "Source":
        return f"source {value.split()[0]}"
    if field == "Homepage":
        return re.sub(r"^\w+://([^/]*).*$", r"\1", value)
    return re.sub(r"\s*<.*>", "", value)


def index_date(folder: Path = LISTS) -> str | None:
    """Return the date that the newest of the system's package lists gives for itself."""
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in folder.glob("*InRelease")]
    dates = [parsedate_to_datetime(found[1]) for text in texts if (found := re.search(r"^Date: (.*)$", text, re.M))]
    return max(dates).isoformat() if dates else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--index", type=Path, help="a file that `apt-cache dumpavail` printed")
    parser.add_argument("--packages", type=int, help="the first so many packages alone")
    given = parser.parse_args()
    content = given.index.read_bytes() if given.index else subprocess.check_output(["apt-cache", "dumpavail"])
    paragraphs = content.decode("utf-8").split("\n\n")[: given.packages]
    found = list(dict.fromkeys(triples("\n\n".join(paragraphs))))
    given.target.write_text("".join("\t".join(triple) + "\n" for triple in found), encoding="utf-8")
    about = {
        "index": "apt-cache dumpavail",
        "date": None if given.index else index_date(),
        "sha256": hashlib.sha256(content).hexdigest(),
        "packages": len(paragraphs),
        "entities": len({name for head, _, tail in found for name in (head, tail)}),
        "relations": len({relation for _, relation, _ in found}),
        "triples": len(found),
    }
    write_json_atomically(given.target.with_suffix(".json"), about)
    print(json.dumps(about, indent=2))


if __name__ == "__main__":
    main()
