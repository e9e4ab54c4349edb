"""Laws of a damaged run folder: what is wrong is said, with the folder and what to do."""

from dataclasses import replace

import pytest

from folders import (
    CONTRAST,
    MODEL,
    TRIPLES,
    drop_last_line,
    drop_setting,
    edit_settings,
    edit_tensors,
    learned,
    remove,
    with_id,
    write,
)
from procrustes_kge.errors import InputError
from procrustes_kge.runs.store import FORMAT, load, load_run, save

DAMAGE = {
    "settings not JSON": (write("settings.json", b"dim = 20"), r"settings\.json: Expecting value"),
    "settings not text": (write("settings.json", b"\xff\xfe\x00"), r"settings\.json: .*can't decode byte"),
    "settings a list": (write("settings.json", b"[1, 2]"), r"settings\.json holds a list, expected an object"),
    "settings empty": (write("settings.json", b""), r"settings\.json: Expecting value"),
    "unknown setting": (edit_settings(settings={"dim": 20, "magic": 1}), r"a setting 'magic', which this version does"),
    "absurd setting": (edit_settings(settings={"dim": -20}), "dim -20, expected a whole number of at least 1"),
    "setting of another type": (edit_settings(settings={"dim": "many"}), "damaged or truncated"),
    "no settings in settings": (drop_setting("settings"), "'settings' is missing"),
    "settings a number": (edit_settings(settings=3), "damaged or truncated"),
    "unknown method": (
        edit_settings(method="transe"),
        r"settings\.json has a method 'transe', which this version does not know",
    ),
    "method of other settings": (edit_settings(method="contrast"), "a setting '[a-z_]+', which this version does"),
    "method a list": (edit_settings(method=["fit"]), "damaged or truncated"),
    "no method": (drop_setting("method"), "'method' is missing"),
    "no name of the graph": (drop_setting("graph"), "'graph' is missing"),
    "report not JSON": (write("report.json", b"{"), r"report\.json: Expecting"),
    "report a list": (write("report.json", b"[]"), r"report\.json holds a list, expected an object"),
    "report missing": (remove("report.json"), r"No such file or directory: .*report\.json"),
    "labels a list": (write("labels.json", b'["a"]'), r"labels\.json holds a list, expected an object"),
    "entities missing": (remove("entities.txt"), r"No such file or directory: .*entities\.txt"),
    "entities not text": (write("entities.txt", b"\xff\n"), "can't decode byte"),
    "entities empty": (write("entities.txt", b""), r"vectors of shape \(60, 4, 5\), expected \(0, 4, 5\)"),
    "an entity too few": (
        drop_last_line("entities.txt"),
        r"vectors of shape \(60, 4, 5\), expected \(59, 4, 5\) for 59 names of entities and 8 of relations",
    ),
    "relations missing": (remove("relations.txt"), r"No such file or directory: .*relations\.txt"),
    "a relation too few": (
        drop_last_line("relations.txt"),
        r"rotations of shape \(8, 4, 5, 5\), expected \(7, 4, 5, 5\)",
    ),
    "model missing": (remove(MODEL), r"No such file or directory: .*model\.safetensors"),
    "model of noise": (write(MODEL, bytes(range(256)) * 20), "damaged or truncated"),
    "no vectors": (edit_tensors(MODEL, vectors=None), "'vectors' is missing"),
    "vectors flat": (edit_tensors(MODEL, vectors=lambda table: table.flatten(1)), r"vectors of shape \(60, 20\)"),
    "segments lost": (edit_tensors(MODEL, vectors=lambda table: table[:, :3]), r"expected \(8, 3, 5, 5\)"),
    "rotations not square": (edit_tensors(MODEL, rotations=lambda table: table[..., :4]), r"\(8, 4, 5, 4\), expected"),
    "translations of tails alone": (
        edit_tensors(MODEL, translations=lambda table: table[:8]),
        r"translations of shape \(8, 4, 5\), expected \(16, 4, 5\)",
    ),
    "no translations": (edit_tensors(MODEL, translations=None), "'translations' is missing"),
    "no relations, no triples": (
        lambda folder: [edit_tensors(MODEL, rotations=None)(folder), remove(TRIPLES)(folder)],
        "both the relations and the triples to compute them from are missing",
    ),
    "triples cut": (
        lambda folder: write(TRIPLES, (folder / TRIPLES).read_bytes()[:-8])(folder),
        "damaged or truncated",
    ),
    "no test split": (edit_tensors(TRIPLES, test=None), "'test' is missing"),
    "triples of two": (
        edit_tensors(TRIPLES, valid=lambda rows: rows[:, :2]),
        r"valid triples of shape \(48, 2\), expected three columns",
    ),
    "head too high": (edit_tensors(TRIPLES, train=with_id(0, 60)), "train triples with ids that have no name"),
    "relation too high": (edit_tensors(TRIPLES, valid=with_id(1, 8)), "valid triples with ids that have no name"),
    "tail below zero": (edit_tensors(TRIPLES, test=with_id(2, -1)), "test triples with ids that have no name"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_said_with_the_folder_and_what_to_do(kind, folder):
    damage, message = DAMAGE[kind]
    damage(folder)
    for attempt in (load, load_run):
        with pytest.raises(InputError, match=message) as caught:
            attempt(folder)
        text = str(caught.value)
        assert text.startswith(f"{folder}: damaged or truncated (")
        assert text.endswith("; train again or restore it from a copy")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edit_tensors(MODEL, scales=lambda table: table[:8]), r"scales of shape \(8, 4, 5\), expected \(16, 4, 5\)"),
        (edit_tensors(MODEL, scales=lambda table: table[..., :1]), r"scales of shape \(16, 4, 1\), expected"),
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
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path / "run")
    assert str(caught.value).startswith(f"{tmp_path / 'run'}: damaged or truncated (")


def test_a_truncated_file_is_never_taken_for_a_whole_one(folder):
    for file in sorted(folder.iterdir()):
        whole = file.read_bytes()
        # A JSON file is whole without the line break at its end.
        for length in {0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 2} & set(range(len(whole) - 1)):
            file.write_bytes(whole[:length])
            with pytest.raises(InputError, match="train again or restore it from a copy") as caught:
                load(folder)
            assert str(caught.value).startswith(f"{folder}: damaged")
        file.write_bytes(whole)
    load(folder)


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


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"format": FORMAT + 1}, f"format {FORMAT + 1} of model 'procrustes'"),
        ({"format": FORMAT - 1}, f"format {FORMAT - 1} of model 'procrustes'"),
        ({"format": None}, "format None of model 'procrustes'"),
        ({"model": "nobody"}, f"format {FORMAT} of model 'nobody'"),
    ],
)
def test_other_formats_and_models_are_refused(changes, seen, folder):
    edit_settings(**changes)(folder)
    remove("report.json", MODEL)(folder)  # another version need not have our files
    with pytest.raises(InputError) as caught:
        load(folder)
    expected = f"written in {seen}, this version reads format {FORMAT} of 'procrustes' or a baseline; train again"
    assert str(caught.value) == f"{folder}: {expected}"


@pytest.mark.parametrize("table", ["scales", "translations"])
@pytest.mark.parametrize("relations", [True, False])
def test_a_table_that_a_contrasted_model_has_lost_is_missed(table, relations, tmp_path):
    model, graph, settings = learned(replace(CONTRAST, epochs=1))
    save(model, tmp_path / "run", graph, settings, relations=relations)
    edit_tensors(MODEL, **{table: None})(tmp_path / "run")
    with pytest.raises(InputError, match=f"'{table}' is missing"):
        load(tmp_path / "run")
