"""The live picture in a real JupyterLab: by pointer, by keyboard, by screen reader, and in time."""

import pytest

from .conftest import COLOURS, SESSION, box_at_rest, has_count, violations

SETUP = """\
import tensorflow as tf
import cgviz

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

def chain(x, w):
    y = x
    for _ in range(10):
        y = tf.sin(y) * w + x
    return y
"""
PLAY = "document.querySelector('.cgviz-ready [title=Play]')"
GO = "step => document.querySelector('.cgviz-view').cgvizView.go(step)"
CUT = (  # pictures that are wider than what is seen of them, though their letters could be smaller
    "[...document.querySelectorAll('.cgviz-svg')].filter((svg) => { "
    "const sizes = [...svg.querySelectorAll('text')].map((x) => +x.getAttribute('font-size')); "
    "const least = Math.min(...sizes.filter((x) => x)) * svg.firstElementChild.getScreenCTM().a; "
    "if (least < 11.5) return false; "
    "const [all, seen] = [svg.firstElementChild, svg.closest('.jp-OutputArea-output')]"
    ".map((x) => x.getBoundingClientRect()); "
    "const own = svg.getBoundingClientRect(); return all.left < own.left - 1 || "
    "all.right > own.right + 1 || own.right > seen.right + 1; }).map((svg) => svg.ariaLabel)"
)
VIEW = "document.querySelector('.cgviz-view').cgvizView"
ATTACK = "<img src=x onerror=alert(1)>"


def button(page, name):
    return page.get_by_role("button", name=name, exact=True).first


def texts(page, selector):
    return page.eval_on_selector_all(selector, "found => found.map(x => x.textContent)")


def test_a_trace_at_the_end_of_a_cell_is_live_and_steps(show):
    page = show("cgviz.trace(f, 2.0)")
    assert page.locator(".cgviz-status").inner_text().startswith("Forward 3 of 3")
    has_count(page.locator(".cgviz-ready"), 1)
    for opened_by_a_key in (".cgviz-keys", ".cgviz-search"):
        assert page.locator(opened_by_a_key).is_hidden()
    button(page, "To the start").click()
    assert page.locator(".cgviz-status").inner_text().startswith("Forward 0 of 3: nothing has run")
    has_count(page.locator(".cgviz-backward-head.cgviz-seen"), 0)
    for _ in range(3):
        button(page, "One step forward").click()
    assert page.locator(".cgviz-where").inner_text() == "forward 3 of 3"
    button(page, "One step forward").click()
    told = page.locator(".cgviz-status").inner_text()
    assert told == "The backward pass starts: y_1 gets upstream 1."
    button(page, "One step forward").click()
    assert page.locator(".cgviz-where").inner_text() == "backward step 1 of 3"
    assert "−0.7568" in texts(page, ".cgviz-link .cgviz-gradient.cgviz-now")
    button(page, "One step back").click()
    has_count(page.locator(".cgviz-backward-head.cgviz-seen"), 1)  # the seed


def test_it_plays_and_pauses(show):
    page = show("cgviz.trace(f, 2.0)")
    page.get_by_label("Speed").first.select_option("4")
    button(page, "Play").click()
    button(page, "Pause").wait_for()
    button(page, "Play").wait_for()  # it stops by itself at the end
    assert page.locator(".cgviz-where").inner_text() == "backward step 3 of 3"


def test_side_panel_bodies_and_the_table(show):
    page = show("cgviz.trace(f, 2.0)")
    page.locator("g.cgviz-node.cgviz-custom").click()
    panel = page.locator(".cgviz-panel")
    assert "−1.307" not in panel.inner_text()
    button(page, "To the end").click()
    assert "−1.307" in panel.inner_text()
    assert "def grad(upstream):" in panel.inner_text()
    panel.get_by_role("button", name="Open", exact=True).click()
    has_count(page.locator("g.cgviz-open"), 1)
    assert page.locator("g.cgviz-open").get_attribute("aria-expanded") == "true"
    has_count(page.locator("g.cgviz-port"), 2)
    panel.get_by_role("button", name="Close", exact=True).click()
    has_count(page.locator("g.cgviz-open"), 0)
    assert page.locator("g.cgviz-custom").get_attribute("aria-expanded") == "false"
    page.locator(".cgviz-table summary").click()
    has_count(page.locator(".cgviz-table tbody tr"), 4)


