"""Kill trainings at random moments, resume them, and compare the model with that of a training nobody stopped.

    python benchmarks/kills.py                  100 kills on the CPU, over all three trainers
    python benchmarks/kills.py --device cuda --kills 20

Writes benchmarks/results/kills-cpu.json or kills-cuda.json.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import result_files
from procrustes_kge import load, read_graph, recipe, save
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.runs.experiment import device_name, learned_run
from procrustes_kge.runs.jobs import remove, unfinished
from procrustes_kge.system.devices import choose_device

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "full batch": ("fast", {"dim": 200, "epochs": 12}),
    "full batch, without validation triples": ("fast", {"dim": 100, "epochs": 9}),
    "contrastive": ("accurate", {"dim": 40, "epochs": 6, "batch": 4096}),
    "contrastive, in groups": ("accurate", {"dim": 40, "epochs": 3, "batch": 8192, "groups": 2}),
    "supervised": ("complex", {"dim": 20, "epochs": 6}),
}
WITHOUT = "without validation triples"
LEFT_ALONE = 0.4  # of the trainings that are resumed: the others are killed again
EARLY = 0.1  # of the kills, while the process starts
WRITING = 0.5  # of the others, while a job, a checkpoint or the run is written
SCRATCH = ".*-*"  # what is being written; a lock has no mark of its process in its name
COMMAND = [sys.executable, "-m", "procrustes_kge"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="?", default="wordnet-mini")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    moments, rows = random.Random(arguments.seed), list[dict[str, Any]]()
    device = choose_device(arguments.device)
    for number, name in enumerate(WAYS):
        share = arguments.kills * (number + 1) // len(WAYS) - arguments.kills * number // len(WAYS)
        with tempfile.TemporaryDirectory() as folder:
            rows.append({"trainer": name, **killed(Path(folder), arguments, name, share, moments)})
        print("   ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        about = {"commit": arguments.commit, "device": device_name(device), "seed": arguments.seed}
        result_files.write(f"kills-{device.type}", about | {"rows": rows}, arguments.folder)
    bad = sum(row["different"] + row["left"] for row in rows)
    print(f"{sum(row['kills'] for row in rows)} kills, {bad} models that differ or folders with something left")
    sys.exit(bool(bad))


def killed(folder: Path, arguments: Any, name: str, kills: int, moments: random.Random) -> dict[str, Any]:
    """Kill one kind of training so many times; return how often it was resumed, how it ended, and what was left."""
    place = folder / "runs" / "one"
    before, seconds = timed(training_of(arguments, name, folder / "whole"))
    expected = load(folder / "whole")
    found = dict.fromkeys(("kills", "early", "in_writing", "kept", "trainings", "resumed", "different", "left"), 0)
    while found["kills"] < kills or begun(place):
        kept, early = begun(place), moments.random() < EARLY
        last = found["kills"] == kills or (kept and moments.random() < LEFT_ALONE)
        command = training_of(arguments, name, place)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as training:
            try:
                if not early and not last:
                    training.stdout.readline()  # type: ignore[union-attr]  # printed when training begins
                if not early and not last and moments.random() < WRITING:
                    wait_for_writing(training, place, moments)
                    patience: float | None = 0.0
                else:
                    patience = None if last else moments.uniform(0, before if early else seconds)
                _, said = training.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                training.kill()
                training.communicate()
                found["kills"] += 1
                found["early"] += early
                found["in_writing"] += bool(scratch(place))
                found["kept"] += begun(place)
                continue
        if training.returncode:
            raise SystemExit(f"{' '.join(command)}\n{said}")
        found["resumed"] += kept
        check(place, expected, found)
    return found | {"seconds_of_one": round(before + seconds, 2)}


def wait_for_writing(training: subprocess.Popen[str], place: Path, moments: random.Random) -> None:
    """Return while something is being written, if anything is before the training ends: not always the first thing."""
    seen, wanted = set[str](), moments.randint(1, 12)
    while training.poll() is None and len(seen) < wanted:
        seen |= scratch(place)
    time.sleep(moments.uniform(0, 0.005))


def scratch(place: Path) -> set[str]:
    """Return the names of what is being written."""
    found = set[str]()
    for folder in (place.parent, unfinished(place)):
        with suppress(FileNotFoundError):
            found |= {each.name for each in folder.iterdir() if each.match(SCRATCH)}
    return found


def timed(command: list[str]) -> tuple[float, float]:
    """Train; return the seconds to the first line that is printed, and from there to the end."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as training:
        training.stdout.readline()  # type: ignore[union-attr]
        begun = time.perf_counter()
        _, said = training.communicate()
    if training.returncode:
        raise SystemExit(f"{' '.join(command)}\n{said}")
    return begun - started, time.perf_counter() - begun


def begun(place: Path) -> bool:
    """Say whether anything is kept of a training."""
    return any(unfinished(place).glob("[!.]*"))


def training_of(arguments: Any, name: str, place: Path) -> list[str]:
    """Return the command that begins a training, or goes on with it where it was killed."""
    flags = ["--device", arguments.device, *(["--deterministic"] if arguments.device != "cpu" else [])]
    if arguments.device != "cpu":  # where the command's own packages may be missing
        return [sys.executable, __file__, arguments.graph, *flags[:2], "--child", name, "--out", str(place)]
    if begun(place):
        return [*COMMAND, "resume", str(place)]
    recipe_name, changes = WAYS[name]
    flags += [word for key, value in changes.items() for word in (f"--{key}", str(value))]
    flags += ["--valid", "0"] if name.endswith(WITHOUT) else []
    every = ["--checkpoint-every", "1", "--out", str(place)]
    return [*COMMAND, "train", arguments.graph, "--recipe", recipe_name, *flags, *every]


def child(arguments: argparse.Namespace) -> None:
    """Train as the command does, without the command."""
    graph, (name, changes) = read_graph(arguments.graph), WAYS[arguments.child]
    if arguments.child.endswith(WITHOUT):
        graph = replace(graph, valid=graph.valid[:0])
    print(graph.describe(), flush=True)
    settings, place = recipe(name, graph, arguments.device, deterministic=True, **changes), unfinished(arguments.out)
    run = learned_run(graph, settings, name, checkpoints=FolderCheckpoints(place, "1"))
    save(run.model, arguments.out, graph, run.settings, run.report)
    remove(place)


def check(place: Path, expected: Any, found: dict[str, int]) -> None:
    """Compare a run that has ended with one that nobody stopped, and begin anew."""
    tables, wanted = tables_of(load(place)), tables_of(expected)
    found["trainings"] += 1
    found["different"] += not all(tables[name].equal(wanted[name]) for name in wanted)
    found["left"] += len([each for each in place.parent.iterdir() if each != place])
    shutil.rmtree(place)


def tables_of(model: Any) -> dict[str, Any]:
    return dict(model.module.state_dict()) if hasattr(model, "module") else model.tables()


if __name__ == "__main__":
    main()
