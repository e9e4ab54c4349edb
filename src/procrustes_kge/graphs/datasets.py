"""Named datasets: where their files are, which bytes they must be, who made them.

This module knows files and bytes, not graphs. A file comes from the folder that PROCRUSTES_DATA names, else
from the cache, else from its public address into the cache. Its SHA-256 is checked before every use.
"""

import contextlib
import difflib
import hashlib
import http.client
import io
import json
import os
import sys
import tarfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath

from procrustes_kge.errors import InputError

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
        """The checksum of the archive, which says exactly which data a result was measured on."""
        return self.archive.sha256 if self.archive else EMBEDDED_SHA256


def _conve(file: str, sha256: str) -> RemoteFile:
    return RemoteFile(f"https://github.com/TimDettmers/ConvE/raw/master/{file}", sha256, file)


def _label(folder: str, path: str, sha256: str) -> RemoteFile:
    address = f"https://github.com/villmow/datasets_knowledge_embedding/raw/master/{folder}/{path}"
    return RemoteFile(address, sha256, f"labels/{folder}/{PurePosixPath(path).name}")


_UNLICENSED = "no licence stated; distributed for research in the repository of ConvE (Dettmers et al. 2018)"
_KEMP = "Kemp et al.: Learning systems of concepts with an infinite relational model. AAAI 2006"

_REGISTERED = (
    Dataset(
        name="wordnet-mini",
        summary="12,000 well-known meanings of English words; comes with the package",
        archive=None,
        labels=(),
        licence="WordNet 3.0 licence, shipped beside the data",
        citation="Fellbaum (ed.): WordNet: An Electronic Lexical Database. MIT Press 1998; "
        "Princeton University: WordNet 3.0, 2006",
        entities=11_996,
        relations=17,
        triples=(34_698, 1_927, 1_927),
    ),
    Dataset(
        name="wn18rr",
        summary="benchmark: meanings of English words, without the inverse relations of WN18",
        archive=_conve("WN18RR.tar.gz", "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060"),
        labels=(
            _label("WN18RR", "text/train.txt", "a35aca3c963b71b8efa935c172bf07afe4472655552a0ad8d3b396b4154f1f29"),
            _label("WN18RR", "text/valid.txt", "2c71419fcd86a1720020a8709ab3e8bbb6e0d097a8abce41135fe4c43fec5f84"),
            _label("WN18RR", "text/test.txt", "80cfa61fe62ba084f58de42d8d0b384dc8b76bcd2ef7065b1a292a1e72b44c33"),
        ),
        licence="WordNet 3.0 licence; labels: MIT",
        citation="Dettmers et al.: Convolutional 2D Knowledge Graph Embeddings. AAAI 2018",
        entities=40_943,
        relations=11,
        triples=(86_835, 3_034, 3_134),
    ),
    Dataset(
        name="fb15k-237",
        summary="benchmark: Freebase on people, places and films, without the inverse relations of FB15k",
        archive=_conve("FB15k-237.tar.gz", "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8"),
        labels=(
            _label(
                "FB15k-237",
                "entity2wikidata.json",
                "80e74bb002fb9ca0ecd3d63879a3a51121db855d312a101917a1ffb6aed2fea9",
            ),
        ),
        licence="CC BY 2.5 (Freebase data); labels: MIT",
        citation="Toutanova, Chen: Observed versus latent features for knowledge base and text inference. "
        "CVSC workshop at ACL 2015",
        entities=14_541,
        relations=237,
        triples=(272_115, 17_535, 20_466),
    ),
    Dataset(
        name="umls",
        summary="toy: how kinds of medical things relate (the UMLS Semantic Network)",
        archive=_conve("umls.tar.gz", "26223aa91f0ec8db2324e0f489b9a4425e04d1d0df72ce5cfd62af4b91aee6fd"),
        labels=(),
        licence=_UNLICENSED,
        citation="McCray: An upper-level ontology for the biomedical domain. "
        f"Comparative and Functional Genomics 4, 2003; {_KEMP}",
        entities=135,
        relations=46,
        triples=(5_216, 652, 661),
    ),
    Dataset(
        name="kinship",
        summary="toy: what 104 people of the Alyawarra of Central Australia call each other",
        archive=_conve("kinship.tar.gz", "a3cb9ca67213eb38133aebc12901195e283d844ebd59f1a6cbf2d4fa12ced4e6"),
        labels=(),
        licence=_UNLICENSED,
        citation=_KEMP,
        entities=104,
        relations=25,
        triples=(8_544, 1_068, 1_074),
    ),
    Dataset(
        name="nations",
        summary="toy: dealings between 14 states in the years 1950 to 1965",
        archive=_conve("nations.tar.gz", "feb3e3e027103089934ea7dfb67d2048d8a43e65d6757a86f2e037acb66f640b"),
        labels=(),
        licence=_UNLICENSED,
        citation=_KEMP,
        entities=14,
        relations=55,
        triples=(1_592, 199, 201),
    ),
)
DATASETS: dict[str, Dataset] = {registered.name: registered for registered in _REGISTERED}


