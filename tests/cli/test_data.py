"""Laws of `procrustes data`."""

import json
import re

from commands import TINY
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.reading import read_graph


def test_datasets_are_listed_with_licence_and_citation(procrustes):
    printed = procrustes("data")
    for known in datasets.DATASETS.values():
        assert re.search(
            rf"^{known.name} .*{known.entities:,} entities .*{sum(known.triples):,} triples", printed, re.M
        )
        assert f"licence: {known.licence}\n" in printed
        assert known.citation in printed
    assert printed.count("   ready\n") == 1
    assert printed.count("   to download\n") == len(datasets.DATASETS) - 1


def test_datasets_for_programs(procrustes):
    printed = json.loads(procrustes("data", "--json"))
    assert printed.keys() == datasets.DATASETS.keys()
    assert [name for name in printed if printed[name]["local"]] == ["wordnet-mini"]
    for name, facts in printed.items():
        assert facts["triples"] == dict(zip(("train", "valid", "test"), datasets.DATASETS[name].triples, strict=True))
        assert len(facts["sha256"]) == 64
        assert (facts["address"] is None) == (name == "wordnet-mini")


def test_getting_a_dataset_shows_what_is_in_it(procrustes):
    lines = procrustes("data", "get", "WordNet-Mini").splitlines()
    assert lines[0] == "wordnet-mini   11,996 entities · 17 relations · 38,552 triples"
    assert len(lines) == 4
    printed = json.loads(procrustes("data", "get", "wordnet-mini", "--json"))
    assert printed == {
        "dataset": "wordnet-mini",
        "checksum": read_graph("wordnet-mini").checksum,
        "entities": 11_996,
        "relations": 17,
        "triples": {"train": 34_698, "valid": 1_927, "test": 1_927},
    }


def test_a_dataset_that_cannot_be_downloaded_says_what_to_fetch_and_where_to_put_it(refused, here):
    (here.parent / "cache").mkdir()
    address, place = datasets.DATASETS["umls"].archive.address, here.parent / "cache" / "umls.tar.gz"
    for command in (("data", "get", "umls"), ("train", "umls", *TINY)):
        refused(*command, setting=address, seen="no network here", remedy=f"download it some other way to {place}")
