"""Numbers fly where values and gradients go, and are the numbers that are written there."""

import meaning
import pytest
import tensorflow as tf
from golden_programs import PROGRAMS

import cgviz

from .conftest import has_count

HEAD = 12.0  # points: the length of an arrow's head, which a chip does not pass
VIEW = "document.querySelector('.cgviz-view').cgvizView"
FLIGHT = f"""() => {{
  const view = {VIEW}, [picture] = view.pictures;
  view.advance();
  const back = picture.inner.getScreenCTM().inverse();
  const centre = (chip) => {{
    const {{ x, y, width, height }} = chip.getBoundingClientRect();
    const at = new DOMPoint(x + width / 2, y + height / 2).matrixTransform(back);
    return [at.x, at.y];
  }};
  const labels = picture.parts.filter((part) => part.of === "link" && part.k !== undefined)
    .map((part) => [`${{part.role}} ${{part.i}}`, part.element.cgvizWords]);
  const chips = [...picture.layer.querySelectorAll(".cgviz-chip")].map((chip) => {{
    const [flight] = chip.getAnimations();
    flight.pause();
    const {{ delay, duration }} = flight.effect.getTiming();
    const places = [0, 0.25, 0.5, 0.75, 0.9999].map((share) => {{
      flight.currentTime = delay + share * duration;
      return centre(chip);
    }});
    const [leg, link] = [chip.dataset.leg, Number(chip.dataset.link)];
    return {{ leg, link, words: chip.textContent, places, delay, end: delay + duration }};
  }});
  const strips = view.page.texts.links.map((link) => link.strips);
  return {{ chips, labels: Object.fromEntries(labels), step: view.state.step, strips }};
}}"""


def opened(page, tmp_path, trace, **options):
    trace.view(**options).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 2 if "against" in options else 1)


@pytest.mark.parametrize(
    "name", ["chain", "fan_out", "matrices", "custom", "two_outputs", "blocked", "second_order"]
)
def test_each_number_flies_from_what_sends_it_to_what_receives_it(page, tmp_path, name):
    trace = PROGRAMS[name]()
    opened(page, tmp_path, trace, which=len(trace.passes) - 1)
    links = page.evaluate(f"{VIEW}.clock.links.map((link) => [link.source, link.target])")
    every = page.evaluate(f"{VIEW}.clock.forward.length + {VIEW}.clock.backward.length + 1")
    page.evaluate(f"{VIEW}.go(-1e9)")
    flown = {"forward": set(), "backward": set()}
    for _ in range(every):
        found = page.evaluate(FLIGHT)
        page.evaluate(f"{VIEW}.paint()")
        seen = meaning.of_page(page)
        role = "backward" if found["step"] > 0 else "forward"
        for chip in found["chips"]:
            i, places = chip["link"], chip["places"]
            source, target = links[i]
            sender, receiver = (source, target) if role == "forward" else (target, source)
            line = meaning.dense(seen.lines[role, i])
            assert max(meaning.away(line, place) for place in places) < meaning.TOUCH
            assert near(seen, receiver, places[-1]) <= HEAD, (name, found["step"], chip)
            if chip["leg"] == "leave":
                assert near(seen, sender, places[0]) <= meaning.TOUCH, (name, chip)
                flown[role].add(i)
            strip = found["strips"][i]["value" if role == "forward" else "gradient"]
            label = found["labels"].get(f"{'value' if role == 'forward' else 'gradient'} {i}")
            if strip:
                assert chip["words"] == "", "the numbers of an array, or none"
            elif label:
                assert chip["words"] == label
    # Every gradient has flown to the one who receives it, and every value that an op made.
    back = {i for role, i in seen.lines if role == "backward"}
    made = page.evaluate(f"{VIEW}.clock.forward")
    assert flown["backward"] == back
    assert flown["forward"] == {i for i, (source, _) in enumerate(links) if source in made}


def near(seen, node, place):
    return min(meaning.away(polygon, place) for polygon in seen.outlines[node])


