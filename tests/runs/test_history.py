"""Laws of what is changed after training: a change is there whole or not at all, and undone it never was."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from folders import CONTRAST, FIT, REPORT, files_in, learned, reseal, same_model
from procrustes_kge.errors import DamagedFolderError, InputError
from procrustes_kge.explore.updates.updates import update
from procrustes_kge.runs import history
from procrustes_kge.runs.card import CARD
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.history import changes, undo
from procrustes_kge.runs.store import load_run, save, update_report
from procrustes_kge.system.sealed import MANIFEST

SAMPLES = Path(__file__).parent / "samples"


def known(graph, row=0):
    """Return a training triple by name."""
    head, relation, tail = graph.train[row].tolist()
    return graph.entities[head], graph.relations[relation], graph.entities[tail]


def news(graph):
    """Return triples about an entity that is new."""
    head, relation, tail = known(graph)
    return [("new", relation, tail), (head, relation, "new")]


def all_but_the_manifest(folder):
    return {name: content for name, content in files_in(folder).items() if name != MANIFEST}


def sums_in(folder):
    return json.loads((folder / MANIFEST).read_text())["files"]


@pytest.mark.parametrize("way", ["add", "remove", "relation", "epochs"])
def test_undone_every_file_has_the_bytes_that_it_had(way, folder):
    before, sums, graph = all_but_the_manifest(folder), sums_in(folder), load_run(folder).graph
    head, _, tail = known(graph)
    if way == "remove":
        done = update(folder, remove=[known(graph)])
    else:
        more = [(head, "another", tail)] if way == "relation" else []
        done = update(folder, news(graph) + more, epochs=2 * (way == "epochs"))
    assert all_but_the_manifest(folder) != before
    assert examine(folder).sound
    assert changes(folder) == [done.entry]
    assert undo(folder) == done.entry
    assert all_but_the_manifest(folder) == before
    assert sums_in(folder) == sums
    assert examine(folder).sound
    with pytest.raises(InputError, match=r"one: nothing to undo, it was not changed since its training"):
        undo(folder)


def test_changes_are_undone_one_by_one_the_last_one_first(folder):
    graph, states = load_run(folder).graph, []
    head, relation, tail = known(graph)
    for name in ("one", "two", "three"):
        states.append(all_but_the_manifest(folder))
        update(folder, [(head, relation, name), (name, relation, tail)])
    update(folder, remove=[known(graph), (head, relation, "two")])
    assert [entry["number"] for entry in changes(folder)] == [1, 2, 3, 4]
    undo(folder)
    for number, state in zip((3, 2, 1), reversed(states), strict=True):
        assert undo(folder)["number"] == number
        assert all_but_the_manifest(folder) == state


def test_a_change_after_an_undone_one_takes_its_number(folder):
    graph = load_run(folder).graph
    update(folder, news(graph))
    undo(folder)
    assert update(folder, news(graph)).entry["number"] == 1


def test_a_report_that_was_added_to_since_does_not_keep_a_change_from_being_undone(folder):
    before = all_but_the_manifest(folder)
    update(folder, news(load_run(folder).graph))
    update_report(folder, metrics={"test": {"mrr": 0.5}})
    undo(folder)
    assert all_but_the_manifest(folder) == before


def test_another_folder_has_the_change_and_the_first_one_stays(folder, tmp_path):
    before = files_in(folder)
    done = update(folder, news(load_run(folder).graph), out=tmp_path / "two")
    assert files_in(folder) == before
    assert changes(tmp_path / "two") == [done.entry]
    assert same_model(load_run(tmp_path / "two").model, done.run.model)
    undo(tmp_path / "two")
    assert all_but_the_manifest(tmp_path / "two") == all_but_the_manifest(folder)


def test_only_what_a_change_replaced_is_kept(folder):
    graph = load_run(folder).graph
    update(folder, news(graph))
    before = folder / "before-000001.safetensors"
    # No vector was moved but those that are new, and triples come last: the report is what there is to keep.
    assert load_file(before).keys() == {"about", "report.json"}


def test_nothing_is_written_where_nothing_changes(folder):
    before, graph = files_in(folder), load_run(folder).graph
    done = update(folder, [known(graph)], remove=[("nobody", "knows", "this")])
    assert done.entry is None
    assert done.run.empty
    assert files_in(folder) == before


def test_a_card_that_was_edited_goes_along(folder):
    (folder / CARD).write_text("mine\n")
    graph = load_run(folder).graph
    update(folder, news(graph))
    assert (folder / CARD).read_text() == "mine\n"
    undo(folder)
    assert (folder / CARD).read_text() == "mine\n"


@pytest.mark.slow
def test_old_formats_are_changed_and_changed_back_too(tmp_path):
    for sample in sorted(SAMPLES.glob("run-*")):
        folder = Path(shutil.copytree(sample, tmp_path / sample.name))
        before, graph = all_but_the_manifest(folder), load_run(folder).graph
        update(folder, news(graph))
        assert load_run(folder).model.entities[-1] == "new"
        undo(folder)
        after = all_but_the_manifest(folder)
        assert after | {CARD: b""} == before | {CARD: b""}  # some formats had no card
        assert sums_in(folder) == sums_in(sample)
        assert examine(folder).sound


@pytest.mark.parametrize("broken", ["write", "write_tensors", "seal", "put"])
def test_what_breaks_in_between_leaves_the_run_as_it_was(broken, folder, tmp_path, monkeypatch):
    graph, before = load_run(folder).graph, files_in(tmp_path)

    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(history, broken, fails)
        with pytest.raises((InputError, OSError), match="No space left"):
            update(folder, news(graph))
    assert files_in(tmp_path) == before
    update(folder, news(graph))
    changed = files_in(tmp_path)
    if broken != "write":
        with monkeypatch.context() as patch:
            patch.setattr(history, broken, fails)
            with pytest.raises((InputError, OSError), match="No space left"):
                undo(folder)
        assert files_in(tmp_path) == changed


LATE = """
import os, sys
from pathlib import Path
from procrustes_kge import update
from procrustes_kge.runs import history
folder, moment = Path(sys.argv[1]), sys.argv[2]
def dies(*_, **__):
    os.kill(os.getpid(), 9)
