"""Laws of graphs: nothing lost, nothing counted twice, names as written, and every mistake told."""

import gzip
import os
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
import torch
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS, Vocabulary, split_graph
from procrustes_kge.graphs.reading import read_graph, write_graph
from procrustes_kge.words import counted

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

REAL_DATA = os.environ.get("PROCRUSTES_DATA")

ROWS = [("e:a", "e:r", "e:b"), ("e:b", "e:r", "e:c"), ("e:c", "e:s", "e:a"), ("e:a", "e:s", "e:a")]


def named(graph, split):
    """Return the triples of a split by their names, in order."""
    ids = graph.split(split).tolist()
    return [(graph.entities[head], graph.relations[relation], graph.entities[tail]) for head, relation, tail in ids]


def named_splits(graph):
    return {split: named(graph, split) for split in SPLITS}


def whole(source, **options):
    """Read everything into train."""
    return read_graph(source, valid=0.0, test=0.0, **options)


def lines(rows, separator="\t"):
    return "".join(separator.join(row) + "\n" for row in rows).encode()


def write(path, rows):
    """Write rows in the format that the name of the file asks for."""
    plain = path.with_suffix("") if path.suffix in (".gz", ".zst") else path
    if plain.suffix == ".parquet":
        polars.DataFrame(rows, schema=["head", "relation", "tail"], orient="row").write_parquet(path)
        return path
    if plain.suffix == ".nt":
        data = "".join("<{}> <{}> <{}> .\n".format(*row) for row in rows).encode()
    else:
        data = lines(rows, "," if plain.suffix == ".csv" else "\t")
    path.write_bytes({".gz": gzip.compress, ".zst": zstd.compress}.get(path.suffix, bytes)(data))
    return path


def failure(source, **options):
    with pytest.raises(InputError) as caught:
        read_graph(source, **options)
    return str(caught.value)


# Folders.


@pytest.mark.parametrize("suffix", ["", ".txt", ".TSV", ".csv", ".tsv.gz", ".csv.zst", ".parquet", ".nt", ".nt.gz"])
def test_a_folder_holds_a_file_for_each_split(tmp_path, suffix):
    parts = {"train": ROWS[:2], "valid": ROWS[2:3], "test": ROWS[3:]}
    for split, rows in parts.items():
        write(tmp_path / f"{split}{suffix}", rows)
    graph = read_graph(tmp_path)
    assert named_splits(graph) == parts
    assert (graph.name, graph.notes) == (tmp_path.name, ())
    assert repr(graph) == f"Graph({tmp_path.name}   3 entities · 2 relations · 4 triples)"


def test_splits_may_come_in_different_formats_beside_other_files(tmp_path):
    write(tmp_path / "train.nt.gz", ROWS[:2])
    write(tmp_path / "TEST.csv", ROWS[3:])
    for other in ("README.md", "entity2id.txt", "train.md", ".train.txt", "trained.txt", "valid.json"):
        (tmp_path / other).write_text("no triples\n")
    (tmp_path / "valid").mkdir()
    assert named_splits(read_graph(str(tmp_path))) == {"train": ROWS[:2], "valid": [], "test": ROWS[3:]}


@pytest.mark.parametrize("word", ["valid", "validation", "dev", "val", "Dev"])
def test_validation_goes_by_several_words(tmp_path, word):
    write(tmp_path / "train.txt", ROWS[:3])
    write(tmp_path / f"{word}.tsv", ROWS[3:])
    assert named(read_graph(tmp_path), "valid") == ROWS[3:]


@pytest.mark.parametrize(("one", "other"), [("train.tsv", "train.txt"), ("dev.txt", "valid.txt")])
def test_two_files_for_one_split_are_refused(tmp_path, one, other):
    for name in {"train.txt", one, other}:
        write(tmp_path / name, ROWS)
    split = "train" if "train" in one else "valid"
    assert failure(tmp_path) == f"{tmp_path}: both {one} and {other} hold the {split} split; keep one of them"


@pytest.mark.parametrize("found", [[], ["valid.txt"], ["README.md", "graph.tsv"], [f"part{i}.tsv" for i in range(9)]])
def test_a_folder_without_triples_is_refused_with_what_was_found(tmp_path, found):
    for name in found:
        write(tmp_path / name, ROWS)
    expected = "no triples here, expected a file train.txt (and valid.txt, test.txt); found "
    assert failure(tmp_path) == f"{tmp_path}: {expected}{', '.join(sorted(found)[:5]) or 'nothing'}"


