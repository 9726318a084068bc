"""trace() and record() show what TensorFlow does, and change nothing of it."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from oracle import edges_sum_to_upstream, same, tape_gradient
from programs import square, two_rows

import cgviz
from cgviz.graph import Trace
from cgviz.recording.events import OpEvent

# --- the contract ----------------------------------------------------------------------------


def test_three_squares_in_a_row_show_the_backward_table_in_execution_order():
    trace = cgviz.trace(lambda x: square(square(square(x))), 2.0)
    assert trace.value == 256.0
    assert trace.gradients == (1024.0,)
    assert [
        (float(s.op.inputs[0].numpy()), float(s.upstream[0]), float(s.downstream[0]))
        for s in trace.steps
    ] == [(16, 1, 32), (4, 32, 256), (2, 256, 1024)]
    assert [float(s.local[0][0]) for s in trace.steps] == [32, 8, 4]


def test_a_vector_and_a_variable_go_through_the_custom_square():
    trace = cgviz.trace(square, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(trace.value, [1, 4, 9])
    np.testing.assert_array_equal(trace.gradients[0], [2, 4, 6])
    v = tf.Variable(2.0, name="v")
    trace = cgviz.trace(square, v)
    assert (trace.value, trace.gradients[0], trace.variables["v"]) == (4, 4, 4)


def test_x_times_x_has_two_edges_whose_sum_is_the_gradient():
    trace = cgviz.trace(lambda x: x * x, 3.0)
    (step,) = trace.steps
    assert [v.key for v in step.op.inputs] == [trace.ops[0].outputs[0].key] * 2
    assert step.downstream == (3.0, 3.0)
    assert trace.gradients[0] == 6.0


def test_fan_out_sums_the_contributions():
    def f(x):
        a = x * x
        return tf.sin(a) + 3.0 * a

    trace = cgviz.trace(f, 1.5)
    edges_sum_to_upstream(trace)
    a = next(op for op in trace.ops if op.name == "a")
    parts = [float(p) for _, _, p in trace.passes[0].contributions(a.outputs[0])]
    assert len(parts) == 2
    assert np.isclose(sum(parts), trace.passes[0].upstream(a.outputs[0]))


def test_upstream_seeds_the_backward_pass():
    trace = cgviz.trace(square, [1.0, 2.0], upstream=[10.0, -1.0])
    np.testing.assert_array_equal(trace.gradients[0], [20.0, -4.0])
    np.testing.assert_array_equal(trace.passes[0].seeds[0], [10.0, -1.0])


def test_several_inputs_and_outputs_have_one_gradient_and_one_upstream_each():
    @tf.custom_gradient
    def two(x, y):
        def grad(dz, dw):
            return dz * (y + tf.cos(x)), dz * x + dw * 2.0 * y

        return (x * y + tf.sin(x), y**2), grad

    trace = cgviz.trace(two, 2.0, 3.0)
    step = trace.steps[0]
    assert np.allclose(trace.value, (6.9092975, 9.0))
    assert np.allclose(trace.gradients, (2.5838532, 8.0))
    assert len(step.upstream) == len(step.downstream) == 2
    assert step.local[1][0] == 0.0


def test_a_variable_given_twice_is_one_variable():
    v = tf.Variable(3.0, name="v")
    trace = cgviz.trace(lambda a, b: a * b, v, v)
    assert trace.gradients == (6.0, 6.0)
    assert trace.variables == {"v": 6.0}


def test_an_untouched_argument_gets_none():
    trace = cgviz.trace(lambda x, y: x * 2.0, 1.0, 2.0)
    assert trace.gradients[1] is None


# --- the numbers are TensorFlow's own --------------------------------------------------------

W = tf.constant([[0.5, -1.0], [2.0, 0.25]])
PROGRAMS = {
    "elementwise": lambda x: tf.sin(x) * tf.exp(-x) / (1.0 + x * x),
    "matmul": lambda x: tf.matmul(x[None, :], W),
    "reduce": lambda x: tf.reduce_sum(x) * tf.reduce_mean(x) - tf.reduce_max(x),
    "softmax": lambda x: tf.nn.softmax(x) * [1.0, 3.0],
    "broadcast": lambda x: x[:, None] * x[None, :] + 1.0,
    "where": lambda x: tf.where(x > 1.0, x * x, tf.sqrt(x)),
    "stack": lambda x: tf.stack([x, 2.0 * x, x * x], axis=1),
    "concat and split": lambda x: tf.split(tf.concat([x, x * 3.0], 0), 2)[1],
    "reshape by a list": lambda x: tf.reshape(x * x, [1, 2]) * 2.0,
    "gather": lambda x: tf.gather(x, [0, 1, 1]) * 3.0,
    "inverse": lambda x: tf.linalg.inv(tf.linalg.diag(x) + W * 0.1),
    "stop_gradient": lambda x: x * tf.stop_gradient(x),
    "rounded": lambda x: x + tf.round(x),
    "cast away": lambda x: x * tf.cast(tf.cast(x, tf.int32), tf.float32),
    "custom": lambda x: square(square(x)) + square(x),
    "unstack": lambda x: tf.unstack(x)[0] * x,
    "einsum": lambda x: tf.einsum("i,ij,j->", x, W, x),
    "cond": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x),
    "while": lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, x))[1],
    "map": lambda x: tf.map_fn(lambda a: a * a, x),
    "recompute": lambda x: tf.recompute_grad(lambda a: tf.sin(a) * a)(x) * x,
    "clip": lambda x: tf.clip_by_norm(x, 0.5),
    "cumsum": lambda x: tf.cumsum(x) ** 2,
    "top_k": lambda x: tf.math.top_k(x, 1).values,
    "norm": lambda x: tf.norm(x) + tf.math.reduce_std(x),
    "py": lambda x: sum(x[i] * float(i + 1) for i in range(2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_the_traced_result_is_bit_for_bit_the_untraced_one(name, dtype):
    def f(x):
        return (
            PROGRAMS[name](x)
            if dtype == tf.float32
            else tf.cast(PROGRAMS[name](tf.cast(x, tf.float32)), dtype)
        )

    x = tf.constant([0.7, 2.5], dtype)
    y, (gradient,) = tape_gradient(f, x)
    trace = cgviz.trace(f, x)
    same(trace.value, y)
    same(trace.gradients[0], gradient)
    edges_sum_to_upstream(trace)


@pytest.mark.parametrize("point", [0.0, -0.0, float("nan"), float("inf"), 1e-30, 1e30, 100.0])
def test_awkward_points_are_what_tensorflow_makes_of_them(point):
    def f(x):
        return tf.math.log(1.0 + tf.exp(x)) + tf.abs(x) + tf.maximum(x, 0.0) + 1.0 / x

    x = tf.constant(point)
    y, (gradient,) = tape_gradient(f, x)
    trace = cgviz.trace(f, x)
    same(trace.value, y)
    same(trace.gradients[0], gradient)


def test_empty_half_and_complex_tensors_are_traced():
    same(cgviz.trace(lambda x: x * x, np.zeros((0, 3), np.float32)).gradients[0], tf.zeros((0, 3)))
    half = tf.constant([1.0, 2.0], tf.bfloat16)
    same(cgviz.trace(lambda x: x * x, half).gradients[0], half * 2)
    z = tf.constant(1 + 2j, tf.complex64)
    same(cgviz.trace(lambda x: x * x, z).gradients[0], tape_gradient(lambda x: x * x, z)[1][0])


def test_a_scalar_bfloat16_variable_keeps_its_dtype_and_its_gradient():
    w = tf.Variable(1.5, dtype=tf.bfloat16, name="w")
    trace = cgviz.trace(lambda x: x * w, tf.constant(2.0, tf.bfloat16))
    same(trace.variables["w"], tf.constant(2.0, tf.bfloat16))


def test_an_integer_target_has_no_gradient_and_raises_nothing():
    trace = cgviz.trace(tf.argmax, [1.0, 3.0])
    assert trace.value == 1
    assert trace.gradients[0] is None


# --- more of TensorFlow ----------------------------------------------------------------------


def test_second_and_third_order_have_one_pass_each():
    trace = cgviz.trace(lambda x: x**4, 2.0, order=3)
    assert [float(p.gradients[0]) for p in trace.passes] == [32.0, 48.0, 48.0]
    assert trace.gradients == (32.0,)
    edges_sum_to_upstream(trace)


def test_no_gradient_has_no_gradient_of_its_own():
    trace = cgviz.trace(lambda x: tf.constant(1.0), 2.0, order=2)
    assert [p.gradients for p in trace.passes] == [(None,)]


def test_a_naive_nest_of_custom_gradients_shows_its_wrong_second_derivative():
    @tf.custom_gradient
    def cube(x):
        def first(dy):
            @tf.custom_gradient
            def slope(dy):
                return 3.0 * x**2 * dy, lambda ddy: 6.0 * x * ddy

            return slope(dy)

        return x**3, first

    trace = cgviz.trace(cube, 3.0, order=2)
    with tf.GradientTape() as t2:
        x = tf.constant(3.0)
        t2.watch(x)
        with tf.GradientTape() as t1:
            t1.watch(x)
            y = cube(x)
        g = t1.gradient(y, x)
    same(trace.passes[0].gradients[0], g)
    second = t2.gradient(g, x)
    assert second is None or len(trace.passes) == 2
    same(trace.passes[1].gradients[0] if len(trace.passes) > 1 else None, second)


def test_a_keras_model_is_traced_layer_by_layer():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "relu", name="a"),
            keras.layers.Dense(1, name="b"),
        ]
    )
    x = tf.ones((2, 3))
    y, gradients = tape_gradient(model, x)
    trace = cgviz.trace(model, x)
    same(trace.value, y)
    same(trace.gradients[0], gradients[0])
    assert [name.split("/")[-2:] for name in trace.variables] == [
        ["a", "kernel"],
        ["a", "bias"],
        ["b", "kernel"],
        ["b", "bias"],
    ]
    for ours, theirs in zip(trace.variables.values(), gradients[1:], strict=True):
        same(ours, theirs)
    assert any(op.scope.endswith("a") for op in trace.ops)
    edges_sum_to_upstream(trace)


def test_batch_norm_dropout_and_embedding_layers_keep_their_numbers():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Embedding(5, 3),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.0),
            keras.layers.Conv1D(2, 2),
            keras.layers.LayerNormalization(),
        ]
    )
    tokens = tf.constant([[1, 2, 1]])
    model(tokens)

    def run(scale):
        return model(tokens, training=False) * scale

    y, gradients = tape_gradient(run, tf.constant(2.0))
    trace = cgviz.trace(run, 2.0)
    same(trace.value, y)
    for ours, theirs in zip(trace.variables.values(), gradients[1:], strict=True):
        same(ours, theirs)


def test_a_sparse_gradient_has_a_second_derivative():
    trace = cgviz.trace(lambda x: tf.gather(x, [0, 0]) ** 3, [2.0, 1.0], order=2)
    np.testing.assert_array_equal(trace.passes[0].gradients[0], [24.0, 0.0])
    np.testing.assert_array_equal(trace.passes[1].gradients[0], [24.0, 0.0])


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
def test_slices_that_do_not_know_of_what_shape_take_it_from_what_they_belong_to(make):
    table = make([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    wanted = np.float32([[1, 1], [0, 0], [1, 1]])
    with cgviz.record() as recorded, tf.GradientTape() as tape:
        tape.watch(table)
        tape.gradient(two_rows(table), table)
    for trace in (recorded, cgviz.trace(two_rows, table)):
        assert len(trace.passes[0].gradients) == 1
        for gradient in (trace.passes[0].gradients[0], trace.steps[0].downstream[0]):
            np.testing.assert_array_equal(gradient, wanted)
        np.testing.assert_array_equal(trace.steps[0].vjp([2 * np.ones((2, 2))])[0], 2 * wanted)


def test_such_slices_have_a_second_derivative():
    trace = cgviz.trace(lambda x: two_rows(x) ** 3, [[2.0], [5.0], [1.0]], order=2)
    np.testing.assert_array_equal(trace.passes[0].gradients[0], [[12.0], [0.0], [3.0]])
    np.testing.assert_array_equal(trace.passes[1].gradients[0], [[12.0], [0.0], [6.0]])


def test_an_inner_tape_in_f_is_a_pass_of_its_own_and_steps_are_those_of_trace():
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**3
        return tape.gradient(y, x)

    trace = cgviz.trace(slope, 2.0)
    assert trace.value == 12.0
    assert trace.gradients[0] == 12.0
    assert len(trace.passes) == 2


@pytest.mark.parametrize("number", [2.0, np.float32(2.0), np.array([2.0, 4.0])])
def test_a_rule_that_returns_plain_numbers_is_shown_as_it_is(number):
    plain = tf.custom_gradient(lambda x: (x * 2.0, lambda dy: number))
    x = tf.constant([1.0, 3.0])
    trace = cgviz.trace(lambda x: plain(tf.sin(x)), x)
    same(trace.gradients[0], tape_gradient(lambda x: plain(tf.sin(x)), x)[1][0])
    np.testing.assert_array_equal(trace.steps[0].downstream[0], number)
    np.testing.assert_array_equal(cgviz.trace(plain, x).gradients[0], number)
    assert "2" in repr(trace)


def test_what_reached_a_variable_that_was_assigned_is_its_gradient_in_every_pass():
    w = tf.Variable(2.0, name="w")
    with cgviz.record() as trace:
        for _ in range(3):
            with tf.GradientTape() as tape:
                y = w * w
            w.assign_sub(0.25 * tape.gradient(y, w))
    assert [float(each.gradients[0]) for each in trace.passes] == [4.0, 2.0, 1.0]
    for each, value in zip(trace.passes, (2.0, 1.0, 0.5), strict=True):
        assert each.upstream(each.sources[0]) == each.gradients[0]
        assert each.sources[0].numpy() == value


def test_only_watched_variables_get_a_gradient():
    w, v = tf.Variable(2.0, name="w"), tf.Variable(3.0, name="v")
    with cgviz.record() as trace:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(w)
            y = w * v
        tape.gradient(y, [w, v])
    assert trace.variables == {"w": 3.0, "v": None}


# --- while it records and after --------------------------------------------------------------


def test_a_trace_that_is_still_recording_says_so():
    with cgviz.record() as trace, pytest.raises(RuntimeError, match="still open"):
        _ = trace.ops


def test_a_dropped_trace_frees_its_tensors_without_the_garbage_collector():
    made = []

    def f(x):
        y = square(x) * 2.0
        made.append(weakref.ref(y))
        return y

    trace = cgviz.trace(f, 1.0)
    assert made[0]() is not None
    gc.collect()
    gc.disable()
    try:
        del trace
        assert made[0]() is None
    finally:
        gc.enable()


def test_a_hundred_traces_in_a_row_leave_nothing():
    kept = (type(tf.constant(0.0)), OpEvent, Trace)

    def count():
        gc.collect()
        return sum(isinstance(o, kept) for o in gc.get_objects())

    for _ in range(10):
        cgviz.trace(square, 2.0, order=2)
    before = count()
    for _ in range(100):
        assert cgviz.trace(square, 2.0).gradients[0] == 4.0
    assert count() <= before + 5


def test_a_recording_has_the_gradient_of_each_variable_from_the_first_pass_that_takes_it():
    w, v, x = tf.Variable(2.0, name="w"), tf.Variable(5.0, name="v"), tf.constant(3.0)
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = w * x * x
            slope = inner.gradient(y, x)
            z = slope * v
        outer.gradient(slope, w)
        outer.gradient(z, [w, v])
    assert trace.gradients == (12.0,)
    assert {name: float(g) for name, g in trace.variables.items()} == {"w": 6.0, "v": 12.0}
    assert "backward pass 2 (of 0 to 2)" in repr(trace.summary(2))
