"""The widget: what it tells the browser, what it answers, what a cell stores."""

import base64
import html
import io
import json
import re
from types import SimpleNamespace

import forked
import ipywidgets
import pytest
import tensorflow as tf
from PIL import Image

import cgviz
from cgviz.live import assets, view
from cgviz.live.view import Shared, View

LIVE = "application/vnd.jupyter.widget-view+json"


def f(x):
    return tf.sin(x) * x


@pytest.fixture
def trace():
    return cgviz.trace(f, 2.0)


@pytest.fixture
def sent(monkeypatch):
    found = []
    monkeypatch.setattr(View, "send", lambda self, content, buffers=None: found.append(content))
    return found


def test_it_begins_when_the_forward_pass_has_run(trace):
    shown = trace.view()
    assert (shown.step, shown.which) == (0, 0)
    assert shown.document["passes"] == ["backward pass 0: 2 steps"]


def test_its_menu_calls_a_pass_what_bands_and_legend_call_it():
    trace = cgviz.trace(lambda x: tf.sin(x) * x, 2.0, order=2)
    shown = trace.view(which=1).document
    passes = [each.split(":")[0] for each in shown["passes"]]
    assert passes == ["inner backward pass", "outer backward pass"]
    page = json.dumps(shown["pages"][0]["texts"]), json.dumps(shown["pages"][0]["legend"])
    assert all(each in words for each, words in zip(passes, page, strict=True))


def test_the_menu_counts_passes_that_do_not_go_through_each_other():
    x = tf.constant(3.0)
    with cgviz.record() as trace:
        for _ in range(2):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x * x
            tape.gradient(y, x)
    assert [each.split(":")[0] for each in trace.view().document["passes"]] == [
        "backward pass 0",
        "backward pass 1",
    ]


def test_a_finished_one_begins_at_the_end_of_the_pass(trace):
    assert trace.view(start="end").step == 2


def test_with_local_each_arrow_has_its_product(trace):
    plain, products = (trace.view(local=local).document["pages"][0] for local in (False, True))
    assert " · " not in str(plain["texts"])
    assert "'1 · 2 = 2'" in str(products["texts"])
    assert ("backward", "upstream · local = downstream") in products["displays"][0]["legend"]


def test_it_is_drawn_in_each_direction_for_the_browser_to_choose(trace):
    (page,) = trace.view().document["pages"]
    assert [each["direction"] for each in page["displays"]] == ["right", "down"]
    one, other = (
        [(text["of"], text["i"], text["role"]) for text in each["texts"]]
        for each in page["displays"]
    )
    assert one == other  # what is written is written once for both


def test_bands_run_right_and_a_long_path_runs_down():
    def deep(x):
        for _ in range(20):
            x = tf.sin(x)
        return x

    for shown, direction in (
        (cgviz.trace(lambda x: x * x * x, 2.0, order=2).view(which=1), "right"),
        (cgviz.trace(deep, 2.0).view(), "down"),
    ):
        (page,) = shown.document["pages"]
        assert [each["direction"] for each in page["displays"]] == [direction]


def test_it_can_be_linked_to_other_widgets(trace):
    slider = ipywidgets.IntSlider(min=-2, max=2)
    shown = trace.view()
    ipywidgets.link((shown, "step"), (slider, "value"))
    slider.value = 1
    assert shown.step == 1


def test_module_and_stylesheet_travel_once_for_all_views_of_a_kernel(trace, monkeypatch):
    sent = []
    make = ipywidgets.widgets.widget.comm.create_comm

    def create_comm(**given):
        sent.append(len(json.dumps(given["data"])))
        return make(**given)

    monkeypatch.setattr(ipywidgets.widgets.widget.comm, "create_comm", create_comm)
    monkeypatch.setattr(Shared, "_made", [])
    whole = len(assets.module()) + len(assets.stylesheet())
    costs = []
    for _ in range(3):
        sent.clear()
        shown = trace.view()
        costs.append(sum(sent))
    content = len(assets.packed(shown.document))
    assert costs[0] > whole
    assert costs[1] == costs[2] < content + 8_000 < whole


def test_where_all_widgets_were_closed_it_travels_again(trace):
    first = trace.view().shared
    first.close()
    assert trace.view().shared is not first


def test_a_page_without_the_module_is_sent_it(trace, sent):
    trace.view()._answer({"ask": "module"}, None)
    assert sent == [{"module": assets.module(), "stylesheet": assets.stylesheet()}]


