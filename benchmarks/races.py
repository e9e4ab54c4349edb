"""Load a run folder again and again while another process replaces it in a loop: each load is one run or the other.

    python benchmarks/races.py                    3,000 loads of each kind

By saving, where folders are exchanged in one moment, as Linux and macOS can; with two renames, as elsewhere; while the
report alone is changed; and faster than any saver, by two runs that swap places every millisecond. With checksums and
without. Writes benchmarks/results/races.json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import result_files
from masters import changes_of, of_run, ring
from procrustes_kge import Graph, learn, recipe, save
from procrustes_kge.errors import InputError
from procrustes_kge.runs.store import update_report
from procrustes_kge.system import durable

KINDS = (
    "saved",
    "renamed",
    "report",
    "swapped",
    "saved, not verified",
    "renamed, not verified",
    "swapped, not verified",
)
AGAIN = "is being replaced by another process again and again; try again"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=3000)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a process that is forked has no other threads
    rows = []
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as place:
            rows.append(race(kind, arguments.loads, Path(place) / "run"))
        print("   ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    result_files.write("races", {"commit": result_files.commit(), "rows": rows}, arguments.folder)
    sys.exit(any(row["mixed"] or row["other"] for row in rows))


def race(kind: str, loads: int, folder: Path) -> dict[str, Any]:
    """Load a folder so many times while it is replaced; return how often that gave which run, or which sentence."""
    runs = two_runs()
    known = {}
    for name, (model, graph, settings) in runs.items():
        save(model, folder, graph, settings, {"metrics": {}, "name": name})
        known[of_run(folder)["sum"]] = name
    if kind == "report":  # of the run that was saved last
        update_report(folder, name="fast")
        known[of_run(folder)["sum"]] = "fast"
    fork = multiprocessing.get_context("fork")
    stop, saved = fork.Event(), fork.Value("i", 0)
    saver = fork.Process(target=replace_again_and_again, args=(kind, runs, folder, stop, saved))
    saver.start()
    ends, said, started = Counter[str](), Counter[str](), time.perf_counter()
    for _ in range(loads):
        try:
            ends[known.get(of_run(folder, verify="not" not in kind)["sum"], "mixed")] += 1
        except InputError as error:
            again = str(error).endswith(AGAIN)
            ends["again" if again else "other"] += 1
            said.update([] if again else [str(error).replace(str(folder), "RUN")])
    seconds = time.perf_counter() - started
    stop.set()
    saver.join()
    if saver.exitcode:
        ends["other"] += 1
    row = {"kind": kind, "loads": loads, "saves": saved.value, **{name: ends[name] for name in runs}}
    row |= {name: ends[name] for name in ("again", "mixed", "other")}
    return row | {"said": dict(said.most_common(3)), "seconds": round(seconds, 1)}


def two_runs() -> dict[str, tuple[Any, Graph, Any]]:
    """Return two runs that differ in every file."""
    found = {}
    for name, graph in (("fast", ring(40)), ("distmult", ring(50))):
        settings = recipe(name, graph, "cpu", **changes_of(name))
        found[name] = learn(graph, settings), graph, settings
    return found


def replace_again_and_again(kind: str, runs: dict[str, Any], folder: Path, stop: Any, saved: Any) -> None:
    """Save one run over the other, as fast as that goes."""
    if "renamed" in kind:
        durable.exchange = lambda *_: False
    ready = folder.with_name("ready")
    if "swapped" in kind:
        model, graph, settings = runs["fast"]
        save(model, ready, graph, settings, {"metrics": {}, "name": "fast"})
    while not stop.is_set():
        if "swapped" in kind:
            assert durable.exchange(ready, folder)
            saved.value += 1
            time.sleep(0.001)
            continue
        for name, (model, graph, settings) in runs.items():
            if kind == "report":
                update_report(folder, name=name)
            else:
                save(model, folder, graph, settings, {"metrics": {}, "name": name})
            saved.value += 1


if __name__ == "__main__":
    main()
