"""A training watched: its own numbers, and what went wrong with them told at its place."""

from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from troubles import curvature

import cgviz
from cgviz import history as history_module
from cgviz import style
from cgviz.diagnosing import diagnosis
from cgviz.drawing import history_figure
from cgviz.history import Series
from cgviz.live import training
from cgviz.live.pages import PageBuilder

RANDOM = np.random.default_rng(0)
POINTS = RANDOM.normal(size=(64, 784)).astype("float32")  # of the size of MNIST's pictures
LABELS = RANDOM.integers(0, 10, 64)


def descent(loss, variables, rate=0.1):
    """A step of gradient descent."""

    def step():
        with tf.GradientTape() as tape:
            value = loss()
        for v, g in zip(variables, tape.gradient(value, variables), strict=True):
            if g is not None:
                v.assign_sub(tf.cast(rate, v.dtype) * tf.cast(g, v.dtype))

    return step


def network(widths, activation, scale=1.0, seed=0, spread=None):
    """The variables of a dense network, and its loss on the random pictures."""
    random = np.random.default_rng(seed)
    weights, biases = [], []
    for i, (a, b) in enumerate(pairwise(widths)):
        size = scale * (spread or (2.0 / a) ** 0.5)
        weights.append(tf.Variable(random.normal(0, size, (a, b)).astype("float32"), name=f"w{i}"))
        biases.append(tf.Variable(tf.zeros(b), name=f"b{i}"))

    def loss():
        h = tf.constant(POINTS)
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = h @ w + b
            h = activation(h) if i < len(weights) - 1 else h
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=h)
        )

    return loss, [v for pair in zip(weights, biases, strict=True) for v in pair]


def small():
    return network((784, 16, 10), tf.nn.relu)


# --- the numbers ---------------------------------------------------------------------------------


def test_norms_are_those_of_tape_gradient_to_the_last_bit():
    loss, variables = small()
    history = cgviz.watch(descent(loss, variables), 4)
    again, same = small()
    for i in range(4):
        with tf.GradientTape() as tape:
            value = again()
        gradients = tape.gradient(value, same)
        assert history.target[i] == float(value)
        for v, g in zip(same, gradients, strict=True):
            name = v.name.removesuffix(":0")
            assert history.variables[name].gradient[i] == float(np.linalg.norm(g.numpy()))
            assert history.variables[name].value[i] == float(np.linalg.norm(v.numpy()))
            before = v.numpy()
            v.assign_sub(0.1 * g)
            if before.any():
                moved = np.linalg.norm(v.numpy() - before) / np.linalg.norm(before)
                assert history.variables[name].update[i] == pytest.approx(float(moved), rel=1e-6)


def test_the_weights_are_those_of_the_training_that_nobody_watched():
    trained = []
    for run in (
        lambda step: cgviz.watch(step, 6, every=2),
        lambda step: [step() for _ in range(6)],
    ):
        loss, variables = small()
        run(descent(loss, variables))
        trained.append([v.numpy() for v in variables])
    for one, other in zip(*trained, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [1e30, 1e-30])
