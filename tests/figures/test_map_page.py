"""The map in a browser: found, hovered, turned and coloured as a person does, from a file, without a network."""

import math

import pytest
import torch

from browser import browsing, eventually, opened, requests, resized, said
from clouds import planted_cloud, run_of
from procrustes_kge.explore.space.columns import Column
from procrustes_kge.explore.space.space import beside, space_of
from procrustes_kge.figures.map import write_map

HOSTILE = {
    0: "<img src=x onerror=\"document.title='run'\">",
    1: "</script><script>document.title='run'</script>",
    2: "'\"><svg onload=document.title='run'>",
    3: "javascript:document.title='run'",
    4: "北京 天安门",
    5: "القاهرة",
    6: "🦊 fox",
    7: "&lt;script&gt;\u2028",
    8: "\ud800 half",
}
PLACE = "const p = procrustesMap.pictures[{0}]; const at = p.at(p.place({1})); return [at.x, at.y, p.width, p.height]"


@pytest.fixture(scope="module")
def cloud():
    """Vectors with arms, and a model and a graph with hostile names."""
    vectors, _ = planted_cloud(core=300)
    names = [HOSTILE.get(row, f"e{row}") for row in range(len(vectors))]
    labels = {name: f"label of {name}" for name in (HOSTILE[0], *names[9:40])}
    return vectors, *run_of(vectors, names, labels, relations=("likes", f"{HOSTILE[0]} {HOSTILE[1]}"))


@pytest.fixture(scope="module")
def path(cloud, tmp_path_factory):
    """The page of one run, with a column of numbers and one of words."""
    vectors, model, graph = cloud
    columns = [
        Column("weight", numbers=(math.nan, *map(float, range(1, len(vectors))))),
        Column(HOSTILE[0], words=("<b>large</b>", "small"), codes=tuple(row % 3 - 1 for row in range(len(vectors)))),
    ]
    space = space_of(model, graph, HOSTILE[1], columns)
    return write_map([space], tmp_path_factory.mktemp("page") / "map.html")


@pytest.fixture(scope="module")
def pair(cloud, tmp_path_factory):
    """The page of two runs, whose entities stand in another order."""
    vectors, model, graph = cloud
    first = space_of(model, graph, "one")
    order = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:-50]
    other = run_of(vectors[order], [model.entities[row] for row in order.tolist()])
    return write_map([first, beside(space_of(*other, "two"), first)], tmp_path_factory.mktemp("pair") / "map.html")


def ready(driver):
    return eventually(lambda: driver.execute_script("return !!(globalThis.procrustesMap?.pictures[0].matrix)"))


