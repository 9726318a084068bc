"""Presenting: the picture alone, in letters for the last row, by keys."""

import pytest
import tensorflow as tf
from golden_programs import PROGRAMS

import cgviz
from cgviz.live import explorer

from .conftest import has_count, until, without_policy
from .test_flight import VIEW, opened

FITTED = f"{VIEW}.width === innerWidth && {VIEW}.height === innerHeight"


def the_screen_is_full(page):
    """Wait until there is nothing else on the screen, and the picture is fitted to it."""
    until(page, f"document.fullscreenElement && {FITTED}")


@pytest.fixture
def presented(page, tmp_path):
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.emulate_media(reduced_motion="reduce")
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("f")
    the_screen_is_full(page)
    return page


@pytest.mark.parametrize("name", ["chain", "variables", "matrices", "second_order", "blocked"])
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080)])
def test_all_of_a_picture_is_on_the_screen_and_fills_it(page, tmp_path, name, width, height):
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(reduced_motion="reduce")
    trace = PROGRAMS[name]()
    opened(page, tmp_path, trace)
    page.evaluate(f"{VIEW}.present(true)")
    the_screen_is_full(page)
    status = page.locator(".cgviz-status").bounding_box()
    assert status["y"] + status["height"] <= height
    for step in (-1e9, 0, *range(1, len(trace.steps) + 1)):
        page.evaluate(f"{VIEW}.go({step})")
        found = page.evaluate(
            f"[...{VIEW}.pictures[0].parts.map((part) => part.element), "
            "...document.querySelectorAll('.cgviz-note > rect')]"
            ".map((x) => x.getBoundingClientRect()).filter((x) => x.width && x.height)"
        )
        assert min(box["left"] for box in found) >= 0
        assert max(box["right"] for box in found) <= width
        assert min(box["top"] for box in found) >= 0
        assert max(box["bottom"] for box in found) <= status["y"]
    wide = max(box["right"] for box in found) - min(box["left"] for box in found)
    high = max(box["bottom"] for box in found) - min(box["top"] for box in found)
    assert max(wide / width, high / status["y"]) >= 0.9
    assert page.evaluate(f"11.5 * {VIEW}.pictures[0].k") >= 24 * width / 1920


def test_a_picture_that_was_zoomed_is_presented_whole_and_is_zoomed_again_after_it(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.locator("g.cgviz-node").first.focus()
    scale = f"{VIEW}.pictures[0].k"
    page.keyboard.press("f")
    the_screen_is_full(page)
    whole = page.evaluate(scale)
    page.keyboard.press("f")
    until(page, f"!document.fullscreenElement && {VIEW}.width < innerWidth")
    for _ in range(3):
        page.keyboard.press("+")
    zoomed = page.evaluate(scale)
    assert zoomed > whole
    page.keyboard.press("f")
    the_screen_is_full(page)
    assert page.evaluate(scale) == whole
    page.keyboard.press("f")
    until(page, f"!document.fullscreenElement && {VIEW}.width < innerWidth")
    assert page.evaluate(scale) == zoomed


def test_equations_are_placed_anew_where_the_screen_becomes_higher(page, tmp_path):
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(reduced_motion="reduce")
    forgetful = tf.custom_gradient(lambda x: (x * x, lambda upstream: 2 * x))
    trace = cgviz.trace(lambda x: 3.0 * forgetful(x), 2.0)
    trace.view(against=trace).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 2)
    page.evaluate(f"{VIEW}.go(2)")
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
    page.evaluate(f"{VIEW}.present(true)")
    notes, boxes = page.locator(".cgviz-note > rect"), page.locator(".cgviz-box")
    for height in (720, 1000):
        page.set_viewport_size({"width": 1280, "height": height})
        until(page, f"innerHeight === {height} && {FITTED}")
        assert notes.count() == boxes.count() == 2
        for note, box in zip(notes.all(), boxes.all(), strict=True):
            inner, outer = note.bounding_box(), box.bounding_box()
            assert inner["x"] >= outer["x"]
            assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]