def test_a_gradient_whose_squares_leave_float32_has_its_norm_and_a_tone_on_the_map(size):
    w = tf.Variable([3.0, 4.0], name="w")
    history = cgviz.watch(descent(lambda: tf.reduce_sum(w * [3 * size, 4 * size]), [w], 0.0), 2)
    series = history.variables["w"]
    assert series.gradient == pytest.approx([5 * size] * 2, rel=1e-6, abs=0)
    assert series.state == ["", ""]
    assert history_figure.powers([series]) == pytest.approx(np.log10([series.rms]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_target_of_16_bits_is_summed_in_double_precision(dtype):
    w = tf.Variable([1.0, 2.0], dtype=dtype, name="w")
    history = cgviz.watch(descent(lambda: tf.repeat(w, 500) * 100.0, [w], 0.0), 2)
    assert history.target == [150_000.0] * 2
    assert history.broken is None


def test_a_bfloat16_scalar_is_watched():
    w = tf.Variable(2.0, dtype=tf.bfloat16, name="w")
    history = cgviz.watch(descent(lambda: w * w, [w], 0.25), 2)
    assert history.target == [4.0, 1.0]
    assert history.variables["w"].gradient == [4.0, 2.0]
    assert history.variables["w"].update == [0.5, 0.5]


def test_an_ops_local_effect_is_downstream_over_upstream():
    w = tf.Variable([3.0, 4.0], name="w")
    history = cgviz.watch(descent(lambda: tf.reduce_sum(2.0 * w), [w], 0.0), 2)
    assert history.ops["Mul"].local == [2.0, 2.0]


def test_every_second_step_is_recorded_and_the_others_run():
    runs = []
    w = tf.Variable(1.0, name="w")
    step = descent(lambda: w * w, [w])
    history = cgviz.watch(lambda: (runs.append(1), step()), 7, every=3)
    assert len(runs) == 7
    assert history.steps == [0, 3, 6] == sorted(history.traces)


def test_a_bounded_number_of_traces_is_kept_evenly_and_those_asked_for():
    w = tf.Variable(1.0, name="w")
    history = cgviz.watch(descent(lambda: w * w, [w]), 100, keep=[2])
    kept = sorted(history.traces)
    assert [step for step in kept if step != 2] == [round(x) for x in np.linspace(0, 99, 14)]
    assert history.trace(2).steps[0].op.type == "Mul"
    with pytest.raises(ValueError, match=r"`step` is 3.*kept are 0, 2, 8, .*keep=\[3\]"):
        history.trace(3)


@pytest.mark.parametrize(("every", "step"), [(2, 3), (1, 6)])
def test_a_step_that_is_not_recorded_cannot_be_kept(every, step):
    runs = []
    with pytest.raises(
        ValueError, match=f"an entry of `keep` is {step}, and no such step is recorded"
    ):
        cgviz.watch(lambda: runs.append(1), 6, every=every, keep=[step])
    assert not runs


def test_steps_at_which_a_gradient_changed_its_state_are_kept():
    w = tf.Variable(1.0, name="w")
    runs = []

    def step():
        with tf.GradientTape() as tape:
            loss = tf.nn.relu(w)
        tape.gradient(loss, w)
        runs.append(1)
        w.assign(1.0 if len(runs) < 51 else -1.0)

    kept = cgviz.watch(step, 100).traces
    assert 51 in kept
    assert 50 not in kept
    assert len(kept) == 15


def test_of_large_traces_only_the_first_and_the_last_are_kept(monkeypatch):
    monkeypatch.setattr(cgviz.history, "MOST_BYTES", 100)
    w = tf.Variable(np.ones(100, "float32"), name="w")
    history = cgviz.watch(descent(lambda: tf.reduce_sum(w * w), [w]), 9)
    assert sorted(history.traces) == [0, 8]


def test_ctrl_c_keeps_what_was_done():
    w = tf.Variable(1.0, name="w")
    inner = descent(lambda: w * w, [w])
    runs = []

    def step():
        runs.append(1)
        if len(runs) == 4:
            raise KeyboardInterrupt
        inner()

    history = cgviz.watch(step, 50)
    assert history.steps == [0, 1, 2]
    assert history.stopped
    assert "stopped early" in repr(history)
    assert max(history.traces) == 2


@pytest.mark.parametrize(
    ("place", "calls"),
    [
        ("_measured", 0),
        ("_measured", 9),
        ("ratio", 0),
        ("ratio", 3),
        ("Series", 0),
        ("Series", 1),
    ],
)
def test_ctrl_c_while_a_step_is_measured_keeps_the_finished_steps(monkeypatch, place, calls):
    w, v = tf.Variable(1.0, name="w"), tf.Variable(2.0, name="v")
    first, other = descent(lambda: w * w, [w]), descent(lambda: tf.sin(w) * v, [w, v])
    inner, runs = getattr(history_module, place), []

    def step():  # another program in its third run, so that there are series to be made
        runs.append(0)
        (first if len(runs) < 3 else other)()

    def interrupted(*args, **how):
        runs[-1] += 1
        if len(runs) == 3 and runs[-1] > calls:
            raise KeyboardInterrupt
        return inner(*args, **how)

    monkeypatch.setattr(history_module, place, interrupted)
    history = cgviz.watch(step, 50)
    assert history.stopped
    assert (history.steps, history.target) == ([0, 1], pytest.approx([1.0, 0.64]))
    assert {name: len(s.gradient) for name, s in history.series.items()} == {"w": 2, "Mul": 2}
    assert {step: float(kept.value) for step, kept in history.traces.items()} == pytest.approx(
        dict(enumerate(history.target))
    )
    assert history.plot().alt.startswith("The target over 2 steps")
    assert history.view().words
    assert history.diagnose().ok


def test_ctrl_c_while_the_first_step_is_measured_leaves_no_step(monkeypatch):
    def interrupted(*args, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(history_module, "_measured", interrupted)
    w = tf.Variable(1.0)
    history = cgviz.watch(descent(lambda: w * w, [w]), 50)
    assert repr(history) == "history of 0 steps"
    assert (history.series, history.traces) == ({}, {})
    with pytest.raises(ValueError, match="nothing was recorded"):
        history.plot()


def test_where_no_step_can_be_recorded_the_error_that_says_so_is_seen():
    with pytest.raises(RuntimeError, match="building a graph"):
        tf.function(lambda: cgviz.watch(lambda: None, 2))()


def test_an_error_of_the_step_says_which_gradient_was_none():
    """After one step the variable is a tensor, which no tape watches."""
    weights = {"w": tf.Variable([1.0, 2.0], name="w")}

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights["w"] ** 2)
        weights["w"] = weights["w"] - 0.1 * tape.gradient(loss, weights["w"])

    with pytest.raises(TypeError, match="NoneType") as caught:
        cgviz.watch(step, 3)
    assert "no tape watched it" in caught.value.__notes__[0]


@pytest.mark.parametrize("every", [1, 2])
def test_an_error_of_a_later_step_carries_the_history_of_the_steps_before_it(every):
    w, batches = tf.Variable(1.0, name="w"), iter([1.0, 2.0, 3.0])
    step = descent(lambda: next(batches) * w * w, [w])
    with pytest.raises(StopIteration) as caught:
        cgviz.watch(step, 50, every)
    history = caught.value.history
    assert history.steps == [0, 1, 2][::every]
    assert history.stopped
    assert max(history.traces) == 2
    assert len(history.series["w"].gradient) == len(history)
    assert history.diagnose().ok
    (note,) = caught.value.__notes__
    assert note.startswith("This was step 3. What was recorded before it is kept")


def test_an_error_with_a_history_of_its_own_keeps_it():
    class RefusedError(Exception):
        history = "of a request"

    w, left = tf.Variable(1.0, name="w"), iter([1, 1])
    inner = descent(lambda: w * w, [w])

    def step():
        if not next(left, 0):
            raise RefusedError
        inner()

    with pytest.raises(RefusedError) as caught:
        cgviz.watch(step, 5)
    assert caught.value.history == "of a request"
    assert not hasattr(caught.value, "__notes__")


def test_an_error_while_a_later_step_is_measured_carries_the_history_too():
    w, left = tf.Variable(1.0, name="w"), iter([1, 1])
    inner = descent(lambda: w * w, [w])
    with pytest.raises(ValueError, match="took no gradient at step 2") as caught:
        cgviz.watch(lambda: inner() if next(left, 0) else None, 50)
    assert caught.value.history.steps == [0, 1]


def test_an_error_beside_healthy_gradients_has_no_note():
    w = tf.Variable(2.0)

    def step():
        with tf.GradientTape() as tape:
            loss = w * w
        tape.gradient(loss, w)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError) as caught:
        cgviz.watch(step, 3)
    assert not hasattr(caught.value, "__notes__")


def test_an_error_of_the_step_is_the_learners_and_leaves_tensorflow_as_it_was():
    def step():
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        cgviz.watch(step, 3)
    with tf.GradientTape() as tape:
        x = tf.Variable(3.0)
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"step": 3}, TypeError, "`step` must be a function without arguments, not int"),
        ({"steps": 0}, ValueError, "`steps` is 0, and must be an integer of at least 1"),
        ({"steps": 2.5}, ValueError, "`steps` is 2.5, and must be an integer"),
        ({"every": 0}, ValueError, "`every` is 0"),
        ({"steps": [3]}, ValueError, r"`steps` is \[3\], and must be an integer of at least 1"),
        ({"steps": tf.constant(3)}, ValueError, "`steps` is <tf.Tensor.*, and must be an integer"),
        ({"every": [1]}, ValueError, r"`every` is \[1\], and must be an integer of at least 1"),
        ({"keep": [[1]]}, ValueError, r"an entry of `keep` is \[1\], and no such step is recorded"),
        ({"keep": 3}, TypeError, "`keep` is 3, and must be a list of integers"),
        ({"keep": ["a"]}, ValueError, "`keep` is 'a', and no such step is recorded"),
        ({"step": lambda: None}, ValueError, "took no gradient at step 0"),
    ],
)
def test_bad_input_is_named(how, error, words):
    w = tf.Variable(1.0)
    with pytest.raises(error, match=words):
        cgviz.watch(**{"step": descent(lambda: w * w, [w]), "steps": 2, **how})


def test_a_keras_model_is_watched_by_four_lines():
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(10)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(True), run_eagerly=True)
    model.build((None, 784))
    model.optimizer.build(model.trainable_variables)
    history = cgviz.watch(lambda: model.train_step((POINTS, LABELS)), 3)
    trained = [v for v in history.variables.values() if v.state[-1] != "unasked"]
    assert len(trained) == 4
    assert all(v.update[-1] > 0 for v in trained)
    assert history.diagnose().ok, history.diagnose()


def penalised(rate=0.0):
    """The variables of a critic, and a step that differentiates its gradient by its input."""
    w, v = (
        tf.Variable(RANDOM.normal(0, 0.3, s), name=n) for s, n in (((5, 4), "w"), ((4, 1), "v"))
    )
    x = tf.constant(POINTS[:8, :5].astype("float64"))

    def step():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = tf.tanh(x @ w) @ v
            slope = inner.gradient(score, x)
            loss = tf.reduce_mean((tf.norm(slope, axis=1) - 1.0) ** 2) + tf.reduce_mean(score)
        gradients = outer.gradient(loss, [w, v])
        for variable, gradient in zip((w, v), gradients, strict=True):
            variable.assign_sub(rate * gradient)
        return loss, gradients

    return [w, v], step


def test_of_a_gradient_penalty_the_outer_pass_is_followed_and_the_inner_one_is_named():
    _, step = penalised()
    history = cgviz.watch(step, 2)
    loss, gradients = step()
    assert history.target == [float(loss)] * 2
    for series, gradient in zip(history.variables.values(), gradients, strict=True):
        assert series.gradient == [float(np.linalg.norm(gradient.numpy()))] * 2
    assert history.trace(1).steps == history.trace(1).passes[1].steps
    told = "A step has 2 backward passes, and this follows pass 1: `watch(..., which=0)` follows"
    assert repr(history).splitlines()[1].startswith(told)
    report = history.diagnose()
    assert [each.startswith(told) for each in report.notes] == [True]
    assert {(f.what, f.which) for f in report} == {("frozen", 1)}
    assert report[0].sources == ("w", "v")
    (picture,) = history.view().document["pages"]
    assert picture == PageBuilder(history.trace(0), 1, moments={"": history.trace(1)}).page()
    inner = cgviz.watch(step, 2, which=0)
    assert inner.variables["w"].state == ["unasked"] * 2
    assert "this follows pass 0: `watch(..., which=1)`" in repr(inner)


