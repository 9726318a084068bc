"""Large pictures in a page without a kernel: which of repeats is shown, and what a key finds."""

import pytest
import tensorflow as tf

import cgviz
from cgviz.live import assets

from .conftest import save_without_folds, until, violations_in_light_and_dark, without_policy

FOCUSED = "document.activeElement.getAttribute('aria-label')"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A network of thirty steps with one weight, and a layer behind them."""
    w, v = tf.Variable(0.75, name="w"), tf.Variable(3.0, name="v")

    def f(x):
        for i in range(30):
            with tf.name_scope(f"step_{i}"):
                x = tf.tanh(w * x)
        with tf.name_scope("head"):
            y = tf.sin(v * x)
        return y

    path = tmp_path_factory.mktemp("saved") / "flow.html"
    trace = cgviz.trace(f, 0.5)
    save_without_folds(trace, path)
    return path.as_uri(), trace, path


@pytest.fixture
def opened(page, saved):
    page.goto(saved[0])
    page.locator("g.cgviz-node").first.wait_for()
    return page


def texts(page):
    return page.locator(".cgviz-svg").text_content()


def test_a_slider_shows_another_of_repeats_with_its_own_numbers(opened, saved):
    words = opened.locator(".cgviz-repeats output")
    assert words.inner_text() == "step_29, 30 of 30"
    opened.get_by_role("button", name="To the end").click()
    slider = opened.get_by_role("slider", name="Which of step_0 to step_29 is shown")
    slider.focus()
    for _ in range(3):
        opened.keyboard.press("ArrowLeft")
    assert words.inner_text() == "step_26, 27 of 30"
    assert slider.evaluate("e => e === document.activeElement")
    assert "step_0…25" in texts(opened)
    assert "step_27…29" in texts(opened)
    (step,) = (s for s in saved[1].steps if s.op.scope == "step_26" and s.op.type == "Mul")
    for gradient in step.downstream:
        assert cgviz.style.number(gradient) in texts(opened)
    opened.keyboard.press("End")
    assert words.inner_text() == "step_29, 30 of 30"
    opened.locator(".cgviz-svg [role=button]").first.focus()
    opened.keyboard.press("[")
    assert words.inner_text() == "step_28, 29 of 30"


def test_a_key_finds_what_is_in_another_of_repeats_and_goes_to_it(opened, saved):
    opened.locator(".cgviz-svg [role=button]").first.focus()
    opened.keyboard.press("/")
    field = opened.get_by_role("textbox", name="Find an op, a variable or a scope")
    assert field.evaluate("e => e === document.activeElement")
    opened.keyboard.type("mul_8")
    found = opened.locator(".cgviz-search option")
    assert found.count() == 1
    assert found.inner_text() == "Mul_8 (×, Mul)"  # nothing has come back yet
    opened.keyboard.press("Escape")
    opened.keyboard.press("End")
    opened.keyboard.press("/")
    opened.keyboard.type("mul_8")
    (step,) = (s for s in saved[1].steps if s.op.name == "Mul_8")
    assert found.inner_text().split()[-1] == cgviz.style.number(abs(step.upstream[0]))
    opened.keyboard.press("Enter")
    assert opened.locator(".cgviz-repeats output").inner_text() == "step_8, 9 of 30"
    value = cgviz.style.number(step.op.outputs[0].numpy())
    assert opened.evaluate(FOCUSED).startswith(f"×, value {value}")
    assert f"value {value}" in opened.locator(".cgviz-panel").inner_text()
    opened.keyboard.press("/")
    opened.keyboard.type("mul_29")
    opened.keyboard.press("Enter")
    assert opened.locator(".cgviz-repeats output").inner_text() == "step_29, 30 of 30"


def test_arrows_choose_and_escape_goes_back(opened):
    opened.locator(".cgviz-svg [role=button]").first.focus()
    before = opened.evaluate(FOCUSED)
    opened.keyboard.press("/")
    chosen = "document.querySelector('.cgviz-search select').selectedOptions[0].text"
    first = opened.evaluate(chosen)
    opened.keyboard.press("ArrowDown")
    second = opened.evaluate(chosen)
    assert second != first
    assert second in opened.locator(".cgviz-search [role=status]").inner_text()
    assert opened.locator(".cgviz-where").inner_text().startswith("forward")
    opened.keyboard.press("Escape")
    assert not opened.locator(".cgviz-search").is_visible()
    assert opened.evaluate(FOCUSED) == before


def test_nothing_is_wrong_for_a_screen_reader_while_it_finds(page, saved):
    page.goto(without_policy(saved[2]))
    page.get_by_role("button", name="Find").click()
    page.locator(".cgviz-search option").first.wait_for(state="attached")
    assert violations_in_light_and_dark(page) == {"light": [], "dark": []}


def test_what_a_file_does_not_open_is_found_in_its_fold_and_said_to_be(page, tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "MOST_FOLDS", -1)

    def f(x):
        for i in range(2):
            with tf.name_scope(f"part_{i}"):
                for _ in range(40):
                    x = tf.sin(x)
        return x

    cgviz.trace(f, 0.5).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    page.locator(".cgviz-svg [role=button]").first.focus()
    page.keyboard.press("/")
    page.keyboard.type("x_50")
    said = "x_50 (Sin); its fold does not open in this file"
    assert page.locator(".cgviz-search option").all_inner_texts() == [said]
    assert said in page.locator(".cgviz-search [role=status]").inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate(FOCUSED).startswith("part_1")


def test_a_quiz_has_no_search(page, saved, tmp_path):
    cgviz.predict(cgviz.trace(lambda x: x * x, 3.0)).save(tmp_path / "quiz.html")
    page.goto((tmp_path / "quiz.html").as_uri())
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("/")
    assert not page.locator(".cgviz-search").is_visible()


def test_no_label_is_smaller_than_11_pixels_at_first(opened, page):
    for width in (1400, 700, 420):
        page.set_viewport_size({"width": width, "height": 800})
        sizes = opened.evaluate(
            "() => [...document.querySelectorAll('.cgviz-svg text')].filter((t) => t.textContent)"
            ".map((t) => parseFloat(t.getAttribute('font-size') || 12) * t.getScreenCTM().a)"
        )
        assert min(sizes) >= 10.99


def test_what_is_in_a_scope_that_was_closed_by_hand_is_found(page, tmp_path):
    def f(x):
        with tf.name_scope("a"):
            x = tf.sin(tf.cos(x))
        with tf.name_scope("b"):
            return tf.tanh(tf.exp(x))

    cgviz.trace(f, 0.5).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    page.locator("g.cgviz-frame[role=button]").first.press("Enter")
    assert "cos" not in page.locator("g.cgviz-scope").first.text_content()
    page.keyboard.press("/")
    page.keyboard.type("cos")
    page.keyboard.press("Enter")
    until(page, f"{FOCUSED}?.startsWith('cos, value 0.8776')")


def test_neither_words_nor_order_of_what_is_found_tell_a_gradient_before_it_has_come(opened):
    opened.locator(".cgviz-svg [role=button]").first.focus()
    found = opened.locator(".cgviz-search option")
    shown = {}
    for key in ("Home", "End"):
        opened.keyboard.press(key)
        opened.keyboard.press("/")
        shown[key] = found.all_inner_texts(), opened.locator(".cgviz-count").inner_text()
        opened.keyboard.press("Escape")
    (before, said), (after, largest) = shown["Home"], shown["End"]
    assert not any("gradient" in words or "up to" in words for words in [*before, said])
    assert all(": " in words for words in after)
    assert "largest" in largest
    named = [words.rpartition(": ")[0] for words in after]
    assert sorted(named) == sorted(before)
    assert named != before


def test_what_is_drawn_on_a_node_finds_it_as_it_is_written_or_typed(page, tmp_path):
    @tf.custom_gradient
    def square(x):
        return x * x, lambda upstream: upstream * 2 * x

    def f(x):
        a = square(x)
        with tf.name_scope("inner"):
            return 3.0 * a**2 - x

    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("/")
    field = page.get_by_role("textbox", name="Find an op, a variable or a scope")
    drawn = page.locator("g.cgviz-node > text:is(.cgviz-title, .cgviz-name)").all_text_contents()
    found = {"square": "a", "a": "a", "a²": "Pow", "a2": "Pow", "3 ×": "Mul_1", "3 *": "Mul_1"}
    found |= {"−": "Sub", "-": "Sub", "×": "Mul_1"}
    assert {"square", "a", "a²", "3 ×", "−"} <= set(drawn)
    for words, name in found.items():
        field.fill(words)
        rows = page.locator(".cgviz-search option").all_inner_texts()
        assert name in [row.split()[0] for row in rows], (words, rows)
    field.fill("3 *")
    page.keyboard.press("Enter")
    until(page, f"{FOCUSED}?.startsWith('3 ×, ')")


def test_what_a_closed_scope_hides_is_found_by_what_will_be_drawn(page, saved):
    page.goto(saved[0])
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("/")
    page.keyboard.type("mul_8 *")
    assert page.locator(".cgviz-search option").all_inner_texts() == ["Mul_8 (×, Mul)"]
