"""Laws of `procrustes predict`."""

import json
import re

from procrustes_kge.runs.store import load_run


def test_planted_answers_come_first_from_either_side_by_name_or_label(procrustes, planted):
    lines = procrustes(
        "predict", "runs/planted", "--head", "turn 4", "--relation", "turn 2", "-k", "3", "--known"
    ).splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"  1     5\.000   turn 6   element 6   \((train|valid|test)\)", lines[0])
    by_label = procrustes(
        "predict", "runs/planted", "--head", "element 4", "--relation", "turn 2", "-k", "3", "--known"
    )
    assert by_label.splitlines() == lines
    lines = procrustes("predict", "runs/planted", "-T", "turn 6", "-r", "turn 2", "--known").splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("  1     5.000   turn 4   element 4   (")


def test_predictions_for_programs(procrustes, planted):
    model, graph = planted
    triple = graph.valid[0].tolist()
    head, relation, tail = graph.entities[triple[0]], graph.relations[triple[1]], graph.entities[triple[2]]
    printed = json.loads(
        procrustes("predict", "runs/planted", "-H", head, "-r", relation, "-k", "2", "--json", "--known")
    )
    assert (printed["head"], printed["relation"]) == (head, relation)
    first, second = printed["answers"]
    about = {"rank": 1, "probability": None, "known": "valid", "via": None}
    assert first == {"name": tail, "label": graph.entities.label(triple[2]), "score": first["score"], **about}
    assert second["known"] is None
    assert [answer["name"] for answer in printed["answers"]] == [each.name for each in model.tails(head, relation, 2)]
    printed = json.loads(
        procrustes("predict", "runs/planted", "-T", tail, "-r", relation, "-k", "1", "--json", "--known")
    )
    assert printed["tail"] == tail
    assert [answer["name"] for answer in printed["answers"]] == [head]
    label = json.loads(procrustes("predict", "runs/planted", "-H", graph.entities.label(0), "-r", relation, "--json"))
    assert label["head"] == graph.entities[0]


def test_new_leaves_out_what_is_known_and_nothing_else(procrustes, run):
    query = ("predict", run, "-H", "e0", "-r", "next", "--json")
    everything = json.loads(procrustes(*query, "-k", "99", "--known"))["answers"]
    assert len(everything) == 40
    known = {answer["name"]: answer["known"] for answer in everything if answer["known"]}
    graph = load_run(run).graph
    assert known.keys() == {"e0", "e1"}
    for name, split in known.items():
        triple = [graph.entities.id("e0"), graph.relations.id("next"), graph.entities.id(name)]
        assert triple in graph.split(split).tolist()
    unknown = [answer for answer in everything if not answer["known"]]
    unknown = [{**answer, "rank": rank} for rank, answer in enumerate(unknown, start=1)]
    for count in (1, 5, 38, 99):
        printed = json.loads(procrustes(*query, "--new", "-k", count))
        assert printed == json.loads(procrustes(*query, "-k", count))
        assert printed["answers"] == unknown[:count]
        assert set(printed["left_out"]) == known.keys()


def test_the_asked_entity_is_no_answer_where_training_has_no_loops(procrustes, run):
    for side in ("-H", "-T"):
        answers = json.loads(
            procrustes("predict", run, side, "e5", "-r", "after next", "-k", "99", "--json", "--known")
        )
        answers = answers["answers"]
        assert {answer["name"] for answer in answers} == {f"e{index}" for index in range(40) if index != 5}
