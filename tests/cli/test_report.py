"""Laws of `procrustes report`."""

import json
from pathlib import Path

from procrustes_kge.runs.store import save


def test_a_page_is_written_and_said(procrustes, run, planted):
    said = procrustes("report", run, "runs/planted")
    assert said.startswith("wrote  report.html   2 runs, ")
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Repeat <bdi>ring</bdi>" in page
    assert "runs/planted" in page


def test_what_is_written_as_json(procrustes, run):
    found = json.loads(procrustes("report", run, "--out", "page.html", "--json"))
    assert found == {"page": "page.html", "bytes": Path("page.html").stat().st_size, "runs": [str(run)]}


def test_a_run_without_its_triples_has_a_page_too(procrustes, planted):
    save(planted[0], "bare")
    procrustes("report", "bare", "-o", "bare.html")
    assert "saved without its triples" in Path("bare.html").read_text(encoding="utf-8")


def test_mistakes_are_one_sentence(refused, run, here):
    refused("report", "runs/rong", setting="runs/rong", seen="no such run", remedy=f"did you mean {run}")
    refused("report", run, "-o", "no/page.html", setting="no", seen="no such folder", remedy="--out")
    Path("mine.html").write_text("mine")
    refused("report", run, "-o", "mine.html", setting="mine.html", seen="not", remedy="--force")


def test_a_damaged_run_is_one_sentence(refused, run):
    model = run / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-4])
    refused("report", run, setting=str(run), seen="damaged", remedy="restore it")
