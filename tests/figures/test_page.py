"""Laws of self-contained pages: what is written arrives, and nothing of it is read as HTML."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.figures.page import bundled, inert_json, page, write_page

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    "&lt;b&gt;",
    "a\u2028b",
    "\ud800",
    "\0",
    '"onload="x',
]


class Reader(HTMLParser):
    """Collect the elements of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.inside = [], {}, ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        self.texts.setdefault(self.inside, []).append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    return reader


@given(st.recursive(st.text() | st.integers() | st.sampled_from(HOSTILE), lambda each: st.lists(each, max_size=4)))
def test_json_is_inert_and_says_the_same(content):
    text = inert_json(content)
    assert json.loads(text) == content
    assert not re.search("[<>&\u2028\u2029]", text)


def test_a_page_has_the_elements_that_we_wrote_and_no_others():
    reader = read(page(HOSTILE[0], "<main></main>", ["a {}"], ["let one = 1"], {"data": HOSTILE}))
    assert [tag for tag, _ in reader.tags if tag == "script"] == ["script", "script"]
    assert {tag for tag, _ in reader.tags} == {
        *("html", "head", "meta", "link", "title", "style", "body", "main", "noscript", "script")
    }
    written, script = reader.texts["script"]
    assert json.loads(written) == HOSTILE
    assert script == "let one = 1"


def test_the_policy_runs_the_listed_scripts_alone_and_allows_no_request():
    reader = read(page("", "", ["a {}"], ["let one = 1"], {"data": []}))
    (policy,) = [attrs["content"] for tag, attrs in reader.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    for name, text in (("script-src", "let one = 1"), ("style-src", "a {}")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_a_script_that_ends_its_element_is_refused():
    with pytest.raises(ValueError, match="ends its own element"):
        page("", "", scripts=["'</script>'"])


def test_what_is_bundled_can_be_put_into_a_page():
    page("", "", [bundled("map.css")], [bundled("map.js")])


def test_a_file_of_the_users_is_not_replaced_unless_the_user_insists(tmp_path):
    target = tmp_path / "page.html"
    write_page(target, "one")
    write_page(target, "two")  # ours
    target.write_text("the user's")
    refused(lambda: write_page(target, "three"), setting="page.html", seen="was changed", remedy="--force")
    assert target.read_text() == "the user's"
    write_page(target, "three", force=True)
    assert target.read_text() == "three"
    refused(lambda: write_page(tmp_path / "no" / "p.html", ""), setting="no", seen="no such folder", remedy="--out")
    refused(lambda: write_page(tmp_path, ""), setting=str(tmp_path), seen="is a folder", remedy="--out")
