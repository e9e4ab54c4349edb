"""procrustes explain: the evidence for an answer."""

from typing import Annotated

import typer

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.errors import InputError
from procrustes_kge.explore.evidence.evidence import Explanation, Names, explain as explained
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.store import load_run
from procrustes_kge.words import counted

verb = new_verb()


@verb.command()
def explain(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="Name of the head.", show_default=False)],
    relation: Annotated[str, typer.Argument(help="Name of the relation.", show_default=False)],
    tail: Annotated[str, typer.Argument(help="Name of the tail.", show_default=False)],
    count: Annotated[int, typer.Option("-k", "--count", help="How much evidence of each sort to show.")] = 5,
    as_json: Json = False,
) -> None:
    """Name the training triples that speak most for (head, relation, tail), and the paths that lead there.

    All are ranked by how far the answer's score falls without them, worked out without training again. The triple
    itself, where training has it, does not count.

    Examples:

        procrustes explain runs/wordnet-mini dog.n.01 hypernym canine.n.02
    """
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    opened = load_run(run)
    if opened.graph is None:
        raise InputError(f"{run}: saved without its triples, so there is no evidence to name; save it with graph=…")
    found = explained(opened.model, opened.graph, (head, relation, tail), count)
    if as_json:
        print_json(found.as_dict())
    else:
        print("\n".join(_lines(found, opened.graph)))


def _lines(found: Explanation, graph: Graph) -> list[str]:
    known = f"   ({found.known})" if found.known else ""
    lines = [f"{_said(found.triple, graph)}   score {found.score:.3f}   rank {found.rank:,g}{known}"]
    if found.witnesses:
        lines.append("because   fall of the score without each")
        lines += [
            f"{place:>3}  {each.fall:8.3f}   {_said(each.triple, graph)}   {each.role}"
            for place, each in enumerate(found.witnesses, start=1)
        ]
        left = counted(len(found.witnesses), "triple")
        lines.append(
            f"without   {left}, its two entities computed again: rank {found.with_all:,g} → {found.without:,g}"
        )
    else:
        lines.append(found.sentence)
    if found.routes:
        lines.append("paths     fall without all of it, and for how many the same steps are right in training")
        lines += [f"     {each.fall:8.3f}   {each.text}   {each.right:,} of {each.ends:,}" for each in found.routes]
    if found.alike:
        lines.append("alike     known answers, by how near their ends are")
        lines += [f"     {each.near:8.3f}   {_said(each.triple, graph)}" for each in found.alike]
    return lines


def _said(triple: Names, graph: Graph) -> str:
    """Return a triple in words: labels where there are any."""
    head, relation, tail = triple
    return " ".join((graph.entities.labels.get(head, head), relation, graph.entities.labels.get(tail, tail)))
