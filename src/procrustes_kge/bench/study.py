"""The file of a long search: an Optuna study in SQLite, which Optuna's dashboard shows too.

Optuna proposes by what the file holds and by a seed for each trial, never by a generator that goes on from trial to
trial: a search that was killed goes on as if it had not been. A trial that was running then counts for nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import URL

from procrustes_kge.errors import InputError, in_one_line
from procrustes_kge.system.durable import put_file
from procrustes_kge.system.files import scratch_folder
from procrustes_kge.training.checkpoints import TRIAL
from procrustes_kge.training.spaces import Choice, Range, Space
from procrustes_kge.training.trials import Trial
from procrustes_kge.validation import check_entries

STUDY = "procrustes"  # its name, in the file and on the dashboard
ABOUT, OUTCOME, START, RACE = "about", "outcome", "start", "race"  # what is written beside Optuna's own
# Stages of a trial: trained to its end, or not; values that are not allowed, or that a trial had before.
TRIED, PRUNED, REFUSED, REPEATED = "trial", "pruned", "refused", "repeated"
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
# Trials that end before one is pruned, and points of its curve before it may be: learning rates fall, and curves cross.
FIRST_PRUNED, BEFORE = 10, 4


class StudyFile:
    """A study: the trials that have ended, and the one that is running."""

    def __init__(self, file: Path, about: dict[str, Any], space: Space, resume: bool, triples: int) -> None:
        """Begin a study, or go on with one that is about the same and judged by so many triples; else `InputError`."""
        self.file, self.space = file, space
        about = {**about, "space": {name: repr(values) for name, values in space.items()}}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        _check_place(file, resume)
        if not resume:
            _begin(file, about)
        with _undamaged(file):
            self.storage = _stored(file)
            self.study = optuna.load_study(storage=self.storage, study_name=STUDY, pruner=_pruner())
            known = self.study.user_attrs.get(ABOUT)
            self.trials = [
                _checked(each.user_attrs.get(OUTCOME), space) for each in self.study.get_trials(states=ENDED)
            ]
            left = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            if not isinstance(known, dict):
                raise ValueError("it does not say what it is about")
            self.start: list[float] = [float(each) for each in self.study.user_attrs.get(START, [])]
            if len(self.start) not in (0, triples):
                raise ValueError(f"its first trial is judged by {len(self.start)} triples, expected {triples}")
        _check_same(file, known, about)
        with _written(self.file):
            for each in left:  # by a process that was killed
                self.study.tell(each.number, state=TrialState.FAIL)

    def ask(self, seed: int, given: Mapping[str, Any] | None = None) -> tuple[optuna.Trial, dict[str, Any]]:
        """Return a new trial, and the values that it tries: those given, or what Optuna proposes by this seed."""
        with _written(self.file):
            if given is not None:
                self.study.sampler = _Given(given)
            else:
                self.study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=False)
            trial = self.study.ask({name: _distribution(values) for name, values in self.space.items()})
        if given is not None:
            return trial, dict(given)
        exact = {name for name, values in self.space.items() if not isinstance(values, Range)}
        return trial, {name: each if name in exact else rounded(each) for name, each in trial.params.items()}

    def hopeless(self, trial: optuna.Trial, mrr: float, point: int) -> bool:
        """Keep a point of a trial's learning curve; say whether the trial is worse than most were there."""
        with _written(self.file):
            trial.report(mrr, point)
            return bool(trial.should_prune())

    def tell(self, trial: optuna.Trial, outcome: Trial) -> None:
        """Keep what came of a trial; one without a figure is the worst there is."""
        with _written(self.file):
            if outcome.reciprocals is not None and not self.trials:
                self.start = outcome.reciprocals.tolist()
                self.study.set_user_attr(START, self.start)
            trial.set_user_attr(OUTCOME, outcome.as_dict())
            if outcome.valid_mrr is not None and outcome.stage in (TRIED, REPEATED):
                self.study.tell(trial, outcome.valid_mrr)
            else:
                self.study.tell(trial, state=TrialState.PRUNED)
        self.trials.append(outcome)

    def forget(self, trial: optuna.Trial) -> None:
        """Take it that a trial was stopped: it counts for nothing."""
        with _written(self.file):
            self.study.tell(trial, state=TrialState.FAIL)

    def close(self) -> None:
        """Let go of the file."""
        self.storage.remove_session()
        self.storage.engine.dispose()

    @property
    def race(self) -> list[Trial]:
        """The race that was run last; empty where there was none."""
        with _undamaged(self.file):
            return [_checked(each, self.space) for each in self.study.user_attrs.get(RACE, [])]

    @race.setter
    def race(self, trials: list[Trial]) -> None:
        with _written(self.file):
            self.study.set_user_attr(RACE, [each.as_dict() for each in trials])