def test_a_gradient_of_a_penalty_that_is_rightly_0_is_no_error():
    """As in a critic, whose last bias cancels between the scores of the true and of the false."""
    (w, v), _ = penalised()
    b, x = tf.Variable(0.5, dtype="float64", name="b"), tf.constant(POINTS[:8, :5], "float64")

    def critic(given):
        return tf.tanh(given @ w) @ v + b

    def step():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = critic(x)
            penalty = tf.reduce_mean((tf.norm(inner.gradient(score, x), axis=1) - 1.0) ** 2)
            loss = tf.reduce_mean(critic(-x)) - tf.reduce_mean(critic(x)) + 10.0 * penalty
        for variable, slope in zip((w, v, b), outer.gradient(loss, (w, v, b)), strict=True):
            variable.assign_sub(0.001 * slope)

    history = cgviz.watch(step, 4)
    assert history.variables["b"].state == ["zero"] * 4
    for report in (history.diagnose(), history.trace(3).diagnose()):
        assert list(report) == [], report


@pytest.mark.parametrize("penalty", ["first", "later"])
def test_a_penalty_that_only_some_steps_have_changes_no_gradient_to_none(penalty):
    (w, v), step = penalised()
    runs = []

    def lazy():
        runs.append(1)
        if (len(runs) == 1) == (penalty == "first"):
            return step()
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w) * tf.reduce_sum(v)
        return tape.gradient(loss, [w, v])

    history = cgviz.watch(lazy, 3)
    assert {state for series in history.variables.values() for state in series.state} == {""}
    assert "target" in history.view().words


def test_two_networks_trained_in_turns_have_no_gradient_that_is_none():
    networks = [tf.Variable(float(i + 1), name=f"w{i}") for i in range(2)]
    runs = []

    def step():
        runs.append(1)
        w = networks[len(runs) % 2]
        descent(lambda: w * w, [w])()

    report = cgviz.watch(step, 6).diagnose()
    assert report.ok, report


def optimized(make):
    """A step of a Keras model; `make` gives the optimizer of each step."""
    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(10)
    model = tf.keras.Sequential([tf.keras.layers.Input((784,)), *layers])
    measure = tf.keras.losses.SparseCategoricalCrossentropy(True)

    def step():
        optimizer = make()
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(measure(LABELS, model(POINTS)))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    return step


def optimizer(kind):
    """An optimizer of a kind, or the making of one for each step."""
    if kind == "new":
        return lambda: tf.keras.optimizers.SGD(0.01)
    kept = tf.keras.optimizers.Adam(0.001)
    kept = tf.keras.optimizers.LossScaleOptimizer(kept) if kind == "scaled" else kept
    return lambda: kept


@pytest.mark.parametrize("kind", ["kept", "new", "scaled"])
def test_the_variables_of_an_optimizer_are_not_those_of_the_learner(kind):
    step = optimized(optimizer(kind))
    step()  # so that Keras has made them
    history = cgviz.watch(step, 4)
    names = [name.split("/", 1)[1] for name in history.variables]
    assert [name.split("/")[1] for name in names] == ["kernel", "bias"] * 2
    assert list(history.diagnose()) == [], history.diagnose()


# --- the picture ---------------------------------------------------------------------------------


def test_the_figure_says_in_words_what_it_shows():
    loss, variables = small()
    history = cgviz.watch(descent(loss, variables), 3)
    figure = history.plot()
    first, second, third = figure.alt.splitlines()
    assert first.startswith("The target over 3 steps: ")
    assert "w0" in second
    assert third.startswith("Median of update over weight: ")
    above, below, *_ = figure.axes
    assert list(above.lines[0].get_ydata()) == history.target
    names = [t.get_text() for t in below.get_yticklabels()]
    assert names == [s.name for s in history.series.values() if s.kind != "input"]


def test_the_map_shows_the_rows_that_are_asked_for_in_their_order():
    loss, variables = small()
    history = cgviz.watch(descent(loss, variables), 3)
    names = list(history.series)[2:0:-1]
    below = history.plot(rows=names).axes[1]
    assert [t.get_text() for t in below.get_yticklabels()] == names
    with pytest.raises(ValueError, match=r"`rows` is \['w9'\], and must name some of w0"):
        history.plot(rows=["w9"])
    with pytest.raises(ValueError, match=r"`rows` is \[\], and must name some of"):
        history.plot(rows=[])
    with pytest.raises(ValueError, match=r"`rows` is 3, and must name some of"):
        history.plot(rows=3)


def test_updates_are_drawn_between_whole_powers_of_ten_and_nothing_else_is():
    loss, variables = small()
    figure = cgviz.watch(descent(loss, variables), 3).plot()
    (beside,) = [ax for ax in figure.axes if ax.get_title() == "update / weight"]
    (updates,) = beside.lines
    low, high = beside.get_xlim()
    assert low <= min(updates.get_xdata()) <= max(updates.get_xdata()) < high
    assert np.log10([low, high]) == pytest.approx(np.round(np.log10([low, high])))


def test_the_updates_of_two_trainings_are_drawn_over_the_same_powers_of_ten():
    runs = []
    for factor in (1.0, 1e-4):
        w = tf.Variable(1.0, name="w")
        runs.append(cgviz.watch(descent(lambda w=w, k=factor: k * w * w, [w]), 3))
    shown = [ax for ax in runs[0].plot(against=runs[1]).axes if ax.get_title() == "update / weight"]
    one, other = (ax.get_xlim() for ax in shown)
    assert one == other
    sizes = [x for ax in shown for line in ax.lines for x in line.get_xdata()]
    assert len(sizes) == 2
    assert one[0] <= min(sizes) < max(sizes) / 1e3 < one[1] / 1e3


def test_updates_within_one_power_of_ten_have_labels_at_its_ends_only():
    w = tf.Variable(1.0, name="w")
    figure = cgviz.watch(descent(lambda: w * w, [w]), 3).plot()
    (beside,) = [ax for ax in figure.axes if ax.get_title() == "update / weight"]
    assert np.ptp(np.log10(beside.get_xlim())) == pytest.approx(1)
    assert {label.get_text() for label in beside.get_xticklabels(minor=True)} == {""}


def test_a_gradient_that_is_no_ordinary_number_has_a_mark_and_a_word():
    w, u = tf.Variable(1.0, name="w"), tf.Variable(-1.0, name="u")

    def step():
        with tf.GradientTape() as tape:
            y = w * 2.0 + tf.nn.relu(u)
        tape.gradient(y, [w, u])

    figure = cgviz.watch(step, 2).plot()
    assert "u zero" in figure.alt
    (legend,) = [ax.get_legend() for ax in figure.axes if ax.get_legend()]
    assert [t.get_text() for t in legend.get_texts()] == ["zero"]


# --- the live picture ----------------------------------------------------------------------------


def answers(shown, **question):
    """What the kernel sends to a page that asks."""
    sent = []
    shown.send = sent.append
    shown._handle_custom_msg(question, [])
    return sent


def written(page):
    return [versions[-1][1] for versions in page["texts"]["written"]]


def test_the_kernel_answers_with_the_numbers_of_each_step_in_one_picture():
    w = tf.Variable([1.0, -2.0], name="w")
    history = cgviz.watch(descent(lambda: tf.reduce_sum(w * w), [w]), 3)
    shown = history.view()
    (first,) = shown.document["pages"]
    assert shown.document["history"]["kept"] == [0, 1, 2]
    for step in (1, 2):
        (answer,) = answers(shown, ask="pages", which=0, toggled=[f"step:{step}"])
        (page,) = answer["pages"]
        assert answer["key"] == f"0|step:{step}"
        assert page["displays"][0] == first["displays"][0]
        gradient = history.trace(step).variables["w"]
        assert any(words.endswith(f"= {style.array(gradient)}") for words in written(page))
    (answer,) = answers(shown, ask="panels", which=0, toggled=["step:2"], key="k", side=0)
    assert answer["panels"] == PageBuilder(history.trace(2)).patiently().page()["panels"]


