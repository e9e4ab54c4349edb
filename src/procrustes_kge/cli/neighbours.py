"""procrustes neighbours: the entities that are most like another."""

from typing import Annotated

import typer

from procrustes_kge.cli import completing
from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.asking import Approximate, Count, Force, Format, Many, Out, Output, as_objects, neighbour_lines
from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.answers import Neighbour
from procrustes_kge.explore.questions.nearest import entity_of_row, nearest
from procrustes_kge.explore.questions.questions import Questions
from procrustes_kge.explore.scores.asked import ask

verb = new_verb()


@verb.command()
def neighbours(
    run: RunFolder,
    entity: Annotated[
        str | None, typer.Argument(help="Name of the entity.", autocompletion=completing.entities)
    ] = None,
    count: Count = 10,
    questions: Many = None,
    out: Out = None,
    force: Force = False,
    format: Format = "table",
    index: Approximate = None,
    as_json: Json = False,
) -> None:
    """List the entities whose vectors are most similar to that of an entity, by the cosine of their angle.

    A file has an entity on each line.

    Examples:

        procrustes neighbours runs/wordnet-mini dog.n.01 -k 5
    """
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    output = Output.of(format, as_json, out, force)
    if questions is None and entity is None:
        raise InputError("no entity is given; name the one whose neighbours are asked for, or give --questions FILE")
    asked = ask(run, index=index)
    many = Questions.of(questions, (entity,), lambda row: entity_of_row(asked, row), ("entity",))
    output.show(
        Neighbour,
        many,
        lambda numbered: nearest(asked, numbered, count),
        neighbour_lines,
        lambda found: {"entity": found.asked, "answers": as_objects(found.rows)},
    )
