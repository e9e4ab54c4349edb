"""What tuning gains on ten graphs: `accurate` as it was, as it is, tuned in a minute, and the record's best settings.

python benchmarks/tuned.py                                     all rows that are missing, three seeds
python benchmarks/tuned.py umls wn18rr --rows tuned --seconds 60

`was` are the settings by a rule on the number of answers per query; `default` those of the recipe now; `tuned` is the
whole of `procrustes train` in the time: search, training, ranking; `reference` the best of the record of random trials,
trained in full. Validation and test MRR, and the seconds of each. Writes benchmarks/results/tuned-DEVICE.json after
every row, and goes on where that ends.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import result_files
import ten_graphs
from ideas import best
from procrustes_kge import Graph, recipe, tune
from procrustes_kge.models.ranking import PROTOCOL, figure, rank
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.budget import plan
from procrustes_kge.training.recipes import Settings, changed, learned, values_of
from procrustes_kge.training.supervised_settings import TrainSettings

ROWS = ("was", "default", "tuned", "reference")
MOST_RANKED = 20_000  # triples of a split
WARM_UP = {"epochs": 1, "dim": 100}  # one training is not counted: it loads libraries


def settings_of(row: str, graph: Graph, name: str, seed: int, arguments: argparse.Namespace) -> tuple[Settings, Any]:
    """Return the settings of a row, and what a search reports."""
    device, seconds = arguments.device, arguments.seconds
    if row == "tuned":
        found = tune(graph, recipe("accurate", graph, device, seed=seed), seconds=seconds)
        return found.settings, found.as_dict()
    if row == "reference":
        [changes] = best(name, result_files.RESULTS, 1)
        return changed(ten_graphs.former(graph, device, seed=seed), **changes), None
    own = ten_graphs.former(graph, device, seed=seed) if row == "was" else recipe("accurate", graph, device, seed=seed)
    if isinstance(own, TrainSettings):
        raise TypeError(own)
    # On a CPU within the same time.
    return plan(graph, own, seconds).settings if choose_device(device).type == "cpu" else own, None


def one(row: str, graph: Graph, name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train once, and rank."""
    started = time.perf_counter()
    settings, search = settings_of(row, graph, name, seed, arguments)
    searched = time.perf_counter() - started
    model = learned(graph, settings).model
    seconds = time.perf_counter() - started
    mrr = {
        split: (1 / rank(model, graph, graph.split(split)[:MOST_RANKED]).realistic).mean().item()
        for split in ("valid", "test")
        if len(graph.split(split))
    }
    found = {"row": row, "graph": name, "seed": seed, **mrr, "seconds": seconds, "searched": searched}
    return found | {"settings": values_of(settings), "search": search}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"all of {', '.join(ten_graphs.TEN)} if none is")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--until", type=float, default=float("inf"), help="begin nothing after so many seconds")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--debian", type=Path, help="the file that debian_graph.py wrote")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where the results are written")
    parser.add_argument("--name", help="name of the file of results", default=None)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    place, started = choose_device(arguments.device), time.perf_counter()
    file = arguments.name or f"tuned-{place.type}"
    about = {"commit": arguments.commit, "device": device_name(place), "protocol": PROTOCOL, "time": arguments.seconds}
    before = arguments.folder / f"{file}.json"
    rows = json.loads(before.read_text(encoding="utf-8"))["rows"] if before.exists() else []
    for number, name in enumerate(arguments.graphs or ten_graphs.TEN):
        graph = ten_graphs.read(name, arguments.debian)
        if number == 0:
            learned(graph, recipe("accurate", graph, arguments.device, **WARM_UP))
        for seed in range(arguments.seeds):
            for row in arguments.rows:
                done = any((each["row"], each["graph"], each["seed"]) == (row, name, seed) for each in rows)
                if done or time.perf_counter() - started > arguments.until:
                    continue
                rows.append(one(row, graph, name, seed, arguments))
                result_files.write(file, {**about, "rows": rows}, arguments.folder)
                print({key: value for key, value in rows[-1].items() if key not in ("settings", "search")}, flush=True)
    print("\n".join(table(rows)))


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each graph: the mean validation MRR of each row, and its spread over seeds."""
    lines = [f"{'valid MRR':<14}" + "".join(f"{row:>20}" for row in ROWS)]
    for name in dict.fromkeys(each["graph"] for each in rows):
        cells = []
        for row in ROWS:
            found = [each["valid"] for each in rows if (each["graph"], each["row"]) == (name, row) and "valid" in each]
            spread = f" ± {stdev(found):.4f}" if len(found) > 1 else ""
            cells.append(f"{figure(mean(found))}{spread}" if found else "")
        lines.append(f"{name:<14}" + "".join(f"{cell:>20}" for cell in cells))
    return lines


if __name__ == "__main__":
    main()
