"""The saved page: from disk, within another page, without a kernel and without a network."""

import re

import pytest
import tensorflow as tf
from golden_programs import PROGRAMS

import cgviz
from cgviz import style
from cgviz.live import assets, explorer

from .conftest import (
    has_count,
    save_without_folds,
    until,
    violations_in_light_and_dark,
    without_policy,
)

ATTACK = "</script><img src=x onerror=alert(1)>"


@tf.custom_gradient
def square(x):
    def grad(upstream):
        return upstream * 2 * x

    y = x * x
    return y, grad


def f(x):
    a = square(x)
    y = tf.sin(a) * x
    return y


@pytest.fixture
def offline(page):
    """A page that is told no to everything but files, and every request it makes."""
    asked = []
    told = {
        "request": lambda request: asked.append(request.url),
        "dialog": lambda dialog: pytest.fail("a script ran"),
        "console": lambda message: message.type == "error" and pytest.fail(message.text),
    }
    page.context.set_offline(True)
    for event, note in told.items():
        page.on(event, note)
    yield page
    for event, note in told.items():
        page.remove_listener(event, note)
    assert all(url.startswith(("file:", "data:", "about:", "blob:")) for url in asked)


def test_it_opens_from_disk_and_steps(offline, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.get_by_role("button", name="To the start").click()
    offline.get_by_role("button", name="One step forward").click()
    assert offline.locator(".cgviz-where").inner_text() == "forward 1 of 3"
    offline.locator("g.cgviz-node.cgviz-custom").click()
    assert "−1.307" not in offline.locator(".cgviz-panel").inner_text()
    offline.get_by_role("button", name="To the end").click()
    assert "−1.307" in offline.locator(".cgviz-panel").inner_text()


TOLD = (  # all that a view says at a step, with each node chosen in turn
    "step => { const view = document.querySelector('.cgviz-view').cgvizView; view.go(step); "
    "const panels = view.pictures[0].items.filter(({ kind }) => kind !== 'frame')"
    ".map(({ i }) => { view.set({ selected: i }); "
    "return view.panel.element.innerText; }); "
    "view.pictures[0].items.forEach(({ g }) => g.focus({ preventScroll: true })); "
    "const spoken = [...view.root.querySelectorAll('[aria-label]')].map((x) => x.ariaLabel); "
    "return [view.root.innerText, ...panels, ...spoken].join('\\n'); }"
)


def test_nothing_tells_what_has_not_come(offline, tmp_path):
    def f(x, w):
        a = tf.sin(x)
        y = a * w
        return tf.square(y)

    trace = cgviz.trace(f, 0.7, 3.1)
    trace.save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.locator(".cgviz-table summary").click()
    comes = {
        style.number(given.item()): number
        for number, step in enumerate(trace.steps, 1)
        for given in step.downstream
        if given is not None
    }
    assert len(comes) >= 4
    assert offline.locator(".cgviz-where").inner_text() == "forward 3 of 3"
    for moment in (-3, 0, 1, 2, 3):
        told = offline.evaluate(TOLD, moment)
        for number, step in comes.items():
            assert (number in told) == (step <= moment), (number, step, moment)
        if moment == -3:
            assert style.number(trace.value.item()) not in told


def test_it_has_every_pass_each_with_its_legend(offline, tmp_path):
    cgviz.trace(lambda x: x * x * x, 2.0, order=2).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    legend, passes = offline.locator(".cgviz-legend"), offline.get_by_label("Backward pass").first
    for which, bands, told in (
        ("1", 2, ["value", "gradient of the outer backward pass"]),
        ("0", 0, ["forward value", "backward gradient"]),
    ):
        passes.select_option(which)
        has_count(offline.locator("g.cgviz-band"), bands)
        assert legend.locator("li").all_inner_texts() == told


def test_at_its_end_all_is_shown_though_the_last_op_is_not(offline, tmp_path):
    def masked(x):
        return tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(x), tf.zeros_like(x)) * x)

    cgviz.trace(masked, [4.0, 0.0, -1.0]).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.locator("g.cgviz-node").first.wait_for()  # keys before it are lost
    told = offline.locator(".cgviz-reason", has_text="boolean")
    for key, words, shown in (
        ("End", "Backward step 5 of 5: a rule runs that is not shown.", True),
        ("ArrowLeft", "Backward step 4 of 5: √x gets", False),
        ("ArrowRight", "Backward step 5 of 5: a rule runs that is not shown.", True),
    ):
        offline.keyboard.press(key)
        offline.locator(".cgviz-status", has_text=words).wait_for()
        told.wait_for(state="visible" if shown else "hidden")


