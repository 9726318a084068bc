"""A live picture runs right or down as the width of the browser wants it."""

import re

import pytest
import tensorflow as tf
from golden_programs import PROGRAMS

import cgviz

from .conftest import has_count, until
from .test_flight import VIEW

SETUP = """\
import tensorflow as tf
import cgviz

def f(x, w):
    a = tf.sin(x * w)
    return tf.exp(a)

def g(x):
    a = tf.sin(x)
    return tf.exp(a)
"""
SHAPES = {  # a chain, two branches, a chain of four with long numbers, one node
    "chain": "cgviz.trace(lambda x: ((x**2) ** 2) ** 2, 2.0)",
    "branches": "cgviz.trace(lambda x: x * x + 3.0 * x, 2.0)",
    "deep": "cgviz.trace(lambda x: tf.sin(tf.exp(tf.tanh(tf.sin(x)))), 0.5)",
    "one": "cgviz.trace(tf.identity, 2.0)",
}
# The pixels above and below what is drawn, which share of its box that fills, how much it is
# enlarged, the height of the view, and how far its box scrolls.
PLACED = f"""(() => {{
  const {{ root, pictures: [{{ box, k, parts }}] }} = {VIEW};
  const seen = box.getBoundingClientRect();
  const drawn = parts.map(({{ element }}) => element.getBoundingClientRect()).filter(({{ width }}) => width);
  const [top, left] = ["top", "left"].map((side) => Math.min(...drawn.map((each) => each[side])));
  const [bottom, right] = ["bottom", "right"].map((side) => Math.max(...drawn.map((each) => each[side])));
  return {{
    above: top - seen.top, below: seen.bottom - bottom, k, high: root.offsetHeight,
    fills: Math.max((right - left) / (seen.width - 40), (bottom - top) / seen.height),
    scrolls: [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight],
  }};
}})()"""  # noqa: E501
DIRECTION = f"{VIEW}.clock.direction"
TIPS = f"{VIEW}.clock.paths.filter((path) => path.role === 'backward-head').length"


@pytest.mark.parametrize(
    ("code", "steps"), [("cgviz.trace(f, 2.0, 3.0)", 3), ("cgviz.explore(g, x=(1.0, 3.0))", 2)]
)
def test_it_turns_where_a_window_is_narrow_and_back_where_it_is_wide(show, code, steps):
    page = show("", views=0)
    for width, direction in ((1900, "right"), (600, "down")):
        page.set_viewport_size({"width": width, "height": 900})
        show("", views=0)
        show(code)
        page.wait_for_function(f"{DIRECTION} === '{direction}'")
    arrows = page.evaluate(TIPS)
    page.evaluate(f"{VIEW}.go(1e9)")
    has_count(page.locator(".cgviz-backward-head.cgviz-seen"), arrows)
    page.locator("g.cgviz-node", has_text="sin").focus()
    page.keyboard.press("Enter")
    page.set_viewport_size({"width": 1900, "height": 900})
    page.wait_for_function(f"{DIRECTION} === 'right'")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "a (sin), "
    )
    assert page.locator(".cgviz-where").inner_text().startswith(f"backward step {steps} of {steps}")
    has_count(page.locator(".cgviz-backward-head.cgviz-seen"), arrows)
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", [1280, 1920])
def test_in_a_notebook_a_picture_fills_its_view_and_is_at_the_top_of_it(show, shape, width):
    page = show("", views=0)
    page.set_viewport_size({"width": width, "height": 900})
    show("", views=0)
    show(SHAPES[shape])
    page.wait_for_function(f"{VIEW}.width > 0")
    page.evaluate(f"{VIEW}.go(1e9)")
    placed = page.evaluate(PLACED)
    assert placed["above"] <= 45 * placed["k"]  # the space for an equation, and the margin
    assert placed["fills"] >= 0.85 or placed["k"] >= 1.9
    assert placed["scrolls"] == [0, 0]
    assert placed["high"] <= 700
    page.set_viewport_size({"width": 1280, "height": 900})


def test_while_it_steps_a_view_keeps_its_height_and_its_picture_the_place(show):
    page = show("""
w = tf.Variable(5.0, name="w")
@tf.custom_gradient
def scale(x):
    def grad(upstream, variables):
        d_w = tf.reduce_sum(upstream * x)
        return upstream * w, [d_w]
    return w * x, grad
cgviz.trace(scale, [1.0, 2.0, 3.0])
""")
    found = set()
    for step in page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)"):
        page.evaluate(f"{VIEW}.go({step})")
        view, picture = (page.locator(f".cgviz-{x}").bounding_box() for x in ("view", "svg"))
        found.add((view["height"], picture["y"] - view["y"]))
    assert len(found) == 1


