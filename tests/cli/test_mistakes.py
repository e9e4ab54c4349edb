"""Every mistake is one line on standard error that names what was given and a remedy; it leaves nothing behind."""

import gzip
import sys
from pathlib import Path

import pytest
import torch

from commands import TINY
from procrustes_kge.runs.contents import FORMAT
from procrustes_kge.runs.store import save
from procrustes_kge.system.sealed import seal
from toys import planted_model


def bad_file(name, content):
    """Return what prepares a file to train on, and the command."""

    def prepare(here):
        Path(name).write_bytes(content)
        return ["train", name, *TINY]

    return prepare


def training(*flags):
    return lambda here: ["train", "ring.tsv", *TINY, *flags]


def with_run(*arguments):
    """Return a command on a good run, called RUN there."""

    def prepare(here):
        save(*planted_model()[:1], "RUN", planted_model()[1])
        return arguments

    return prepare


def damaged(file, change):
    def prepare(here):
        save(*planted_model()[:1], "RUN", planted_model()[1])
        Path("RUN", file).write_bytes(change(Path("RUN", file).read_bytes()))
        return ["evaluate", "RUN"]

    return prepare


def of_format_2(here):
    Path("RUN").mkdir()
    Path("RUN", "settings.json").write_text('{"format": 2}')  # before there were manifests
    return ["evaluate", "RUN"]


def of_the_next_format(here):
    save(*planted_model()[:1], "RUN", planted_model()[1])
    seal(Path("RUN"), "run", FORMAT + 1)
    return ["evaluate", "RUN"]


def in_a_folder(command, **files):
    def prepare(here):
        Path("folder").mkdir()
        for name, content in files.items():
            Path("folder", name).write_text(content)
        return command

    return prepare


