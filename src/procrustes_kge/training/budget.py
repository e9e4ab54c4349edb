"""Budgets: settings that fit a time and a memory, with an estimate of both before training starts.

Memory is counted, time is measured: a little of the training is run and thrown away.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeGuard

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE
from procrustes_kge.layouts.relational import padded_rows
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.threads import cores
from procrustes_kge.training.contrastive import queries_at_once
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.costs import Costs, measured, usual_epochs
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.optimisers import OPTIMISERS
from procrustes_kge.training.recipes import OwnSettings, changed
from procrustes_kge.training.schedule import spoken_sizes
from procrustes_kge.words import counted

# Numbers in a vector: with fewer, more epochs gain less than they cost. Full batch still learns something with 40.
SHORTEST: dict[type[OwnSettings], int] = {ContrastSettings: 100, FitSettings: 40}
FEWEST = 1 / 3  # of a recipe's epochs: with fewer, vectors are made shorter instead
FEWEST_OF_GROUPS = 2 / 3  # where there are several groups: with fewer epochs, one group less is better
AIM = 0.9  # of the time asked for: machines are not always as fast as when they were timed
RANKING = 0.15  # of the time, at most, for ranking; a sample of the triples tells enough
MEASURING = 0.01  # of the time, for each thing that is timed
USUAL_TIME = 60.0  # seconds: what counts as patience where no time is asked for
SAVED_A_SECOND = 300e6  # bytes
PROGRAM, PROGRAM_CUDA = 280e6, 450e6  # bytes that Python and PyTorch take, on the device that trains
ANSWERS = 4  # of a query, in a graph of many
READ = 420  # bytes of a triple that is read, names included
LEAST_MEMORY = 1e6  # bytes; with fewer, a unit was forgotten
_TIMES = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZES = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


@dataclass(frozen=True)
class Plan:
    """Settings, and what a run with them is expected to take: learning, saving, and ranking for the report."""

    settings: OwnSettings
    learning: float  # seconds
    memory: float  # bytes, on the device that trains
    finish: float = 0.0  # seconds of the learning that come after its last epoch
    saving: float = 0.0
    ranking: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it takes until the run is learned, saved and ranked."""
        return self.learning + self.saving + self.ranking

    def for_epochs(self, left: float) -> float:
        """Return the seconds that epochs may take where so many are left for all."""
        return left - self.finish - self.saving - self.ranking

    def describe(self, before: float = 0.0) -> str:
        """Return the plan in words, for a command that has taken some seconds already."""
        settings = self.settings
        most = "" if isinstance(settings, ContrastSettings) else "up to "
        parts = [
            f"{settings.dim:,} numbers in segments of {settings.segment}",
            f"{most}{counted(settings.epochs, 'epoch')}",
        ]
        if isinstance(settings, ContrastSettings):
            parts.append(spoken_sizes(settings.batch, settings.negatives))
        return f"{', '.join(parts)}: about {spoken_time(before + self.seconds)} in all and {self.memory / 1e9:.1f} GB"

    def __str__(self) -> str:
        return self.describe()


def spoken_time(seconds: float) -> str:
    """Return seconds in words.

    >>> spoken_time(0.2), spoken_time(59.6), spoken_time(150), spoken_time(7300)
    ('1 s', '60 s', '2 min 30 s', '2 h 2 min')
    """
    whole = max(1, round(seconds))
    if whole <= 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(whole / 60)
    return f"{minutes // 60:,} h {minutes % 60} min"


def parse_time(text: str) -> float:
    """Return the seconds of words such as 60s, 10m or 1.5h.

    >>> parse_time("10m"), parse_time("90")
    (600.0, 90.0)
    """
    return _parse(text, _TIMES, "time", "60s, 10m or 1h")


def parse_size(text: str, name: str = "memory") -> float:
    """Return the bytes of words such as 4GB or 500MB; `name` is what errors call the setting.

    >>> parse_size("4GB")
    4000000000.0
    """
    found, number = _parse(text, _SIZES, name, "4GB or 500MB"), text.strip()
    if found < LEAST_MEMORY and not number[-1].isalpha():
        seen = counted(int(found), "byte") if found.is_integer() else f"{number} bytes"
        raise InputError(f"{name} {text!r}: {seen}; did you mean {number}{'GB' if found < 1000 else 'MB'}?")
    return found