class _Given(optuna.samplers.BaseSampler):
    """Proposes what it was given."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return nothing: each value is proposed by itself."""
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return nothing, for the same reason."""
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the value that was given."""
        return self.values[param_name]


def rounded(value: float) -> float:
    """Return a number of three digits: nobody tells finer ones apart.

    >>> rounded(0.0123456)
    0.0123
    """
    return float(f"{value:.3g}")


def _distribution(values: Any) -> BaseDistribution:
    if isinstance(values, Range):
        return FloatDistribution(values.least, values.most, log=True)
    return CategoricalDistribution(values.values)


@contextmanager
def _written(file: Path) -> Iterator[None]:
    """Say in a sentence that a file cannot be written, or holds what Optuna stumbles over."""
    try:
        yield
    except Exception as error:
        cause = getattr(error.__cause__ or error, "orig", None) or error
        what = "cannot be written" if isinstance(cause, sqlite3.Error) else "damaged"
        raise InputError(f"{file}: {what} ({in_one_line(cause)}); mend that, then --resume goes on") from error


def _stored(file: Path) -> optuna.storages.RDBStorage:
    url = URL.create("sqlite", database=str(file)).render_as_string().replace("{", "{{").replace("}", "}}")
    return optuna.storages.RDBStorage(url)


def _pruner() -> optuna.pruners.BasePruner:
    return optuna.pruners.MedianPruner(n_startup_trials=FIRST_PRUNED, n_warmup_steps=BEFORE)


def _begin(file: Path, about: dict[str, Any]) -> None:
    """Make a file with a study without trials; it is there whole or not at all."""
    with scratch_folder(file) as scratch:
        fresh = scratch / file.name
        with _undamaged(file, "cannot be written"):
            storage = _stored(fresh)
            study = optuna.create_study(storage=storage, study_name=STUDY, direction="maximize")
            study.set_user_attr(ABOUT, about)
            storage.remove_session()
            storage.engine.dispose()
        file.parent.mkdir(parents=True, exist_ok=True)
        put_file(fresh, file)


def _check_place(file: Path, resume: bool) -> None:
    """Refuse a file that is no study, one that is not to be gone on with, and where there is none to go on with."""
    if not file.exists():
        if resume:
            raise InputError(f"{file}: no search to resume here; leave --resume out to begin one")
        return
    if not resume:
        raise InputError(f"{file} holds a search; --resume goes on with it, another --out begins one elsewhere")
    with _undamaged(file), closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)) as database:
        kinds: dict[str, str] = dict(database.execute("select name, type from sqlite_master"))
    # Looked at before Optuna makes its tables in whatever file this is; what a killed process left half done is rolled
    # back by looking. Nothing of Optuna's is a view or a trigger.
    if not {"studies", "trials", "version_info"} <= kinds.keys() or {"view", "trigger"} & set(kinds.values()):
        raise InputError(f"{file}: is no search of ours, but a database of something else; choose another --out")


@contextmanager
def _undamaged(file: Path, otherwise: str = "damaged, or no search of ours") -> Iterator[None]:
    """Say in a sentence that a file is not as it was written; whoever made it may have put anything there."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = in_one_line(error).partition(" [SQL")[0]
        raise InputError(f"{file}: {otherwise} ({reason}); choose another --out") from error


def _checked(found: Any, space: Space) -> Trial:
    check_entries(found, TRIAL, "a trial")
    mrr = found["valid_mrr"]
    if (mrr is not None and not 0 <= mrr <= 1) or not (found["error"] >= 0 and found["seconds"] >= 0):
        raise ValueError("a trial has numbers that cannot be")
    for name, value in found["changes"].items():
        values = space.get(name)
        number = isinstance(values, Range) and type(value) in (int, float)
        if not number and not (isinstance(values, Choice) and value in values.values):
            raise ValueError(f"a trial has {name!r:.60} {value!r:.60}, which the search may not choose")
    return Trial(**found)


def _check_same(file: Path, known: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a study that is about something else, and say what."""
    if known == wanted:
        return
    apart = next(name for name in (*wanted, *known) if known.get(name) != wanted.get(name))
    said = {"graph": "another graph, or another split of it", "recipe": f"the recipe {known.get('recipe')!s:.60}"}
    if apart == "settings" and isinstance(known[apart], dict):
        begun, asked = known[apart], wanted[apart]
        name = next(each for each in (*asked, *begun) if begun.get(each) != asked.get(each))
        said[apart] = f"a search begun with {name} {begun.get(name)!s:.60}, not {asked.get(name)!s:.60}"
    what = said.get(apart, "another version's settings")
    raise InputError(f"{file} holds {what}; give the same as then to go on with it, or choose another --out")
