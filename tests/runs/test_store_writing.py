"""Laws of writing a run folder: it is there whole or not at all, and nothing else is touched."""

import json
import os
import stat
from pathlib import Path

import pytest
import safetensors.torch

from folders import FIT, files_in, learned, model_of, same_model
from procrustes_kge.errors import InputError
from procrustes_kge.runs import contents, store
from procrustes_kge.runs.card import CARD
from procrustes_kge.runs.exchange.content import Predicted
from procrustes_kge.runs.export import EXPORTS, export
from procrustes_kge.runs.store import check_target, load, load_run, save, update_report
from procrustes_kge.system import durable
from procrustes_kge.system.sealed import MANIFEST


def break_names(monkeypatch, error):
    monkeypatch.setattr(contents, "write_names", lambda *_: (_ for _ in ()).throw(error))


def break_triples(monkeypatch, error):
    write = safetensors.torch.save_file

    def broken(tensors, path):
        if "train" not in tensors:
            return write(tensors, path)
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr(safetensors.torch, "save_file", broken)


def break_last_step(monkeypatch, error):
    rename = Path.rename

    def broken(self, target):
        if self.name == "fresh":
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    monkeypatch.setattr(durable, "exchange", lambda *_: False)


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt("stop")], ids=str)
@pytest.mark.parametrize("breaking", [break_names, break_triples, break_last_step])
def test_a_failure_leaves_nothing_behind_and_an_old_run_as_it_was(breaking, error, folder, tmp_path, monkeypatch):
    before, run = files_in(tmp_path), load_run(folder)
    breaking(monkeypatch, error)
    for target in (folder, folder.parent / "two"):
        with pytest.raises(type(error), match=str(error)):
            save(run.model, target, run.graph, run.settings)
        assert files_in(tmp_path) == before


def test_a_failure_makes_no_parents(tmp_path, monkeypatch):
    break_names(monkeypatch, RuntimeError("broken"))
    with pytest.raises(RuntimeError, match="broken"):
        save(model_of("ab"), tmp_path / "deep" / "deeper" / "run")
    assert files_in(tmp_path) == {}


def test_what_safetensors_cannot_write_is_said_in_the_same_sentence(folder, tmp_path, monkeypatch):
    before, run = files_in(tmp_path), load_run(folder)
    break_triples(monkeypatch, safetensors.SafetensorError("I/O error: No space left on device"))
    with pytest.raises(InputError, match=r"one: cannot be written \(.*No space left on device\); choose another place"):
        save(run.model, folder, run.graph)
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("breaking", [break_names, break_triples, break_last_step])
def test_what_the_system_refuses_is_said_in_a_sentence(breaking, folder, tmp_path, monkeypatch):
    before, run = files_in(tmp_path), load_run(folder)
    breaking(monkeypatch, OSError(28, "No space left on device"))
    with pytest.raises(InputError, match=r"one: cannot be written \(No space left on device\); choose another place"):
        save(run.model, folder, run.graph)
    assert files_in(tmp_path) == before


def test_an_old_run_is_replaced_and_nothing_of_it_stays(folder):
    assert (folder / "labels.json").exists()
    model = model_of(["a", "b"])
    save(model, folder)
    assert same_model(load(folder), model)
    names = {file.name for file in folder.iterdir()}
    assert names == {"settings.json", "model.safetensors", "entities.txt", "relations.txt", "report.json", MANIFEST}
    assert [each.name for each in folder.parent.iterdir()] == ["one"]


def test_an_empty_folder_and_absent_parents_are_accepted(tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "deep" / "deeper" / "run", str(tmp_path / "text")):
        check_target(target)
        save(model_of("ab"), target)
        assert load(target).entities.names == ("a", "b")


