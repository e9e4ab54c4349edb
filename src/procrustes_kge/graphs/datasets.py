"""Named datasets: where their files are, their checksums, and who made them.

This module knows files and bytes, not graphs. A file comes from the folder that PROCRUSTES_DATA names, else
from the cache, else from its public address into the cache. Its SHA-256 is checked before every use.
"""

import contextlib
import hashlib
import http.client
import io
import json
import os
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.words import counted, unknown

DEFAULT = "wordnet-mini"
EMBEDDED_SHA256 = "cf658d517274230265b603da345e66f0df723724a405bc1988190b1fa86c0e4a"
TIMEOUT = 30  # seconds without a byte, after which a download has failed
CHUNK = 1 << 18  # bytes between two calls of progress

DownloadReport = Callable[[str, int, int | None], None]  # file, bytes done, bytes in all (None: unknown)


@dataclass(frozen=True)
class RemoteFile:
    """A public file: its address, its checksum, and its path inside PROCRUSTES_DATA and the cache."""

    address: str
    sha256: str
    mirror: str


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset without opening it; `triples` counts train, valid and test."""

    name: str
    summary: str
    archive: RemoteFile | None  # None: it comes inside the package
    labels: tuple[RemoteFile, ...]  # readable names of the entities, published apart from the archive
    licence: str
    citation: str
    entities: int
    relations: int
    triples: tuple[int, int, int]

    @property
    def sha256(self) -> str:
        """The checksum of the archive, which identifies the data that a result was measured on."""
        return self.archive.sha256 if self.archive else EMBEDDED_SHA256


def _registered(name: str, facts: dict[str, Any]) -> Dataset:
    archive = RemoteFile(**facts.pop("archive")) if "archive" in facts else None
    labels = tuple(RemoteFile(**file) for file in facts.pop("labels", ()))
    return Dataset(name, archive=archive, labels=labels, triples=tuple(facts.pop("triples")), **facts)


_DATA = resources.files("procrustes_kge.graphs") / "data"
_FACTS = tomllib.loads((_DATA / "datasets.toml").read_text(encoding="utf-8"))
DATASETS: dict[str, Dataset] = {name: _registered(name, facts) for name, facts in _FACTS.items()}


def dataset(name: str) -> Dataset:
    """Return the dataset of this name, in upper or lower case.

    >>> dataset("WN18RR").relations
    11
    """
    if found := DATASETS.get(name.lower()):
        return found
    raise InputError(f"{unknown('dataset', name, DATASETS)}. For your own triples, give the path of a file or folder")


def splits(name: str, progress: DownloadReport | None = None) -> dict[str, bytes]:
    """Return train, valid and test as published: lines of head, tab, relation, tab, tail (and CR in some)."""
    chosen = dataset(name)
    content = fetch(chosen.archive, progress).read_bytes() if chosen.archive else _embedded(chosen)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive)  # a folder: None
        files = {PurePosixPath(path).name: file.read() for path, file in opened if file}
    return {split: files[f"{split}.txt"] for split in ("train", "valid", "test")}


def labels(name: str, progress: DownloadReport | None = None) -> dict[str, str]:
    """Return the readable name of each entity that has one; {} for a dataset without labels."""
    files = dataset(name).labels
    texts = [fetch(file, progress).read_text(encoding="utf-8") for file in files]
    if files and files[0].mirror.endswith(".json"):
        return {entity: facts["label"] for entity, facts in json.loads(texts[0]).items()}
    triples = b"".join(splits(name, progress).values()).decode() if files else ""
    readable: dict[str, str] = {}
    for line, twin in zip(triples.splitlines(), "".join(texts).splitlines(), strict=True):
        for entity, label in zip(line.split("\t")[::2], twin.split("\t")[::2], strict=True):
            readable.setdefault(entity, label)  # 433 places name an entity otherwise than the first one did
    return readable


def fetch(file: RemoteFile, progress: DownloadReport | None = None) -> Path:
    """Return a local copy with the right checksum: from the mirror, from the cache, or downloaded now."""
    mirrored, cached = _copies(file)
    if mirrored and (seen := _sum(mirrored)):
        if seen == file.sha256:
            return mirrored
        remedy = f"replace it with {file.address}, or delete it and it will be downloaded"
        raise InputError(f"{mirrored}: sha256 {seen[:12]}…, expected {file.sha256[:12]}…; {remedy}")
    if _sum(cached) != file.sha256:
        _download(file, cached, progress)
    return cached


def is_local(name: str) -> bool:
    """Say whether the splits can be read without a network."""
    archive = dataset(name).archive
    return archive is None or any(copy and _sum(copy) == archive.sha256 for copy in _copies(archive))


def cache_folder() -> Path:
    """Return the folder of downloads: PROCRUSTES_CACHE, else procrustes-kge where the system keeps caches."""
    if chosen := os.environ.get("PROCRUSTES_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "procrustes-kge"


def _copies(file: RemoteFile) -> tuple[Path | None, Path]:
    """Return where the file would be in PROCRUSTES_DATA (None when that is unset) and in the cache."""
    cached = cache_folder() / file.mirror
    if not (chosen := os.environ.get("PROCRUSTES_DATA")):
        return None, cached
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise InputError(f"PROCRUSTES_DATA is {chosen!r}, which is not a folder; correct or unset it")
    return folder / file.mirror, cached


def _sum(path: Path) -> str | None:
    """Return the SHA-256 of a file, None where there is no file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; make it readable or delete it") from error


def _embedded(chosen: Dataset) -> bytes:
    """Return the archive that comes with the package."""
    file = _DATA / f"{chosen.name}.tar.gz"
    content = file.read_bytes() if file.is_file() else b""
    if (seen := hashlib.sha256(content).hexdigest()) != chosen.sha256:
        seen = f"{counted(len(content), 'byte')} with sha256 {seen[:12]}…, expected {chosen.sha256[:12]}…"
        raise InputError(f"{file}: {seen}; the installation is damaged; install procrustes-kge again")
    return content


def _download(file: RemoteFile, target: Path, progress: DownloadReport | None) -> None:
    """Download the file; `target` appears complete and verified, or not at all."""
    # Each attempt has a name of its own: two processes may download at once, and the last to finish wins.
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    remedy = (
        f"download it some other way to {target} (PROCRUSTES_CACHE chooses another folder), "
        f"or set PROCRUSTES_DATA to a folder that contains {file.mirror}"
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        seen = _receive(file, partial, progress)
        if seen != file.sha256:
            raise InputError(
                f"{file.address} sent sha256 {seen[:12]}…, expected {file.sha256[:12]}…; "
                f"the file has changed, or something else answered in its place; {remedy}"
            )
        partial.replace(target)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the server's open answer as well as an error
        raise InputError(f"cannot download {file.address} ({error}); {remedy}") from error
    finally:
        with contextlib.suppress(OSError):  # it may not exist, or be the target by now
            partial.unlink()


def _receive(file: RemoteFile, path: Path, progress: DownloadReport | None) -> str:
    """Write what the address sends to `path` and return its checksum."""
    request = urllib.request.Request(file.address, headers={"User-Agent": "procrustes-kge"})
    done, digest = 0, hashlib.sha256()
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response, path.open("xb") as output:
        total = int(length) if (length := response.headers.get("Content-Length")) else None
        while chunk := response.read(CHUNK):
            output.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(file.mirror, done, total)
    if total is not None and done != total:
        raise ConnectionError(f"the connection was lost after {done:,} of {total:,} bytes")
    return digest.hexdigest()
