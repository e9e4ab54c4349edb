"""What `scripts/fuzz.py` tries: for each target, whole files to begin with, words to write others with, and a check.

A check reads what an input has made of a file. It returns whether that was read; `InputError` refuses it; anything else
is a finding. Another target is another entry of `TARGETS`.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzz_exchange import VECTORS, zipped
from fuzz_inputs import Files, Target
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.labels import read_labels
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.runs.indexes import read_index, write_index
from procrustes_kge.runs.mapped import mapped_run
from procrustes_kge.runs.store import load_run, save
from procrustes_kge.system.extras import package
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn, learned

ROWS = [(f"e{row}", f"r{row % 3}", f"e{row * 7 % 40}") for row in range(40)]
NASTY = [
    "",
    " ",
    "\t",
    "\n",
    "\r\n",
    '"',
    "'",
    "\\",
    ",",
    ";",
    "|",
    "#",
    "%",
    "\0",
    "\ufeff",
    "\x1b[2J",
    "é",
    "e\u0301",
]
NASTY += [
    "🙂",
    "\u2028",
    "\x85",
    "\x1f",
    "NaN",
    "-1",
    "1e999",
    "9" * 400,
    "x" * 300,
    "a",
    "b",
    "head",
    "tail",
    "r",
    "_:",
    "<a>",
    " .\n",
]
RDF = ["<e:a> ", "<e:p> ", "<e:b> ", "_:b ", "[] ", "[ ", "] ", "( ", ") ", "<<( ", ")>> ", "<< ", ">> ", "{| ", "|} "]
RDF += [
    "{ ",
    "} ",
    " .\n",
    "; ",
    ", ",
    '"x" ',
    '"""',
    "'''",
    "^^<e:t> ",
    "@en ",
    "@en--ltr ",
    "a ",
    "e:a ",
    "e:\\( ",
    "~ ",
]
RDF += ["@prefix e: <http://e.org/> .\n", "@base <b/> .\n", "PREFIX e: <e:>\n", "GRAPH ", "VERSION '1.2' ", "true "]
RDF += ["<", ">", "# )>>\n", "<\\u0000> ", "<\\ud800> ", "<\\U00110000> ", '"\\u0000" ', "1815 ", "1e9 ", "-.5 ", "<> "]
RDF += ["<<( <e:a> <e:p> ", "[ <e:p> ", "{| <e:p> <e:b> ", "<e:a> <e:p> <e:b> .\n", f"<e:a> <e:p> <e:{'x' * 3000}> .\n"]
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label> "
XMLNS = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/"'
XML = [
    "<?xml version='1.0' encoding='",
    "utf-8'?>",
    "utf-16'?>",
    "utf-7'?>",
    "unicode_escape'?>",
    "punycode'?>",
    "cp037'?>",
    "\\ud800",
    "<!DOCTYPE rdf:RDF [",
    "]>",
    "<rdf:RDF ",
]
XML += [
    f"{XMLNS}>",
    "</rdf:RDF>",
    "<rdf:Description>",
    "</rdf:Description>",
    "<e:p>",
    "</e:p>",
    "<e:p rdf:resource='a'/>",
]
XML += [
    "<rdf:Description rdf:about='http://e.org/a'>",
    "<e:p rdf:parseType='Literal'>",
    "<e:p rdf:parseType='Collection'>",
]
XML += [
    "<!ENTITY a 'xxxxxxxxxx'>",
    "<!ENTITY b '&a;&a;&a;&a;'>",
    "<!ENTITY a SYSTEM '/etc/passwd'>",
    "&a;",
    "&b;",
    "&#0;",
]
XML += [
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?p?>",
    "<rdf:li>",
    "xml:base='b'",
    "xml:lang='en'",
    "rdf:nodeID='x'",
    "<a/>",
]
XML += ["<rdf:Description><e:p>", "<rdf:Description rdf:about='&a;'/>", f"<!ENTITY a '{'x' * 20_000}'>"]
JSON = ["{", "}", "[", "]", ":", ",", '"a"', '"b":', '"\\ud800"', '"\\u0000"', "null", "true", "1", "-1e999", "NaN"]
ENDS = {  # of the files that each syntax is tried with
    **{"tsv": ".tsv", "csv": ".csv", "text": "", "ntriples": ".nt", "nquads": ".nq", "turtle": ".ttl", "trig": ".trig"},
    **{"rdfxml": ".rdf", "parquet": ".parquet"},
}
WORDS = {**dict.fromkeys(("tsv", "csv", "text"), NASTY), **dict.fromkeys(("ntriples", "nquads", "turtle", "trig"), RDF)}
WORDS |= {"rdfxml": XML, "parquet": NASTY}


