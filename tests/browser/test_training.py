"""A training in the browser: at each step that was kept the numbers are those of its trace."""

import inspect
import json

import pytest
import tensorflow as tf

import cgviz
from cgviz import style
from cgviz.live.pages import PageBuilder

from .conftest import until
from .test_flight import VIEW

OPEN = "() => document.querySelector('.cgviz-view').cgvizView"
SAID = (  # the texts of each picture, and the numbers of its nodes' panels
    "() => { const view = document.querySelector('.cgviz-view').cgvizView; "
    "return view.pictures.map(({ page, parts }) => ({ written: "
    "parts.filter(({ k }) => k !== undefined).sort((a, b) => a.k - b.k)"
    ".map(({ element }) => element.cgvizWords), "
    "panels: page.panels.map(({ value }) => value) })); }"
)


def training(straight, steps=30):
    """A sign with a rule that passes the gradient on, or one that forgets it."""

    @tf.custom_gradient
    def binary(x):
        return tf.sign(x), lambda upstream: upstream if straight else 0.0 * upstream

    w, b = tf.Variable([0.4, -0.3, 0.8], name="w"), tf.Variable(0.1, name="b")
    x = tf.constant([1.0, 2.0, -1.0])

    def step():
        with tf.GradientTape() as tape:
            h = binary(w * x + b)
            loss = tf.reduce_sum((h - 0.25 * x) ** 2)
        for v, g in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
            v.assign_sub(0.02 * g)

    return cgviz.watch(step, steps)


SETUP = f"import tensorflow as tf\nimport cgviz\n\n{inspect.getsource(training)}"


@pytest.fixture(scope="module")
def right():
    return training(True)


@pytest.fixture(scope="module")
def wrong():
    return training(False)


def opened(page, shown, tmp_path):
    shown.save(tmp_path / "training.html")
    page.goto((tmp_path / "training.html").as_uri())
    slider = page.get_by_role("slider", name="step of training")
    slider.wait_for()
    return slider


def said(history, step):
    found = PageBuilder(history.trace(step)).page()
    panels = [each["value"] for each in found["panels"]]
    return {"written": [v[-1][1] for v in found["texts"]["written"]], "panels": panels}


def upstream(history, step, name):
    """What reached an op, as it is written."""
    (found,) = (each for each in history.trace(step).steps if each.op.name == name)
    return style.array(found.upstream[0])


def test_a_step_with_a_larger_picture_is_fitted(page, tmp_path):
    w, steps = tf.Variable(0.5, name="w"), []

    def step():
        with tf.GradientTape() as tape:
            y = w * 2.0
            for _ in range(14 * len(steps)):
                y = tf.sin(y) * w
        w.assign_sub(0.01 * tape.gradient(y, w))
        steps.append(y)

    slider = opened(page, cgviz.watch(step, 2).view(), tmp_path)
    scale = f"{VIEW}.pictures[0].k"
    alone = page.evaluate(scale)
    slider.press("ArrowRight")
    until(page, f"{scale} !== {alone}")
    shown = page.evaluate(scale)
    page.evaluate(f"{VIEW}.fit({VIEW}.pictures)")
    assert page.evaluate(scale) == shown < alone


def test_each_key_shows_the_numbers_of_the_next_step_that_was_kept(page, right, tmp_path):
    slider = opened(page, right.view(), tmp_path)
    for step in sorted(right.traces):
        loss = f"{right.target[step]:.4g}"
        assert slider.get_attribute("aria-valuetext") == f"step {step} of 29, target {loss}"
        assert page.evaluate(SAID) == [said(right, step)]
        slider.press("ArrowRight")
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("[")
    before = sorted(right.traces)[-2]
    assert slider.get_attribute("aria-valuetext").startswith(f"step {before} of")


def test_who_presents_a_training_is_told_which_of_its_steps_is_shown(page, right, tmp_path):
    slider = opened(page, right.view(), tmp_path)
    status = page.locator(".cgviz-status")
    assert "of 29" not in status.inner_text()  # the slider says it
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")
    page.locator(".cgviz-svg").focus()
    page.keyboard.press("f")
    assert slider.is_hidden()
    for step in sorted(right.traces)[:3]:
        assert status.inner_text().startswith(f"Training step {step} of 29, target ")
        assert "Backward step" in status.inner_text()
        page.keyboard.press("]")


def test_a_cell_opens_the_step_that_was_kept_next_to_it_at_its_op(page, right, tmp_path):
    slider = opened(page, right.view(), tmp_path)
    assert 5 not in right.traces
    page.locator("[aria-label^='h, step 5:']").click()
    assert slider.get_attribute("aria-valuetext").startswith("step 4 of")
    assert page.locator(".cgviz-panel .cgviz-title").inner_text().startswith("binary (h)")
    page.get_by_role("button", name="Zoom in").click()
    zoomed = page.evaluate(f"({OPEN})().pictures[0].k")
    page.keyboard.press("]")
    assert slider.get_attribute("aria-valuetext").startswith("step 7 of")
    assert page.evaluate(f"({OPEN})().pictures[0].k") == zoomed
    assert upstream(right, 7, "h") != upstream(right, 4, "h")
    assert f"upstream {upstream(right, 7, 'h')}" in page.locator(".cgviz-panel").inner_text()
    slider.press("End")
    page.get_by_role("button", name="w", exact=True).press("Enter")
    assert slider.get_attribute("aria-valuetext").startswith("step 29 of")
    assert page.locator(".cgviz-panel .cgviz-title").inner_text().startswith("w")


