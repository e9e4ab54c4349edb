"""The contract that every baseline keeps: scores, options, random numbers of its own, and what has learned."""

import copy
import re
from dataclasses import asdict, fields

import pytest
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES, build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.ranking import LinkPredictor
from toys import all_scores, baseline_of, options_of, random_graph, scrambled_baseline, small_baseline, some_queries

GRAPH = random_graph(9, 3, 40)
every_model = pytest.mark.parametrize("name", BASELINES)


@every_model
def test_given_candidates_score_as_they_do_among_all(name):
    model, asked = scrambled_baseline(name, GRAPH), some_queries(GRAPH)
    encoded = model.encode(GRAPH)
    queries = model.query(encoded, *asked)
    candidates = torch.randint(len(GRAPH.entities), (len(queries), 5), generator=torch.Generator().manual_seed(1))
    every, some = model.scores(encoded, queries), model.scores(encoded, queries, candidates)
    assert every.shape == (len(queries), len(GRAPH.entities))
    torch.testing.assert_close(some, every.gather(1, candidates))


@every_model
def test_a_query_is_answered_alike_alone_and_among_others(name):
    model, (heads, relations) = scrambled_baseline(name, GRAPH), some_queries(GRAPH)
    encoded = model.encode(GRAPH)
    together = model.scores(encoded, model.query(encoded, heads, relations))
    for row in range(len(heads)):
        alone = model.scores(encoded, model.query(encoded, heads[row : row + 1], relations[row : row + 1]))
        torch.testing.assert_close(alone[0], together[row])


@every_model
def test_every_weight_learns(name):
    model, asked = scrambled_baseline(name, GRAPH), some_queries(GRAPH, 60)
    encoded = model.encode(GRAPH)
    model.scores(encoded, model.query(encoded, *asked)).square().sum().backward()
    for label, weights in model.named_parameters():
        assert weights.grad is not None, label
        assert weights.grad.isfinite().all(), label
        assert weights.grad.any(), label


@every_model
def test_weights_carry_all_that_a_model_knows(name):
    model, other = scrambled_baseline(name, GRAPH), scrambled_baseline(name, GRAPH, seed=1)
    assert not torch.equal(all_scores(model, GRAPH), all_scores(other, GRAPH))
    other.load_state_dict(model.state_dict())
    assert torch.equal(all_scores(model, GRAPH), all_scores(other, GRAPH))


@every_model
def test_a_regulariser_has_numbers_to_keep_small(name):
    model, (heads, relations) = scrambled_baseline(name, GRAPH), some_queries(GRAPH)
    parts = model.factors(model.encode(GRAPH), heads, relations, heads.flip(0))
    assert len(parts) == (2 if name == "quate" else 3)  # whose relations have length one
    assert all(part.shape[0] == len(heads) and part.isfinite().all() for part in parts)


# Options.


@every_model
def test_options_come_back_from_plain_values(name):
    kind = BASELINES[name].Options
    changes = {field.name: 0.25 for field in fields(kind) if field.name.endswith("_dropout")}
    for options in (kind(), kind(dim=400, **changes)):
        assert kind(**asdict(options)) == options
    assert kind().dim == 200


def refusal(name, **options):
    """Return why options are refused, if they are."""
    try:
        BASELINES[name].Options(**options)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("dim", [1, 2, 5, 6, 30, 199])
@every_model
def test_a_dimension_is_taken_or_refused_with_one_that_would_be(name, dim):
    message = refusal(name, dim=dim)
    if not message:
        assert baseline_of(name, GRAPH, dim=dim)
        return
    assert f"dimension {dim}" in message
    remedy = message.split("; try ")[1]
    kernels, dims = re.findall(r"--kernel (\d+)", remedy), re.findall(r"(?:--dim |^| or )(\d+)", remedy)
    assert kernels or dims
    assert not any(refusal(name, dim=int(each)) for each in dims)
    assert not any(refusal(name, dim=dim, kernel=int(each)) for each in kernels)


NUMBERS = dict.fromkeys(("dim", "kernel", "filters", "height", "permutations"), (0, "whole number of at least 1"))
NUMBERS |= dict.fromkeys(("layers", "blocks", "input_dim", "max_neighbours"), (0, "whole number of at least 1"))
NUMBERS |= {"relation_dim": (0, "whole number of at least 1"), "group": (0, "whole number of at least 1")}
NUMBERS |= {"margin": (-1.0, "to 1000"), "init_std": (0.0, "at most 1000"), "norm": (3, "1 or 2")}


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in BASELINES for option in sorted(options_of(name) - {"inverses"})]
)
def test_every_number_has_a_range(name, option):
    wrong, expected = NUMBERS.get(option, (1.0, "to 0.99"))
    with pytest.raises(InputError, match=f"^{option.replace('_', ' ')} {wrong}, expected .*{expected}"):
        BASELINES[name].Options(**{option: wrong})


