"""A question's field is where its "?" is, and keyboard and screen reader find it there."""

import meaning
import pytest
import tensorflow as tf
from golden_programs import PROGRAMS

import cgviz

from .conftest import has_count, violations_in_light_and_dark, without_policy
from .test_flight import VIEW

# Of each field its box, and the box of the "?" that its question is about.
FIELDS = f"""() => {{
  const view = {VIEW}, [picture] = view.pictures;
  const box = (element) => {{
    const {{ left, top, right, bottom }} = element.getBoundingClientRect();
    return [left, top, right, bottom];
  }};
  return view.questions.at(view.state.step).map((q, n) => {{
    const input = picture.answers.children[n].firstChild;
    const [of, i] = q.link === null ? ["node", q.node] : ["link", q.link];
    const mark = picture.parts.find((p) => p.of === of && p.i === i && p.role === "gradient");
    const {{ ariaLabel: label }} = input, {{ cgvizWords: says }} = mark.element;
    const others = picture.parts.filter((p) => p.of === "node" && p.role === "outline");
    const nodes = others.filter((p) => of === "link" || p.i !== i).map((p) => box(p.element));
    const labels = picture.parts.filter((p) => p.role === "value" && p.element.cgvizWords);
    const covered = [...nodes, ...labels.map((p) => box(p.element))];
    return {{ label, text: q.text, says, box: box(input), mark: box(mark.element), covered }};
  }});
}}"""


