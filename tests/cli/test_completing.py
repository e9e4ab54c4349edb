"""Laws of completion: a tab offers what is there, without waiting for PyTorch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from procrustes_kge.cli.completing import MOST, entities, relations, runs
from procrustes_kge.runs.store import save
from toys import planted_model

ROOT = Path(__file__).parents[2]


class Context:
    def __init__(self, *args, **params):
        self.args, self.params = args, params


@pytest.mark.parametrize("begun", ["", "pla", "runs/", "runs/pl"])
def test_run_folders_are_offered(begun, planted):
    Path("plain").mkdir()
    assert "runs/planted" in runs(begun)


def test_a_folder_on_the_way_to_runs_is_offered(planted):
    assert runs("ru") == ["runs/"]
    assert runs("nothing") == runs("no/thing") == []


def test_names_and_labels_are_offered_with_spaces_as_they_may_be_typed(planted):
    context = Context(run=Path("runs/planted"))
    assert entities(context, "turn 14") == [("turn_14", "element 14"), ("turn_14_and_mirror", "element 44")]
    assert entities(Context("runs/planted"), "turn_14_") == [("turn_14_and_mirror", "element 44")]
    assert entities(context, "element 14") == [("element_14", "turn 14")]
    assert [name for name, _ in relations(context, "turn 1")] == ["turn_1", "turn_11_and_mirror"]
    model, _ = planted
    assert all(model.entities.id(name) >= 0 for name, _ in entities(context, ""))


def test_where_there_is_no_run_nothing_is_offered(here):
    assert entities(Context(), "a") == entities(Context(run=Path("gone")), "a") == []
    Path("broken").mkdir()
    Path("broken", "entities.txt").write_bytes(b"\xff")
    assert entities(Context(run=Path("broken")), "") == []


def test_of_many_names_the_first_are_offered(here):
    Path("many").mkdir()
    Path("many", "entities.txt").write_text("".join(f"e{row}\n" for row in range(2 * MOST)))
    assert len(entities(Context(run=Path("many")), "e")) == MOST


CHECKED = "import sys; from procrustes_kge.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("procrustes pre", "predict"),
        ("procrustes predict runs/pl", "runs/planted"),
        ("procrustes predict runs/planted --head turn_7", "turn_7_and_mirror"),
        ("procrustes predict runs/planted -r turn_1", "turn_11_and_mirror"),
        ("procrustes score runs/planted turn_4 turn_5", "turn_5"),
        ("procrustes neighbours runs/planted element_4", "element_44"),
    ],
)
def test_a_shell_is_answered_without_pytorch(typed, offered, here):
    save(*planted_model()[:1], "runs/planted", planted_model()[1])
    asks = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_PROCRUSTES_COMPLETE": "complete_bash"}
    paths = {**os.environ, **asks, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(
        [sys.executable, "-c", CHECKED], env=paths, capture_output=True, text=True, cwd=here, check=False
    )
    assert offered in ended.stdout.split()
    assert "Error" not in ended.stderr