setattr(history, moment, dies)
update(folder, [("new", sys.argv[3], sys.argv[4])])
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["check", "write_tensors", "seal", "_link"])
def test_killed_while_a_change_is_written_the_run_is_the_old_one(moment, folder, tmp_path):
    graph = load_run(folder).graph
    _, relation, tail = known(graph)
    update(folder, news(graph)[:1])  # so that there is a file to link
    before = files_in(folder)
    ended = subprocess.run([sys.executable, "-c", LATE, folder, moment, relation, "new"], check=False, timeout=300)
    assert ended.returncode == -9
    assert files_in(folder) == before
    assert examine(folder).sound
    said = pytest.warns(UserWarning, match="left by a process that was killed") if moment != "check" else nullcontext()
    with said:
        update(folder, [("newer", relation, tail)])
    assert load_run(folder).model.entities[-1] == "newer"


@pytest.mark.slow
def test_killed_at_any_moment_a_run_is_the_old_or_the_new_one(folder, tmp_path):
    graph, (_, relation, tail) = load_run(folder).graph, known(load_run(folder).graph)
    code = "import sys; from procrustes_kge import update, undo; print('ready', flush=True)\n"
    code += "while True:\n update(sys.argv[1], [('new', sys.argv[2], sys.argv[3])]); undo(sys.argv[1])\n"
    states = [load_run(folder).model]
    update(folder, [("new", relation, tail)])
    states.append(load_run(folder).model)
    undo(folder)
    for number in range(12):
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, folder, relation, tail], stdout=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            time.sleep(0.05 + 0.043 * number)
            process.kill()
            process.wait()
        assert examine(folder).sound
        found = load_run(folder)
        assert any(same_model(found.model, state) for state in states)
        assert len(changes(folder)) == len(found.model.entities) - len(states[0].entities)
    assert graph is not None


def test_what_is_damaged_is_not_restored(folder):
    update(folder, news(load_run(folder).graph))
    before = folder / "before-000001.safetensors"
    content = bytearray(before.read_bytes())
    content[-1] ^= 1
    before.write_bytes(content)
    with pytest.raises(DamagedFolderError, match=r"change 1 cannot be undone .* restore the run from a copy"):
        undo(folder)
    reseal(folder)  # as someone might who sends it
    with pytest.raises((DamagedFolderError, InputError)):
        undo(folder)
    assert load_run(folder).model.entities[-1] == "new"


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"changes": 5}', '{"changes": [5]}', '{"changes": [{"number": 2}, {"number": 1}]}']
)
def test_a_history_that_is_none_is_refused(content, folder):
    update(folder, news(load_run(folder).graph))
    (folder / "history.json").write_text(content)
    reseal(folder)
    for work in (load_run, undo, changes):
        with pytest.raises(DamagedFolderError, match=r"history\.json"):
            work(folder)


def test_what_was_long_ago_can_no_longer_be_undone(folder, monkeypatch):
    monkeypatch.setattr(history, "MOST", 2)
    graph = load_run(folder).graph
    _, relation, tail = known(graph)
    for number in range(4):
        update(folder, [(f"new {number}", relation, tail)])
    assert sorted(each.name for each in folder.glob("before-*")) == [f"before-00000{n}.safetensors" for n in (3, 4)]
    assert [undo(folder)["number"] for _ in range(2)] == [4, 3]
    with pytest.raises(InputError, match=r"change 2 is too long ago to undo; the last 2 can be"):
        undo(folder)


def test_a_run_without_its_triples_is_not_changed(tmp_path):
    model, graph, settings = learned(CONTRAST)
    save(model, tmp_path / "bare", None, settings)
    with pytest.raises(InputError, match=r"bare: saved without its triples, so nothing can be added .* graph=…"):
        update(tmp_path / "bare", news(graph))
    with pytest.raises(InputError, match="an update without triples; give some to add, or some to remove"):
        update(tmp_path / "bare")


def test_a_run_without_its_relations_is_saved_with_them(tmp_path):
    model, graph, settings = learned(FIT)
    save(model, tmp_path / "run", graph, settings, REPORT, relations=False)
    before = all_but_the_manifest(tmp_path / "run")
    loaded = load_run(tmp_path / "run").model
    update(tmp_path / "run", news(graph))
    assert load_run(tmp_path / "run").model.rotations.equal(loaded.rotations)
    undo(tmp_path / "run")
    assert all_but_the_manifest(tmp_path / "run") == before


@pytest.mark.skipif(not hasattr(os, "link"), reason="no links here")
def test_a_changed_model_answers_as_it_does_when_it_is_loaded(folder):
    done = update(folder, news(load_run(folder).graph))
    found = load_run(folder)
    assert same_model(found.model, done.run.model)
    assert found.graph.train.equal(done.run.graph.train)
    assert torch.equal(found.graph.test, done.run.graph.test)
    assert replace(found.graph, notes=()).checksum == found.report["checksum"]
