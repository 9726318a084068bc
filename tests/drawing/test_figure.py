"""The picture on paper: what is where, not pixels."""

import warnings

import handmade
import matplotlib
import numpy as np
import pytest
import tensorflow as tf
from programs import square

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.transforms import Bbox

import cgviz
from cgviz import style
from cgviz.drawing.figure import Drawn
from cgviz.drawing.shapes import outlined
from cgviz.graph import Trace


def nested(x):
    a = square(x)
    b = square(a)
    return square(b)


def fan_out(x):
    return x * x + tf.sin(x)


def vector(x):
    return tf.reduce_sum(square(x))


def diamond(x):
    a = x * 2.0
    return tf.sin(a) * tf.exp(a)


def blocked(x):
    return tf.stop_gradient(x) * x + tf.round(x)


def overflow(x):
    return tf.math.log(1.0 + tf.exp(x))


def residual(x):
    for _ in range(3):
        x = x + tf.nn.relu(x * 0.5)
    return x


def several_outputs(x):
    a, b = tf.unstack(tf.stack([x * 2.0, x]))
    return a + b * b


def matrices(x, w, b):
    return tf.reduce_mean((tf.tanh(x @ w) + b) ** 2)


def cell(x, h, w, u):
    c = h
    for _ in range(2):
        c = c * tf.sigmoid(x * w + h * u) + tf.tanh(x * u + h * w)
        h = tf.sigmoid(x + h) * tf.tanh(c)
    return h


def unused(x, y):
    return x * 2.0


EYE = [[1.0, 0.5], [0.25, 1.0]]
PICTURES = {
    "nested": lambda: cgviz.trace(nested, 2.0),
    "fan_out": lambda: cgviz.trace(fan_out, 3.0),
    "vector": lambda: cgviz.trace(vector, [1.0, 2.0, 3.0]),
    "diamond": lambda: cgviz.trace(diamond, 1.0),
    "blocked": lambda: cgviz.trace(blocked, 2.5),
    "overflow": lambda: cgviz.trace(overflow, 100.0),
    "residual": lambda: cgviz.trace(residual, [1.0, -2.0]),
    "several_outputs": lambda: cgviz.trace(several_outputs, 2.0),
    "matrices": lambda: cgviz.trace(matrices, EYE, EYE, [0.1, 0.2]),
    "cell": lambda: cgviz.trace(cell, 0.5, 0.1, 0.2, 0.3),
    "unused": lambda: cgviz.trace(unused, 2.0, 3.0),
    "names": lambda: handmade.square_plus_sine("$a_1$ <img src=x onerror=alert(1)>"),
    "nan": lambda: handmade.square_plus_sine(gradient=np.nan),
    "chain": lambda: handmade.chain(12),
    "many": lambda: handmade.chain(300),
}


@pytest.fixture(params=PICTURES)
def trace(request):
    return PICTURES[request.param]()


def drawn_texts(ax):
    return next(c for c in ax.collections if isinstance(c, Drawn) and c.words)


def drawn_paths(ax, *roles):
    """What is drawn of these roles, but for the legend: its collection, and places in it."""
    found = next(c for c in ax.collections if isinstance(c, Drawn) and not c.words)
    every = enumerate(found.elements)
    return found, [n for n, x in every if x.role in roles and x.of != "legend"]


def text_boxes(ax):
    boxes = (Bbox([box[:2], box[2:]]) for box in drawn_texts(ax).boxes)
    corners = [ax.transData.transform_bbox(box) for box in boxes]
    upright = [Bbox.from_extents(b.xmin, b.ymin, b.xmax, b.ymax) for b in corners]
    return list(zip(texts(ax), upright, strict=True))


def overlap(one, other):
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    down = min(one.y1, other.y1) - max(one.y0, other.y0)
    return across > 1 and down > 1


def texts(ax):
    return drawn_texts(ax).words


@pytest.mark.parametrize(("dpi", "step"), [(72, 1), (200, None)])
def test_no_text_covers_another_and_none_is_cut(trace, dpi, step):
    with plt.rc_context({"figure.dpi": dpi}):
        ax = trace.plot(step=step)
        ax.figure.canvas.draw()
        found = text_boxes(ax)
        paper = ax.figure.bbox
    for i, (text, box) in enumerate(found):
        assert not any(overlap(box, other) for _, other in found[:i]), text
        assert box.x0 >= paper.x0 - 1, text
        assert box.x1 <= paper.x1 + 1, text
        assert box.y0 >= paper.y0 - 1, text
        assert box.y1 <= paper.y1 + 1, text