SHARES = "expected two numbers of at least 0"
NUMBER = "expected a whole number of at least 1"
TIME, MEMORY = "such as 60s, 10m or 1h", "such as 4GB or"
MISTAKES = {  # what is run: what it names, the value seen, and a remedy
    # Files.
    "two columns": (bad_file("bad.tsv", b"a\tr\tb\na\tr\n"), "bad.tsv, line 2", "2 columns", "complete the line or"),
    "another separator": (bad_file("bad.txt", b"a b;r;c\nc;r;a b\n"), "separator", "2 columns", "try --separator ';'"),
    "separator unknown": (training("--separator", "=>"), "separator", "'=>'", "use tab, comma, space"),
    "separator of no use": (training("--separator", "pipe"), "ring.tsv, line 1", "1 column", "expected 3"),
    "empty file": (bad_file("bad.tsv", b""), "bad.tsv", "no triples", "expected a head, a relation and a tail"),
    "binary file": (
        bad_file("bad.tsv", b"\x7fELF\x00\x01"),
        "bad.tsv",
        "looks binary",
        "expected text; if it has another format",
    ),
    "bad UTF-8": (bad_file("bad.tsv", b"a\tr\tb\nZ\xfcrich\tr\tb\n"), "bad.tsv, line 2", "(0xfc)", "not UTF-8"),
    "broken gzip": (bad_file("bad.tsv.gz", b"\x1f\x8b\x08junk"), "bad.tsv.gz", "broken or truncated", ""),
    "no such file": (lambda here: ["train", "nothing.tsv"], "nothing.tsv", "no such file", "`procrustes data` lists"),
    "folder without triples": (
        in_a_folder(["train", "folder"], **{"notes.md": "hello"}),
        *("folder", "found notes.md", "expected a file train.txt (and valid.txt, test.txt)"),
    ),
    "folder without anything": (
        in_a_folder(["train", "folder"]),
        "folder",
        "found nothing",
        "expected a file train.txt",
    ),
    "run folder as a graph": (with_run("train", "RUN"), "RUN", "no triples here", "expected a file train.txt"),
    "unpacked too large": (
        bad_file("bomb.tsv.gz", gzip.compress(bytes(20_000_000))),
        *("bomb.tsv.gz", "unpacks to more than 4 MB", "allow more, as by --max-unpacked 4GB"),
    ),
    "unpacked without a unit": (training("--max-unpacked", "4"), "max-unpacked", "'4'", "did you mean 4GB?"),
    "nested too deep": (
        bad_file("deep.nt", b"<e:a> <e:p> " + b"<<( <e:a> <e:p> " * 20_000),
        *("deep.nt, line 1", "more than 100 deep", "is the file damaged?"),
    ),
    "a device": (lambda here: ["train", "/dev/null"], "/dev/null", "is a device", "pipe it in as `-`"),
    "columns too few": (training("--columns", "1,2"), "columns", "'1,2'", "try head,relation,tail"),
    "columns unknown": (training("--columns", "1,2,4"), "ring.tsv", "unknown column '4'", "numbers counted from 1"),
    "labels missing": (training("--labels", "gone.tsv"), "gone.tsv", "cannot be read", "check its name"),
    "labels of others": (training("--labels", "ring.tsv"), "ring.tsv, line 1", "3 columns", "expected 2 (name, label)"),
    # Datasets.
    "unknown dataset": (
        lambda here: ["train", "wn18r"],
        "dataset",
        "'wn18r'",
        "Did you mean wn18rr? Known: wordnet-mini, wn18rr",
    ),
    "dataset with a path": (
        lambda here: ["train", "data/wn18rr"],
        "file or folder",
        "data/wn18rr",
        "`procrustes data`",
    ),
    "getting an unknown dataset": (
        lambda here: ["data", "get", "freebase"],
        "dataset",
        "'freebase'",
        "Known: wordnet-mini, wn18rr",
    ),
    "getting what a folder is called": (
        lambda here: Path("umls").mkdir() or ["data", "get", "UMLS"],
        *("umls", "a file or folder here has this name", "run this elsewhere"),
    ),
    # Settings.
    "dim not divisible": (
        training("--dim", "45"),
        "dimension",
        "45 does not divide into segments of 10",
        "try 40 or 50",
    ),
    "dim negative": (training("--dim", "-40"), "dim", "-40", NUMBER),
    "no epochs": (training("--epochs", "0"), "epochs", "0", NUMBER),
    "learning rate zero": (training("--learning-rate", "0"), "learning rate", "0.0", "expected a number above 0"),
    "a GPU too many": (training("--device", "cuda:99"), "device", "'cuda:99'", "PyTorch"),
    "device unknown": (training("--device", "gpu"), "device", "'gpu'", "expected cpu, cuda, cuda:N or auto"),
    "loss misspelt": (
        training("--loss", "softmx"),
        *("--loss", "'softmx'", "Did you mean softmax? Known: squared, norm, softmax, sigmoid, margin"),
    ),
    "dim without sense": (training("--dim", "many"), "--dim", "'many'", "expected a whole number"),
    "share without sense": (training("--valid", "some"), "--valid", "'some'", "expected a number"),
    "recipe unknown": (training("--recipe", "slow"), "recipe", "'slow'", "Known: accurate, fast, paper"),
    "time without sense": (training("--time", "soon"), "time", "'soon'", TIME),
    "time of another unit": (training("--time", "3 days"), "time", "'3 days'", TIME),
    "no time": (training("--time", "0s"), "time", "'0s'", TIME),
    "time empty": (training("--time", ""), "time", "''", TIME),
    "memory without sense": (training("--memory", "lots"), "memory", "'lots'", MEMORY),
    "memory without a unit": (training("--memory", "4"), "memory", "4 bytes", "did you mean 4GB?"),
    "memory negative": (training("--memory", "-4GB"), "memory", "'-4GB'", MEMORY),
    "no memory": (training("--memory", "0"), "memory", "'0'", MEMORY),
    "a setting of other recipes": (
        training("--pilot", "20"),
        "pilot",
        "the recipe accurate",
        "try it with fast or paper",
    ),
    "a setting of others than fast": (
        training("--recipe", "fast", "--warm-start", "3"),
        *("warm start", "the recipe fast", "try it with accurate, paper+ns, paper+tb or paper+ns+tb"),
    ),
    "no negatives": (training("--negatives", "none"), "loss", "negatives none", "try --negatives all"),
    "nothing to keep lengths": (
        training("--negatives", "none", "--loss", "squared"),
        *("lengths", "without negatives", "try --lengths unit"),
    ),
    "grid unknown": (training("--grid", "Atlantis"), "grid", "'Atlantis'", "expected grams of CO2 per kWh"),
    "grid negative": (training("--grid", "-3"), "grid", "-3", "a number of at least 0"),
    "share too large": (training("--valid", "0.99"), "valid share", "0.99 and test share 0.05", SHARES),
    "share negative": (training("--test", "-1"), "test share", "-1.0", SHARES),
    # Where to write.
    "out is a folder of others": (
        in_a_folder(["train", "ring.tsv", *TINY, "--out", "folder"], **{"thesis.tex": "precious"}),
        *("folder", "is not a run folder", "choose another --out"),
    ),
    "out is a file": (training("--out", "ring.tsv"), "ring.tsv", "is not a run folder", "choose another --out"),
    "out is in a file": (training("--out", "ring.tsv/run"), "ring.tsv", "is not a folder", "choose another --out"),
    "out is too long": (training("--out", "x" * 300), "x" * 300, "300 bytes", "choose another --out"),
    "out is here": (
        lambda here: Path("ring.tsv").unlink() or ["train", "wordnet-mini", *TINY, "--out", "."],
        *(".: ", "you are inside this folder", "choose another --out"),
    ),
    # Runs.
    "run missing": (lambda here: ["evaluate", "gone"], "gone", "no such run folder", "`procrustes train` makes one"),
    "run is a file": (
        lambda here: ["predict", "ring.tsv", "-H", "e0", "-r", "next"],
        "ring.tsv",
        "no such run",
        "train",
    ),
    "run is another folder": (in_a_folder(["export", "folder", "x.npy"]), "folder", "not a run", "no settings.json"),
    "run truncated": (damaged("model.safetensors", lambda whole: whole[:-100]), "RUN", "damaged or truncated", ""),
    "run names truncated": (damaged("entities.txt", lambda whole: whole[:-100]), "RUN", "damaged or truncated", ""),
    "run of an older version": (of_format_2, "RUN", "written in format 2", "train again"),
    "run of a newer version": (of_the_next_format, "RUN", f"written in format {FORMAT + 1}", "upgrade procrustes-kge"),
    "split unknown": (with_run("evaluate", "RUN", "--split", "dev"), "split", "'dev'", "Known: train, valid, test"),
    "ranking on no GPU": (with_run("evaluate", "RUN", "--device", "cuda:99"), "device", "'cuda:99'", "PyTorch"),
    # Queries.
    "head unknown": (
        with_run("predict", "RUN", "-H", "turn 4 and miror", "-r", "turn 2"),
        *("unknown entity", "'turn 4 and miror'", "Did you mean 'turn 4 and mirror'"),
    ),
    "tail unknown": (
        with_run("predict", "RUN", "-T", "zebra", "-r", "turn 2"),
        *("unknown entity", "'zebra'", "Known: 'turn 0', 'turn 1'"),
    ),
    "relation unknown": (
        with_run("predict", "RUN", "-H", "turn 4", "-r", "trun 2"),
        *("unknown relation", "'trun 2'", "Did you mean 'turn 2'? Known: 'turn 1', 'turn 2'"),
    ),
    "both sides": (
        with_run("predict", "RUN", "-H", "turn 4", "-T", "turn 6", "-r", "turn 2"),
        *("--head, --relation and --tail", "all given", "leave one out"),
    ),
    "neither side": (with_run("predict", "RUN", "-r", "turn 2"), "--relation alone", "", "give two of --head"),
    "no side": (with_run("predict", "RUN"), "no question", "", "give two of --head, --relation and --tail"),
    "no answers": (with_run("predict", "RUN", "-H", "turn 4", "-r", "turn 2", "-k", "0"), "-k", "0", NUMBER),
    "no new answers": (
        with_run("predict", "RUN", "-H", "turn 4", "-r", "turn 2", "-k", "-1", "--new"),
        *("-k", "-1", NUMBER),
    ),
    # Exports.
    "format unknown": (
        with_run("export", "RUN", "x.pt", "--format", "pt"),
        "format",
        "'pt'",
        "Known: npy, npz, parquet",
    ),
    "export of what is not known": (
        with_run("export", "RUN", "x.npy", "--what", "entites"),
        *("--what", "'entites'", "Did you mean entities? Known: entities, relations"),
    ),
    "export into nowhere": (with_run("export", "RUN", "gone/x.npy"), "gone", "no such folder", "to write x.npy into"),
    "export onto a folder": (with_run("export", "RUN", "RUN"), "RUN", "is a folder", "expected the name of a file"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_explained_in_one_line_and_leaves_nothing_behind(kind, refused, here):
    prepare, setting, seen, remedy = MISTAKES[kind]
    refused(*prepare(here), setting=setting, seen=seen, remedy=remedy)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_missed(refused):
    refused("train", "ring.tsv", "--device", "cuda", setting="device", seen="'cuda'", remedy="try --device cpu")


@pytest.mark.parametrize(
    ("arguments", "work", "package", "extra"),
    [
        (["train", "graph.nt"], "graph.nt: reading RDF", "pyoxigraph", "rdf"),
        (["train", "graph.parquet"], "graph.parquet: reading Parquet", "polars", "parquet"),
        (["train", "ring.tsv", "--labels", "graph.nt"], "graph.nt: reading RDF", "pyoxigraph", "rdf"),
        (["train", "ring.tsv", "--grid", "FRA"], "grid 'FRA': the figure of a country", "codecarbon", "co2"),
        (["export", "RUN", "x.parquet"], "x.parquet: writing Parquet", "polars", "parquet"),
    ],
)
def test_an_extra_that_is_not_installed_is_named(arguments, work, package, extra, refused, here, monkeypatch):
    save(*planted_model()[:1], "RUN", planted_model()[1])
    for name in ("graph.nt", "graph.parquet"):
        Path(name).write_text("anything")
    monkeypatch.setitem(sys.modules, package, None)
    refused(*arguments, setting=work, seen=f"needs {package}", remedy=f"pip install 'procrustes-kge[{extra}]'")


SENTENCES = {  # a few in full, as a person reads them
    "two columns": "bad.tsv, line 2: 2 columns, expected 3 (head, relation, tail); complete the line or remove it",
    "dim not divisible": "dimension 45 does not divide into segments of 10; try 40 or 50",
    "dim without sense": "--dim 'many', expected a whole number",
    "dim negative": "dim -40, expected a whole number of at least 1",
    "out is here": ".: you are inside this folder, so it is not replaced; choose another --out",
    "neither side": "--relation alone; give two of --head, --relation and --tail, and the third is asked for",
    "getting what a folder is called": (
        "umls: a file or folder here has this name and would be read instead; run this elsewhere"
    ),
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_what_a_person_reads(kind, failed, here):
    assert failed(*MISTAKES[kind][0](here)) == f"error: {SENTENCES[kind]}\n"
