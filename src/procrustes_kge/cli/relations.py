"""procrustes relations: what the relations of a trained model are."""

from typing import Annotated

import typer

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.errors import InputError
from procrustes_kge.explore.relations.chance import Chance
from procrustes_kge.explore.relations.relations import KINDS, Property, relation_properties
from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.store import load_run
from procrustes_kge.words import counted, unknown

WIDEST = 72  # characters of what a property is of; a longer one only shifts the numbers in its own line

verb = new_verb()


@verb.command()
def relations(
    run: RunFolder,
    count: Annotated[int, typer.Option("-k", "--count", help="How many of each kind to show.")] = 10,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Only this kind: {', '.join(KINDS)}. May be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say which relations are symmetric, inverse to each other, composed of two others, and so on.

    All is read off the model's matrices, by the cosine of what relations do to a vector. A star marks what is above
    anything that chance gives. Then the training triples are asked: the share of them that say so, and in brackets the
    share when tails are exchanged.

    Examples:

        procrustes relations runs/wordnet-mini
        procrustes relations runs/wordnet-mini --only symmetric --only composed -k 5
    """
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    if strange := [kind for kind in only or () if kind not in KINDS]:
        raise InputError(unknown("kind", strange[0], KINDS))
    opened = load_run(run)
    found = relation_properties(opened.model, opened.graph)
    kinds = [kind for kind in KINDS if not only or kind in only]
    if as_json:
        content = found.as_dict()
        shown = {kind: content[kind] for kind in kinds}
        print_json({"run": str(run), **shown, "chance": content["chance"], "notes": content["notes"]})
        return
    print(f"{run}   {counted(len(opened.model.relations), 'relation')}   a cosine by chance: {_chances(found.chance)}")
    for kind in kinds:
        print("\n".join(_lines(kind, found.by_kind[kind], count)))
    for note in found.notes:
        print(f"note: {note}")


def _chances(chance: dict[str, Chance]) -> str:
    return ", ".join(f"{signed(each.centre)} ± {figure(each.spread)} of {name}" for name, each in chance.items())


def _lines(kind: str, properties: tuple[Property, ...], count: int) -> list[str]:
    """Return a table of a kind: what stands out is first."""
    above = sum(each.found for each in properties)
    shown = sorted(properties, key=lambda each: not each.found)[:count]
    title = f"\n{kind}: {KINDS[kind]}   ({above:,} above chance)"
    width = min(WIDEST, max((len(str(each)) for each in shown), default=0))
    lines = [title, f"  {'':<{width}}   score  chance       z   in train"] if shown else [title]
    for each in shown:
        share = "" if each.in_train is None else f"   {figure(each.in_train)} ({figure(each.exchanged or 0.0)})"
        numbers = f"{signed(each.score):>6}  {signed(each.chance):>6}  {min(each.deviations, 99999):6.1f}"
        lines.append(f"{'*' if each.found else ' '} {each!s:<{width}}  {numbers}{share}")
    return lines


def signed(share: float) -> str:
    """Return a cosine with three digits.

    >>> signed(0.4637), signed(-0.02), signed(-0.0)
    ('.464', '-.020', '.000')
    """
    return f"{'-' if share <= -0.0005 else ''}{figure(abs(share))}"