def test_what_is_typed_stays_where_a_picture_turns(show):
    page = show("", views=0)
    page.set_viewport_size({"width": 600, "height": 900})
    show("cgviz.predict(cgviz.trace(f, 2.0, 3.0))")
    page.wait_for_function(f"{DIRECTION} === 'down'")
    page.get_by_role("button", name="To the end").click()
    page.locator(".cgviz-answer input").first.fill("0.7")
    page.set_viewport_size({"width": 1600, "height": 900})
    page.wait_for_function(f"{DIRECTION} === 'right'")
    assert page.locator(".cgviz-answer input").first.input_value() == "0.7"
    page.set_viewport_size({"width": 1280, "height": 900})


def test_without_a_kernel_it_turns_too(page, tmp_path):
    namespace = {}
    exec(SETUP, namespace)
    cgviz.trace(namespace["f"], 2.0, 3.0).save(tmp_path / "flow.html")
    page.set_viewport_size({"width": 600, "height": 900})
    page.goto((tmp_path / "flow.html").as_uri())
    page.locator("g.cgviz-node").first.wait_for()
    assert page.evaluate(DIRECTION) == "down"
    page.set_viewport_size({"width": 1600, "height": 900})
    until(page, f"{DIRECTION} === 'right'")
    page.set_viewport_size({"width": 600, "height": 900})
    until(page, f"{DIRECTION} === 'down'")


def test_no_picture_is_seen_that_turns_at_once(fresh_page, tmp_path):
    """Which way it runs is known before the first frame is painted."""
    page = fresh_page
    namespace = {}
    exec(SETUP, namespace)
    cgviz.trace(namespace["f"], 2.0, 3.0).save(tmp_path / "flow.html")
    page.set_viewport_size({"width": 600, "height": 900})
    page.add_init_script(
        "const seen = globalThis.seen = []; const look = () => { requestAnimationFrame(look); "
        "const view = document.querySelector('.cgviz-view')?.cgvizView; "
        "if (view) setTimeout(() => seen.push(view.clock.direction)); }; look();"
    )
    page.goto((tmp_path / "flow.html").as_uri())
    until(page, "globalThis.seen.length > 5")
    assert set(page.evaluate("globalThis.seen")) == {"down"}


@pytest.mark.parametrize("name", ["matrices", "recurrent", "scopes_open"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
def test_in_a_saved_page_the_panel_is_as_high_as_the_window_and_the_caption_in_sight(
    page, golden, name, width, height
):
    page.set_viewport_size({"width": width, "height": height})
    page.goto(golden(name))
    has_count(page.locator(".cgviz-svg"), 1)
    page.evaluate(f"{VIEW}.go(1)")
    stage, panel, caption = (
        page.locator(f".cgviz-{part}").first.bounding_box() for part in ("stage", "panel", "status")
    )
    assert panel["x"] >= stage["x"] + stage["width"]
    assert panel["y"] + panel["height"] >= height - 120
    assert caption["y"] + caption["height"] <= height


@pytest.mark.parametrize("width", [500, 1280])
def test_no_word_of_a_long_sentence_is_cut(page, golden, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(golden("network"))
    has_count(page.locator(".cgviz-svg"), 1)
    lines = set()
    for step in page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)"):
        page.evaluate(f"{VIEW}.go({step})")
        status = page.locator(".cgviz-status")
        high, seen = status.evaluate("(e) => [e.scrollHeight, e.clientHeight]")
        assert high <= seen
        lines.add(seen)
    assert (len(lines) > 1) == (width == 500)  # else it keeps its height


@pytest.mark.parametrize("name", ["matrices", "scopes_open", "second_order"])
def test_on_paper_picture_panel_and_table_are_whole_light_and_without_buttons(page, golden, name):
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(golden(name))
    has_count(page.locator(".cgviz-svg"), 1)
    page.evaluate(f"{VIEW}.go(1)")
    page.locator(".cgviz-table summary").click()
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 720, "height": 1040})  # an A4 within its margins
    page.wait_for_timeout(100)
    assert page.locator("button:visible:not(.cgviz-path)").count() == 0
    cut = "(e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1"
    for part in (".cgviz-box", ".cgviz-panel", ".cgviz-status", ".cgviz-table .cgviz-scroll"):
        assert not page.locator(part).evaluate(cut), part
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    ink = page.locator(".cgviz-view").evaluate("(e) => getComputedStyle(e).color")
    assert max(map(int, re.findall(r"\d+", ink))) < 80


