"""Laws of the named datasets: verified or refused, downloaded once, nothing half-written left behind."""

import hashlib
import http.server
import importlib.util
import io
import os
import sys
import tarfile
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from procrustes_kge.errors import InputError
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.datasets import DATASETS, DEFAULT, RemoteFile
from procrustes_kge.graphs.reading import read_graph

REAL_DATA = os.environ.get("PROCRUSTES_DATA")
WORDNET = Path(os.environ.get("WORDNET_FOLDER", "/usr/share/wordnet"))
TRIPLES = {"train": b"a\tr\tb\nb\tr\tc\n", "valid": b"a\tr\tc\n", "test": b"c\tr\ta\n"}


def packed(files, folder=""):
    """Return a .tar.gz of {split: text}, with the things that strangers' archives have besides."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        if folder:
            directory = tarfile.TarInfo(folder)
            directory.type = tarfile.DIRTYPE
            archive.addfile(directory)
        for name, text in {
            **{f"{split}.txt": text for split, text in files.items()},
            "._train.txt": b"no",
        }.items():
            member = tarfile.TarInfo(f"{folder}/{name}" if folder else name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


ARCHIVE = packed(TRIPLES)


class Server(http.server.ThreadingHTTPServer):
    """Answers each path with the bytes in `files`; a path in `broken` announces more bytes than it sends."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.broken, self.asked = {}, set(), []

    def file(self, path, content, sha256=None):
        self.files[f"/{path}"] = content
        address = f"http://127.0.0.1:{self.server_address[1]}/{path}"
        return RemoteFile(address, sha256 or hashlib.sha256(content).hexdigest(), path)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers["User-Agent"]))
        content = self.server.files.get(self.path)
        if content is None:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) + 1000 * (self.path in self.server.broken)))
        self.end_headers()
        self.wfile.write(content)
        return None

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no mirror, and no way to any server but this machine's."""
    monkeypatch.setenv("PROCRUSTES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROCRUSTES_DATA", raising=False)
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", "http://127.0.0.1:9")  # the discard port: nobody listens
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def toy(server, monkeypatch):
    """A registered dataset whose archive the local server has."""
    registered = replace(DATASETS["nations"], name="toy", archive=server.file("toy.tar.gz", ARCHIVE))
    monkeypatch.setitem(DATASETS, "toy", registered)
    return registered


