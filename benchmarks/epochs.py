"""How long the recipe `accurate` trains: whole trainings as they are, a step, and epochs beside their floor.

python benchmarks/epochs.py                         five graphs, on the GPU where there is one
python benchmarks/epochs.py umls wn18rr --set epochs=5 --profile

A training is timed from start to model, validations included, after a short one that is not timed. `--profile` prints
instead what the kernels of an epoch take, of the second and later ones, which a GPU replays.

Writes benchmarks/results/epochs-DEVICE.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch.profiler import ProfilerActivity, profile

import result_files
from procrustes_kge import read_graph
from procrustes_kge.bench.speed import MachineRates, machine_rates, softmax_epoch
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device, timed
from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.loop import run
from procrustes_kge.training.recipes import recipe

GRAPHS = ("umls", "kinship", "wordnet-mini", "wn18rr", "fb15k-237")
WARM_UP = 2  # epochs before one is profiled: what is recorded first, and what is loaded once
SHOWN = 40  # kernels


def settings_of(graph: Graph, device: str, changes: list[str]) -> ContrastSettings:
    """Return the recipe's settings, with whole numbers changed such as `epochs=5`."""
    numbers = {name: int(value) for name, _, value in (change.partition("=") for change in changes)}
    return cast(ContrastSettings, recipe("accurate", graph, device, **numbers))


def measured(graph: Graph, settings: ContrastSettings, rates: MachineRates, trainings: int) -> dict[str, Any]:
    """Return the seconds of trainings, of a step and of an epoch beside its floor."""
    device = choose_device(settings.device)
    epoch = softmax_epoch(graph, settings, rates)
    steps = settings.groups * Contrastive(graph, settings, device).trainer(0).steps_an_epoch
    run(Contrastive, graph, replace(settings, epochs=WARM_UP, validate_every=WARM_UP))
    seconds = {
        name: [timed(partial(run, Contrastive, graph, replace(chosen, seed=seed)), device)[1] for seed in seeds]
        for name, chosen, seeds in (
            ("seconds", settings, range(trainings)),
            ("seconds_without_validation", replace(settings, validate_every=0), range(1)),
        )
    }
    return {
        "dataset": graph.name,
        "checksum": graph.checksum,
        "settings": asdict(settings),
        "steps": steps * settings.epochs,
        "milliseconds_a_step": 1000 * epoch.seconds / steps,
        "epoch": epoch.as_dict(),
        **seconds,
    }


def line(found: dict[str, Any]) -> str:
    """Return the figures in one line."""
    (bare,) = found["seconds_without_validation"]
    return (
        f"{found['dataset']:<14}{min(found['seconds']):>8.2f} s  without validation {bare:>7.2f} s  "
        f"{found['steps']:>7,} steps of {found['milliseconds_a_step']:.3f} ms  "
        f"epoch {found['epoch']['seconds']:.4f} s, {found['epoch']['ratio']:.1f} x floor"
    )


@torch.no_grad()
def profiled(graph: Graph, settings: ContrastSettings) -> str:
    """Return a table of what an epoch of a group spends where, by kernel."""
    device = choose_device(settings.device)
    training = Contrastive(graph, settings, device)
    trainer = training.trainer(0)
    for _ in range(WARM_UP):
        trainer.epoch()
    around: dict[str, Callable[[], Any]] = {
        "arrange": partial(Contrastive, graph, settings, device),
        "start": partial(training.trainer, 1 % settings.groups),
        "deal": partial(trainer.batches.padded_epoch, trainer.batch, trainer.learner.generator),
        "model": trainer.model,
    }
    for work in around.values():  # what is loaded once does not count
        work()
    phases = [f"{name} {1000 * timed(work, device)[1]:.1f} ms" for name, work in around.items()]
    on_a_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CUDA] if on_a_gpu else [ProfilerActivity.CPU]
    with profile(activities=activities) as seen:
        _, seconds = timed(trainer.epoch, device)
    name = "self_device_time_total" if on_a_gpu else "self_cpu_time_total"
    events = sorted(seen.key_averages(), key=lambda event: -getattr(event, name))
    steps, busy = trainer.steps_an_epoch, sum(getattr(event, name) for event in events)
    lines = [
        f"{graph.name}: {steps} steps of {1000 * seconds / steps:.3f} ms, busy for {busy / 1000 / steps:.3f}",
        f"around the epochs: {'  '.join(phases)}",
    ]
    for event in events[:SHOWN]:
        each = getattr(event, name)
        lines.append(f"{each / steps:>9.1f} us a step  {event.count / steps:>7.2f} x  {event.key[:100]}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", default=GRAPHS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", help="a setting to change")
    parser.add_argument("--trainings", type=int, default=3, help="trainings to time, each with a seed of its own")
    parser.add_argument("--profile", action="store_true", help="print what the kernels of an epoch take, no more")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    device, rows = choose_device(arguments.device), []
    rates = None if arguments.profile else machine_rates(device)
    for dataset in arguments.datasets:
        graph = read_graph(dataset)
        settings = settings_of(graph, arguments.device, arguments.set)
        if rates is None:
            print(profiled(graph, settings), flush=True)
            continue
        rows.append(measured(graph, settings, rates, arguments.trainings))
        print(line(rows[-1]), flush=True)
        about = {"commit": arguments.commit, "device": device_name(device), "rates": asdict(rates)}
        result_files.write(f"epochs-{device.type}", {**about, "rows": rows}, arguments.folder)


if __name__ == "__main__":
    main()
