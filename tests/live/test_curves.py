"""Curves over a slider: f, its rule, its body, its differences; and what is a slider."""

import re

import numpy as np
import pytest
import tensorflow as tf

from cgviz.live import curves, explorer
from cgviz.live.explorer import Sweeper, sliders


@tf.custom_gradient
def flat(x):
    def grad(upstream):
        return 2 * x  # upstream forgotten

    return x * x, grad


def sweep(f, given, values, active=0, focus=0, upstream=(-2.0, 2.0)):
    curves = Sweeper(*sliders(f, given, upstream)).curves(values, active, focus)
    lines = {line["role"]: line["ys"] for plot in curves["plots"] for line in plot["lines"]}
    return np.array(curves["xs"]), {k: np.array(v, float) for k, v in lines.items()}, curves


def test_without_custom_rules_the_curves_agree():
    xs, lines, _ = sweep(lambda x: tf.sin(x), {"x": (-3.0, 3.0)}, [1.0, 2.0])
    assert np.allclose(lines["f"], np.sin(xs), atol=1e-5)
    assert np.allclose(lines["rule"], 2 * np.cos(xs), atol=1e-5)
    assert np.allclose(lines["differences"], 2 * np.cos(xs), atol=1e-3)
    assert "body" not in lines


def test_no_difference_is_taken_across_a_pole():
    xs, lines, _ = sweep(lambda x: 1.0 / x, {"x": (-3.0, 3.0)}, [1.0, 1.0])
    known = np.isfinite(lines["differences"])
    assert np.sum(~known) <= 3
    assert np.allclose(lines["differences"][known], -1 / xs[known] ** 2, rtol=0.05)


@pytest.mark.parametrize("f", [tf.floor, tf.sign, lambda x: x * tf.round(x)])
def test_where_f_jumps_its_curve_has_a_gap_and_there_are_no_differences(f):
    xs, lines, _ = sweep(f, {"x": (-3.0, 3.0)}, [1.0, 1.0])
    assert (xs[0], xs[-1]) == (-3, 3)
    rises = np.diff(lines["f"])
    assert np.isnan(rises).sum() >= 4
    assert np.nanmax(np.abs(rises)) < 0.5
    given = lines["differences"][np.isfinite(lines["differences"])]
    assert given.size > 15
    assert np.allclose(given, np.round(given), atol=1e-3)


def test_stairs_finer_than_the_points_have_no_gap_at_the_ends_alone():
    _, lines, _ = sweep(lambda x: tf.round(8 * x) / 8, {"x": (-3.0, 3.0)}, [1.0, 1.0])
    assert np.isfinite(lines["f"]).all()


def test_of_a_cube_the_differences_have_no_gap_at_0():
    _, lines, _ = sweep(lambda x: x**3, {"x": (-3.0, 3.0)}, [1.0, 1.0])
    assert np.isfinite(lines["differences"]).all()


def test_a_steep_slope_is_no_jump_and_a_rule_goes_on_across_one():
    _, lines, _ = sweep(lambda x: tf.tanh(99.0 * x), {"x": (-3.0, 3.0)}, [1.0, 1.0])
    assert np.isfinite([*lines.values()]).all()
    through = tf.custom_gradient(lambda x: (tf.round(x), lambda upstream: upstream))
    _, lines, _ = sweep(lambda x: through(x), {"x": (-3.0, 3.0)}, [1.0, 1.0])
    assert np.isnan(lines["f"]).any()
    assert (lines["rule"] == 1).all()


def test_the_legend_says_where_a_gradient_is_none():
    through = tf.custom_gradient(lambda x: (tf.round(x), lambda upstream: upstream))
    for f, role in ((tf.round, "autodiff"), (through, "autodiff of the body")):
        *_, found = sweep(lambda x, f=f: f(x), {"x": (-3.0, 3.0)}, [1.0, 1.0])
        names = [line["name"] for line in found["plots"][1]["lines"]]
        assert names[-2:] == [f"{role}: ∅ None", "finite differences"]