def where(page):
    return page.evaluate(f"{VIEW}.state.step")


def test_letters_are_read_from_the_last_row_and_the_op_is_in_sight(presented):
    for step in (0, 0.5, 1, 2, 3):
        presented.evaluate(f"{VIEW}.go({step})")
        sizes = presented.evaluate(
            f"{VIEW}.pictures[0].parts.filter((p) => p.k !== undefined && p.element.textContent)"
            ".map((p) => p.size * p.element.getScreenCTM().a)"
        )
        assert min(sizes) >= 36.9
        assert presented.locator(".cgviz-bar, .cgviz-panel").first.is_hidden()
        if step >= 1:
            for seen in (
                ".cgviz-node > .cgviz-outline.cgviz-now",
                ".cgviz-note > rect:not(.cgviz-leader)",
            ):
                box = presented.locator(seen).first.bounding_box()
                assert box["x"] >= 0
                assert box["y"] >= 0
                assert box["x"] + box["width"] <= 1920
                assert box["y"] + box["height"] <= 1080


def test_keys_step_blank_restart_help_and_leave(presented):
    presented.keyboard.press(" ")
    assert where(presented) == 0.5
    presented.keyboard.press(" ")
    assert where(presented) == 1
    note = presented.locator(".cgviz-note.cgviz-still")
    assert note.text_content() == "1 · 1 = 1"
    presented.keyboard.press("b")
    assert note.is_hidden()
    assert presented.locator(".cgviz-value").first.is_hidden()
    presented.keyboard.press("b")
    assert presented.locator(".cgviz-value").first.is_visible()
    presented.keyboard.press("ArrowLeft")
    assert where(presented) == 0.5
    presented.keyboard.press("r")
    assert where(presented) == -3
    keys = presented.locator(".cgviz-keys")
    assert keys.is_hidden()
    presented.keyboard.press("?")
    assert "Numbers off and on" in keys.inner_text()
    presented.keyboard.press("f")
    has_count(presented.locator(".cgviz-presenting, .cgviz-note"), 0)
    assert keys.is_hidden()
    assert presented.locator(".cgviz-bar").is_visible()


def test_a_small_picture_is_in_the_middle_of_the_screen(presented):
    seen = presented.locator(".cgviz-svg").bounding_box()
    assert abs(seen["x"] - (1920 - seen["x"] - seen["width"])) <= 2


def test_a_field_of_a_quiz_is_where_its_question_is_and_not_cut(page, tmp_path):
    page.set_viewport_size({"width": 1920, "height": 1080})
    cgviz.predict(PROGRAMS["fan_out"]()).save(tmp_path / "quiz.html")
    page.goto((tmp_path / "quiz.html").as_uri())
    page.locator("g.cgviz-node").first.focus()  # once the page is there
    page.keyboard.press("f")
    the_screen_is_full(page)
    page.keyboard.press("End")
    fields = page.locator("foreignObject.cgviz-answer").all()
    assert fields
    for field in fields:
        around, own = field.bounding_box(), field.locator("input").bounding_box()
        assert abs(around["y"] - own["y"]) <= 2
        assert own["height"] <= around["height"] + 2


def test_a_question_and_what_is_wrong_with_its_answer_are_on_the_screen(page, tmp_path):
    page.set_viewport_size({"width": 1280, "height": 800})
    cgviz.predict(PROGRAMS["fan_out"]()).save(tmp_path / "quiz.html")
    page.goto((tmp_path / "quiz.html").as_uri())
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("f")
    until(page, f"document.fullscreenElement && {FITTED}")
    page.keyboard.press("End")
    status = page.locator(".cgviz-status")
    for field in page.locator(".cgviz-answer input").all():
        field.focus()
        assert field.get_attribute("aria-label") in status.inner_text()
        page.keyboard.type("77")
        page.keyboard.press("Enter")
        assert "✗ Not yet. Multiply" in status.inner_text()


