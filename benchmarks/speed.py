"""Epochs, a training and ranking beside the floors of this machine; how cost grows.

python benchmarks/speed.py                    WN18RR and FB15k-237, on the GPU where there is one
python benchmarks/speed.py wn18rr --device cpu

Writes benchmarks/results/speed-DEVICE-DATASET.json, and growth-DEVICE.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

import result_files
from procrustes_kge import read_graph
from procrustes_kge.bench.speed import Timing, speed, started_training
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.full_batch_settings import FitSettings

SIZES = (1, 2, 4, 8)
BASE = {"dim": 400, "triples": 100_000, "relations": 50}  # too long for any cache to hold all segments
ROUNDS = {"dim": 300, "triples": 30, "relations": 30}  # more where twice is near
TOGETHER = 2  # epochs of a turn, of all sizes: a segment is trained for all of them before the next one
RESAMPLED = 2000


def drawn_graph(entities: int, relations: int, triples: int) -> Graph:
    """Return a graph of random triples."""
    generator = torch.Generator().manual_seed(0)
    sizes = (entities, relations, entities)
    columns = [torch.randint(size, (triples,), generator=generator) for size in sizes]
    names = (Vocabulary(map(str, range(entities)), "entity"), Vocabulary(map(str, range(relations)), "relation"))
    nothing = torch.empty(0, 3, dtype=torch.int64)
    return Graph("drawn", *names, torch.stack(columns, dim=1), nothing, nothing)


def growth(device: str) -> dict[str, Any]:
    """Return the seconds of an epoch for four sizes of each of dim, triples and relations, and how they grew.

    The sizes take turns, and each doubling is judged by the ratios within every round: what else a machine does comes
    and goes for all of them. Medians, and the standard errors of those of the ratios, by drawing rounds again. On CPUs
    the seconds of the processor are judged too: what others take of it is not among them.
    """
    clocks = {"doublings": time.perf_counter}
    if choose_device(device).type == "cpu":
        clocks["processor_doublings"] = time.process_time
    found: dict[str, Any] = {name: {} for name in clocks}
    for grown in BASE:
        rounds = _rounds(grown, device, list(clocks.values()))
        found[grown] = np.median(rounds[..., 0], axis=0).tolist()
        for number, name in enumerate(clocks):
            seconds = rounds[..., number]
            ratios = seconds[:, 1:] / seconds[:, :-1]
            found[name][grown] = [
                {"ratio": float(np.median(each)), "error": _error_of_median(each)} for each in ratios.T
            ]
            print(grown, name, found[name][grown], flush=True)
        print(grown, found[grown], flush=True)
    return found


def _error_of_median(values: Float[np.ndarray, " values"]) -> float:
    """Return by how much the median moves from one sample of the values to another."""
    drawn = np.random.default_rng(0).choice(values, (RESAMPLED, len(values)))
    return float(np.median(drawn, axis=1).std())


def _rounds(grown: str, device: str, clocks: Sequence[Callable[[], float]]) -> Float[np.ndarray, "rounds sizes clocks"]:
    """Return the seconds of an epoch, of every round but the first."""
    place, trainings = choose_device(device), []

    def seconds_of(epochs: Callable[[int], None]) -> list[float]:
        started = [clock() for clock in clocks]
        epochs(TOGETHER)
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        return [(clock() - start) / TOGETHER for clock, start in zip(clocks, started, strict=True)]

    for times in SIZES:
        here = {name: size * (times if name == grown else 1) for name, size in BASE.items()}
        graph = drawn_graph(20_000, here["relations"], here["triples"])
        trainings.append(started_training(graph, FitSettings(dim=here["dim"], device=device)))
    return np.array([[seconds_of(epochs) for epochs in trainings] for _ in range(ROUNDS[grown] + 1)])[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", default=["wn18rr", "fb15k-237"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-pykeen", action="store_true")
    growing = parser.add_mutually_exclusive_group()
    growing.add_argument("--no-growth", action="store_true")
    growing.add_argument("--growth-alone", action="store_true")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    about = {"commit": arguments.commit, "device": device_name(device)}
    for dataset in [] if arguments.growth_alone else arguments.datasets:
        rates, timings = speed(read_graph(dataset), arguments.device, not arguments.no_pykeen)
        print(f"{dataset}: {rates}\n{Timing.heading()}", flush=True)
        done = []
        for timing in timings:
            done.append(timing.as_dict())
            print(timing, flush=True)
            found = {**about, "dataset": dataset, "rates": asdict(rates), "timings": done}
            result_files.write(f"speed-{device.type}-{dataset}", found, arguments.folder)
    if not arguments.no_growth:
        result_files.write(
            f"growth-{device.type}",
            {**about, "sizes": SIZES, "rounds": ROUNDS, "together": TOGETHER, **growth(arguments.device)},
            arguments.folder,
        )


if __name__ == "__main__":
    main()
