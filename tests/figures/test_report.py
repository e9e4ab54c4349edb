"""Laws of the report: one file, no script, every name as text, and something to say of any run."""

import re
from html.parser import HTMLParser

import pytest

from procrustes_kge.errors import InputError
from procrustes_kge.explore.overview import overview
from procrustes_kge.figures.report import check_count, report, report_page
from procrustes_kge.models.ranking import figure
from reports import HOSTILE, hostile, ordinary, rubbish, tiny

OURS = {
    *("html", "head", "meta", "link", "title", "style", "body", "a", "header", "h1", "h2", "h3", "nav", "ul", "li"),
    *("main", "section", "p", "bdi", "div", "article", "table", "caption", "thead", "tbody", "tr", "th", "td", "code"),
    *("figure", "figcaption", "details", "summary", "dl", "dt", "dd", "ol", "span", "strong"),
    *("svg", "text", "line", "rect", "circle", "polyline", "g"),
}
VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Reads a page as a browser does: elements, their attributes, and the text of each kind of element."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)

    def words(self):
        return " ".join(" ".join(texts) for texts in self.text.values())


@pytest.fixture(scope="module")
def run():
    return ordinary()


@pytest.fixture(scope="module")
def page(run):
    return report_page([overview(run)])


def test_it_has_all_its_parts(run, page):
    reader = Reader(page)
    assert not reader.open
    titles = set(reader.text["h2"])
    assert titles == {
        *("Results", "The graph", "Settings", "Learning", "Search for settings", "Ranks", "Relations, hard and easy"),
        *("Cost", "Map of the entities", "What relations are", "Sample answers", "Probabilities", "Words"),
    }
    words = reader.words()
    assert figure(run.report["metrics"]["test"]["mrr"]) in words
    assert "procrustes train rotated" in words
    assert ".031" in words  # expected calibration error
    assert "as much as a lamp of 10 W" in words


def test_it_is_whole_by_itself(page):
    reader = Reader(page)
    assert set(reader.tags) <= OURS
    for tag, name, value in reader.attributes:
        assert not name.startswith("on")
        assert name != "src"
        if name == "href":
            assert value.startswith("#") or (tag, value) == ("link", "data:,")
    assert "url(" not in page
    assert "@import" not in page


def test_links_lead_somewhere_and_every_table_and_chart_says_what_it_is(page):
    reader = Reader(page)
    ids = {value for _, name, value in reader.attributes if name == "id"}
    assert {value[1:] for tag, name, value in reader.attributes if (tag, name) == ("a", "href")} <= ids
    assert len(reader.text["caption"]) == reader.tags.count("table")
    for part in re.findall(r"<svg [^>]*>", page):
        assert 'aria-hidden="true"' in part or re.search(r'role="img" aria-label="[^"]', part)


def test_no_name_becomes_a_part_of_the_page():
    page = report_page([overview(hostile()), overview(ordinary())])
    reader = Reader(page)
    assert not reader.open
    assert set(reader.tags) <= OURS
    assert not [name for _, name, _ in reader.attributes if name.startswith("on") or name == "src"]
    words = reader.words()
    for name in (HOSTILE[0], HOSTILE[2], HOSTILE[7], HOSTILE[8], HOSTILE[9]):
        assert name in words
    assert "\x07" not in page


def test_something_is_said_of_any_run():
    for run, said in ((tiny(), "Not ranked so far"), (rubbish(), "saved without its triples")):
        reader = Reader(report_page([overview(run)]))
        assert said in reader.words()
        assert "nan" not in reader.words().lower().split()


@pytest.mark.slow
def test_runs_stand_side_by_side_under_names_of_their_own(run):
    other = ordinary("other/rotated", settings={**run.report["settings"], "dim": 80})
    again = ordinary("runs/rotated")
    reader = Reader(report_page([overview(each) for each in (run, other, again)]))
    names = {"runs/rotated (1)", "other/rotated", "runs/rotated (3)"}
    assert names <= set(reader.text["bdi"])
    assert "Settings in which they differ" in reader.words()
    assert reader.text["h2"].count("The graph") == 1
    assert reader.words().count("Degrees: how many") == 1  # one graph, once


def test_a_run_without_validation_has_a_curve_of_its_loss(run):
    curve = [{"epoch": epoch, "loss": 1 / epoch, "valid_mrr": None} for epoch in (1, 2, 3)]
    words = Reader(report_page([overview(ordinary(curve=curve))])).words()
    assert "Loss by epoch" in words
    assert "Trained without validation" in words


@pytest.mark.slow
def test_a_page_is_written_and_another_file_is_kept(run, tmp_path):
    path = report([run], tmp_path / "page.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    report([run], path)  # its own page is replaced
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(InputError, match=r"mine\.html"):
        report([run], tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "mine"


def test_no_run_is_no_page():
    with pytest.raises(InputError, match="0 runs on a page, expected 1 to"):
        check_count([])