def test_separator_and_header_reach_every_file_of_a_folder(tmp_path):
    (tmp_path / "train.txt").write_text("s;p;o\na b;r;b\n")
    (tmp_path / "test.txt").write_text("x;y;z\nb;r;a b\n")
    kept = read_graph(tmp_path, separator=";", header=False)
    assert (len(kept.train), len(kept.test)) == (2, 2)
    skipped = read_graph(tmp_path, separator="semicolon", header=True)
    assert named_splits(skipped) == {"train": [("a b", "r", "b")], "valid": [], "test": [("b", "r", "a b")]}
    assert skipped.notes == ("train: 1 header line skipped (s, p, o)", "test: 1 header line skipped (x, y, z)")


# Names of datasets, and paths.


def test_a_dataset_is_known_by_name_in_capitals_or_not():
    graph = read_graph("WordNet-Mini")
    assert graph.name == "wordnet-mini"
    assert (len(graph.entities), len(graph.relations)) == (11_996, 17)
    assert [len(graph.split(split)) for split in SPLITS] == [34_698, 1_927, 1_927]


def test_an_existing_folder_comes_before_a_dataset_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("umls").mkdir()
    write(tmp_path / "umls" / "train.txt", ROWS)
    assert named(read_graph("umls"), "train") == ROWS


def test_an_unknown_name_is_told_which_one_is_near():
    assert failure("wn18r").startswith("unknown dataset 'wn18r'. Did you mean wn18rr?")
    assert "Known: wordnet-mini, wn18rr, fb15k-237" in failure("something-else")


@pytest.mark.parametrize("source", ["no/such", "graph.tsv", "graph.nt.gz", "/absent", Path("no/such"), "graph.parquet"])
def test_what_looks_like_a_path_is_missed_as_a_path(source):
    assert failure(source).startswith(f"{source}: no such file or folder; `procrustes data` lists the datasets")


# One file, frame or array.


def test_a_file_gives_the_graph_its_name(tmp_path):
    assert read_graph(write(tmp_path / "people.v2.tsv.gz", ROWS)).name == "people"


def test_numbers_in_files_stay_as_written(tmp_path):
    rows = [("007", "1.0", "7"), ("7", "1", "1e3"), ("07", "+1", "nan"), ("NA", "None", "null")]
    graph = whole(write(tmp_path / "numbers.tsv", rows))
    assert named(graph, "train") == rows
    assert graph.entities.id("007") != graph.entities.id("7")


SAME = {
    "pandas": pandas.DataFrame(ROWS, columns=["head", "relation", "tail"]),
    "pandas strings": pandas.DataFrame(ROWS, dtype="string"),
    "pandas categories": pandas.DataFrame(ROWS, columns=["x", "y", "z"]).astype("category"),
    "pandas, names twice": pandas.DataFrame(ROWS, columns=["x", "y", "x"]),
    "pandas, an index": pandas.DataFrame(ROWS, index=[5, 5, 6, 7]),
    "polars": polars.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row"),
    "polars categories": polars.DataFrame(ROWS, schema=["x", "y", "z"], orient="row").cast(polars.Categorical),
    "numpy": np.array(ROWS),
    "numpy objects": np.array(ROWS, dtype=object),
    "lists": [list(row) for row in ROWS],
    "a generator": ROWS,
}


@pytest.mark.parametrize("kind", SAME)
def test_frames_arrays_and_rows_of_the_same_names_are_the_same_graph(kind, tmp_path):
    source = iter(SAME[kind]) if kind == "a generator" else SAME[kind]
    graph = whole(source)
    assert named(graph, "train") == ROWS
    names = {"pandas categories": "x, y, z", "polars categories": "x, y, z", "pandas, names twice": "x, y, x"}.get(kind)
    told = (f"columns read as head, relation, tail: {names}",) if names else ()
    assert (graph.name, graph.notes) == ("frame", told)
    assert graph.checksum == whole(write(tmp_path / "graph.tsv", ROWS)).checksum


