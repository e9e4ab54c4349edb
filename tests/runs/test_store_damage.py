"""Laws of a damaged run folder: what is wrong is said, with the folder and what to do."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from folders import (
    CONTRAST,
    MODEL,
    TRIPLES,
    change_setting,
    drop_from_settings,
    drop_last_line,
    drop_setting,
    edit_names,
    edit_settings,
    edit_tensors,
    learned,
    remove,
    reseal,
    with_id,
    write,
)
from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.runs.card import CARD
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.store import FORMAT, load, load_run, save

FEW = r"\(60, 4, 5\), expected float32 of shape \({}, 4, 5\) for {} entities and 8 relations"
DAMAGE = {
    "settings not JSON": (write("settings.json", b"dim = 20"), r"settings\.json: Expecting value"),
    "settings not text": (write("settings.json", b"\xff\xfe\x00"), r"settings\.json: .*can't decode byte"),
    "settings a list": (write("settings.json", b"[1, 2]"), r"settings\.json holds a list, expected an object"),
    "settings empty": (write("settings.json", b""), r"settings\.json: Expecting value"),
    "settings too deep": (write("settings.json", b"[" * 200_000), r"settings\.json: brackets within brackets"),
    "unknown entry": (edit_settings(magic=1), r"settings\.json: 'magic' is unknown"),
    "unknown setting": (edit_settings(settings={"dim": 20, "magic": 1}), r"a setting 'magic', which this version does"),
    "absurd setting": (edit_settings(settings={"dim": -20}), "dim -20, expected a whole number of at least 1"),
    "a setting too few": (drop_from_settings("seed"), "no setting 'seed'"),
    "settings of longer vectors": (
        change_setting(dim=10**9),
        r"settings\.json: dim 1000000000, but the vectors have 20",
    ),
    "settings of other segments": (change_setting(segment=10), r"settings\.json: segment 10, but the vectors have 5"),
    "a setting beyond reason": (change_setting(epochs=10**30), "epochs 1000.*, expected a whole number of at most"),
    "setting of another type": (edit_settings(settings={"dim": "many"}), "dim 'many', expected a whole number"),
    "true for a number": (edit_settings(settings={"dim": True}), "dim True, expected a whole number"),
    "no settings in settings": (drop_setting("settings"), "'settings' is missing"),
    "settings a number": (edit_settings(settings=3), r"settings\.json: settings is a number"),
    "unknown model": (edit_settings(model="nobody"), "has a model 'nobody', which this version does not know"),
    "another model": (edit_settings(model="complex"), "a model 'complex' with the method 'fit'"),
    "unknown method": (edit_settings(method="transe"), "a method 'transe', which this version does not know"),
    "method of other settings": (edit_settings(method="contrast"), "a setting '[a-z_]+', which this version does"),
    "method a list": (edit_settings(method=["fit"]), "method is a list"),
    "no method": (drop_setting("method"), "'method' is missing"),
    "no name of the graph": (drop_setting("graph"), "'graph' is missing"),
    "report not JSON": (write("report.json", b"{"), r"report\.json: Expecting"),
    "report a list": (write("report.json", b"[]"), r"report\.json holds a list, expected an object"),
    "report missing": (remove("report.json"), r"report\.json is missing"),
    "metrics a number": (write("report.json", b'{"metrics": 1}'), r"report\.json: metrics are not figures by split"),
    "MRR a text": (write("report.json", b'{"metrics": {"test": {"mrr": "1"}}}'), "MRR of test is text, expected"),
    "recipe a list": (write("report.json", b'{"recipe": []}'), "recipe is a list, expected a name"),
    "labels a list": (write("labels.json", b'["a"]'), r"labels\.json holds a list, expected an object"),
    "a label a number": (write("labels.json", b'{"a": 1}'), r"labels\.json has a label that is not text"),
    "entities missing": (remove("entities.txt"), r"entities\.txt is missing"),
    "entities not text": (write("entities.txt", b"\xff\n"), r"entities\.txt: .*can't decode byte"),
    "entities empty": (write("entities.txt", b""), r"entities\.txt has no names"),
    "an empty name": (edit_names("entities.txt", {3: ""}), r"entities\.txt, line 4: an empty name"),
    "a name twice": (edit_names("entities.txt", {3: "turn 0"}), r"entities\.txt has the name 'turn 0' twice"),
    "half a line": (write("relations.txt", b"a"), r"relations\.txt does not end with its last line"),
    "an entity too few": (drop_last_line("entities.txt"), FEW.format(59, 59)),
    "relations missing": (remove("relations.txt"), r"relations\.txt is missing"),
    "a relation too few": (
        drop_last_line("relations.txt"),
        r"rotations are float32 of shape \(8, 4, 5, 5\), expected float32 of shape \(7, 4, 5, 5\)",
    ),
    "model missing": (remove(MODEL), r"model\.safetensors is missing"),
    "model of noise": (write(MODEL, bytes(range(256)) * 20), "does not begin as a file of tensors does"),
    "no vectors": (edit_tensors(MODEL, vectors=None), "'vectors' is missing"),
    "vectors flat": (edit_tensors(MODEL, vectors=lambda table: table.flatten(1)), r"vectors are .* \(60, 20\)"),
    "vectors of float64": (edit_tensors(MODEL, vectors=torch.Tensor.double), "vectors are float64 .*expected float32"),
    "vectors of truth": (edit_tensors(MODEL, vectors=torch.Tensor.bool), "vectors are bool .*expected float32"),
    "vectors not finite": (
        edit_tensors(MODEL, vectors=with_id(0, math.nan)),
        "vectors has numbers that are not finite",
    ),
    "rotations infinite": (edit_tensors(MODEL, rotations=with_id(0, -math.inf)), "rotations has numbers that are not"),
    "segments lost": (edit_tensors(MODEL, vectors=lambda table: table[:, :3]), r"expected float32 of shape \(8, 3, 5"),
    "rotations not square": (edit_tensors(MODEL, rotations=lambda table: table[..., :4]), r"\(8, 4, 5, 4\), expected"),
    "translations of tails alone": (
        edit_tensors(MODEL, translations=lambda table: table[:8]),
        r"translations are float32 of shape \(8, 4, 5\), expected float32 of shape \(16, 4, 5\)",
    ),
    "no translations": (edit_tensors(MODEL, translations=None), "'translations' is missing"),
    "translations not spoken of": (edit_settings(translate=False), "it has 'translations', which settings"),
    "no relations, no triples": (
        lambda folder: [
            edit_tensors(MODEL, rotations=None, translations=None)(folder),
            edit_settings(graph=None)(folder),
            remove(TRIPLES)(folder),
        ],
        "both the relations and the triples to compute them from are missing",
    ),
    "triples missing": (remove(TRIPLES), r"triples\.safetensors is missing"),
    "triples without a graph": (edit_settings(graph=None), "there are triples, but settings.json has no name"),
    "triples cut": (
        lambda folder: write(TRIPLES, (folder / TRIPLES).read_bytes()[:-8])(folder),
        "its tensors do not fill it",
    ),
    "no test split": (edit_tensors(TRIPLES, test=None), "'test' is missing"),
    "triples of two": (
        edit_tensors(TRIPLES, valid=lambda rows: rows[:, :2]),
        r"valid are int64 of shape \(48, 2\), expected int64 with three columns",
    ),
    "triples of truth": (edit_tensors(TRIPLES, train=torch.Tensor.bool), "train are bool .*expected int64"),
    "triples of int32": (edit_tensors(TRIPLES, train=torch.Tensor.int), "train are int32 .*expected int64"),
    "head too high": (edit_tensors(TRIPLES, train=with_id(0, 60)), "train has ids that have no name"),
    "relation too high": (edit_tensors(TRIPLES, valid=with_id(1, 8)), "valid has ids that have no name"),
    "tail below zero": (edit_tensors(TRIPLES, test=with_id(2, -1)), "test has ids that have no name"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_said_with_the_folder_and_what_to_do(kind, folder):
    damage, message = DAMAGE[kind]
    damage(folder)
    problems = examine(folder).problems
    assert problems
    assert all(said.startswith(file) for file, said in problems.items())  # its checksum, or its size, is another
    _is_said(folder, "damaged", verify=True)
    reseal(folder)  # whoever damages a folder may write a manifest that fits
    _is_said(folder, message, verify=True)
    _is_said(folder, message, verify=False)


def _is_said(folder, message, verify):
    for attempt in (load, load_run):
        with pytest.raises(InputError, match=message) as caught:
            attempt(folder, verify=verify)
        text = str(caught.value)
        assert text.startswith(f"{folder}: damaged or truncated (")
        assert text.endswith("; restore it from a copy or train again")
        assert text.isprintable()
        assert len(text) < 800


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edit_tensors(MODEL, scales=lambda table: table[:8]), r"scales are .* \(8, 4, 5\), expected .* \(16, 4, 5\)"),
        (edit_tensors(MODEL, scales=lambda table: table[..., :1]), r"scales are .* \(16, 4, 1\), expected"),
        (edit_tensors(MODEL, translations=None), "'translations' is missing"),
        (edit_settings(method="fit"), "a setting '[a-z_]+', which this version does not know"),
        (edit_settings(settings={"crowd": 3.0}), r"\(crowd 3.0, expected a number from 0 to 2\)"),
        (
            edit_settings(settings={"loss": "squared"}),
            "squared loss with negatives all: the squared loss alone uses none",
        ),
    ],
    ids=["half the scales", "narrow scales", "no translations", "another method", "absurd crowd", "absurd loss"],
)
def test_damage_to_a_contrasted_model_is_said(damage, message, tmp_path):
    model, graph, settings = learned(replace(CONTRAST, epochs=1))
    save(model, tmp_path / "run", graph, settings)
    damage(tmp_path / "run")
    reseal(tmp_path / "run")
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path / "run")
    assert str(caught.value).startswith(f"{tmp_path / 'run'}: damaged or truncated (")


def test_a_truncated_file_is_never_taken_for_a_whole_one(folder):
    for file in sorted(file for file in folder.iterdir() if file.name != CARD):
        whole = file.read_bytes()
        for length in {0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 2} & set(range(len(whole) - 1)):
            file.write_bytes(whole[:length])
            for verify in (True, False):
                _is_said(folder, "damaged", verify)
        file.write_bytes(whole)
    load(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="here are no pipes")
@pytest.mark.parametrize("name", ["settings.json", MODEL, "entities.txt", "manifest.json"])
@pytest.mark.parametrize(
    ("instead", "message"),
    [
        (os.mkfifo, "is a folder, a pipe or a device"),
        (Path.mkdir, "is a folder, a pipe or a device"),
        (lambda file: file.symlink_to("/dev/zero"), "is a link"),
        (lambda file: file.symlink_to("/dev/urandom"), "is a link"),
        (
            lambda file: [file.write_text("{"), os.truncate(file, 10**11)],
            r"has (100,000,000,000|more than [\d,]+) bytes",
        ),
    ],
    ids=["a pipe", "a folder", "a link to zeros", "a link to noise", "a hole of 100 GB"],
)
def test_what_is_no_plain_file_is_refused_without_being_read(name, instead, message, folder):
    (folder / name).unlink()
    instead(folder / name)
    _is_said(folder, rf"{name} {message}", verify=True)
    _is_said(folder, rf"{name} {message}", verify=False)
    assert not examine(folder).sound


def test_missing_folders_and_other_folders_are_told_apart(folder, tmp_path):
    missing = tmp_path / "nowhere"
    for target in (missing, folder / "settings.json"):
        with pytest.raises(InputError) as caught:
            load(target)
        assert str(caught.value) == f"{target}: no such run folder; `procrustes train` makes one"
    with pytest.raises(
        InputError, match=r"not a run folder, it has no settings\.json; give one that `procrustes train`"
    ):
        load(folder.parent)


def test_other_formats_and_kinds_are_refused_with_what_to_do(folder):
    reseal(folder, format=FORMAT + 1)
    remedy = "upgrade procrustes-kge"
    refused(
        lambda: load(folder), setting=folder, seen=f"format {FORMAT + 1}, this version reads {FORMAT}", remedy=remedy
    )
    reseal(folder, kind="checkpoint")
    remedy = "give a folder that `procrustes train` wrote"
    refused(lambda: load(folder), setting=folder, seen="holds a checkpoint, expected a run", remedy=remedy)
    remedy = "train again, or open it with the version that wrote it"
    reseal(folder, format=4)
    refused(lambda: load(folder), setting=folder, seen="format 4, this version reads", remedy=remedy)
    remove("manifest.json", "report.json", MODEL)(folder)  # an old version need not have our files
    edit_settings(format=4)(folder)
    refused(lambda: load(folder), setting=folder, seen="format 4, this version reads formats from 5", remedy=remedy)
    drop_setting("format")(folder)
    refused(lambda: load(folder), setting=folder, seen="manifest.json is missing", remedy="restore it from a copy")


@pytest.mark.parametrize("table", ["scales", "translations"])
@pytest.mark.parametrize("relations", [True, False])
def test_a_table_that_a_contrasted_model_has_lost_is_missed(table, relations, tmp_path):
    model, graph, settings = learned(replace(CONTRAST, epochs=1))
    save(model, tmp_path / "run", graph, settings, relations=relations)
    edit_tensors(MODEL, **{table: None})(tmp_path / "run")
    reseal(tmp_path / "run")
    with pytest.raises(InputError, match=f"'{table}' is missing"):
        load(tmp_path / "run")
