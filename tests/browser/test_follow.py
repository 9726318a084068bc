"""At each step the op and the numbers that leave it are in sight, also where the picture is not."""

import numpy as np
import pytest
import tensorflow as tf

import cgviz

from .test_flight import VIEW, opened
from .test_presenting import FITTED, until

# What the arrows that leave the op of a moment say and the border of the picture's box cuts.
CUT = f"""() => {{
  const view = {VIEW}, [picture] = view.pictures, {{ display }} = picture.page;
  const {{ step }} = view.state;
  const node = display.nodes.findLastIndex(({{ now }}) => now.includes(step));
  const [role, line] = step > 0 ? ["gradient", "backward"] : ["value", "forward"];
  const leave = display.paths.filter((path) => path.of === "link" && path.role === line
    && path.step === step && (step > 0 || display.links[path.i].source === node));
  const shown = picture.parts.filter((part) => part.of === "link" && part.role === role
    && leave.some(({{ i }}) => i === part.i) && part.element.cgvizWords);
  const box = picture.box.getBoundingClientRect();
  const cut = shown.filter(({{ element }}) => {{
    const {{ left, right, top, bottom }} = element.getBoundingClientRect();
    return left < box.left || right > box.right || top < box.top || bottom > box.bottom;
  }});
  return cut.map(({{ element }}) => element.cgvizWords);
}}"""

# The boxes of the gradients that are complete with the last step.
ARRIVED = f"""() => {{
  const [picture] = {VIEW}.pictures, {{ links, paths, steps }} = picture.page.display;
  const last = paths.filter(({{ role, step }}) => role === "backward" && step === steps);
  const nodes = last.map(({{ i }}) => links[i].source);
  const own = ({{ of, i, role }}) => of === "node" && role === "gradient" && nodes.includes(i);
  return picture.parts.filter(own).map(({{ element }}) => element.getBoundingClientRect().toJSON());
}}"""


def recurrent():
    w, u = tf.Variable(0.8, name="w"), tf.Variable(0.5, name="u")

    def loss(xs):
        h = tf.constant(0.1)
        for k in range(4):
            with tf.name_scope(f"step_{k}"):
                h = tf.tanh(w * h + u * xs[k])
        return h * h

    return cgviz.trace(loss, [1.0, -0.5, 0.25, 2.0])


def layers():
    numbers = np.linspace(-1.0, 1.0, 12, dtype="float32")
    one, two = tf.Variable(numbers.reshape(3, 4)), tf.Variable(numbers[:8].reshape(4, 2))
    first, second = tf.Variable(numbers[:4]), tf.Variable(numbers[:2])

    def loss(x):
        hidden = tf.tanh(x @ one + first)
        return tf.reduce_mean((hidden @ two + second - 1.0) ** 2)

    return cgviz.trace(loss, tf.constant([[1.0, 2.0, -1.0], [0.5, -0.5, 2.0]]))


def gate():
    def f(a, v):
        z = tf.sigmoid(tf.linalg.matvec(a, v))
        return tf.reduce_sum(z * z)

    return cgviz.trace(
        f, np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(3, 4), [1.0, -0.5, 2.0, 0.25]
    )


@pytest.mark.parametrize("presenting", [False, True])
@pytest.mark.parametrize("make", [recurrent, layers, gate])
def test_no_number_of_a_step_is_cut(page, tmp_path, make, presenting):
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(reduced_motion="reduce")
    opened(page, tmp_path, make(), local=True)
    if presenting:
        page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
        page.evaluate(f"{VIEW}.present(true)")
        until(page, FITTED)
    steps = page.evaluate(f"{VIEW}.clock.moments.map(([step]) => step)")
    assert max(steps) > 5
    cut = []
    for step in (*steps, *steps[::-1]):
        page.evaluate(f"{VIEW}.go({step})")
        cut += [(step, words) for words in page.evaluate(CUT)]
        outline = page.locator(".cgviz-node > .cgviz-outline.cgviz-now")
        if step >= 1:
            box, own = page.locator(".cgviz-box").bounding_box(), outline.first.bounding_box()
            assert box["x"] <= own["x"]
            assert own["x"] + own["width"] <= box["x"] + box["width"]
            assert box["y"] <= own["y"]
            assert own["y"] + own["height"] <= box["y"] + box["height"]
    assert cut == []


def test_the_sentence_covers_no_op_as_far_as_the_picture_can_be_scrolled(page, tmp_path):
    """The picture is higher than the window, to whose border the sentence sticks."""
    page.set_viewport_size({"width": 800, "height": 600})
    page.emulate_media(reduced_motion="reduce")
    opened(page, tmp_path, recurrent())
    sentence = page.locator(".cgviz-status").bounding_box()["y"]
    assert page.locator(".cgviz-box").bounding_box()["y"] < sentence - 100
    rest = "(box) => box.scrollHeight - box.clientHeight - box.scrollTop"
    scrolled = []
    for step in page.evaluate(f"{VIEW}.clock.backward"):
        page.evaluate(f"{VIEW}.go({step})")
        own = page.locator(".cgviz-node > .cgviz-outline.cgviz-now").first.bounding_box()
        if page.locator(".cgviz-box").evaluate(rest) > 1:
            scrolled.append(own["y"] + own["height"])
    assert len(scrolled) >= 10
    assert max(scrolled) <= sentence


@pytest.mark.parametrize("size", [(700, 600), (1280, 500)])
def test_the_sentence_covers_no_op_that_gets_the_focus(page, tmp_path, size):
    def long(x):
        for _ in range(14):
            x = tf.sin(x) * x
        return x

    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(reduced_motion="reduce")
    opened(page, tmp_path, cgviz.trace(long, 0.5))
    page.locator(".cgviz-svg").focus()
    for _ in range(page.locator(".cgviz-node[tabindex]").count()):
        page.keyboard.press("Tab")
        own = page.locator(".cgviz-node:focus > .cgviz-outline").bounding_box()
        assert own["y"] >= 0
        assert own["y"] + own["height"] <= page.locator(".cgviz-status").bounding_box()["y"]


@pytest.mark.parametrize("make", [recurrent, layers, gate])
def test_at_the_last_step_what_arrives_is_in_sight(page, tmp_path, make):
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(reduced_motion="reduce")
    opened(page, tmp_path, make(), local=True)
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")
    page.locator(".cgviz-svg").focus()
    page.keyboard.press("f")
    until(page, FITTED)
    page.keyboard.press("End")
    box = page.locator(".cgviz-box").bounding_box()
    arrived = page.evaluate(ARRIVED)
    assert arrived
    assert any(
        box["x"] <= own["left"] < own["right"] <= box["x"] + box["width"]
        and box["y"] <= own["top"] < own["bottom"] <= box["y"] + box["height"]
        for own in arrived
    )
