"""The minimap of a large picture: bars that are its gradients, a frame around what is in sight."""

import re

import pytest
import tensorflow as tf

import cgviz

from .conftest import (
    has_count,
    save_without_folds,
    until,
    violations_in_light_and_dark,
    without_policy,
)
from .test_flight import VIEW

LAYERS = 50
MAP = "Map: the largest |gradient| at each depth"
SCROLLED = f"(({{ scrollTop, scrollHeight, clientHeight }}) => scrollTop / (scrollHeight - clientHeight))({VIEW}.pictures[0].box)"  # noqa: E501
FRAME = (  # where the frame begins and ends, as shares of the strip
    "() => { const [frame, strip] = ['.cgviz-sight', '.cgviz-minimap svg']"
    ".map((x) => document.querySelector(x).getBoundingClientRect()); "
    "return [frame.left, frame.right].map((x) => (x - strip.left) / strip.width); }"
)


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """Fifty folded layers, each with a smaller gradient than the one after it."""

    def f(x):
        for layer in range(LAYERS):
            with tf.name_scope(f"layer_{layer}"):
                for _ in range(4):
                    x = tf.sin(x)
        return x

    path = tmp_path_factory.mktemp("deep") / "flow.html"
    save_without_folds(cgviz.trace(f, 0.5), path)
    return path


@pytest.fixture
def opened(page, deep):
    page.goto(deep.as_uri())
    page.locator("g.cgviz-node").first.wait_for()
    until(page, f"{VIEW}.width > 0")  # once it is laid out, at its step
    return page


def test_a_bar_comes_with_its_gradient_and_is_as_high_as_the_gradient_is_large(opened):
    bars = opened.locator(".cgviz-minimap line")
    assert bars.count() == 0
    opened.evaluate(f"{VIEW}.go(40)")
    some = bars.count()
    assert 5 < some < 20
    opened.evaluate(f"{VIEW}.go(1e9)")
    assert bars.count() > LAYERS > some
    heights = opened.evaluate(
        "[...document.querySelectorAll('.cgviz-minimap line')]"
        ".map((x) => x.getAttribute('y1') - x.getAttribute('y2'))"
    )
    assert heights == sorted(heights)
    assert heights[0] < 5 < 20 < heights[-1]


def test_the_frame_is_around_what_is_in_sight_and_moves_by_key_and_click(opened):
    opened.evaluate(f"{VIEW}.go(1e9)")
    # The browser tells of a scroll at its next frame, and the frame of the map follows it.
    until(opened, f"{SCROLLED} === 0 && Math.abs(({FRAME})()[0]) < 0.01")
    strip = opened.get_by_role("slider", name=MAP)
    assert strip.get_attribute("aria-valuetext").startswith("depths 1 to ")
    strip.focus()
    opened.keyboard.press("End")
    until(opened, f"{SCROLLED} > 0.99 && ({FRAME})()[1] > 0.99")  # once it has scrolled
    assert re.search(r"to (\d+) of \1 in sight, \|gradient\| up to 1$", said(opened, strip))
    opened.evaluate(f"{VIEW}.go(0)")
    assert said(opened, strip).endswith("in sight, no gradient yet")
    box = strip.bounding_box()
    opened.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    until(opened, f"Math.abs({SCROLLED} - 0.5) < 0.03")
    middle = f"({FRAME})().reduce((a, b) => a + b) / 2"
    until(opened, f"Math.abs({middle} - 0.5) < 0.03")  # once it has scrolled


def test_a_key_of_the_map_is_not_lost_where_the_picture_has_just_moved(opened):
    until(opened, f"{SCROLLED} > 0.99 && ({FRAME})()[1] > 0.99")  # where a forward pass ends
    opened.get_by_role("slider", name=MAP).focus()
    moves = f"addEventListener('keydown', () => {VIEW}.go(1e9), {{ capture: true, once: true }})"
    opened.evaluate(moves)  # as the last step does, a frame before the map can follow
    opened.keyboard.press("End")
    opened.wait_for_timeout(200)
    assert opened.evaluate(f"{VIEW}.clock.moments.at(-1)[0] === {VIEW}.state.step")
    assert opened.evaluate(SCROLLED) > 0.99


def test_the_map_is_gone_while_all_of_it_is_in_sight(opened):
    opened.get_by_role("button", name="Fit", exact=True).click()
    has_count(opened.locator(".cgviz-minimap:not([hidden])"), 0)
    opened.get_by_role("button", name="Undo").click()
    has_count(opened.locator(".cgviz-minimap:not([hidden])"), 1)


def said(page, strip):
    page.wait_for_timeout(100)  # until it has scrolled
    return strip.get_attribute("aria-valuetext")


def test_a_small_picture_has_none_nor_has_a_quiz(page, tmp_path):
    trace = cgviz.trace(lambda x: x * x, 3.0)
    for shown in (trace.view(), cgviz.predict(trace)):
        shown.save(tmp_path / "small.html")
        page.goto((tmp_path / "small.html").as_uri())
        page.locator("g.cgviz-node").first.wait_for()
        assert page.locator(".cgviz-minimap").count() == 0


def test_axe_finds_nothing_in_it(page, deep):
    page.goto(without_policy(deep) + "#step=200")
    page.locator(".cgviz-minimap line").first.wait_for(state="attached")
    assert violations_in_light_and_dark(page) == {"light": [], "dark": []}