def test_an_op_is_opened_at_the_step_that_is_shown(page, right, tmp_path):
    slider = opened(page, right.view(), tmp_path)
    slider.press("End")
    value = page.locator("g.cgviz-custom").get_attribute("aria-label")
    page.locator("g.cgviz-custom .cgviz-handle").click()
    page.locator("g.cgviz-open").wait_for()
    assert slider.get_attribute("aria-valuetext").startswith("step 29 of")
    assert page.locator("g.cgviz-open").get_attribute("aria-label") == value
    slider.press("ArrowLeft")  # the op stays open
    assert page.locator("g.cgviz-open").get_attribute("aria-label") != value


def test_the_wrong_rule_is_beside_the_right_one_at_each_step(page, right, wrong, tmp_path):
    slider = opened(page, right.view(against=wrong), tmp_path)
    assert "They part at step 0: what `h` returns" in page.locator(".cgviz-parted").inner_text()
    assert page.locator(".cgviz-map").count() == 2
    assert page.locator("[aria-label^='w, step 0: zero']").inner_text() == "○"
    slider.press("End")
    assert page.evaluate(SAID) == [said(right, 29), said(wrong, 29)]
    assert page.locator("g.cgviz-node.cgviz-differs").count()


def test_a_training_plays_to_its_last_step(page, right, tmp_path):
    slider = opened(page, right.view(), tmp_path)
    slider.press("End")
    slider.press("ArrowLeft")
    page.get_by_role("button", name="Play training").click()
    slider.and_(page.locator("[aria-valuetext^='step 29 of']")).wait_for()


def test_a_training_that_plays_stops_where_it_is_presented(page, right, tmp_path):
    opened(page, right.view(), tmp_path)
    page.evaluate(f"{VIEW}.root.requestFullscreen = null")  # as where a page may not
    page.get_by_role("button", name="Play training").click()
    page.get_by_role("button", name="Play training", pressed=True).wait_for()
    page.evaluate(f"{VIEW}.present(true)")
    before = page.evaluate(f"{VIEW}.history.where()")
    page.wait_for_timeout(1500)  # longer than a step that plays
    assert page.evaluate(f"{VIEW}.history.where()") == before


def test_what_only_a_kernel_could_compute_is_not_waited_for(page, tmp_path):
    w = tf.Variable(tf.ones((20, 20)), name="w")

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(w))
        w.assign_sub(0.1 * tape.gradient(loss, w))

    history = cgviz.watch(step, 3)
    slider = opened(page, history.view(), tmp_path)
    page.locator("[aria-label^='Square, step 2:']").click()
    assert slider.get_attribute("aria-valuetext").startswith("step 2 of")
    assert page.evaluate(SAID) == [said(history, 2)]


ASKING = """() => {
  const old = document.querySelector('.cgviz-view').cgvizView;
  const kept = new Map(old.cache.kept);
  const document_ = { ...old.doc, more: [], pages: structuredClone(kept.get("0|")) };
  const heard = {}, state = { step: 99, which: 0 };
  old.close();
  window.asked = [];
  const send = ({ ask, which, toggled }) => {
    const key = `${which}|${toggled.join()}`;
    window.asked.push(`${ask} ${key}`);
    setTimeout(() => heard["msg:custom"]({ pages: structuredClone(kept.get(key)), key }), 50);
  };
  const model = { get: (name) => state[name], set() {}, save_changes() {}, off() {}, send };
  const on = (event, run) => (heard[event] = run);
  new old.constructor({ ...model, on }, document_, document.body);
}"""


def test_with_a_kernel_each_step_is_asked_for_once(page, right, tmp_path):
    slider = opened(page, right.view(), tmp_path)
    page.evaluate(ASKING)
    for key in ("ArrowRight", "ArrowLeft", "ArrowRight"):
        slider.press(key)
        page.wait_for_timeout(200)
    step = sorted(right.traces)[1]
    assert page.evaluate(SAID) == [said(right, step)]
    assert page.evaluate("() => window.asked") == [f"pages 0|step:{step}"]


def test_in_a_notebook_both_trainings_show_their_numbers_at_each_step(notebook, show, right, wrong):
    page = show("training(True).view(against=training(False))")
    slider = page.get_by_role("slider", name="step of training")

    def shows(step):
        slider.and_(page.locator(f"[aria-valuetext^='step {step} of']")).wait_for()
        both = json.dumps([said(right, step), said(wrong, step)])
        page.wait_for_function(
            f"both => JSON.stringify(({SAID})()) === JSON.stringify(JSON.parse(both))", arg=both
        )

    kept = sorted(right.traces)
    slider.press("Home")
    shows(0)
    slider.press("End")
    shows(29)
    notebook.theme("JupyterLab Dark")
    shows(29)
    page.locator("g.cgviz-node").first.focus()
    page.keyboard.press("[")
    shows(kept[-2])
    page.keyboard.press("]")
    shows(29)
    page.locator(f"[aria-label^='h, step {kept[3]}:']").first.click()
    shows(kept[3])
    slider.press("End")
    slider.press("ArrowLeft")
    page.get_by_role("button", name="Play training").click()
    shows(29)
    notebook.theme("JupyterLab Light")


def test_on_paper_the_rows_of_a_map_have_their_names(page, right, tmp_path):
    opened(page, right.view(), tmp_path)
    page.emulate_media(media="print")
    names = page.locator(".cgviz-map tbody th button")
    assert names.count() > 2
    assert all(name.is_visible() for name in names.all())
    assert page.locator("button:visible").count() == names.count()
    about = page.locator(".cgviz-history > .cgviz-none").inner_text()
    assert "(faint)" in about  # as is true on a dark page, too
    assert "(strong)" in about