def test_a_link_to_a_run_stays_a_link(folder, tmp_path):
    (tmp_path / "latest").symlink_to(folder)
    save(model_of("ab"), tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert load(folder).entities.names == ("a", "b")


def test_what_is_not_a_run_is_refused_and_untouched(tmp_path, monkeypatch):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "settings.json").write_text("{}")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = files_in(tmp_path)
    refusals = {
        tmp_path / "thesis": "exists and is not a run folder, so it is not overwritten; choose another --out",
        tmp_path / "file": "exists and is not a run folder, so it is not overwritten; choose another --out",
        tmp_path / "dangling": "exists and is not a run folder, so it is not overwritten; choose another --out",
        tmp_path / "file" / "run": "file is not a folder that can be written to; choose another --out",
        tmp_path / ("long" * 100): "its name has 400 bytes, expected at most 244; choose another --out",
        Path(): "you are inside this folder, so it is not replaced; choose another --out",
        tmp_path / "here": "you are inside this folder, so it is not replaced; choose another --out",
    }
    for target, message in refusals.items():
        for attempt in (check_target, lambda target: save(model_of("ab"), target)):
            with pytest.raises(InputError, match=message) as caught:
                attempt(target)
            assert str(caught.value).startswith(f"{target}: ")
            assert files_in(tmp_path) == before


def test_a_run_that_holds_files_of_the_user_is_not_replaced(folder):
    (folder / "notes.txt").write_text("precious")
    before = files_in(folder)
    with pytest.raises(InputError, match=r"holds notes\.txt too, which replacing it would delete"):
        save(model_of("ab"), folder)
    assert files_in(folder) == before


def test_settings_that_were_not_given_are_not_made_up(tmp_path):
    save(model_of("ab"), tmp_path / "run")
    assert load_run(tmp_path / "run").settings is None
    about = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert about["method"] is about["settings"] is None


def test_a_report_is_changed_entry_by_entry_and_nothing_else_is(folder):
    before, report = files_in(folder), load_run(folder).report
    update_report(folder, metrics={"valid": {"mrr": 0.25}}, epochs=7)
    metrics = {**report["metrics"], "valid": {"mrr": 0.25}}
    assert load_run(folder).report == {**report, "metrics": metrics, "epochs": 7}
    update_report(folder, metrics={"valid": {"mrr": 0.5}}, notes=[])
    assert load_run(folder).report["metrics"] == {**metrics, "valid": {"mrr": 0.5}}
    assert load_run(folder).report["notes"] == []
    after = files_in(folder)
    assert {name for name in after if before.get(name) != after[name]} == {"report.json", CARD, MANIFEST}
    check_target(folder)  # still a run folder, and nothing else


@pytest.mark.parametrize("metrics", [5, {"test": 5}, {"test": {"mrr": float("nan")}}], ids=str)
def test_a_report_that_could_not_be_read_again_is_not_written(metrics, folder):
    before = files_in(folder)
    with pytest.raises(InputError, match=r"its report stays as it was"):
        update_report(folder, metrics=metrics)
    assert files_in(folder) == before


def test_a_report_that_cannot_be_written_stays_as_it_was(folder, monkeypatch):
    before = files_in(folder)
    monkeypatch.setattr(store, "write_json", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match=r"one: cannot be written \(No space left on device\)"):
        update_report(folder, epochs=7)
    assert files_in(folder) == before


def test_what_has_no_report_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"its report cannot be read .* give a folder that `save` wrote"):
        update_report(tmp_path, epochs=7)
    (folder / "report.json").write_text("[]")
    with pytest.raises(InputError, match=r"its report cannot be read .report.json has 2 bytes, expected 152"):
        update_report(folder, epochs=7)


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused_before_any_work(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InputError, match="is not a folder that can be written to; choose another --out"):
        check_target(tmp_path / "locked" / "run")


@pytest.mark.skipif(os.name != "posix", reason="others are kept out in other ways here")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_others_may_read_what_the_umask_lets_them(mask, tmp_path):
    model, graph, settings = learned(FIT)
    before = os.umask(mask)
    try:
        save(model, tmp_path / "run", graph, settings)
        held = {"graph": graph, "predictions": [Predicted(0, 0, 1, 0.5)]}
        exported = [file for kind in EXPORTS for file in export(model, tmp_path / f"{kind}.{kind}", kind, **held)]
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in [*(tmp_path / "run").iterdir(), *exported]}
    assert modes == {0o666 & ~mask}
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o777 & ~mask


def test_nothing_in_a_run_folder_is_pickled(folder):
    magic = (b"PK", *(bytes([0x80, protocol]) for protocol in range(2, 6)))
    for file in folder.iterdir():
        assert file.suffix in (".safetensors", ".json", ".txt", ".md")
        assert not file.read_bytes().startswith(magic)