def test_products_leave_after_upstream_has_come_and_terms_land_one_by_one(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    steps = page.evaluate(f"{VIEW}.clock.backward")
    landed = []
    for step in steps:
        page.evaluate(f"{VIEW}.go({step - 1 or 0.5})")
        chips = page.evaluate(FLIGHT)["chips"]
        come = [chip["end"] for chip in chips if chip["leg"] == "come"]
        leave = [chip for chip in chips if chip["leg"] == "leave"]
        assert max(come) < min(chip["delay"] for chip in leave)
        landed.append(len({chip["end"] for chip in leave}) == len(leave))
    assert all(landed)


SUMS = f"""at => {{
  const [picture] = {VIEW}.pictures;
  for (const each of picture.flight) {{
    each.pause();
    each.currentTime = at;
  }}
  const sums = picture.parts.filter(({{ of, role }}) => of === "node" && role === "gradient");
  const flying = picture.layer.querySelectorAll(":scope > text");
  return [...sums.map(({{ element }}) => element), ...flying]
    .filter((text) => Number(getComputedStyle(text).opacity) > 0.5)
    .map((text) => text.textContent).join("");
}}"""


def test_a_sum_says_at_every_moment_of_the_flight_what_has_landed(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.evaluate(f"{VIEW}.go(1)")
    words = []
    for _ in range(2):
        duration = page.evaluate(f"{VIEW}.advance()")
        page.evaluate(SUMS, 0)  # it waits, until what is told has come up on its node
        page.wait_for_timeout(200)
        words += [page.evaluate(SUMS, share * duration) for share in (0.0, 0.5, 0.9, 0.999)]
    assert words[:4] == ["gradient = …", "gradient = …", "2 + …", "2 + 2 + …"]
    assert words[4:] == ["2 + 2 + …"] * 3 + ["gradient = 2 + 2 + 3 = 7"]


def test_a_step_ends_the_flight_before_and_those_who_want_no_motion_see_no_chip(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["chain"]())
    chips = page.locator(".cgviz-chip")
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".cgviz-where").inner_text() == "backward step 1 of 2"
    has_count(chips, 2)
    page.keyboard.press("ArrowLeft")
    has_count(chips, 0)
    page.emulate_media(reduced_motion="reduce")
    page.keyboard.press("ArrowRight")
    has_count(chips, 0)
    fading = f"{VIEW}.pictures[0].flight.length"
    assert page.evaluate(fading) > 0
    page.wait_for_timeout(600)
    assert page.evaluate(f"{VIEW}.pictures[0].flight") is None


def test_a_chip_at_the_border_is_not_cut(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["custom_body"]())
    page.evaluate(f"{VIEW}.go(0)")
    page.evaluate(f"{VIEW}.advance()")
    inside = f"""() => {{
      const [picture] = {VIEW}.pictures;
      const stage = picture.svg.parentElement.getBoundingClientRect();
      const [chip] = picture.layer.querySelectorAll(".cgviz-chip");
      const [flight] = chip.getAnimations();
      flight.pause();
      const {{ delay, duration }} = flight.effect.getTiming();
      return [0, 0.5, 0.999].every((share) => {{
        flight.currentTime = delay + share * duration;
        const {{ left, right }} = chip.getBoundingClientRect();
        return left >= stage.left && right <= stage.right;
      }});
    }}"""
    assert page.evaluate(inside)


# The words of an element that are seen now, at some shares of the time in which they fade in.
SEEN = """([selector, shares]) => {
  const element = document.querySelector(selector);
  const come = element.getAnimations({ subtree: true });
  const words = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  return shares.map((share) => {
    for (const each of come) {
      each.pause();
      each.currentTime = share * each.effect.getTiming().duration;
    }
    let seen = "";
    for (words.currentNode = element; words.nextNode();) {
      let dim = 1;
      for (let around = words.currentNode.parentElement; around; around = around.parentElement) {
        dim *= Number(getComputedStyle(around).opacity);
      }
      if (dim > 0.9) seen += words.currentNode.data;
    }
    return seen;
  });
}"""


def test_the_panel_and_the_sentence_tell_the_product_when_it_has_been_made(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["chain"]())
    page.evaluate(f"{VIEW}.go(1)")
    page.evaluate(f"{VIEW}.advance()")
    before, at_last = page.evaluate(SEEN, [".cgviz-status", [0.3, 0.99]])
    assert before == "Backward step 2 of 2: x² gets upstream 0.9689"
    assert at_last == f"{before} and returns 0.9689 to x."
    before, at_last = page.evaluate(SEEN, [".cgviz-panel", [0.3, 0.99]])
    assert before.startswith("x² opvalue 0.25 float32 scalarupstream 0.9689to x")
    assert "local" not in before
    assert "downstream" not in before
    assert "upstream0.9689·local1=downstream0.9689" in at_last


def test_what_an_op_makes_is_told_when_it_has_been_made_and_its_name_before(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["chain"]())
    page.evaluate(f"{VIEW}.go(-1)")
    page.evaluate(f"{VIEW}.advance()")
    before, at_last = page.evaluate(SEEN, [".cgviz-status", [0.3, 0.99]])
    assert before == "Forward 2 of 2: sin"
    assert at_last == "Forward 2 of 2: sin gives 0.2474."
    before, at_last = page.evaluate(SEEN, [".cgviz-panel", [0.3, 0.99]])
    assert before.startswith("sin opvalue ")
    assert "0.2474" not in before
    assert "0.2474" in at_last


def test_a_name_that_reads_as_a_verb_brings_no_number_before_it_comes(page, tmp_path):
    @tf.custom_gradient
    def named(x):
        return 2.0 * x, lambda upstream: 7.0 * upstream

    named.__name__ = "it gives 3"
    opened(page, tmp_path, cgviz.trace(lambda x: tf.sin(named(x)), 2.0))
    for step in (-1, 0.5, 1):
        page.evaluate(f"{VIEW}.go({step})")
        page.evaluate(f"{VIEW}.advance()")
        before, at_last = page.evaluate(SEEN, [".cgviz-status", [0.3, 0.99]])
        assert at_last.startswith(before)
        assert not {"returns", "0.7568", "4."} & set(before.split())


def test_a_node_whose_gradient_comes_says_so_before_and_in_the_flight(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    said = f"""{VIEW}.pictures[0].parts
      .filter(({{ of, role }}) => of === "node" && role === "gradient")
      .map(({{ element }}) => element.cgvizWords)"""
    every = []
    for step in (-3, 0, 1, 2, 3):
        page.evaluate(f"{VIEW}.go({step})")
        every += page.evaluate(said)
    assert every == [*["gradient = …"] * 3, "2 + 2 + …", "gradient = 2 + 2 + 3 = 7"]
    opened(page, tmp_path, PROGRAMS["chain"]())
    page.evaluate(f"{VIEW}.go(1)")
    page.evaluate(f"{VIEW}.advance()")
    assert page.locator(".cgviz-layer > .cgviz-gradient").all_text_contents() == ["gradient = …"]


NOTE = f"""() => {{
  const view = {VIEW}, [picture] = view.pictures;
  view.advance();
  const box = (element) => {{
    const {{ left, top, right, bottom }} = element.getBoundingClientRect();
    return [left, top, right, bottom];
  }};
  const note = picture.layer.querySelector(".cgviz-note > rect:not(.cgviz-leader)");
  const names = picture.parts.filter(({{ of, element }}) => of === "node" && element.cgvizWords)
    .map(({{ element }}) => [element.cgvizWords, box(element)]);
  return {{ note: note && box(note), names, stage: box(picture.box) }};
}}"""


@pytest.mark.parametrize("width", [420, 1280])
@pytest.mark.parametrize("name", ["chain", "fan_out", "custom", "two_outputs", "variables"])
def test_equations_are_in_sight_and_on_no_name(page, tmp_path, name, width):
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, tmp_path, PROGRAMS[name]())
    noted = 0
    for _ in range(page.evaluate(f"{VIEW}.clock.backward.length + 1")):
        found = page.evaluate(NOTE)
        if found["note"] is None:
            continue
        noted += 1
        inside = [*(a >= b for a, b in zip(found["note"][:2], found["stage"][:2], strict=True))]
        inside += [a <= b for a, b in zip(found["note"][2:], found["stage"][2:], strict=True)]
        assert all(inside), found
        for words, box in found["names"]:
            assert not meaning.overlap(found["note"], box), words
    assert noted > 0


@pytest.mark.parametrize("width", [1500, 700])
def test_a_low_picture_is_at_the_top_of_its_stage_which_is_as_high_as_the_panel(
    page, tmp_path, width
):
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, tmp_path, PROGRAMS["chain"]())
    box = lambda selector: page.locator(selector).first.bounding_box()  # noqa: E731
    stage, picture, legend, panel = map(
        box, (".cgviz-stage", ".cgviz-svg", ".cgviz-legend", ".cgviz-panel")
    )
    assert picture["y"] - stage["y"] <= 3
    if width > 1000:  # the panel is beside it
        ends = [each["y"] + each["height"] for each in (legend, panel)]
        assert abs(ends[0] - ends[1]) <= 3


