"""Sliders: numbers travel, the picture follows a branch, nothing is left in TensorFlow."""

import gc
import re
from dataclasses import replace

import meaning
import numpy as np
import pytest
import tensorflow as tf
from programs import square
from tensorflow.python.framework import ops

import cgviz
from cgviz.drawing import texts
from cgviz.live import explorer as explorer_module
from cgviz.live.view import View


def f(x):
    y = square(x) * 3.0
    return y


@pytest.fixture
def sent(monkeypatch):
    found = []
    monkeypatch.setattr(View, "send", lambda self, content, buffers=None: found.append(content))
    return found


def move(explorer, *values, active=0, settle=False, open_=-1):
    content = {"move": values, "active": active, "id": 1, "settle": settle, "open": open_}
    explorer._answer(content, None)


def test_it_begins_with_the_flow_and_the_curves():
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    assert explorer.trace.value == 3.0
    assert [s["name"] for s in explorer.document["sliders"]] == ["x", "upstream"]
    assert [p["element"][2][2] for p in explorer.document["curves"]["plots"]] == [
        "f(x)",
        "gradient to x",
    ]
    assert explorer.document["points"] == {"f": 3.0, "rule": 6.0}


def test_a_move_sends_numbers_and_no_lines(sent):
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    move(explorer, 2.0, -1.0)
    (answer,) = sent
    assert set(answer) == {"moved", "settled", "points", "texts", "panels"}
    assert answer["points"] == {"f": 12.0, "rule": -12.0}
    assert explorer.trace.gradients[0] == -12.0


def test_a_rule_that_ignores_upstream_is_marked_in_the_picture_unless_upstream_is_1(sent):
    explorer = cgviz.explore(
        tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0 * x)), x=(-3.0, 3.0)
    )
    for upstream in (1.0, -1.0):
        move(explorer, 2.0, upstream)
    shown = [[[step, words] for step, words in each["texts"]["written"][0]] for each in sent]
    assert shown == [[[1, "1 · 4 = 4"]], [[1, "−1 · 4 ≠ 4"]]]


def test_the_sign_of_a_wrong_rule_is_in_the_legend_before_it_shows():
    f = tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0 * x))
    (page,) = cgviz.explore(f, x=(-3.0, 3.0)).document["pages"]
    assert "≠ what the rule returned instead" in str(page)


def test_where_f_raises_the_values_stay_those_of_the_picture(sent):
    def f(x):
        if x < -1.5:
            raise ValueError("too small")
        return x * x

    explorer = cgviz.explore(f, x=(-3.0, 3.0, 2.0))
    move(explorer, -3.0, 1.0)
    assert explorer.values == [2.0, 1.0]
    assert "error" in sent[0]


def test_a_gradient_of_a_wrong_shape_is_shown_and_its_curve_has_a_gap():
    f = tf.custom_gradient(lambda x: (x * x, lambda dy: tf.stack([dy * x, dy * x])))
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    assert explorer.trace.gradients[0].shape == (2,)
    assert explorer.document["points"]["rule"] is None


def test_the_open_card_comes_along(sent):
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    move(explorer, 2.0, 1.0, open_=1)
    assert list(sent[0]["panels"]) == [1]
    product = str(sent[0]["panels"][1]["inputs"][0])
    assert "'upstream'], ['span.big', {}, '3']" in product
    assert "'local'], ['span.big', {}, '4']" in product


def test_at_rest_all_cards_and_the_curves_come(sent):
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    move(explorer, 2.0, 2.0, settle=True)
    assert len(sent[0]["panels"]) == len(explorer.builders[0].selection().nodes)
    assert sent[0]["curves"]["active"] == 0


def test_curves_are_drawn_again_only_where_they_change(sent):
    explorer = cgviz.explore(lambda x, w: x * w, x=(-3.0, 3.0), w=(-3.0, 3.0))
    move(explorer, 2.0, 1.0, 1.0, active=0, settle=True)  # along the curve that is there
    assert "curves" not in sent[-1]
    move(explorer, 2.0, 2.0, 1.0, active=1, settle=True)
    assert sent[-1]["curves"]["active"] == 1


