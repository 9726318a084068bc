"""trace() and record() show what TensorFlow does, and change nothing of it."""

import gc
import threading
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import cgviz


@tf.custom_gradient
def square(x):
    def grad(dy):
        return 2.0 * x * dy

    return x * x, grad


def tape_gradient(f, *args, upstream=None):
    """What TensorFlow's own tape says, with no recording anywhere."""
    with tf.GradientTape() as tape:
        tape.watch([a for a in args if isinstance(a, tf.Tensor)])
        y = f(*args)
    sources = [*args, *(v for v in tape.watched_variables() if all(v is not a for a in args))]
    return y, tape.gradient(y, sources, output_gradients=upstream)


def same(ours, theirs):
    """Equal to the last bit, NaN equal to NaN, None only to None."""
    if ours is None or theirs is None:
        assert ours is None
        assert theirs is None
        return
    theirs = tf.convert_to_tensor(theirs).numpy()
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert ours.tobytes() == theirs.tobytes()


def edges_sum_to_upstream(trace):
    """What the uses of a value hand back adds up to what its maker receives."""
    for each in trace.passes:
        for step in each.steps:
            for value, upstream in zip(step.op.outputs, step.upstream, strict=True):
                parts = [part.astype(np.float64) for _, _, part in each.contributions(value)]
                if value.key in {t.key for t in each.targets} or not parts:
                    continue
                np.testing.assert_allclose(sum(parts), upstream, rtol=1e-4, atol=1e-5)


def rows(trace):
    return [(s.op.name, s.upstream[0].tolist(), s.downstream[0].tolist()) for s in trace.steps]


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


def test_names_are_the_learners_own():
    def f(x):
        y = x**2
        z: tf.Tensor = tf.sin(y) * y
        z *= 2.0
        return tf.exp(z)

    names = [op.name for op in cgviz.trace(f, 1.0).ops if op.kind != "constant"]
    assert names == ["x", "y", "Sin", "z", "z_1", "Exp"]


def test_the_name_of_a_line_belongs_to_the_last_of_its_ops():
    model = keras.Sequential([keras.layers.Dense(2, "relu"), keras.layers.Dense(1)])

    def f(x):
        for _ in range(2):
            x = tf.sin(x)
        logits = model(x)
        y = tf.norm(logits)
        return y

    trace = cgviz.trace(f, tf.ones((1, 3)))
    names = [op.name for op in trace.ops if op.kind == "op"]
    assert names[:2] == ["x_1", "x_2"]
    assert names.count("logits") == 1
    assert names[-1] == "y"
    assert not any(name.startswith(("logits_", "y_")) for name in names)


def test_what_a_rule_hands_to_an_input_no_tape_follows_does_not_flow():
    trace = cgviz.trace(lambda x: x * tf.constant(5.0), 2.0)
    assert trace.steps[0].downstream == (5.0, None)


def test_a_source_line_is_where_the_learner_wrote_the_op():
    def f(x):
        return tf.nn.relu(x)

    op = cgviz.trace(f, 1.0).steps[0].op
    assert op.source.text == "return tf.nn.relu(x)"
    assert op.source.file == __file__


def test_a_custom_op_is_one_node_with_its_body_and_the_line_of_its_rule():
    trace = cgviz.trace(square, 3.0)
    op = trace.steps[0].op
    assert (op.kind, op.type, [b.type for b in op.body]) == ("custom", "square", ["Mul"])
    assert op.rule.text == "def grad(dy):"
    assert [o.kind for o in trace.ops] == ["input", "custom"]


def test_custom_ops_nest_and_keep_their_bodies():
    @tf.custom_gradient
    def outer(x):
        return square(x) + 1.0, lambda dy: 5.0 * dy

    trace = cgviz.trace(outer, 3.0)
    assert [s.op.type for s in trace.steps] == ["outer"]
    assert [b.type for b in trace.steps[0].op.body if b.kind != "constant"] == ["square", "AddV2"]
    assert trace.gradients[0] == 5.0


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


def test_an_argument_given_twice_has_two_gradients():
    x = tf.constant(3.0)
    assert cgviz.trace(lambda a, b: a * a * b, x, x).gradients == (18.0, 9.0)


def test_nested_arguments_give_nested_gradients():
    def f(params, x):
        return params["w"] * x[0] + params["b"] * x[1]

    trace = cgviz.trace(f, {"w": 2.0, "b": 3.0}, (5.0, 7.0))
    assert trace.gradients == ({"w": 5.0, "b": 7.0}, (2.0, 3.0))
    assert [o.name for o in trace.ops[:4]] == ["params.w", "params.b", "x[0]", "x[1]"]