def test_whole_numbers_become_plain_text():
    numbers = [(10, 0, 2), (2, 1, 10_000_000)]
    texts = [("10", "0", "2"), ("2", "1", "10000000")]
    sources = [numbers, np.array(numbers), torch.tensor(numbers), np.array(numbers, dtype=np.uint32)]
    sources += [pandas.DataFrame(numbers), polars.DataFrame(numbers, orient="row")]
    for source in sources:
        assert named(whole(source), "train") == texts
    mixed = pandas.DataFrame({"h": [1, 2], "r": ["r", "r"], "t": ["x", "y"]})
    assert named(whole(mixed), "train") == [("1", "r", "x"), ("2", "r", "y")]


MISSING = {
    "None": [("a", "r", None)],
    "empty": [("", "r", "b")],
    "nan": [("a", float("nan"), "b")],
    "numpy": np.array([[1.0, 2.0, np.nan]]),
    "pandas": pandas.DataFrame([("a", "r", "b"), ("a", "r", None)]),
    "pandas NA": pandas.DataFrame([("a", "r", "b"), ("a", "r", pandas.NA)], dtype="string"),
    "pandas numbers": pandas.DataFrame([(1, 2, 3), (1, 2, None)], dtype="Int64"),
    "pandas NaT": pandas.DataFrame([("a", "r", pandas.NaT)]),
    "polars": polars.DataFrame([("a", "r", "b"), ("a", "r", None)], schema=["h", "r", "t"], orient="row"),
    "polars numbers": polars.DataFrame([(1, 2, 3), (1, 2, None)], schema=["h", "r", "t"], orient="row"),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_are_refused(kind):
    message = r"frame, row [12]: the (head|relation|tail) is empty, expected a name; fill it in or leave the triple out"
    assert re.fullmatch(message, failure(MISSING[kind]))


WRONG = {
    "two values": ([("a", "r", "b"), ("a", "r")], "a row ('a', 'r'), expected three values"),
    "four values": ([("a", "r", "b", 0.5)], "a row ('a', 'r', 'b', 0.5), expected three values"),
    "a flat list": (["abc", "def", "ghi"], "a row 'abc', expected three values (head, relation, tail)"),
    "numbers": ([1, 2, 3], "a row 1, expected three values"),
    "a flat array": (np.arange(3), "a row 0, expected three values"),
    "two columns of numpy": (np.zeros((2, 2), dtype=int), "a row [0, 0], expected three values"),
    "two columns of pandas": (pandas.DataFrame([("a", "b")]), "frame: 2 columns, expected 3"),
    "two columns of polars": (polars.DataFrame({"h": ["a"], "t": ["b"]}), "frame: 2 columns, expected 3"),
    "no rows": ([], "frame: holds no triples; expected a head, a relation and a tail in each row"),
    "no rows of numpy": (np.empty((0, 3)), "frame: holds no triples"),
    "no rows of pandas": (pandas.DataFrame(columns=["h", "r", "t"]), "frame: holds no triples"),
    "no rows of polars": (polars.DataFrame(schema=["h", "r", "t"]), "frame: holds no triples"),
    "nothing": (None, "got None, expected a name, a path, a frame, or rows of (head, relation, tail)"),
    "one number": (np.array(5), "got array(5), expected a name, a path"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_not_three_columns_is_refused(kind):
    source, expected = WRONG[kind]
    assert failure(source).startswith(expected)


# Numbering and duplicates.

some_triples = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60
).map(lambda rows: [(f"e{head}", f"r{relation}", f"e{tail}") for head, relation, tail in rows])


def test_ids_are_given_in_order_of_first_appearance_through_the_splits(tmp_path):
    write(tmp_path / "test.txt", [("z", "q", "a")])
    write(tmp_path / "train.txt", [("m", "r", "c"), ("c", "q", "b")])
    write(tmp_path / "valid.txt", [("b", "p", "m"), ("m", "r", "a")])
    graph = read_graph(tmp_path)
    assert list(graph.entities) == ["m", "c", "b", "a", "z"]
    assert list(graph.relations) == ["r", "q", "p"]
    assert graph.train.tolist() == [[0, 0, 1], [1, 1, 2]]


@given(some_triples)
def test_duplicates_are_dropped_and_told_and_nothing_else_is(rows):
    graph = whole(rows)
    once = list(dict.fromkeys(rows))
    assert named(graph, "train") == once
    told = [note for note in graph.notes if "duplicate triple" in note]
    assert len(told) == (len(once) < len(rows))
    assert all(note.startswith(f"{len(rows) - len(once)} duplicate") for note in told)


def test_a_triple_belongs_to_the_first_split_that_holds_it(tmp_path):
    write(tmp_path / "train.txt", [ROWS[0], ROWS[1], ROWS[0]])
    write(tmp_path / "valid.txt", [ROWS[2], ROWS[1]])
    write(tmp_path / "test.txt", [ROWS[3], ROWS[0], ROWS[2], ROWS[3]])
    graph = read_graph(tmp_path)
    assert named_splits(graph) == {"train": ROWS[:2], "valid": ROWS[2:3], "test": ROWS[3:]}
    dropped = [(note.split(":")[0], note.split()[1]) for note in graph.notes]
    assert dropped == [("train", "1"), ("valid", "1"), ("test", "3")]


def test_a_test_split_that_stands_in_train_is_left_empty_and_told(tmp_path):
    write(tmp_path / "train.txt", ROWS)
    write(tmp_path / "test.txt", ROWS[:2])
    graph = read_graph(tmp_path)
    assert len(graph.test) == 0
    assert graph.notes == ("test: 2 duplicate triples dropped",)


# Splitting.

shares = st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)).filter(lambda pair: sum(pair) < 1)