def test_a_rule_that_ignores_upstream_stays_flat():
    xs, lines, _ = sweep(lambda x: flat(x), {"x": (-3.0, 3.0)}, [1.0, 1.0], active=1)
    assert np.ptp(lines["rule"]) == 0
    assert np.allclose(lines["body"], 2 * xs, atol=1e-5)
    assert np.allclose(lines["differences"], 2 * xs, atol=1e-3)
    assert np.ptp(lines["f"]) == 0, "f does not depend on upstream"


def test_the_body_has_a_derivative_of_its_own():
    @tf.custom_gradient
    def clipped(x):
        return tf.square(x), lambda upstream: upstream * 0.0

    xs, lines, _ = sweep(lambda x: clipped(x), {"x": (-3.0, 3.0)}, [1.0, 1.0])
    assert np.allclose(lines["rule"], 0)
    assert np.allclose(lines["body"], 2 * xs, atol=1e-5)


def test_the_body_of_a_sign_is_flat_whatever_its_rule_says():
    @tf.custom_gradient
    def soft_sign(x):
        return tf.sign(x), lambda upstream: upstream * tf.sigmoid(x) * (1 - tf.sigmoid(x))

    _, lines, _ = sweep(lambda x: soft_sign(x), {"x": (-3.0, 3.0)}, [1.0, 1.0])
    assert np.nanmax(lines["rule"]) > 0.2
    assert np.allclose(lines["body"], 0)


def test_where_an_op_of_the_body_has_no_gradient_only_the_curve_of_the_body_is_missing():
    @tf.custom_gradient
    def contrast(c):
        image = tf.reshape(tf.range(12.0), (2, 2, 3))
        change = tf.reduce_sum(image - tf.reduce_mean(image, [0, 1]))
        return tf.reduce_sum(tf.image.adjust_contrast(image, c)), lambda upstream: upstream * change

    _, lines, _ = sweep(lambda c: contrast(c), {"c": (0.5, 2.0)}, [1.0, 1.0])
    assert np.isnan(lines.pop("body")).all()
    assert np.isfinite([*lines.values()]).all()


def test_where_f_is_no_number_the_curves_have_a_gap():
    _, lines, found = sweep(lambda x: tf.math.log(x), {"x": (-1.0, 1.0)}, [0.5, 1.0])
    assert found["plots"][0]["lines"][0]["ys"][0] is None
    assert np.isnan(lines["f"]).any()


def test_where_f_raises_the_curves_have_a_gap():
    def picky(x):
        if x < 0:
            raise ValueError("no")
        return tf.sqrt(x)

    _, lines, _ = sweep(picky, {"x": (-1.0, 1.0)}, [0.5, 1.0])
    assert np.isnan(lines["f"][0])
    assert np.isfinite(lines["f"][-1])


def test_a_vector_has_a_slider_for_each_entry():
    f, found, fixed = sliders(lambda v: v, {"v": [(-1.0, 1.0), (0.0, 4.0)]}, (-2.0, 2.0))
    assert [s.name for s in found] == ["v[0]", "v[1]", "upstream"]
    assert [each.tolist() for each in fixed] == [[0.0, 0.0]]
    sweeper = Sweeper(f, found, fixed)
    assert sweeper.arguments([0.5, 3.0, 1.0])[0].tolist() == [0.5, 3.0]
    assert sweeper.upstream([0.5, 3.0, -1.5]) == -1.5


def test_the_curve_of_an_entry_is_its_own():
    f = lambda v: tf.reduce_sum(v * v * tf.constant([1.0, 10.0]))  # noqa: E731
    given = {"v": [(-1.0, 1.0), (-2.0, 2.0)]}
    xs, lines, _ = sweep(f, given, [0.5, 0.5, 1.0], active=1, focus=1)
    assert np.allclose(lines["rule"], 20 * xs, atol=1e-4)


def test_a_slider_starts_at_one_where_that_is_in_its_range():
    _, found, _ = sliders(
        lambda a, b, c: a,
        {"a": (-3.0, 3.0), "b": (4.0, 6.0), "c": (0.0, 9.0, 7.0)},
        (-2.0, 2.0),
    )
    assert [s.value for s in found] == [1.0, 5.0, 7.0, 1.0]


