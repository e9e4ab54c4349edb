"""What the package stands on: its dependencies locked, compared with advisories, their licences, a bill of materials.

python scripts/supply.py lock               make requirements.lock again: the versions of constraints.txt, with hashes
python scripts/supply.py audit              compare the lock with the published advisories
python scripts/supply.py licences           compare docs/licences.md with what is locked and installed
python scripts/supply.py licences --write   write that page again
python scripts/supply.py sbom               write dist/procrustes-kge.cdx.json, a CycloneDX bill of materials

The exit code is 0 where all is well, 1 where something was found, and 2 where the work could not be done.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK, CONSTRAINTS = ROOT / "requirements.lock", ROOT / "constraints.txt"
LICENCES, SBOM = ROOT / "docs" / "licences.md", ROOT / "dist" / "procrustes-kge.cdx.json"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# All that `pip install '.[all]'` needs, and what builds the package, on every system; made by `make lock`.
HEAD = """\
# What procrustes-kge[all] and its build need, on every system, with the hashes of the published files.
# `make lock` makes this file; SECURITY.md says how to install from it.
"""
CUDA = (
    "# PyTorch as it is published, and what it alone brings: leave all from here on out to use a PyTorch of your own.\n"
)
ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.*?))? \\\n"
    r"(?P<hashes>(?: +--hash=\S+(?: \\)?\n)+)(?: +# via (?P<via>.*)\n)?",
    re.MULTILINE,
)
PIN = re.compile(r"^([\w.-]+)==(\S+)$", re.MULTILINE)

# An SPDX expression may be made of these. Their works may be used by works of any licence, given that they are named;
PERMISSIVE = {"0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0"}
PERMISSIVE |= {"CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Public Domain", "Zlib"}
WEAK_COPYLEFT = {"LGPL-2.1-only", "MPL-2.0"}  # changed files of theirs stay under it; we change none and ship none;
OF_CUDA = {"LicenseRef-NVIDIA-Proprietary", "none stated"}  # and these are accepted of what PyTorch brings for CUDA.
ACCEPTED, UNKNOWN = PERMISSIVE | WEAK_COPYLEFT, "unknown"
SPELT = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD",  # which of them is not stated
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
    "NVIDIA Proprietary Software": "LicenseRef-NVIDIA-Proprietary",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
PAGE = """\
# Licences

procrustes-kge is under Apache-2.0. These are the licences of what it is installed with, as each package states them;
`BSD` alone is stated where a package does not say which. `make lint` refuses a licence that is not known or does not go
with ours, and `python scripts/supply.py licences --write` writes this page.

## What you install

`pip install '.[all]'` brings these, and so does `requirements.lock` ([Security](../SECURITY.md)). None is part of the
package. Certifi is under the MPL, pycountry, which has the names of countries, under the LGPL: both are used as they
are published. The script of the [map](map.md) has three.js in it, under the MIT licence, which is beside it.

{ours}

## What PyTorch brings for CUDA

On Linux, PyTorch as it is published brings NVIDIA's libraries, most of which are not free software. PyTorch for the CPU
brings none of them.

{cuda}

## What developers install besides

{developers}
"""
ROW = re.compile(r"^\| (\S+) \| (\S+) \| (.+) \|$", re.MULTILINE)


class UndoneError(Exception):
    """What was asked for could not be done, so that nothing is known."""


@dataclass(frozen=True)
class Locked:
    """A package of the lock: its version, where it is needed, the hashes of its files, and what it is there for."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    via: tuple[str, ...]

    def __str__(self) -> str:
        """Return its lines of the lock."""
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = " \\\n".join(f"    --hash={each}" for each in self.hashes)
        return f"{self.name}=={self.version}{marker} \\\n{hashes}\n    # via {', '.join(self.via)}\n"


def locked(text: str) -> list[Locked]:
    """Return the packages of a lock."""
    return [
        Locked(
            each["name"],
            each["version"],
            each["marker"] or "",
            tuple(re.findall(r"--hash=(\S+)", each["hashes"])),
            tuple((each["via"] or "").split(", ")),
        )
        for each in ENTRY.finditer(text)
    ]