def test_the_picture_has_space_for_the_numbers_of_every_step():
    w = tf.Variable(tf.ones((300, 300)), name="w")
    scale = tf.Variable(1.0, trainable=False, name="scale")
    inner = descent(lambda: tf.reduce_sum(w) * scale, [w], 0.0)
    history = cgviz.watch(lambda: (inner(), scale.assign(0.00123456)), 2)
    alone, later = (PageBuilder(history.trace(i)).page() for i in (0, 1))
    lines = [max(text.count("\n") for text in written(page)) for page in (alone, later)]
    assert lines[0] < lines[1]
    heights = [max(n["height"] for n in page["displays"][0]["nodes"]) for page in (alone, later)]
    drawn = history.view().document["pages"][0]["displays"][0]["nodes"]
    assert heights[0] < heights[1] == max(node["height"] for node in drawn)


def test_a_trace_of_another_program_has_a_picture_of_its_own():
    w = tf.Variable(2.0, name="w")
    runs = []

    def loss():
        runs.append(1)
        return w * w if len(runs) < 3 else tf.sin(w)

    shown = cgviz.watch(descent(loss, [w]), 4).view()
    (same,), (other,) = (
        answers(shown, ask="pages", which=0, toggled=[name])[0]["pages"]
        for name in ("step:1", "step:3")
    )
    assert same["displays"][0] == shown.document["pages"][0]["displays"][0] != other["displays"][0]


def test_a_map_of_many_steps_is_thinned_and_has_all_that_were_kept():
    w = tf.Variable(1.0, name="w")
    history = cgviz.watch(descent(lambda: tf.nn.relu(w - 0.5), [w], 0.01), 150)
    shown = history.view().document["history"]
    head, body = shown["maps"][0][-1][-1][2:]
    marks = [words for *_, words in head[-1][3:]]
    (row,) = (row[3:] for row in body[2:] if row[1]["data-name"] == "w")
    steps = [told["data-step"] for _, told, _ in row]
    assert len(marks) == len(steps) <= 60
    assert set(shown["kept"]) == set(history.traces) <= set(steps)
    assert [step for step, mark in zip(steps, marks, strict=True) if mark] == shown["kept"]
    for step, (_, told, sign) in zip(steps, row, strict=True):
        zero = history.variables["w"].state[step] == "zero"
        assert ("--cgviz-share" in told, sign) == ((False, "○") if zero else (True, ""))
        assert told["title"] == f"w, step {step}: {'zero' if zero else '1'}"


def test_a_step_of_a_training_is_said_with_its_number_and_its_targets():
    w = tf.Variable(1.0, name="w")
    history = cgviz.watch(descent(lambda: w * w, [w], 0.5), 2)
    shown = history.view().document["history"]
    assert shown["said"] == ["step 0 of 1, target 1", "step 1 of 1, target 0"]
    assert shown["points"] == [{"f": 1.0}, {"f": 0.0}]
    lines = [{"name": "right", "role": "f"}, {"name": "wrong", "role": "body"}]
    said = training._said(5, 7, lines, {"f": 0.12345, "body": None})
    assert said == "step 5 of 7, target of right 0.1235, wrong not finite"


def test_a_series_names_the_attributes_that_it_has():
    series = Series("w", "variable", "Variable", "float32", 1)
    assert {"value", "gradient", "state"} <= set(dir(series))


def test_no_list_over_the_steps_is_made_anew_at_each_step(monkeypatch):
    w, made, counts = tf.Variable(1.0, name="w"), [], []
    monkeypatch.setattr(cgviz.history, "MOST_BYTES", 0)
    lists = Series.__getattr__
    monkeypatch.setattr(Series, "__getattr__", lambda s, name: made.append(1) or lists(s, name))
    for steps in (3, 9):
        history = cgviz.watch(descent(lambda: w * w, [w], 0.01), steps)
        made.clear()
        history.diagnose()
        history.plot(against=history)
        history.view()
        counts.append(len(made))
    assert counts[0] == counts[1]


# --- two trainings -------------------------------------------------------------------------------


def two(right, wrong, steps=6):
    """The same training with each of two rules."""
    found = []
    for rule in (right, wrong):

        @tf.custom_gradient
        def double(x, rule=rule):
            return 2.0 * x, rule

        w = tf.Variable([1.0, -2.0], name="w")
        step = descent(lambda w=w, f=double: tf.reduce_sum(tf.square(f(w))), [w], 0.01)
        found.append(cgviz.watch(step, steps))
    return found


def test_of_large_gradients_that_part_the_norms_are_told_if_they_differ():
    def run(factor):
        @tf.custom_gradient
        def double(x):
            return 2.0 * x, lambda upstream: factor * upstream

        w = tf.Variable(tf.ones([4, 5]), name="w")
        return cgviz.watch(descent(lambda: tf.reduce_sum(double(w)), [w], 0.01), 2)

    right, threefold, flipped = map(run, (2.0, 6.0, -2.0))
    said = right.plot(against=threefold).alt
    assert said.startswith(
        "They part at step 0: the L2 norm of what `double` returns to `w` is 8.944 in this "
        "training and 26.83 in the other."
    )
    said = right.plot(against=flipped).alt
    assert said.startswith("They part at step 0: what `double` returns to `w` is float32 [4×5] L2")


def test_a_rule_with_a_wrong_sign_is_where_two_trainings_part():
    right, wrong = two(lambda u: 2.0 * u, lambda u: -2.0 * u)
    words = "They part at step 0: what `double` returns to `w` is [8, −16] in this training and"
    assert right.plot(against=wrong).alt.startswith(words)
    assert right.view(against=wrong).document["history"]["parted"].startswith(words)
    assert right.view(against=wrong).paper().alt == right.plot(against=wrong).alt
    for side in ("this training", "the other"):
        assert f"\n{side}: history of 6 recorded steps" in right.view(against=wrong).words
        assert f"\n{side}: The target over 6 steps" in right.plot(against=wrong).alt
    above = right.plot(against=wrong).axes[0]
    assert [list(line.get_ydata()) for line in above.lines] == [right.target, wrong.target]


def test_a_rule_that_is_wrong_later_is_told_at_that_step():
    calls = []

    def clipped(u):
        calls.append(1)
        return 2.0 * u if len(calls) < 4 else tf.clip_by_norm(2.0 * u, 1.0)

    right, wrong = two(lambda u: 2.0 * u, clipped)
    assert right.plot(against=wrong).alt.startswith("They part at step 3: what `double` returns")


def test_two_programs_part_at_the_gradient_that_one_of_them_lacks_a_part_of():
    w, u = tf.Variable(2.0, name="w"), tf.Variable(2.0, name="w")
    one = cgviz.watch(descent(lambda: w * w, [w], 0.01), 3)
    other = cgviz.watch(descent(lambda: u * tf.stop_gradient(u), [u], 0.01), 3)
    words = "They part at step 0: the gradient of `w` is 4 in this training and 2 in "
    assert one.plot(against=other).alt.startswith(words)
    assert other.view(against=one).document["history"]["parted"].startswith("They part at step 0")


def test_two_trainings_that_never_part_are_said_to():
    right, same = two(lambda u: 2.0 * u, lambda u: u + u)
    assert right.plot(against=same).alt.startswith("They do not part in 6 recorded steps.")


def test_two_programs_that_run_equal_ops_in_another_order_do_not_part():
    a, b, c = (tf.Variable(2.0, name="w") for _ in range(3))

    def sine_last():
        cos = tf.cos(b)
        return tf.sin(b) * cos

    def with_one_more():
        cos = tf.cos(c)
        return tf.identity(tf.sin(c) * cos) + 0.0

    first, *others = (
        cgviz.watch(descent(loss, [v], 0.01), 3)
        for loss, v in ((lambda: tf.sin(a) * tf.cos(a), a), (sine_last, b), (with_one_more, c))
    )
    for other in others:
        assert first.plot(against=other).alt.startswith("They do not part in 3 recorded steps.")


def test_two_trainings_part_by_their_targets_where_no_trace_was_kept(monkeypatch):
    monkeypatch.setattr(cgviz.history, "MOST_BYTES", 0)
    calls = []

    def late(u):
        calls.append(1)
        return 2.0 * u if len(calls) < 3 else 3.0 * u

    right, wrong = two(lambda u: 2.0 * u, late)
    words = "They part at step 3: the target is "
    said = right.plot(against=wrong).alt
    assert said.startswith(words)
    assert "Without a trace only targets are compared: try `watch(..., keep=[2, 3])`." in said