def test_variables_are_reported_by_name_also_when_c_reads_them():
    w = tf.Variable(2.0, name="w")
    v = tf.Variable(5.0, name="w")
    trace = cgviz.trace(lambda x: w * x * w + v * 2.0, 3.0)
    assert trace.variables == {"w": 12.0, "w_1": 2.0}
    kinds = {op.name: op.kind for op in trace.ops}
    assert (kinds["w"], kinds["w_1"]) == ("variable", "variable")
    assert "input_1" not in kinds


@pytest.mark.parametrize("value", [2.0, 3.0])
def test_a_constant_of_the_same_value_is_not_taken_for_the_variable(value):
    w = tf.Variable(2.0, name="w")
    x = tf.constant(value)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * w
            z = y * w
        tape.gradient(z, [x, w])
    assert [op.name for op in trace.ops] == ["w", "x", "y", "z"]
    kinds = [[trace.producer(v)[0].name for v in s.op.inputs] for s in trace.steps]
    assert kinds == [["y", "w"], ["x", "w"]]


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


def test_integer_tensors_are_taken_and_get_none():
    logits = tf.constant([[1.0, 2.0, 3.0]])
    labels = tf.constant([2])

    def loss(logits, labels):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    trace = cgviz.trace(loss, logits, labels)
    same(trace.gradients[0], tape_gradient(lambda x: loss(x, labels), logits)[1][0])
    assert trace.gradients[1] is None


# --- more of TensorFlow ----------------------------------------------------------------------


def test_second_and_third_order_have_one_pass_each():
    trace = cgviz.trace(lambda x: x**4, 2.0, order=3)
    assert [float(p.gradients[0]) for p in trace.passes] == [32.0, 48.0, 48.0]
    assert trace.gradients == (32.0,)
    edges_sum_to_upstream(trace)


def test_the_second_pass_runs_over_the_ops_of_the_first():
    trace = cgviz.trace(lambda x: tf.sin(x) * x, 1.0, order=2)
    ran = {op.name for op in trace.passes[0].ops}
    seen = {s.op.name for s in trace.passes[1].steps}
    assert ran & seen
    assert {op.name for op in trace.ops} & seen


def test_keys_are_unique_also_among_the_ops_of_a_pass_that_ran_unseen():
    trace = cgviz.trace(lambda x: tf.sin(x) * x, 1.0)
    made = [v.key for op in (*trace.ops, *trace.passes[0].ops) for v in op.outputs]
    assert len(set(made)) == len(made)
    assert trace.producer(trace.passes[0].ops[0].outputs[0])[0] is trace.passes[0].ops[0]


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


def test_a_persistent_tape_gives_several_passes():
    x = tf.constant(2.0)
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = y * x
        dy = tape.gradient(y, x)
        dz = tape.gradient(z, [x, y], output_gradients=tf.constant(10.0))
    assert [p.index for p in trace.passes] == [0, 1]
    same(trace.passes[0].gradients[0], dy)
    same(trace.passes[1].gradients[0], dz[0])
    same(trace.passes[1].gradients[1], dz[1])
    assert trace.passes[1].seeds[0] == 10.0
    assert trace.value == 4.0
    assert [o.name for o in trace.ops] == ["x", "y", "z"]


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


def test_sparse_gradients_are_read_dense():
    table = tf.Variable([[1.0], [2.0], [3.0]], name="table")
    trace = cgviz.trace(lambda s: tf.gather(table, [0, 2, 2]) * s, 2.0)
    np.testing.assert_array_equal(trace.variables["table"], [[2.0], [0.0], [4.0]])
    gather = next(s for s in trace.steps if s.op.type == "ResourceGather")
    np.testing.assert_array_equal(gather.downstream[0], [[2.0], [0.0], [4.0]])
    table.assign(table + 100.0)
    np.testing.assert_array_equal(gather.op.inputs[0].numpy(), [[1.0], [2.0], [3.0]])


def test_a_sparse_gradient_has_a_second_derivative():
    trace = cgviz.trace(lambda x: tf.gather(x, [0, 0]) ** 3, [2.0, 1.0], order=2)
    np.testing.assert_array_equal(trace.passes[0].gradients[0], [24.0, 0.0])
    np.testing.assert_array_equal(trace.passes[1].gradients[0], [24.0, 0.0])


def test_a_tf_function_is_opened_or_kept_one_op():
    @tf.function
    def f(x):
        y = tf.sin(x)
        return y * x

    opened = cgviz.trace(f, 2.0)
    assert [s.op.type for s in opened.steps] == ["Mul", "Sin"]
    closed = cgviz.trace(f, 2.0, open_functions=False)
    assert [(s.op.type, s.op.name) for s in closed.steps] == [("tf.function", "f")]
    assert closed.gradients == opened.gradients


