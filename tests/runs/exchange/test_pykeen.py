"""Laws of models for PyKEEN: the same scores by all that PyKEEN asks, and the same ranks by its evaluator."""

import warnings

import pytest
import torch

from laws import slow_but
from procrustes_kge.explore.importing.importing import from_vectors
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.runs.export import to_pykeen
from procrustes_models import MODELS, close, fitted, made, queries_of, scores_of
from toys import random_graph, small_baseline


@pytest.fixture(scope="module", autouse=True)
def pykeen():
    """Import PyKEEN, which takes seconds, when the first test runs; what it imports warns about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pykeen.models", reason="pykeen is not installed")


def agree(model, graph):
    """Assert that a model and PyKEEN's have the same scores, of tails, heads, triples and relations."""
    theirs, count = to_pykeen(model), len(graph.relations)
    entities, directions = queries_of(model, graph)
    ours = scores_of(model, graph, entities, directions)
    tails, heads = directions < count, directions >= count
    with torch.no_grad():
        close(theirs.predict_t(torch.stack([entities, directions], dim=1)[tails]), ours[tails], 1e-4)
        asked = torch.stack([directions - count, entities], dim=1)
        close(theirs.predict_h(asked[heads]), ours[heads], 1e-4)
        triples = torch.stack([entities, directions, entities.flip(0)], dim=1)[tails]
        close(theirs.predict_hrt(triples)[:, 0], ours[tails].gather(1, triples[:, 2:])[:, 0], 1e-4)
        some = torch.tensor([3, 1, 4])
        close(theirs.score_t(triples[:, :2] * torch.tensor([1, 2]), tails=some), ours[tails][:, some], 1e-4)
        of_relations = theirs.score_r(triples[:, ::2])[:, ::2]
        close(of_relations.gather(1, triples[:, 1:2]), theirs.predict_hrt(triples), 1e-4)


QUICK = ("planted", "drawn", "drawn, scaled and translated", "drawn, with inverses")


@pytest.mark.parametrize("name", slow_but(QUICK, MODELS))
def test_every_model_of_ours_has_the_same_scores(name):
    agree(*made(name))


@pytest.mark.parametrize("name", slow_but(("transe", "complex", "rotate"), BASELINES))
def test_baselines_have_the_same_scores(name):
    graph = random_graph(entities=12, relations=3, triples=40)
    module = small_baseline(name, graph).eval()
    agree(TrainedBaseline(name, BASELINES[name].Options(), graph.entities, graph.relations, module), graph)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
def test_pykeen_ranks_it_and_trains_on():
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    from procrustes_kge.models.ranking import evaluate

    model, graph = fitted(translate=True)
    theirs = to_pykeen(model)
    found = RankBasedEvaluator().evaluate(
        theirs, graph.test, batch_size=64, use_tqdm=False, additional_filter_triples=[graph.train, graph.valid]
    )
    assert found.get_metric("mean_reciprocal_rank") == pytest.approx(evaluate(model, graph).both.mrr, abs=1e-6)
    sizes = {"num_entities": len(graph.entities), "num_relations": len(graph.relations)}
    factory = CoreTriplesFactory(graph.train, **sizes, create_inverse_triples=True)
    before = theirs.entity_representations[0](indices=None).detach().clone()
    loop = SLCWATrainingLoop(model=theirs, triples_factory=factory, optimizer=torch.optim.Adam(theirs.parameters()))
    loop.train(factory, num_epochs=1, use_tqdm=False, use_tqdm_batch=False)
    assert not torch.equal(theirs.entity_representations[0](indices=None), before)


def test_entities_of_a_pykeen_model_come_back():
    model, graph = fitted(translate=True)
    names = {name: row for row, name in enumerate(model.entities)}
    run = from_vectors(graph, to_pykeen(model), names)
    assert torch.equal(run.model.vectors, model.vectors)
    close(run.model.rotations, model.rotations)


def test_complex_entities_are_pairs():
    from pykeen.models import RotatE
    from pykeen.triples import CoreTriplesFactory

    graph = random_graph(entities=12, relations=3, triples=40)
    factory = CoreTriplesFactory(graph.train, num_entities=12, num_relations=3)
    theirs = RotatE(triples_factory=factory, embedding_dim=6, random_seed=0)
    run = from_vectors(graph, theirs, list(graph.entities), lengths="free")
    assert run.model.vectors.shape == (12, 6, 2)
    own = theirs.entity_representations[0](indices=None).detach()
    close(torch.view_as_complex(run.model.vectors), own)