def test_everything_works_by_keyboard_and_the_notebook_stays_where_it_is(show):
    page = show("cgviz.trace(f, 2.0)")
    page.locator("svg.cgviz-svg [tabindex='0']").first.focus()
    label = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(label).startswith("x (input), value 2")
    cell = page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex")
    seen = set()
    for _ in range(4):
        seen.add(page.evaluate(label))
        page.keyboard.press("Tab")
    assert len(seen) == 4
    page.locator("svg.cgviz-svg [tabindex='0']").first.focus()
    page.keyboard.press("Enter")
    assert "input" in page.locator(".cgviz-panel .cgviz-title").inner_text()
    page.keyboard.press("b")
    page.keyboard.press("+")
    page.keyboard.press("0")
    assert page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex") == cell
    assert page.evaluate("jupyterapp.shell.currentWidget.content.widgets.length") == 2
    button(page, "To the end").focus()
    page.keyboard.press("Enter")
    button(page, "One step back").focus()
    page.keyboard.press("Enter")
    assert page.locator(".cgviz-where").inner_text() == "backward step 2 of 3"


@pytest.mark.parametrize(
    ("codes", "each"),
    [
        (["cgviz.trace(f, 2.0)", "cgviz.trace(f, 2.0).view()"], 1),
        (["import ipywidgets\nv = cgviz.trace(f, 2.0).view\nipywidgets.HBox([v(), v()])"], 2),
    ],
)
def test_runs_of_a_cell_leave_the_views_of_one(show, codes, each):
    count = (
        "from ipywidgets.widgets import widget\n"
        "def views():\n"
        "    return sum(type(w).__name__ == 'View' for w in widget._instances.values())\n"
    )
    show(codes[0], each)  # closes what the tests before left in this cell
    show(f"{count}before = views()", views=0)
    for code in 3 * codes:
        show(code, each)
    page = show("print('more views:', views() - before)", views=0)
    page.get_by_text("more views: 0").wait_for()


def test_a_view_that_is_kept_for_later_is_not_closed_by_another_run(show):
    show("import ipywidgets\nkept = []", views=0)
    for _ in range(2):
        show("kept.append(cgviz.trace(f, 2.0).view())", views=0)
    show("ipywidgets.HBox(kept)", views=2)


def test_two_views_in_a_row_share_its_width(show):
    page = show("import ipywidgets\nv = cgviz.trace(f, 2.0).view\nipywidgets.HBox([v(), v()])", 2)
    width = "found => found.map((x) => x.getBoundingClientRect().width)"
    assert min(page.eval_on_selector_all(".cgviz-view", width)) >= 400


def test_its_letters_are_as_large_as_those_of_the_notebook(show):
    page = show("cgviz.trace(f, 2.0)")
    large = "document.documentElement.style.setProperty('--jp-content-font-size1', '21px')"
    page.evaluate(large)
    for part in (".cgviz-panel", ".cgviz-status", ".cgviz-where"):
        size = page.eval_on_selector(part, "x => parseFloat(getComputedStyle(x).fontSize)")
        assert size >= 20
    assert page.evaluate(CUT) == []
    page.evaluate("document.documentElement.style.removeProperty('--jp-content-font-size1')")


def test_axe_finds_no_violation_in_light_and_dark(notebook, show):
    page = show(
        "display(cgviz.trace(f, 2.0), cgviz.explore(f, x=(-3.0, 3.0)))\n"
        "cgviz.predict(cgviz.trace(f, 2.0))",
        views=3,
    )
    page.locator("g.cgviz-node.cgviz-custom").first.click()
    page.locator(".cgviz-table summary").first.click()
    page.locator("g.cgviz-node").first.press("?")
    page.locator(".cgviz-keys").first.wait_for()
    page.locator(".cgviz-view").nth(2).get_by_role("button", name="To the end").click()
    light = violations(page, ".cgviz-view")
    notebook.theme("JupyterLab Dark")
    dark = violations(page, ".cgviz-view", runOnly=COLOURS)
    notebook.theme("JupyterLab Light")
    assert (light, dark) == ([], [])


def test_nothing_moves_by_itself_for_more_than_five_seconds(show):
    page = show("cgviz.trace(f, 2.0)")
    ends = "document.getAnimations().map((each) => each.effect.getComputedTiming().endTime)"
    breath = page.evaluate(ends)
    button(page, "One step forward").click()
    page.wait_for_function("document.getAnimations().some((a) => a.animationName === 'cgviz-flow')")
    assert breath
    assert all(end <= 5000 for end in [*breath, *page.evaluate(ends)])


def test_those_who_want_no_motion_get_none(show):
    page = show("cgviz.trace(f, 2.0)")
    breathing = f"getComputedStyle({PLAY}).animationName"
    assert page.evaluate(breathing) == "cgviz-breathe"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(breathing) == "none"
    assert page.evaluate(f"getComputedStyle({PLAY}).boxShadow") != "none"
    page.emulate_media(reduced_motion="no-preference")
    button(page, "To the end").click()
    moving = "getComputedStyle(document.querySelector('.cgviz-backward.cgviz-now')).animationName"
    assert page.evaluate(moving) == "cgviz-flow"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == "none"


