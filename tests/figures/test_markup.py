"""Laws of markup: whatever text is put in comes out as the same text, and as nothing else."""

from html.parser import HTMLParser

from hypothesis import given, strategies as st

from procrustes_kge.figures.markup import UNSEEN, Markup, element, folded, joined, name, table

TEXT = st.text(max_size=30) | st.sampled_from(["<script>", "</td>", "&lt;", "\"'>", "<!--", "]]>", "\x00\x07"])


class Reader(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.given = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.given += attrs

    def handle_data(self, data):
        self.text.append(data)


def seen(text):
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


@given(TEXT, TEXT)
def test_text_and_attributes_come_out_as_they_went_in(text, attribute):
    reader = Reader(element("p", text, title=attribute))
    assert reader.tags == ["p"]
    assert "".join(reader.text) == seen(text)
    assert reader.given == [("title", seen(attribute))]


@given(st.lists(st.lists(TEXT, min_size=2, max_size=2), max_size=4), TEXT)
def test_a_table_has_a_caption_and_its_cells_alone(rows, caption):
    reader = Reader(table(caption, ["a", "b"], rows))
    assert reader.tags.count("caption") == 1
    assert reader.tags.count("td") == len(rows)
    assert reader.tags.count("th") == 2 + len(rows)
    assert set(reader.tags) == {"div", "table", "caption", "thead", "tbody", "tr", "th"} | ({"td"} if rows else set())


def test_what_is_markup_stays_and_what_is_nothing_is_left_out():
    assert joined([Markup("<b>"), "<b>", None, 3, [["x"]]]) == "<b>&lt;b&gt;3x"
    assert (
        element("p", class_="a", aria_label="b", hidden=True, title=None)
        == '<p class="a" aria-label="b" hidden=""></p>'
    )
    assert name("א") == "<bdi>א</bdi>"
    assert folded("more", "x") == "<details><summary>more</summary>x</details>"
