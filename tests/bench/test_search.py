"""Laws of the long search: it finds what is planted, repeats, and goes on as if it had never been stopped."""

import math
import shutil
import sqlite3
from contextlib import closing, suppress

import pytest
import torch
from hypothesis import HealthCheck, given, settings as drawn, strategies as st

pytest.importorskip("optuna", reason="the extra `tune` is not installed")

import sqlalchemy

from laws import refused, slow_but
from procrustes_kge.bench import search as module
from procrustes_kge.bench.search import FILE, LongSearch, watched
from procrustes_kge.bench.study import PRUNED, REFUSED, REPEATED, TRIED
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.recipes import recipe, values_of
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.training.trainer import Progress
from procrustes_kge.training.trials import Judge, Trial
from procrustes_kge.training.tuning import RACE
from toys import random_graph, rotated_graph

GRAPH = rotated_graph()
FIXED = {"dim": 8, "epochs": 10, "device": "cpu", "workers": 1}


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk():
    def hurry(connection, _):
        connection.execute("pragma synchronous = off")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", hurry)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", hurry)


@pytest.fixture
def planted(monkeypatch):
    """Let trials train nothing: what is best is planted, a learning curve leads there, and seeds differ a little."""
    seen = []

    def try_out(self, settings, changes, stage="", report=None):
        seen.append(settings)
        options = values_of(settings)
        height = 0.8 - 0.1 * abs(math.log10(settings.learning_rate / 0.3)) - 0.3 * options.get("query_dropout", 0)
        for epoch in range(1, settings.epochs + 1):
            looks = epoch % settings.validate_every == 0
            report(
                Progress(epoch, settings.epochs, epoch, settings.epochs, 1.0, height * epoch / 20 if looks else None)
            )
        apart = torch.linspace(-0.1, 0.1, len(self.sample), dtype=torch.float64) * (1 + settings.seed % 2)
        return Trial(changes, stage, height, seconds=12.0, reciprocals=height + apart)

    monkeypatch.setattr(Judge, "try_out", try_out)
    return seen


def searched(folder, name="distmult", graph=GRAPH, fixed=FIXED, **wanted):
    """Search, and return what was found and all that was proposed."""
    search = LongSearch(graph, name, fixed, folder, **wanted)
    with closing(search.study):
        return search.run(), search.study.trials


def outcome(found):
    """Return what must be equal, whatever the clock says."""
    tuned, proposed = found
    plain = [(each.changes, each.stage, each.valid_mrr, each.error) for each in (*tuned.trials, *proposed)]
    return tuned.settings, tuned.said, tuned.chosen and tuned.chosen.changes, plain


# What is found.


@pytest.mark.slow
def test_what_is_planted_is_found(planted, tmp_path):
    found, _ = searched(tmp_path, trials=25)
    start = recipe("distmult", GRAPH, **FIXED)
    assert found.settings.options.query_dropout < start.options.query_dropout
    assert found.chosen.stage == RACE
    assert {settings.seed for settings in planted} == {0, 1}
    assert next(each.changes for each in found.trials if each.stage == RACE) == {}


def test_the_first_trial_is_what_the_search_starts_from(planted, tmp_path):
    found, _ = searched(tmp_path, trials=1)
    assert planted == [found.settings] == [watched(recipe("distmult", GRAPH, **FIXED), FIXED)]
    assert found.chosen is None


def test_of_our_own_model_the_portfolio_comes_next(planted, tmp_path):
    _, proposed = searched(tmp_path, "accurate", fixed={**FIXED, "segment": 4}, trials=7)
    learned = [{name: each[name] for name in each if name not in FIXED} for each in module.portfolio()]
    for changes, wanted in zip((each.changes for each in proposed[1:]), learned, strict=False):
        assert changes.items() <= wanted.items()


@pytest.mark.slow
def test_what_is_fixed_stays_in_every_trial(planted, tmp_path):
    fixed = {**FIXED, "learning_rate": 0.123, "query_dropout": 0.25}
    found, proposed = searched(tmp_path, fixed=fixed, trials=12)
    for settings in (*planted, found.settings):
        assert fixed.items() <= values_of(settings).items()
    assert not any(each.changes.keys() & fixed.keys() for each in proposed)


