"""Budgets: settings that fit a time and a memory, with an estimate of both before training starts.

Memory is counted, time is measured: a few steps are run and thrown away.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import torch

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE
from procrustes_kge.layouts.relational import padded_rows
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.threads import cores, threads
from procrustes_kge.training.contrastive import Contrastive, queries_at_once
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import at_work
from procrustes_kge.training.recipes import OwnSettings, changed
from procrustes_kge.training.schedule import spoken_sizes
from procrustes_kge.words import counted

FEWEST_EPOCHS = {ContrastSettings: 10, FitSettings: 30}  # before vectors are made shorter instead
SHORTEST = 100  # numbers in a vector: with fewer, more epochs gain less than they cost
AIM = 0.8  # of the time asked for: machines are not always as fast as when they were timed
TOGETHER = 10  # segments that are timed together on a GPU
WARM_UP = 4  # calls; a rotation moves at every fourth step
PATIENCE = 2.0  # seconds, for warming up and for timing: long steps need few calls
LEAST_MEMORY = 1e6  # bytes; with fewer, a unit was forgotten
PROGRAM = 450e6  # bytes that Python and PyTorch take before anything is trained
_TIMES = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZES = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


@dataclass(frozen=True)
class Plan:
    """Settings, and what training with them is expected to take."""

    settings: OwnSettings
    seconds: float
    memory: float  # bytes, on the device that trains

    def __str__(self) -> str:
        settings = self.settings
        most = "" if isinstance(settings, ContrastSettings) else "up to "
        parts = [
            f"{settings.dim:,} numbers in segments of {settings.segment}",
            f"{most}{counted(settings.epochs, 'epoch')}",
        ]
        if isinstance(settings, ContrastSettings):
            parts.append(spoken_sizes(settings.batch, settings.negatives))
        return f"{', '.join(parts)}: about {max(1, round(self.seconds)):,} s and {self.memory / 1e9:.1f} GB"


def parse_time(text: str) -> float:
    """Return the seconds of words such as 60s, 10m or 1.5h.

    >>> parse_time("10m"), parse_time("90")
    (600.0, 90.0)
    """
    return _parse(text, _TIMES, "time", "60s, 10m or 1h")


def parse_size(text: str) -> float:
    """Return the bytes of words such as 4GB or 500MB.

    >>> parse_size("4GB")
    4000000000.0
    """
    found, number = _parse(text, _SIZES, "memory", "4GB or 500MB"), text.strip()
    if found < LEAST_MEMORY and not number[-1].isalpha():
        seen = counted(int(found), "byte") if found.is_integer() else f"{number} bytes"
        raise InputError(f"memory {text!r}: {seen}; did you mean {number}{'GB' if found < 1000 else 'MB'}?")
    return found


def _parse(text: str, units: dict[str, float], name: str, examples: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2].lower() not in units or not 0 < float(found[1]) < 1e18:
        raise InputError(f"{name} {text!r}, expected a number and a unit, such as {examples}")
    return float(found[1]) * units[found[2].lower()]


def plan(graph: Graph, settings: OwnSettings, seconds: float | None = None, memory: float | None = None) -> Plan:
    """Return settings that fit the budgets, changed no more than they need, and what they are expected to take."""
    if memory is not None and memory_needed(graph, settings) > memory:
        settings = _within_memory(graph, settings, memory)
    per_epoch = _seconds_an_epoch(graph, settings)
    if seconds is not None:
        seconds *= AIM
        while per_epoch * settings.epochs > seconds:
            affordable = int(seconds / per_epoch)
            shorter = max(SHORTEST // settings.segment, settings.segments // 2, 1) * settings.segment
            if affordable >= FEWEST_EPOCHS[type(settings)] or shorter >= settings.dim:
                settings = replace(settings, epochs=max(1, affordable))
                break
            settings = changed(settings, dim=shorter)
            per_epoch = _seconds_an_epoch(graph, settings)
    return Plan(settings, per_epoch * settings.epochs, memory_needed(graph, settings))


def _within_memory(graph: Graph, settings: OwnSettings, memory: float) -> OwnSettings:
    """Return settings whose vectors are short enough, and queries at once few enough, for the memory."""
    for dim in range(settings.dim, 0, -settings.segment):
        tried = changed(settings, dim=dim)
        if isinstance(tried, ContrastSettings):
            room = memory - memory_needed(graph, replace(tried, chunk=QUERIES_PER_TILE))
            more = max(0, int(room / _query_bytes(graph, tried))) // QUERIES_PER_TILE
            chunk = (1 + more) * QUERIES_PER_TILE
            tried = replace(tried, chunk=min(tried.chunk, chunk) if tried.chunk else chunk)
        if memory_needed(graph, tried) <= memory:
            return tried
    least = f"{memory_needed(graph, tried) / 1e9:.3g} GB even with vectors of {settings.segment} numbers"
    raise InputError(
        f"{memory / 1e9:.3g} GB of memory asked for, but {graph.name} takes {least}; try a larger --memory"
    )


def memory_needed(graph: Graph, settings: OwnSettings) -> float:
    """Return about how many bytes training takes, the program included."""
    table, triples = 4.0 * len(graph.entities) * settings.dim, float(len(graph.train))
    rotations, device = 4.0 * len(graph.relations) * settings.dim * settings.segment, choose_device(settings.device)
    if isinstance(settings, ContrastSettings):
        # All groups that are done, and of the one in training: vectors, their gradient, what the step remembers, its
        # scratch, the last good copy, and the vectors in the precision of scores.
        copies = (5.5 if settings.optimiser == "adagrad" else 6.5) / settings.groups
        tables = (1 + copies) * table + (1 + 9 / settings.groups) * rotations
        batch = 2 * len(graph.train) if settings.batch == "full" else settings.batch
        together = min(queries_at_once(settings, len(graph.entities), device), batch)
        return PROGRAM + tables + 200 * triples + together * _query_bytes(graph, settings)
    at_once = (settings.workers or cores()) if device.type == "cpu" else settings.segments
    rows, tiles = padded_rows(len(graph.train), len(graph.relations))
    numbers = settings.segment * (8 * len(graph.entities) + 4 * rows)
    numbers += settings.segment**2 * (tiles + 4 * len(graph.relations))
    segment = 4.0 * numbers + 64 * triples
    return PROGRAM + 2 * table + 3 * rotations + min(at_once, settings.segments) * segment + 100 * triples


def _query_bytes(graph: Graph, settings: ContrastSettings) -> float:
    """Return what one more query at once takes: its scores, and copies of its query."""
    return 12.0 * settings.compared(len(graph.entities)) + 40.0 * settings.dim


def _seconds_an_epoch(graph: Graph, settings: OwnSettings) -> float:
    """Return how long an epoch takes here, measured on a few steps."""
    with at_work(graph, settings) as device:
        if isinstance(settings, ContrastSettings):
            trainer = Contrastive(graph, replace(settings, warm_start=0), device).trainer(0)
            steps = (None for _ in repeat(None) for _ in trainer.steps())
            with threads(trainer.workers):
                return settings.groups * trainer.steps_an_epoch * _timed(lambda: next(steps), device)
        # A core trains one segment at a time, a GPU many: some of them, timed together.
        many = 1 if device.type == "cpu" else min(settings.segments, TOGETHER)
        training = FullBatch(graph, settings, device)
        some, at_once = training.start(range(many)), max(1, training.workers)
        with threads(1):  # as each worker has
            once = _timed(some.epoch, device)
        return once / many * settings.segments / min(at_once, settings.segments)


def _timed(work: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of one call, after a few that are not counted."""

    def repeated(most: int) -> float:
        started, taken, calls = time.perf_counter(), 0.0, 0
        while calls < most and taken < PATIENCE:
            work()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            taken, calls = time.perf_counter() - started, calls + 1
        return taken / calls

    repeated(WARM_UP)
    return repeated(20)
