"""What a picture says with its places, for every golden program and for random ones."""

from dataclasses import replace
from math import inf

import handmade
import hypothesis
import matplotlib
import meaning
import numpy as np
import pytest
import tensorflow as tf
from golden_programs import PROGRAMS
from hypothesis import strategies as st

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

import cgviz
from cgviz import style
from cgviz.drawing import display, figure
from cgviz.graph.selection import select

SHARP = 0.9  # radians to which an arrow may turn within a FEW points: more looks like a corner
NOTEBOOK = display.NOTEBOOK, inf
FEW, FINE = 1.5, 0.5  # points: a width of a line; shorter pieces have no course of their own


@pytest.fixture(params=PROGRAMS, scope="module")
def trace(request):
    return PROGRAMS[request.param]()


def check_everywhere(shown):
    """A display list, and paper at steps of it."""
    links = [(link.source, link.target) for link in shown.links]
    for step in sorted({0, *shown.backward[:2], shown.steps // 2, shown.steps}):
        meaning.check(meaning.of_display(shown, step), links)
    width, height = (length / 72 for length in shown.sheet)
    for step in (None, shown.steps):
        ax = plt.figure(figsize=(width, height)).add_axes((0, 0, 1, 1))
        figure.draw(ax, shown, step)
        meaning.check(meaning.of_paper(ax), links)
        plt.close(ax.figure)


def test_arrows_labels_and_sums_mean_what_they_show(trace):
    for which in range(len(trace.passes)):
        check_everywhere(display.make(select(trace, which)))


@pytest.mark.parametrize("space", [(300.0, 900.0), (2000.0, 300.0)], ids=["tall", "wide"])
def test_they_do_so_in_both_directions(trace, space):
    check_everywhere(display.make(select(trace, 0), space))


@pytest.mark.parametrize("space", [(300.0, 900.0), (2000.0, 300.0)], ids=["tall", "wide"])
def test_no_arrow_has_a_corner(trace, space):
    """Not even one that goes a little to the side, on the inner side of its bend."""
    seen = meaning.of_display(display.make(select(trace, 0), space), inf)
    for (role, i), line in seen.lines.items():
        way = np.diff(line, axis=0)
        lengths = np.hypot(*way.T)
        long = lengths > FINE
        course = np.unwrap(np.arctan2(*way[long].T))
        ends, starts = np.cumsum(lengths)[long], (np.cumsum(lengths) - lengths)[long]
        for n, end in enumerate(ends):
            near = course[n:][starts[n:] <= end + FEW]
            assert np.ptp(near) < SHARP, (role, i, line[n + 1])


def test_they_do_so_with_scopes_and_custom_ops_open_and_closed(trace):
    plain = select(trace, 0, framed=True)
    names = [frame.name for frame in plain.frames] + [n.group for n in plain.nodes if n.group]
    for name in names[:3]:
        check_everywhere(display.make(select(trace, 0, framed=True, toggled=[name])))


def test_they_do_so_with_space_for_a_slider(trace):
    check_everywhere(display.make(replace(select(trace, 0), moved={})))


def test_they_do_so_with_the_product_at_each_arrow(trace):
    check_everywhere(display.make(replace(select(trace, 0), local=True)))


def products(f, *args):
    """What is written at each backward arrow, and the alternative text."""
    ax = cgviz.trace(f, *args).plot(local=True)
    plt.close(ax.figure)
    return [words for _, words in meaning.returned(meaning.of_paper(ax))], ax.cgviz_alt


def test_a_rule_that_ignores_its_upstream_is_not_equal_to_the_product():
    @tf.custom_gradient
    def square(x):
        return x * x, lambda upstream: 2.0 * x

    found, alt = products(lambda x: 3.0 * square(x), 2.0)
    assert found == ["3 · 4 ≠ 4", "1 · 3 = 3", "1"]
    assert "gradient 3 · 4 ≠ 4 flows back" in alt


def test_an_array_that_is_not_the_product_has_the_sign_too():
    clip = tf.custom_gradient(lambda x: (x * 1.0, lambda u: tf.clip_by_value(u, -1.0, 1.0)))
    found, alt = products(lambda x: 4.0 * clip(x), [1.0, 2.0])
    assert found == ["≠ [1, 1]", "[4, 4]", "[1, 1]"]
    assert "gradient ≠ [1, 1] flows back" in alt


def test_numbers_that_read_alike_are_not_called_unequal():
    off = tf.custom_gradient(lambda x: (x * 1.0, lambda u: u + 3e-5))
    assert products(lambda x: 1.0 * off(x), 1.0)[0] == ["1 · 1 = 1", "1 · 1 = 1", "1"]


def test_what_lies_behind_a_custom_rule_is_called_no_derivative_and_the_legend_tells_the_sign():
    @tf.custom_gradient
    def bad(x):
        return x * x, lambda upstream: 2.0 * x

    def written(rule, **how):
        def f(x, w):
            y = 3.0 * rule(x) + w * w
            return y

        shown = display.make(replace(select(cgviz.trace(f, 2.0, 5.0)), **how))
        of_nodes = [t.at(inf) for t in shown.texts if (t.of, t.role) == ("node", "gradient")]
        return of_nodes, [words for _, words in shown.legend if "≠" in words]

    sign = ["≠ what the rule returned instead"]
    assert written(bad, local=True) == (["gradient = 4", "dy/dw = 5 + 5 = 10"], sign)
    assert written(tf.square, local=True) == (["dy/dx = 12", "dy/dw = 5 + 5 = 10"], [])
    assert written(bad) == (["gradient = 4", "dy/dw = 5 + 5 = 10"], [])
    linear = tf.custom_gradient(lambda x: (x * x, lambda upstream: upstream * x))  # no ≠ shows
    assert written(linear, local=True)[0] == ["gradient = 6", "dy/dw = 5 + 5 = 10"]


def test_the_gradient_of_what_a_custom_op_returns_is_a_derivative_with_no_rule_behind_it():
    square = tf.custom_gradient(lambda x: (x * x, lambda upstream: upstream * 2.0 * x))
    with cgviz.record() as trace, tf.GradientTape() as tape:
        h = square(tf.constant(2.0))
        tape.watch(h)
        y = tf.sin(h)
        tape.gradient(y, h)
    shown = display.make(select(trace))
    assert "dy/dh = −0.6536" in [t.at(inf) for t in shown.texts if t.role == "gradient"]


@pytest.mark.parametrize(
    ("factor", "upstream", "words"),
    [
        (1.0, None, "dy/dx = 3 + 3 = 6"),
        (1.0, 2.0, "gradient = 6 + 6 = 12"),
        ([1.0, 2.0], None, "gradient = 9 + 9 = 18"),
    ],
    ids=["one", "upstream 2", "two numbers"],
)
def test_a_gradient_is_called_a_derivative_where_upstream_is_the_number_1(factor, upstream, words):
    def f(x):
        y = x * x * factor
        return y

    shown = display.make(select(cgviz.trace(f, 3.0, upstream=upstream)))
    assert [t.at(inf) for t in shown.texts if (t.of, t.role) == ("node", "gradient")] == [words]


def test_what_is_not_the_product_stands_out():
    @tf.custom_gradient
    def square(x):
        return x * x, lambda upstream: 2.0 * x

    ax = cgviz.trace(lambda x: 3.0 * square(x), 2.0).plot(local=True)
    (drawn,) = (c for c in ax.collections if getattr(c, "words", ()))
    faces = dict(zip(drawn.words, map(to_hex, drawn.get_facecolors()), strict=True))
    wide = {
        words: right - left
        for words, (left, _, right, _) in zip(drawn.words, drawn.boxes, strict=True)
    }
    plt.close(ax.figure)
    assert faces["3 · 4 ≠ 4"] == style.LIGHT.custom.lower()
    assert faces["1 · 3 = 3"] == style.LIGHT.backward_text.lower()
    assert wide["3 · 4 ≠ 4"] > 1.05 * wide["1 · 3 = 3"]  # bold


def test_zero_times_infinity_is_seen_to_be_the_nan():
    found, _ = products(lambda x: tf.math.log(1.0 + tf.exp(x)), 100.0)
    assert found == ["0 · ∞ = ⚠ NaN", "0 · 1 = 0", "1 · 0 = 0", "1"]


def test_of_a_rule_that_cannot_run_again_the_downstream_alone_is_written():
    @tf.custom_gradient
    def once(x):
        left = [2.0]
        return 2.0 * x, lambda upstream: upstream * left.pop()

    found, _ = products(lambda x: 3.0 * once(x), 2.0)
    assert found == ["6", "1 · 3 = 3", "1"]


def test_of_arrays_the_downstream_alone_is_written():
    found, _ = products(lambda x: tf.reduce_sum(tf.square(x)), [1.0, 2.0])
    assert found == ["[2, 4]", "[1, 1]", "1"]


@pytest.mark.parametrize("k", [0, 3, 29])
def test_they_do_so_where_one_of_repeats_is_shown(k):
    weight = tf.Variable(0.75, name="weight")

    def f(x):
        state = x[0]
        for part in tf.unstack(x):
            state = tf.tanh(weight * state + part)
        return state

    trace = cgviz.trace(f, [k / 30 for k in range(30)])
    (repeats,) = select(trace).repeats
    for framed in (False, True):
        shown = select(trace, framed=framed, toggled=[f"{repeats.name}@{k}"])
        assert any(edge.values > 1 for edge in shown.edges)
        check_everywhere(display.make(shown))


def test_they_do_so_with_uses():
    weight = tf.Variable(0.75, name="weight")

    def f(x):
        for _ in range(8):
            x = tf.tanh(weight * x)
        return x

    shown = select(cgviz.trace(f, 0.5))
    assert sum(node.kind == "use" for node in shown.nodes) == 8
    check_everywhere(display.make(shown))


@st.composite
def programs(draw):
    """A trace of some ops, each of which uses values that are there."""
    tape = handmade.Tape()
    number = st.sampled_from(
        [1.0, -0.25, 3.0, 1234.5, 1e-7, float("nan"), [1.0, 2.0], [[1.0, -2.5]]]
    )
    values = [tape.start(name, draw(number)) for name in draw(st.sampled_from(["x", "xy", "abc"]))]
    sources = list(values)
    for n in range(draw(st.integers(1, 9))):
        count = draw(st.integers(1, 3))
        used = [draw(st.sampled_from(values)) for _ in range(count)]
        used[0] = values[-1] if draw(st.booleans()) else used[0]
        name = draw(st.sampled_from([f"a_{n}", "a_long_name_for_a_value", ""]))
        type_ = draw(st.sampled_from(["Sin", "Mul", "AddV2", "MatMul", "Tanh"]))
        back = [draw(number) if draw(st.integers(0, 5)) else None for _ in used]
        values.append(tape.op(name, type_, used, draw(number), back=back))
    return tape.trace(values[-1], sources)


@hypothesis.settings(max_examples=40)
@hypothesis.given(programs(), st.sampled_from([NOTEBOOK, (300.0, 900.0), (2000.0, 300.0)]))
def test_they_do_so_for_random_programs(trace, space):
    check_everywhere(display.make(select(trace, 0), space))


# --- the checks themselves -----------------------------------------------------------------------


@pytest.fixture
def shown():
    return display.make(select(handmade.square_plus_sine()))


def test_an_arrow_the_wrong_way_is_found(shown):
    seen = meaning.of_display(shown, shown.steps)
    links = [(link.source, link.target) for link in shown.links]
    meaning.check(seen, links)
    seen.lines["backward", 0] = seen.lines["forward", 0]
    seen.heads["backward", 0] = seen.heads["forward", 0]
    with pytest.raises(AssertionError, match="backward arrow of link 0"):
        meaning.check(seen, links)


def test_a_label_on_another_line_is_found(shown):
    seen = meaning.of_display(shown, shown.steps)
    links = [(link.source, link.target) for link in shown.links]
    role, of, i, words, _ = seen.texts[0]
    x, y = seen.lines["forward", 3].mean(axis=0)
    seen.texts[0] = role, of, i, words, (x - 5, y - 5, x + 5, y + 5)
    with pytest.raises(AssertionError):
        meaning.check(seen, links)
