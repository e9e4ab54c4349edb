"""Make the embedded dataset wordnet-mini from the database files of WordNet 3.0.

    python scripts/make_wordnet_mini.py [FOLDER]

FOLDER holds index.*, data.* and cntlist.rev; Debian's package wordnet-base puts them in /usr/share/wordnet
(the shipped archive was made from its version 1:3.0-37). Every step is ordered by names or by their hashes,
so the same database gives the same three files on any machine.
"""

import argparse
import gzip
import hashlib
import io
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ENTITIES = 12_000  # enough to be a real graph, few enough to fit in seconds on a laptop
NEIGHBOURS = 3  # distinct ones that every entity has: fewer, and its place in the graph is guesswork
RELATION_TRIPLES = 50  # a relation with fewer has almost nothing in valid and test
HELD_OUT = 0.05  # share of the triples in valid, and again in test
OUTPUT = Path(__file__).parents[1] / "src" / "procrustes_kge" / "graphs" / "data" / "wordnet-mini.tar.gz"

# WordNet lists most links from both ends. Of two that say the same from either end (hypernym and hyponym) one
# is kept, so that no test answer stands in train under another name; links that are their own reverse (marked
# ↔) stay in both directions, as in WN18RR.
RELATIONS = {
    "@": "hypernym",
    "@i": "instance_hypernym",
    "%m": "has_member",
    "%p": "has_part",
    "%s": "has_substance",
    ";c": "topic_domain",
    ";r": "region_domain",
    ";u": "usage_domain",
    "*": "entails",
    ">": "causes",
    "\\": "pertains_to",
    "<": "participle_of",
    "+": "derivationally_related_form",  # ↔
    "!": "antonym",  # ↔
    "=": "attribute",  # ↔
    "$": "verb_group",  # ↔
    "&": "similar_to",  # ↔
    "^": "also_see",  # ↔ though WordNet lists some from one end only
}
FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
KINDS = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}  # as sense keys number them; s, a satellite, is an adjective

Address = tuple[str, str]  # part of speech (n, v, a, r) and offset in that data file
Triple = tuple[str, str, str]


@dataclass(frozen=True)
class Synset:
    """One line of a data file: the words with their lexical ids, and the links to other synsets."""

    kind: str
    file: str
    words: list[tuple[str, int]]
    links: list[tuple[str, Address]]


def records(folder: Path, stem: str) -> Iterable[list[str]]:
    """Yield the fields of every line of FOLDER/STEM but for the licence on top, which is indented."""
    with (folder / stem).open(encoding="ascii") as lines:
        yield from (line.split("|")[0].split() for line in lines if not line.startswith(" "))


def read_synsets(folder: Path) -> dict[Address, Synset]:
    """Read the four data files; words come in lower case and without adjective markers such as (p)."""
    synsets = {}
    for part, stem in FILES.items():
        for offset, file, kind, count, *fields in records(folder, f"data.{stem}"):
            end = 2 * int(count, 16)
            words = [
                (re.sub(r"\(\w+\)$", "", word).lower(), int(identity, 16))
                for word, identity in zip(fields[0:end:2], fields[1:end:2], strict=True)
            ]
            pointers = fields[end + 1 : end + 1 + 4 * int(fields[end])]
            targets = zip(pointers[2::4], pointers[1::4], strict=True)
            links = list(zip(pointers[0::4], targets, strict=True))
            synsets[part, offset] = Synset(kind, file, words, links)
    return synsets


def name_synsets(folder: Path, synsets: dict[Address, Synset]) -> dict[Address, str]:
    """Name each synset by its first word, part of speech and that word's sense number: dog.n.01.

    Satellites are named as adjectives, 'a': both share one numbering, so the names stay unique.
    """
    number = {}
    for part, stem in FILES.items():
        for word, _, count, *fields in records(folder, f"index.{stem}"):
            for position, offset in enumerate(fields[-int(count) :], start=1):
                number[part, offset, word] = position
    return {
        (part, offset): f"{synset.words[0][0]}.{part}.{number[part, offset, synset.words[0][0]]:02d}"
        for (part, offset), synset in synsets.items()
    }


def tag_counts(folder: Path, synsets: dict[Address, Synset], names: dict[Address, str]) -> Counter[str]:
    """Count how often the texts that came with WordNet were tagged with each synset, over all its words.

    Senses are matched by key: the sense numbers in cntlist.rev are not always those of the index files.
    Counts of senses that the data files no longer have are passed over.
    """
    by_key: dict[str, str] = {}
    for address, synset in synsets.items():
        head = ":"
        if synset.kind == "s":
            centre = next(target for symbol, target in synset.links if symbol == "&")
            word, identity = synsets[centre].words[0]
            head = f"{word}:{identity:02d}"
        for word, identity in synset.words:
            by_key[f"{word}%{KINDS[synset.kind]}:{synset.file}:{identity:02d}:{head}"] = names[address]
    counts: Counter[str] = Counter()
    for raw_key, _, count in records(folder, "cntlist.rev"):
        key = re.sub(r"\(\w+\)", "", raw_key)
        if key in by_key:
            counts[by_key[key]] += int(count)
    return counts


def neighbours(triples: Iterable[Triple]) -> dict[str, set[str]]:
    """Return the entities that stand in a triple with each entity."""
    adjacent: dict[str, set[str]] = defaultdict(set)
    for head, _, tail in triples:
        adjacent[head].add(tail)
        adjacent[tail].add(head)
    return adjacent


def largest_component(adjacent: dict[str, set[str]]) -> set[str]:
    """Return the entities of the largest connected part, the first in order of names among equals."""
    largest: set[str] = set()
    unseen = set(adjacent)
    for start in sorted(adjacent):
        component, border = set[str](), {start} & unseen
        while border:
            component |= border
            border = {near for entity in border for near in adjacent[entity]} - component
        unseen -= component
        largest = max(largest, component, key=len)
    return largest


