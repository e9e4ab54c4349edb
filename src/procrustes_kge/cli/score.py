"""procrustes score: how likely is this triple?"""

from dataclasses import asdict
from typing import Annotated

import typer

from procrustes_kge.cli import completing
from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.asking import Force, Format, Many, Out, Output, judgement_lines
from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.answers import Judgement
from procrustes_kge.explore.questions.judging import judgements, whole_triple_of_row
from procrustes_kge.explore.questions.questions import Questions
from procrustes_kge.explore.scores.asked import ask

verb = new_verb()


@verb.command()
def score(
    run: RunFolder,
    head: Annotated[str | None, typer.Argument(help="Name of the head.", autocompletion=completing.entities)] = None,
    relation: Annotated[
        str | None, typer.Argument(help="Name of the relation.", autocompletion=completing.relations)
    ] = None,
    tail: Annotated[str | None, typer.Argument(help="Name of the tail.", autocompletion=completing.entities)] = None,
    questions: Many = None,
    out: Out = None,
    force: Force = False,
    format: Format = "table",
    as_json: Json = False,
) -> None:
    """Say how likely a triple is: its score, its probability, and its ranks among all answers.

    The tail is ranked among all answers to (head, relation, ?), the head among those to (?, relation, tail), other
    known answers left out. A file has a triple on each line.

    Examples:

        procrustes score runs/wordnet-mini dog.n.01 hypernym canine.n.02
        procrustes score runs/wordnet-mini --questions triples.tsv --out scores.csv
    """
    output = Output.of(format, as_json, out, force)
    if questions is None and None in (head, relation, tail):
        raise InputError("a triple has a head, a relation and a tail; give all three, or --questions FILE")
    asked = ask(run)
    many = Questions.of(questions, (head, relation, tail), lambda row: whole_triple_of_row(asked, row))
    output.show(
        Judgement,
        many,
        lambda numbered: judgements(asked, numbered),
        judgement_lines,
        lambda found: {key: each for key, each in asdict(found.rows[0]).items() if key != "question"},
    )
