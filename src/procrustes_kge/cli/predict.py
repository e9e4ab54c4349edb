"""procrustes predict: the best answers to a question, or to many."""

from typing import Annotated, Any

import typer

from procrustes_kge.cli import completing
from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.asking import (
    Approximate,
    Count,
    Force,
    Format,
    Many,
    Out,
    Output,
    as_objects,
    named,
    prediction_lines,
)
from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.answers import Prediction
from procrustes_kge.explore.questions.asking import Triple, spelled_path
from procrustes_kge.explore.questions.predicting import predictions, triple_of_row
from procrustes_kge.explore.questions.questions import Found, Questions
from procrustes_kge.explore.scores.asked import Asked, ask
from procrustes_kge.words import listed

verb = new_verb()


@verb.command()
def predict(
    run: RunFolder,
    head: Annotated[
        str | None, typer.Option("--head", "-H", help="Name of the head.", autocompletion=completing.entities)
    ] = None,
    relation: Annotated[
        list[str] | None,
        typer.Option(
            "--relation",
            "-r",
            help="Name of the relation; given again: of the next one on the way.",
            autocompletion=completing.relations,
        ),
    ] = None,
    tail: Annotated[
        str | None, typer.Option("--tail", "-T", help="Name of the tail.", autocompletion=completing.entities)
    ] = None,
    count: Count = 10,
    known: Annotated[
        bool, typer.Option("--known/--new", help="Show answers that the graph holds already, or leave them out.")
    ] = False,
    questions: Many = None,
    out: Out = None,
    force: Force = False,
    format: Format = "table",
    index: Approximate = None,
    as_json: Json = False,
) -> None:
    """Answer (head, relation, ?), (?, relation, tail) or (head, ?, tail), best answer first.

    Answers that are already in the graph are left out, or with --known marked with their split. So is the entity
    asked about, if hardly any training triple of the relation links an entity to itself. Several relations lead on
    from one another; ^NAME leads from tail to head.

    Examples:

        procrustes predict runs/wordnet-mini --head dog.n.01 --relation hypernym
        procrustes predict runs/wordnet-mini -r hypernym -T dog.n.01 --known
        procrustes predict runs/wordnet-mini -H dog.n.01 -T canine.n.02
        procrustes predict runs/wordnet-mini -H dog.n.01 -r hypernym -r hypernym
        procrustes predict runs/wordnet-mini --questions asked.tsv --out found.csv
    """
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    output = Output.of(format, as_json, out, force)
    steps = relation[0] if relation and len(relation) == 1 else relation
    if questions is None:
        _check_given({"--head": head, "--relation": steps, "--tail": tail})
    asked = ask(run, index=index)
    many = Questions.of(questions, (head, steps, tail), lambda row: triple_of_row(asked, row))

    def as_object(found: Found) -> dict[str, Any]:
        about = _about(asked, triple_of_row(asked, (head, steps, tail)))
        return {**about, "answers": as_objects(found.rows), "left_out": list(found.left_out)}

    output.show(
        Prediction,
        many,
        lambda numbered: predictions(asked, numbered, count, known),
        prediction_lines(),
        as_object,
    )


def _check_given(parts: dict[str, Any]) -> None:
    """Refuse all but two parts of a triple, before a run is opened."""
    given = [flag for flag, part in parts.items() if part is not None]
    if len(given) == len(parts):
        remedy = "leave one out to ask for it, or let `procrustes score` say how likely the triple is"
        raise InputError(f"{listed(given)} are all given, so nothing is asked for; {remedy}")
    if len(given) < len(parts) - 1:
        seen = f"{given[0]} alone" if given else "no question"
        raise InputError(f"{seen}; give two of {listed(parts)}, and the third is asked for")


def _about(asked: Asked, triple: Triple) -> dict[str, str]:
    """Return what is given of a triple, by names and labels."""
    found = {} if triple.head is None else named("head", asked.entities, triple.head)
    if triple.path is not None:
        alone = len(triple.path) == 1 and triple.path[0] < len(asked.relations)
        spelled = {"relation": spelled_path(asked, triple.path)}
        found |= named("relation", asked.relations, triple.path[0]) if alone else spelled
    return found if triple.tail is None else found | named("tail", asked.entities, triple.tail)
