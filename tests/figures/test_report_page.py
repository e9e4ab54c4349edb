"""The report in a browser, as a person reads it: from a file, without a network, at a desk, on a phone and on paper."""

import base64

import pytest

from browser import opened, requests, resized, said, screenshot
from procrustes_kge.explore.overview import overview
from procrustes_kge.figures.report import report, report_page
from reports import HOSTILE, hostile, ordinary, tiny

WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
OVERFLOWING = """
return [...document.querySelectorAll('main *')].filter(each => !each.closest('svg') && !each.closest('.scroll')
  && each.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(each => each.outerHTML)
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report([ordinary(), ordinary("runs/again")], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def shots(tmp_path_factory):
    return tmp_path_factory.mktemp("shots")


@pytest.fixture(autouse=True)
def at_a_desk(chromium):
    resized(chromium, 1200, 800)
    yield
    resized(chromium, 1200, 800)


def test_it_opens_in_silence_and_asks_nobody(chromium, page):
    opened(chromium, page)
    assert chromium.title == "Report: rotated, again"
    assert said(chromium) == []
    assert requests(chromium) == [page.resolve().as_uri()]
    assert chromium.execute_script("return document.scripts.length") == 0


@pytest.mark.parametrize("width", [1200, 768, 390, 320])
def test_it_fits_the_width(chromium, page, shots, width):
    opened(chromium, page)
    resized(chromium, width, 800, touch=width < 500)
    assert chromium.execute_script(WIDER) == 0
    assert chromium.execute_script(OVERFLOWING) == []
    screenshot(chromium, shots / f"{width}.png")


def test_names_run_nothing(chromium, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(report_page([overview(hostile()), overview(tiny())]), encoding="utf-8")
    opened(chromium, path)
    assert chromium.title.startswith("Report: <b onclick=x>")
    assert said(chromium) == []
    assert requests(chromium) == [path.resolve().as_uri()]
    text = chromium.execute_script("return document.body.textContent")
    assert all(name in text for name in (HOSTILE[0], HOSTILE[1], HOSTILE[7], HOSTILE[8], HOSTILE[9]))
    for width in (1200, 390):
        resized(chromium, width, 800)
        assert chromium.execute_script(WIDER) == 0


def test_it_is_read_with_keys_alone(chromium, page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(chromium, page)
    reached = []
    for _ in range(30):
        ActionChains(chromium).send_keys(Keys.TAB).perform()
        reached.append(chromium.execute_script("return document.activeElement.outerHTML.slice(0, 40)"))
    assert reached[0].startswith('<a href="#results"')
    assert any('class="scroll"' in each for each in reached)  # wide tables move sideways by keys
    fold = chromium.find_element("css selector", "summary")
    chromium.execute_script("arguments[0].focus()", fold)
    ActionChains(chromium).send_keys(Keys.ENTER).perform()
    assert chromium.execute_script("return arguments[0].parentElement.open", fold)


def test_a_screen_reader_finds_its_way(chromium, page):
    opened(chromium, page)
    tree = chromium.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]]
    assert {"banner", "main", "navigation"} <= {role for role, _ in roles}
    assert all(name for role, name in roles if role in ("table", "image", "link", "heading", "region"))
    assert not [name for role, name in roles if role == "heading" and not name.strip()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_the_ground(chromium, page, scheme, shots):
    opened(chromium, page)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for selector in ("body", ".quiet", "a", "thead th", "svg text.axis"):
        script = f"const c = getComputedStyle(document.querySelector('{selector}')); return [c.color, c.fill]"
        colour, fill = chromium.execute_script(script)
        ground = chromium.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert contrast(fill if "svg" in selector else colour, ground) >= 4.5
    screenshot(chromium, shots / f"{scheme}.png")
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def contrast(one, other):
    """Return how far two colours are apart in brightness, as WCAG counts it."""

    def brightness(colour):
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def test_nothing_lies_over_anything_on_paper(chromium, page):
    opened(chromium, page)
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    resized(chromium, 680, 1000)  # A4 without its margins
    sides = "return [...document.querySelectorAll('main table, main figure')].filter(each => each.offsetParent)"
    boxes = chromium.execute_script(sides + ".map(each => { const b = each.getBoundingClientRect();"
                                            " return [b.left, b.top, b.right, b.bottom] })")  # fmt: skip
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert max(right for _, _, right, _ in boxes) <= 680
    for place, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[:place]:
            assert other[2] <= left + 1 or right <= other[0] + 1 or other[3] <= top + 1 or bottom <= other[1] + 1


def test_it_is_printed_on_a_few_pages(chromium, page):
    opened(chromium, page)
    printed = chromium.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    content = base64.b64decode(printed["data"])
    assert content.startswith(b"%PDF")
    assert 2 <= content.count(b"/Type /Page\n") <= 16