def dense_core(triples: set[Triple]) -> set[Triple]:
    """Drop thin entities, small components and rare relations, again and again until none is left."""
    while True:
        adjacent = neighbours(triples)
        while thin := [entity for entity, near in adjacent.items() if len(near) < NEIGHBOURS]:
            for entity in thin:
                for near in adjacent.pop(entity):
                    adjacent[near].discard(entity)
        kept = largest_component(adjacent)
        inside = {triple for triple in triples if triple[0] in kept and triple[2] in kept}
        frequency = Counter(relation for _, relation, _ in inside)
        remaining = {triple for triple in inside if frequency[triple[1]] >= RELATION_TRIPLES}
        if len(remaining) == len(triples):
            return remaining
        triples = remaining


def well_known(triples: set[Triple], counts: Counter[str]) -> set[str]:
    """Take entities from the most tagged down, each with the neighbours that it needs, until enough are in.

    A neighbour is preferred that has most of its own neighbours in already, then one that is tagged often.
    """
    adjacent = neighbours(triples)
    chosen: set[str] = set()

    def support(entity: str) -> tuple[int, int, str]:
        return min(len(adjacent[entity] & chosen), NEIGHBOURS), counts[entity], entity

    for seed in sorted(adjacent, key=lambda entity: (-counts[entity], entity)):
        if len(chosen) >= ENTITIES:
            break
        chosen.add(seed)
        pending = [seed]
        while pending:
            entity = pending.pop()
            while len(adjacent[entity] & chosen) < NEIGHBOURS:
                helper = max(adjacent[entity] - chosen, key=support)
                chosen.add(helper)
                pending.append(helper)
    return chosen


def choose_triples(folder: Path) -> set[Triple]:
    """Read the database and choose its well-known part, dense enough to learn from."""
    synsets = read_synsets(folder)
    names = name_synsets(folder, synsets)
    everything = {
        (names[source], RELATIONS[symbol], names[target])
        for source, synset in synsets.items()
        for symbol, target in synset.links
        if symbol in RELATIONS and source != target  # two words of one synset may be related: 19 self-loops
    }
    dense = dense_core(everything)
    chosen = well_known(dense, tag_counts(folder, synsets, names))
    return dense_core({triple for triple in dense if triple[0] in chosen and triple[2] in chosen})


def split_triples(triples: set[Triple]) -> dict[str, list[Triple]]:
    """Hold out the same share of every relation, in the order of hashes: random in effect, the same for ever.

    A triple that is the last of its head or tail in train stays there: no entity of valid or test is unseen.
    """
    shuffled = sorted(triples, key=lambda triple: hashlib.sha256("\t".join(triple).encode()).digest())
    left = Counter(entity for head, _, tail in triples for entity in (head, tail))
    wanted = Counter(relation for _, relation, _ in triples)
    wanted = Counter({relation: round(HELD_OUT * count) for relation, count in wanted.items()})
    room = {"test": wanted, "valid": wanted.copy()}
    splits: dict[str, list[Triple]] = {"train": [], "valid": [], "test": []}
    for head, relation, tail in shuffled:
        split = next((name for name in room if room[name][relation]), "train")
        if split == "train" or left[head] == 1 or left[tail] == 1:
            splits["train"].append((head, relation, tail))
            continue
        splits[split].append((head, relation, tail))
        room[split][relation] -= 1
        left.subtract((head, tail))
    return splits


def make_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of train.txt, valid.txt and test.txt: sorted lines of head, relation, tail."""
    splits = split_triples(choose_triples(folder))
    return {
        f"{split}.txt": "".join("\t".join(triple) + "\n" for triple in sorted(triples)).encode("ascii")
        for split, triples in splits.items()
    }


def pack(files: dict[str, bytes]) -> bytes:
    """Return a .tar.gz of the files without times, owners or anything else that differs between runs."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as compressed,
        tarfile.open(mode="w", fileobj=compressed, format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(files):
            member = tarfile.TarInfo(name)  # its defaults: mode 644, owner 0, time 0
            member.size = len(files[name])
            archive.addfile(member, io.BytesIO(files[name]))
    return packed.getvalue()


def describe(files: dict[str, bytes]) -> str:
    """Return the counts per relation and split, and how many triples have their reverse in train."""
    splits = {name: [tuple(line.split("\t")) for line in files[name].decode().splitlines()] for name in files}
    train = set(splits["train.txt"])
    everything = [triple for triples in splits.values() for triple in triples]
    entities = {entity for head, _, tail in everything for entity in (head, tail)}
    lines = [f"{len(entities)} entities, {len(everything)} triples (in brackets: with their reverse in train)"]
    for relation in [*sorted({relation for _, relation, _ in everything}), ""]:
        line = f"{relation or 'all':28}"
        for name, triples in splits.items():
            mine = [triple for triple in triples if relation in ("", triple[1])]
            line += f"  {name} {len(mine):6} ({sum(triple[::-1] in train for triple in mine):5})"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Write the archive, then print its counts and checksum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("/usr/share/wordnet"))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    if not (arguments.folder / "cntlist.rev").is_file():
        parser.error(f"{arguments.folder} has no cntlist.rev; install wordnet-base or name the folder that has it")
    files = make_files(arguments.folder)
    archive = pack(files)
    arguments.output.write_bytes(archive)
    print(describe(files))
    print(f"{arguments.output}: {len(archive)} bytes, sha256 {hashlib.sha256(archive).hexdigest()}")


if __name__ == "__main__":
    main()