def test_names_from_user_code_are_text(show):
    page = show(
        f"w = tf.Variable(2.0, name='w')\n"
        "trace = cgviz.trace(lambda x: x * w, 3.0)\n"
        "from dataclasses import replace\n"
        f"op = next(op for op in trace.ops if op.kind == 'variable')\n"
        f"object.__setattr__(op, 'name', '{ATTACK}')\n"
        "trace.view()",
    )
    ran = lambda dialog: pytest.fail("a script ran")  # noqa: E731
    page.on("dialog", ran)
    page.locator("g.cgviz-node.cgviz-variable").click()
    assert ATTACK in page.locator(".cgviz-panel").inner_text()
    has_count(page.locator(".cgviz-view img"), 0)
    page.remove_listener("dialog", ran)


def test_it_loads_nothing_from_elsewhere(lab, show):
    page = show("", views=0)
    asked = []
    note = lambda request: asked.append(request.url)  # noqa: E731
    page.on("request", note)
    show("display(cgviz.trace(f, 2.0), cgviz.explore(f, x=(-3.0, 3.0)))", views=2)
    page.get_by_label("x", exact=True).fill("2")
    page.wait_for_function("document.querySelector('.cgviz-explore').dataset.moved >= 2")
    page.remove_listener("request", note)
    assert [url for url in asked if not url.startswith((lab.url, "blob:", "data:"))] == []


def test_an_error_under_a_slider_is_said_and_old_numbers_are_dim(show):
    page = show(
        "def checked(x):\n"
        "    if x < -1.0:\n"
        "        raise ValueError('too small')\n"
        "    return x * x\n"
        "cgviz.explore(checked, x=(-3.0, 3.0, 2.0))"
    )
    note, dim = page.locator(".cgviz-explore [role=status]"), page.locator(".cgviz-old")
    page.get_by_label("x", exact=True).fill("-2")
    page.wait_for_function("document.querySelector('.cgviz-old')")
    assert "ValueError: too small." in note.inner_text()
    page.get_by_label("x", exact=True).fill("1")
    has_count(dim, 0)
    assert note.inner_text() == ""
    # A kernel that is gone never answers; no test waits the 8 s after which that is said.
    page.evaluate(
        "() => { document.querySelector('.cgviz-view').cgvizView.model.send = () => {}; "
        "const { setTimeout } = window; window.impatient = () => Object.assign(window, "
        "{ setTimeout }); window.setTimeout = (run, ms, ...more) => "
        "setTimeout(run, ms === 8000 ? 50 : ms, ...more); }"
    )
    page.get_by_label("x", exact=True).fill("0.5")
    page.wait_for_function("document.querySelector('.cgviz-old')")
    page.evaluate("window.impatient()")
    assert "The kernel does not answer" in note.inner_text()


def test_sliders_move_every_number_and_the_curves(show):
    page = show("cgviz.explore(f, x=(-3.0, 3.0))")
    before = texts(page, ".cgviz-svg text")
    has_count(page.locator(".cgviz-plot"), 2)
    page.get_by_label("x", exact=True).fill("2")
    page.wait_for_function("document.querySelector('.cgviz-explore').dataset.moved >= 2")
    after = texts(page, ".cgviz-svg text")
    assert len(before) == len(after)
    assert "2 · (−0.6536) = −1.307" in after
    page.get_by_label("upstream", exact=True).fill("-1")
    has_count(page.locator(".cgviz-plot[aria-label$='over upstream']"), 2)
    assert "−2 · (−0.6536) = 1.307" in texts(page, ".cgviz-svg text")


def test_the_node_of_a_number_is_dragged_as_its_slider(show):
    page = show("cgviz.explore(f, x=(-3.0, 3.0, 2.0))")
    node = page.locator("g.cgviz-scrubbed")
    page.wait_for_function(f"{VIEW}.width > 0")  # it has turned, if it does in this width
    node.scroll_into_view_if_needed()
    box = box_at_rest(node)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 40, y, steps=4)
    page.mouse.up()
    assert page.locator(".cgviz-slider output").first.inner_text() == "1"  # a sixth of 6 less
    page.wait_for_function(
        "document.querySelector('.cgviz-scrubbed').textContent.includes('x = 1')"
    )
    page.wait_for_function("document.querySelector('.cgviz-svg').textContent.includes('0.8415')")
    assert page.evaluate("document.querySelector('.cgviz-view').cgvizView.state.selected") is None
    slider = page.get_by_label("x", exact=True)
    slider.press("PageDown")
    assert float(slider.get_attribute("aria-valuetext").replace("−", "-")) < 1