def test_what_plays_says_each_of_its_steps(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["chain"]())
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(f"{VIEW}.go(-1e9)")
    said = page.evaluate(f"""() => new Promise((done) => {{
      const said = [], {{ status }} = {VIEW};
      const watch = new MutationObserver(() => said.push(status.textContent));
      watch.observe(status, {{ childList: true }});
      {VIEW}.playOrPause();
      setInterval(() => {VIEW}.state.playing || done(said), 50);
    }})""")
    names = page.evaluate(f"{VIEW}.clock.moments.map(([, name]) => name)")
    assert [words.split(":")[0].lower() for words in said] == names[1:]


def test_at_the_start_of_the_backward_pass_the_panel_stays_on_the_op_whose_gradient_comes(
    page, tmp_path
):
    opened(page, tmp_path, PROGRAMS["chain"]())
    title = page.locator(".cgviz-panel .cgviz-title")
    page.evaluate(f"{VIEW}.go(0)")
    before = title.inner_text()
    page.evaluate(f"{VIEW}.go(0.5)")
    assert title.inner_text() == before
    assert page.locator(".cgviz-panel .cgviz-backtext").first.inner_text() == "1"


def test_an_arrow_chooses_its_op_also_where_that_was_chosen_and_nothing_frames_the_picture(
    page, tmp_path
):
    opened(page, tmp_path, PROGRAMS["chain"]())
    page.locator("g.cgviz-node").nth(1).focus()
    page.keyboard.press("ArrowRight")
    arrow = page.locator(".cgviz-link > .cgviz-hit").first
    for _ in range(2):
        arrow.click(force=True)
        assert page.evaluate(f"{VIEW}.state.selected") == 1
    outline = "getComputedStyle(document.querySelector('.cgviz-svg')).outlineStyle"
    assert page.evaluate(outline) == "none"


def test_of_a_product_its_result_alone_flies_and_one_that_is_not_returned_stands_out(
    page, tmp_path
):
    @tf.custom_gradient
    def square(x):
        return x * x, lambda upstream: 2.0 * x

    opened(page, tmp_path, cgviz.trace(lambda x: 3.0 * square(x), 2.0), local=True, start="end")
    labels = page.locator(".cgviz-link > .cgviz-gradient")
    assert labels.all_text_contents() == ["3 · 4 ≠ 4", "1 · 3 = 3", "1"]
    look = "(label) => [getComputedStyle(label).fontWeight, getComputedStyle(label).fill]"
    (wrong, purple), (right, orange) = (labels.nth(i).evaluate(look) for i in (0, 1))
    assert (wrong, right) == ("700", "400")
    assert purple != orange
    page.evaluate(f"{VIEW}.go(0)")
    flown = []
    for _ in range(3):
        flown += [chip["words"] for chip in page.evaluate(FLIGHT)["chips"]]
    assert flown == ["1", "1", "3", "3", "4"]
