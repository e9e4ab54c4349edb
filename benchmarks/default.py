"""Which recipe is best within a minute on this machine, and whether its plan holds: why `procrustes train` is as it is.

    python benchmarks/default.py                          every dataset, on the GPU where there is one
    python benchmarks/default.py umls my.tsv --device cpu
    python benchmarks/default.py --busy                   beside as many other programs as there are cores

Runs the whole command. Writes benchmarks/results/default-cpu.json or default-cuda.json, with `--busy` busy-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import result_files
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device

DATASETS = ("wordnet-mini", "umls", "kinship", "nations", "wn18rr", "fb15k-237")
RECIPES = ("fast", "accurate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"{', '.join(DATASETS)} if none is named")
    parser.add_argument("--recipes", nargs="*", default=RECIPES, help="'default': what is taken where none is named")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--busy", action="store_true", help="keep every core busy with something else meanwhile")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    device, rows = choose_device(arguments.device), list[dict[str, Any]]()
    about = {"commit": arguments.commit, "device": device_name(device), "busy": arguments.busy, "time": arguments.time}
    with ExitStack() as at_the_end:
        if arguments.busy:
            at_the_end.enter_context(busy_cores())
        for graph in arguments.graphs or DATASETS:
            for name in arguments.recipes:
                rows.append({"dataset": Path(graph).stem, "recipe": name, **trained(graph, name, arguments)})
                print(line(rows[-1]), flush=True)
                result_files.write(
                    f"{'busy' if arguments.busy else 'default'}-{device.type}", about | {"rows": rows}, arguments.folder
                )


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()


def trained(graph: str, name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the command reports, or why it refused."""
    with tempfile.TemporaryDirectory() as folder:
        train = [sys.executable, "-m", "procrustes_kge", "train", graph, "--no-tune"]  # recipes as they are
        command = [*train, "--time", arguments.time, "--json"]
        command += ["--device", arguments.device, "--out", f"{folder}/run"]
        command += [] if name == "default" else ["--recipe", name]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode:
        return {"refused": ended.stderr.strip()}
    report = json.loads(ended.stdout)
    mrr = {f"{split}_mrr": metrics["mrr"] for split, metrics in report["metrics"].items()}
    kept = ("recipe", "seconds", "planned", "epochs", "footprint", "settings", "repeat")
    return mrr | {key: report[key] for key in kept}


def line(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{row['dataset']:<14}{row['recipe']:<10}{row['refused']}"
    planned, peak = row["planned"], row["footprint"]["peak_memory_mb"]
    return (
        f"{row['dataset']:<14}{row['recipe']:<10}dim {row['settings']['dim']:<6}{row['epochs']:>5} epochs   "
        f"valid MRR {row['valid_mrr']:.4f}   {row['seconds']:.1f} s (planned {planned['seconds']:.1f})   "
        f"{peak:,.0f} MB (planned {planned['memory_mb']:,.0f})"
    )


if __name__ == "__main__":
    main()
