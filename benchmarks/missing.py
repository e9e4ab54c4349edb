"""All missing triples of a relation among all pairs of entities, interrupted too; and how fast a question is answered.

    python benchmarks/missing.py runs/wn18rr --relation _hypernym --head dog.n.01

Runs the command as a user does. A search that is stopped by Ctrl-C every few seconds and gone on with has to end with
the same file. Seconds of a question are from the start of the process to its end, the best of several; of the same
question with PyTorch, too. Writes benchmarks/results/missing-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import result_files
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.threads import cores

TIMES = 7
WITH_TORCH = "import torch; from procrustes_kge.cli import main; main()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--relation", required=True)
    parser.add_argument("--head", required=True)
    parser.add_argument("-k", type=int, default=1000)
    parser.add_argument("--stop-after", type=float, default=10.0, help="seconds, of which some load the modules")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    run, relation = str(arguments.run.resolve()), ["--relation", arguments.relation]
    with tempfile.TemporaryDirectory() as place:
        wanted = ["missing", run, *relation, "--any", "-k", str(arguments.k)]
        said, seconds, peak = watched([*wanted, "--json"], place)
        found = json.loads(said)
        watched([*wanted, "--out", "whole.json"], place)
        stops = stopped_again_and_again([*wanted, "--out", "again.json", "--resume"], place, arguments.stop_after)
        same = Path(place, "whole.json").read_bytes() == Path(place, "again.json").read_bytes()
    question = ["predict", run, "--head", arguments.head, *relation, "-k", "3"]
    row: dict[str, Any] = {
        "pairs": found["pairs"],
        "seconds": found["seconds"],
        "estimated_seconds": found["estimated_seconds"],
        "whole_seconds": seconds,
        "peak_megabytes": peak,
        "stops": stops,
        "same_after_stops": same,
        "question_seconds": min(watched(question)[1] for _ in range(TIMES)),
        "question_seconds_with_torch": min(watched(question, start=["-c", WITH_TORCH])[1] for _ in range(TIMES)),
    }
    print(json.dumps(row, indent=2))
    about: dict[str, Any] = {
        "commit": result_files.commit(),
        "device": device_name(torch.device("cpu")),
        "cores": cores(),
    }
    about |= {"load": os.getloadavg()[0], "run": arguments.run.name, "relation": arguments.relation, "k": arguments.k}
    result_files.write("missing-cpu", about | row, arguments.folder)


def watched(words: list[str], place: str | None = None, start: list[str] | None = None) -> tuple[str, float, float]:
    """Run the command; return what it printed, its seconds, and its peak memory in megabytes."""
    began = time.perf_counter()
    command = [sys.executable, *(start or ["-m", "procrustes_kge"]), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=place) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return said, time.perf_counter() - began, usage.ru_maxrss / 1e3


def stopped_again_and_again(words: list[str], place: str, seconds: float) -> int:
    """Run the command, stop it after so many seconds by SIGINT, and run it again until it ends; return the stops."""
    stops = 0
    while True:
        with subprocess.Popen([sys.executable, "-m", "procrustes_kge", *words], cwd=place) as process:
            try:
                assert process.wait(seconds) == 0
                return stops
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                assert process.wait() in (0, 130)
                stops += 1
                seconds *= 1.5  # a search must come further each time, whatever else the machine does


if __name__ == "__main__":
    main()
