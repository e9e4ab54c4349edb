"""How long reading one million triples takes, by format: python benchmarks/reading.py."""

import argparse
import csv
import gzip
import platform
import random
import tempfile
import time
from pathlib import Path

import result_files
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.system.machine import processor_name

FORMATS = ("graph.tsv", "graph.csv", "graph.nt", "graph.tsv.gz")


def generated_triples(count: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Return triples of names as long as those of public graphs; a few entities take part in most of them."""
    draw = random.Random(seed)
    entities = [f"http://example.org/entity/{draw.getrandbits(32):08x}" for _ in range(max(count // 20, 2))]
    relations = [f"http://example.org/property/relation_{number}" for number in range(200)]

    def entity() -> str:
        return entities[int(len(entities) * draw.random() ** 3)]

    return [(entity(), draw.choice(relations), entity()) for _ in range(count)]


def write_triples(path: Path, triples: list[tuple[str, str, str]]) -> None:
    """Write the triples in the format that the name of the file says."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(triples)
        return
    if path.suffix == ".nt":
        text = "".join(f"<{head}> <{relation}> <{tail}> .\n" for head, relation, tail in triples)
    else:
        text = "".join("\t".join(triple) + "\n" for triple in triples)
    data = text.encode()
    path.write_bytes(gzip.compress(data, compresslevel=6) if path.suffix == ".gz" else data)


def measure(count: int, repeats: int) -> list[dict[str, str | float]]:
    """Return the size of each file and the shortest of the times that reading it took."""
    rows: list[dict[str, str | float]] = []
    with tempfile.TemporaryDirectory() as folder:
        triples = generated_triples(count)
        for name in FORMATS:
            path = Path(folder) / name
            write_triples(path, triples)
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                read_graph(path)
                times.append(time.perf_counter() - start)
            megabytes = path.stat().st_size / 1e6
            rows.append({"file": name, "megabytes": round(megabytes, 1), "seconds": round(min(times), 2)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows = measure(arguments.triples, arguments.repeats)
    print(f"{arguments.triples:,} triples     MB   seconds")
    for row in rows:
        print(f"{row['file']:<16} {row['megabytes']:>7} {row['seconds']:>9}")
    record = {
        "commit": result_files.commit(),
        "device": f"{processor_name()}, Python {platform.python_version()}",
        "protocol": f"{arguments.triples} generated triples, seed 0, best of {arguments.repeats}",
        "formats": rows,
    }
    result_files.write("reading", record)


if __name__ == "__main__":
    main()
