"""Parts of the report about the graph, and about what was learned: vectors, relations, answers, probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.explore.overview import GraphFacts, RelationCounts, SampleQuery
from procrustes_kge.explore.relations.leakage import Followed, Leakage
from procrustes_kge.explore.relations.relations import KINDS, Property, RelationProperties
from procrustes_kge.explore.space.clusters import Cluster
from procrustes_kge.explore.space.space import Space
from procrustes_kge.figures import svg
from procrustes_kge.figures.markup import Content, Markup, element, folded, joined, name, table
from procrustes_kge.figures.reliability import WORDS, Curve, Ink, curves_of, reliability_diagram
from procrustes_kge.figures.report_run import MOST_ROWS, Shown, share, side_by_side
from procrustes_kge.words import counted

MOST_RELATIONS, MOST_RULES, MOST_PROPERTIES = 12, 12, 10
MOST_DOTS, MOST_CLUSTERS, TYPICAL = 3000, 20, 4
PAGE = Ink("var(--s0)", "var(--s1)", "var(--ink)", "var(--quiet)", "var(--rule)")  # colours of report.css
FEWEST_PROPERTIES = 3  # where none is above chance: the best ones


def graphs(runs: Sequence[Shown]) -> Markup:
    """Return every graph once, with its degrees, relations and leakage."""
    seen: dict[str, GraphFacts] = {}
    for run in runs:
        if run.overview.facts is not None:
            seen.setdefault(run.overview.facts.graph.checksum, run.overview.facts)
    if not seen:
        return element("p", "The run was saved without its triples, so its graph is not known.", class_="quiet")
    return joined(_graph(facts, len(seen) > 1) for facts in seen.values())


def _graph(facts: GraphFacts, several: bool) -> Markup:
    graph = facts.graph
    heading = element("h3", name(graph.name)) if several else None
    splits = ", ".join(f"{len(graph.split(split)):,} {split}" for split in ("train", "valid", "test"))
    sizes = f"{counted(len(graph.entities), 'entity')}, {counted(len(graph.relations), 'relation')}; triples: {splits}."
    notes = [element("li", name(each)) for each in (*graph.notes, *graph.remarks())]
    drawn = svg.columns(
        "How many entities have so many training triples",
        facts.degrees,
        "training triples of an entity, up to",
        "entities",
    )
    degrees = element(
        "figure", drawn, element("figcaption", "Degrees: how many entities have so many training triples.")
    )
    main, rest = facts.relations[:MOST_RELATIONS], facts.relations[MOST_RELATIONS:MOST_ROWS]
    relations = joined([_relations("Relations with most triples" if rest else "Relations", main), _more(rest)])
    return element(
        "div",
        heading,
        element("p", name(graph.name), ": ", sizes),
        element("ul", notes) if notes else None,
        element("div", degrees, element("div", _leakage(facts.leakage), class_="beside"), class_="figures"),
        relations,
    )


def _more(rest: Sequence[RelationCounts]) -> Markup | None:
    return folded(f"{counted(len(rest), 'more relation')}", _relations("More relations", rest)) if rest else None


def _relations(caption: str, some: Sequence[RelationCounts]) -> Markup:
    rows = [
        [
            name(each.name),
            *(f"{count:,}" for count in each.triples),
            f"{each.tails_per_head:.3g}",
            f"{each.heads_per_tail:.3g}",
        ]
        for each in some
    ]
    return table(caption, ["relation", "train", "valid", "test", "tails per head", "heads per tail"], rows)


def _leakage(found: Leakage | None) -> Content:
    if found is None:
        return element("p", "There are no test triples, so nothing leaks into them.", class_="quiet")
    whole, triples = found.whole, max(1, found.whole.triples)

    def row(words: str, count: int) -> list[Content]:
        return [words, f"{count:,}", f"{100 * count / triples:.1f} %"]

    rows = [
        row("an inverse relation has it in train", whole.inverse),
        row("a duplicate relation has it in train", whole.duplicate),
        row("either of these", whole.by_another),
        row("the relation itself has it backwards", whole.itself),
        row("both ends are linked in train somehow", whole.linked),
    ]
    said = f"Of {counted(whole.triples, f'{found.split} triple')}, {whole.by_another:,} follow from another relation."
    rules = [
        [name(str(rule)), f"{rule.right:,}", f"{rule.right / rule.cases:.2f}"] for rule in found.rules[:MOST_RULES]
    ]
    by_relation = [
        [name(each), *(f"{count:,}" for count in _counts(values))]
        for each, values in sorted(found.relations.items(), key=lambda item: -item[1].any)
        if values.any
    ]
    tables = [
        table("Rules that hold in train", ["rule", "right", "share"], rules) if rules else None,
        table(
            "What follows, by relation",
            ["relation", "triples", "by inverse", "by duplicate", "by itself"],
            by_relation[:MOST_ROWS],
        )
        if by_relation
        else None,
    ]
    details = folded("By which rules, and of which relations", tables) if rules else None
    return [
        element("p", said),
        table("Test answers that need no model", ["because", "triples", "share"], rows),
        details,
    ]


def _counts(values: Followed) -> tuple[int, ...]:
    return values.triples, values.inverse, values.duplicate, values.itself


def maps(runs: Sequence[Shown]) -> Markup:
    """Return entity vectors in their two widest directions, with the clusters along the arms of the cloud."""
    return side_by_side(runs, _map)


def _map(run: Shown) -> Content:
    space = run.overview.space
    if space is None:
        return element("p", run.overview.unseen, class_="quiet")
    arms = list(dict.fromkeys(cluster.arm for cluster in space.clusters))
    kinds = torch.full((len(space.points),), -1)
    for cluster in space.clusters:
        kinds[cluster.rows] = arms.index(cluster.arm)
    shown = _drawn(kinds)
    places = space.points[:, :2].tolist()
    marks = [(cluster.name, *_middle(space, cluster)) for cluster in space.clusters[:MOST_CLUSTERS]]
    title = "Entities in the two directions in which their vectors differ most"
    drawn = svg.scatter(
        title,
        [places[row] for row in shown],
        [int(kinds[row]) for row in shown],
        [space.label(row) for row in shown],
        marks,
    )
    first, second = (f"{100 * each:.1f}" for each in space.shares[:2])
    part = (
        f"{len(shown):,} of {counted(len(space.entities), 'entity')}"
        if len(shown) < len(space.entities)
        else "All entities"
    )
    words = f"{part}; the directions hold {first} and {second} % of the variance."
    rows = [
        [
            element("span", svg.key(arms.index(each.arm), lines=False), " ", each.name),
            _listed(space.typical(each, TYPICAL)),
            f"{len(each.rows):,}",
        ]
        for each in space.clusters[:MOST_CLUSTERS]
    ]
    named = table("Clusters along the arms of the cloud", ["cluster", "most typical", "entities"], rows, numbers_from=2)
    none = element("p", "No arm: no direction of the cloud stands out from chance.", class_="quiet")
    turn = element(
        "p", "To turn and search it: ", element("code", f"procrustes map {run.overview.run.folder}"), class_="quiet"
    )
    notes = [element("p", name(each), class_="quiet") for each in space.notes]
    return [element("figure", drawn, element("figcaption", words)), named if rows else none, notes, turn]


def _listed(names: Sequence[str]) -> Markup:
    return joined([", " if place else None, name(each)] for place, each in enumerate(names))


def _middle(space: Space, cluster: Cluster) -> tuple[float, float]:
    x, y, _ = space.points[cluster.rows].mean(dim=0).tolist()
    return x, y


def _drawn(kinds: Int[Tensor, " points"]) -> list[int]:
    """Return the rows that are drawn: of many, as many on arms as beside them; those on arms last, on top."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for rows in (torch.nonzero(kinds < 0).flatten(), torch.nonzero(kinds >= 0).flatten()):
        parts.append(
            rows[torch.randperm(len(rows), generator=generator)][: MOST_DOTS // 2 if len(kinds) > MOST_DOTS else None]
        )
    return torch.cat(parts).tolist()


def relations(runs: Sequence[Shown]) -> Markup:
    """Return what relations are, by their matrices."""
    about = (
        "Read off the matrices: a score is the cosine of what two relations do to a vector. ✓ marks what is above "
        "anything that chance gives; in train is the share of training triples that say so, and after it the share "
        "when tails are exchanged."
    )
    return joined(
        [element("p", about), side_by_side(runs, lambda run: _properties(run.overview.relations, run.overview.unread))]
    )


def _properties(found: RelationProperties | None, unread: str) -> Content:
    if found is None:
        return element("p", unread, class_="quiet")
    chance = "; ".join(f"{each.centre:.3f} ± {each.spread:.3f} of {words}" for words, each in found.chance.items())
    chances, parts = element("p", f"A cosine by chance: {chance}.", class_="quiet"), list[Content]()
    for kind, words in KINDS.items():
        every = found.by_kind[kind]
        above = [each for each in every if each.found]
        shown = above[:MOST_PROPERTIES] or every[:FEWEST_PROPERTIES]
        if shown:
            caption = f"{kind.capitalize()}: {words} ({len(above):,} above chance)"
            headings = ("relations", "", "score", "chance", "in train", "exchanged")
            parts.append(table(caption, headings, map(_property, shown), numbers_from=2))
    notes = [element("p", each, class_="quiet") for each in found.notes]
    return [chances, element("div", parts, class_="tables"), notes]


def _property(found: Property) -> list[Content]:
    mark = element("span", "✓", role="img", aria_label="above chance") if found.found else None
    return [
        name(str(found)),
        mark,
        f"{found.score:.3f}",
        f"{found.chance:.3f}",
        share(found.in_train),
        share(found.exchanged),
    ]


def predictions(runs: Sequence[Shown]) -> Markup:
    """Return a few queries with the best answers of each."""
    return side_by_side(runs, _predictions)


def _predictions(run: Shown) -> Content:
    queries = run.overview.queries
    if not queries:
        return element("p", "The run was saved without its triples, so none can be asked about.", class_="quiet")
    about = (
        f"Triples of {run.overview.split}, one side asked for. The right answer is marked ✓; "
        "others that the graph holds say in which split."
    )
    return [element("p", about), element("div", map(_query, queries), class_="tables")]


def _query(query: SampleQuery) -> Markup:
    ends = [name(each) if each is not None else element("strong", "?") for each in (query.head, query.tail)]
    asked = element("p", "(", ends[0], ", ", name(query.relation), ", ", ends[1], ")", class_="query")
    items = []
    for answer in query.answers:
        label = answer.label if answer.label != answer.name else None
        mark = element("strong", " ✓ the right answer") if answer.wanted else None
        if mark is None and answer.split is not None:
            mark = element("span", f" in {answer.split}", class_="quiet")
        score = element("span", f"{answer.score:.2f}", class_="score")
        items.append(
            element(
                "li",
                score,
                " ",
                name(answer.name),
                " " if label else None,
                name(label, class_="quiet") if label else None,
                mark,
            )
        )
    missing = None
    if not any(answer.wanted for answer in query.answers):
        missing = element(
            "p", "Right: ", name(query.wanted), f", at rank {query.rank:,.1f}".removesuffix(".0"), ".", class_="quiet"
        )
    return element("div", asked, element("ol", items), missing, class_="answers")


def calibration(runs: Sequence[Shown]) -> Markup | None:
    """Return how far probabilities can be believed, where a run has them."""
    having = [run for run in runs if _curves(run)]
    return side_by_side(having, _reliability) if having else None


def _curves(run: Shown) -> list[Curve]:
    return curves_of(run.part("calibration").get("test"))


def _reliability(run: Shown) -> Content:
    curves = _curves(run)
    title = "Reliability: how many answers are right, by the probability that the model gives them"
    errors = ", ".join(curve.words for curve in curves)
    words = f"{title}. Expected calibration error: {errors}; on the line, it means what it says."
    rows = [
        [WORDS[curve.name], f"{each.said:.3f}", f"{each.right:.3f}", f"{each.weight:,.0f}"]
        for curve in curves
        for each in curve.bins
    ]
    listed = table("Probabilities and shares that are right", ["of", "said", "right", "answers"], rows)
    drawn = reliability_diagram({"Test triples": curves}, PAGE, class_="diagram")
    return [element("figure", drawn, element("figcaption", words)), folded("As numbers", listed)]