def test_another_branch_brings_another_picture(sent):
    def branch(x):
        return x * x if x > 0 else -x

    explorer = cgviz.explore(branch, x=(-3.0, 3.0))
    move(explorer, 2.0, 1.0)
    move(explorer, -2.0, 1.0)
    assert "pages" not in sent[0]
    assert "texts" not in sent[1]
    assert sent[1]["pages"][0]["displays"][0]["steps"] == 1


def test_a_custom_rule_of_another_branch_is_told_from_the_start():
    f = lambda x: square(x) if abs(x) < 0.5 else 3.0 * x  # noqa: E731
    explorer = cgviz.explore(f, x=(-3.0, 3.0), upstream=None)
    assert "the custom rule" in str(explorer.document["curves"])
    saved = explorer.kept()["kept"]["curves"].values()
    assert all("the custom rule" in str(each) for each in saved)


def test_a_random_function_without_a_rule_is_not_said_to_have_one():
    explorer = cgviz.explore(lambda x: x * tf.random.normal([]), x=(-3.0, 3.0))
    assert "custom" not in str(explorer.document["curves"])


def test_the_more_ops_f_has_the_fewer_positions_a_saved_slider_has(monkeypatch):
    monkeypatch.setattr(explorer_module, "MOST", 200)

    def deep(x):
        for _ in range(6):
            x = tf.sin(x)
        return x

    found = [cgviz.explore(f, x=(-1.0, 1.0)).kept()["sliders"] for f in (tf.sin, deep)]
    assert len(found[1][1]["positions"]) < len(found[0][1]["positions"])


def test_what_f_prints_while_curves_are_computed_is_not_shown(capsys):
    def chatty(x):
        print(float(x))
        return x * x

    cgviz.explore(chatty, x=(-3.0, 3.0))
    assert {*capsys.readouterr().out.split()} == {"1.0"}


def test_what_f_raises_is_told(sent):
    def picky(x):
        if x < 0:
            raise ValueError("negative")
        return tf.sqrt(x)

    explorer = cgviz.explore(picky, x=(-1.0, 4.0))
    move(explorer, -0.5, 1.0)
    assert sent[0]["error"] == "ValueError: negative"
    move(explorer, 4.0, 1.0)
    assert sent[1]["points"]["f"] == 2.0


def test_upstream_fills_the_shape_of_the_value(sent):
    explorer = cgviz.explore(lambda v: v * v, v=[(-1.0, 1.0, 0.5), (-1.0, 1.0, -0.5)])
    move(explorer, 0.5, -0.5, 2.0, active=2)
    assert explorer.trace.gradients[0].tolist() == [2.0, -2.0]


def test_a_view_that_is_opened_later_begins_where_the_sliders_stand(sent):
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    move(explorer, 2.0, 1.5, settle=True)
    assert [s["value"] for s in explorer.document["sliders"]] == [2.0, 1.5]


def test_moving_leaves_nothing_in_tensorflows_registry(sent):
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    before = len(ops.gradient_registry.list())
    for i in range(5):
        move(explorer, 0.1 * i, 1.0, settle=True)
    gc.collect()
    assert len(ops.gradient_registry.list()) == before


def test_what_a_cell_stores_is_stable():
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    assert explorer.still().startswith("<img ")
    assert explorer.words.splitlines() == [
        "trace of f: 2 ops, 1 backward pass",
        "sliders: x from -3 to 3, upstream from -2 to 2",
    ]


@pytest.mark.parametrize(
    ("f", "ends"), [(lambda x: tf.exp(-x), (16.0, 24.0)), (lambda x: 1e-6 * tf.sin(x), (0.0, 6.0))]
)
def test_a_curve_of_small_numbers_is_no_flat_line(f, ends):
    slider = cgviz.explore(f, x=ends)
    shown = slider.sweeper.curves(slider.values, 0, 0)
    (line,) = shown["plots"][0]["lines"]
    wanted = [float(f(tf.constant(x, tf.float32))) for x in shown["xs"]]
    assert line["ys"] == pytest.approx(wanted, rel=1e-5)
    for plot in shown["plots"]:
        assert plot["noise"] < 0.1 * np.ptp([y for y in plot["lines"][0]["ys"] if y is not None])