@pytest.mark.slow
def test_hopeless_trials_are_ended_early(planted, tmp_path):
    _, proposed = searched(tmp_path, trials=24)
    ended, whole = ([each for each in proposed if each.stage == stage] for stage in (PRUNED, TRIED))
    assert ended
    assert whole
    assert max(each.valid_mrr for each in ended) < max(each.valid_mrr for each in whole)


@pytest.mark.slow
def test_what_cannot_be_is_not_trained_and_does_not_count(planted, tmp_path):
    found, proposed = searched(tmp_path, "ote", fixed={"dim": 24, "epochs": 10, "device": "cpu"}, trials=14)
    refusals = [each for each in proposed if each.stage == REFUSED]
    assert any("does not divide" in each.failed for each in refusals)
    assert len([each for each in found.trials if each.stage in (TRIED, PRUNED)]) == 14


@pytest.mark.slow
def test_a_search_ends_where_there_is_nothing_else_to_try(planted, tmp_path):
    space = LongSearch(GRAPH, "distmult", FIXED, tmp_path / "first").study.space
    values = values_of(recipe("distmult", GRAPH, **FIXED))
    fixed = FIXED | {name: values[name] for name in space if name != "inverses"}
    found, proposed = searched(tmp_path / "second", fixed=fixed, trials=50)
    assert len(found.trials) == 2
    assert {each.stage for each in proposed[2:]} == {REPEATED}


@pytest.mark.parametrize("failing", ["start", "all"])
def test_trials_that_fail_are_no_end_of_the_search(failing, planted, tmp_path, monkeypatch):
    plain = Judge.try_out

    def try_out(self, settings, changes, stage="", report=None):
        if failing == "all" or not changes:
            return Trial(changes, stage, failed="training diverged")
        return plain(self, settings, changes, stage, report)

    monkeypatch.setattr(Judge, "try_out", try_out)
    found, _ = searched(tmp_path, trials=12)
    assert (found.chosen is None) == (failing == "all")
    assert ("training diverged" in found.said) == (failing == "all")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BASELINES, "rotate-paper", "fast", "accurate"])
def test_every_model_can_be_searched(name, planted, tmp_path):
    fixed = {"epochs": 4, "device": "cpu"}
    found, _ = searched(tmp_path, name, fixed=fixed, trials=4)
    for settings in planted:
        assert settings.epochs == 4
        if isinstance(settings, TrainSettings) and isinstance(settings.negatives, int):
            assert settings.negatives < len(GRAPH.entities)
    assert len(found.trials) == 4


@pytest.mark.slow
@given(st.integers(1, 500), st.integers(0, 200))
def test_a_trial_has_a_learning_curve(epochs, every):
    start = recipe("distmult", None, "cpu", epochs=epochs, validate_every=every)
    found = watched(start, {})
    assert found.validate_every >= 1
    assert found.epochs // found.validate_every >= min(5, epochs)
    assert watched(start, {"validate_every": every}) == start


# Real trainings.


@pytest.mark.slow
def test_with_real_trainings_a_search_repeats(tmp_path):
    found = [outcome(searched(tmp_path / name, fixed={**FIXED, "epochs": 3}, trials=6)) for name in "ab"]
    assert found[0] == found[1]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["accurate", "distmult", "rotate"])
def test_on_a_gpu_a_search_repeats_where_trainings_do(name, tmp_path):
    fixed = {"dim": 40, "epochs": 6, "device": "cuda", "deterministic": True}
    found = [outcome(searched(tmp_path / folder, name, fixed=fixed, trials=10)) for folder in "ab"]
    assert found[0] == found[1]


@pytest.mark.slow
def test_another_seed_searches_elsewhere(planted, tmp_path):
    one, other = (searched(tmp_path / str(seed), fixed={**FIXED, "seed": seed}, trials=6)[1] for seed in (0, 1))
    assert [each.changes for each in one] != [each.changes for each in other]


# Stopped, and gone on with.


@pytest.mark.slow
@pytest.mark.parametrize("stops", slow_but([(35,)], [(1,), (35,), (3, 90, 17)]))
def test_a_search_that_was_stopped_ends_as_one_that_never_was(stops, planted, tmp_path):
    whole = outcome(searched(tmp_path / "whole", trials=14))
    for turn, most in enumerate(stops):
        asked = iter(range(most))
        with pytest.raises(Stopped):
            searched(
                tmp_path / "cut", trials=14, resume=turn > 0, stopping=lambda asked=asked: next(asked, None) is None
            )
    assert outcome(searched(tmp_path / "cut", trials=14, resume=True)) == whole


