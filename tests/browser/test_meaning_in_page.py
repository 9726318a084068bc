"""The browser's own geometry means what the selection says, as paper's does."""

import meaning
import pytest
import tensorflow as tf
from golden_programs import PROGRAMS

import cgviz

from .conftest import has_count

LETTERS = 1.5  # points by which a browser's letters may differ from those that were measured


@pytest.mark.parametrize("name", ["fan_out", "matrices", "custom", "blocked", "second_order"])
def test_arrows_labels_and_sums_mean_what_they_show(page, tmp_path, name):
    trace = PROGRAMS[name]()
    trace.view(which=len(trace.passes) - 1).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    view = "document.querySelector('.cgviz-view').cgvizView"
    links = page.evaluate(f"{view}.clock.links.map((link) => [link.source, link.target])")
    steps = page.evaluate(f"{view}.clock.backward")
    for step in (0, steps[0], steps[-1]):
        page.evaluate(f"{view}.go({step})")
        seen = meaning.of_page(page)
        assert len(seen.lines) >= len(links)
        meaning.check(seen, links, slack=LETTERS)


@pytest.mark.parametrize("closed", [False, True])
def test_they_do_so_at_another_of_repeats(page, golden, closed):
    page.goto(golden("repeated", start="end"))
    slider = page.get_by_role("slider", name="Which of step_0 to step_3 is shown")
    slider.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    view = "document.querySelector('.cgviz-view').cgvizView"
    if closed:
        page.evaluate(f"{view}.turnOver('repeat::0')")
    assert slider.get_attribute("aria-valuetext") == "step_1, 2 of 4"
    (group,) = page.evaluate(
        f"{view}.pages[0].texts.nodes.filter((_, n) =>"
        f" {view}.clock.nodes[n]?.group === 'repeat::0')"
        if closed
        else f"{view}.clock.frames.map((frame) => frame.label)"
    )
    assert "step_1" in group
    links = page.evaluate(f"{view}.clock.links.map((link) => [link.source, link.target])")
    seen = meaning.of_page(page)
    assert len(seen.lines) >= len(links)
    meaning.check(seen, links, slack=LETTERS)


def test_the_rows_of_a_matrix_end_beside_its_arrow_also_while_they_are_bold(page, tmp_path):
    w, x = tf.constant([[1.0, -2.0], [0.5, 3.0]]), tf.constant([[0.5, -1.125], [1.5, 0.25]])
    trace = cgviz.trace(lambda x, w: tf.reduce_sum(tf.tanh(tf.nn.relu(x @ w)) @ w), x, w)
    trace.view().save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    ends = """() => {
      const { parts } = document.querySelector(".cgviz-view").cgvizView.pictures[0];
      const shown = parts.filter(({ of, anchor, element }) =>
        of === "link" && anchor === "end" && element.cgvizWords?.includes("[["));
      return shown.map(({ current, x, element }) => {
        const { x: left, width } = element.getBBox();
        return [current, left + width - x];
      });
    }"""
    view = "document.querySelector('.cgviz-view').cgvizView"
    bold = 0
    for step in page.evaluate(f"{view}.clock.moments.map(([step]) => step)"):
        page.evaluate(f"{view}.go({step})")
        for current, beyond in page.evaluate(ends):
            assert abs(beyond) < 1
            bold += current
    assert bold
