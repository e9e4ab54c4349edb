"""Peak memory of `fit` on the CPU beyond the program, the graph and the table of vectors, for short and long vectors.

python benchmarks/memory.py                    WN18RR

Writes benchmarks/results/memory-cpu-DATASET.json. Each size is fitted in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

import result_files
from procrustes_kge import FitSettings, fit, read_graph
from procrustes_kge.runs.experiment import device_name

DIMS = (200, 2000)
EPOCHS = 6


def resident() -> int:
    """Return the bytes of memory that this process has now (Linux)."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def own_peak(dataset: str, dim: int) -> int:
    """Return the most that `fit` had beyond what there was before and beyond the table it makes."""
    graph = read_graph(dataset)
    fit(graph, FitSettings(dim=20, epochs=1, patience=0, device="cpu"))  # what is loaded once
    before, peak, done = resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, resident())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    fit(graph, FitSettings(dim=dim, epochs=EPOCHS, device="cpu"))
    done.set()
    watcher.join()
    return peak - before - 4 * len(graph.entities) * dim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="wn18rr")
    parser.add_argument("--dim", type=int, help="measure this size alone, and print its bytes")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    if arguments.dim:
        print(own_peak(arguments.dataset, arguments.dim))
        return
    found = {}
    for dim in DIMS:
        command = [sys.executable, __file__, arguments.dataset, "--dim", str(dim)]
        found[dim] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{arguments.dataset}, dim {dim:,}: {found[dim] / 1e6:,.0f} MB beyond the table", flush=True)
    print(f"{found[DIMS[1]] / found[DIMS[0]]:.2f} times")
    about = {"commit": result_files.commit(), "device": device_name(torch.device("cpu")), "bytes": found}
    result_files.write(f"memory-cpu-{arguments.dataset}", about, arguments.folder)


if __name__ == "__main__":
    main()