def test_a_saved_one_keeps_its_sliders_with_the_numbers_of_every_position(sent, monkeypatch):
    monkeypatch.setattr(explorer_module, "POSITIONS", (3,))
    explorer = cgviz.explore(f, x=(-3.0, 3.0, 0.7), upstream=(-2.0, 2.0))
    found = explorer.kept()
    xs, ups = (slider["positions"] for slider in found["sliders"])
    assert 0.7 in xs
    assert (len(xs), len(ups)) == (4, 4), "three, and where x and upstream are"
    assert len(found["kept"]["answers"]) == len(xs) * len(ups)
    for i, j in ((0, 0), (len(xs) - 1, 1)):
        answer = found["kept"]["answers"][f"{i},{j}"]
        move(explorer, xs[i], ups[j], settle=True)
        live = explorer.builders[0].patiently().page()
        assert answer["texts"] == live["texts"]
        assert answer["panels"] == live["panels"]
        curve = found["kept"]["curves"][f"0|{j}"]
        *_, low, high = curve["plots"][1]["range"]
        line = re.search("path.curve.rule', {'d': '([^']*)'", str(curve["plots"][1]["element"]))[1]
        ends = re.findall(r" ([-\d.]+)", line)
        percent = float(ends[0 if i == 0 else -1])
        gradient = explorer.trace.gradients[0].item()
        assert high - percent / 100 * (high - low) == pytest.approx(
            gradient, abs=1e-4 * (high - low)
        )


def test_what_would_be_too_much_to_save_is_not_moved_and_said(monkeypatch):
    monkeypatch.setattr(explorer_module, "MOST", 0)
    explorer = cgviz.explore(f, x=(-3.0, 3.0))
    with pytest.warns(UserWarning, match="`x` and `upstream` cannot be moved"):
        found = explorer.kept()
    assert [slider["positions"] for slider in found["sliders"]] == [[1.0], [1.0]]
    assert list(found["kept"]["answers"]) == ["0,0"]


def test_of_many_sliders_the_first_still_move(monkeypatch):
    monkeypatch.setattr(explorer_module, "POSITIONS", (3,))
    monkeypatch.setattr(explorer_module, "BYTES", 60_000)  # enough for two sliders, not for four
    explorer = cgviz.explore(lambda x, y, z: x * y * z, x=(-1.0, 1.0), y=(0.0, 2.0), z=(0.0, 1.0))
    with pytest.warns(UserWarning, match="`upstream` cannot be moved: "):
        sliders = explorer.kept()["sliders"]
    counts = [len(slider["positions"]) for slider in sliders]
    assert counts[0] >= 3
    assert counts[-1] == 1


def test_an_error_at_a_position_is_kept_as_words():
    def checked(x):
        if x < 0.0:
            raise ValueError("too small")
        return x * x

    kept = cgviz.explore(checked, x=(-3.0, 3.0), upstream=None).kept()["kept"]
    assert kept["answers"]["0"] == {"error": "ValueError: too small"}


def test_each_picture_of_a_branch_is_kept_once():
    def branch(x):
        return x * x if x > 0 else tf.sin(tf.cos(x))

    kept = cgviz.explore(branch, x=(-3.0, 3.0), upstream=None).kept()["kept"]
    assert len(kept["flows"]) == 2


# --- the number in its node ----------------------------------------------------------------------

HANDLE = 16.0  # points from the side of a node past the arrow that says it can be dragged


def bell(x):
    y = tf.exp(-x * x)
    return y


def cubed(x):
    y = x * x * x + tf.exp(x)
    return y


def entries(v):
    y = tf.sin(v) * v
    return y