def test_what_only_one_of_two_trainings_has_is_named_where_they_part():
    @tf.custom_gradient
    def my_tanh(x):
        y = tf.tanh(x)
        return tf.identity(y), lambda upstream: -upstream * (1.0 - y**2)

    w, v = tf.Variable([0.5, 1.0], name="w"), tf.Variable([0.5, 1.0], name="w")
    one = cgviz.watch(descent(lambda: tf.reduce_sum(2.0 * tf.tanh(3.0 * w)), [w]), 3)
    other = cgviz.watch(descent(lambda: tf.reduce_sum(2.0 * my_tanh(3.0 * v)), [v]), 3)
    said = one.plot(against=other).alt
    assert said.startswith("They part at step 0: what `Mul` returns to `w`")
    assert "Only one of them has `Tanh` and `my_tanh`: give what corresponds the same name" in said


def test_of_two_trainings_without_a_name_in_common_the_targets_are_compared():
    w, v = tf.Variable(1.0, name="w"), tf.Variable(1.0, name="v")
    one = cgviz.watch(descent(lambda: w * w, [w]), 2)
    other = cgviz.watch(descent(lambda: tf.abs(tf.sin(v)), [v]), 2)
    said = one.plot(against=other).alt
    assert said.startswith("They part at step 0: the target is 1 in this training and 0.8415 in")
    assert "Only one of them has `Abs`, `Mul`, `Sin` and 2 more: give what corresponds" in said


@pytest.mark.parametrize("show", ["plot", "view"])
def test_what_is_no_history_is_refused(show):
    w = tf.Variable(1.0, name="w")
    history = cgviz.watch(descent(lambda: w * w, [w]), 2)
    with pytest.raises(TypeError, match="`against` must be a history, not Trace"):
        getattr(history, show)(against=history.trace(0))
    with pytest.raises(ValueError, match="nothing was recorded"):
        getattr(cgviz.history.History(), show)()


# --- what went wrong -----------------------------------------------------------------------------


def found(history):
    return [(f.what, f.op.name if f.op else "") for f in history.diagnose()]


def test_a_deep_network_of_sigmoids_vanishes_at_its_first_layer():
    loss, variables = network((784, *[16] * 10, 10), tf.sigmoid)
    (only,) = cgviz.watch(descent(loss, variables), 8).diagnose()
    assert (only.what, only.op.type) == ("vanishing", "Sigmoid")
    assert "b0" in only.sources
    assert "9 times, in all" in only.message or "10 times, in all" in only.message


def test_a_deep_linear_network_at_a_bad_scale_explodes():
    loss, variables = network((784, *[64] * 9, 10), tf.identity, spread=1.0)
    report = cgviz.watch(descent(loss, variables, 0.0), 4).diagnose()
    assert ("exploding", "MatMul") in [(f.what, f.op.type) for f in report]
    assert "w0" in next(f.sources for f in report if f.what == "exploding")


def test_a_relu_that_dies_is_told_since_the_step_at_which_it_died():
    w, b = tf.Variable([[1.0, -1.0]], name="w"), tf.Variable([0.5, 0.5], name="b")
    x = tf.constant([[1.0], [0.5], [-0.5]])
    runs = []

    def step():
        with tf.GradientTape() as tape:
            h = tf.nn.relu(x @ w + b)
            loss = tf.reduce_mean(h - 1.0)
        for v, g in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
            v.assign_sub(0.01 * g)
        runs.append(1)
        if len(runs) == 3:
            b.assign([-9.0, -9.0])  # what a step that is too large does

    (finding,) = cgviz.watch(step, 8).diagnose()
    assert (finding.what, finding.op.type) == ("zero", "Relu")
    assert finding.sources == ("w", "b")
    assert finding.message.startswith("since step 3, the gradient of `w` and `b` is exactly 0")
    assert "tf.nn.relu" in finding.message


@pytest.mark.parametrize("straight", [False, True])
def test_a_sign_kills_the_gradient_and_a_straight_through_rule_does_not(straight):
    @tf.custom_gradient
    def binary(x):
        return tf.sign(x), lambda upstream: upstream

    w = tf.Variable([0.4, -0.3, 0.8], name="w")
    sign = binary if straight else tf.sign
    step = descent(lambda: tf.reduce_sum((sign(w) - 0.25) ** 2), [w], 0.001)
    history = cgviz.watch(step, 6)
    assert found(history) == ([] if straight else [("zero", "Sign")])


def test_underflow_in_half_precision_is_told_at_its_op():
    w = tf.Variable([2e-4] * 32 + [0.2] * 32, name="w")

    def loss():
        h = tf.cast(w, tf.float16)
        return tf.reduce_mean(tf.cast(h * h * tf.constant(1e-3, tf.float16), tf.float32))

    report = cgviz.watch(descent(loss, [w]), 4).diagnose()
    assert [f.what for f in report] == ["underflow"]
    assert report[0].op.outputs[0].dtype == "float16"


def test_a_gradient_that_underflows_where_it_comes_into_half_precision_is_told_at_the_cast():
    w = tf.Variable([1e-4] * 32 + [1.0] * 32, name="w")
    step = descent(
        lambda: 1e-4 * tf.reduce_sum(tf.cast(tf.cast(w, tf.float16), tf.float32) ** 2), [w]
    )
    history = cgviz.watch(step, 4)
    for report in (history.diagnose(), history.trace(0).diagnose()):
        assert [(each.what, each.op.name) for each in report] == [("underflow", "Cast_1")]
        assert "rounds to 0 in float16" in report[0].message


