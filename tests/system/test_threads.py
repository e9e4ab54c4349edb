"""Laws of jobs over cores: in order, one torch thread each, nothing left running, nothing left changed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from procrustes_kge import FitSettings, evaluate, learn
from procrustes_kge.system.threads import cores, over_cores, threads
from toys import random_graph

PATIENCE = 30  # seconds until a wait that should end at once is given up: only a failure takes so long


@pytest.fixture(autouse=True)
def threads_before():
    """Three torch threads, so that one, three and a machine's own number are told apart."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def count_in_a_new_thread():
    with ThreadPoolExecutor(1) as new:
        return new.submit(torch.get_num_threads).result()


def test_there_is_at_least_one_core():
    assert cores() >= 1


@pytest.mark.parametrize("workers", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("jobs", [0, 1, 2, 7, 50])
def test_results_come_in_the_order_of_their_jobs(workers, jobs):
    assert list(over_cores(lambda job: job * job, range(jobs), workers)) == [job * job for job in range(jobs)]


def test_a_slow_first_job_does_not_lose_its_place():
    others_done = threading.Event()

    def work(job):
        if job == 0:
            assert others_done.wait(PATIENCE)
        if job == 1:
            others_done.set()
        return job

    assert list(over_cores(work, range(6), workers=2)) == list(range(6))


def test_results_are_equal_bit_for_bit_whatever_the_workers():
    def work(seed):
        matrix = torch.randn(200, 200, generator=torch.Generator().manual_seed(seed))
        return torch.linalg.svd(matrix @ matrix.mT)[0] @ matrix.exp().sum(dim=0)

    results = [torch.stack(list(over_cores(work, range(4), workers))) for workers in (1, 2, 3)]
    assert results[0].equal(results[1])
    assert results[0].equal(results[2])


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_job_has_one_torch_thread_and_the_caller_keeps_its_own(workers, threads_before):
    seen = []
    for result in over_cores(lambda job: torch.get_num_threads(), range(8), workers):
        seen.append((result, torch.get_num_threads()))
    assert seen == [(1, threads_before)] * 8
    assert torch.get_num_threads() == threads_before
    assert count_in_a_new_thread() == threads_before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_arrives_after_the_results_before_it_and_cancels_the_rest(error, threads_before):
    started = []

    def work(job):
        started.append(job)
        if job == 3:
            raise error("the third")
        return job

    results = []
    with pytest.raises(error, match="the third"):
        results.extend(over_cores(work, range(1000), workers=2))
    assert results == [0, 1, 2]
    assert max(started) <= 5  # two more were in hand
    assert torch.get_num_threads() == threads_before


def test_a_fault_in_the_jobs_themselves_arrives_too(threads_before):
    def jobs():
        yield from range(5)
        raise LookupError("no sixth")

    with pytest.raises(LookupError, match="no sixth"):
        list(over_cores(abs, jobs(), workers=2))
    assert torch.get_num_threads() == threads_before


def test_jobs_are_pulled_as_they_are_needed():
    pulled = []

    def jobs():
        for job in range(100):
            pulled.append(job)
            yield job

    workers = 3
    results = over_cores(abs, jobs(), workers)
    assert pulled == []
    for done, _ in enumerate(results, start=1):
        assert len(pulled) <= done + workers
    assert len(pulled) == 100


def test_an_abandoned_run_stops_and_puts_the_threads_back(threads_before):
    started = []

    def work(job):
        started.append(job)
        return torch.get_num_threads()

    results = over_cores(work, range(1000), workers=2)
    assert next(results) == next(results) == 1
    results.close()
    stopped = len(started)
    assert stopped <= 4  # two more were in hand
    assert torch.get_num_threads() == threads_before
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]
    assert len(started) == stopped
    assert list(results) == []


def test_a_run_may_be_started_within_a_job():
    def work(job):
        return sum(over_cores(abs, range(job), workers=2)), torch.get_num_threads()

    assert list(over_cores(work, range(4), workers=2)) == [(0, 1), (0, 1), (1, 1), (3, 1)]


# Threads of one product.


@pytest.mark.parametrize("count", [1, 2, 5])
def test_threads_are_as_many_as_asked_for_and_then_as_before(count, threads_before):
    with threads(count):
        assert torch.get_num_threads() == count
        with threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == count
    assert torch.get_num_threads() == threads_before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_threads_are_put_back_after_an_exception(error, threads_before):
    with pytest.raises(error, match="no"), threads(1):
        raise error("no")
    assert torch.get_num_threads() == threads_before


# Several Python threads at once.


def test_a_thread_that_starts_meanwhile_is_as_free_as_before(threads_before):
    with threads(1):
        assert count_in_a_new_thread() == threads_before
    both_work = threading.Barrier(2)
    for _ in over_cores(lambda _: both_work.wait(PATIENCE), range(8), workers=2):
        assert count_in_a_new_thread() == threads_before


def test_threads_of_another_python_thread_are_left_alone(threads_before):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with threads(2):
            inside.set()
            assert leave.wait(PATIENCE)
            return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(other)
        assert inside.wait(PATIENCE)
        with threads(5):
            leave.set()
            assert seen.result() == 2
            assert torch.get_num_threads() == 5
        assert pool.submit(torch.get_num_threads).result() == threads_before
    assert torch.get_num_threads() == threads_before


def test_many_users_at_once_leave_the_count_as_it_was(threads_before):
    started = threading.Barrier(3)

    def use(number):
        started.wait(PATIENCE)
        for turn in range(30):
            assert list(over_cores(lambda _: torch.get_num_threads(), range(4), workers=2)) == [1] * 4
            with threads(1 + (number + turn) % 4):
                assert torch.get_num_threads() == 1 + (number + turn) % 4
        return torch.get_num_threads()

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(use, number) for number in range(2)]
        mine = use(2)
        assert [mine, *(other.result() for other in others)] == [threads_before] * 3
    assert torch.get_num_threads() == threads_before
    assert count_in_a_new_thread() == threads_before


def test_two_threads_that_rank_find_the_same_and_leave_the_count_as_it_was(threads_before):
    graph = random_graph(30, 3, 200)
    model = learn(graph, FitSettings(dim=4, segment=2, epochs=1, patience=0, device="cpu"))
    expected = evaluate(model, graph).as_dict()

    def ranked(_):
        return [evaluate(model, graph).as_dict() for _ in range(10)]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(ranked, range(2)))
    assert found == [[expected] * 10] * 2
    assert torch.get_num_threads() == threads_before
    assert count_in_a_new_thread() == threads_before
