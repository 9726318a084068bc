"""A path of the chain rule lights up, and its products are written where they are made."""

import re
from io import BytesIO
from itertools import pairwise

import pytest
import tensorflow as tf
from golden_programs import PROGRAMS
from PIL import Image

import cgviz

from .conftest import has_count, until
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
        page.evaluate(f"{VIEW}.set({{ selected: {source} }})")
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
        page.evaluate(f"{VIEW}.set({{ selected: {source} }})")
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


def test_space_plays_after_a_path_was_clicked_and_pins_one_that_was_reached_by_tab(page, tmp_path):
    page.emulate_media(reduced_motion="reduce")
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.get_by_role("button", name="To the end").click()
    page.locator("g.cgviz-input").click()
    path = page.locator(".cgviz-path").last
    path.focus()
    page.keyboard.press("Space")
    assert path.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Space")
    assert path.get_attribute("aria-pressed") == "false"
    path.click()
    assert path.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Space")
    until(page, f"{VIEW}.state.playing")


def test_a_path_is_not_told_before_its_gradient_has_come(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.locator("g.cgviz-input").click()
    for step in (0, 1, 2):
        page.evaluate(f"{VIEW}.go({step})")
        has_count(page.locator(".cgviz-path"), 0)
    page.evaluate(f"{VIEW}.go(3)")
    has_count(page.locator(".cgviz-path"), 3)


LINE = f"""(link) => {{
  const line = {VIEW}.pictures[0].groups.get(`link ${{link}}`).querySelector(".cgviz-hit");
  const middle = line.getPointAtLength(line.getTotalLength() / 2);
  const {{ x, y }} = middle.matrixTransform(line.getScreenCTM());
  return [x, y];
}}"""


MIDDLE = """const middle = (element) => {
  const { x, y, width, height } = element.getBoundingClientRect();
  return [x + width / 2, y + height / 2];
};"""


def test_the_pointer_on_a_term_of_a_sum_lights_up_the_paths_that_make_it(page, tmp_path):
    trace = crossing()
    opened(page, tmp_path, trace)
    page.evaluate(f"{VIEW}.go(Infinity)")
    links = page.evaluate(f"{VIEW}.clock.links")
    terms = page.evaluate(f"{VIEW}.page.texts.links.map((link) => link.gradient)")
    source = page.evaluate(f"{VIEW}.clock.nodes.findIndex((node) => node.kind === 'input')")
    paths = page.evaluate(f"{VIEW}.page.panels[{source}].paths")
    into = [i for i, link in enumerate(links) if link["source"] == source]
    assert len(into) == 2
    for link in into:
        own = [path for path in paths if path["links"][-1] == link]
        page.mouse.move(2, 2)
        has_count(page.locator(".cgviz-tracing"), 0)
        page.mouse.move(*page.evaluate(LINE, link))
        has_count(page.locator(".cgviz-tracing"), 1)
        lit = {(a, b) for a, b in page.evaluate(LIT)}
        assert lit == {
            (links[i]["source"], links[i]["target"]) for path in own for i in path["links"]
        }
        total = sum(numbers(path["words"][0][2])[-1] for path in own)
        assert total == pytest.approx(numbers(terms[link])[0], rel=2e-3)


def test_the_pointer_tells_no_path_before_its_term_has_come(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.evaluate(f"{VIEW}.go(2)")
    page.mouse.move(*page.evaluate(LINE, 0))
    page.locator(".cgviz-node.cgviz-alike").first.wait_for()
    has_count(page.locator(".cgviz-tracing"), 0)


def test_the_pointer_that_left_during_a_flight_lights_up_a_path_when_it_is_back(page, tmp_path):
    opened(page, tmp_path, cgviz.trace(lambda x: x * x + 3.0 * x, 2.0))
    page.locator(".cgviz-svg").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    into = "({ nodes, links }) => links.findIndex((x) => nodes[x.source].kind === 'input')"
    link = page.evaluate(f"({into})({VIEW}.clock)")
    page.mouse.move(*page.evaluate(LINE, link))
    page.keyboard.press("ArrowRight")
    until(page, f"{VIEW}.pictures[0].flight")
    page.mouse.move(2, 2)
    until(page, f"!{VIEW}.pictures[0].flight")
    has_count(page.locator(".cgviz-tracing"), 0)
    page.mouse.move(*page.evaluate(LINE, link))
    has_count(page.locator(".cgviz-tracing"), 1)


def test_a_path_that_is_chosen_comes_into_sight(page, tmp_path):
    page.set_viewport_size({"width": 700, "height": 700})
    opened(page, tmp_path, PROGRAMS["network"]())
    page.evaluate(f"{VIEW}.go(Infinity)")
    source = page.evaluate(f"{VIEW}.page.panels.findIndex((panel) => panel.title === 'x')")
    page.evaluate(f"{VIEW}.set({{ selected: {source} }})")
    page.evaluate(f"{VIEW}.pictures[0].box.scrollTo(0, 1e6)")
    page.locator(".cgviz-path").first.focus()
    sight = f"""(() => {{
      const {{ box, groups }} = {VIEW}.pictures[0];
      const [seen, own] = [box, groups.get("node {source}")].map((x) => x.getBoundingClientRect());
      return own.top >= seen.top && own.bottom <= seen.bottom;
    }})()"""
    assert page.evaluate(sight)


@pytest.mark.parametrize("name", ["fan_out", "custom_body", "crossing"])
def test_a_note_is_tied_to_its_op_and_covers_no_line_where_there_is_space(page, tmp_path, name):
    opened(page, tmp_path, WRITTEN[name]())
    page.evaluate(f"{VIEW}.go(Infinity)")
    source = page.evaluate(f"{VIEW}.page.panels.findIndex((panel) => panel.paths)")
    page.evaluate(f"{VIEW}.set({{ selected: {source} }})")
    covered = f"""() => {{
      const {{ layer, under, parts, page, lit }} = {VIEW}.pictures[0];
      const {{ links, nodes }} = page.display;
      const along = (line, n) => line.getPointAtLength(n * line.getTotalLength());
      const inside = ({{ x, y, width, height }}, at) =>
        at.x > x && at.x < x + width && at.y > y && at.y < y + height;
      const found = [...layer.querySelectorAll(".cgviz-note > rect:not(.cgviz-leader)")];
      const notes = found.map((note) => note.getBBox());
      const hits = parts.filter(({{ of, role }}) => of === "link" && role.endsWith("ward"))
        .flatMap(({{ element }}) => [...Array(200).keys()].map((n) => along(element, n / 200)))
        .filter((at) => notes.some((note) => inside(note, at)));
      const ops = lit.links.slice(1).map((i) => nodes[links[i].target]);
      const tied = [...under.querySelectorAll(".cgviz-tie")].map((tie, n) => {{
        const [from, to] = [along(tie, 0), along(tie, 1)];
        return inside(notes[n], from) && Math.hypot(to.x - ops[n].x, to.y - ops[n].y) < 1;
      }});
      return [hits.length, notes.length, tied];
    }}"""
    for button in page.locator(".cgviz-path").all():
        button.focus()
        hits, notes, tied = page.evaluate(covered)
        assert notes > 0
        assert tied == [True] * notes
        assert hits <= 3 * notes


def test_in_one_of_two_pictures_the_paths_of_that_one_light_up(page, tmp_path):
    """The panel is about the first; the pointer is on the second, which has fewer links."""
    two = PROGRAMS["fan_out"](), cgviz.trace(lambda x: 3.0 * x, 2.0)
    two[0].view(against=two[1]).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 2)
    page.evaluate(f"{VIEW}.go(Infinity)")
    middle = LINE.replace("pictures[0]", "pictures[1]")
    link = page.evaluate(
        f"(() => {{ const {{ links, nodes }} = {VIEW}.pictures[1].page.display;"
        " return links.findIndex(({ source }) => nodes[source].kind === 'input'); })()"
    )
    page.mouse.move(*page.evaluate(middle, link))
    has_count(page.locator(".cgviz-tracing"), 1)
    count = "({ svg }) => svg.querySelectorAll('.cgviz-link.cgviz-lit').length"
    lit = f"{VIEW}.pictures.map({count})"
    assert page.evaluate(lit) == [0, 2]
    page.mouse.move(2, 2)
    has_count(page.locator(".cgviz-tracing"), 0)


def test_an_equation_that_an_arrow_says_is_not_said_again_beside_it(page, tmp_path):
    def f(x):
        a = x * x
        return a * (x + 3.0) + a

    opened(page, tmp_path, cgviz.trace(f, 2.0), local=True)
    page.evaluate(f"{VIEW}.go(Infinity)")
    page.locator("g.cgviz-input").click()
    page.locator(".cgviz-path").first.click()
    # The arrow from a has the whole gradient, 6 · 2 = 12: of it, this path brings 10.
    assert page.locator(".cgviz-note").all_text_contents() == ["5 · 2 = 10"]


def test_a_click_on_a_number_does_what_a_click_on_its_arrow_does(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.evaluate(f"{VIEW}.go(Infinity)")
    targets = page.evaluate(f"{VIEW}.clock.links.map((link) => link.target)")
    clicked = 0
    for link, target in enumerate(targets):
        for role in ("value", "gradient"):
            page.evaluate(f"{VIEW}.set({{ selected: null }})")
            number = f"{VIEW}.pictures[0].groups.get('link {link}').querySelector('.cgviz-{role}')"
            page.mouse.click(*page.evaluate(f"(() => {{ {MIDDLE} return middle({number}); }})()"))
            selected = page.evaluate(f"{VIEW}.state.selected")
            page.evaluate(f"{VIEW}.set({{ selected: null }})")
            page.mouse.click(*page.evaluate(LINE, link))
            assert selected == page.evaluate(f"{VIEW}.state.selected") is not None
            clicked += selected == target
    assert clicked


def test_stepping_keeps_the_focus_on_the_same_path_or_gives_it_to_the_picture(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["network"]())
    page.evaluate(f"{VIEW}.go(Infinity)")
    last = page.evaluate(f"{VIEW}.state.step")
    source = page.evaluate(f"{VIEW}.page.panels.findIndex((p) => p.paths && p.come < {last})")
    page.evaluate(f"{VIEW}.set({{ selected: {source} }})")
    button = page.locator(".cgviz-path").last
    words = button.text_content()
    button.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == words
    page.keyboard.press("Home")  # where no path is told
    assert page.evaluate("document.activeElement.matches('.cgviz-svg')")
    page.keyboard.press("End")
    assert page.evaluate(f"{VIEW}.state.step") == last


def test_a_jacobian_that_is_cut_has_a_shadow_there_until_keys_have_led_to_its_end(page, tmp_path):
    opened(page, tmp_path, cgviz.trace(tf.nn.softmax, [0.5, -1.125, 0.333, 2.25]))
    page.evaluate(f"{VIEW}.go(Infinity)")
    box = page.locator(".cgviz-panel .cgviz-scroll")
    box.focus()

    def edge():
        seen = box.bounding_box()
        clip = {"x": seen["x"] + seen["width"] - 2, "y": seen["y"] + 1, "width": 1, "height": 1}
        return Image.open(BytesIO(page.screenshot(clip=clip))).convert("L").getpixel((0, 0))

    def last():
        cell, seen = box.locator("td").last.bounding_box(), box.bounding_box()
        return cell["x"] + cell["width"] - seen["x"] - seen["width"]

    assert last() > 10
    assert edge() < 240
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    until(page, f"{VIEW}.root.querySelector('.cgviz-panel .cgviz-scroll').scrollLeft > 10")
    page.wait_for_timeout(300)  # it scrolls smoothly
    assert last() < 1
    assert edge() > 250


def test_arrows_scroll_a_wide_jacobian_and_step_beside_a_narrow_one(page, tmp_path):
    opened(page, tmp_path, cgviz.trace(lambda x: tf.nn.softmax(x), [0.1, 0.123, 1.0, 2.5, 3.1]))
    page.evaluate(f"{VIEW}.go(Infinity)")
    box = page.locator(".cgviz-panel .cgviz-scroll")
    box.focus()
    step = page.evaluate(f"{VIEW}.state.step")
    for wide in (True, False):
        box.evaluate("(e, wide) => { e.style.width = wide ? '150px' : '900px'; }", wide)
        page.keyboard.press("ArrowRight" if wide else "ArrowLeft")
        page.wait_for_timeout(300)
        assert (page.evaluate(f"{VIEW}.state.step") == step) == wide
        if wide:
            assert box.evaluate("(e) => e.scrollLeft") > 0