def press(driver, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(driver).send_keys(*keys).perform()


def text_of(driver, selector):
    return [each.text for each in driver.find_elements("css selector", selector)]


def looked_from(driver):
    """Return where one looks from."""
    script = "const v = procrustesMap.view; return [...v.rotation.toArray(), ...v.target.toArray(), v.distance]"
    return driver.execute_script(script)


def point_at(driver, row, picture=0, click=False):
    """Move the pointer to a point; a picture is drawn by then."""
    from selenium.webdriver import ActionChains

    driver.execute_script("procrustesMap.draw()")
    x, y, width, height = driver.execute_script(PLACE.format(picture, row))
    canvas = driver.find_elements("css selector", "canvas")[picture]
    chain = ActionChains(driver).move_to_element_with_offset(canvas, round(x - width / 2), round(y - height / 2))
    (chain.click() if click else chain).perform()


@pytest.fixture
def page(chromium, path):
    resized(chromium, 1200, 800)
    opened(chromium, path)
    ready(chromium)
    return chromium


def test_nothing_leaves_the_file_and_nothing_goes_wrong(page, path):
    page.execute_script("procrustesMap.draw()")
    assert [each for each in requests(page) if not each.startswith("data:")] == [path.resolve().as_uri()]
    assert said(page) == []


def test_no_request_can_be_made(page):
    script = "const done = arguments[0]; fetch('https://example.org/').then(() => done('sent'), () => done('refused'))"
    assert page.execute_async_script(script) == "refused"
    assert any("Content Security Policy" in each for each in said(page))


def test_names_run_no_script_wherever_they_are_shown(page):
    for row in HOSTILE:
        page.execute_script(f"procrustesMap.visit(procrustesMap.pictures[0].data.names[{row}])")
        page.execute_script(f"procrustesMap.draw(); procrustesMap.pictures[0].showTip({row})")
        same = f"document.querySelector('.side summary bdi').textContent === procrustesMap.pictures[0].name({row})"
        assert page.execute_script(f"return {same}"), row
    for way in page.execute_script("return [...document.querySelectorAll('#way option')].map((each) => each.value)"):
        choose(page, way)
    assert page.title == f"Map of {HOSTILE[1]}"
    made = page.execute_script("return document.querySelectorAll('main img, main svg, main script, main b b').length")
    assert made == 0
    assert said(page) == []


def choose(driver, way):
    driver.execute_script(
        "const s = document.getElementById('way'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", way
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [("e299", "e299"), ("LABEL of E9", "label of e9"), ("天安", HOSTILE[4]), ("القا", HOSTILE[5]), ("🦊", HOSTILE[6])],
)
def test_the_search_finds_an_entity_and_flies_to_it(page, asked, found):
    from selenium.webdriver.common.keys import Keys

    before = looked_from(page)
    press(page, "/")
    page.switch_to.active_element.send_keys(asked) if asked.isascii() else page.execute_script(
        "const e = document.activeElement; e.value = arguments[0]; e.dispatchEvent(new Event('input'))", asked
    )
    assert text_of(page, "#found li bdi")[0].split("\n")[0] == found
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert text_of(page, ".side summary bdi") == [found]
    assert looked_from(page) != before
    page.execute_script("procrustesMap.draw()")
    x, y, width, height = page.execute_script(PLACE.format(0, "p.selected"))
    assert (x, y) == pytest.approx((width / 2, height / 2), abs=2)
    assert said(page) == []


def test_a_search_that_finds_nothing_says_so(page):
    press(page, "/", "no such name")
    assert text_of(page, ".said") == ["no entity has this in its name"]


def test_hovering_shows_a_name_and_a_click_selects_it(page):
    row = page.execute_script("const p = procrustesMap.pictures[0]; return p.data.names.indexOf('e400')")
    point_at(page, row)
    assert eventually(lambda: text_of(page, ".tip bdi")) != [""]
    shown = text_of(page, ".tip bdi")[0]
    picked = page.execute_script("return procrustesMap.pictures[0].data.rows.get(arguments[0])", shown)
    far = "const p = procrustesMap.pictures[0]; const [a, b] = [{}, {}].map((row) => p.at(p.place(row)));"
    assert page.execute_script(far.format(row, picked) + "return Math.hypot(a.x - b.x, a.y - b.y)") < 8
    point_at(page, row, click=True)
    assert text_of(page, ".side summary bdi") == [shown]
    assert "degree" in text_of(page, ".details dt")


def test_the_keyboard_turns_zooms_and_clears(page):
    from selenium.webdriver.common.keys import Keys

    start = looked_from(page)
    for key in (Keys.ARROW_LEFT, Keys.ARROW_UP, "+", "-", "-"):
        before = looked_from(page)
        press(page, key)
        assert looked_from(page) != before, key
    press(page, "0")
    assert looked_from(page) == pytest.approx(start)
    press(page, "/", "e12")
    assert page.execute_script("return !!procrustesMap.pictures[0].chosen")
    press(page, Keys.ESCAPE)
    assert not page.execute_script("return !!procrustesMap.pictures[0].chosen")
    assert page.execute_script("return document.activeElement.id") != "search"
    press(page, Keys.ARROW_RIGHT)
    assert looked_from(page) != pytest.approx(start)


def test_colours_say_what_the_legend_says(page):
    names = text_of(page, ".key b")
    assert names[:2] == ["A1", "A2"]
    assert names[-1] == "in no cluster"
    for way, keys in {
        "degree": ["degree 1", "degree 2"],
        "column weight": ["weight 1", "weight 659", "without a value"],
        f"column {HOSTILE[0]}": ["<b>large</b>", "small", "without a value"],
        "slot head of likes": ["head of likes", "does not"],
    }.items():
        choose(page, way)
        assert text_of(page, ".key b") == keys
    members = page.execute_script("return procrustesMap.pictures[0].keys[0].count")
    assert members == 330
    painted = page.execute_script(
        "const { emphasis } = procrustesMap.pictures[0].surface.geometry.attributes;"
        "return emphasis.array.filter((each) => each === 2).length"
    )
    assert painted == members


def test_a_key_of_the_legend_brings_its_entities_out(page):
    page.find_element("css selector", "button.key").click()
    script = "const p = procrustesMap.pictures[0]; return p.data.names.filter((_, row) => p.chosen(row)).length"
    assert page.execute_script(script) == page.execute_script("return procrustesMap.pictures[0].data.clusters[0].size")
    page.find_element("css selector", "button.key").click()
    assert page.execute_script("return procrustesMap.pictures[0].chosen") is None


def test_points_are_drawn(page):
    """Read the picture back: there are pixels of the clusters' colours."""
    script = """
        procrustesMap.draw();
        const from = procrustesMap.pictures[0].canvas, copy = document.createElement('canvas');
        [copy.width, copy.height] = [from.width, from.height];
        const context = copy.getContext('2d');
        context.drawImage(from, 0, 0);
        const data = context.getImageData(0, 0, copy.width, copy.height).data;
        let count = 0;
        for (let at = 0; at < data.length; at += 4) count += data[at + 3] > 0 && data[at] > data[at + 2] + 60;
        return count;"""
    assert page.execute_script(script) > 100


@pytest.fixture
def phone(chromium, path):
    resized(chromium, 360, 640, touch=True)
    opened(chromium, path)
    ready(chromium)
    eventually(lambda: chromium.execute_script("return innerWidth") == 360)
    yield chromium
    resized(chromium, 1200, 800)


def test_a_phone_shows_it_without_scrolling_sideways(phone):
    page = phone
    assert page.execute_script("return document.documentElement.scrollWidth") <= 360
    outside = """return [...document.querySelectorAll('.bar *, .side *, .title')].filter((each) => {
        const box = each.getBoundingClientRect();
        return box.width && each.checkVisibility() && (box.left < -1 || box.right > 361);
    }).map((each) => each.className)"""
    assert page.execute_script(outside) == []
    assert page.execute_script("return procrustesMap.pictures[0].height") > 200


def touch(driver, kind, *places):
    points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(places)]
    driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_fingers_turn_pinch_and_tap(phone):
    page = phone
    before = looked_from(page)
    touch(page, "touchStart", (150, 300))
    touch(page, "touchMove", (200, 320))
    touch(page, "touchEnd")
    turned = looked_from(page)
    assert turned[:4] != before[:4]
    assert turned[7] == before[7]
    touch(page, "touchStart", (150, 300), (200, 300))
    touch(page, "touchMove", (100, 300), (250, 300))
    touch(page, "touchEnd")
    assert looked_from(page)[7] < turned[7]
    page.execute_script("procrustesMap.view.reset(); procrustesMap.draw()")
    x, y, *_ = page.execute_script(PLACE.format(0, 500))
    top = page.execute_script("return procrustesMap.pictures[0].canvas.getBoundingClientRect().top")
    touch(page, "touchStart", (x, y + top))
    touch(page, "touchEnd")
    assert eventually(lambda: page.execute_script("return procrustesMap.state.selected"))