def fanned(x, w):
    y = x * w + tf.sin(x) * x
    return y


def test_the_node_of_a_slider_says_its_value_and_its_arrows_do_not_repeat_it(sent):
    explorer = cgviz.explore(fanned, x=(-3.0, 3.0, 2.0), w=(0.0, 1.0, 0.5))
    first = explorer.document["pages"][0]["texts"]
    move(explorer, -1.25, 0.5, 1.0)
    kept = explorer._kept_at([-3.0, 0.5, 1.0], {})["texts"]
    for answer, x in ((first, "2"), (sent[-1]["texts"], "−1.25"), (kept, "−3")):
        said = [versions[-1][1] for versions in answer["written"]]
        assert {f"x = {x}", "w = 0.5"} <= {*said}
    shown = explorer.builders[0].selection()
    carried = {text.i for text in texts.written(shown) if (text.of, text.role) == ("link", "value")}
    assert {shown.nodes[shown.edges[i].source].kind for i in carried - {len(shown.edges)}} == {"op"}


def test_a_slider_reaches_round_numbers_in_at_most_a_hundred_steps():
    ranges = [(-2.0, 2.0), (0.0, 1.0), (-4.0, 4.0), (-10.0, 20.0), (1e3, 1e6), (0.0, 0.003)]
    units = [explorer_module.Slider("x", low, high, low).unit for low, high in ranges]
    assert units == pytest.approx([0.05, 0.01, 0.1, 0.5, 1e4, 5e-5])
    explorer = cgviz.explore(lambda x: x * x, x=(-2.0, 2.0))
    assert [each["unit"] for each in explorer.document["sliders"]] == [0.05, 0.05]


@pytest.mark.parametrize(
    ("f", "ranges"),
    [
        (f, {"x": (-3.0, 3.0, -1.25)}),
        (bell, {"x": (-3.0, 3.0)}),
        (bell, {"x": (-1e-5, 1e-5)}),
        (cubed, {"x": (-3.0, 3.0, 2.0)}),
        (cubed, {"x": (-3.0, 3.0, 0.456)}),
        (entries, {"v": [(-0.001, 3.0), (-1.0, 3.0)]}),
        (fanned, {"x": (-3.0, 3.0, 0.12345678), "w": (0.0, 0.009)}),
        (fanned, {"x": (1e3, 1e6), "w": (1000.0, 1000.5)}),
    ],
)
def test_wherever_its_slider_is_the_text_of_a_node_is_inside_and_off_its_arrows(f, ranges):
    explorer = cgviz.explore(f, **ranges)
    for display in explorer.builders[0].displays():
        seen = meaning.of_display(display, display.steps)
        links = [(link.source, link.target) for link in display.links]
        for k, slider in enumerate(explorer.sliders):
            for x in slider.places(7, slider.value):
                values = [*explorer.values[:k], x, *explorer.values[k + 1 :]]
                shown = explorer._at(values).selection()
                pairs = zip(display.texts, texts.written(shown), strict=True)
                now = [replace(place, versions=own.versions) for place, own in pairs]
                seen.texts = meaning.of_display(
                    replace(display, paths=[], texts=now), display.steps
                ).texts
                meaning.check(seen, links)
                for _, of, i, words, (left, _, right, _) in seen.texts:
                    if of == "node" and shown.moves(shown.nodes[i]):
                        node = display.nodes[i]
                        assert left > node.x - node.width / 2 + HANDLE, words
                        assert right < node.x + node.width / 2 - HANDLE, words


@pytest.mark.parametrize("count", [41, 15, 11, 5, 3])
def test_a_saved_slider_has_round_positions_its_ends_and_the_point_where_it_is(count):
    found = explorer_module.Slider("upstream", -2.0, 2.0, -1.5).places(count, -1.5)
    assert {-2.0, -1.5, 0.0, 2.0} <= set(found)
    assert count == 3 or {-1.0, 1.0} <= set(found)
    assert len(found) <= count + 1
