"""The images of head and relation, and what filters make of them, against sums written out."""

import itertools
from contextlib import suppress

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.convolution import SharedFilters, nearly_square
from procrustes_kge.models.baselines.layers import ChannelNorm, Filters, RandomSource
from toys import baseline_of, random_graph, scrambled

GRAPH = random_graph(7, 3, 1)
MODELS = {"conve": {"height": 3}, "interacte": {"permutations": 2}}


def small(name, seed=0, **options):
    return scrambled(baseline_of(name, GRAPH, seed, dim=18, filters=2, **MODELS[name], **options), seed)


def close(left, right, tolerance=1e-10):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def scaled(norm, channel, value):
    """Return one number after batch normalisation at rest."""
    centred = (value - norm.running_mean[channel]) / (norm.running_var[channel] + norm.eps).sqrt()
    return centred * norm.weight[channel] + norm.bias[channel]


def read_off(model, maps):
    """Return a query from feature maps, number by number."""
    _, _, _, norm, _, _ = model.features
    linear, _, last, _ = model.projection
    seen = [
        scaled(norm, channel, value).relu() for place in zip(*maps, strict=True) for channel, value in enumerate(place)
    ]
    answers = []
    for row in range(linear.out_features):
        total = linear.bias[row] + sum(linear.weight[row, place] * value for place, value in enumerate(seen))
        answers.append(scaled(last, row, total).relu())
    return torch.stack(answers)


@torch.no_grad()
@pytest.mark.parametrize(("dim", "height", "kernel"), [(12, 3, 3), (10, 2, 2), (8, 4, 1)])
def test_conve_is_its_sums_written_out(dim, height, kernel):
    model = scrambled(baseline_of("conve", GRAPH, dim=dim, height=height, filters=2, kernel=kernel))
    head, relation, width = 3, 2, dim // height
    before, _, convolution, *_ = model.features
    numbers = [*model.entities[head], *model.relations[relation]]

    def at(row, column):
        return scaled(before, 0, numbers[row * width + column])

    window = list(itertools.product(range(kernel), repeat=2))
    places = list(itertools.product(range(2 * height - kernel + 1), range(width - kernel + 1)))
    maps = [
        [
            convolution.bias[f] + sum(convolution.weight[f, 0, i, j] * at(y + i, x + j) for i, j in window)
            for y, x in places
        ]
        for f in range(2)
    ]
    query = model.query(model.encode(), torch.tensor([head]), torch.tensor([relation]))[0]
    assert query.any()
    close(query, read_off(model, maps))


@torch.no_grad()
@pytest.mark.parametrize(("dim", "permutations", "kernel"), [(6, 3, 3), (8, 2, 9), (7, 1, 5)])
def test_interacte_is_its_sums_written_out(dim, permutations, kernel):
    options = {"dim": dim, "permutations": permutations, "kernel": kernel}
    model = scrambled(baseline_of("interacte", GRAPH, filters=2, **options))
    head, relation, (height, width) = 3, 2, nearly_square(dim)
    before, _, shared, *_ = model.features
    numbers = [*model.entities[head], *model.relations[relation]]

    def at(p, row, column):
        return scaled(before, p, numbers[model.order[p, row % height, column % width]])

    window = list(itertools.product(range(kernel), repeat=2))
    places = list(itertools.product(range(height), range(width)))
    middle = kernel // 2
    maps = [
        [sum(shared.filters[f, 0, i, j] * at(p, y + i - middle, x + j - middle) for i, j in window) for y, x in places]
        for p in range(permutations)
        for f in range(2)
    ]
    query = model.query(model.encode(), torch.tensor([head]), torch.tensor([relation]))[0]
    assert query.any()
    close(query, read_off(model, maps))


@given(dim=st.integers(1, 60), permutations=st.integers(1, 4))
def test_head_and_relation_alternate_and_every_number_occurs_once_in_each_order(dim, permutations):
    model = baseline_of("interacte", GRAPH, dim=dim, permutations=permutations, filters=1, kernel=1)
    numbers = torch.arange(1.0, dim + 1)[None]
    image = model.image(numbers, -numbers)[0]
    assert image.shape == (permutations, *nearly_square(dim))
    for p, row, column in itertools.product(*map(range, image.shape)):
        assert (image[p, row, column] > 0) == ((p + row + column) % 2 == 0)
    for each in image:
        assert each.flatten().sort().values.equal(torch.cat([-numbers.flip(-1), numbers], dim=-1)[0])