@given(some_triples, shares, st.integers(-(2**70), 2**70))
def test_splitting_loses_nothing_and_leaves_nothing_unseen(rows, pair, seed):
    graph = read_graph(rows, valid=pair[0], test=pair[1], seed=seed)
    parts = named_splits(graph)
    every = [row for part in parts.values() for row in part]
    assert sorted(every) == sorted(set(rows))
    for place in (0, 1, 2):
        names = {row[place] for row in every}
        trained = {row[place] for row in parts["train"]}
        if place != 1:
            trained |= {row[2 - place] for row in parts["train"]}
        assert names <= trained
    assert bool(graph.seen.all())

    wanted = [round(share * len(every)) for share in pair]
    given = [len(parts["valid"]), len(parts["test"])]
    assert all(one <= other for one, other in zip(given, wanted, strict=True))
    told = [note for note in graph.notes if "set aside" in note]
    assert len(told) == (given != wanted)
    assert all(
        f"{counted(sum(given), 'triple')} set aside for valid and test instead of {sum(wanted)}:" in note
        for note in told
    )


def dense(entities=20):
    """Return a graph in which nearly every triple may go."""
    return [(f"e{head}", "r", f"e{tail}") for head in range(entities) for tail in range(entities)]


@pytest.mark.parametrize(("valid", "test"), [(0.05, 0.05), (0.1, 0.3), (0.0, 0.5), (0.25, 0.0), (0.0, 0.0), (0.4, 0.4)])
def test_shares_are_respected_where_the_graph_allows(valid, test):
    graph = read_graph(dense(), valid=valid, test=test)
    assert len(graph.valid) == round(400 * valid)
    assert len(graph.test) == round(400 * test)
    assert graph.notes == ()


def test_a_seed_repeats_a_split_and_another_seed_gives_another():
    same = [named_splits(read_graph(dense(), seed=seed)) for seed in (0, 0, 1, -1)]
    assert same[0] == same[1] == named_splits(read_graph(dense()))
    assert same[0]["test"] != same[2]["test"] != same[3]["test"]


def test_triples_keep_their_order_within_each_split():
    rows = dense()
    for part in named_splits(read_graph(rows, valid=0.2, test=0.2)).values():
        assert part == sorted(part, key=rows.index)


@pytest.mark.parametrize("shape", ["star", "chain"])
def test_of_a_tree_less_can_be_set_aside_and_a_note_says_so(shape):
    parents = [0 if shape == "star" else child - 1 for child in range(1, 101)]
    rows = [(child, "is_under", parent) for child, parent in enumerate(parents, start=1)]
    graph = read_graph(rows, valid=0.4, test=0.4)
    held = len(graph.valid) + len(graph.test)
    # Each triple of a star is the only one of its leaf; of a chain an inner triple may go if both neighbours stay.
    assert held == 0 if shape == "star" else 0 < held <= 50
    assert bool(graph.seen.all())
    (note,) = graph.notes
    assert note.startswith(f"{counted(held, 'triple')} set aside for valid and test instead of 80: ")


