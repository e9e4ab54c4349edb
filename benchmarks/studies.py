"""Studies where neither the command nor matplotlib is installed, such as on a machine with a GPU: only measured.

python benchmarks/studies.py dims seeds --graph wn18rr --graph fb15k-237      what `procrustes bench dims …` measures
python benchmarks/studies.py --quick --graph wordnet-mini                     a glance at every study

It needs no more than PyTorch, numpy, jaxtyping and safetensors. Rows that a file has are not measured again. Drawn is
elsewhere: `procrustes bench draw benchmarks/results/studies --out docs/figures`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import result_files
from procrustes_kge import InputError, read_graph
from procrustes_kge.bench.studies import STUDIES, find_study
from procrustes_kge.bench.studies.kept import Conducted
from procrustes_kge.bench.studies.study import Place

FOLDER = result_files.RESULTS / "studies"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"all of {', '.join(STUDIES)} where none is named")
    parser.add_argument("--graph", action="append", metavar="GRAPH", help="wn18rr and fb15k-237 where none is named")
    parser.add_argument("--quick", action="store_true", help="small vectors, few epochs")
    parser.add_argument("--train", action="store_true", help="train everything, also what comes with the package")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--only", help="only rows whose name begins so, of `dims` for example 'fast'")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    try:
        for graph in arguments.graph or ("wn18rr", "fb15k-237"):
            place = Place(read_graph(graph), arguments.device, arguments.quick, arguments.train)
            for name in arguments.studies or STUDIES:
                conducted = Conducted(find_study(name), place, arguments.folder, arguments.commit)
                began = time.perf_counter()
                print(f"{name} on {graph}: {len(conducted.todo)} of {len(conducted.plan)} rows to measure", flush=True)
                for result in conducted.measured(only=arguments.only or ""):
                    print(f"{time.perf_counter() - began:>8.1f} s  {result}", flush=True)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