def test_a_tf_function_inside_another_is_opened_too_and_autograph_is_not_missed():
    @tf.function
    def inner(x):
        if tf.reduce_sum(x) > 0:
            return x * x
        return x

    @tf.function
    def outer(x):
        for _ in tf.range(2):
            x = inner(x)
        return x

    trace = cgviz.trace(outer, 2.0)
    assert trace.value == 16.0
    assert trace.gradients[0] == 32.0
    assert [s.op.type for s in trace.steps] == ["Mul", "Mul"]


def test_jacobian_inside_a_recording_is_unharmed():
    x = tf.constant([1.0, 2.0])
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = square(x) * x
        jacobian = tape.jacobian(y, x)
        tape.gradient(y, x)
    np.testing.assert_allclose(jacobian, [[3.0, 0.0], [0.0, 12.0]])
    assert len(trace.passes) == 1


def test_recompute_grad_is_one_custom_op_whose_inner_tape_is_no_pass():
    trace = cgviz.trace(tf.recompute_grad(lambda x: tf.sin(x) * x), 2.0)
    assert len(trace.passes) == 1
    assert [s.op.kind for s in trace.steps] == ["custom"]


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


def test_only_watched_variables_get_a_gradient():
    w, v = tf.Variable(2.0, name="w"), tf.Variable(3.0, name="v")
    with cgviz.record() as trace:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(w)
            y = w * v
        tape.gradient(y, [w, v])
    assert trace.variables == {"w": 3.0, "v": None}


def test_stop_recording_leaves_ops_off_the_tape():
    x = tf.constant(2.0)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tape.stop_recording():
                a = x * 3.0
            y = x * a
        gradient = tape.gradient(y, x)
    assert gradient == 6.0
    assert {op.name: op.recorded for op in trace.ops if op.kind == "op"} == {"a": False, "y": True}


def test_forward_accumulators_beside_a_recording_keep_their_numbers():
    x = tf.constant(2.0)

    def jvp():
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = square(x) * tf.sin(x)
            g = tape.gradient(y, x)
        return acc.jvp(y), acc.jvp(g), g

    plain = jvp()
    with cgviz.record():
        recorded = jvp()
    assert [float(t) for t in plain] == [float(t) for t in recorded]


def test_a_rule_called_by_keyword_is_dropped_and_the_trace_shows_the_body():
    trace = cgviz.trace(lambda x: square(x=x), 3.0)
    assert trace.gradients[0] == 6.0
    assert [(s.op.type, s.op.name) for s in trace.steps] == [("Identity", "square"), ("Mul", "Mul")]
    assert [s.op.rule_dropped for s in trace.steps] == [True, False]
    assert trace.steps[0].op.rule.text == "def grad(dy):"


def test_a_tensor_captured_by_closure_is_known_to_get_no_gradient():
    def f(x, k):
        @tf.custom_gradient
        def scaled(x):
            return x * k, lambda dy: dy * k

        return scaled(x)

    trace = cgviz.trace(f, 2.0, 5.0)
    op = trace.steps[0].op
    assert trace.gradients == (5.0, None)
    assert [trace.producer(v)[0].name for v in op.captured] == ["k"]