def _parse(text: str, units: dict[str, float], name: str, examples: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2].lower() not in units or not 0 < float(found[1]) < 1e18:
        raise InputError(f"{name} {text!r}, expected a number above 0 and a unit, such as {examples}")
    return float(found[1]) * units[found[2].lower()]


def plan(
    graph: Graph,
    settings: OwnSettings,
    seconds: float | None = None,
    memory: float | None = None,
    keep: Collection[str] = (),
) -> Plan:
    """Return settings that fit the budgets, changed no more than they need, and what they are expected to take.

    `seconds` are for learning, saving and ranking. Epochs become fewer first, then vectors shorter, but never to where
    a model is of no use, nor the settings that `keep` names: a plan that takes longer than `seconds` is the smallest.
    """
    if memory is not None and memory_needed(graph, settings) > memory:
        settings = _within_memory(graph, settings, memory, "dim" not in keep)
    patience = MEASURING * (seconds or USUAL_TIME)
    if seconds is None:
        costs = measured(graph, settings, patience)
        return _planned(graph, settings, costs, usual_epochs(graph, settings))
    aim = AIM * seconds
    for tried, costs in _shorter_and_shorter(graph, settings, aim, patience, keep):
        most = usual_epochs(graph, tried)
        # Where validation chooses the epochs, fewer would spare nothing.
        fewest = most if "epochs" in keep or most < tried.epochs else ceil(_fewest(tried, keep) * tried.epochs)
        for epochs in range(most, fewest - 1, -1):
            fewer = tried if epochs == most else replace(tried, epochs=epochs)
            made = _planned(graph, fewer, costs, epochs, RANKING * seconds)
            if made.seconds <= aim:
                return made
    return made


def _shorter_and_shorter(
    graph: Graph, settings: OwnSettings, aim: float, patience: float, keep: Collection[str]
) -> Iterator[tuple[OwnSettings, Costs]]:
    """Yield settings with shorter and shorter vectors, and their costs.

    The shortest are timed, and the longest that may take no longer than `aim`: costs grow in a straight line.
    """
    *longer, least = _shorter(settings, keep)
    low = measured(graph, least, patience)
    usual = low.learning(graph, least, ceil(_fewest(least, keep) * least.epochs))
    # Perhaps all costs grow with the vectors, perhaps a half of them: longer ones than these cannot fit.
    longer = [each for each in longer if usual / 2 * (1 + each.dim / least.dim) <= aim]
    if longer:
        high = measured(graph, longer[0], patience)
        for each in longer:
            yield each, low.towards(high, (each.dim - least.dim) / (longer[0].dim - least.dim))
    yield least, low


