"""procrustes predict: answer one query."""

from typing import Annotated

import typer

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.runs.store import load_run

verb = new_verb()


@verb.command()
def predict(
    run: RunFolder,
    relation: Annotated[str, typer.Option("--relation", "-r", help="Name of the relation.")],
    head: Annotated[str | None, typer.Option("--head", "-H", help="Name of the head, to ask for tails.")] = None,
    tail: Annotated[str | None, typer.Option("--tail", "-T", help="Name of the tail, to ask for heads.")] = None,
    count: Annotated[int, typer.Option("-k", "--count", help="How many answers to show.")] = 10,
    new: Annotated[bool, typer.Option(help="Leave out answers that are already in the graph.")] = False,
    as_json: Json = False,
) -> None:
    """Answer (head, relation, ?) or (?, relation, tail), best answer first.

    Answers that are already in the graph are marked with their split. The entity asked about is left out if hardly any
    training triple of the relation links an entity to itself.

    Examples:

        procrustes predict runs/wordnet-mini --head dog.n.01 --relation hypernym -k 5
        procrustes predict runs/wordnet-mini --tail dog.n.01 --relation hypernym --new
    """
    if (head is None) == (tail is None):
        raise InputError("give --head to ask for tails, or --tail to ask for heads, but not both")
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    opened = load_run(run)
    model = opened.model
    entity = model.entities.id(head if head is not None else str(tail))
    query = model.relations.id(relation) + (0 if head is not None else len(model.relations))
    known = _known_answers(opened.graph, entity, query)
    found = model.answers(entity, query, count + len(known) if new else count, opened.graph)
    answers = [answer for answer in found if not (new and answer.name in known)][:count]
    if as_json:
        asked = _named("relation", model.relations, query % len(model.relations))
        asked |= _named("head" if head is not None else "tail", model.entities, entity)
        print_json({**asked, "answers": [{**each._asdict(), "known": known.get(each.name)} for each in answers]})
        return
    for place, answer in enumerate(answers, start=1):
        label = f"   {answer.label}" if answer.label != answer.name else ""
        mark = f"   ({known[answer.name]})" if answer.name in known else ""
        print(f"{place:>3}  {answer.score:8.3f}   {answer.name}{label}{mark}")


def _named(role: str, names: Vocabulary, row: int) -> dict[str, str]:
    """Return the name in a role, with its label where it has one."""
    label = {f"{role}_label": names.label(row)} if names[row] in names.labels else {}
    return {role: names[row], **label}


def _known_answers(graph: Graph | None, entity: int, query: int) -> dict[str, str]:
    """Return the answers that the graph holds, each with its split."""
    if graph is None:
        return {}
    asks_head, relation = divmod(query, len(graph.relations))
    found = {}
    for split in SPLITS:
        triples = graph.split(split).flip(1) if asks_head else graph.split(split)
        answers = triples[(triples[:, 0] == entity) & (triples[:, 1] == relation), 2]
        found.update({graph.entities[answer]: split for answer in answers.tolist()})
    return found
