"""procrustes analogy: a is to b as c is to what?"""

from typing import Annotated, Any

import typer

from procrustes_kge.cli import completing
from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.asking import Count, Force, Format, Many, Out, Output, as_objects, prediction_lines
from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.answers import Prediction
from procrustes_kge.explore.questions.predicting import ANALOGY, analogies, analogy_of_row
from procrustes_kge.explore.questions.questions import Found, Questions
from procrustes_kge.explore.scores.asked import ask

verb = new_verb()


@verb.command()
def analogy(
    run: RunFolder,
    a: Annotated[str | None, typer.Argument(help="An entity.", autocompletion=completing.entities)] = None,
    b: Annotated[str | None, typer.Argument(help="What A is to.", autocompletion=completing.entities)] = None,
    c: Annotated[
        str | None, typer.Argument(help="Another, and asked is what it is to.", autocompletion=completing.entities)
    ] = None,
    count: Count = 10,
    known: Annotated[
        bool, typer.Option("--known/--new", help="Show answers that the graph holds already, or leave them out.")
    ] = True,
    questions: Many = None,
    out: Out = None,
    force: Force = False,
    format: Format = "table",
    as_json: Json = False,
) -> None:
    """Answer: A is to B as C is to what?

    What leads from A to B is the relation that the graph knows, or else those that the model finds likely. Each answer
    is shown with the relation that speaks most for it. A file has three entities on each line.

    Examples:

        procrustes analogy runs/wordnet-mini dog.n.01 canine.n.02 cat.n.01
    """
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    output = Output.of(format, as_json, out, force)
    if questions is None and None in (a, b, c):
        raise InputError("an analogy has three entities: A is to B as C is to what? give all, or --questions FILE")
    asked = ask(run)
    many = Questions.of(questions, (a, b, c), lambda row: analogy_of_row(asked, row), ANALOGY)

    def as_object(found: Found) -> dict[str, Any]:
        relations = [row.relation for row in found.rows]
        answers = [{**each, "relation": name} for each, name in zip(as_objects(found.rows), relations, strict=True)]
        return {"analogy": found.asked, "answers": answers, "left_out": list(found.left_out)}

    output.show(
        Prediction,
        many,
        lambda numbered: analogies(asked, numbered, count, known),
        prediction_lines(shows_relation=True),
        as_object,
    )