def left_behind(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def triples(text):
    return [tuple(line.split("\t")) for line in text.decode().splitlines()]


def test_a_dataset_is_downloaded_once_then_read_from_the_cache(toy, server, cache):
    assert not datasets.is_local("toy")
    assert datasets.splits("toy") == TRIPLES
    assert datasets.is_local("toy")
    assert datasets.splits("toy") == TRIPLES
    assert server.asked == [("/toy.tar.gz", "procrustes-kge")]
    assert left_behind(cache) == [cache / "toy.tar.gz"]


def test_the_cache_serves_when_the_network_is_gone(toy, monkeypatch):
    path = datasets.fetch(toy.archive)
    gone = replace(toy.archive, address="http://127.0.0.1:9/toy.tar.gz")
    assert datasets.fetch(gone) == path


def test_members_in_a_folder_are_found_too(server, monkeypatch):
    archive = server.file("folder.tar.gz", packed(TRIPLES, folder="some/folder"))
    monkeypatch.setitem(DATASETS, "toy", replace(DATASETS["nations"], archive=archive))
    assert datasets.splits("toy") == TRIPLES


def test_progress_ends_at_the_whole(toy):
    seen = []
    datasets.splits("toy", progress=lambda *step: seen.append(step))
    assert seen[-1] == ("toy.tar.gz", len(ARCHIVE), len(ARCHIVE))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_a_wrong_sum_is_refused_and_leaves_nothing(server, cache):
    file = server.file("toy.tar.gz", ARCHIVE, sha256="0" * 64)
    with pytest.raises(InputError, match=r"toy\.tar\.gz sent sha256 \w{12}…, expected 000000000000…"):
        datasets.fetch(file)
    assert left_behind(cache) == []


def test_a_broken_off_download_leaves_nothing(server, cache):
    file = server.file("toy.tar.gz", ARCHIVE)
    server.broken.add("/toy.tar.gz")
    with pytest.raises(InputError, match=r"cannot download .*toy\.tar\.gz"):
        datasets.fetch(file)
    assert left_behind(cache) == []


def test_an_interrupted_download_leaves_nothing(toy, cache):
    def interrupt(*step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.fetch(toy.archive, interrupt)
    assert left_behind(cache) == []


def test_a_missing_page_is_named(server, cache):
    file = replace(server.file("toy.tar.gz", ARCHIVE), address=f"http://127.0.0.1:{server.server_address[1]}/gone")
    with pytest.raises(InputError, match=r"/gone .*404"):
        datasets.fetch(file)
    assert left_behind(cache) == []


def test_a_damaged_cached_file_is_fetched_again(toy, cache):
    cache.mkdir()
    (cache / "toy.tar.gz").write_bytes(ARCHIVE[:-7])
    assert not datasets.is_local("toy")
    assert datasets.fetch(toy.archive).read_bytes() == ARCHIVE


def test_many_downloads_at_once_all_end_with_the_whole_file(toy, cache):
    found = []
    threads = [threading.Thread(target=lambda: found.append(datasets.splits("toy"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [TRIPLES] * 8
    assert left_behind(cache) == [cache / "toy.tar.gz"]


def test_the_mirror_comes_before_the_network(toy, server, cache, tmp_path, monkeypatch):
    (tmp_path / "toy.tar.gz").write_bytes(ARCHIVE)
    monkeypatch.setenv("PROCRUSTES_DATA", str(tmp_path))
    assert datasets.is_local("toy")
    assert datasets.splits("toy") == TRIPLES
    assert server.asked == []
    assert left_behind(cache) == []


def test_a_mirror_without_the_file_is_passed_over(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("PROCRUSTES_DATA", str(tmp_path))
    assert datasets.splits("toy") == TRIPLES


def test_a_wrong_file_in_the_mirror_is_the_users_to_mend(toy, server, tmp_path, monkeypatch):
    (tmp_path / "toy.tar.gz").write_bytes(b"something else")
    monkeypatch.setenv("PROCRUSTES_DATA", str(tmp_path))
    with pytest.raises(InputError, match=f"expected {toy.sha256[:12]}…; replace it") as refusal:
        datasets.splits("toy")
    assert hashlib.sha256(b"something else").hexdigest()[:12] in str(refusal.value)
    assert str(tmp_path / "toy.tar.gz") in str(refusal.value)
    assert server.asked == []


def test_a_mirror_that_is_no_folder_is_named(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("PROCRUSTES_DATA", str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"PROCRUSTES_DATA is .*absent"):
        datasets.fetch(toy.archive)


@pytest.mark.parametrize("name", [name for name in DATASETS if DATASETS[name].archive])
def test_offline_the_error_says_what_to_fetch_and_where_to_put_it(name, cache):
    file = DATASETS[name].archive
    with pytest.raises(InputError, match="PROCRUSTES_DATA") as refusal:
        datasets.splits(name)
    assert file.address in str(refusal.value)
    assert str(cache / file.mirror) in str(refusal.value)
    assert left_behind(cache) == []


def test_a_cache_that_cannot_be_made_is_an_input_error(toy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PROCRUSTES_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(InputError, match="PROCRUSTES_CACHE"):
        datasets.fetch(toy.archive)


def test_labels_that_cannot_be_had_never_stop_a_training(toy, monkeypatch):
    gone = RemoteFile("http://127.0.0.1:9/labels.json", "0" * 64, "labels/toy/labels.json")
    monkeypatch.setitem(DATASETS, "toy", replace(toy, labels=(gone,)))
    graph = read_graph("toy")
    assert not graph.entities.labels
    assert any("without their labels" in note and gone.address in note for note in graph.notes)


def test_the_first_label_of_an_entity_wins(toy, server, monkeypatch):
    texts = {"train": b"ant\tr\tbee\nBEE\tr\tcow\n", "valid": b"ANT\tr\tcow\n", "test": b"cow\tr\tant\n"}
    files = tuple(server.file(f"labels/toy/{split}.txt", text) for split, text in texts.items())
    monkeypatch.setitem(DATASETS, "toy", replace(toy, labels=files))
    assert datasets.labels("toy") == {"a": "ant", "b": "bee", "c": "cow"}


def test_labels_in_json_are_read_from_their_field(toy, server, monkeypatch):
    text = '{"/m/0d0vqn": {"label": "Sverige – Sweden", "wikidata_id": "Q34"}}'.encode()
    monkeypatch.setitem(DATASETS, "toy", replace(toy, labels=(server.file("labels/toy/names.json", text),)))
    assert datasets.labels("toy") == {"/m/0d0vqn": "Sverige – Sweden"}


def test_names_are_found_in_capitals_or_not():
    assert datasets.dataset("FB15K-237") is datasets.dataset("fb15k-237")


@pytest.mark.parametrize(("typed", "meant"), [("wn18r", "wn18rr"), ("FB15k237", "fb15k-237"), ("wordnet", DEFAULT)])
def test_an_unknown_name_suggests_the_nearest(typed, meant):
    with pytest.raises(InputError, match=rf"'{typed}'\. Did you mean {meant}\?.*{', '.join(DATASETS)}.*path"):
        datasets.dataset(typed)


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(InputError, match=r"^((?!Did you mean).)*$"):
        datasets.dataset("graph.tsv")


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {}, "home/.cache/procrustes-kge"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/procrustes-kge"),
        ("darwin", {}, "home/Library/Caches/procrustes-kge"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/procrustes-kge"),
        ("linux", {"PROCRUSTES_CACHE": "/mine"}, "/mine"),
    ],
)
def test_the_cache_is_where_each_system_keeps_caches(platform, variables, folder, tmp_path, monkeypatch):
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "PROCRUSTES_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert datasets.cache_folder() == tmp_path / folder


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_is_described_whole(name):
    registered = DATASETS[name]
    assert registered.name == name == name.lower()
    assert registered.licence
    assert registered.citation
    assert len(registered.sha256) == 64
    assert "\n" not in registered.summary


def check_counts(name):
    """Assert that the files hold what is registered and no triple twice; return the splits."""
    registered = DATASETS[name]
    found = {split: triples(text) for split, text in datasets.splits(name).items()}
    everything = [triple for split in found.values() for triple in split]
    assert tuple(len(split) for split in found.values()) == registered.triples
    assert len({entity for head, _, tail in everything for entity in (head, tail)}) == registered.entities
    assert len({relation for _, relation, _ in everything}) == registered.relations
    assert len(set(everything)) == len(everything)
    return found


def test_the_embedded_dataset_is_dense_and_holds_nothing_unseen():
    found = check_counts(DEFAULT)
    everything = [triple for split in found.values() for triple in split]
    known = {part for triple in found["train"] for part in triple}
    assert {part for triple in everything for part in triple} <= known
    assert all(head != tail for head, _, tail in everything)
    assert min(Counter(relation for _, relation, _ in everything).values()) >= 50
    pairs = {pair for head, _, tail in everything for pair in ((head, tail), (tail, head))}
    assert min(Counter(head for head, _ in pairs).values()) >= 3
    assert ("dog.n.01", "hypernym", "canine.n.02") in everything


def test_each_relation_of_the_embedded_dataset_is_asked_for_in_valid_and_test():
    relations = {split: {triple[1] for triple in triples(text)} for split, text in datasets.splits(DEFAULT).items()}
    assert relations["valid"] == relations["test"] == relations["train"]


def test_a_damaged_installation_is_named(monkeypatch):
    monkeypatch.setattr(datasets, "EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(InputError, match="install procrustes-kge again"):
        datasets.splits(DEFAULT)


def test_the_licence_of_the_embedded_dataset_travels_with_it():
    licence = Path(datasets.__file__).parent / "data" / "wordnet-mini-LICENSE.txt"
    assert "WordNet 3.0 Copyright 2006 by Princeton University." in licence.read_text()


@pytest.mark.skipif(not (WORDNET / "cntlist.rev").is_file(), reason="needs the files of WordNet 3.0 (WORDNET_FOLDER)")
def test_the_embedded_dataset_is_what_its_script_makes():
    path = Path(__file__).parents[2] / "scripts" / "make_wordnet_mini.py"
    spec = importlib.util.spec_from_file_location("make_wordnet_mini", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made = script.make_files(WORDNET)
    # Contents, not archives: builds of zlib may compress the same bytes differently.
    assert {name.removesuffix(".txt"): text for name, text in made.items()} == datasets.splits(DEFAULT)
    assert script.pack(made) == script.pack(dict(reversed(made.items())))


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder with the real archives")
@pytest.mark.parametrize("name", [name for name in DATASETS if DATASETS[name].archive])
def test_the_real_archives_hold_what_is_registered(name, monkeypatch):
    monkeypatch.setenv("PROCRUSTES_DATA", REAL_DATA)
    check_counts(name)


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder with the real archives")
def test_the_real_labels_are_readable(monkeypatch):
    monkeypatch.setenv("PROCRUSTES_DATA", REAL_DATA)
    synsets, facts = datasets.labels("wn18rr"), datasets.labels("fb15k-237")
    assert len(synsets) == DATASETS["wn18rr"].entities
    assert synsets["02084071"] == "dog.n.01"
    assert len(facts) == 14_515
    assert facts["/m/010016"] == "Denton"