def test_an_open_question_keeps_the_focus_where_it_is_presented(page, tmp_path):
    cgviz.predict(PROGRAMS["fan_out"]()).save(tmp_path / "quiz.html")
    page.goto((tmp_path / "quiz.html").as_uri())
    page.locator("g.cgviz-node").first.focus()
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
    page.keyboard.press("End")
    page.get_by_role("button", name="Present").click()
    until(page, FITTED)
    page.keyboard.type("-2")
    assert page.locator(".cgviz-answer input").first.input_value() == "-2"


def test_after_the_last_answer_the_keys_still_step_and_leave(page, tmp_path):
    cgviz.predict(cgviz.trace(tf.square, 3.0)).save(tmp_path / "quiz.html")
    page.goto((tmp_path / "quiz.html").as_uri())
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("f")
    the_screen_is_full(page)
    page.keyboard.press("End")
    page.locator(".cgviz-answer input").focus()
    page.keyboard.type("6")
    page.keyboard.press("Enter")
    until(page, f"{VIEW}.questions.open.length === 0")
    page.keyboard.press("ArrowLeft")
    until(page, f"{VIEW}.state.step === 0.5")
    page.keyboard.press("Escape")
    has_count(page.locator(".cgviz-presenting"), 0)


def test_escape_leaves_from_a_slider_too(page, tmp_path):
    cgviz.explore(lambda x: x * x, x=(-2.0, 2.0), upstream=None).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
    page.evaluate(f"{VIEW}.present(true)")
    page.get_by_role("slider", name="x").focus()
    page.keyboard.press("Escape")
    has_count(page.locator(".cgviz-presenting"), 0)


def test_no_box_says_again_what_an_arrow_says(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["chain"](), local=True)
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(f"{VIEW}.present(true)")
    page.evaluate(f"{VIEW}.go(1)")
    assert " · " in page.locator(".cgviz-gradient.cgviz-now").first.text_content()
    assert page.locator(".cgviz-note").count() == 0


def test_sliders_stay_and_no_box_covers_what_they_move(page, tmp_path):
    explorer = cgviz.explore(lambda x: x * x, x=(-2.0, 2.0), upstream=None)
    explorer.save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    page.evaluate(f"{VIEW}.present(true)")
    page.evaluate(f"{VIEW}.go(1)")
    assert page.get_by_role("slider", name="x").is_visible()
    assert page.locator(".cgviz-plots").is_hidden()
    assert page.locator(".cgviz-note").count() == 0
    status = page.locator(".cgviz-status").bounding_box()
    assert status["y"] + status["height"] <= page.viewport_size["height"]


def test_the_box_of_the_keys_is_on_the_screen_whatever_the_page_does_with_lists(page, tmp_path):
    PROGRAMS["chain"]().save(tmp_path / "flow.html")
    page.goto(without_policy(tmp_path / "flow.html"))
    jupyterlab = (
        "body dl, body dt, body dd { display: block; } body dl { overflow: hidden; padding: 0; "
        "width: 100%; } body dt { float: left; width: 20%; } body dd { float: left; width: 80%; }"
    )
    page.add_style_tag(content=jupyterlab)
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("?")
    keys = page.locator(".cgviz-keys").bounding_box()
    assert keys["x"] >= 0
    assert keys["width"] < 600
    name = page.locator(".cgviz-keys dt").first.bounding_box()
    assert name["x"] >= keys["x"] + 10
    assert name["height"] < 30


def test_no_node_but_that_of_the_moment_is_marked_until_one_is_chosen_by_key(presented):
    assert presented.locator("g.cgviz-node:focus").count() == 0
    presented.keyboard.press("ArrowRight")
    assert where(presented) == 0.5
    presented.keyboard.press("Tab")
    ring = presented.locator("g.cgviz-node:focus > .cgviz-outline").first
    assert ring.evaluate("(e) => getComputedStyle(e).strokeDasharray") != "none"


