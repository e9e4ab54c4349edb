"""Laws of files: there whole or not at all, refused in a sentence, and read as they were written."""

import json

import pytest
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.system import files
from procrustes_kge.system.files import (
    explain_write_errors,
    read_json,
    scratch_folder,
    stale_scratch,
    stale_within,
    write_json,
    write_json_atomically,
)

# UTF-8 has no bytes for halves of surrogate pairs, which names may hold.
objects = st.dictionaries(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))


@given(content=objects)
def test_an_object_is_read_as_it_was_written(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "content.json"
    write_json_atomically(path, content)
    assert read_json(path) == content


def test_a_file_is_written_into_folders_that_are_not_there_yet(tmp_path):
    write_json_atomically(tmp_path / "deep" / "deeper" / "content.json", {"a": 1})
    assert read_json(tmp_path / "deep" / "deeper" / "content.json") == {"a": 1}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_file_that_is_not_finished_leaves_the_old_one(error, tmp_path, monkeypatch):
    def broken(path, content):
        path.write_text('{"half": ')
        raise error

    path = tmp_path / "content.json"
    write_json(path, {"old": 1})
    monkeypatch.setattr(files, "write_json", broken)
    with pytest.raises(error):
        write_json_atomically(path, {"new": 2})
    assert read_json(path) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_json_is_not_written(tmp_path):
    with pytest.raises(TypeError):
        write_json_atomically(tmp_path / "content.json", {"a": object()})
    assert list(tmp_path.iterdir()) == []


def test_what_the_system_refuses_names_the_place_the_reason_and_a_remedy(tmp_path):
    (tmp_path / "file").write_text("precious")
    for write in (lambda path: write_json_atomically(path, {}), lambda path: scratch_folder(path).__enter__()):
        for target in (tmp_path / "file" / "content.json", tmp_path / ("x" * 300)):
            with pytest.raises(InputError, match=r"cannot be written \(.+\); choose another place") as caught:
                write(target)
            assert str(caught.value).startswith(f"{target}: ")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_the_scratch_of_a_living_process_stays(tmp_path):
    with scratch_folder(tmp_path / "run") as mine:
        (mine / "half").write_text("half")
        assert stale_scratch(tmp_path / "run") == stale_within(tmp_path) == []
        with scratch_folder(tmp_path / "run") as other:
            assert mine != other
        assert [*tmp_path.iterdir()] == [mine]


@pytest.mark.parametrize("error", [ValueError("mine"), InputError("mine"), KeyboardInterrupt("mine")])
def test_other_errors_pass(error, tmp_path):
    with pytest.raises(type(error)) as caught, explain_write_errors(tmp_path):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("text", ["[1]", "1", '{"a": ', ""])
def test_what_is_no_object_names_the_file(text, tmp_path):
    (tmp_path / "content.json").write_text(text)
    with pytest.raises(ValueError, match=r"content\.json"):
        read_json(tmp_path / "content.json")


def test_json_is_for_people_too(tmp_path):
    write_json(tmp_path / "content.json", {"näme": [1]})
    text = (tmp_path / "content.json").read_text(encoding="utf-8")
    assert "näme" in text
    assert text == json.dumps({"näme": [1]}, indent=2, ensure_ascii=False) + "\n"
