"""Laws of a user's columns."""

from math import isnan

import pytest

from laws import refused
from procrustes_kge.explore.space.columns import MOST_WORDS, read_column
from procrustes_kge.graphs.graph import Vocabulary

NAMES = Vocabulary(["dog", "cat", "<http://e.org/Zoë>", "mouse"], "entity")


def column(tmp_path, text, name="weight.tsv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_column(tmp_path / name, NAMES)


def test_numbers_are_a_scale_and_names_are_found_in_any_spelling(tmp_path):
    found = column(tmp_path, "name\tkg\ndog\t30\nhttp://e.org/Zoe\u0308\t6e1\nmouse\tnan\nwhale\theavy\n")
    assert found.name == "weight"
    assert (found.numbers[0], found.numbers[2]) == (30, 60)
    assert isnan(found.numbers[1])
    assert isnan(found.numbers[3])


def test_anything_else_is_words_and_the_most_frequent_come_first(tmp_path):
    found = column(tmp_path, "dog,large\ncat,small\nmouse,small\n", "size.csv")
    assert (found.words, found.codes) == (("small", "large"), (1, 0, -1, 0))


def test_of_many_words_the_rare_ones_are_one(tmp_path):
    names = Vocabulary([f"e{row}" for row in range(100)], "entity")
    lines = "".join(f"e{row}\tword {row if row > 9 else 0}\n" for row in range(100))
    (tmp_path / "many.tsv").write_text(lines)
    found = read_column(tmp_path / "many.tsv", names)
    assert len(found.words) == MOST_WORDS
    assert (found.words[0], found.words[-1]) == ("word 0", "others")
    assert max(found.codes) == MOST_WORDS - 1


@pytest.mark.parametrize(
    ("text", "seen", "remedy"),
    [
        ("whale\t3\n", "'whale'", "such as 'dog'"),
        ("", "no labels", "a name and its label"),
        ("dog\t3\t4\n", "3 columns", "remove"),
    ],
    ids=["other names", "empty", "three columns"],
)
def test_a_file_that_says_nothing_of_the_entities_is_refused(tmp_path, text, seen, remedy):
    refused(lambda: column(tmp_path, text), setting="weight.tsv", seen=seen, remedy=remedy)