def of_cuda(packages: list[Locked]) -> set[str]:
    """Return the names of PyTorch and of what is locked for it alone on Linux: there it is published for CUDA."""
    found = {"torch"}
    while (
        more := {
            each.name for each in packages if "sys_platform == 'linux'" in each.marker and found.issuperset(each.via)
        }
        - found
    ):
        found |= more
    return found


def lock_problems() -> Iterator[str]:
    """Make the lock again, from the pins of the constraints and the hashes of the index that uv is set to."""
    project, build = SETTINGS["project"], SETTINGS["build-system"]["requires"]
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--universal",
        "--generate-hashes",
        "--no-header",
        "--quiet",
    ]
    command += ["--annotation-style", "line", "--extra", "all", "--constraint", CONSTRAINTS.name]
    command += ["--python-version", project["requires-python"].removeprefix(">="), "pyproject.toml", "-"]
    said = subprocess.run(command, input="\n".join(build), capture_output=True, text=True, cwd=ROOT, check=False)
    if said.returncode:
        raise UndoneError(f"{LOCK.name} was not made: uv could not resolve it, and says: {said.stderr.strip()}")
    ours = {f"-c {CONSTRAINTS.name}": "", f"{project['name']} (pyproject.toml)": project["name"]}
    packages = [
        replace(each, via=tuple(filter(None, (ours.get(via, via) for via in each.via))) or ("build",))
        for each in locked(said.stdout)
    ]
    cuda = of_cuda(packages)
    first, last = ("".join(str(each) for each in packages if (each.name in cuda) == late) for late in (False, True))
    LOCK.write_text(f"{HEAD}{first}{CUDA}{last}", encoding="utf-8")
    yield from ()