def test_upstream_needs_no_slider():
    f, found, fixed = sliders(tf.sin, {"x": (0.0, 1.0)}, None)
    assert [s.name for s in found] == ["x"]
    assert Sweeper(f, found, fixed).upstream([0.5]) == 1.0


def test_what_stays_is_handed_on():
    sweeper = Sweeper(*sliders(lambda x, w: x * w, {"w": 3.0, "x": (0.0, 1.0)}, None))
    assert sweeper.arguments([0.25]) == [0.25, 3.0]


def positional(x, w, /):
    return x * w


def several(*x):
    return x[0] * x[1]


def by_name(x, *, w):
    return x * w


def any_name(x, **others):
    return x * others["w"]


def after_defaults(x, n=2, axis=None, shape=(2.0, 3.0), w=1.0):
    assert (n, axis, shape) == (2, None, (2.0, 3.0))
    return x * w


@pytest.mark.parametrize(
    ("f", "names"),
    [
        (positional, "x w"),
        (several, "x0 x1"),
        (by_name, "x w"),
        (any_name, "x w"),
        (after_defaults, "x w"),
    ],
)
def test_what_has_a_range_has_a_slider_however_f_takes_it(f, names):
    x, w = names.split()
    sweeper = Sweeper(*sliders(f, {w: (0.0, 4.0), x: (0.0, 4.0)}, None))
    assert [s.name for s in sweeper.sliders] == [x, w]
    trace = sweeper.trace([2.0, 3.0])
    assert [g.item() for g in trace.gradients] == [3.0, 2.0]
    assert trace.title == f.__name__
    assert [op.name for op in trace.ops if op.kind == "input"] == [x, w]
    (line, _) = sweeper.curves([2.0, 3.0], 0, 0)["plots"]
    assert line["lines"][0]["ys"][-1] == 12.0


def by_name_alone(*, x, k=2.0):
    return x * k


def flagged(x, training=False, mode="mul"):
    return x * (3.0 if training else 1.0) if mode == "mul" else x + 1.0


@pytest.mark.parametrize(
    ("f", "given", "gradient"),
    [
        (by_name_alone, {}, 2.0),
        (lambda **k: k["x"] * 2.0, {}, 2.0),
        (flagged, {"training": True}, 3.0),
        (flagged, {"training": True, "mode": "add"}, 1.0),
        (tf.keras.layers.Dropout(0.5), {"training": False}, 1.0),
    ],
)
def test_one_slider_is_enough_for_what_takes_it_by_name_beside_flags(f, given, gradient):
    sweeper = Sweeper(*sliders(f, {"x": (0.0, 4.0), **given}, None))
    assert [s.name for s in sweeper.sliders] == ["x"]
    assert sweeper.trace([2.0]).gradients == (gradient,)


def test_a_layer_is_explored_by_x():
    layer = tf.keras.layers.Activation("tanh")
    sweeper = Sweeper(*sliders(layer, {"x": (-3.0, 3.0)}, None))
    assert sweeper.trace([0.0]).gradients[0] == 1.0


def test_a_default_that_is_a_tuple_is_no_slider():
    _, found, fixed = sliders(after_defaults, {"x": (0.0, 1.0), "w": 2.0}, None)
    assert [s.name for s in found] == ["x"]
    assert fixed == (0.0, 2.0)


def test_an_argument_that_cannot_be_differentiated_by_is_told_in_the_name_of_explore():
    sweeper = Sweeper(*sliders(lambda x, n: x * n, {"x": (0.0, 1.0), "n": 2}, None))
    with pytest.raises(ValueError, match=r"cgviz\.explore: `n` is 2, made of integers"):
        sweeper.trace([0.5])