def test_where_less_can_be_set_aside_valid_and_test_keep_their_proportion():
    rows = [*dense(8), *((f"leaf{number}", "r", "e0") for number in range(200))]
    graph = read_graph(rows, valid=0.1, test=0.3)
    assert 0 < len(graph.valid) + len(graph.test) <= 64
    assert len(graph.test) == pytest.approx(3 * len(graph.valid), abs=3)


def test_splitting_again_adds_to_what_was_set_aside():
    graph = read_graph(dense(), valid=0.0, test=0.1)
    again = split_graph(graph, valid=0.1, test=0.0)
    assert named(again, "test") == named(graph, "test")
    assert len(again.valid) == 36
    assert sorted(named(again, "train") + named(again, "valid")) == sorted(named(graph, "train"))


@pytest.mark.parametrize(("valid", "test"), [(-0.1, 0.0), (0.0, 1.0), (1.5, 0.0), (0.5, 0.5), (float("nan"), 0.0)])
def test_shares_out_of_range_are_refused(valid, test):
    message = f"valid share {valid} and test share {test}, expected two numbers of at least 0 whose sum is below 1"
    assert failure(ROWS, valid=valid, test=test) == message


# Writing.

names = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"), min_size=1, max_size=8)
names = names.filter(lambda name: name == name.strip())


@given(st.lists(st.tuples(names, names, names), min_size=1, max_size=20), st.integers(0, 9))
def test_what_is_written_is_read_back(rows, seed):
    graph = read_graph(rows, valid=0.2, test=0.2, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        write_graph(graph, folder)
        again = read_graph(folder, header=False)
        write_graph(again, Path(folder) / "deeper" / "still")
        third = read_graph(Path(folder) / "deeper" / "still", header=False)
    assert named_splits(again) == named_splits(graph)
    assert again.checksum == third.checksum  # both number names as they appear in the files
    assert again.notes == ()


def test_writing_leaves_no_split_of_another_graph_behind(tmp_path):
    graph = read_graph(dense(), valid=0.1, test=0.1)
    write_graph(graph, tmp_path)
    write_graph(whole(ROWS), tmp_path)
    assert named_splits(read_graph(tmp_path)) == {"train": ROWS, "valid": [], "test": []}


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_files_that_were_not_written_here_are_neither_replaced_nor_deleted(split, tmp_path):
    mine = tmp_path / f"{split}.txt"
    mine.write_text("a\tr\tb\n")
    with pytest.raises(InputError, match=rf"{mine.name}: .*is there already and was not written by procrustes; choose"):
        write_graph(whole(ROWS), tmp_path)
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(mine, "a\tr\tb\n")]
    mine.unlink()
    write_graph(read_graph(dense(), valid=0.1, test=0.1), tmp_path)
    with mine.open("a") as file:
        file.write("a\tr\tb\n")
    before = {file: file.read_text() for file in tmp_path.iterdir()}
    with pytest.raises(
        InputError, match=rf"{mine.name}: .*was changed since procrustes wrote it; choose another folder"
    ):
        write_graph(whole(ROWS), tmp_path)
    assert {file: file.read_text() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["train.tsv", "dev.txt", "test.nt.gz"])