def test_a_slider_reaches_both_of_its_ends(show):
    slider = show("cgviz.explore(f, x=(0.0, 3.14159))").get_by_label("x", exact=True)
    for key, end in (("End", "3.142"), ("Home", "0")):
        slider.press(key)
        assert slider.get_attribute("aria-valuetext") == end


def test_another_branch_brings_another_picture(show):
    page = show(
        "cgviz.explore(lambda x: x * x if x > 0 else tf.sin(tf.cos(x)), x=(-3.0, 3.0))",
    )
    page.get_by_label("x", exact=True).fill("-2")
    page.wait_for_function(
        "[...document.querySelectorAll('.cgviz-svg text')].some(t => t.textContent === 'cos')"
    )


def test_predictions_are_judged(show):
    page = show("cgviz.predict(cgviz.trace(f, 2.0))")
    button(page, "To the end").click()
    assert page.locator(".cgviz-where").inner_text() == "backward step 1 of 3"
    assert "?" in texts(page, ".cgviz-link.cgviz-asked .cgviz-gradient")
    shown = page.locator(".cgviz-view").inner_text()
    assert "returns" not in shown
    field = page.locator(".cgviz-answer input").first
    for answer, verdict in [("-2", "Wrong sign"), ("two", "Type a number"), ("2", "")]:
        field.fill(answer)
        field.press("Enter")
        if verdict:
            assert verdict in page.locator(".cgviz-verdict").first.inner_text()
    assert "✓ 2" in page.locator(".cgviz-panel").inner_text()
    assert "2" in texts(page, ".cgviz-link .cgviz-gradient")


def test_traits_can_be_linked_and_steps_reach_python_later(show):
    page = show(
        "import ipywidgets\nshown = cgviz.trace(f, 2.0).view()\n"
        "slider = ipywidgets.IntSlider(min=-3, max=3)\n"
        "ipywidgets.link((shown, 'step'), (slider, 'value'))\n"
        "ipywidgets.VBox([slider, shown])",
    )
    button(page, "To the start").click()
    page.wait_for_function(
        "document.querySelector('.widget-readout')?.textContent.slice(1) === '3'"
    )


def test_a_view_that_is_shown_again_begins_with_the_pass_of_the_first(show):
    page = show(
        "view = cgviz.trace(f, 2.0, order=2).view()\nview.which = 1\ndisplay(view)\nview", views=2
    )
    second = page.locator(".cgviz-view").nth(1)
    has_count(second.locator("g.cgviz-band"), 2)
    for shown in page.locator(".cgviz-view").all():
        assert shown.get_by_label("Backward pass").input_value() == "1"
    count = "found => found.map(x => x.querySelectorAll('.cgviz-node').length)"
    first, again = page.eval_on_selector_all(".cgviz-view", count)
    assert first == again


def test_two_traces_stand_side_by_side(show):
    page = show(
        "cgviz.trace(f, 2.0).view(against=cgviz.trace(lambda x: tf.sin(x * x) * x, 2.0))",
    )
    has_count(page.locator(".cgviz-stage"), 2)
    assert page.evaluate(CUT) == []
    assert page.locator("g.cgviz-differs").count() >= 2
    button(page, "To the start").click()
    has_count(page.locator(".cgviz-backward-head.cgviz-seen"), 0)


def test_scopes_unfold_and_fold(show):
    page = show(
        "def deep(x):\n"
        "    for layer in range(40):\n"
        "        with tf.name_scope(f'layer_{layer}'):\n"
        "            for _ in range(4):\n"
        "                x = tf.sin(x)\n"
        "    return x\n"
        "cgviz.trace(deep, 0.5)",
    )
    before = page.locator("g.cgviz-node").count()
    page.locator("g.cgviz-scope").last.click()  # in sight, where forward ends
    page.get_by_role("button", name="Open", exact=True).click()
    page.wait_for_function(f"document.querySelectorAll('g.cgviz-node').length > {before}")
    has_count(page.locator("g.cgviz-frame"), 1)
    button(page, "Undo").click()
    page.wait_for_function(f"document.querySelectorAll('g.cgviz-node').length === {before}")


