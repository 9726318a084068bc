"""A path of the chain rule lights up, and its products are written where they are made."""

import re
from itertools import pairwise

import pytest
import tensorflow as tf
from golden_programs import PROGRAMS

import cgviz

from .conftest import has_count
from .test_flight import VIEW, opened

LIT = f"""() => {{
  const {{ groups, page }} = {VIEW}.pictures[0];
  const lit = page.display.links.filter((_, i) => groups.get(`link ${{i}}`).matches(".cgviz-lit"));
  return lit.map(({{ source, target }}) => [source, target]);
}}"""


def numbers(words):
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", words.replace("−", "-"))]


@pytest.mark.parametrize("name", ["fan_out", "custom_body", "chain"])
def test_a_path_leads_from_the_target_to_the_source_and_its_products_are_true(page, tmp_path, name):
    trace = PROGRAMS[name]()
    opened(page, tmp_path, trace)
    page.get_by_role("button", name="To the end").click()
    told = "(panel, i) => panel.paths ? [i] : []"
    sources = page.evaluate(f"{VIEW}.page.panels.flatMap({told})")
    assert sources
    for source in sources:
        page.evaluate(f"{VIEW}.select(0, {source})")
        gradient = page.locator(".cgviz-fact .cgviz-backtext").inner_text()
        total = 0.0
        for button in page.locator(".cgviz-path").all():
            button.focus()
            ends = page.evaluate(LIT)
            chain = {target: node for node, target in ends}
            at, steps = max(chain), 0
            while at in chain:
                at, steps = chain[at], steps + 1
            assert (at, steps) == (source, len(ends))
            products = [numbers(words) for words in page.locator(".cgviz-note").all_text_contents()]
            assert len(products) == len(ends) - 1
            for upstream, factor, product in products:
                assert upstream * factor == pytest.approx(product, rel=2e-3)
            for (*_, before), (after, *_) in pairwise(products):
                assert before == after
            total += products[-1][-1]
        assert total == pytest.approx(numbers(gradient)[-1], rel=2e-3)


AWAY = f"""() => {{
  const {{ layer, page, lit }} = {VIEW}.pictures[0];
  const {{ links, nodes }} = page.display;
  const ops = lit.links.slice(1).map((i) => links[i].target);
  const between = (a, b, length) => Math.max(Math.abs(a - b) - length / 2, 0);
  const notes = [...layer.querySelectorAll(".cgviz-note > rect:not(.cgviz-leader)")];
  return notes.map((note, n) => {{
    const at = note.getBBox();
    const [x, y] = [at.x + at.width / 2, at.y + at.height / 2];
    const away = (op) => {{
      const {{ x: left, y: top, width, height }} = nodes[op];
      return Math.hypot(between(x, left, at.width + width), between(y, top, at.height + height));
    }};
    const own = nodes[ops[n]];
    return [Math.abs(x - own.x) <= own.width / 2, away(ops[n]), Math.min(...ops.map(away))];
  }});
}}"""


def crossing():
    """Ops above and below each other, at which there is little space."""

    def f(x):
        y = x * tf.exp(x)
        z = y * tf.sin(y)
        return y * z

    return cgviz.trace(f, 0.5)


WRITTEN = {name: PROGRAMS[name] for name in ("fan_out", "custom_body", "custom", "network")}
WRITTEN["crossing"] = crossing


@pytest.mark.parametrize("name", WRITTEN)
def test_a_product_is_written_at_the_op_that_made_it_and_not_at_another(page, tmp_path, name):
    opened(page, tmp_path, WRITTEN[name]())
    page.get_by_role("button", name="To the end").click()
    told = "(panel, i) => panel.paths ? [i] : []"
    for source in page.evaluate(f"{VIEW}.page.panels.flatMap({told})"):
        page.evaluate(f"{VIEW}.select(0, {source})")
        for button in page.locator(".cgviz-path").all():
            button.focus()
            found = page.evaluate(AWAY)
            assert found
            for in_its_column, own, nearest in found:
                assert in_its_column or own <= nearest + 1


def test_a_click_pins_a_path_and_escape_releases_it(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.get_by_role("button", name="To the end").click()
    page.locator("g.cgviz-input").click()
    path = page.locator(".cgviz-path").last
    path.hover()
    has_count(page.locator(".cgviz-link.cgviz-lit"), 3)
    page.mouse.move(2, 2)
    has_count(page.locator(".cgviz-tracing"), 0)
    path.click()
    page.mouse.move(2, 2)
    has_count(page.locator(".cgviz-tracing"), 1)
    assert path.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    has_count(page.locator(".cgviz-tracing, .cgviz-note"), 0)
    assert path.get_attribute("aria-pressed") == "false"


def test_a_path_is_not_told_before_its_gradient_has_come(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.locator("g.cgviz-input").click()
    for step in (0, 1, 2):
        page.evaluate(f"{VIEW}.go({step})")
        has_count(page.locator(".cgviz-path"), 0)
    page.evaluate(f"{VIEW}.go(3)")
    has_count(page.locator(".cgviz-path"), 3)
