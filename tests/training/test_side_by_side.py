"""Laws of trainings in threads: side by side each gives what it gives alone, and the caller's dice lie as they lay."""

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Barrier

import numpy
import pytest
import torch

from laws import slow_but
from methods import METHODS, NOISY
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs.store import load_run, save
from procrustes_kge.training.recipes import learn
from toys import rotated_graph, same, small_settings

SETTINGS = {name: replace(settings, epochs=3, validate_every=1) for name, (_, settings) in METHODS.items()}
CUT = {"conve", "interacte", "sacn", "tucker"}  # their sums are cut into as many pieces as there are threads
ROOT = Path(__file__).parents[2]


PAIRS = [  # `make test` trains each beside a contrastive one, and some beside one of their own kind
    pytest.param(name, other, marks=[] if other in ("contrastive", name) else [pytest.mark.slow])
    for name, other in product(SETTINGS, ("full batch", "contrastive", "rotate"))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_two_trainings_in_two_threads_give_what_each_gives_alone(name, other):
    settings = SETTINGS[name], replace(SETTINGS[other], seed=5, deterministic=True)
    alone, together = [learn(NOISY, each) for each in settings], Barrier(2)

    def trained(each):
        together.wait()
        return learn(NOISY, each)

    for _ in range(2):
        with ThreadPoolExecutor(2) as pool:
            found = [*pool.map(trained, settings)]
        assert all(same(*pair) for pair in zip(found, alone, strict=True))
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")  # the checker of types throws dice of its own
@pytest.mark.parametrize("name", slow_but([*SETTINGS, "rgcn"], dict.fromkeys([*SETTINGS, *BASELINES])))
def test_the_callers_random_state_is_untouched(name, tmp_path):
    graph = NOISY if name in SETTINGS else rotated_graph()
    settings = SETTINGS[name] if name in SETTINGS else small_settings(name, epochs=1)

    def dice():
        kind, keys, *rest = numpy.random.get_state()
        return random.getstate(), (kind, keys.tolist(), *rest), torch.get_rng_state().tolist()

    def work():
        model = learn(graph, settings)
        evaluate(model, graph)
        save(model, tmp_path / "run", graph, settings)
        load_run(tmp_path / "run")
        return model

    before = dice()
    first = work()
    assert dice() == before
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(99)
    assert same(work(), first)  # and nothing is drawn from it


def single_and_double(settings, graph):
    """Return what one thread gives, and two."""
    before, found = torch.get_num_threads(), []
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            own = {"workers": count} if hasattr(settings, "workers") else {}
            found.append(learn(graph, replace(settings, **own)))
        finally:
            torch.set_num_threads(before)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in (*SETTINGS, *BASELINES) if name not in CUT])
def test_one_thread_and_two_give_the_same_bits(name):
    if name in SETTINGS:
        assert same(*single_and_double(SETTINGS[name], NOISY))
    else:
        assert same(*single_and_double(small_settings(name, epochs=1), rotated_graph()))


def test_the_page_names_the_models_of_which_one_thread_and_two_differ():
    rows = json.loads((ROOT / "benchmarks" / "results" / "threads.json").read_text())["rows"]
    assert {*BASELINES, "fast", "accurate", "paper"} == {row["recipe"] for row in rows}
    differ = {row["recipe"] for row in rows if not (row["small"]["same"] and row["usual"]["same"])}
    page = (ROOT / "docs" / "choosing-a-recipe.md").read_text(encoding="utf-8")
    named = re.search(r"changes nothing but for ([\w,\s]+), whose sums", page)[1]
    assert differ == CUT == {name.lower() for name in re.split(r",\s+|\s+and\s+", named)}