@pytest.mark.slow
@pytest.mark.parametrize("before", slow_but([6], [0, 1, 6, 11]))
def test_a_trial_that_ran_when_the_process_was_killed_is_made_anew(before, planted, tmp_path):
    whole = outcome(searched(tmp_path / "whole", trials=12))
    search = LongSearch(GRAPH, "distmult", FIXED, tmp_path / "cut", trials=12)
    for _ in range(before):
        search.step()
    trial, _ = search.study.ask(5, None)
    trial.report(0.7, 3)
    search.study.close()  # and nothing was told
    assert outcome(searched(tmp_path / "cut", trials=12, resume=True)) == whole


@pytest.mark.slow
def test_more_trials_may_follow(planted, tmp_path):
    searched(tmp_path / "cut", trials=9)
    more, whole = searched(tmp_path / "cut", trials=14, resume=True), searched(tmp_path / "whole", trials=14)
    assert outcome(more) == outcome(whole)


@pytest.mark.slow
def test_a_race_that_was_run_is_not_run_again(planted, tmp_path):
    first = searched(tmp_path, trials=14)
    before = len(planted)
    assert outcome(searched(tmp_path, trials=14, resume=True)) == outcome(first)
    assert len(planted) == before


# Time.


@pytest.mark.slow
def test_time_ends_a_search_and_leaves_some_for_the_race(planted, tmp_path):
    moments = iter(range(10**6))
    found, _ = searched(tmp_path, left=lambda: 350.0 - next(moments))
    assert found.trials[-1].stage == RACE
    assert next(moments) <= 400


def test_a_time_too_short_for_one_trial_is_said(planted, tmp_path):
    moments = iter([9.0, 9.0, 0.0])
    found, _ = searched(tmp_path, left=lambda: next(moments, 0.0))
    assert found.trials == ()
    assert found.settings == watched(recipe("distmult", GRAPH, **FIXED), FIXED)
    assert "too short for one trial" in found.said
    assert "--time" in found.said


# Mistakes.


def test_a_graph_with_few_triples_to_judge_by_is_refused(tmp_path):
    graph = random_graph(14, 1, 30)
    refused(lambda: searched(tmp_path, graph=graph), setting="triple", seen=graph.name, remedy="train it as it is")
    assert not (tmp_path / FILE).exists()


def test_nothing_to_search_is_refused(tmp_path):
    space = LongSearch(GRAPH, "distmult", FIXED, tmp_path / "first").study.space
    values = values_of(recipe("distmult", GRAPH, **FIXED))
    fixed = FIXED | {name: values[name] for name in space}
    refused(lambda: searched(tmp_path / "x", fixed=fixed), setting="settings", seen="distmult", remedy="fix fewer")


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        ({"graph": rotated_graph(1)}, "another graph"),
        ({"name": "complex"}, "distmult"),
        ({"fixed": {**FIXED, "dim": 12}}, "dim 8, not 12"),
        ({"fixed": {**FIXED, "query_dropout": 0.3}}, "query_dropout"),
    ],
)
def test_a_study_of_something_else_is_refused(other, seen, planted, tmp_path):
    searched(tmp_path, trials=2)
    before = (tmp_path / FILE).read_bytes()
    refused(lambda: searched(tmp_path, resume=True, trials=2, **other), setting=FILE, seen=seen, remedy="--out")
    assert (tmp_path / FILE).read_bytes() == before


def test_a_search_is_neither_replaced_nor_resumed_where_there_is_none(planted, tmp_path):
    refused(lambda: searched(tmp_path, resume=True), setting=FILE, seen="no search", remedy="leave --resume out")
    assert list(tmp_path.iterdir()) == []
    searched(tmp_path, trials=1)
    refused(lambda: searched(tmp_path), setting=FILE, seen="holds a search", remedy="--resume")


@pytest.mark.parametrize("name", slow_but(["q?x=1#y"], ["a b", "50%", "{x}", "q?x=1#y", "ä", "it's", 'say "so"']))
def test_a_folder_may_have_any_name(name, planted, tmp_path):
    searched(tmp_path / name, trials=1)
    assert len(searched(tmp_path / name, trials=2, resume=True)[0].trials) == 2
    assert {each.name for each in (tmp_path / name).iterdir()} == {FILE}