def test_no_line_runs_through_a_text(trace):
    ax = trace.plot()
    ax.figure.canvas.draw()
    drawn, places = drawn_paths(ax, "forward", "backward")
    lines = [ax.transData.transform(drawn.get_paths()[n].vertices) for n in places]
    steps = np.linspace(0, 1, 20)[:, None, None]
    points = np.vstack(
        [(p[:-1] * (1 - steps) + p[1:] * steps).reshape(-1, 2) for p in lines if len(p) > 1]
    )
    for text, box in text_boxes(ax):
        inside = (points > (box.x0 + 1, box.y0 + 1)) & (points < (box.x1 - 1, box.y1 - 1))
        assert not inside.all(axis=1).any(), text


def test_letters_are_large_enough_to_be_projected(trace):
    assert min(text.size for text in drawn_texts(trace.plot()).elements) >= 11


def test_every_picture_of_a_lesson_fits_a_notebook():
    for name in ("nested", "fan_out", "vector", "diamond", "blocked", "overflow", "residual"):
        assert PICTURES[name]().plot().figure.get_figwidth() <= 9.5, name


def test_the_numbers_of_the_flow_are_in_the_picture():
    ax = cgviz.trace(nested, 2.0).plot()
    for number in ("2", "4", "16", "256", "1024", "32", "1"):
        assert number in texts(ax)
    assert texts(ax).count("custom") == 3


def test_the_sum_over_the_uses_is_in_the_picture():
    assert "dy/dx = 3 + 3 − 0.99 = 5.01" in texts(handmade.square_plus_sine().plot())


def test_breaks_are_in_the_picture_with_their_reason():
    found = " ".join(texts(cgviz.trace(blocked, 2.5).plot())).replace("\n", " ")
    assert "⊘ stop_gradient" in found
    assert "⊘ no gradient for Round" in found


def test_names_are_text_and_never_mathematics():
    ax = handmade.square_plus_sine("$a_1$").plot()
    assert "$a_1$" in texts(ax)
    dollar, plain = (outlined(text, 0, 0, 12)[0] for text in ("$a$", "a"))
    assert len(dollar.vertices) > 2 * len(plain.vertices)


def test_dollars_without_meaning_do_not_stop_the_picture():
    handmade.square_plus_sine(r"$\frac{$").plot().figure.canvas.draw()


def test_forward_is_solid_blue_and_backward_dashed_vermillion():
    ax = handmade.square_plus_sine().plot()
    for role, tone, dashed in (
        ("forward", style.LIGHT.forward, False),
        ("backward", style.LIGHT.backward, True),
    ):
        drawn, places = drawn_paths(ax, role)
        assert len(places) == 6
        for n in places:
            assert to_hex(drawn.get_edgecolors()[n]).upper() == tone
            assert (drawn.get_linestyles()[n][1] is not None) == dashed


def test_kinds_differ_in_shape():
    w = tf.Variable(2.0, name="w")
    trace = cgviz.trace(lambda x: square(x) * w + x, 3.0)
    ax = trace.plot(full=True)
    drawn, places = drawn_paths(ax, "outline", "inner")
    assert len({tuple(drawn.get_paths()[n].codes) for n in places}) >= 4


def test_steps_draw_how_far_the_backward_pass_has_come():
    trace = handmade.square_plus_sine()
    drawn = []
    for step in range(4):
        lines, places = drawn_paths(trace.plot(step=step), "backward")
        widths = [lines.get_linewidths()[n] for n in places]
        strong = sum(width > min(widths) for width in widths)
        drawn.append((len(places) - strong, strong))
    assert drawn == [(0, 0), (1, 2), (3, 2), (5, 1)]


def test_steps_do_not_move_anything():
    trace = handmade.square_plus_sine()
    places = []
    for step in (None, 0, 1, 3):
        ax = trace.plot(step=step)
        drawn, nodes = drawn_paths(ax, "outline", "inner")
        vertices = [drawn.get_paths()[n].vertices for n in nodes]
        places.append((tuple(ax.figure.get_size_inches()), np.vstack(vertices).round(3).tolist()))
    assert all(place == places[0] for place in places)


def test_the_current_step_is_marked():
    ax = handmade.square_plus_sine().plot(step=2)
    drawn, nodes = drawn_paths(ax, "outline")
    faces = [to_hex(drawn.get_facecolors()[n]) for n in nodes]
    assert faces.count(style.LIGHT.glow.lower()) == 1
    assert "step 2 of 3" in texts(ax)


def test_it_draws_into_axes_of_any_size_and_stays_inside():
    for size in ((4, 3), (12, 5), (3, 8)):
        fig, axs = plt.subplots(1, 2, figsize=size)
        assert handmade.square_plus_sine().plot(axs[1]) is axs[1]
        fig.canvas.draw()
        box = axs[1].get_window_extent()
        for text, own in text_boxes(axs[1]):
            assert own.x0 >= box.x0 - 2, text
            assert own.x1 <= box.x1 + 2, text