def test_the_rule_of_a_custom_op_names_the_variables_it_was_handed():
    w = tf.Variable([1.0, 1.0], name="weights")

    @tf.custom_gradient
    def line(x):
        def grad(dy, variables=None):
            return dy * w[1], [tf.stack([tf.reduce_sum(dy), tf.reduce_sum(dy * x)])]

        return w[1] * x + w[0], grad

    trace = cgviz.trace(line, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(trace.value, [2, 3, 4])
    np.testing.assert_array_equal(trace.variables["weights"], [3, 6])
    assert trace.steps[0].op.rule_variables == ("weights",)
    assert len(trace.steps[0].op.inputs) == 2


# --- recordings beside and inside each other -------------------------------------------------


def test_a_recording_inside_a_recording_sees_its_part_and_hides_nothing():
    with cgviz.record() as outer:
        first = cgviz.trace(square, 2.0)
        with cgviz.record() as inner:
            second = cgviz.trace(square, 3.0)
    assert first.gradients[0] == 4.0
    assert second.gradients[0] == 6.0
    assert len(inner.passes) == 1
    assert [float(p.gradients[0]) for p in outer.passes] == [4.0, 6.0]


def test_ops_made_before_an_inner_recording_are_known_to_it():
    x = tf.constant(3.0)
    with cgviz.record():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        with cgviz.record() as inner:
            tape.gradient(y, x)
    assert rows(inner) == [("y", 1.0, 3.0)]


def test_two_threads_record_at_once_and_a_third_is_not_recorded():
    traces, started = {}, threading.Barrier(3)

    def work(n):
        started.wait()
        for _ in range(5):
            if n == 2:
                _, (g,) = tape_gradient(lambda x: square(x) * x, tf.constant(float(n)))
                traces[n] = float(g)
            else:
                traces[n] = cgviz.trace(lambda x: square(x) * tf.reshape(x, [1]), float(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert traces[2] == 12.0
    for n in (0, 1):
        assert traces[n].gradients[0] == 3.0 * n**2
        assert len(traces[n].steps) == 3


def test_a_trace_holds_tensors_by_reference():
    x = tf.ones((1000, 1000))
    trace = cgviz.trace(lambda x: x * 2.0, x)
    assert trace.ops[0].outputs[0].reference is x


def test_a_variable_that_is_assigned_is_another_value_afterwards():
    w = tf.Variable(2.0, name="w")

    def f(x):
        y = w * x
        w.assign(5.0)
        return y + w * x

    trace = cgviz.trace(f, 3.0)
    assert trace.value == 21.0
    assert trace.variables == {"w": 6.0}
    w_op = next(op for op in trace.ops if op.kind == "variable")
    assert [float(v.numpy()) for v in w_op.outputs] == [2.0, 5.0]
    assert [float(trace.passes[0].upstream(v)) for v in w_op.outputs] == [3.0, 3.0]


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


def test_a_thousand_traces_in_a_row_leave_nothing():
    def count():
        gc.collect()
        return sum(
            type(o).__name__ in ("EagerTensor", "OpEvent", "Trace") for o in gc.get_objects()
        )

    for _ in range(10):
        cgviz.trace(square, 2.0, order=2)
    before = count()
    for _ in range(1000):
        assert cgviz.trace(square, 2.0).gradients[0] == 4.0
    assert count() <= before + 5


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((3.0, 2.0), TypeError, "`f` must be a function"),
        ((square,), ValueError, "at least one argument"),
        ((square, "2"), TypeError, "`x` is the string '2'"),
        ((square, None), TypeError, "`x` is None"),
        ((square, square), TypeError, "Close over it"),
        ((square, 2), ValueError, "Write `2.` instead"),
        ((square, [1, 2]), ValueError, "made of integers"),
        ((square, np.array([1, 2])), ValueError, "no floating-point numbers"),
        ((square, True), ValueError, "made of integers"),
        ((square, [[1.0], [1.0, 2.0]]), TypeError, "rows differ in length"),
        ((square, tf.ragged.constant([[1.0], []])), TypeError, "RaggedTensor"),
        ((lambda x: None, 1.0), TypeError, "returned None"),
        ((lambda x: 3.0, 1.0), TypeError, "must return a tensor"),
        ((lambda x: x.numpy() * 2, 1.0), TypeError, "must return a tensor"),
        ((lambda x: (), 1.0), TypeError, "empty tuple"),
    ],
)
def test_a_mistake_is_named_in_a_sentence(arguments, error, words):
    with pytest.raises(error, match=words):
        cgviz.trace(*arguments)


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "2"])
def test_a_wrong_order_is_named(order):
    with pytest.raises(ValueError, match="`order` must be"):
        cgviz.trace(square, 1.0, order=order)


def test_a_wrong_upstream_is_named():
    with pytest.raises(ValueError, match=r"`upstream` has shape \(2,\)"):
        cgviz.trace(square, 1.0, upstream=[1.0, 2.0])
    with pytest.raises(ValueError, match="`upstream` has 1 entries"):
        cgviz.trace(lambda x: (x, x), 1.0, upstream=(1.0,))


def test_an_integer_target_has_no_gradient_and_raises_nothing():
    trace = cgviz.trace(tf.argmax, [1.0, 3.0])
    assert trace.value == 1
    assert trace.gradients[0] is None


def test_recording_inside_a_graph_says_where_to_start_instead():
    @tf.function
    def f(x):
        with cgviz.record():
            return x

    with pytest.raises(RuntimeError, match=r"outside of `tf\.function`"):
        f(tf.constant(1.0))


def test_a_trace_that_is_still_recording_says_so():
    with cgviz.record() as trace, pytest.raises(RuntimeError, match="still open"):
        _ = trace.ops


def test_local_of_a_rule_that_can_run_once_only_is_a_clear_error():
    @tf.custom_gradient
    def once(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return y, lambda dy: dy * tape.gradient(y, x)

    trace = cgviz.trace(once, 3.0)
    assert trace.gradients[0] == 6.0
    with pytest.raises(RuntimeError, match="runs the backward rule of `once` again"):
        _ = trace.steps[0].local
