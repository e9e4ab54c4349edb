"""Jobs over the cores of this machine, one torch thread each.

Independent jobs on one thread each never wait for one another, and the arithmetic of a job is the same whatever the
number of workers: results are equal bit for bit on one core and on sixty-four.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads for one product."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def over_cores(
    work: Callable[[Job], Result], jobs: Iterable[Job], workers: int = 0, stop: Callable[[], None] | None = None
) -> Iterator[Result]:
    """Yield work(job) for every job, in order, `workers` of them at a time (0: one per core).

    An error, an interrupt or a caller that leaves early waits for the jobs that run; `stop` may tell them to hurry.
    """
    workers = workers or cores()
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    waiting: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            waiting.append(pool.submit(work, job))
            if len(waiting) > workers:  # one in hand for each worker: finished results do not pile up
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        if stop is not None:
            stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        # Setting threads in a worker changes what later threads start with: put it back.
        torch.set_num_threads(before)