@given(dim=st.integers(1, 500))
def test_no_image_of_even_width_is_nearer_to_a_square(dim):
    height, width = nearly_square(dim)
    assert height * width == 2 * dim
    assert width % 2 == 0
    others = [each for each in range(1, 2 * dim + 1) if 2 * dim % each == 0 and 2 * dim // each % 2 == 0]
    assert abs(height - width) == min(abs(each - 2 * dim // each) for each in others)


def test_200_numbers_make_the_papers_images():
    vector = torch.zeros(1, 200)
    assert baseline_of("conve", GRAPH).image(vector, vector).shape == (1, 1, 20, 20)
    assert baseline_of("interacte", GRAPH, permutations=4).image(vector, vector).shape == (1, 4, 20, 20)


@torch.no_grad()
@given(down=st.integers(-6, 6), right=st.integers(-6, 6))
def test_rolling_the_image_rolls_what_interacte_sees(down, right):
    model = small("interacte")
    image = torch.randn(3, 2, 6, 6, dtype=torch.float64)
    rolled = model.features(image.roll((down, right), dims=(-2, -1)))
    close(rolled, model.features(image).roll((down, right), dims=(-2, -1)))


@given(
    size=st.tuples(st.integers(3, 7), st.integers(3, 7)),
    kernel=st.sampled_from([1, 3, 5, 7]),
    channels=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_filtering_by_a_product_is_filtering(size, kernel, channels, seed):
    torch.manual_seed(seed)
    shared = SharedFilters(4, kernel, size, RandomSource(seed)).double()
    image = torch.randn(2, channels, *size, dtype=torch.float64, requires_grad=True)
    plain, found = shared.by_filtering(image), shared.by_product(image)
    torch.testing.assert_close(found, plain)
    pull = torch.randn_like(plain)
    gradients = [torch.autograd.grad((each * pull).sum(), [image, shared.filters]) for each in (found, plain)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@given(
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_convolution_by_a_product_is_one(size, kernel, padding, bias, seed):
    torch.manual_seed(seed)
    filters = Filters(2, 3, kernel, RandomSource(seed), padding=padding, bias=bias).double()
    image = torch.randn(4, 2, *size, dtype=torch.float64, requires_grad=True)
    plain, found = filters(image), filters.by_product(image)
    torch.testing.assert_close(found, plain)
    pull = torch.randn_like(plain)
    gradients = [torch.autograd.grad((each * pull).sum(), [image, *filters.parameters()]) for each in (found, plain)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_channels_side_by_side_are_normalised_as_one_by_one(channels, training):
    torch.manual_seed(0)
    maps, pull = torch.randn(2, 4, channels, 2, 3, dtype=torch.float64)
    norm, plain, found = scrambled(ChannelNorm(channels)), nn.BatchNorm2d(channels).double(), []
    plain.load_state_dict(norm.state_dict())
    for each in (norm, plain):
        given = maps.clone().requires_grad_()
        made = each.train(training)(given)
        gradients = torch.autograd.grad((made * pull).sum(), [given, each.weight, each.bias])
        found.append([made, *gradients, each.running_mean, each.running_var])
    for one, other in zip(*found, strict=True):
        close(one, other)


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_normalised_and_its_gradient_lie_side_by_side(channels, monkeypatch):
    plain, strides = nn.BatchNorm1d.forward, []

    def watched(self, places):
        found = plain(self, places)
        strides.append(places.stride())
        found.register_hook(lambda gradient: strides.append(gradient.stride()))
        return found

    monkeypatch.setattr(nn.BatchNorm1d, "forward", watched)
    maps = torch.randn(4, channels, 2, 5, requires_grad=True)
    (ChannelNorm(channels)(maps).movedim(1, -1) * torch.randn(4, 2, 5, channels)).sum().backward()
    assert strides == 2 * [(channels, 1)]


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_some_candidates_score_as_among_all_and_saved_is_loaded(name):
    model, other = small(name), small(name, seed=1)
    heads, relations = torch.randint(7, (20,)), torch.randint(6, (20,))
    encoded = model.encode()
    assert encoded.relations.shape == (6, 18)
    queries = model.query(encoded, heads, relations)
    scores = model.scores(encoded, queries)
    close(scores, queries @ model.entities.T + model.biases)
    candidates = torch.randint(7, (20, 4))
    close(model.scores(encoded, queries, candidates), scores.gather(1, candidates))
    assert not other.query(other.encode(), heads, relations).equal(queries)
    other.load_state_dict(model.state_dict())
    assert other.query(other.encode(), heads, relations).equal(queries)


@pytest.mark.parametrize("name", MODELS)
def test_tables_and_filters_learn_and_a_seed_repeats(name):
    gradients = []
    for _ in range(2):
        model = small(name, seed=3, input_dropout=0.2, feature_dropout=0.2, query_dropout=0.3).train()
        encoded = model.encode()
        queries = model.query(encoded, torch.arange(6), torch.arange(6))
        model.scores(encoded, queries).square().sum().backward()
        weights = (model.entities, model.relations, model.biases, *model.features[2].parameters())
        gradients.append([weight.grad for weight in weights])
    assert all(gradient.any() for gradient in gradients[0])
    assert all(left.equal(right) for left, right in zip(*gradients, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_it_starts_without_biases_and_drops_at_the_shares_given(name):
    shares = {"input_dropout": 0.1, "feature_dropout": 0.2, "query_dropout": 0.3}
    model = baseline_of(name, GRAPH, dim=18, **MODELS[name], **shares)
    assert not model.biases.any()
    assert [layer.share for layer in (model.features[1], model.features[5], model.projection[1])] == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("conve", {"dim": 205}, "dimension 205 does not divide into 10 rows; try 200 or 210, or another --height"),
        ("conve", {"dim": 20}, "dimension 20 in 10 rows .* 20 by 2, expected .* kernel's 3; try --kernel 2"),
        ("interacte", {"kernel": 8}, "kernel 8, expected an odd number; try 7 or 9"),
        ("interacte", {"kernel": 43}, "an image of 20 by 20, expected .* at least 21 .*; try --kernel 41 or --dim"),
    ],
)
def test_what_cannot_be_an_image_is_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        BASELINES[name].Options(**options)


@torch.no_grad()
@given(dim=st.integers(1, 40), height=st.integers(1, 8), kernel=st.integers(1, 9))
def test_what_is_not_refused_can_be_asked(dim, height, kernel):
    for name, options in (("conve", {"height": height}), ("interacte", {})):
        with suppress(InputError):
            model = baseline_of(name, GRAPH, dim=dim, filters=1, kernel=kernel, **options).eval()
            assert model.query(model.encode(), torch.tensor([0]), torch.tensor([1])).shape == (1, dim)


@torch.no_grad()
def test_conve_scores_as_pykeen_scores_with_the_same_weights():
    models = pytest.importorskip("pykeen.models")
    from pykeen.triples import KGInfo

    graph = random_graph(11, 3, 1)
    entities, relations = len(graph.entities), len(graph.relations)
    theirs = models.ConvE(
        triples_factory=KGInfo(entities, relations, create_inverse_triples=True),
        embedding_dim=20,
        embedding_height=4,
        embedding_width=5,
        output_channels=6,
        random_seed=0,
    )
    ours = scrambled(baseline_of("conve", graph, dim=20, height=4, filters=6)).float()
    theirs.interaction.hr2d.load_state_dict(ours.features.state_dict())
    # PyKEEN reads map after map, not place after place.
    weights = ours.projection.state_dict()
    weights["0.weight"] = weights["0.weight"].unflatten(1, (-1, 6)).mT.flatten(1)
    theirs.interaction.hr1d.load_state_dict(weights)
    # PyKEEN keeps the two directions of a relation next to each other.
    paired = ours.relations.unflatten(0, (2, relations)).transpose(0, 1).flatten(0, 1)
    tables = [*theirs.entity_representations, *theirs.relation_representations]
    for table, values in zip(tables, (ours.entities, ours.biases, paired), strict=True):
        weight = table._embeddings.weight
        weight.copy_(values.view_as(weight))

    entity, relation = (
        each.flatten() for each in torch.meshgrid(*map(torch.arange, (entities, relations)), indexing="ij")
    )
    encoded = ours.encode()
    tails = ours.scores(encoded, ours.query(encoded, entity, relation))
    heads = ours.scores(encoded, ours.query(encoded, entity, relation + relations))
    close(tails, theirs.predict_t(torch.stack([entity, relation], dim=1)), 1e-4)
    close(heads, theirs.predict_h(torch.stack([relation, entity], dim=1)), 1e-4)
    assert (tails - heads).abs().amax(dim=1).min() > 0.1


@given(st.integers(1, 2000))
def test_an_image_is_as_near_to_a_square_as_any_of_even_width(dim):
    every = [(height, 2 * dim // height) for height in range(1, dim + 1) if dim % height == 0]
    assert nearly_square(dim) == min(every, key=lambda sides: abs(sides[0] - sides[1]))


def test_the_image_of_very_many_numbers_is_found_at_once():
    height, width = nearly_square(10**12)
    assert (height * width, width % 2) == (2 * 10**12, 0)