def test_no_graph_is_written_where_a_file_beside_it_would_be_read_as_a_part_of_it(name, tmp_path):
    (tmp_path / name).write_text("a\tr\tb\n")
    with pytest.raises(InputError, match=rf"{name}: would be read as a part of this graph; choose another folder"):
        write_graph(whole(ROWS), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    real = Path.stat

    def forbidden(path, **options):
        if "locked" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", forbidden)
    for source in (tmp_path / "locked", tmp_path / "locked" / "graph.tsv"):
        refused(
            lambda source=source: read_graph(source), setting=source, seen="Permission denied", remedy="permissions"
        )


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("broken", ["write_text", "rename"])
def test_all_splits_are_written_or_none(broken, error, tmp_path, monkeypatch):
    write_graph(whole(ROWS), tmp_path)
    before = {file: file.read_text() for file in tmp_path.iterdir()}
    real, calls = getattr(Path, broken), []

    def breaking(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(Path, broken, breaking)
    with pytest.raises((InputError, KeyboardInterrupt)):
        write_graph(read_graph(dense(), valid=0.1, test=0.1), tmp_path)
    assert {file: file.read_text() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\rb", "a\ufeffb"])
def test_names_that_would_be_read_otherwise_are_not_written(tmp_path, name):
    for row in [(name, "r", "b"), ("a", name, "b")]:
        with pytest.raises(InputError, match="which these files cannot hold; save as Parquet instead") as caught:
            write_graph(whole([row]), tmp_path / "folder")
        assert repr(name) in str(caught.value)
        assert not (tmp_path / "folder").exists()


# Checksums.


def test_equal_graphs_have_equal_checksums_wherever_they_came_from(tmp_path):
    (tmp_path / "folder").mkdir()
    sums = {
        whole(ROWS).checksum,
        whole(write(tmp_path / "one.csv", ROWS)).checksum,
        whole(write(tmp_path / "two.nt", [*ROWS, ROWS[0]])).checksum,
        read_graph(write(tmp_path / "folder" / "train.parquet", ROWS).parent).checksum,
        replace(whole(ROWS), name="other", notes=("told",)).checksum,
    }
    assert len(sums) == 1


@given(some_triples, st.data())
def test_another_triple_or_name_or_split_has_another_checksum(rows, data):
    graph = whole(rows)
    others = [whole([*rows, ("e0", "another", "e1")])]
    place = data.draw(st.integers(0, len(graph.train) - 1))
    kept = torch.arange(len(graph.train)) != place
    others.append(replace(graph, train=graph.train[kept]))
    others.append(replace(graph, train=graph.train[kept], valid=graph.train[~kept]))
    others.append(replace(graph, train=graph.train[kept], test=graph.train[~kept]))
    others.append(replace(graph, entities=Vocabulary([*graph.entities[:-1], "other"], "entity")))
    others.append(replace(graph, relations=Vocabulary([*graph.relations[:-1], "other"], "relation")))
    assert len({other.checksum for other in [graph, *others]}) == 1 + len(others)


def test_an_unknown_split_is_refused():
    with pytest.raises(InputError, match=r"unknown split 'dev'\. Known: train, valid, test"):
        whole(ROWS).split("dev")


# Vocabularies.

LABELS = {"Q1": "Ada Lovelace", "Q2": "Paris", "Q3": "Paris", "Q9": "not in the graph", "Q5": "Q4"}
PEOPLE = Vocabulary(["Q1", "Q2", "Q3", "Q4", "Q5", "Grace Hopper"], "entity", LABELS)


def test_a_vocabulary_is_the_sequence_of_its_names():
    assert (len(PEOPLE), PEOPLE[1], PEOPLE[-1], PEOPLE[:2]) == (6, "Q2", "Grace Hopper", ("Q1", "Q2"))
    assert list(PEOPLE) == ["Q1", "Q2", "Q3", "Q4", "Q5", "Grace Hopper"]
    assert [PEOPLE.id(name) for name in PEOPLE] == list(range(6))
    assert "Q4" in PEOPLE
    assert "Ada Lovelace" not in PEOPLE
    assert repr(PEOPLE) == "Vocabulary(6 entities)"


def test_labels_are_shown_where_there_are_any():
    assert [PEOPLE.label(row) for row in (0, 1, 3, 5)] == ["Ada Lovelace", "Paris", "Q4", "Grace Hopper"]
    assert "Q9" not in PEOPLE.labels


def test_a_label_that_one_name_carries_finds_it_and_a_name_comes_first():
    assert PEOPLE.id("Ada Lovelace") == 0
    assert PEOPLE.id("Q4") == 3  # also the label of Q5


def test_a_label_of_several_names_lists_them():
    with pytest.raises(InputError, match=r"^entity 'Paris' is the label of 2 names; give one of them: 'Q2', 'Q3'$"):
        PEOPLE.id("Paris")
    many = Vocabulary([f"Q{number}" for number in range(9)], "entity", {f"Q{number}": "Paris" for number in range(9)})
    with pytest.raises(InputError, match="of 9 names; give one of them: 'Q0', 'Q1', 'Q2', 'Q3', 'Q4', …"):
        many.id("Paris")


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("Ada Lovelase", "'Ada Lovelace'"),
        ("ada lovelaces", "'Ada Lovelace'"),
        ("hopper", "'Grace Hopper'"),
        ("Grace", "'Grace Hopper'"),
        ("Grace Hoper", "'Grace Hopper'"),
        ("love", "'Ada Lovelace'"),
    ],
)
def test_typos_and_parts_of_names_are_told_what_is_near(asked, suggested):
    with pytest.raises(InputError) as caught:
        PEOPLE.id(asked)
    assert str(caught.value).startswith(f"unknown entity {asked!r}. Did you mean {suggested}? Known: 'Q1', ")


@pytest.mark.parametrize("asked", ["", "xyzzy", "completely different"])
def test_where_nothing_is_near_nothing_is_suggested(asked):
    with pytest.raises(InputError) as caught:
        PEOPLE.id(asked)
    assert str(caught.value) == f"unknown entity {asked!r}. Known: 'Q1', 'Q2', 'Q3', 'Q4', 'Q5', … (6 in all)"


def test_of_many_that_are_near_the_few_nearest_are_suggested():
    crowd = Vocabulary(["hotdog", "dogma of the church", "dogma", *(f"a dog named {n}" for n in range(99))], "entity")
    with pytest.raises(InputError) as caught:
        crowd.id("dog")
    suggested = str(caught.value).split("Did you mean ")[1].split("?")[0]
    assert suggested.startswith("'dogma', 'dogma of the church', 'hotdog', ")
    assert suggested.count("'") == 10


# Legal oddities.


def test_one_relation_self_loops_and_a_relation_that_occurs_once_are_legal():
    rows = [*dense(4), ("e0", "once", "e0")]
    graph = read_graph(rows, valid=0.2, test=0.2)
    assert list(graph.relations) == ["r", "once"]
    assert ("e0", "once", "e0") in named(graph, "train")
    alone = read_graph([("a", "r", "a")], valid=0.4, test=0.4)
    assert (len(alone.entities), len(alone.train), len(alone.valid), len(alone.test)) == (1, 1, 0, 0)
    assert alone.describe() == "frame   1 entity · 1 relation · 1 triple"


def test_an_entity_that_only_valid_or_test_holds_is_not_seen(tmp_path):
    write(tmp_path / "train.txt", [("a", "r", "b"), ("c", "r", "c")])
    write(tmp_path / "valid.txt", [("a", "s", "v")])
    write(tmp_path / "test.txt", [("t", "r", "b"), ("t", "r", "v")])
    graph = read_graph(tmp_path)
    seen = dict(zip(graph.entities, graph.seen.tolist(), strict=True))
    assert seen == {"a": True, "b": True, "c": True, "v": False, "t": False}
    assert list(graph.relations) == ["r", "s"]
    assert graph.remarks() == [
        "1 triple from an entity to itself",
        "2 entities in valid or test but not in train, so not learned",
        "1 relation in valid or test but not in train, so not learned",
    ]


def test_too_few_triples_to_set_any_aside_are_told():
    graph = read_graph(ROWS[:3])
    assert (len(graph.valid), len(graph.test)) == (0, 0)
    assert graph.notes == ("3 triples: too few to set any aside for valid and test",)
    assert read_graph(ROWS[:3], valid=0, test=0).notes == ()


# The benchmarks, as documented beside their files.


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder of benchmark archives")
@pytest.mark.parametrize(
    ("name", "entities", "relations", "sizes", "seen", "unseen", "loops", "labels"),
    [
        ("wn18rr", 40_943, 11, (86_835, 3_034, 3_134), 40_559, (210, 210), (7, 0), 40_943),
        ("fb15k-237", 14_541, 237, (272_115, 17_535, 20_466), 14_505, (9, 28), (1_625, 91), 14_515),
    ],
)
def test_the_benchmarks_have_their_documented_counts(name, entities, relations, sizes, seen, unseen, loops, labels):
    graph = read_graph(name)
    assert (len(graph.entities), len(graph.relations)) == (entities, relations)
    assert tuple(len(graph.split(split)) for split in SPLITS) == sizes
    assert int(graph.seen.sum()) == seen
    unknown = [int((~graph.seen[graph.split(split)[:, [0, 2]]]).any(dim=1).sum()) for split in ("valid", "test")]
    assert tuple(unknown) == unseen
    turned_back = [int((graph.split(split)[:, 0] == graph.split(split)[:, 2]).sum()) for split in ("train", "test")]
    assert tuple(turned_back) == loops
    assert len(graph.entities.labels) == labels
    assert graph.notes == ()
