"""A knowledge graph: names, and triples of ids in three splits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.lookup import plain
from procrustes_kge.graphs.vocabulary import SPLITS as SPLITS, Vocabulary as Vocabulary, quoted
from procrustes_kge.words import counted, unknown


@dataclass(frozen=True, eq=False)
class Graph:
    """Triples (head, relation, tail) as rows of ids into the two vocabularies, in three splits.

    `notes` say what happened while reading: duplicates dropped, a header skipped.
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: Int[Tensor, "n 3"]
    valid: Int[Tensor, "n_valid 3"]
    test: Int[Tensor, "n_test 3"]
    notes: tuple[str, ...] = ()

    def split(self, name: str) -> Int[Tensor, "n 3"]:
        """Return the triples of one split by its name."""
        if name not in SPLITS:
            raise InputError(unknown("split", name, SPLITS))
        triples: Tensor = getattr(self, name)
        return triples

    @cached_property
    def seen(self) -> Bool[Tensor, " entities"]:
        """Whether each entity occurs in a training triple."""
        seen = torch.zeros(len(self.entities), dtype=torch.bool)
        seen[self.train[:, [0, 2]].flatten()] = True
        return seen

    @cached_property
    def checksum(self) -> str:
        """The sha256 of names and splits: equal for equal graphs, wherever they came from."""
        digest = hashlib.sha256()
        for names in (self.entities, self.relations):
            digest.update("\0".join(names).encode("utf-8", "surrogatepass") + b"\1")
        for split in SPLITS:
            digest.update(self.split(split).to(torch.int64).contiguous().numpy().tobytes() + b"\1")
        return digest.hexdigest()

    def remarks(self) -> list[str]:
        """Return, in words, what is allowed in a graph but matters when its results are read."""
        triples = torch.cat([self.train, self.valid, self.test])
        loops = int((triples[:, 0] == triples[:, 2]).sum())
        counts = torch.bincount(self.train[:, 1], minlength=len(self.relations))
        once = [self.relations.shown(index) for index in torch.nonzero(counts == 1).flatten().tolist()]
        untrained = int((counts == 0).sum())
        unseen = int((~self.seen).sum())
        remarks = {
            f"{counted(loops, 'triple')} from an entity to itself": loops,
            f"{counted(len(once), 'relation')} with a single training triple: {quoted(once, 3)}": once,
            f"{counted(unseen, 'entity')} in valid or test but not in train, so not learned": unseen,
            f"{counted(untrained, 'relation')} in valid or test but not in train, so not learned": untrained,
            "only 1 relation": len(self.relations) == 1,
        }
        return [remark for remark, applies in remarks.items() if applies]

    def labelled(self, labels: Mapping[str, str]) -> Graph:
        """Return the graph with these labels for its entities and relations, whichever way their names are spelled."""
        spelled = {plain(name): label for name, label in labels.items()}
        vocabularies, counts = [], []
        for names, noun in ((self.entities, "entity"), (self.relations, "relation")):
            found = {name: spelled[each] for name in names if (each := plain(name)) in spelled}
            vocabularies.append(names.labelled(found))
            counts.append(f"{len(found):,} of {counted(len(names), noun)}" if found else "")
        if not any(counts):
            example = f", such as {next(iter(labels))!r}" if labels else ""
            raise InputError(
                f"labels for {counted(len(labels), 'name')}{example}, but none of them is in the graph; "
                f"expected a name as in the graph, such as {self.entities[0]!r}, then its label"
            )
        note = f"labels for {' and '.join(filter(None, counts))}"
        entities, relations = vocabularies
        return replace(self, entities=entities, relations=relations, notes=(*self.notes, note))

    def __repr__(self) -> str:
        return f"Graph({self.describe()})"

    def describe(self) -> str:
        """Return one line: name, entities, relations, triples."""
        sizes = {"entity": self.entities, "relation": self.relations}
        counts = [counted(len(names), noun) for noun, names in sizes.items()]
        triples = len(self.train) + len(self.valid) + len(self.test)
        return f"{self.name}   {' · '.join([*counts, counted(triples, 'triple')])}"


def split_graph(graph: Graph, valid: float = 0.05, test: float = 0.05, seed: int = 0) -> Graph:
    """Move random shares of the training triples to valid and test; every entity and relation stays in train.

    Triples are shuffled; the first one of each entity and each relation stays in train, the others may be moved.
    """
    if not (0 <= valid < 1 and 0 <= test < 1 and valid + test < 1):
        raise InputError(
            f"valid share {valid} and test share {test}, expected two numbers of at least 0 whose sum is below 1"
        )
    # Any whole number is a seed.
    drawn = torch.from_numpy(np.random.default_rng(seed % 2**64).permutation(len(graph.train)))
    triples = graph.train[drawn]
    pinned = torch.zeros(len(triples), dtype=torch.bool)
    ends = triples[:, [0, 2]].flatten().numpy()  # entity of slot 2i and 2i + 1 is in triple i
    pinned[np.unique(ends, return_index=True)[1] // 2] = True
    pinned[np.unique(triples[:, 1].numpy(), return_index=True)[1]] = True
    free = torch.nonzero(~pinned).flatten()
    wanted = [round(valid * len(triples)), round(test * len(triples))]
    given = [min(count, len(free) * count // max(sum(wanted), 1)) for count in wanted]
    notes = graph.notes
    if sum(wanted) == 0 and valid + test > 0:
        notes += (f"{counted(len(triples), 'triple')}: too few to set any aside for valid and test",)
    if given != wanted:
        notes += (
            f"{counted(sum(given), 'triple')} set aside for valid and test instead of {sum(wanted):,}: "
            "without any of the others, an entity or a relation would be missing from train",
        )
    part = torch.zeros(len(triples), dtype=torch.int8)  # 0: stays in train
    part[drawn[free[: given[0]]]] = 1
    part[drawn[free[given[0] : sum(given)]]] = 2
    train, *aside = (graph.train[part == number] for number in range(3))
    joined = torch.cat([graph.valid, aside[0]]), torch.cat([graph.test, aside[1]])
    return replace(graph, train=train, valid=joined[0], test=joined[1], notes=notes)
