"""A graph with triples added to those of training, and with others taken away; names that are new come last."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.graphs.lookup import folded, plain
from procrustes_kge.words import counted, shortened

MOST_SHOWN = 3  # names in a note
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Changed:
    """What became of a graph."""

    graph: Graph
    kept: Int[Tensor, " kept"]  # rows of the old graph that are still there: the first rows of the new one
    fresh: Bool[Tensor, " entities"]  # of the new graph: not in the old one
    relations: Int[Tensor, " new"]  # of the new graph: not in the old one
    concerned: Int[Tensor, " concerned"]  # entities whose vectors are to follow the change
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.counts["added"] or self.counts["removed"])


def changed(graph: Graph, add: Graph | None = None, remove: Graph | None = None) -> Changed:
    """Return the graph with the triples of one added to its training triples, and with those of another taken away.

    Names are compared as they are spelled. A triple that the graph holds in any split is not added again. An entity
    whose last triple is taken away is gone.
    """
    entities = {name: row for row, name in enumerate(graph.entities)}
    relations = {name: row for row, name in enumerate(graph.relations)}
    wanted, unwanted = _rows(add, entities, relations, extend=True), _rows(remove, entities, relations, extend=False)
    if both := [triple for triple in wanted if triple in unwanted]:
        raise InputError(
            f"{counted(len(both), 'triple')} to be added and to be removed, such as "
            f"{_spoken(both[0], list(entities), list(relations))}; give each in one file alone"
        )
    known = {split: _those_in(graph.split(split), {**wanted, **unwanted}) for split in SPLITS}
    held = {triple: split for split in SPLITS for triple in known[split]}
    added = [triple for triple in wanted if triple not in held]
    removed = {triple: held[triple] for triple in unwanted if triple in held}
    names = _names(graph, add, entities, relations)
    splits: dict[str, Any] = {
        split: _without(graph.split(split), [each for each in removed if removed[each] == split]) for split in SPLITS
    }
    splits["train"] = torch.cat([splits["train"], torch.tensor(added, dtype=torch.int64).view(-1, 3)])
    if not len(splits["train"]):
        raise InputError("no training triple would be left, expected at least 1; remove fewer")
    counts = {
        "added": len(added),
        "known": sum(triple in held for triple in wanted),
        "known_outside_train": sum(held.get(triple, "train") != "train" for triple in wanted),
        "removed": len(removed),
        "not_there": len(remove.train) - len(removed) if remove is not None else 0,
    }
    whole = replace(graph, entities=names[0], relations=names[1], **splits)
    return _settled(graph, whole, added, list(removed), counts, _remarks(graph, whole, counts, wanted, held))


def _rows(
    update: Graph | None, entities: dict[str, int], relations: dict[str, int], extend: bool
) -> dict[Triple, None]:
    """Return the triples of an update by the ids of the graph, in order; new names get new ids, or are left out."""
    if update is None:
        return {}
    sides = []
    for names, ids in ((update.entities, entities), (update.relations, relations)):
        if extend:
            for name in names:
                ids.setdefault(name, len(ids))
        sides.append([ids.get(name, -1) for name in names])
    rows = ((sides[0][h], sides[1][r], sides[0][t]) for h, r, t in update.train.tolist())
    return {row: None for row in rows if min(row) >= 0}


def _those_in(triples: Int[Tensor, "n 3"], wanted: dict[Triple, None]) -> set[Triple]:
    """Return which of these triples are there."""
    if not wanted:
        return set()
    asked = torch.tensor(list(wanted))
    near = triples[torch.isin(triples[:, 0], asked[:, 0]) & torch.isin(triples[:, 2], asked[:, 2])]
    return {(h, r, t) for h, r, t in near.tolist() if (h, r, t) in wanted}


def _without(triples: Int[Tensor, "n 3"], gone: list[Triple]) -> Int[Tensor, "n_left 3"]:
    if not gone:
        return triples
    asked, unwanted = torch.tensor(gone), set(gone)
    near = torch.isin(triples[:, 0], asked[:, 0]) & torch.isin(triples[:, 2], asked[:, 2])
    places = torch.nonzero(near).flatten()
    rows = triples[places].tolist()
    drop = torch.tensor([tuple(row) in unwanted for row in rows], dtype=torch.bool)
    keep = torch.ones(len(triples), dtype=torch.bool)
    keep[places[drop]] = False
    return triples[keep]


def _names(
    graph: Graph, add: Graph | None, entities: dict[str, int], relations: dict[str, int]
) -> tuple[Vocabulary, Vocabulary]:
    labels = [dict(each.labels) for each in (graph.entities, graph.relations)]
    if add is not None:
        labels[0] |= {name: label for name, label in add.entities.labels.items() if name not in graph.entities.labels}
        labels[1] |= {name: label for name, label in add.relations.labels.items() if name not in graph.relations.labels}
    return Vocabulary(entities, "entity", labels[0]), Vocabulary(relations, "relation", labels[1])


def _settled(
    old: Graph, whole: Graph, added: list[Triple], removed: list[Triple], counts: dict[str, int], notes: list[str]
) -> Changed:
    """Drop entities whose last triple is gone, and say whose vectors are to follow."""
    count, used = len(whole.entities), torch.zeros(len(whole.entities), dtype=torch.bool)
    for split in SPLITS:
        used[whole.split(split)[:, [0, 2]].flatten()] = True
    ends = torch.zeros(count, dtype=torch.bool)
    ends[[end for head, _, tail in removed for end in (head, tail)]] = True
    stays = used | ~ends
    fresh = torch.arange(count) >= len(old.entities)
    concerned = fresh | ends
    # A fact about a new entity places that; one between two that are known moves both.
    for head, _, tail in added:
        if max(head, tail) < len(old.entities):
            concerned[[head, tail]] = True
    rows = torch.nonzero(stays).flatten()
    place = torch.full((count,), -1)
    place[rows] = torch.arange(len(rows))
    if gone := count - len(rows):
        notes.append(
            f"{counted(gone, 'entity')} without any triple now, so no longer there: "
            f"{_shown([whole.entities[row] for row in torch.nonzero(~stays).flatten().tolist()])}"
        )
        names = Vocabulary([whole.entities[row] for row in rows.tolist()], "entity", whole.entities.labels)
        splits: dict[str, Any] = {split: _renumbered(whole.split(split), place) for split in SPLITS}
        whole = replace(whole, entities=names, **splits)
    relations = torch.arange(len(old.relations), len(whole.relations))
    counts |= {"entities": int(fresh.sum()), "relations": len(relations), "entities_gone": gone}
    counts["concerned"] = int((concerned & stays).sum())
    kept = rows[rows < len(old.entities)]
    moved = place[torch.nonzero(concerned & stays).flatten()]
    return Changed(whole, kept, fresh[rows], relations, moved, counts, tuple(notes))


def _renumbered(triples: Int[Tensor, "n 3"], place: Int[Tensor, " entities"]) -> Int[Tensor, "n 3"]:
    heads, relations, tails = triples.unbind(dim=1)
    return torch.stack([place[heads], relations, place[tails]], dim=1)


def _remarks(
    old: Graph, whole: Graph, counts: dict[str, int], wanted: dict[Triple, None], held: dict[Triple, str]
) -> list[str]:
    """Return, in words, what a user may not have meant."""
    notes, names = [], (list(whole.entities), list(whole.relations))
    if counts["known"]:
        example = _spoken(next(triple for triple in wanted if triple in held), *names)
        outside = counts["known_outside_train"]
        where = f", {outside:,} of them in valid or test, where they stay" if outside else ""
        notes.append(f"{counted(counts['known'], 'triple')} known already{where}, such as {example}")
    if counts["not_there"]:
        notes.append(f"{counted(counts['not_there'], 'triple')} to be removed that the graph does not hold")
    for ours, theirs in ((old.entities, whole.entities), (old.relations, whole.relations)):
        notes += _alike(ours, theirs.names[len(ours) :])
    once = torch.bincount(whole.train[:, 1], minlength=len(whole.relations))[len(old.relations) :] == 1
    if new := [whole.relations[len(old.relations) + row] for row in torch.nonzero(once).flatten().tolist()]:
        notes.append(f"{counted(len(new), 'new relation')} with a single triple, so hardly known: {_shown(new)}")
    left = torch.bincount(whole.train[:, 1], minlength=len(whole.relations))
    had = torch.bincount(old.train[:, 1], minlength=len(whole.relations))
    if bare := [whole.relations[row] for row in torch.nonzero((left == 0) & (had > 0)).flatten().tolist()]:
        notes.append(f"{counted(len(bare), 'relation')} without training triples now, kept as learned: {_shown(bare)}")
    return notes


def _alike(known: Vocabulary, new: tuple[str, ...]) -> list[str]:
    """Return a note on new names that differ from known names or labels in capitals, accents or spaces alone."""
    if not new:
        return []
    spelled = {folded(plain(text)): name for name, text in known.labels.items()}
    spelled |= {folded(plain(name)): name for name in known}
    pairs = [(name, spelled[key]) for name in new if (key := folded(plain(name))) in spelled]
    if not pairs:
        return []
    shown = shortened([f"{name!r} beside {other!r}" for name, other in pairs], MOST_SHOWN)
    return [
        f"{counted(len(pairs), f'new {known.kind}')} that differs from a known one in its spelling alone: {shown}; "
        "spell them alike if they are the same"
    ]


def _spoken(triple: Triple, entities: list[str], relations: list[str]) -> str:
    head, relation, tail = triple
    return f"({entities[head]}, {relations[relation]}, {entities[tail]})"


def _shown(names: list[str]) -> str:
    return shortened(list(map(repr, names)), MOST_SHOWN)