def audit_problems() -> Iterator[str]:
    """Ask pip-audit for the advisories of every package of the lock, whatever system it is for."""
    packages = locked(LOCK.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"  # without markers, by which pip-audit leaves other systems' out
        file.write_text("".join(str(replace(each, marker="")) for each in packages), encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--format", "json", "--requirement", str(file)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    yield from advisories(said.stdout, said.stderr, len(packages))


def advisories(printed: str, errors: str, count: int) -> Iterator[str]:
    """Return a sentence for each advisory that pip-audit prints; refuse to call well what it could not look up."""
    try:
        answers = json.loads(printed)["dependencies"]
    except (ValueError, KeyError):
        last = errors.strip().rpartition("\n")[2] or "pip-audit said nothing"
        raise UndoneError(f"nothing was audited: the advisories could not be looked up; {last}") from None
    for each in answers:
        for hole in each.get("vulns", ()):
            mended = ", ".join(hole["fix_versions"]) or "no version yet"
            yield f"{each['name']} {each['version']} has {hole['id']}, mended in {mended}; raise it in constraints.txt"
    asked = sum("vulns" in each for each in answers)
    if asked < count:
        raise UndoneError(
            f"{count - asked} of {count} packages were not audited: the index that is used here has no advisories for "
            "them; ask again where the public index can be reached"
        )


def licence_problems(write: bool = False) -> Iterator[str]:
    """Compare the page of licences with what is locked, pinned and installed, and each licence with those accepted."""
    recorded = licences(LICENCES.read_text(encoding="utf-8")) if LICENCES.exists() else {}
    found = {(normal(each.name), each.version.partition("+")[0]): stated(each.metadata) for each in distributions()}
    known = recorded | {key: licence for key, licence in found.items() if licence != UNKNOWN}
    packages = locked(LOCK.read_text(encoding="utf-8"))
    cuda = of_cuda(packages) - {"torch"}
    pins = {normal(name): version for name, version in PIN.findall(CONSTRAINTS.read_text(encoding="utf-8"))}
    pins |= {each.name: each.version for each in packages}
    sections: dict[str, list[str]] = {"ours": [], "cuda": [], "developers": []}
    for name, version in sorted(pins.items()):
        licence = known.get((name, version), UNKNOWN)
        if bad := refused(licence, ACCEPTED | (OF_CUDA if name in cuda else set())):
            remedy = "look it up and write it into the page by hand" if bad == [UNKNOWN] else "leave the package out"
            yield f"{name} {version}: {', '.join(bad)} is not a licence that is known to go with ours; {remedy}"
        where = "cuda" if name in cuda else "ours" if name in {each.name for each in packages} else "developers"
        sections[where].append(f"| {name} | {version} | {licence} |")
    head = ["| package | version | licence |", "|---|---|---|"]
    page = PAGE.format(**{name: "\n".join(head + rows) for name, rows in sections.items()})
    if not LICENCES.exists() or page != LICENCES.read_text(encoding="utf-8"):
        if write:
            LICENCES.write_text(page, encoding="utf-8")
        yield f"docs/{LICENCES.name} does not list what is locked and pinned; " + (
            "written again" if write else "run scripts/supply.py licences --write"
        )


def normal(name: str) -> str:
    """Return a package's name as the index knows it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licences(page: str) -> dict[tuple[str, str], str]:
    """Return the licence of each package and version that a page lists."""
    return {(name, version): licence for name, version, licence in ROW.findall(page)}


def stated(metadata: Any) -> str:
    """Return the licence that a package states: by an SPDX expression, or else in short words, or by classifiers."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    words = metadata.get("License") or ""
    short = SPELT.get(words, words)
    if not refused(short, ACCEPTED | OF_CUDA):
        return short
    classes = [
        each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", ()) if each.startswith("License ::")
    ]
    return " AND ".join(SPELT.get(each, each) for each in classes) or UNKNOWN


def refused(licence: str, accepted: set[str] = ACCEPTED) -> list[str]:
    """Return the parts of an SPDX expression that are not accepted; a part of alternatives is, where one of them is."""
    parts = licence.split(" AND ")
    return [each for each in parts if not accepted & {term.strip("()") for term in each.split(" OR ")}]


def sbom_problems() -> Iterator[str]:
    """Write a bill of materials from the lock and the page of licences; the same lock gives the same bytes."""
    text = LOCK.read_text(encoding="utf-8")
    bill = bill_of_materials(text, licences(LICENCES.read_text(encoding="utf-8")))
    SBOM.parent.mkdir(exist_ok=True)
    SBOM.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {SBOM.relative_to(ROOT)}: {len(bill['components'])} components")
    yield from ()


def bill_of_materials(text: str, licences: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Return a lock as a CycloneDX bill of materials."""
    project, packages = SETTINGS["project"], locked(text)
    version = re.search(r'"(.+)"', (ROOT / SETTINGS["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8"))
    assert version
    refs = {each.name: f"pkg:pypi/{each.name}@{each.version}" for each in packages}
    refs[project["name"]] = f"pkg:pypi/{project['name']}@{version[1]}"
    ours = component(project["name"], version[1], project["license"])
    wordnet = {"type": "data", "name": "WordNet", "version": "3.0", "licenses": named("WordNet 3.0 license")}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, f"{version[1]}\n{text}").urn,
        "version": 1,
        "metadata": {"component": {**ours, "components": [wordnet]}},
        "components": [
            {
                **component(each.name, each.version, licences.get((each.name, each.version), UNKNOWN)),
                "externalReferences": [
                    {
                        "type": "distribution",
                        "url": refs[each.name],
                        "hashes": [{"alg": "SHA-256", "content": hash.partition(":")[2]} for hash in each.hashes],
                    }
                ],
                **({"properties": [{"name": "procrustes-kge:marker", "value": each.marker}]} if each.marker else {}),
            }
            for each in packages
        ],
        "dependencies": [
            {"ref": ref, "dependsOn": [refs[each.name] for each in packages if name in each.via]}
            for name, ref in refs.items()
        ],
    }


def component(name: str, version: str, licence: str) -> dict[str, Any]:
    """Return a package as a component of a bill of materials."""
    ref = f"pkg:pypi/{name}@{version}"
    spdx = licence not in ("BSD", "Public Domain", UNKNOWN)
    stated = [{"expression": licence}] if spdx else named(licence)
    return {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref, "licenses": stated}


def named(licence: str) -> list[dict[str, Any]]:
    """Return a licence that SPDX has no name for."""
    return [{"license": {"name": licence}}]


VERBS: dict[str, Callable[[], Iterator[str]]] = {
    "lock": lock_problems,
    "audit": audit_problems,
    "licences": licence_problems,
    "sbom": sbom_problems,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = 0
    try:
        for problem in licence_problems(given.write) if given.verb == "licences" else VERBS[given.verb]():
            print(problem)
            found = 1
    except UndoneError as error:
        print(error, file=sys.stderr)
        found = 2
    sys.exit(found)


if __name__ == "__main__":
    main()
