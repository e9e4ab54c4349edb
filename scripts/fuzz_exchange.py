"""What `scripts/fuzz.py` tries of zip archives, and of vectors that come from elsewhere."""

from __future__ import annotations

import io
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

from fuzz_inputs import Files, Target
from procrustes_kge.graphs.vocabulary import Vocabulary
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.runs.exchange.vectors import read_vectors
from procrustes_kge.runs.export import export
from procrustes_kge.system.extras import package

ROWS = [(f"e{row}", f"r{row % 3}", f"e{row * 7 % 40}") for row in range(40)]
LINES = "".join("\t".join(row) + "\n" for row in ROWS)
TURTLE = "".join(f"<e:{head}> <e:{relation}> <e:{tail}> .\n" for head, relation, tail in ROWS)
KINDS = ("npy", "npz", "safetensors", "parquet", "word2vec", "word2vec-binary")
NUMBERS = [" ", "\n", "1", "-1", "nan", "inf", "1e999", "0 0\n", "2 2\n", "9" * 30, "a ", "1_0", "0x1", "\0", "é ", "."]


def zipped(_: Path) -> Files:
    """Return zip archives: of splits, of one table, in folders, stored and packed, and one that unpacks to much."""
    plain = LINES.encode()
    splits = {f"data/{split}.txt": plain for split in ("train", "valid", "test")} | {"data/README.md": b"read me"}
    found = {"splits": splits, "one": {"edges.tsv": plain}, "turtle": {"e.ttl": TURTLE.encode()}}
    files = dict[str, bytes]()
    for name, members in {**found, "much": {"edges.tsv": b"a\tr\tb\n" * 800_000}}.items():
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[name == "much" :]:
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", method) as archive:
                for member, data in members.items():
                    archive.writestr(member, data)
            files[f"{name}{method}.zip"] = out.getvalue()
    return files


def vectors(kind: str, folder: Path) -> Files:
    """Return files of vectors, as exports and other programs write them."""
    names = [f"entity {row}" for row in range(40)]
    table = np.random.default_rng(0).normal(size=(len(names), 20)).astype("f4")
    model = Procrustes(
        Vocabulary(names, "entity"),
        Vocabulary(["r"], "relation"),
        torch.from_numpy(table).view(-1, 2, 10),
        torch.eye(10).expand(1, 2, 10, 10),
    )
    end = {"word2vec": ".vec", "word2vec-binary": ".bin"}.get(kind, f".{kind}")
    (file, *_) = export(model, folder / f"v{end}", kind)
    files = {f"export{end}": file.read_bytes()}
    out = io.BytesIO()
    if kind == "npy":
        np.save(out, np.asfortranarray(table.astype("f8")))
    elif kind == "npz":
        np.savez_compressed(out, names=np.array(names), vectors=table, other=table[:, :2])
    elif kind == "word2vec":  # as GloVe has it
        out.write(
            "".join(f"{name} {' '.join(map(str, row))}\n" for name, row in zip(names, table, strict=True)).encode()
        )
    elif kind == "parquet":
        package("polars", "fuzzing Parquet").DataFrame({"word": names, "v": table.tolist()}).write_parquet(out)
    return {**files, **({f"other{end}": out.getvalue()} if out.getvalue() else {})}


def check_vectors(path: Path) -> bool:
    """Read vectors, and check that there is a name for each row."""
    path.with_suffix(".txt").write_text("".join(f"entity {row}\n" for row in range(40)))
    found = read_vectors(path, max_unpacked=2**24)
    assert found.table.ndim == 2, "no rows"
    assert len(found.names) == len(found.table), "a row without a name"
    return True


def _target(kind: str) -> Target:
    words = NUMBERS if kind == "word2vec" else ()
    return Target(partial(vectors, kind), check_vectors, words, share=1 if kind == "parquet" else 4)


VECTORS = {f"vectors-{kind}": _target(kind) for kind in KINDS}
