"""The projector of TensorFlow and TensorBoard: vectors.tsv, metadata.tsv and projector_config.pbtxt."""

from __future__ import annotations

import json
import re
from pathlib import Path

from procrustes_kge.errors import InputError
from procrustes_kge.runs.exchange.content import Content, cell, text_of

CONFIG = "projector_config.pbtxt"  # TensorBoard looks for this name in the folder that it is given


def write_projector(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write vectors, and beside them their names (and labels), and the file by which TensorBoard finds both."""
    table, names = content.vectors("the projector"), content.names
    about = f"{Path(name).stem}-metadata.tsv"
    if name in (about, CONFIG):
        raise InputError(f"{name}: is the name of a file beside the vectors; name them vectors.tsv")
    with (scratch / name).open("w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(map(cell, vector.tolist())) + "\n" for vector in table)
    rows = [[each, names.label(row)] if names.labels else [each] for row, each in enumerate(names)]
    if names.labels:  # one column has no header, several need one: so the projector tells them apart
        rows.insert(0, ["name", "label"])
    with (scratch / about).open("w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(_in_a_cell(value) for value in row) + "\n" for row in rows)
    # Strings of protocol buffers, as text, are escaped as those of JSON.
    config = {"tensor_name": Path(name).stem, "tensor_path": name, "metadata_path": about}
    lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in config.items())
    (scratch / CONFIG).write_text(f"embeddings {{\n{lines}}}\n", encoding="utf-8")
    return [scratch / name, scratch / about, scratch / CONFIG]


def _in_a_cell(value: str) -> str:
    """Return a name in one cell: the format has no way to write a tab or the end of a line."""
    return re.sub(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", " ", text_of(value, "the projector"))