def test_verdicts_and_right_answers_are_in_sight_beside_a_small_picture(show):
    page = show("""
def three_paths(x):
    a = x * x
    b = x + 3.0
    return a * b
cgviz.predict(cgviz.trace(three_paths, 2.0))
""")
    page.set_viewport_size({"width": 1600, "height": 900})
    page.wait_for_function(f"{DIRECTION} === 'right'")
    page.get_by_role("button", name="To the end").click()
    panel, fields = page.locator(".cgviz-panel"), page.locator(".cgviz-answer input")

    def in_sight(told):
        inner, outer = told.bounding_box(), panel.bounding_box()
        assert outer["y"] <= inner["y"]
        assert inner["y"] + inner["height"] <= outer["y"] + outer["height"]

    assert panel.bounding_box()["height"] < 400
    for n in range(2):
        fields.nth(n).fill("77")
        fields.nth(n).press("Enter")
    for verdict in page.locator(".cgviz-verdict").all():
        assert "Not yet" in verdict.inner_text()
        in_sight(verdict)
    for n in range(2):
        page.get_by_role("button", name="Reveal").first.click()
        has_count(fields, 1 - n)
    has_count(page.get_by_text("revealed: "), 2)
    for told in page.get_by_text("revealed: ").all():
        in_sight(told)
    page.set_viewport_size({"width": 1280, "height": 900})


def scale(x):
    w = tf.Variable(5.0, name="w")

    @tf.custom_gradient
    def scale(x):
        def grad(upstream, variables):
            return upstream * w, [tf.reduce_sum(upstream * x)]

        return w * x, grad

    return cgviz.trace(scale, x)


def saved(page, tmp_path, trace, width, height=900):
    """Open a saved page, so narrow that no style of its own decides how high the view is."""
    trace.save(tmp_path / "flow.html")
    page.set_viewport_size({"width": width, "height": height})
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    return page.locator(".cgviz-panel"), page.locator(".cgviz-stage")


@pytest.mark.parametrize("quiz", [False, True])
@pytest.mark.parametrize("width", [880, 1010])
def test_a_panel_shows_both_calculations_and_is_as_high_at_every_step(page, tmp_path, width, quiz):
    shown = scale([1.0, 2.0])
    panel, _ = saved(page, tmp_path, cgviz.predict(shown) if quiz else shown, width)
    moments = page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)")
    heights = []
    for step in moments:
        page.evaluate(f"{VIEW}.go({step})")
        heights.append(panel.bounding_box()["height"])
    for _ in range(2 * quiz):
        page.get_by_role("button", name="Reveal").first.click()
        heights.append(panel.bounding_box()["height"])
    assert len(set(heights)) == 1
    equations = panel.locator("section.cgviz-input:has(.cgviz-heat, .cgviz-product)")
    has_count(equations, 2)
    around = panel.bounding_box()
    for each in equations.all():
        inner = each.bounding_box()
        assert around["y"] < inner["y"]
        assert inner["y"] + inner["height"] < around["y"] + around["height"]


@pytest.mark.parametrize(("width", "shape"), [(880, "one"), (1010, "chain")])
def test_a_view_of_little_is_low(page, tmp_path, width, shape):
    programs = {"one": lambda: cgviz.trace(tf.identity, 2.0), "chain": PROGRAMS["chain"]}
    panel, stage = saved(page, tmp_path, programs[shape](), width)
    page.evaluate(f"{VIEW}.go(1e9)")
    assert panel.evaluate("(e) => e.scrollHeight <= e.clientHeight"), "nothing is cut"
    last = panel.locator(":scope > :last-child").bounding_box()
    ends = [last["y"] + last["height"] - panel.bounding_box()["y"]]
    ends.append(page.locator(".cgviz-svg").bounding_box()["height"])
    assert stage.bounding_box()["height"] <= max(ends) + 60


@pytest.mark.parametrize("width", range(856, 900, 6))
def test_the_panel_is_beside_a_picture_that_runs_right_to_leave_it_space(page, tmp_path, width):
    panel, stage = saved(page, tmp_path, scale([1.0, 2.0, 3.0]), width)
    assert panel.bounding_box()["y"] == stage.bounding_box()["y"]


def test_the_sentence_sticks_only_where_much_of_its_view_is_in_sight(page, tmp_path):
    def deep(x):
        for _ in range(8):
            x = tf.sin(x)
        return x

    saved(page, tmp_path, cgviz.trace(deep, 0.5), 600, 700)
    page.evaluate("document.body.style.paddingTop = '700px'")
    sentence, stage = page.locator(".cgviz-status"), page.locator(".cgviz-stage")
    whole = []
    for scrolled in range(0, 700, 50):
        page.evaluate(f"scrollTo(0, {scrolled})")
        seen, top = sentence.bounding_box(), stage.bounding_box()["y"]
        if seen["y"] < 700:
            assert seen["y"] - top > 250, "much of the picture is above it"
        whole.append(seen["y"] + seen["height"] <= 701)
        assert whole[-1] or top > 250, "it is in sight where that is"
    assert (whole[0], whole[-1]) == (False, True)