def test_zeros_beside_an_upstream_that_overflows_are_no_underflow():
    w, scale = tf.Variable([1.0] * 4 + [-1.0] * 4, name="w"), tf.constant([1e6] + [2.0] * 7)

    def loss():  # its two terms return ∞ and −∞ to the first entry
        h = tf.nn.relu(tf.cast(w, tf.float16) * 2.0)
        first = tf.reduce_sum(tf.cast(h, tf.float32) * scale)
        return first - tf.reduce_sum(tf.cast(h, tf.float32) * scale / 2.0)

    trace = cgviz.watch(descent(loss, [w]), 1).trace(0)
    assert {each.what for each in trace.diagnose()} == {"inf"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_saturated_tanh_is_no_underflow_for_no_larger_upstream_helps(dtype):
    w = tf.Variable([[8.0]], name="w")

    def loss():
        h = tf.cast(POINTS[:1, :64].T, dtype) @ tf.cast(w, dtype)
        return tf.reduce_sum(tf.cast(tf.tanh(h), "float32"))

    assert not cgviz.watch(descent(loss, [w], 1e-3), 4).diagnose().findings


def scaled(scale_at):
    """A training in which the loss is scaled and the gradient scaled back, as an optimizer does."""
    w, steps = tf.Variable(tf.ones([2, 1]), name="w"), iter(map(scale_at, range(99)))
    points = tf.constant(POINTS[:16, :2])

    def step():
        scale = next(steps)
        with tf.GradientTape() as tape:
            y = tf.cast(tf.cast(points, "float16") @ tf.cast(w, "float16"), "float32")
            value = scale * tf.reduce_mean((y - 3.0) ** 2)
        gradient = tape.gradient(value, w)
        if np.isfinite(gradient).all():
            w.assign_sub(1e-3 * gradient / scale)

    return step


def test_a_loss_scale_that_grows_is_no_explosion():
    history = cgviz.watch(scaled(lambda n: 2.0**n), 14)
    gradients = history.variables["w"].gradient
    assert gradients[-1] > 1000 * gradients[0]
    assert not history.diagnose().findings


def test_a_step_that_a_loss_scale_made_infinite_is_a_warning_where_the_others_are_in_order():
    report = cgviz.watch(scaled(lambda n: 2.0**40 if n == 3 else 1.0), 8).diagnose()
    (only,) = report
    assert report.ok
    assert (only.what, only.level) == ("inf", "warning")
    assert only.message.startswith("at step 3, ")
    assert "4 of the 4 recorded steps after it are fine" in only.message


def test_a_variable_whose_steps_are_too_small_for_its_dtype_is_told():
    w = tf.Variable(tf.fill([4], 1.0), name="w", dtype="float32")
    half = tf.Variable(tf.ones([4], "float16"), name="half")
    step = descent(
        lambda: tf.reduce_sum(w) + 0.01 * tf.cast(tf.reduce_sum(half), "float32"), [w, half], 1e-3
    )
    (only,) = cgviz.watch(step, 4).diagnose()
    assert (only.what, only.sources) == ("frozen", ("half",))
    assert "large enough to change numbers of the dtype" in only.hint


def test_a_frozen_layer_is_told_and_a_learning_rate_is_not():
    loss, variables = small()
    rate = tf.Variable(0.1, name="rate")
    some = variables[2:]

    def step():
        with tf.GradientTape() as tape:
            value = loss()
        for v, g in zip(some, tape.gradient(value, some), strict=True):
            v.assign_sub(rate * g)

    (only,) = cgviz.watch(step, 5).diagnose()
    assert (only.what, only.op.name, only.sources) == ("frozen", "w0", ("w0", "b0"))


def test_a_recurrent_network_over_100_steps_vanishes_through_its_tanh():
    w, u = tf.Variable(0.5, name="w"), tf.Variable(0.5, name="u")
    xs = [float(x) for x in np.sin(np.arange(100))]

    def loss():
        state = tf.zeros([])
        for x in xs:
            state = tf.tanh(w * x + u * state)
        return (state - 1.0) ** 2

    report = cgviz.watch(descent(loss, [w, u], 0.01), 3).diagnose()
    assert [f.what for f in report] == ["vanishing"]
    assert "through 100 ops of type" in report[0].message


def test_a_gradient_whose_squares_underflow_is_told_by_its_own_size():
    w = tf.Variable(0.2, name="w")

    def loss():
        state = 1.0
        for _ in range(40):
            state = tf.tanh(w * state)
        return state

    report = cgviz.watch(descent(loss, [w], 0.01), 3).diagnose()
    (message,) = (each.message for each in report if each.what == "vanishing")
    assert "40 times, in all × 5.5e−28" in message


def test_a_gradient_whose_squares_overflow_is_told_by_its_own_size():
    w = tf.Variable(50.0, name="w")

    def loss():
        state = 1.0
        for _ in range(15):
            state = w * state
        return state

    report = cgviz.watch(descent(loss, [w], 0.0), 3).diagnose()
    (message,) = (each.message for each in report if each.what == "exploding")
    assert "15 times, in all × 6.1e23" in message


def test_a_gradient_that_is_none_is_told():
    w, u = tf.Variable(2.0, name="w"), tf.Variable(1.0, name="u")
    step = descent(lambda: w * w + tf.stop_gradient(u), [w, u])
    (finding,) = cgviz.watch(step, 5).diagnose()
    assert (finding.what, finding.op.type, finding.sources) == ("none", "StopGradient", ("u",))


def test_small_inputs_are_no_depth():
    x, y = tf.constant(1e-6 * POINTS[:16, :3]), tf.constant(POINTS[:16, 3:5])
    w0, w1 = (tf.Variable(POINTS[:a, :b], name=f"w{a}") for a, b in ((3, 8), (8, 2)))
    b0, b1 = (tf.Variable(tf.zeros(n), name=f"b{n}") for n in (8, 2))
    variables = [w0, b0, w1, b1]
    step = descent(
        lambda: tf.reduce_mean((tf.tanh(x @ w0 + b0) @ w1 + b1 - y) ** 2), variables, 0.01
    )
    report = cgviz.watch(step, 4).diagnose()
    assert "vanishing" not in [each.what for each in report]


def test_terms_beside_each_other_are_no_depth():
    w = tf.Variable([0.5], name="w")

    def loss():
        total = 0.0
        for t in range(150):
            error = w * POINTS[0, t] - 2.0 * POINTS[0, t]
            total += tf.reduce_sum(0.9**t * error**2)
        return total

    assert list(cgviz.watch(descent(loss, [w], 0.001), 3).diagnose()) == []


def test_a_variable_that_a_step_replaces_by_a_tensor_is_told_from_the_next_step_on():
    held, b = {"w": tf.Variable([1.0, 2.0], name="w")}, tf.Variable(0.5, name="b")

    def step():
        w = held["w"]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w + b) ** 2)
        slope, shift = tape.gradient(loss, [w, b])
        if slope is not None:
            held["w"] = w - 0.1 * slope
        b.assign_sub(0.1 * shift)

    (finding,) = cgviz.watch(step, 6).diagnose()
    assert (finding.what, finding.sources, finding.level) == ("none", ("w",), "error")
    assert finding.message.startswith("since step 1, `w` got None: no tape watched it when AddV2")
    assert "`=` has put a tensor in its place" in finding.hint


def test_a_variable_that_only_a_closed_function_reads_is_seen_to_move():
    w = tf.Variable(1.2, name="w")

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.vectorized_map(lambda x: x * w, tf.constant([1.0, 2.0])))
        w.assign_sub(0.1 * tape.gradient(loss, w))

    history = cgviz.watch(step, 2)
    np.testing.assert_allclose(history.variables["w"].update, [0.25, 1 / 3], rtol=1e-5)
    assert list(history.diagnose()) == []


def test_a_variable_that_moves_between_the_recorded_steps_is_not_frozen():
    w, total = tf.Variable(tf.ones(2), name="w"), tf.Variable(tf.zeros(2), trainable=False)
    runs = []

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w - 3.0) ** 2)
        total.assign_add(tape.gradient(loss, w))
        runs.append(1)
        if len(runs) % 4 == 0:
            w.assign_sub(0.02 * total)
            total.assign(tf.zeros(2))

    assert list(cgviz.watch(step, 24, every=4).diagnose()) == []


@pytest.mark.parametrize(("gap", "levels"), [(0.0, []), (1.0, ["error"])])
def test_a_training_that_has_reached_0_is_no_error(gap, levels):
    w = tf.Variable([0.1, 0.1], name="w")
    points = tf.constant([[2.0, 1.0], [1.0, 3.0]])
    step = descent(lambda: tf.reduce_mean(tf.nn.relu(1.0 - points @ w[:, None])) + gap, [w])
    report = cgviz.watch(step, 20).diagnose()
    assert [each.level for each in report] == levels
    words = "the target is 0, and the gradient of `w` is 0 there."
    assert any(words in note for note in report.notes) == (gap == 0)


@pytest.mark.parametrize(
    "loss",
    [
        lambda w: tf.reduce_sum(tf.zeros(2) * (w - 1.0) ** 2) / tf.maximum(0.0, 1.0),
        lambda w: 0.0 * tf.reduce_mean((w - 1.0) ** 2),
    ],
)
def test_a_target_that_is_0_because_of_its_weights_is_an_error(loss):
    w = tf.Variable([0.5, 0.25], name="w")
    report = cgviz.watch(descent(lambda: loss(w), [w]), 4).diagnose()
    assert [(each.what, each.op.type, each.level) for each in report] == [("zero", "Mul", "error")]
    assert "The other factor is 0." in report[0].message
    assert not report.notes


@pytest.mark.parametrize(
    "loss",
    [
        lambda w: tf.reduce_sum(w * w),
        lambda w: tf.reduce_sum(w * w) + 0.0 * tf.reduce_sum(w),
        lambda w: tf.reduce_sum(tf.maximum(0.0, w)),
    ],
)
def test_a_target_that_has_reached_0_is_no_error_where_a_factor_of_it_is_0(loss):
    w = tf.Variable([0.5, 0.25], name="w")
    step = descent(lambda: loss(w), [w], 0.5)
    for _ in range(2):  # the second begins where nothing is left to learn
        report = cgviz.watch(step, 4).diagnose()
        assert report.ok
        assert any("nothing is left to learn" in note for note in report.notes)


