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
from pathlib import Path
from typing import Any

import result_files
from procrustes_kge import load
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device

WAYS = {
    "full batch": ["--recipe", "fast", "--dim", "200", "--epochs", "12"],
    "full batch, without validation triples": ["--recipe", "fast", "--dim", "100", "--epochs", "9", "--valid", "0"],
    "contrastive": ["--recipe", "accurate", "--dim", "40", "--epochs", "6", "--batch", "4096"],
    "contrastive, in groups": [
        "--recipe",
        "accurate",
        "--dim",
        "40",
        "--epochs",
        "3",
        "--batch",
        "8192",
        "--groups",
        "2",
    ],
    "supervised": ["--model", "complex", "--dim", "20", "--epochs", "6"],
}
COMMAND = [sys.executable, "-m", "procrustes_kge"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="?", default="wordnet-mini")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    moments, rows = random.Random(arguments.seed), list[dict[str, Any]]()
    device = choose_device(arguments.device)
    for number, (name, flags) in enumerate(WAYS.items()):
        share = arguments.kills * (number + 1) // len(WAYS) - arguments.kills * number // len(WAYS)
        with tempfile.TemporaryDirectory() as folder:
            rows.append({"trainer": name, **killed(Path(folder), arguments, flags, share, moments)})
        print("   ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        about = {"commit": arguments.commit, "device": device_name(device), "seed": arguments.seed}
        result_files.write(f"kills-{device.type}", about | {"rows": rows}, arguments.folder)
    bad = sum(row["different"] + row["left"] for row in rows)
    print(f"{sum(row['kills'] for row in rows)} kills, {bad} models that differ or folders with something left")
    sys.exit(bool(bad))


def killed(
    folder: Path, arguments: argparse.Namespace, flags: list[str], kills: int, moments: random.Random
) -> dict[str, Any]:
    """Kill one kind of training so many times; return how often it was resumed, how it ended, and what was left."""
    single = ["--device", arguments.device, *(["--deterministic"] if arguments.device != "cpu" else [])]
    train = [*COMMAND, "train", arguments.graph, *flags, *single, "--checkpoint-every", "1"]
    started = time.perf_counter()
    subprocess.run([*train, "--out", str(folder / "whole")], check=True, capture_output=True)
    seconds, expected = time.perf_counter() - started, load(folder / "whole")
    found = dict.fromkeys(("kills", "checkpoints", "begun", "trainings", "different", "left"), 0)
    place, run = folder / "runs" / "one", folder / "runs" / "one.unfinished"
    while found["kills"] < kills:
        command = [*COMMAND, "resume", str(place)] if run.exists() else [*train, "--anew", "--out", str(place)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, text=True
        ) as training:
            try:
                _, said = training.communicate(timeout=moments.uniform(0.3, 1.1) * seconds)
            except subprocess.TimeoutExpired:
                training.kill()
                training.communicate()
                found["kills"] += 1
                found["checkpoints"] += any(run.glob("checkpoint-*"))
                found["begun"] += (run / "job").exists()
                continue
        if training.returncode:
            raise SystemExit(f"{' '.join(command)}\n{said}")
        check(place, expected, found)
    while run.exists():
        subprocess.run([*COMMAND, "resume", str(place)], check=True, capture_output=True, cwd=folder)
        check(place, expected, found)
    return found | {"seconds_of_one": round(seconds, 2)}


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