def test_a_dark_background_gets_the_dark_palette():
    with plt.style.context("dark_background"):
        drawn, (first, *_) = drawn_paths(handmade.square_plus_sine().plot(), "forward")
    assert to_hex(drawn.get_edgecolors()[first]).upper() == style.DARK.forward.upper()


def test_pyplot_is_as_it_was_when_axes_are_given():
    _, ax = plt.subplots()
    other = plt.figure()
    handmade.square_plus_sine().plot(ax)
    assert plt.gcf() is other
    assert plt.get_fignums() == [1, 2]


def test_the_alternative_text_of_the_forward_pass_alone_tells_no_gradient():
    trace = handmade.square_plus_sine()
    assert "flows back" not in trace.plot(step=0).cgviz_alt
    assert "Gradient of" not in trace.plot(step=0).cgviz_alt
    assert trace.plot(step=len(trace.steps)).cgviz_alt == (trace.plot().cgviz_alt)


def test_the_alternative_text_says_what_the_picture_shows():
    ax = handmade.square_plus_sine().plot()
    assert ax.cgviz_alt == ax.figure.alt == repr(ax.figure)
    assert "gradient −0.99 flows back" in ax.cgviz_alt


def test_no_letter_is_missing_from_the_font(trace):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace.plot().figure.canvas.draw()


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"ax": "no"}, TypeError, "`ax` must be a Matplotlib Axes, not str"),
        ({"step": 1.5}, ValueError, "`step` is 1.5, and must be an integer from 0 to 3"),
        ({"step": 4}, ValueError, "`step` is 4, and must be an integer from 0 to 3"),
        ({"step": -1}, ValueError, "`step` is -1"),
        ({"which": 2}, ValueError, "`which` is 2"),
    ],
)
def test_bad_arguments_are_named(how, error, message):
    with pytest.raises(error, match=message):
        handmade.square_plus_sine().plot(**how)
    assert plt.get_fignums() == []


def test_a_trace_without_a_backward_pass_is_drawn_forward():
    tape = handmade.Tape()
    x = tape.start("x", 1.0)
    y = tape.op("y", "Sin", [x], 0.8)
    ax = tape.trace(y, [x], passes=False).plot()
    assert "backward gradient" not in texts(ax)
    assert len(drawn_paths(ax, "forward")[1]) == 1


def test_an_empty_trace_is_an_empty_picture():
    ax = Trace("f", None, (), {}, (), ()).plot()
    ax.figure.canvas.draw()


def test_a_target_that_is_its_own_source_is_one_node():
    tape = handmade.Tape()
    x = tape.start("x", 1.0)
    ax = tape.trace(x, [x]).plot()
    ax.figure.canvas.draw()
    assert "x" in texts(ax)


def test_a_second_pass_is_drawn():
    trace = cgviz.trace(lambda x: x**3, 3.0, order=2)
    ax = trace.plot(which=1)
    assert any("18" in text for text in texts(ax))
    assert {
        "inner backward pass: the ops of the gradient",
        "gradient of the outer backward pass",
    } <= {*texts(ax)}
    assert "run by a backward pass" not in texts(trace.plot())


def test_nothing_of_the_inner_pass_has_the_colour_of_the_outer_passs_gradients():
    ax = cgviz.trace(lambda x: x**3, 3.0, order=2).plot(which=1, step=0)
    outlines, (*ops, target) = drawn_paths(ax, "outline")
    tones = {to_hex(outlines.get_edgecolors()[n]).upper() for n in ops}
    tones |= {to_hex(tone).upper() for tone in drawn_texts(ax).get_facecolors()}
    assert len(tones) >= 4
    orange = {style.LIGHT.backward.upper(), style.LIGHT.backward_text.upper()}
    assert not tones & orange
    assert to_hex(outlines.get_edgecolors()[target]).upper() in orange


def test_a_keras_model_shows_its_layers():
    layers = [tf.keras.layers.Dense(2, activation="relu", name=f"layer{i}") for i in range(16)]
    model = tf.keras.Sequential([tf.keras.Input((2,)), *layers])
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.ones((2, 2))) ** 2)
        tape.gradient(loss, model.trainable_variables)
    assert {f"layer{i}" for i in range(16)} <= set(texts(trace.plot()))


def test_a_still_picture_names_only_the_arrows_that_it_has():
    @tf.custom_gradient
    def halting(x):
        return x * x, lambda upstream: upstream * 2.0 * tf.stop_gradient(x)

    trace = cgviz.trace(halting, 3.0, order=2)
    named = [
        [
            text.at(np.inf)
            for text in drawn_texts(trace.plot(which=n)).elements
            if text.of == "legend"
        ]
        for n in range(2)
    ]
    assert named == [["forward value", "backward gradient"], ["value"]]