def quiz(page, tmp_path, name, hide):
    cgviz.predict(PROGRAMS[name](), hide=hide).save(tmp_path / "quiz.html")
    page.goto((tmp_path / "quiz.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)


@pytest.mark.parametrize("width", [420, 1280])
@pytest.mark.parametrize(
    ("name", "hide"),
    [
        ("fan_out", "downstream"),
        ("two_outputs", "downstream"),
        ("chain", "local"),
        ("fan_out", "gradient"),
    ],
)
def test_each_field_is_on_its_own_question_mark_and_on_nothing_else(
    page, tmp_path, name, hide, width
):
    page.set_viewport_size({"width": width, "height": 900})
    quiz(page, tmp_path, name, hide)
    asked = 0
    for _ in range(page.evaluate(f"{VIEW}.clock.steps")):
        page.evaluate(f"{VIEW}.go(1e9)")
        fields = page.evaluate(FIELDS)
        for n, field in enumerate(fields):
            left, top, right, bottom = field["mark"]
            assert (field["label"], field["says"]) == (field["text"], "?")
            assert holds(field["box"], (left + right) / 2, (top + bottom) / 2)
            covered = [*field["covered"], *(other["box"] for other in fields[:n])]
            assert not any(meaning.overlap(field["box"], each) for each in covered)
            asked += 1
        while page.get_by_role("button", name="Reveal").count():
            page.get_by_role("button", name="Reveal").first.click()
        if not page.evaluate(f"{VIEW}.questions.open.length"):
            break
    assert asked == page.evaluate(f"{VIEW}.questions.all.length")


@pytest.mark.parametrize("name", ["fan_out", "variables", "custom_body"])
def test_nothing_of_a_hidden_gradient_looks_out_from_behind_its_field(page, tmp_path, name):
    quiz(page, tmp_path, name, "downstream")
    page.evaluate(f"{VIEW}.go(1e9)")
    outside = f"""() => {{
      const {{ answers, parts, k }} = {VIEW}.pictures[0];
      const covers = [...answers.querySelectorAll("input")].map((field) => {{
        const spare = k * Number(/0px 0px 0px (\\d+)px/.exec(getComputedStyle(field).boxShadow)[1]);
        const {{ left, top, right, bottom }} = field.getBoundingClientRect();
        return [left - spare, top - spare, right + spare, bottom + spare];
      }});
      return parts.filter(({{ element, of }}) => of === "link" && element.cgvizWords === "?").map(({{ element }}) => {{
        const range = document.createRange();
        range.selectNodeContents(element);
        const {{ left, top, right, bottom }} = range.getBoundingClientRect();
        const ink = (bottom - top) / 5; // the space above and below the letters of a line
        return Math.min(...covers.map(([l, t, r, b]) =>
          Math.max(l - left, t - top - ink, right - r, bottom - ink - b)));
      }});
    }}"""  # noqa: E501
    found = page.evaluate(outside)
    assert found
    assert max(found) <= 0


@pytest.mark.parametrize("width", [420, 1280])
@pytest.mark.parametrize("name", ["fan_out", "variables", "custom_body"])
def test_a_field_touches_no_line_also_with_its_outline(page, tmp_path, name, width):
    page.set_viewport_size({"width": width, "height": 900})
    quiz(page, tmp_path, name, "downstream")
    page.evaluate(f"{VIEW}.go(1e9)")
    gaps = f"""() => {{
      const {{ answers, parts, k }} = {VIEW}.pictures[0];
      const lines = parts.filter(({{ role }}) => ["forward", "backward"].includes(role));
      return [...answers.querySelectorAll("input")].flatMap((field) => {{
        field.focus();
        const {{ outlineOffset, outlineWidth }} = getComputedStyle(field);
        const ring = Math.max(parseFloat(outlineOffset) + parseFloat(outlineWidth), 0);
        const {{ left, top, right, bottom }} = field.getBoundingClientRect();
        return lines.map(({{ element }}) => {{
          const place = element.getScreenCTM(), half = parseFloat(getComputedStyle(element).strokeWidth) / 2;
          const far = Array.from({{ length: element.getTotalLength() }}, (_, at) => {{
            const {{ x, y }} = element.getPointAtLength(at).matrixTransform(place);
            return Math.hypot(Math.max(left - x, x - right, 0), Math.max(top - y, y - bottom, 0)) / k;
          }});
          return Math.min(...far) - half - ring;
        }});
      }});
    }}"""  # noqa: E501
    found = page.evaluate(gaps)
    assert found
    assert min(found) > 2


def test_the_field_is_in_sight_where_the_op_of_the_moment_is_far_away(page, tmp_path):
    """The sum at M in lesson 10, whose last term comes over a long arrow from the other end."""

    @tf.custom_gradient
    def solution(M):
        found = tf.stop_gradient(M)
        for _ in range(50):
            found = tf.stop_gradient(M + 0.8 * tf.sin(found))
        return found, lambda upstream: upstream / (1.0 - 0.8 * tf.cos(solution(M)))

    trace = cgviz.trace(lambda M: tf.cos(solution(M)), 0.5, order=2)
    cgviz.predict(trace, hide="gradient", which=1).save(tmp_path / "quiz.html")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto((tmp_path / "quiz.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    while page.evaluate(f"{VIEW}.questions.open.length"):
        page.evaluate(f"{VIEW}.go(1e9)")
        for field in page.locator(".cgviz-answer input").all():
            at, around = field.bounding_box(), page.locator(".cgviz-box").bounding_box()
            assert at["x"] >= around["x"]
            assert at["x"] + at["width"] <= around["x"] + around["width"]
            assert at["y"] + at["height"] <= around["y"] + around["height"]
        page.get_by_role("button", name="Reveal").first.click()


def holds(box, x, y):
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def test_a_quiz_says_how_many_questions_wait_until_it_plays_or_asks(page, tmp_path):
    quiz(page, tmp_path, "fan_out", "downstream")
    count, caption = page.evaluate(f"{VIEW}.questions.all.length"), page.locator(".cgviz-status")
    assert caption.inner_text().endswith(f"Press play: {count} questions.")
    assert "?" in page.locator(".cgviz-svg").text_content(), "the gradient of x is asked for"
    page.evaluate(f"{VIEW}.set({{playing: 1}})")
    assert "Press play" not in caption.inner_text()
    page.evaluate(f"{VIEW}.set({{playing: 0}})")
    page.evaluate(f"{VIEW}.go(1e9)")
    assert "Press play" not in caption.inner_text()
    for _ in range(page.locator(".cgviz-answer input").count()):
        page.get_by_role("button", name="Reveal").first.click()
    left = page.evaluate(f"{VIEW}.questions.open.length")
    assert 0 < left < count
    assert caption.inner_text().endswith(f"Press play: {left} question{'s' * (left > 1)}.")


def test_a_view_without_questions_asks_for_nothing(page, tmp_path):
    PROGRAMS["fan_out"]().save(tmp_path / "view.html")
    page.goto((tmp_path / "view.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    assert "Press play" not in page.locator(".cgviz-status").inner_text()
    assert "?" not in page.locator(".cgviz-svg").text_content()


def test_fields_are_answered_by_keyboard_in_the_order_of_their_questions(page, tmp_path):
    quiz(page, tmp_path, "fan_out", "downstream")
    page.get_by_role("button", name="To the end").click()
    fields = page.locator(".cgviz-answer input")
    fields.first.focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement.ariaLabel"
    assert page.evaluate(focused) == fields.nth(1).get_attribute("aria-label")
    page.keyboard.type("-0.1")  # "-", "0" and "." are keys of the picture, too
    assert fields.nth(1).input_value() == "-0.1"
    page.keyboard.press("Enter")
    assert fields.nth(1).get_attribute("aria-invalid") == "true"
    assert page.locator(".cgviz-where").inner_text() == "backward step 1 of 3"
    page.keyboard.type("1")  # in place of the wrong answer
    assert fields.nth(1).input_value() == "1"
    page.keyboard.press("Enter")
    has_count(fields, 1)
    assert page.evaluate(focused) == fields.first.get_attribute("aria-label")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    has_count(fields, 0)
    assert page.evaluate("document.activeElement.title") == "One step forward"
    has_count(page.locator(".cgviz-chip"), 3)  # upstream and what + returns: now they may fly
    # That an answer is right is told at once, and does not wait for the flight.
    animated = "found => found.map((each) => each.closest('section').getAnimations().length)"
    assert page.eval_on_selector_all(".cgviz-panel .cgviz-right", animated) == [0, 0]


def test_a_field_takes_what_numbers_need_and_no_key_of_the_view(page, tmp_path):
    quiz(page, tmp_path, "chain", "downstream")
    page.get_by_role("button", name="To the end").click()
    field = page.locator(".cgviz-answer input:focus")
    page.keyboard.type("fbo2r?")
    assert field.input_value() == "2?"
    for numbers in ("-1e-3, 2/3", "[inf; -Infinity NaN]", "−0,5 ∞"):
        page.keyboard.press("Control+a")
        page.keyboard.type(numbers)
        assert field.input_value() == numbers
    assert page.evaluate(f"{VIEW}.state.presenting || {VIEW}.state.blank || null") is None


def test_the_field_that_has_the_focus_stands_out(page, tmp_path):
    quiz(page, tmp_path, "fan_out", "downstream")
    page.get_by_role("button", name="To the end").click()
    fields = page.locator(".cgviz-answer input")
    fields.first.focus()
    colour = "(input) => getComputedStyle(input).borderColor"
    assert fields.first.evaluate(colour) != fields.nth(1).evaluate(colour)
    clipped = "(input) => getComputedStyle(input.parentElement).overflow"
    assert fields.first.evaluate(clipped) == "visible"  # its outline is not cut


def test_what_plays_stops_at_a_question_where_numbers_and_enter_are_all_it_needs(page, tmp_path):
    quiz(page, tmp_path, "chain", "downstream")
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("button", name="Play").click()
    count = page.evaluate(f"{VIEW}.questions.all.length")
    for _ in range(count):
        page.locator(".cgviz-answer input:focus").wait_for()
        (answer,) = page.evaluate(f"{VIEW}.questions.open[0].answer")
        page.keyboard.type(str(answer))
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")  # on "One step forward"
    assert page.evaluate(f"{VIEW}.questions.earned") == "All predicted"


def test_axe_finds_nothing_in_a_question_nor_in_a_path(page, tmp_path):
    def violations(file):
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.goto(without_policy(file))
        page.get_by_role("button", name="To the end").click()
        if page.locator(".cgviz-answer").count():
            page.locator(".cgviz-answer input").first.fill("7")
            page.keyboard.press("Enter")
        else:
            page.locator("g.cgviz-input").click()
            page.locator(".cgviz-path").first.click()
        return violations_in_light_and_dark(page)

    cgviz.predict(PROGRAMS["fan_out"]()).save(tmp_path / "quiz.html")
    PROGRAMS["fan_out"]().save(tmp_path / "flow.html")
    nothing = {"light": [], "dark": []}
    assert violations(tmp_path / "quiz.html") == nothing
    assert violations(tmp_path / "flow.html") == nothing


def test_the_caption_is_about_the_question_that_has_the_focus(page, tmp_path):
    quiz(page, tmp_path, "fan_out", "downstream")
    page.get_by_role("button", name="To the end").click()
    labels = [x.get_attribute("aria-label") for x in page.locator(".cgviz-answer input").all()]
    assert len(labels) == 2
    for button in ("Check", "Reveal"):
        for n, label in enumerate(labels):
            page.get_by_role("button", name=button).nth(n).focus()
            assert label in page.locator(".cgviz-status").inner_text()
            assert label in page.locator(".cgviz-panel .cgviz-asking").inner_text()


@pytest.mark.parametrize("focused", [None, ".cgviz-svg", "input[aria-label=Moment]"])
@pytest.mark.parametrize("key", ["ArrowRight", "End"])
def test_a_step_that_ends_at_a_question_gives_its_field_the_focus(page, tmp_path, focused, key):
    page.emulate_media(reduced_motion="reduce")
    quiz(page, tmp_path, "chain", "downstream")
    has_count(page.locator(".cgviz-ready"), 1)
    if focused:
        page.locator(focused).focus()
    while not page.locator(".cgviz-answer").count():
        page.keyboard.press(key)
    scale = page.evaluate(f"{VIEW}.pictures[0].k")
    page.keyboard.type("-2")
    assert page.locator(".cgviz-answer input").first.input_value() == "-2"
    assert page.evaluate(f"{VIEW}.pictures[0].k") == scale


def test_a_slider_that_is_dragged_to_a_question_keeps_the_focus_until_release(page, tmp_path):
    quiz(page, tmp_path, "chain", "downstream")
    box = page.get_by_role("slider", name="Moment").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 8, middle)
    page.mouse.down()
    focused = "document.activeElement.ariaLabel"
    for share in (0.7, 0.8, 0.99):
        page.mouse.move(box["x"] + share * box["width"], middle)
        assert page.evaluate(focused) == "Moment"
    has_count(page.locator(".cgviz-answer"), 1)
    page.mouse.move(box["x"] + 8, middle)  # still held
    has_count(page.locator(".cgviz-answer"), 0)
    page.mouse.move(box["x"] + box["width"] - 4, middle)
    page.mouse.up()
    page.locator(".cgviz-answer input:focus").wait_for()


def test_a_field_elsewhere_in_the_page_keeps_the_focus(page, tmp_path):
    quiz(page, tmp_path, "chain", "downstream")
    page.evaluate("document.body.append(document.createElement('textarea'))")
    page.locator("textarea").focus()
    page.evaluate(f"{VIEW}.go(Infinity)")
    has_count(page.locator(".cgviz-answer"), 1)
    assert page.evaluate("document.activeElement.localName") == "textarea"


def test_who_gives_too_few_numbers_is_told_how_many_there_are(page, tmp_path):
    trace = cgviz.trace(lambda x: tf.reduce_sum(tf.nn.relu(x)), [6.0, -12.0])
    cgviz.predict(trace, hide="local").save(tmp_path / "quiz.html")
    page.goto((tmp_path / "quiz.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    page.get_by_role("button", name="To the end").click()
    page.get_by_role("button", name="Reveal").click()
    page.get_by_role("button", name="To the end").click()
    field, status = page.locator(".cgviz-answer input"), page.locator(".cgviz-status")
    field.fill("1, 0")
    field.press("Enter")
    assert "2×2 Jacobian, row by row" in status.inner_text()
    assert "The answer has 4 numbers." in status.inner_text()
    field.fill("1 0 0 0")
    field.press("Enter")
    has_count(field, 0)