def _shorter(settings: OwnSettings, keep: Collection[str]) -> list[OwnSettings]:
    """Return the settings with shorter and shorter vectors: of fewer groups, then each about three quarters as long."""
    if "dim" in keep:
        return [settings]
    found: list[OwnSettings] = [settings]
    while _may_drop_a_group(last := found[-1], keep):
        found.append(replace(last, dim=last.dim // last.groups * (last.groups - 1), groups=last.groups - 1))
    last = found[-1]
    least = min(last.segments, ceil(SHORTEST[type(last)] / last.segment))
    segments = last.segments
    while segments > least:
        segments = max(least, segments * 3 // 4)
        found.append(changed(last, dim=segments * last.segment))
    return found


def _may_drop_a_group(settings: OwnSettings, keep: Collection[str]) -> TypeGuard[ContrastSettings]:
    if not isinstance(settings, ContrastSettings) or {"dim", "groups"} & {*keep}:
        return False
    return settings.dim // settings.groups * (settings.groups - 1) >= SHORTEST[ContrastSettings]


def _fewest(settings: OwnSettings, keep: Collection[str]) -> float:
    """Return which share of the epochs is the least, before vectors are made shorter."""
    return FEWEST_OF_GROUPS if _may_drop_a_group(settings, keep) else FEWEST


def _planned(graph: Graph, settings: OwnSettings, costs: Costs, epochs: int, most_ranking: float | None = None) -> Plan:
    """Return the plan of settings that will probably be trained for so many epochs."""
    if isinstance(settings, ContrastSettings) and costs.workers:
        settings = replace(settings, workers=costs.workers)
    ranking = costs.triple * (len(graph.valid) + len(graph.test))
    numbers = settings.dim * (len(graph.entities) + settings.segment * len(graph.relations))
    return Plan(
        settings,
        learning=costs.learning(graph, settings, epochs),
        memory=memory_needed(graph, settings),
        finish=costs.finish,
        saving=(4 * numbers + 50 * len(graph.entities) + 24 * len(graph.train)) / SAVED_A_SECOND,
        ranking=ranking if most_ranking is None else min(ranking, most_ranking),
    )


def _within_memory(graph: Graph, settings: OwnSettings, memory: float, may_shorten: bool) -> OwnSettings:
    """Return settings whose vectors are short enough, and queries at once few enough, for the memory."""
    for dim in range(settings.dim, 0, -settings.segment) if may_shorten else (settings.dim,):
        tried = changed(settings, dim=dim)
        if isinstance(tried, ContrastSettings):
            room = memory - memory_needed(graph, replace(tried, chunk=QUERIES_PER_TILE))
            more = max(0, int(room / _query_bytes(graph, tried))) // QUERIES_PER_TILE
            chunk = (1 + more) * QUERIES_PER_TILE
            tried = replace(tried, chunk=min(tried.chunk, chunk) if tried.chunk else chunk)
        if memory_needed(graph, tried) <= memory:
            return tried
    least = f"{memory_needed(graph, tried) / 1e9:.3g} GB even with vectors of {tried.dim:,} numbers"
    raise InputError(
        f"{memory / 1e9:.3g} GB of memory asked for, but {graph.name} takes {least}; try a larger --memory"
    )


def memory_needed(graph: Graph, settings: OwnSettings) -> float:
    """Return about how many bytes training takes on its device; on the CPU, the program and the graph included."""
    device, triples, segments = choose_device(settings.device), len(graph.train), settings.segments
    held = PROGRAM + READ * (triples + len(graph.valid) + len(graph.test)) if device.type == "cpu" else PROGRAM_CUDA
    table = 4.0 * len(graph.entities) * settings.dim
    rotations = 4.0 * len(graph.relations) * settings.dim * settings.segment
    if isinstance(settings, ContrastSettings):
        # All groups that are done, and of the one in training: vectors, their gradient, what the step remembers, its
        # scratch, the last good copy, and the vectors in the precision of scores.
        copies = (4.5 + OPTIMISERS[settings.optimiser].moments) / settings.groups
        of_relations = (2 if settings.inverses else 1) * (1 + 9 / settings.groups)
        of_relations += 6 / settings.groups if settings.relation_weight else 0  # scaled, and their gradient
        tables = (1 + copies) * table + of_relations * rotations
        batch = 2 * triples if settings.batch == "full" else settings.batch
        together = min(queries_at_once(settings, len(graph.entities), device), batch)
        return held + tables + 200 * triples + together * _query_bytes(graph, settings)
    at_once = min(segments, (settings.workers or cores()) if device.type == "cpu" else segments)
    rows, tiles = padded_rows(triples, len(graph.relations))
    # A segment in training holds its triples once, and its entities several times; the pilot all that it has learned.
    one = settings.segment * (6 * len(graph.entities) + 1.2 * rows)
    one += settings.segment**2 * (tiles + 4 * len(graph.relations))
    pilot = min(1.0, settings.pilot / settings.dim) if settings.validate_every else 0.0
    return held + (1 + 2.5 * pilot) * table + 3 * rotations + 4 * at_once * one + 150 * triples


def _query_bytes(graph: Graph, settings: ContrastSettings) -> float:
    """Return what one more query at once takes: its scores, copies of its query, and of its pairs with answers."""
    pairs = ANSWERS if settings.relation_weight else 0
    of_pair = 32.0 * len(graph.relations) + 20.0 * settings.dim
    return 12.0 * settings.compared(len(graph.entities)) + 40.0 * settings.dim + pairs * of_pair
