"""Jobs over the cores of this machine, one torch thread each.

Independent jobs on one thread each never wait for one another, and the arithmetic of a job is the same whatever the
number of workers: results are equal bit for bit on one core and on sixty-four.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")

_lock = threading.Lock()  # held while new threads would start with another count


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use this many threads for one product, in the calling Python thread alone."""
    before = _set_threads_here(count)
    try:
        yield
    finally:
        _set_threads_here(before)


def over_cores(
    work: Callable[[Job], Result], jobs: Iterable[Job], workers: int = 0, stop: Callable[[], None] | None = None
) -> Iterator[Result]:
    """Yield work(job) for every job, in order, `workers` of them at a time (0: one per core).

    An error, an interrupt or a caller that leaves early waits for the jobs that run; `stop` may ask them to end early.
    """
    workers = workers or cores()
    pool = ThreadPoolExecutor(workers, initializer=_set_threads_here, initargs=(1,))
    waiting: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            waiting.append(pool.submit(work, job))
            if len(waiting) > workers:  # one for each worker: finished results do not pile up
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        if stop is not None:
            stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _set_threads_here(count: int) -> int:
    """Set torch's thread count of the calling Python thread, and return what it was."""
    # PyTorch takes it as the count of threads that start later, too. Another thread puts that back at once, so that no
    # thread but this one is changed, whatever runs at the same time.
    with _lock, ThreadPoolExecutor(1) as other:
        elsewhere = other.submit(torch.get_num_threads).result()  # the count that new threads start with
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        other.submit(torch.set_num_threads, elsewhere).result()
    return before