def test_two_pictures_turn_together_and_select_the_same_entity(chromium, pair):
    resized(chromium, 1200, 800)
    opened(chromium, pair)
    ready(chromium)
    row = chromium.execute_script("return procrustesMap.pictures[1].data.rows.get('e400')")
    point_at(chromium, row, picture=1, click=True)
    names = chromium.execute_script("return procrustesMap.pictures.map((p) => p.data.names[p.selected])")
    assert names[0] == names[1] is not None
    places = [chromium.execute_script(PLACE.format(picture, "p.selected"))[:2] for picture in (0, 1)]
    assert places[0] == pytest.approx(places[1], abs=40)
    assert len(text_of(chromium, ".legend h3")) == 2
    chromium.find_element("css selector", "button.key").click()
    counts = chromium.execute_script(
        "return procrustesMap.pictures.map((p) => p.data.names.filter((_, row) => p.chosen(row)).length)"
    )
    assert 0 < counts[1] <= counts[0]
    assert said(chromium) == []


def test_without_webgl_the_points_are_drawn_all_the_same(path, tmp_path):
    with browsing(tmp_path / "profile", webgl=False, dark=True) as driver:
        opened(driver, path)
        ready(driver)
        assert "no WebGL" in driver.find_element("css selector", ".note").text
        point_at(driver, 320)
        assert eventually(lambda: text_of(driver, ".tip bdi")) != [""]
        script = "const c = procrustesMap.pictures[0].canvas;"
        script += "return c.getContext('2d').getImageData(0, 0, c.width, c.height)"
        assert driver.execute_script(f"{script}.data.some((part) => part > 0)")
        assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 19, 24)"
        assert [each for each in said(driver) if "SEVERE" in each] == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_entities_are_shown(chromium, tmp_path, count):
    space = space_of(*run_of(torch.eye(8)[:count], triples=[(0, 0, count - 1)], relations=["only"]), "few")
    opened(chromium, write_map([space], tmp_path / "few.html"))
    ready(chromium)
    assert said(chromium) == []
    assert "no clusters" in text_of(chromium, ".key b")[-1]


def test_many_points_are_drawn_as_squares_where_no_graphics_card_is(chromium, tmp_path):
    many = torch.randn(20_001, 4, generator=torch.Generator().manual_seed(0))
    opened(chromium, write_map([space_of(run_of(many)[0], title="many")], tmp_path / "many.html"))
    ready(chromium)
    assert "drawn as squares" in text_of(chromium, ".note")[-1]
    assert said(chromium) == []