def read(path: Path) -> bool:
    """Read a graph, and check that what was read is one."""
    graph = read_graph(path, valid=0, test=0, header=None)
    named = [*graph.entities, *graph.relations]
    assert all(name and name == name.strip() and "\0" not in name and name.encode() for name in named), "a bad name"
    assert len({*graph.entities}) == len(graph.entities), "a name twice"
    assert bool((graph.train >= 0).all()), "an id without a name"
    assert int(graph.train[:, [0, 2]].max()) < len(graph.entities), "an id without a name"
    return True


def texts(kind: str, _: Path) -> Files:
    """Return files of a kind of text that are whole."""
    lines = {"tsv": "\t", "csv": ",", "text": " "}
    if kind in lines:
        rows = [("head", "relation", "tail"), *ROWS]
        plain = "".join(lines[kind].join(row) + "\n" for row in rows)
        quoted = "".join(lines[kind].join(f'"{name}, ""x"""' for name in row) + "\r\n" for row in ROWS)
        wide = "".join(lines[kind].join([*row, "0.5"]) + "\n" for row in [("from", "kind", "to"), *ROWS])
        found = {"plain": plain, "quoted": quoted, "wide": wide}
    elif kind == "rdfxml":
        body = "".join(
            f'<rdf:Description rdf:about="{h}"><e:{r} rdf:resource="{t}"/></rdf:Description>' for h, r, t in ROWS
        )
        entity = '<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY e "http://e.org/">]>'
        start = f"{entity}<rdf:RDF {XMLNS}>"
        nested = f'{start}<e:A rdf:about="&e;a"><e:p><e:B><e:q rdf:nodeID="x"/></e:B></e:p></e:A></rdf:RDF>'
        deep = "<rdf:Description><e:p>" * 90 + "<e:A/>" + "</e:p></rdf:Description>" * 90
        found = {name: f"<rdf:RDF {XMLNS}>{inside}</rdf:RDF>" for name, inside in {"plain": body, "deep": deep}.items()}
        found["nested"] = nested
    else:
        plain = "".join(f"<e:{h}> <e:{r}> <e:{t}> .\n" for h, r, t in ROWS)
        labels = f'<e:e1> {LABEL}"one"@en .\n<e:e2> {LABEL}"zwei"@de .\n<e:e1> <e:p> <<( <e:a> <e:p> "x" )>> .\n'
        deep = "<e:a> <e:p> " + "<<( <e:a> <e:p> " * 90 + "<e:b>" + " )>>" * 90 + " .\n"
        found = {"plain": plain, "labels": plain + labels, "deep": deep}
        if kind in ("turtle", "trig"):
            found["short"] = "@prefix e: <http://e.org/> .\ne:a e:p e:b, (e:c [ e:q 1815 ]) ; a e:A {| e:r e:s |} .\n"
        if kind == "trig":
            found["graphs"] = found["short"] + "GRAPH e:g { e:a e:p e:b } e:h { e:b e:p e:c . }\n"
        if kind == "nquads":
            found["graphs"] = plain.replace(" .", " <e:g> .")
    return {f"{name}{ENDS[kind]}": text.encode() for name, text in found.items()}