def test_a_small_trace_folds_by_click_and_by_key(show):
    page = show(
        "def parts(x):\n"
        "    for name in ('one', 'two'):\n"
        "        with tf.name_scope(name):\n"
        "            x = tf.sin(square(x))\n"
        "    return x\n"
        "cgviz.trace(parts, 0.5)",
    )
    has_count(page.locator("g.cgviz-frame"), 2)
    page.locator("g.cgviz-frame .cgviz-tab").first.click()
    has_count(page.locator("g.cgviz-scope"), 1)
    page.locator("g.cgviz-scope").focus()
    page.keyboard.press("o")
    has_count(page.locator("g.cgviz-frame"), 2)
    name = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(name) == "one: scope"
    page.keyboard.press("Enter")
    has_count(page.locator("g.cgviz-frame"), 1)
    page.locator("g.cgviz-custom .cgviz-handle").first.click()
    has_count(page.locator("g.cgviz-open"), 1)
    button(page, "To the start").click()
    has_count(page.locator("g.cgviz-open > .cgviz-frame.cgviz-seen"), 0)


def test_five_views_closed_and_opened_again_leave_no_listener_and_no_comm(show):
    # The widget that holds the module is there, and the views that the cell showed are closed.
    show("cgviz.trace(f, 2.0)")
    show("shown = cgviz.trace(f, 2.0).view()\nshown")
    show("shown.close()", views=0)
    page = show(
        "from comm import get_comm_manager\nbefore = set(get_comm_manager().comms)", views=0
    )
    session = page.context.new_cdp_session(page)
    make = "views = [cgviz.trace(f, 2.0).view() for _ in range(5)]\ndisplay(*views)"
    close = (
        "for v in views: v.close()\n"
        "print(len(set(get_comm_manager().comms) - before), 'comms are left')"
    )

    def comms():
        return page.evaluate(f"{SESSION}.kernel._comms.size")

    def listeners():
        session.send("HeapProfiler.collectGarbage")
        return session.send("Memory.getDOMCounters")["jsEventListeners"]

    without = comms()
    show(make, views=5)
    opened, listening = comms(), listeners()
    assert opened >= without + 5
    show("", views=0)
    silent = listeners()
    assert silent < listening - 5 * 20
    show("display(*views)", views=5)
    assert comms() == opened
    for code in (None, make):
        if code:
            show(code, views=5)
        # JupyterLab adds a dozen of its own with each run of a cell; five views have 185.
        assert listeners() <= listening + 60
        show(close, views=0)
        page.get_by_text("0 comms are left", exact=True).wait_for()
        page.wait_for_function(f"n => {SESSION}.kernel._comms.size === n", arg=without)
        assert listeners() <= silent + 60


def test_steps_send_nothing(show):
    page = show("cgviz.trace(chain, 0.5, 0.3)")
    page.evaluate(
        "() => { const send = WebSocket.prototype.send; window.last = performance.now(); "
        "WebSocket.prototype.send = function (data) { window.sent += 1; "
        "window.last = performance.now(); return send.call(this, data); }; }"
    )
    page.wait_for_function("performance.now() - window.last > 200")  # all has been sent
    sent = page.evaluate(
        "() => { window.sent = 0; const root = document.querySelector('.cgviz-view'); "
        "for (let step = 1; step <= 30; step++) root.cgvizView.go(step); return window.sent; }"
    )
    assert sent == 0


def test_nothing_is_cut_in_a_narrow_window(show):
    page = show(
        "display(cgviz.trace(f, 2.0), cgviz.predict(cgviz.trace(f, 2.0)))\n"
        "cgviz.trace(f, 2.0).view(against=cgviz.trace(f, 3.0))",
        views=3,
    )
    page.set_viewport_size({"width": 960, "height": 900})
    over = (
        "[...document.querySelectorAll('.cgviz-view :is(button, select, input)')].filter((x) => "
        "x.offsetParent && x.getBoundingClientRect().right > "
        "x.closest('.cgviz-view').getBoundingClientRect().right + 1).map((x) => x.outerHTML)"
    )
    page.wait_for_function(f"{over}.length === 0")
    page.wait_for_function(f"{CUT}.length === 0")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_below_a_tall_picture_the_sentence_is_in_sight(show):
    page = show(
        "def tall(x):\n"
        "    for _ in range(12):\n"
        "        x = tf.sin(x) * x\n"
        "    return x\n"
        "cgviz.trace(tall, 0.5)"
    )
    page.set_viewport_size({"width": 1280, "height": 720})
    page.locator(".cgviz-view").evaluate("(view) => view.scrollIntoView({ block: 'start' })")
    view = page.locator(".cgviz-view").bounding_box()
    assert view["y"] + view["height"] > 720
    status = page.locator(".cgviz-status").bounding_box()
    assert status["y"] + status["height"] <= 720
    page.set_viewport_size({"width": 1280, "height": 900})
