"""Laws of answers: the same rows as dataclasses, as frames, and as text."""

import sys
from dataclasses import asdict

import pytest

from laws import refused
from procrustes_kge.explore.answers import Answers, Judgement, Prediction
from procrustes_kge.explore.predicting import predict
from toys import planted_model


def some():
    model, graph = planted_model()
    return predict(model, questions=[(4, 1, None), (5, 2, None)], k=2, known=True, graph=graph)


def test_frames_have_the_rows_and_columns_of_the_answers():
    answers = some()
    for frame in (answers.to_pandas(), answers.to_polars()):
        assert list(frame.columns) == answers.columns
        assert len(frame) == len(answers) == 4
        assert list(frame["answer"]) == [row.answer for row in answers]
        assert list(frame["score"]) == [row.score for row in answers]


def test_a_frame_has_its_types_whatever_the_rows_hold():
    polars = pytest.importorskip("polars")
    for kind in (Prediction, Judgement):
        assert Answers(kind, []).to_polars().schema["probability"] == polars.Float64
    assert some().to_polars().schema["probability"] == polars.Float64
    assert Answers(Prediction, []).to_pandas().columns.tolist() == Answers(Prediction, []).columns


def test_answers_are_a_sequence_of_dataclasses():
    answers = some()
    assert answers[0].rank == 1
    assert [row.question for row in answers] == [1, 1, 2, 2]
    assert [asdict(row) for row in answers] == answers.records()


def test_answers_are_shown_as_a_table():
    answers = some()
    lines = repr(answers).splitlines()
    assert len(lines) == 5
    assert lines[0].split() == [name for name in answers.columns if name not in ("probability", "via")]
    assert repr(answers.kind(1, "a", "r", "b", 1, "b", "b", 0.5)).count("b") > 1
    (line, _) = repr(Answers(Prediction, [Prediction(7, "a", "r", "b", 1, "b", "b", 0.5)])).splitlines()
    assert line.split() == ["head", "relation", "tail", "rank", "answer", "score"]
    assert answers._repr_html_().count("<tr>") == 5
    refused = predict(planted_model()[0], questions=[(4, 1, None), ("no", 2, None)], k=1)
    assert repr(refused).endswith("1 question refused")


def test_a_frame_that_cannot_be_made_says_what_to_install(monkeypatch):
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    refused(some().to_pandas, setting="pandas", seen="needs pandas", remedy="pip install pandas")
    refused(some().to_polars, setting="polars", seen="needs polars", remedy="pip install")
