"""Epochs, a training and ranking beside the floors of this machine; how cost grows.

python benchmarks/speed.py                    WN18RR and FB15k-237, on the GPU where there is one
python benchmarks/speed.py wn18rr --device cpu

Writes benchmarks/results/speed-DEVICE-DATASET.json, and growth-DEVICE.json.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import torch

import records
from procrustes_kge import read_graph
from procrustes_kge.devices import choose_device
from procrustes_kge.fit import FitSettings
from procrustes_kge.graph import Graph, Vocabulary
from procrustes_kge.speed import Timing, full_batch_epoch, machine_rates, speed
from procrustes_kge.store import device_name

SIZES = (1, 2, 4, 8)
PASSES = 3


def drawn_graph(entities: int, relations: int, triples: int) -> Graph:
    """Return a graph of random triples."""
    generator = torch.Generator().manual_seed(0)
    sizes = (entities, relations, entities)
    columns = [torch.randint(size, (triples,), generator=generator) for size in sizes]
    names = (Vocabulary(map(str, range(entities)), "entity"), Vocabulary(map(str, range(relations)), "relation"))
    nothing = torch.empty(0, 3, dtype=torch.int64)
    return Graph("drawn", *names, torch.stack(columns, dim=1), nothing, nothing)


def growth(device: str) -> dict[str, list[float]]:
    """Return the seconds of an epoch for four sizes of each of dim, triples and relations, each twice the last.

    Each is the best of some passes over all sizes: what else the machine does then comes and goes for all of them.
    """
    rates = machine_rates(choose_device(device))
    base = {"dim": 400, "triples": 100_000, "relations": 50}  # too long for any cache to hold all segments
    cases = [(1, 1, 1), *(tuple(size if name == grown else 1 for name in base) for grown in base for size in SIZES[1:])]
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(PASSES):
        for case in cases:
            here = {name: times * base[name] for name, times in zip(base, case, strict=True)}
            graph = drawn_graph(20_000, here["relations"], here["triples"])
            timing = full_batch_epoch(graph, FitSettings(dim=here["dim"], device=device), rates)
            best[case] = min(best[case], timing.seconds)
    found = {grown: [best[tuple(size if name == grown else 1 for name in base)] for size in SIZES] for grown in base}
    for grown, seconds in found.items():
        steps = ", ".join(f"{base[grown] * size:,}: {each:.3g} s" for size, each in zip(SIZES, seconds, strict=True))
        print(f"an epoch by {grown}   {steps}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", default=["wn18rr", "fb15k-237"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-pykeen", action="store_true")
    growing = parser.add_mutually_exclusive_group()
    growing.add_argument("--no-growth", action="store_true")
    growing.add_argument("--growth-alone", action="store_true")
    parser.add_argument("--folder", type=Path, default=records.RESULTS)
    parser.add_argument("--commit", default=records.commit(), help="what to record where there is no git")
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
            records.write(f"speed-{device.type}-{dataset}", found, arguments.folder)
    if not arguments.no_growth:
        records.write(f"growth-{device.type}", {**about, "sizes": SIZES, **growth(arguments.device)}, arguments.folder)


if __name__ == "__main__":
    main()