def dataset(name: str) -> Dataset:
    """Return the registered dataset of this name, in capitals or not.

    >>> dataset("WN18RR").relations
    11
    """
    if found := DATASETS.get(name.lower()):
        return found
    near = difflib.get_close_matches(name.lower(), DATASETS, n=1)
    raise InputError(
        f"no dataset is called {name!r}{f', did you mean {near[0]}?' if near else ''}; "
        f"expected one of {', '.join(DATASETS)}, or the path of an existing file or folder of triples"
    )


def splits(name: str, progress: DownloadReport | None = None) -> dict[str, bytes]:
    """Return train, valid and test as published: lines of head, tab, relation, tab, tail (and CR in some)."""
    chosen = dataset(name)
    content = fetch(chosen.archive, progress).read_bytes() if chosen.archive else _embedded(chosen)
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for member in archive:
            if stream := archive.extractfile(member):  # None: a folder
                files[PurePosixPath(member.name).name] = stream.read()
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
        raise InputError(
            f"{mirrored}: sha256 {seen[:12]}…, expected {file.sha256[:12]}…; replace it by the file at "
            f"{file.address}, or delete it to have that one downloaded"
        )
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
        raise InputError(f"PROCRUSTES_DATA is {chosen!r}, which is not a folder; correct it or unset it")
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
    file = resources.files("procrustes_kge.graphs") / "data" / f"{chosen.name}.tar.gz"
    content = file.read_bytes() if file.is_file() else b""
    if (seen := hashlib.sha256(content).hexdigest()) != chosen.sha256:
        raise InputError(
            f"{file}: {len(content)} bytes with sha256 {seen[:12]}…, expected {chosen.sha256[:12]}…; "
            "the installation is damaged, install procrustes-kge again"
        )
    return content


def _download(file: RemoteFile, target: Path, progress: DownloadReport | None) -> None:
    """Download the file; `target` appears complete and verified, or not at all."""
    # Each attempt has a name of its own: two processes may download at once, and the last to finish wins.
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    remedy = (
        f"fetch it by other means and put it at {target} (PROCRUSTES_CACHE chooses another folder), "
        f"or set PROCRUSTES_DATA to a folder that has it as {file.mirror}"
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        seen = _receive(file, partial, progress)
        if seen != file.sha256:
            raise InputError(
                f"{file.address} sent sha256 {seen[:12]}…, expected {file.sha256[:12]}…; "
                f"the file has changed or something else answered in its place: {remedy}"
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
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        while chunk := response.read(CHUNK):
            output.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(file.mirror, done, total)
    if total is not None and done != total:
        raise ConnectionError(f"it broke off after {done} of {total} bytes")
    return digest.hexdigest()