COVERED = """() => {
  const box = (element) => element.getBoundingClientRect();
  const notes = [...document.querySelectorAll(".cgviz-note > rect:not(.cgviz-leader)")].map(box);
  const drawn = [...document.querySelectorAll(".cgviz-svg text")].filter((text) =>
    text.textContent && !text.closest(".cgviz-note"));
  const apart = (a, b) =>
    a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  const covered = drawn.filter((text) => !notes.every((note) => apart(note, box(text))));
  return covered.map((text) => text.textContent);
}"""


def entropy():
    return cgviz.trace(lambda p: -tf.reduce_sum(tf.math.xlogy(p, p)), [0.2, 0.5])


@pytest.mark.parametrize(
    "make", [entropy, *map(PROGRAMS.get, ["chain", "fan_out", "variables", "network"])]
)
def test_the_equations_of_an_op_cover_no_name_and_no_number(page, tmp_path, make):
    page.emulate_media(reduced_motion="reduce")
    trace = make()
    opened(page, tmp_path, trace)
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
    page.evaluate(f"{VIEW}.present(true)")
    for width, height in ((1280, 720), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        until(page, f"innerHeight === {height} && {FITTED}")
        for step in page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)"):
            page.evaluate(f"{VIEW}.go({step})")
            assert page.evaluate(COVERED) == [], step


def test_equations_that_have_a_free_place_stay(page, tmp_path):
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 900})
    opened(page, tmp_path, PROGRAMS["fan_out"]())
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")
    page.evaluate(f"{VIEW}.present(true)")
    for step in page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)"):
        page.evaluate(f"{VIEW}.go({step})")
        assert page.locator(".cgviz-note").count() == (step >= 1 and step % 1 == 0), step


def test_that_a_rule_returns_another_number_is_said_whatever_it_covers(page, tmp_path):
    page.emulate_media(reduced_motion="reduce")
    forgetful = tf.custom_gradient(lambda x: (x * x, lambda upstream: 2 * x))
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(page, tmp_path, cgviz.trace(lambda x: 3.0 * forgetful(x), [1.125, 2.25]))
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")
    page.evaluate(f"{VIEW}.present(true)")
    page.evaluate(f"{VIEW}.go(2)")
    assert page.evaluate(COVERED)
    assert "≠" in page.locator(".cgviz-note").text_content()


def test_sliders_are_equally_long(page, tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "POSITIONS", (3,))
    cgviz.explore(lambda x: x * x, x=(-2.0, 2.0)).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")
    page.evaluate(f"{VIEW}.present(true)")
    sliders = [slider.bounding_box() for slider in page.locator(".cgviz-slider input").all()]
    assert len({slider["width"] for slider in sliders}) == 1


@pytest.mark.parametrize("by_key", [True, False])
def test_the_keys_work_where_presenting_turns_the_picture(page, tmp_path, by_key):
    page.set_viewport_size({"width": 1280, "height": 800})

    def f(x):
        a = x * x
        b = tf.sin(a)
        return (a * b + 3.0 * x) / (1.0 + b)

    opened(page, tmp_path, cgviz.trace(f, 1.3))
    direction = f"{VIEW}.clock.direction"
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
    before = page.evaluate(direction)
    if by_key:
        page.locator(".cgviz-svg").focus()
        page.keyboard.press("f")
    else:
        page.get_by_role("button", name="Present").click()
    until(page, FITTED)
    page.set_viewport_size({"width": 1400, "height": 500})  # as a screen that is entered late
    until(page, f"{direction} !== {before!r} && {FITTED}")
    focused = "document.activeElement.matches('.cgviz-svg')"
    assert page.evaluate(focused)
    page.keyboard.press("Home")
    for step in page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)")[1:3]:
        page.keyboard.press("ArrowRight")
        assert where(page) == step
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1280, "height": 800})
    until(page, f"!{VIEW}.state.presenting && {direction} === {before!r}")
    assert page.evaluate(focused)
    page.keyboard.press("ArrowLeft")
    assert where(page) < step