def tables(_: Path) -> Files:
    """Return Parquet files of several types and codings."""
    polars = package("polars", "fuzzing Parquet")
    names = polars.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row")
    numbers = names.with_columns(head=polars.int_range(len(ROWS)), tail=polars.lit(0.5), weight=polars.lit(None))
    others = names.with_columns(
        relation=polars.col("relation").cast(polars.Categorical), tail=polars.col("tail").cast(polars.Binary)
    )
    lists = names.with_columns(tail=polars.concat_list("tail", "head"))
    days = names.with_columns(tail=polars.date(2020, 1, 1), head=polars.datetime(2020, 1, 1))
    found = {"names": names, "numbers": numbers, "others": others, "lists": lists, "days": days, "none": names[:0]}
    files = dict[str, bytes]()
    for (name, frame), packing in zip(found.items(), ("zstd", "snappy", "gzip", "lz4", "brotli", "zstd"), strict=True):
        for coding in (packing, "uncompressed"):
            out = io.BytesIO()
            frame.write_parquet(out, compression=coding, row_group_size=15)
            files[f"{name}-{coding}.parquet"] = out.getvalue()
    return files


def packed(folder: Path) -> Files:
    """Return files of every format, packed."""
    zstd = _zstd()
    files = dict[str, bytes]()
    for kind in ENDS:
        for name, data in list((tables(folder) if kind == "parquet" else texts(kind, folder)).items())[:2]:
            files |= {f"{name}.gz": gzip.compress(data), f"{name}.zst": zstd.compress(data)}
    for size in (4_000_000, 2**27):  # one that may be unpacked and one that may not
        lines, zeros = b"a\tr\tb\n" * (size // 6), bytes(size)
        files |= {f"lines{size}.tsv.gz": gzip.compress(lines, 1), f"zeros{size}.tsv.zst": zstd.compress(zeros)}
    return files


def _zstd() -> Any:
    return package("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", "fuzzing .zst")


def repacked(name: str, data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a packed file with its content changed; files that unpack to much are left as they are."""
    if name.startswith(("lines", "zeros")):
        return data
    pack = gzip if name.endswith(".gz") else _zstd()
    return bytes(pack.compress(change(pack.decompress(data))))


def labels(folder: Path) -> Files:
    """Return files of labels."""
    pairs = {f"e{row}": f"entity {row}" for row in range(40)}
    lines = {".tsv": "\t", ".csv": ","}
    files = {f"labels{end}": "".join(f"{a}{by}{b}\n" for a, b in pairs.items()).encode() for end, by in lines.items()}
    files |= {"labels.json": json.dumps(pairs).encode(), "labels.ttl": texts("turtle", folder)["labels.ttl"]}
    return files | {"labels.json.gz": gzip.compress(files["labels.json"])}


def check_labels(path: Path) -> bool:
    """Read labels."""
    return all(name.encode() and label.encode() for name, label in read_labels(path).items())


def archives(_: Path) -> Files:
    """Return a dataset's archive."""
    return {"umls": Path(str(datasets._DATA), "wordnet-mini.tar.gz").read_bytes()}


def check_archive(path: Path) -> bool:
    """Read a dataset whose archive is not the one that was published."""
    known = datasets.DATASETS["umls"]
    assert known.archive
    os.environ["PROCRUSTES_DATA"] = str(path.parent)
    return bool(datasets.fetch(replace(known.archive, mirror=path.name)))


def _graph() -> Graph:
    return read_graph([(f"entity {h}", r, f"entity {t}") for h, r, t in ROWS], valid=0.1, test=0.1)


SETTINGS = FitSettings(dim=20, segment=10, epochs=4, device="cpu", patience=0)


def run_folder(folder: Path) -> Files:
    """Return the files of a run."""
    graph = _graph()
    save(learn(graph, SETTINGS), folder / "run", graph, SETTINGS, {"dataset": "rows"})
    return {file.name: file.read_bytes() for file in (folder / "run").iterdir()}


def check_run(path: Path) -> bool:
    """Load a run; what is loaded must be what was saved."""
    run, whole = load_run(path.parent), load_run(path.parent.parent / "whole")
    same = {name: table.equal(_tables(whole.model)[name]) for name, table in _tables(run.model).items()}
    assert all(same.values()), "tables of another run"
    known = [(each.graph and each.graph.checksum, each.settings, each.report) for each in (run, whole)]
    assert known[0] == known[1], "a graph, settings or a report of another run"
    return True


def check_mapped(path: Path) -> bool:
    """Read a run as one question does, without PyTorch; what is believed must be what was saved."""
    found, whole = mapped_run(path.parent), mapped_run(path.parent.parent / "whole")
    assert whole is not None, "a whole run is not read"
    if found is None:  # `check_run` says what is wrong
        return False
    _same_arrays(found.tables, whole.tables)
    _same_arrays(found.splits, whole.splits)
    names = [(each.entities.names, each.relations.names, each.entities.labels) for each in (found, whole)]
    assert names[0] == names[1], "names of another run"
    return True


def index(folder: Path) -> Files:
    """Return the files of an index."""
    codes = np.arange(120, dtype=np.uint8).reshape(40, 3)
    write_index(folder / "index", {"vectors": "x", "recall": 0.99}, {"codes": codes, "norms": np.ones(40, np.float32)})
    return {file.name: file.read_bytes() for file in (folder / "index").iterdir()}


def check_index(path: Path) -> bool:
    """Read an index; what is damaged is an error that those who ask for it expect."""
    about, arrays = read_index(path.parent.parent / "whole")
    try:
        found, found_arrays = read_index(path.parent)
    except (OSError, ValueError):
        return False
    assert found == about, "an index of something else"
    _same_arrays(found_arrays, arrays)
    return True


def _same_arrays(found: Mapping[str, np.ndarray], whole: Mapping[str, np.ndarray]) -> None:
    assert found.keys() == whole.keys(), "other tables"
    assert all(np.array_equal(found[name], whole[name]) for name in whole), "tables of another run"


def _tables(model: Any) -> dict[str, Any]:
    return dict(model.tables())


class Stopping(FolderCheckpoints):
    """Stop after the second epoch."""

    def due(self, part: int, epoch: int) -> bool:
        """Ask to stop."""
        if epoch > 1:
            self.stop()
        return super().due(part, epoch)


def checkpoint(folder: Path) -> Files:
    """Return the files of the checkpoint of a training that was stopped."""
    try:
        learned(_graph(), SETTINGS, checkpoints=Stopping(folder / "kept", "1"))
    except Stopped:
        newest = max((folder / "kept").iterdir())
        return {file.name: file.read_bytes() for file in newest.iterdir()}
    raise AssertionError("it did not stop")


def check_checkpoint(path: Path) -> bool:
    """Go on from a checkpoint; what is read must be what was kept, or nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, whole = (_kept(place) for place in (path.parent, path.parent.parent / "whole"))
    assert found is None or found == whole, "another state"
    return found is not None


def _kept(folder: Path) -> Any:
    """Return what a checkpoint holds; None where it is not believed."""
    place = folder.with_name(f"{folder.name}-kept")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place / "checkpoint-000001")
    checkpoints = FolderCheckpoints(place)
    kept = checkpoints.kept(checkpoints.stage, _graph(), SETTINGS)
    if kept is None:
        return None
    states = [*(each.state() for each in kept.added), *(each.state() for each in kept.parts.values())]
    bits = [
        {name: (table.dtype, table.shape, table.numpy().tobytes()) for name, table in state.items()} for state in states
    ]
    return kept.facts, [each[:2] for each in kept.added], {part: each.epoch for part, each in kept.parts.items()}, bits


TARGETS: dict[str, Target] = {
    **{kind: Target(partial(texts, kind), read, WORDS[kind]) for kind in ENDS if kind != "parquet"},
    "parquet": Target(tables, read, share=3),
    "packed": Target(packed, read, share=8, within=repacked),
    "zip": Target(zipped, read, share=4),
    **VECTORS,
    "labels": Target(labels, check_labels, [*NASTY, *JSON]),
    "archive": Target(archives, check_archive, share=1),
    "run": Target(run_folder, check_run, share=4, together=True),
    "mapped": Target(run_folder, check_mapped, share=4, together=True),
    "index": Target(index, check_index, share=4, together=True),
    "checkpoint": Target(checkpoint, check_checkpoint, share=4, together=True),
}