def test_a_step_computes_nothing(trace, sent):
    shown = trace.view()
    shown.step = 1
    assert sent == []


def test_another_pass_is_sent_when_it_is_asked_for(sent):
    trace = cgviz.trace(lambda x: x * x * x, 2.0, order=2)
    first, second = (len(each.steps) for each in trace.passes)
    shown = trace.view()
    shown._answer({"ask": "pages", "which": 1, "opened": []}, None)
    (answer,) = sent
    assert answer["key"] == "1|"
    assert first != second == answer["pages"][0]["displays"][0]["steps"]


def test_local_jacobians_are_sent_when_they_are_asked_for(sent):
    def f(x):
        for _ in range(41):
            x = tf.sin(x)
        return x

    shown = cgviz.trace(f, 1.0).view()
    shown._answer({"ask": "panels", "which": 0, "opened": [], "side": 0, "key": "0| 0"}, None)
    (answer,) = sent
    assert any(each.get("asked") for each in answer["panels"])
    assert answer["key"] == "0| 0"


def test_what_cannot_be_shown_is_named(trace):
    with pytest.raises(TypeError, match="`against` must be a trace, not int"):
        trace.view(against=3)
    with pytest.raises(ValueError, match="`start` must be one of forward, end, not 'middle'"):
        trace.view(start="middle")
    with pytest.raises(ValueError, match="`which` is 7, but this trace has 1 backward pass"):
        trace.view(which=7)


def test_two_of_one_name_are_told_apart():
    def square(x):
        return x * x

    names = [
        cgviz.trace(f, 2.0).view(against=cgviz.trace(g, 2.0)).document["names"]
        for f, g in ((square, tf.sin), (lambda x: x * x, lambda x: x + x))
    ]
    assert names == [["square", "sin"], ["this trace", "the other"]]


def test_two_traces_stand_side_by_side(trace):
    other = cgviz.trace(f, 3.0)
    pages = trace.view(against=other).document["pages"]
    assert len(pages) == 2
    assert any(differs for text in pages[0]["texts"]["written"] for *_, differs in text)


@pytest.fixture
def cell(monkeypatch):
    """What a cell of a notebook shows."""
    found = []
    monkeypatch.setattr(view, "_in_a_notebook", lambda: True)
    monkeypatch.setattr(view, "_watch_cells", lambda: None)  # IPython itself does not run here
    monkeypatch.setattr(
        view, "publish_display_data", lambda data, metadata=None: found.append(data)
    )
    return found


def test_a_cell_shows_the_live_view_first_and_stores_a_picture_and_its_text_after_it(trace, cell):
    trace.view()._ipython_display_()
    live, still = cell
    assert set(still) == {"text/html", "text/plain"}
    assert html.unescape(re.search(r'alt="([^"]*)"', still["text/html"])[1]) == repr(trace)
    assert picture(still).startswith(b"\x89PNG")
    assert still["text/plain"] == repr(trace)
    assert set(live) == {LIVE}


def test_of_two_traces_a_cell_stores_both_one_above_the_other_each_below_its_name(
    cell, monkeypatch
):
    sheets, draw = [], view.figure.sheet
    monkeypatch.setattr(view.figure, "sheet", lambda *of: sheets.append(draw(*of)) or sheets[0])
    naive = cgviz.trace(lambda x: tf.math.log(1.0 + tf.exp(x)), 100.0)
    stable = cgviz.trace(tf.math.softplus, 100.0)
    naive.view(against=stable)._ipython_display_()
    above, below = sheets[0].axes
    assert (above.get_title(), below.get_title()) == ("f", "softplus")
    assert above.get_position().y0 > below.get_position().y1
    for ax, own, other in ((above, "log", "softplus"), (below, "softplus", "log")):
        said = {words for drawn in ax.collections for words in drawn.words}
        assert own in said
        assert other not in said
    _, still = cell
    assert still["text/plain"] == f"f, and below it softplus\n\n{naive!r}\n\n{stable!r}"
    assert html.unescape(re.search(r'alt="([^"]*)"', still["text/html"])[1]) == still["text/plain"]


def test_letters_of_two_deep_traces_are_stored_as_large_as_those_of_one(cell):
    def deep(x):
        for _ in range(30):
            x = tf.sin(x)
        return x

    trace = cgviz.trace(deep, 1.0)
    for shown in (trace.view(), trace.view(against=trace)):
        shown._ipython_display_()
    one, two = (Image.open(io.BytesIO(picture(still))) for still in cell[1::2])
    assert two.width > 0.98 * one.width
    assert two.height > 1.9 * one.height