def test_a_dimension_that_does_not_divide_is_refused_in_a_sentence():
    with pytest.raises(InputError, match=r"^dimension 7 does not divide into numbers of 2 parts; try 6 or 8$"):
        BASELINES["complex"].Options(dim=7)
    with pytest.raises(
        InputError, match=r"^dimension 10 does not divide into groups of 4; try 8 or 12, or another --group$"
    ):
        BASELINES["ote"].Options(dim=10)


def test_what_is_no_model_or_belongs_to_another_is_refused():
    with pytest.raises(InputError, match=r"^unknown model 'rescal'\. Known: transe, .*, ote$"):
        build("rescal", GRAPH, BASELINES["transe"].Options())
    with pytest.raises(InputError, match=r"^complex with DistMult.Options, expected ComplEx.Options"):
        build("complex", GRAPH, BASELINES["distmult"].Options())


# Randomness.


def drawing(name, seed=0):
    """Return a model in training that draws wherever it can."""
    drops = {option: 0.3 for option in options_of(name) if option.endswith("_dropout")}
    return small_baseline(name, GRAPH, seed, **drops, **({"max_neighbours": 2} if name == "a2n" else {})).train()


def step(model):
    """Return the scores of some queries, having found the gradients."""
    heads, relations = some_queries(GRAPH, 20)
    encoded = model.encode(GRAPH)
    scores = model.scores(encoded, model.query(encoded, heads, relations))
    scores.square().sum().backward()
    return scores.detach()


@every_model
def test_pytorchs_own_generator_is_neither_read_nor_moved(name):
    found = []
    for seed in (1, 2):
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            found.append(step(drawing(name)))
            assert torch.get_rng_state().equal(before)
    assert found[0].equal(found[1])


@every_model
def test_a_seed_builds_the_same_weights_and_another_seed_others(name):
    one, again, other = (drawing(name, seed).state_dict() for seed in (3, 3, 4))
    drawn = [label for label in one if not one[label].equal(other[label])]
    assert {"entities", "relations"} <= set(drawn)
    assert all(one[label].equal(again[label]) for label in one)


@every_model
def test_a_negative_seed_is_a_seed_too(name):
    assert small_baseline(name, GRAPH, seed=-1).entities.isfinite().all()


@every_model
def test_a_copy_goes_on_with_the_same_draws_of_its_own(name):
    model = drawing(name)
    step(model)
    copied = copy.deepcopy(model)
    sources = {id(each.random) for each in copied.modules() if hasattr(each, "random")}
    assert sources == {id(copied.random)} != {id(model.random)}
    ahead = [step(copied), step(copied)]
    assert ahead[0].equal(step(model))
    assert ahead[1].equal(step(model))


@every_model
def test_what_was_drawn_is_drawn_again_from_a_restored_state(name):
    model, other = drawing(name), drawing(name, seed=1)
    step(model)
    other.load_state_dict(model.state_dict())
    other.random.restore(model.random.state())
    assert step(other).equal(step(model))


# What has learned.


@every_model
def test_a_trained_baseline_answers_by_name_as_its_module_does(name):
    module = scrambled_baseline(name, GRAPH).float()
    options = BASELINES[name].Options()
    trained = TrainedBaseline(name, options, GRAPH.entities, GRAPH.relations, module)
    assert isinstance(trained, LinkPredictor)
    assert trained.table.equal(module.encode().entities)
    answers = trained.tails(GRAPH.entities[1], GRAPH.relations[2], k=4)
    encoded = module.encode()
    scores = module.scores(encoded, module.query(encoded, torch.tensor([1]), torch.tensor([2])))[0]
    assert [answer.score for answer in answers] == scores.topk(4).values.tolist()
    assert [scores[GRAPH.entities.id(answer.name)].item() for answer in answers] == [each.score for each in answers]
    counts = f"{len(GRAPH.entities)} entities · {len(GRAPH.relations)} relations · {options.dim} dimensions"
    assert repr(trained) == f"{BASELINES[name].__name__}   {counts}"
    assert f"<td>{options.dim}</td>" in trained._repr_html_()
    moved = trained.to("cpu")
    assert moved.module is not module
    assert moved.tails(GRAPH.entities[1], GRAPH.relations[2], k=4) == answers