def test_a_target_that_a_weight_turns_to_0_on_the_way_is_an_error():
    w, weight = tf.Variable([0.5, 0.25], name="w"), iter([1.0, 0.5, 0.25, 0.0, 0.0, 0.0])
    step = descent(lambda: tf.constant(next(weight)) * tf.reduce_mean((w - 1.0) ** 2), [w])
    report = cgviz.watch(step, 6).diagnose()
    (only,) = [each for each in report if each.level == "error"]
    assert (only.what, only.op.type) == ("zero", "Mul")
    assert only.message.startswith("since step 3, the gradient of `w` is exactly 0")
    assert not report.notes


@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.tanh])
def test_a_second_derivative_in_the_loss_that_is_0_in_every_step_is_told(activation):
    """The boundary term moves the weights, so the gradients of the loss itself are ordinary."""
    draw, t = np.random.default_rng(0), tf.constant([[0.1], [0.5], [0.9]])
    w, v = (tf.Variable(draw.normal(size=s).astype("f"), name="w") for s in ((1, 8), (8, 1)))

    def loss():
        u = lambda t: activation(t @ w) @ v  # noqa: E731
        return tf.reduce_mean((curvature(u, t) + 1.0) ** 2) + tf.reduce_mean(u(t) ** 2)

    report = cgviz.watch(descent(loss, [w, v], 0.01), 4).diagnose()
    told = [(each.what, each.level, each.op.type) for each in report]
    assert told == [("zero", "warning", "ReluGrad")] * (activation is tf.nn.relu)
    assert report.ok
    assert all(each.message.startswith("at step 0, the gradient of `t` is") for each in report)


def test_a_first_derivative_within_the_loss_may_be_0():
    """Adversarial training whose margins are met: there is no attack, and the decay goes on."""
    w, x, y = tf.Variable([[2.0], [2.0]], name="w"), tf.constant([[1.0, 1.0]]), 1.0

    def loss():
        with tf.GradientTape() as inner:
            inner.watch(x)
            hinge = tf.reduce_mean(tf.nn.relu(1.0 - y * (x @ w)))
        attacked = x - 0.1 * inner.gradient(hinge, x)
        return tf.nn.relu(1.0 - y * (attacked @ w))[0, 0] + 0.01 * tf.reduce_sum(w**2)

    assert not cgviz.watch(descent(loss, [w], 0.1), 4).diagnose().findings


def test_a_layer_below_a_normalisation_over_one_entry_is_an_error():
    tf.keras.utils.set_random_seed(0)
    layers = [tf.keras.layers.Dense(4), tf.keras.layers.BatchNormalization()]
    model, x = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1)]), tf.ones((1, 3))
    model.build((None, 3))
    loss = lambda: tf.reduce_mean((model(x, training=True) - 1.0) ** 2)  # noqa: E731
    report = cgviz.watch(descent(loss, model.trainable_variables, 0.01), 8).diagnose()
    (finding,) = report
    assert not report.ok
    assert "single entry" in finding.message
    assert {name.rpartition("/")[2] for name in finding.sources} == {"kernel", "bias"}


def test_a_softmax_over_one_entry_is_told_by_a_watch_though_its_gradients_are_not_quite_0():
    draw = np.random.default_rng(0)
    w, x = tf.Variable([[1.0], [2.0]], name="w"), draw.normal(size=(64, 2)).astype("f")
    loss = lambda: tf.reduce_mean((tf.nn.softmax(x @ w) - np.float32(x[:, :1] > 0)) ** 2)  # noqa: E731
    history = cgviz.watch(descent(loss, [w]), 6)
    assert history.variables["w"].gradient[0] > 0
    (finding,) = [each for each in history.diagnose() if each.what == "zero"]
    assert (finding.level, finding.sources) == ("error", ("w",))
    assert "A softmax over one entry" in finding.message


def test_a_remark_or_a_warning_does_not_depend_on_the_order_of_variables():
    levels = set()
    for names in (["b", "w"], ["w", "b"]):
        made = {"b": tf.Variable([1.0, 2.0], name="b"), "w": tf.Variable(tf.eye(2), name="w")}
        first, second = (made[name] for name in names)
        sums = lambda: tf.reduce_sum(first) + tf.reduce_sum(second)  # noqa: E731, B023
        loss = lambda: (lambda m: m - m)(sums()) + tf.reduce_sum(made["v"] ** 2)  # noqa: E731, B023
        made["v"] = tf.Variable([3.0], name="v")
        report = cgviz.watch(descent(loss, [*made.values()]), 6).diagnose()
        levels.add(tuple(each.level for each in report if each.what == "zero"))
    assert levels == {("warning",)}


@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 3)])
def test_a_matrix_that_cancels_at_every_step_is_a_warning_and_a_bias_is_a_remark(shape):
    w, v = tf.Variable(tf.ones(shape), name="w"), tf.Variable(tf.ones(3), name="v")
    loss = lambda: tf.reduce_sum((v - 2.0) ** 2) + tf.reduce_sum(w * 2.0 - w - w)  # noqa: E731
    report = cgviz.watch(descent(loss, [w, v], 0.01), 8).diagnose()
    assert [(each.level, each.sources) for each in report] == [("warning", ("w",))] * (
        shape == (3, 3)
    )
    assert any("add up to 0" in note for note in report.notes) == (shape != (3, 3))


def test_variables_that_lose_their_gradients_are_told_from_one_diagnosis(monkeypatch):
    weights = [tf.Variable(1.0, name=f"v{i}") for i in range(5)]
    diagnose = Mock(wraps=diagnosis.diagnose)
    monkeypatch.setattr(diagnosis, "diagnose", diagnose)
    loss = lambda: tf.add_n([tf.nn.relu(-w) for w in weights]) + 1.0  # noqa: E731
    assert len(cgviz.watch(descent(loss, weights), 6).diagnose()) == 5
    assert diagnose.call_count == 1


def test_one_quiet_batch_at_the_end_is_a_warning():
    w, shifts = tf.Variable(0.1, name="w"), iter([0.0] * 8 + [9.0])
    history = cgviz.watch(descent(lambda: tf.nn.relu(1.0 - w - next(shifts)) + 1.0, [w], 0.001), 9)
    assert [(each.what, each.level) for each in history.diagnose()] == [("zero", "warning")]


def test_one_batch_whose_loss_is_0_does_not_mean_that_nothing_is_left_to_learn():
    w, shifts = tf.Variable(0.1, name="w"), iter([0.0] * 8 + [9.0])
    step = descent(lambda: tf.nn.relu(1.0 - w - next(shifts)), [w], 0.001)
    report = cgviz.watch(step, 9).diagnose()
    assert list(report) == []
    (note,) = report.notes
    assert "since step 8, the target is 0" in note.lower()
    assert "Other batches may have a gradient" in note


@pytest.mark.parametrize("rate", [-0.01, 0.01])
def test_steps_along_the_gradient_are_remarked_on_where_the_target_rises(rate):
    m = tf.Variable([1.0, -2.0], name="m")
    report = cgviz.watch(descent(lambda: tf.reduce_sum((m - 0.5) ** 2), [m], rate), 20).diagnose()
    assert report.ok
    assert any("subtract the gradient" in note for note in report.notes) == (rate < 0)


@pytest.mark.parametrize("rate", [-0.01, 0.01])
def test_a_wrong_sign_is_remarked_on_though_the_targets_of_minibatches_go_up_and_down(rate):
    w, draw = tf.Variable(tf.ones((8, 1)), name="w"), np.random.default_rng(0)
    points = draw.normal(size=(32, 8)).astype("float32")
    wanted = tf.constant(draw.normal(size=(32, 1)).astype("float32"))

    def loss():
        some = draw.integers(0, 32, 4)
        return tf.reduce_mean((tf.gather(points, some) @ w - tf.gather(wanted, some)) ** 2)

    history = cgviz.watch(descent(loss, [w], rate), 30)
    notes = history.diagnose().notes
    assert np.mean(np.diff(history.target) > 0) < 0.7
    assert any("the target rises: its mean" in note.lower() for note in notes) == (rate < 0)