def test_a_sentence_of_three_lines_is_whole(page, tmp_path):
    page.set_viewport_size({"width": 1920, "height": 1080})
    opened(page, tmp_path, PROGRAMS["matrices"]())
    page.evaluate(f"{VIEW}.present(true)")
    the_screen_is_full(page)
    status = page.locator(".cgviz-status")
    status.evaluate("(e) => { e.textContent = 'Backward step 5: word '.repeat(13); }")
    lines = (
        "(e) => { const all = document.createRange(); all.selectNodeContents(e); "
        "return all.getClientRects().length; }"
    )
    assert status.evaluate(lines) == 3
    assert status.evaluate("(e) => e.scrollHeight <= e.clientHeight")


def test_what_plays_stops_where_it_is_presented_and_a_key_is_one_step(page, tmp_path):
    opened(page, tmp_path, PROGRAMS["chain"]())
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
    page.locator(".cgviz-svg").focus()
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    until(page, f"{VIEW}.state.playing")
    page.keyboard.press("f")
    before = where(page)
    page.keyboard.press(" ")
    moments = page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)")
    assert moments.index(where(page)) == moments.index(before) + 1
    page.wait_for_timeout(2500)  # longer than a step that plays
    assert moments.index(where(page)) == moments.index(before) + 1
    page.keyboard.press("?")
    assert "in Present one step forward" in page.locator(".cgviz-keys").inner_text()


@pytest.mark.parametrize("presenting", [False, True])
def test_a_slider_has_its_own_keys_and_leaves_the_letters_to_the_view(page, tmp_path, presenting):
    explorer = cgviz.explore(lambda x: x * x, x=(-2.0, 2.0, 1.0), upstream=None)
    explorer.save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")
    page.evaluate(f"{VIEW}.present({str(presenting).lower()})")
    slider, value = page.get_by_role("slider", name="x"), "document.activeElement.value"
    slider.focus()
    for key in ("ArrowUp", "ArrowRight", "Home", "End", "PageDown"):
        before, step = page.evaluate(value), where(page)
        page.keyboard.press(key)
        assert page.evaluate(value) != before, key
        assert where(page) == step
    for _ in range(2):
        blank = page.locator(".cgviz-blank").count()
        page.keyboard.press("b")
        has_count(page.locator(".cgviz-blank"), 1 - blank)
        slider.focus()
    page.keyboard.press("r")
    assert where(page) < 0
    slider.focus()
    page.keyboard.press("f")
    has_count(page.locator(".cgviz-presenting"), 0 if presenting else 1)


def test_no_note_covers_an_arrow_of_the_moment(page, tmp_path):
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 720})
    made = [cgviz.trace(lambda x, y: x * y + tf.sin(x), 2.0, y) for y in (3.0, 4.0)]
    opened(page, tmp_path, made[0], against=made[1])
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")
    page.evaluate(f"{VIEW}.present(true)")
    until(page, FITTED)
    seen = 0
    for step in page.evaluate(f"{VIEW}.clock.backward"):
        page.evaluate(f"{VIEW}.go({step})")
        hits = page.evaluate(
            f"{VIEW}.pictures.map(({{ layer, parts }}) => {{"
            "const notes = [...layer.querySelectorAll('.cgviz-note > rect:not(.cgviz-leader)')];"
            "const boxes = notes.map((note) => note.getBBox());"
            "const now = parts.filter((part) => part.of === 'link' && part.current"
            " && part.role.endsWith('ward')).map(({ element }) => element);"
            "const at = now.flatMap((line) => [...Array(99).keys()].map((n) =>"
            " line.getPointAtLength(line.getTotalLength() * n / 99)));"
            "return [boxes.length, at.filter((p) => boxes.some((box) => p.x > box.x"
            " && p.x < box.x + box.width && p.y > box.y && p.y < box.y + box.height)).length]; })"
        )
        seen += sum(count for count, _ in hits)
        assert [covered for _, covered in hits] == [0, 0], step
    assert seen
