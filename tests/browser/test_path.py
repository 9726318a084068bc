"""A path of the chain rule lights up, and its products are written where they are made."""

import re
from itertools import pairwise

import pytest
from golden_programs import PROGRAMS

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