def test_a_matrix_has_a_slider_for_each_entry():
    ranges = [[(0.0, 1.0), (0.0, 2.0)], [(0.0, 3.0), (0.0, 4.0)]]
    sweeper = Sweeper(*sliders(lambda x: x**2, {"x": ranges}, None))
    assert [each.name for each in sweeper.sliders] == ["x[0, 0]", "x[0, 1]", "x[1, 0]", "x[1, 1]"]
    trace = sweeper.trace([0.5, 1.0, 1.5, 2.0])
    assert trace.gradients[0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert sweeper.points(trace, 2)["rule"] == 3.0


def test_a_text_is_no_range():
    with pytest.raises(ValueError, match=r"the range of `upstream` must be .* not '12'"):
        sliders(tf.sin, {"x": (0.0, 1.0)}, "12")


def test_the_advice_for_a_layer_can_be_followed():
    with pytest.raises(ValueError, match=r"as in `explore\(relu, x=\(-3\.0, 3\.0\)\)`"):
        sliders(tf.keras.layers.ReLU(name="relu"), {"x": 1.0}, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z": (0.0, 1.0)}, "`f` takes x, w, and was given z: missing a required argument: 'x'"),
        ({"x": 1.0, "z": (0.0, 1.0)}, "takes x, w, and was given x, z: got an unexpected keyword"),
        ({"x": (1.0, 0.0)}, "finite, low below high, start between them, not"),
        ({"x": (1.0, 1.0)}, "finite, low below high, start between them, not"),
        ({"x": (0.0, np.inf)}, "finite, low below high, start between them, not"),
        ({"x": (0.0, 1.0, 2.0)}, "finite, low below high, start between them, not"),
        ({"x": ("a", "b")}, r"must be `\(low, high\)`"),
        ({"x": (1.0, 2.0, 3.0, 4.0)}, r"must be `\(low, high\)`"),
        ({"x": [(0.0, 1.0), 3.0]}, r"the range of `x\[1\]` must be .* not 3.0"),
        ({"x": [[(0.0, 1.0)] * 2, [(0.0, 1.0)]]}, "ranges of `x` must be equally long"),
        ({"x": [[(0.0, 1.0)], (0.0, 1.0)]}, "ranges of `x` must be equally long"),
        ({"x": 3.0}, "nothing to slide"),
    ],
)
def test_what_is_no_slider_is_named(given, message):
    def f(x, w=1.0):
        return x * w

    with pytest.raises((TypeError, ValueError), match=message):
        sliders(f, given, None)


def test_only_a_function_can_be_explored():
    with pytest.raises(TypeError, match="`f` must be a function, not int"):
        sliders(3, {"x": (0.0, 1.0)}, None)


def test_there_are_enough_points_to_see_a_bend():
    assert explorer.POINTS >= 41


# --- as they are drawn ---


def drawn(xs, f, poles=True):
    ys = [f(x) for x in xs]
    plot = curves.plot("f", "x", xs, [{"role": "f", "name": "f", "ys": ys}], poles=poles)
    (svg,) = elements(plot["element"], "svg.plot")
    (path,) = elements(svg, "path.curve.f")
    return path[1]["d"]


def elements(part, tag):
    """The elements of a tag with its classes in an element."""
    if isinstance(part, str):
        return []
    return [part] * (part[0] == tag) + [x for child in part[2:] for x in elements(child, tag)]


def test_an_axis_has_round_numbers():
    assert curves.ticks(-3, 3) == [-2, 0, 2]
    assert curves.ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    plot = curves.plot("f", "x", [0, 4], [{"role": "f", "name": "f", "ys": [0.0, 1e6]}])
    ticks = {text[2]: text[1] for text in elements(plot["element"], "text.tick")}
    assert ticks["4"]["x"] == "100.0%"
    assert round(float(ticks["1000000"]["y"][:-1]), 1) == 6.9
    assert "x" in ticks


def numbers(plot):
    """What is written at the axis of y."""
    return [text[2] for text in elements(plot["element"], "text.tick") if text[1].get("x") == -5]