def picture(still):
    """The bytes of the picture that a cell stores."""
    return base64.b64decode(re.search(r'base64,([^"]*)"', still["text/html"])[1])


def test_the_text_of_a_picture_is_no_markup(trace, cell):
    for op in trace.ops:
        if op.kind == "input":
            object.__setattr__(op, "name", '"><img src=x onerror=alert(1)>')
    trace._ipython_display_()
    assert "<img src=x" not in cell[1]["text/html"]


def test_the_text_is_the_same_in_every_run(trace):
    again = cgviz.trace(f, 2.0)
    assert repr(trace) == repr(again)
    assert repr(trace.view()) == repr(again.view())


def test_outside_a_notebook_nothing_is_live(trace):
    for shown in (trace, trace.view()):
        with pytest.raises(NotImplementedError):
            shown._ipython_display_()
    assert not hasattr(trace, "_repr_html_")


def test_in_a_notebook_a_trace_is_live(trace, cell):
    trace._ipython_display_()
    assert set(cell[0]) == {LIVE}


@pytest.fixture
def run(cell, monkeypatch):
    """Runs a function as a cell, by its name; the cell ends in what it returns."""
    monkeypatch.setattr(view, "_of_cell", {})

    def runs(cell, make):
        view._shown.clear()
        result = make()
        info = SimpleNamespace(cell_id=cell)
        view._close_earlier(SimpleNamespace(result=result, info=info))
        return result

    return runs


def shown(*views):
    for each in views:
        each._ipython_display_()
    return views


def test_another_run_of_a_cell_leaves_no_view_behind(trace, run):
    one, two = run("a", lambda: shown(trace.view(), trace.view()))
    run("b", lambda: shown(two))
    (three,) = run("a", lambda: shown(trace.view()))
    assert (one.comm, two.comm is None) == (None, False)  # b still shows the second
    run("a", lambda: shown(three))  # kept by its name, and shown once more
    assert three.comm is not None
    run("a", lambda: shown(one))
    assert one.comm is not None
    assert one.layout.comm is not None
    assert three.comm is None
    unknown = [run("", trace.view), run("", trace.view)]
    assert all(each.comm is not None for each in unknown)


def test_views_in_a_box_are_not_left_behind_by_another_run_of_its_cell(trace, run):
    def ended_in(*views):
        return ipywidgets.VBox([ipywidgets.HBox(views)])

    def within(box):
        return box.children[0].children

    made = [within(run("a", lambda: ended_in(trace.view(), trace.view()))) for _ in range(20)]
    assert all(each.comm is not None for each in made[-1])
    assert all(each.comm is each.layout.comm is None for views in made[:-1] for each in views)
    run("b", lambda: ended_in(*made[-1]))
    (kept,) = run("a", lambda: [trace.view()])  # made for later, and shown by no cell yet
    run("a", lambda: ended_in(trace.view()))
    assert all(each.comm is not None for each in (*made[-1], kept))


def test_a_closed_view_closes_its_layout_too(trace):
    shown = trace.view()
    layout = shown.layout
    shown.close()
    assert shown.comm is None
    assert layout.comm is None


def test_marimo_is_handed_the_live_view(trace):
    assert isinstance(trace._display_(), view.View)


def test_importing_cgviz_imports_no_widget(tmp_path):
    modules = "('anywidget', 'cgviz.live.view', 'cgviz.drawing.figure')"
    program = tmp_path / "program.py"
    program.write_text(f"import sys, cgviz; print([m for m in {modules} if m in sys.modules])")
    assert forked.printed(program).strip() == "[]"


def test_the_picture_beside_it_is_small_enough(cell):
    def f(x):
        for _ in range(30):
            x = tf.sin(x)
        return x

    cgviz.trace(f, 1.0)._ipython_display_()
    image = Image.open(io.BytesIO(picture(cell[1])))
    assert image.width * image.height <= view.MOST_PIXELS * 1.02


def test_the_stored_picture_keeps_its_palest_colours(cell):
    shown = cgviz.trace(lambda x: tf.sin(x) * x, 1.0, order=2).view(which=1)
    shown._ipython_display_()
    image = Image.open(io.BytesIO(picture(cell[1]))).convert("RGB")
    most = {colour for _, colour in sorted(image.getcolors(1 << 20), reverse=True)[:3]}
    assert (255, 255, 255) in most  # the paper, and the bands of both passes
    assert all(min(colour) > 235 for colour in most)
