"""What has hurt a reader before hurts none now: `scripts/fuzz.py` keeps what it finds, and tries it again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks processes")
ROOT = Path(__file__).parents[1]
FINDINGS = sorted(path for path in (ROOT / "tests" / "findings").rglob("*") if path.is_file())


def fuzz(*arguments):
    command = [sys.executable, "scripts/fuzz.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_findings_are_read_or_refused():
    said = fuzz("--replay")
    assert said.returncode == 0, said
    tried = sum(int(line.split()[1]) for line in said.stdout.splitlines()[1:])
    assert tried == len(FINDINGS) > 0, said


def test_findings_are_small():
    assert all(path.stat().st_size < 20_000 for path in FINDINGS)


def test_a_campaign_is_repeated_by_its_seed():
    flags = "--only", "tsv", "ntriples", "labels", "--inputs", "60", "--jobs", "1", "--seed", "3"
    lines = [[line.split()[:5] for line in fuzz(*flags).stdout.splitlines()] for _ in range(2)]
    assert lines[0] == lines[1]
    assert sum(int(line[1]) for line in lines[0][1:]) == 60