@pytest.mark.parametrize("active", [0, 1])
@pytest.mark.parametrize(
    ("f", "value", "slope"),
    [
        (lambda x: 3.0 * x + 1000.0, None, 3.0),
        (lambda x: tf.sin(x) ** 2 + tf.cos(x) ** 2, 1.0, 0.0),
        (lambda x: 0.0 * x + 5.0, 5.0, 0.0),
    ],
)
def test_a_constant_is_a_line_in_the_middle_and_its_rounding_no_curve(f, value, slope, active):
    _, _, found = sweep(f, {"x": (-3.0, 3.0)}, [1.0, 1.0], active=active)
    plots = [curves.plot(axis="x", xs=found["xs"], **plot) for plot in found["plots"]]
    for plot, constant in zip(plots[::-1], (slope, value), strict=False):
        if constant is None or (active == 1 and slope):  # it is upstream times the slope
            continue
        *_, low, high = plot["range"]
        assert (low + high) / 2 == pytest.approx(constant, abs=0.01)
        assert high - low > 0.9 * max(abs(constant), 1)
        assert len({*numbers(plot)}) == len(numbers(plot)) >= 3


def test_what_varies_little_around_a_large_number_is_a_curve_with_numbers_of_its_own():
    _, _, found = sweep(lambda x: 1000.0 + 0.5 * tf.sin(x), {"x": (-3.0, 3.0)}, [1.0, 1.0])
    plot = curves.plot(axis="x", xs=found["xs"], **found["plots"][0])
    assert numbers(plot) == ["999.5", "1000", "1000.5"]


def test_a_drawn_curve_breaks_where_there_is_no_number():
    d = drawn([0, 1, 2, 3], [0.0, 1.0, None, 3.0].__getitem__)
    assert re.sub(r"[\d.]+ [\d.]+", "", d) == "MLM"
    assert [float(x) for x in re.findall(r"[ML]([\d.]+)", d)] == [0, 33.33, 100]


@pytest.mark.parametrize("pole", [0.001, 0.1, 0.5, 0.75, 0.999])
@pytest.mark.parametrize("power", [1, -3])
def test_a_curve_is_not_drawn_through_a_pole_wherever_it_lies_between_two_points(pole, power):
    f = (lambda x: 1 / (x - pole)) if power == 1 else (lambda x: -1 / (x - pole) ** 3)
    assert drawn(range(-20, 21), f).count("M") == 2


@pytest.mark.parametrize(
    "f",
    [np.sin, abs, lambda x: 1 / (1 + np.exp(-99 * x)), lambda x: np.sin(31 * x), lambda x: x > 0],
)
def test_a_steep_curve_is_drawn_whole(f):
    assert drawn([x / 10 for x in range(-40, 41)], f).count("M") == 1


def test_a_peak_of_a_training_is_drawn_whole_and_not_taken_for_a_pole():
    loss = [4, 3, 2, 30, 4, 3, 2]
    assert drawn(range(7), loss.__getitem__, poles=False).count("M") == 1
    assert curves.limits([np.array([1.0] * 100 + [30.0])], False)[1] > 30


def test_where_no_number_is_finite_a_plot_says_so_and_has_no_axis():
    plot = curves.plot("f", "x", [1.0, 2.0], [{"role": "f", "name": "f", "ys": [None, None]}])
    drawn = str(plot["element"])
    assert "nothing to draw: no number is finite" in drawn
    assert "'text-anchor': 'end'" not in drawn  # the numbers beside the axis of y
    some = curves.plot("f", "x", [1.0, 2.0], [{"role": "f", "name": "f", "ys": [None, 3.0]}])
    assert "nothing to draw" not in str(some["element"])
    assert "'text-anchor': 'end'" in str(some["element"])


def test_the_range_of_a_plot_is_that_of_its_numbers_and_leaves_a_pole_out():
    low, high = curves.limits([np.array([1.0] * 100 + [1e9])], True)
    assert low <= 1
    assert high < 10
    least, most = curves.limits([np.array([100.0, 101.0, 102.0])], True)
    assert least > 99
    assert most < 103
    assert curves.limits([np.array([np.nan])], True) == (-1, 1)