def test_its_policy_lets_in_no_other_script_and_no_request(page, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    stopped = page.evaluate(
        "async () => { const found = []; document.addEventListener('securitypolicyviolation', "
        "(event) => found.push(event.effectiveDirective)); "
        "const add = (tag, more) => document.body.append(Object.assign("
        "document.createElement(tag), more)); "
        "add('script', { textContent: 'window.ran = true' }); "
        "add('img', { src: 'http://127.0.0.1:9/x.png' }); "
        "add('style', { textContent: 'body { color: red }' }); "
        "await fetch('http://127.0.0.1:9/').catch(() => null); "
        "for (let i = 0; i < 100 && found.length < 4; i += 1) "
        "await new Promise((done) => setTimeout(done, 50)); return found.sort(); }"
    )
    assert stopped == ["connect-src", "img-src", "script-src-elem", "style-src-elem"]
    assert page.evaluate("window.ran") is None


def nested(x):
    for name in ("one", "two"):
        with tf.name_scope(name):
            x = tf.sin(square(x))
    return x


def test_scopes_and_custom_ops_open_and_close_in_it(offline, tmp_path):
    cgviz.trace(nested, 2.0).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    has_count(offline.locator("g.cgviz-frame"), 2)
    offline.locator("g.cgviz-frame .cgviz-tab").first.click()
    has_count(offline.locator("g.cgviz-frame"), 1)
    offline.locator("g.cgviz-scope .cgviz-handle").click()
    has_count(offline.locator("g.cgviz-frame"), 2)
    offline.locator("g.cgviz-custom").first.focus()
    offline.keyboard.press("o")
    has_count(offline.locator("g.cgviz-open"), 1)
    assert offline.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    offline.keyboard.press("o")
    has_count(offline.locator("g.cgviz-open"), 0)


def test_a_custom_op_whose_outputs_have_two_names_opens_in_it(offline, tmp_path):
    PROGRAMS["two_outputs"]().save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.locator("g.cgviz-custom .cgviz-handle").click()
    has_count(offline.locator("g.cgviz-open"), 1)


def test_a_fold_that_a_file_does_not_hold_is_not_offered(offline, tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "MOST_FOLDS", 20_000)
    PROGRAMS["scopes_folded"]().save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    scopes = offline.locator("g.cgviz-scope")
    scopes.first.wait_for()
    held = scopes.and_(offline.locator("[aria-expanded]"))
    assert 0 < held.count() < scopes.count() == 12
    assert scopes.locator(".cgviz-handle").count() == held.count()
    panel = offline.locator(".cgviz-panel")
    for scope in scopes.all():
        scope.click()
        opens = scope.get_attribute("aria-expanded") == "false"
        assert panel.get_by_role("button", name="Open").count() == opens
        assert ("is not in this file: trace.view() in a notebook" in panel.inner_text()) != opens
    scopes.last.press("o")
    has_count(offline.locator("g.cgviz-frame"), 0)
    held.first.press("o")
    has_count(offline.locator("g.cgviz-frame"), 1)


def test_keys_step_wherever_the_focus_is_and_tab_walks_the_nodes(offline, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    where = offline.locator(".cgviz-where")
    nodes = offline.locator("g.cgviz-node[tabindex='0']")
    speed = offline.get_by_label("Speed")  # whose own keys are those up and down
    steps = [
        ("End", "backward step 3 of 3"),
        ("ArrowLeft", "backward step 2 of 3"),
        ("ArrowRight", "backward step 3 of 3"),
        ("Home", "forward 0 of 3"),
        ("ArrowDown", "forward 1 of 3"),
    ]
    panel, button = offline.locator(".cgviz-panel"), offline.locator("button").first
    for place in (nodes.first, panel, button, speed):
        place.focus()
        for key, told in steps[:-1] if place is speed else steps:
            offline.keyboard.press(key)
            assert where.inner_text() == told
    nodes.first.focus()
    offline.keyboard.press(" ")
    offline.get_by_role("button", name="Pause").wait_for()
    offline.keyboard.press(" ")
    seen = []
    nodes.first.focus()
    for _ in range(nodes.count()):
        seen.append(offline.evaluate("document.activeElement.ariaLabel.split(/[, ]/)[0]"))
        offline.keyboard.press("Tab")
    assert seen == ["x", "a", "sin", "y_1"]


def test_a_view_is_as_high_at_every_step(offline, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.locator(".cgviz-table summary").click()
    offline.locator(".cgviz-table tbody tr").first.wait_for(state="attached")
    view = "document.querySelector('.cgviz-view').cgvizView"
    height = f"step => {{ {view}.go(step); return {view}.root.offsetHeight; }}"
    assert len({offline.evaluate(height, step) for step in range(-3, 4)}) == 1


def test_what_its_side_panel_says_is_scrolled_and_its_height_stays(offline, tmp_path):
    cgviz.trace(lambda x, w: tf.reduce_sum(x * w), [1.0] * 4, [2.0] * 4).save(tmp_path / "f.html")
    offline.set_viewport_size({"width": 800, "height": 900})
    offline.goto((tmp_path / "f.html").as_uri())
    panel = offline.locator(".cgviz-panel")
    before = panel.evaluate("x => x.clientHeight")
    offline.locator("g.cgviz-node.cgviz-op").first.click()
    offline.get_by_role("button", name="To the end").click()
    assert panel.evaluate("x => x.scrollHeight") > before == panel.evaluate("x => x.clientHeight")
    assert panel.evaluate("x => getComputedStyle(x).overflowY") == "auto"


def test_of_two_traces_only_texts_that_differ_are_underlined(offline, tmp_path):
    one, other = (cgviz.trace(lambda x: 3.0 * (x + 1.0), at) for at in (2.0, 5.0))
    one.view(against=other, start="end").save(tmp_path / "two.html")
    offline.goto((tmp_path / "two.html").as_uri())
    texts = offline.locator("svg text.cgviz-differs")
    assert texts.all_text_contents() == ["2", "3", "9", "5", "6", "18"]
    assert "underline" in texts.first.evaluate("x => getComputedStyle(x).textDecorationLine")
    assert not offline.locator("g.cgviz-node.cgviz-differs").count()


def test_nothing_is_said_to_differ_before_it_is_told(offline, tmp_path):
    forgetful = tf.custom_gradient(lambda x: (x * x, lambda upstream: 2.0 * x))
    one, other = (cgviz.trace(lambda x, g=g: 3.0 * g(x), 2.0) for g in (forgetful, tf.square))
    one.view(against=other).save(tmp_path / "two.html")
    offline.goto((tmp_path / "two.html").as_uri())
    stage = offline.locator(".cgviz-stage").first
    has_count(stage.locator(".cgviz-svg"), 1)
    x = stage.get_by_role("button", name="x (input), value 2")
    for step, told in ((0, False), (1, False), (2, True)):
        offline.evaluate(f"document.querySelector('.cgviz-view').cgvizView.go({step})")
        assert x.evaluate("(e) => e.classList.contains('cgviz-differs')") == told, step


def test_the_sign_of_what_differs_covers_no_name(offline, tmp_path):
    naive = cgviz.trace(lambda x: tf.math.log(1.0 + tf.exp(x)), 100.0)
    naive.view(against=cgviz.trace(tf.math.softplus, 100.0)).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    has_count(offline.locator(".cgviz-svg"), 2)
    marks = offline.locator(".cgviz-node.cgviz-differs")
    assert marks.count() >= 5
    for node in marks.all():
        sign = node.locator(".cgviz-mark circle").bounding_box()
        name = node.locator(".cgviz-title").bounding_box()
        assert sign["x"] + sign["width"] < name["x"] or sign["y"] + sign["height"] < name["y"]


def test_it_works_within_another_page(offline, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    outer = '<h1>A course</h1><iframe src="flow.html" width="1000" height="700"></iframe>'
    (tmp_path / "course.html").write_text(outer)
    offline.goto((tmp_path / "course.html").as_uri())
    frame = offline.frame_locator("iframe")
    frame.get_by_role("button", name="One step forward").click()
    assert frame.locator(".cgviz-where").inner_text() == "the backward pass starts"


CALLER = """<!DOCTYPE html><meta charset="utf-8"><style>
body { background: #fff; font: 20px/2 serif; }
body.dark { background: #14181a; }
button, h3, table, code, ul { background: lime; border: 9px solid lime; font-size: 40px; }
</style><h1>A course</h1>%s<p>Between.</p>%s<p id="end">After.</p>"""


def test_two_embedded_pictures_on_a_page_share_all_but_their_state(offline, tmp_path):
    shown = [cgviz.trace(f, x).view().embed() for x in (2.0, 3.0)]
    (tmp_path / "course.html").write_text(CALLER % (*shown,), encoding="utf-8")
    offline.goto((tmp_path / "course.html").as_uri())
    views = offline.locator(".cgviz-view")
    has_count(views, 2)
    one, other = views.all()
    one.locator("g.cgviz-node").first.focus()
    for _ in range(4):  # the seed and three steps
        offline.keyboard.press("ArrowRight")
    assert one.locator(".cgviz-where").inner_text() == "backward step 3 of 3"
    assert other.locator(".cgviz-where").inner_text() == "forward 3 of 3"
    one.locator("g.cgviz-node.cgviz-custom").click()
    assert "−1.307" in one.locator(".cgviz-panel").inner_text()
    boxes = "[...document.querySelectorAll('.cgviz-embed')]"
    shadows = f"{boxes}.map((box) => box.shadowRoot)"
    assert offline.evaluate("globalThis.cgvizLoaded.size") == 1
    assert offline.evaluate(f"new Set({shadows}.map((x) => x.adoptedStyleSheets[0])).size") == 1
    high = offline.evaluate(
        f"{boxes}.map((box) => [box.offsetHeight, box.shadowRoot.firstChild.scrollHeight])"
    )
    assert all(320 < outer < 1200 and outer >= inner for outer, inner in high)
    # The page's own style stays outside, and a dark page makes dark pictures.
    letters = one.locator("button").first.evaluate("x => getComputedStyle(x).fontSize")
    assert float(letters.removesuffix("px")) < 16
    has_count(offline.locator(".cgviz-dark"), 0)
    offline.evaluate("document.body.className = 'dark'")
    has_count(offline.locator(".cgviz-dark"), 2)


def test_pictures_of_two_versions_are_on_one_page_each_with_its_own_module(offline, tmp_path):
    one = cgviz.trace(f, 2.0).view().embed()
    kept = assets.module()
    for each in (assets.module, assets.shared):
        each.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assets, "module", lambda: f"{kept}\nglobalThis.another = true;\n")
        other = cgviz.trace(f, 3.0).view().embed()
    assets.shared.cache_clear()
    (tmp_path / "course.html").write_text(CALLER % (one, other), encoding="utf-8")
    offline.goto((tmp_path / "course.html").as_uri())
    has_count(offline.locator(".cgviz-view"), 2)
    assert offline.evaluate("[globalThis.cgvizLoaded.size, globalThis.another]") == [2, True]


def test_where_no_script_runs_an_embedded_picture_is_a_picture(browser, tmp_path):
    shown = cgviz.trace(f, 2.0).view().embed()
    (tmp_path / "course.html").write_text(CALLER % (shown, ""), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "course.html").as_uri())
    picture = page.get_by_role("img")
    assert picture.bounding_box()["height"] > 100
    assert "gradients: x" in picture.get_attribute("alt")
    context.close()


def test_a_quiz_works_in_it(offline, tmp_path):
    cgviz.predict(cgviz.trace(f, 2.0)).save(tmp_path / "quiz.html")
    offline.goto((tmp_path / "quiz.html").as_uri())
    offline.get_by_role("button", name="To the end").click()
    field = offline.locator(".cgviz-answer input").first
    field.fill("-2")
    field.press("Enter")
    assert "Wrong sign" in offline.locator(".cgviz-verdict").first.inner_text()
    for step in (1, 2, 3):
        while offline.get_by_role("button", name="Reveal").count():
            offline.get_by_role("button", name="Reveal").first.click()
        if step < 3:
            offline.get_by_role("button", name="One step forward").click()
    assert offline.locator(".cgviz-where").inner_text() == "backward step 3 of 3"
    assert offline.locator(".cgviz-status").inner_text().startswith("0 of 4 predicted, 4 revealed")
    assert "✓" not in offline.locator(".cgviz-panel").inner_text()
    assert "?" not in "".join(offline.locator(".cgviz-svg text").all_text_contents())


@pytest.fixture
def soon(monkeypatch):
    """Saving computes three positions of each slider, and not as many as may be."""
    monkeypatch.setattr(explorer, "POSITIONS", (3,))


def test_sliders_work_in_it_at_positions_that_were_computed(offline, soon, tmp_path):
    cgviz.explore(f, x=(-3.0, 3.0, 1.7)).save(tmp_path / "sliders.html")
    offline.goto((tmp_path / "sliders.html").as_uri())
    slider = offline.get_by_label("x", exact=True)
    assert offline.locator(".cgviz-explore output").first.inner_text() == "1.7"
    assert "Saved without a kernel" in offline.locator(".cgviz-sliders").inner_text()
    gradient = lambda x: cgviz.trace(f, x).gradients[0].item()  # noqa: E731
    slider.press("Home")
    has_count(offline.locator(".cgviz-explore[data-moved='1']"), 1)
    assert offline.locator(".cgviz-explore output").first.inner_text() == "−3"
    shown = "".join(offline.locator(".cgviz-svg text").all_text_contents())
    assert style.number(gradient(-3.0)) in shown
    curve = offline.locator(".cgviz-curve.cgviz-rule").first.get_attribute("d")
    offline.get_by_label("upstream", exact=True).press("Home")
    has_count(offline.locator(".cgviz-explore[data-moved='2']"), 1)
    shown = "".join(offline.locator(".cgviz-svg text").all_text_contents())
    assert style.number(-2 * gradient(-3.0)) in shown
    assert offline.locator(".cgviz-curve.cgviz-rule").first.get_attribute("d") != curve


def test_the_plots_stay_where_they_are_whichever_slider_moves(offline, soon, tmp_path):
    cgviz.explore(f, x=(-3.0, 3.0)).save(tmp_path / "sliders.html")
    offline.goto((tmp_path / "sliders.html").as_uri())
    boxes = []
    for moved, name in enumerate(("x", "upstream"), 1):
        offline.get_by_role("slider", name=name, exact=True).press("ArrowRight")
        has_count(offline.locator(f".cgviz-explore[data-moved='{moved}']"), 1)
        has_count(offline.get_by_role("img", name=f"over {name}"), 2)
        boxes.append([plot.bounding_box() for plot in offline.locator(".cgviz-plotbox").all()])
    assert boxes[0] == boxes[1]


def test_after_a_branch_and_back_the_panel_is_that_of_the_picture(offline, monkeypatch, tmp_path):
    monkeypatch.setattr(explorer, "POSITIONS", (6,))
    branched = lambda x: x * x if x > 0 else tf.sin(tf.cos(x))  # noqa: E731
    explored = cgviz.explore(branched, x=(-3.0, 3.0, 2.0), upstream=None)
    explored.save(tmp_path / "sliders.html")
    offline.goto((tmp_path / "sliders.html").as_uri())
    slider = offline.get_by_label("x", exact=True)
    for moved, key in enumerate(("Home", "ArrowRight", "Home"), 1):
        slider.press(key)
        has_count(offline.locator(f".cgviz-explore[data-moved='{moved}']"), 1)
    told = f"returns {style.number(cgviz.trace(branched, -3.0).gradients[0])} to x"
    assert told in offline.locator(".cgviz-status").first.inner_text()


def test_a_finger_drags_the_number_in_its_node_and_scrolls_the_page(browser, soon, tmp_path):
    cgviz.explore(f, x=(-3.0, 3.0), upstream=None).save(tmp_path / "sliders.html")
    context = browser.new_context(viewport={"width": 390, "height": 700}, has_touch=True)
    page = context.new_page()
    page.goto((tmp_path / "sliders.html").as_uri())
    node = page.locator("g.cgviz-node.cgviz-scrubbed")
    node.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    send = context.new_cdp_session(page).send
    place = node.bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    for dx, dy in ((-20, 0), (0, -20)):
        for k in range(10):
            point = {"x": x + k * dx, "y": y + k * dy}
            kind = "touchMove" if k else "touchStart"
            send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        until(page, "document.querySelector('g.cgviz-scrubbed').textContent.includes('x = −3')")
    until(page, f"scrollY > {before} + 50")
    context.close()


def test_a_slider_with_one_position_cannot_be_moved_and_says_so(
    offline, soon, tmp_path, monkeypatch
):
    monkeypatch.setattr(explorer, "MOST", 0)
    with pytest.warns(UserWarning, match="cannot be moved"):
        cgviz.explore(lambda x: x * x, x=(-3.0, 3.0)).save(tmp_path / "sliders.html")
    offline.goto((tmp_path / "sliders.html").as_uri())
    slider = offline.locator(".cgviz-explore input").first
    assert slider.is_disabled()
    assert slider.input_value() == "1"  # where its thumb is, between -3 and 3
    assert slider.get_attribute("aria-valuetext") == "1, fixed"
    assert offline.locator(".cgviz-scrub").count() == 0


def test_it_begins_with_the_curves_of_the_slider_that_moved_last(offline, soon, tmp_path):
    shown = cgviz.explore(lambda x, w: x * w, x=(-3.0, 3.0), w=(-2.0, 2.0), upstream=None)
    shown._moved({"move": [1.0, 0.5], "active": 1, "id": 1}, True)
    shown.save(tmp_path / "sliders.html")
    offline.goto((tmp_path / "sliders.html").as_uri())
    offline.locator("g.cgviz-node").first.wait_for()
    assert offline.locator(".cgviz-dot").count() == 2
    assert offline.locator(".cgviz-stale").count() == 0


def test_names_are_text(offline, tmp_path):
    trace = cgviz.trace(f, 2.0)
    for op in trace.ops:
        if op.kind == "input":
            object.__setattr__(op, "name", ATTACK)
    trace.save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.locator("g.cgviz-node.cgviz-input").click()
    assert ATTACK in offline.locator(".cgviz-panel .cgviz-title").inner_text()
    has_count(offline.locator("img"), 0)


def test_it_follows_the_readers_theme_and_axe_finds_nothing(page, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    page.goto(without_policy(tmp_path / "flow.html"))
    page.locator("g.cgviz-node").first.wait_for()
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert violations_in_light_and_dark(page) == {"light": [], "dark": []}
    assert page.evaluate(ground) == "rgb(17, 17, 17)"
    page.reload()  # a page that is dark from its start
    has_count(page.locator(".cgviz-dark"), 1)


def test_a_large_trace_opens_folded(offline, tmp_path):
    def deep(x):
        for layer in range(50):
            with tf.name_scope(f"layer_{layer}"):
                for _ in range(40):
                    x = tf.sin(x)
        return x

    trace = cgviz.trace(deep, 0.5)
    assert len(trace.steps) == 2000
    save_without_folds(trace, tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    has_count(offline.locator("g.cgviz-scope"), 50)


COPIED = (  # what is copied as that; the clipboard of the page is one of the test's
    "async kind => { const [copied] = []; let found; "
    "Object.defineProperty(navigator, 'clipboard', { configurable: true, value: "
    "{ write: async ([item]) => { const type = item.types[0]; "
    "const blob = await item.getType(type); found = type === 'text/plain' "
    "? await blob.text() : [type, blob.size]; } } }); "
    "const copy = document.querySelector('select[aria-label=Copy]'); copy.value = kind; "
    "copy.dispatchEvent(new Event('change')); "
    "while (!found) await new Promise((done) => setTimeout(done, 20)); return found; }"
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_copied_as_it_is_drawn_in_light_colours(offline, tmp_path, scheme):
    trace = cgviz.trace(f, 2.0)
    trace.save(tmp_path / "flow.html")
    offline.emulate_media(color_scheme=scheme)
    offline.goto((tmp_path / "flow.html").as_uri() + "#step=3")
    assert offline.locator(".cgviz-where").inner_text() == "backward step 3 of 3"
    svg = offline.evaluate(COPIED, "SVG")
    assert not re.search(r"class=|var\(|color-mix|cgviz", svg)
    light = [int(style.LIGHT.backward[i : i + 2], 16) for i in (1, 3, 5)]
    assert "rgb({}, {}, {})".format(*light) in svg
    assert set(re.findall(r' opacity="([^"]*)"', svg)) == {"1"}  # and not on the way to it
    kind, size = offline.evaluate(COPIED, "PNG")
    assert kind == "image/png"
    assert size > 5_000
    assert offline.evaluate(COPIED, "LaTeX") == trace.chain_rule().latex
    link = offline.evaluate(COPIED, "Link")
    assert link == (tmp_path / "flow.html").as_uri() + "#step=3"
    offline.keyboard.press("ArrowLeft")  # what was copied leaves the keys to the picture
    assert offline.locator(".cgviz-where").inner_text() == "backward step 2 of 3"
    offline.get_by_role("button", name="To the start").click()
    earlier = offline.evaluate(COPIED, "SVG")
    gradient = style.number(trace.gradients[0].item())
    assert gradient in svg
    assert gradient not in earlier


CAMERA = (  # how large the picture is, and where
    "(({ k, box }) => [k, box.scrollLeft, box.scrollTop].join(' '))"
    "(document.querySelector('.cgviz-view').cgvizView.pictures[0])"
)


def test_folds_and_zoom_are_taken_back(offline, tmp_path):
    cgviz.trace(nested, 2.0).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.locator(".cgviz-svg").wait_for()
    whole = offline.evaluate(CAMERA)
    offline.get_by_role("button", name="Zoom in").click()
    zoomed = offline.evaluate(CAMERA)
    assert zoomed != whole
    offline.locator("g.cgviz-frame").first.focus()
    offline.keyboard.press("Enter")
    has_count(offline.locator("g.cgviz-frame"), 1)
    offline.get_by_role("button", name="Undo").click()
    has_count(offline.locator("g.cgviz-frame"), 2)
    assert offline.evaluate(CAMERA).split()[0] == zoomed.split()[0]
    offline.locator("g.cgviz-node").first.focus()
    offline.keyboard.press("Control+z")
    assert offline.evaluate(CAMERA) == whole
    undo = offline.get_by_role("button", name="Undo")
    assert undo.get_attribute("aria-disabled") == "true"


def test_it_takes_keys_before_anything_has_the_focus(offline, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    has_count(offline.locator(".cgviz-ready"), 1)
    offline.keyboard.press("ArrowRight")
    assert offline.locator(".cgviz-where").inner_text() == "the backward pass starts"
    offline.keyboard.press("?")
    help_ = offline.locator(".cgviz-keys")
    assert "One step forward" in help_.inner_text()
    assert "Training" not in help_.inner_text()  # which this page has not
    offline.keyboard.press("Escape")
    assert help_.is_hidden()


def test_the_pointer_drags_and_a_turn_of_the_wheel_is_taken_back(offline, tmp_path):
    cgviz.trace(f, 2.0).save(tmp_path / "flow.html")
    offline.goto((tmp_path / "flow.html").as_uri())
    offline.locator(".cgviz-svg").wait_for()
    whole = offline.evaluate(CAMERA)
    box = offline.locator(".cgviz-box").bounding_box()
    x, y = box["x"] + 60, box["y"] + box["height"] - 40
    offline.mouse.move(x, y)
    offline.keyboard.down("Control")
    offline.mouse.wheel(0, -600)
    offline.mouse.wheel(0, -600)  # at once: one turn of the wheel
    offline.keyboard.up("Control")
    until(offline, f"{CAMERA} !== {whole!r}")
    large = offline.evaluate(CAMERA)
    offline.mouse.down()
    offline.mouse.move(x - 30, y - 20, steps=3)
    offline.mouse.up()
    (k, left, top), (to, right, down) = (
        [float(n) for n in each.split()] for each in (large, offline.evaluate(CAMERA))
    )
    assert (to, round(right - left), round(down - top)) == (k, 30, 20)
    offline.keyboard.press("Control+z")
    assert offline.evaluate(CAMERA) == whole