def test_a_file_that_cannot_be_written_is_said(planted, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)  # Optuna waits before it tries again
    search = LongSearch(GRAPH, "distmult", FIXED, tmp_path / "gone", trials=4)
    search.step()
    shutil.rmtree(tmp_path / "gone")
    with closing(search.study):
        refused(search.run, setting=FILE, seen="cannot be written", remedy="--resume")


@pytest.mark.parametrize("room", [20_000, 130_000])
def test_a_disk_that_is_full_is_said(room, planted, tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        refused(lambda: searched(tmp_path, trials=60), setting=FILE, seen="cannot be written", remedy="")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    begun = (tmp_path / FILE).exists()
    assert searched(tmp_path, trials=2, resume=begun)[0].trials


def test_a_folder_that_cannot_be_made_is_said(planted, tmp_path):
    (tmp_path / "file").write_text("")
    refused(lambda: searched(tmp_path / "file" / "x"), setting="file", seen="cannot be", remedy="choose another")


# Files of others.


def edited(statement):
    def edit(file):
        with closing(sqlite3.connect(file)) as database:
            database.execute(statement)
            database.commit()

    return edit


HOSTILE = {
    "empty": lambda file: file.write_bytes(b""),
    "no database": lambda file: file.write_bytes(b"\x00" * 3000),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:5000]),
    "trigger": edited("create trigger t after insert on trials begin delete from trials; end"),
    "view": edited("create view v as select * from trials"),
    "no trials": edited("drop table trials"),
    "no values": edited("drop table trial_params"),
    "another version": edited("update version_info set schema_version = 99"),
    "another revision": edited("update alembic_version set version_num = 'v9'"),
    "no study": edited("update studies set study_name = 'x'"),
    "two studies": edited("insert into studies values (2, 'another')"),
    "outcome is no JSON": edited("update trial_user_attributes set value_json = '{'"),
    "outcome is another": edited("update trial_user_attributes set value_json = '[1]'"),
    "outcome has changes of something else": edited(
        'update trial_user_attributes set value_json = replace(value_json, \'"changes": {\', \'"changes": {"x": 1, \')'
        " where trial_id = 2"
    ),
    "outcome is deep": edited(f"update trial_user_attributes set value_json = '{'[' * 100_000}'"),
    "outcome is gone": edited("delete from trial_user_attributes"),
    "about is another": edited("update study_user_attributes set value_json = '3' where key = 'about'"),
    "start is another": edited("update study_user_attributes set value_json = '{\"a\": 1}' where key = 'start'"),
    "values of no kind": edited("update trial_params set distribution_json = '{}'"),
    "values beyond": edited("update trial_params set param_value = 1e9"),
    "state unknown": edited("update trials set state = 'EXPLODED'"),
    "numbers twice": edited("update trials set number = 0"),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A study file of a few real trials."""
    folder = tmp_path_factory.mktemp("begun")
    searched(folder, trials=3)
    return folder / FILE


@pytest.mark.parametrize("damage", HOSTILE)
def test_a_damaged_or_hostile_file_is_refused_in_a_sentence(damage, begun, planted, tmp_path):
    file = shutil.copy(begun, tmp_path / FILE)
    HOSTILE[damage](file)
    harmless = ("two studies", "numbers twice", "no values", "another version")
    if damage in harmless:
        searched(tmp_path, trials=4, resume=True)
        return
    with pytest.raises(InputError) as refusal:
        searched(tmp_path, trials=4, resume=True)
    assert str(file) in str(refusal.value)
    assert len(str(refusal.value)) < 600


@pytest.mark.slow
@given(data=st.data())
@drawn(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_changed_byte_is_more_than_a_sentence(begun, planted, tmp_path_factory, data):
    content = bytearray(begun.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("changed")
    (folder / FILE).write_bytes(content)
    with suppress(InputError):
        searched(folder, resume=True, trials=6)


def test_a_training_that_diverges_is_a_trial_that_failed(tmp_path, monkeypatch):
    def diverges(*_):
        raise DivergedError("training diverged", None)

    monkeypatch.setattr("procrustes_kge.training.trials.learned", diverges)
    found, proposed = searched(tmp_path, trials=3)
    assert [each.failed for each in proposed] == ["training diverged"] * 3
    assert found.chosen is None