def test_steps_along_the_gradient_that_make_the_target_grow_are_told_once():
    w, v = tf.Variable([1.0, -2.0], name="w"), tf.Variable([3.0, 1.0], name="v")
    loss = lambda: tf.reduce_sum(w**2) + tf.reduce_sum(v**2)  # noqa: E731
    report = cgviz.watch(descent(loss, [w, v], -0.3), 20).diagnose()
    (only,) = [each for each in report if each.what != "update"]
    assert (only.what, only.sources) == ("exploding", ("w", "v"))
    assert not report.notes
    assert (
        "the training diverges: the gradient of `w` and `v` grows from step to step" in only.message
    )
    assert "the update has a wrong sign" in only.hint


def test_a_loss_that_falls_without_end_does_not_grow():
    w = tf.Variable([0.01, 0.01], name="w")
    history = cgviz.watch(descent(lambda: -tf.reduce_sum(w**2), [w], 2.0), 12)
    assert history.target[-1] < -1e6 < history.target[0] < 0
    assert "exploding" not in [each.what for each in history.diagnose()]


def test_the_first_step_with_nan_is_told_and_nothing_after_it():
    w = tf.Variable(0.5, name="w")

    def step():
        with tf.GradientTape() as tape:
            root = tf.sqrt(w)
            loss = root * 2.0
        w.assign_sub(0.3 * tape.gradient(loss, w))

    (finding,) = cgviz.watch(step, 8).diagnose()
    assert (finding.what, finding.op.name) == ("nan", "root")


def test_the_first_trace_with_nan_is_kept_and_explained_however_large_the_traces(monkeypatch):
    monkeypatch.setattr(cgviz.history, "MOST_BYTES", 0)
    w = tf.Variable(0.5, name="w")
    history = cgviz.watch(descent(lambda: tf.sqrt(w), [w], 0.3), 8)
    assert sorted(history.traces) == [0, history.broken, 7]
    (finding,) = history.diagnose()
    assert finding.message.startswith(f"at step {history.broken}, the first NaN of the forward")


def test_where_the_first_step_has_nan_no_variable_is_said_to_be_frozen():
    w = tf.Variable(-1.0, name="w")
    (finding,) = cgviz.watch(descent(lambda: tf.sqrt(w), [w]), 3).diagnose()
    assert finding.what == "nan"


def test_a_weight_that_the_first_step_makes_nan_is_not_said_to_be_frozen():
    w = tf.Variable([0.0, 2.0], name="w")

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w**2)
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.01 * gradient / tf.sqrt(gradient**2))

    (finding,) = cgviz.watch(step, 4).diagnose()
    assert finding.message.startswith("at step 1, `w` itself holds NaN")


def test_exploding_gradients_of_a_training_that_diverges_are_not_told_besides():
    w, v = tf.Variable([1.0, 2.0], name="w"), tf.Variable([1.0, -2.0], name="v")
    loss = lambda: tf.reduce_sum((w * v - 1.0) ** 2)  # noqa: E731
    report = cgviz.watch(descent(loss, [w, v], 20.0), 10).diagnose()
    (only,) = [each for each in report if each.what == "exploding"]
    assert "the training diverges" in only.message
    assert not report.notes


def test_a_step_that_makes_a_weight_nan_is_told_where_the_weight_is_used_again():
    w, runs = tf.Variable([3.0, 4.0], name="w"), []

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * w)
        w.assign_sub(0.01 * tape.gradient(loss, w) / (0.0 if len(runs) == 1 else 1.0))
        runs.append(1)
        if len(runs) == 4:
            w.assign([3.0, 4.0])

    history = cgviz.watch(step, 6)
    (only,) = history.diagnose()
    assert (history.broken, only.what, only.level, only.op.name) == (2, "inf", "warning", "w")
    assert only.message.startswith("at step 2, `w` itself holds −∞")
    assert only.message.endswith("2 of the 3 recorded steps after it are fine.")
    assert "at the step that changed it" in only.hint


def test_a_mask_that_holds_infinity_and_is_not_trained_is_no_finding():
    w, mask = tf.Variable([1.0, 2.0], name="w"), tf.Variable([0.0, -np.inf], name="mask")
    step = descent(lambda: tf.reduce_sum(w * tf.nn.softmax(mask)), [w])
    assert cgviz.watch(step, 3).diagnose().ok


def test_updates_too_large_for_their_weights_are_told():
    loss, variables = small()
    report = cgviz.watch(descent(loss, variables, 30.0), 6).diagnose()
    assert "update" in [f.what for f in report]


def test_a_large_update_is_told_with_its_step_and_its_size():
    w, runs = tf.Variable([3.0, 4.0], name="w"), []

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * w)
        tape.gradient(loss, w)
        runs.append(1)
        scale = {3: 1.5, 4: 0.0, 5: 0.0}.get(len(runs), 1.01 if len(runs) < 3 else 0.5)
        w.assign([6.0, 8.0] if len(runs) == 5 else scale * w)

    (finding,) = cgviz.watch(step, 8).diagnose()
    assert finding.message.startswith(
        "since step 2, a step moves `w` by up to 1 of the norm before it;"
    )


def healthy_autoencoder():
    w, u = (tf.Variable(RANDOM.normal(0, 0.05, s).astype("float32")) for s in ((784, 8), (8, 784)))
    return descent(lambda: tf.reduce_mean((POINTS @ w @ u - POINTS) ** 2), [w, u], 0.5)


def healthy_regression():
    w = tf.Variable([1.0, -2.0], name="w")
    x = tf.constant(RANDOM.normal(size=(32, 2)).astype("float32"))
    return descent(lambda: tf.reduce_mean((x @ w[:, None] - x[:, :1]) ** 2), [w], 0.05)


def healthy_recurrent():
    w, u = tf.Variable(0.5, name="w"), tf.Variable(0.9, name="u")

    def loss():
        state = tf.zeros([])
        for x in np.sin(np.arange(12)):
            state = tf.tanh(w * float(x) + u * state)
        return (state - 0.2) ** 2

    return descent(loss, [w, u], 0.05)


def healthy_keras():
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.layers.Dense(32, "relu"), tf.keras.layers.BatchNormalization()]
    model = tf.keras.Sequential([*layers, tf.keras.layers.Dropout(0.2), tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(True)
    model.compile(tf.keras.optimizers.SGD(0.05, 0.9), loss, run_eagerly=True)
    model.build((None, 784))
    model.optimizer.build(model.trainable_variables)
    return lambda: model.train_step((POINTS, LABELS))


def healthy_biases(rate):
    """Watched when the biases, which began at 0, have been moved by three steps."""
    step = descent(*network((784, 16, 10), tf.nn.relu), rate)
    for _ in range(3):
        step()
    return step


def healthy_penalty():
    return penalised(0.01)[1]


def healthy_mean_over_many():
    """Ops of one type in layers with an entry per pixel, and a scalar one in the loss."""
    layers = [
        [tf.Variable(RANDOM.normal(size=784).astype("float32"), name=f"{name}{i}") for name in "wb"]
        for i in range(10)
    ]

    def loss():
        h = tf.constant(POINTS)
        for w, b in layers:
            h = h + 0.01 * tf.tanh(h * w + b)
        penalty = tf.add_n([tf.nn.l2_loss(w) for w, _ in layers])
        return tf.reduce_mean((h - POINTS) ** 2) + 1e-6 * penalty

    return descent(loss, [v for pair in layers for v in pair], 1.0)


HEALTHY = {
    "biases": lambda: healthy_biases(0.01),
    "slow biases": lambda: healthy_biases(1e-4),
    "penalty": healthy_penalty,
    "relu": lambda: descent(*network((784, 32, 32, 10), tf.nn.relu), 0.05),
    "tanh": lambda: descent(*network((784, 32, 10), tf.tanh, 0.5), 0.1),
    "autoencoder": healthy_autoencoder,
    "regression": healthy_regression,
    "recurrent": healthy_recurrent,
    "mean over many": healthy_mean_over_many,
    "keras": healthy_keras,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_training(name):
    report = cgviz.watch(HEALTHY[name](), 20, every=2).diagnose()
    assert list(report) == [], report
