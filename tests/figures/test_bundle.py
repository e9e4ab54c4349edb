"""The bundle that comes with the package is made of the source that stands in `web/`."""

import hashlib
import re
from pathlib import Path

import pytest

from procrustes_kge.figures.page import bundled

WEB = Path(__file__).parents[2] / "web"
REMEDY = "make bundle"


def checksum():
    """Return the checksum of all that a bundle is made from, as web/build.js has it."""
    paths = [WEB / name for name in ("build.js", "package-lock.json", "package.json")]
    paths += [path for path in (WEB / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(WEB).as_posix(), path) for path in paths):
        digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["map.js", "map.css"])
def test_the_bundle_is_as_old_as_its_source(name):
    first, _ = bundled(name).split("\n", 1)
    (built_from,) = re.findall(r"sha256 ([0-9a-f]{64})", first)
    assert built_from == checksum(), f"{name} was built from another source; `{REMEDY}` builds it again"


def test_the_licence_of_what_is_bundled_comes_with_it():
    assert "SPDX-License-Identifier: MIT" in bundled("map.js")
    assert "Permission is hereby granted" in bundled("three-LICENSE.txt")


def test_the_bundle_is_one_script_of_plain_characters():
    assert bundled("map.js").isascii()
    assert not re.search(r"\beval\(|new Function", bundled("map.js"))
