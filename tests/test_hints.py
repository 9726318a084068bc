"""A hint stands under the errors it knows, says the right thing, and stays away from all others."""

import importlib
import logging
import os
import subprocess
import sys
import traceback

import keras
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.hinting import hintbook, hints


def raised(call, *args):
    """The error that a call raises."""
    try:
        call(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def gradient(f, *args):
    """TensorFlow's own gradient of f."""
    with tf.GradientTape() as tape:
        tape.watch([a for a in args if isinstance(a, tf.Tensor)])
        y = f(*args)
    return tape.gradient(y, list(args))


def library_error(error, file, function="f"):
    """The error, raised from a file of TensorFlow's: what an older release would have raised."""
    code = compile(f"def {function}(error): raise error", f"/x/tensorflow/python/{file}", "exec")
    space = {}
    exec(code, space)
    return raised(space[function], error)


ONE = tf.constant(1.0)


class Scale(keras.layers.Layer):
    """A layer whose call hands its weight to a function by position."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def build(self, shape):
        self.w = self.add_weight(shape=(3,), initializer="ones", name="kernel")

    def call(self, x):
        return self.function(x, self.w)


def fit(layer):
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 3), np.float32), np.ones((4, 3), np.float32), verbose=0)


@tf.custom_gradient
def one_gradient_for_two(a, b):
    return a * b, lambda dy: dy * b


@tf.custom_gradient
def two_gradients_for_one(a):
    return a * 2.0, lambda dy: (dy, dy)


@tf.custom_gradient
def times(x, k):
    return x * k, lambda dy: (dy * k, tf.reduce_sum(dy * x, 0))


@tf.custom_gradient
def times_unreduced(x, k):
    return x * k, lambda dy: (dy * k, dy * x)


@tf.custom_gradient
def double_in_float64(x):
    return x * 2.0, lambda dy: tf.cast(dy, tf.float64) * 2.0


@tf.custom_gradient
def plain(x, k):
    return tf.identity(x), lambda dy: (dy, None)


def reads_a_variable():
    w = tf.Variable(2.0, name="w")

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy: dy * w

    gradient(f, ONE)


def reads_a_variable_in_a_graph():
    w = tf.Variable(2.0, name="w")

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy: dy * w

    tf.function(lambda x: gradient(f, x))(ONE)


def mixed_precision():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        layer = Scale(times)
        with tf.GradientTape() as tape:
            y = layer(tf.ones((4, 3)))
        tape.gradient(y, layer.trainable_variables)
    except Exception as error:
        hints.add(error)  # while the policy is still on, as in a notebook
        raise
    finally:
        keras.mixed_precision.set_global_policy("float32")


def takes_variables_returns_one():
    w = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy, variables=None: dy * w

    gradient(f, ONE)


def returns_too_many_variable_gradients():
    w = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy, variables=None: (dy * w, [dy, dy])

    gradient(f, ONE)


def forgot_the_rule():
    tf.custom_gradient(lambda x: x * x)(ONE)


def returned_what_the_rule_returns():
    tf.custom_gradient(lambda x: (x * x, 2.0 * x))(tf.constant([1.0, 2.0]))


def a_rule_with_one_argument_for_two_outputs():
    gradient(tf.custom_gradient(lambda x: ((x, x * 2.0), lambda dy: dy)), ONE)


def a_rule_with_two_arguments_for_one_output():
    gradient(tf.custom_gradient(lambda x: (x * 2.0, lambda dy, dz: dy)), ONE)


def a_rule_that_lists_all_derivatives():
    gradient(tf.custom_gradient(lambda x: (x * 2.0, lambda dy: [dy] * 8)), tf.ones(4))


def jacobian_with_numpy_in_the_rule():
    @tf.custom_gradient
    def f(x):
        return x * x, lambda dy: tf.constant(2.0 * dy.numpy()) * x

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    tape.jacobian(y, x)


def second_order_of_none():
    with tf.GradientTape() as tape:
        g = None
    tape.gradient(g, ONE)


def by_keyword_in_a_graph():
    tf.function(lambda x: plain(x, k=2.0))(ONE)


def by_keyword_and_by_position():
    gradient(lambda x: plain(x, k=tf.constant(2.0)), ONE)


def unreduced_assign():
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = times_unreduced(tf.ones((4, 3)), v)
    v.assign_sub(tape.gradient(y, v))


def unreduced_optimizer():
    keras.optimizers.SGD().apply([tf.ones((4, 3))], [keras.Variable([1.0, 2.0, 3.0])])


def unreduced_optimizer_in_a_graph():
    v, optimizer = keras.Variable([1.0, 2.0, 3.0]), keras.optimizers.SGD()
    optimizer.build([v])
    tf.function(lambda: optimizer.apply([tf.ones((4, 3))], [v]))()


def twice_on_one_tape():
    with tf.GradientTape() as tape:
        tape.watch(ONE)
        y = ONE * ONE
    tape.gradient(y, ONE)
    tape.gradient(y, ONE)


def re_entered_tape():
    with tf.GradientTape() as tape, tape:
        pass


def variable_in_a_cond():
    w = tf.Variable(2.0, trainable=False)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy: dy * w

    tf.function(
        lambda x: gradient(lambda x: tf.cond(tf.constant(True), lambda: f(x), lambda: x), x)
    )(ONE)


def sparse_upstream():
    @tf.custom_gradient
    def f(x):
        return tf.identity(x), lambda dy: dy * 2.0

    gradient(lambda x: tf.gather(f(x), [0]), tf.ones((2, 2)))


def string_as_bool_in_a_graph():
    @tf.custom_gradient
    def f(x, mode):
        return (x if mode else 2.0 * x), lambda dy: (dy, None)

    tf.function(lambda x: f(x, True))(ONE)


def range_in_a_graph():
    @tf.custom_gradient
    def f(x, n):
        return sum(x for _ in range(n)), lambda dy: (dy, None)

    tf.function(lambda x: f(x, 3))(ONE)


def no_gradient_in_a_graph():
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2.0])
        tf.gradients(tf.math.bincount([0, 1], weights=x), x)


def numpy_in_a_graph():
    tf.function(lambda x: tf.constant(np.sin(x.numpy())))(ONE)


def numpy_function_in_a_graph():
    tf.function(lambda x: np.asarray(x))(ONE)


def numpy_in_a_layer():
    class Sine(keras.layers.Layer):
        def call(self, x):
            return tf.constant(np.sin(x.numpy()))

    keras.Sequential([keras.Input((3,)), Sine()])


REAL = {
    # pitfall: calls that raise it on the installed release, with words that its hint must hold
    "1 eager": (reads_a_variable, 1, "`w`"),
    "1 graph": (reads_a_variable_in_a_graph, 1, "variables=None"),
    "1 no pair": (takes_variables_returns_one, 1, "pair"),
    "2 eager": (lambda: gradient(one_gradient_for_two, ONE, ONE), 2, "2 positional arguments"),
    "2 too many": (lambda: gradient(two_gradients_for_one, ONE), 2, "returned 2 gradients"),
    "2 graph": (
        lambda: tf.function(lambda a: gradient(one_gradient_for_two, a, a))(ONE),
        2,
        "1 gradient too few",
    ),
    "2 outer tape": (
        lambda: gradient(tf.function(lambda a: one_gradient_for_two(a, a)), ONE),
        2,
        "wrong number",
    ),
    "2 fit": (lambda: fit(Scale(one_gradient_for_two)), 2, "too few"),
    "2 variables": (returns_too_many_variable_gradients, 2, "variables"),
    "2 no rule": (forgot_the_rule, 2, "return y, grad"),
    "2 no function": (returned_what_the_rule_returns, 2, "no brackets"),
    "4 fit": (lambda: fit(Scale(lambda x, w: tf.round(x * w))), 4, "None"),
    "4 optimizer": (lambda: keras.optimizers.SGD().apply([None], [keras.Variable(1.0)]), 4, "None"),
    "5 op": (
        no_gradient_in_a_graph,
        5,
        "DenseBincount",
    ),
    "6 graph": (by_keyword_in_a_graph, 6, "by position"),
    "6 mixed": (by_keyword_and_by_position, 6, "keyword"),
    "7 second order": (second_order_of_none, 7, "None already"),
    "7 jacobian": (jacobian_with_numpy_in_the_rule, 7, "jacobian"),
    "10 assign": (unreduced_assign, 10, "[4,3]"),
    "10 optimizer": (unreduced_optimizer, 10, "reduce_sum"),
    "10 graph": (unreduced_optimizer_in_a_graph, 10, "reduce_sum"),
    "11 outputs": (a_rule_with_one_argument_for_two_outputs, 11, "one upstream per output"),
    "11 upstreams": (a_rule_with_two_arguments_for_one_output, 11, "one upstream per output"),
    "11 jacobian": (a_rule_that_lists_all_derivatives, 11, "8 gradients"),
    "13 function": (lambda: tf.square(keras.Input((3,))), 13, "layer"),
    "13 custom": (lambda: plain(keras.Input((3,)), ONE), 13, "layer"),
    "16": (twice_on_one_tape, 16, "persistent"),
    "17": (lambda: tf.gradients(ONE, ONE), 17, "GradientTape"),
    "19 None": (lambda: plain(ONE, None), 19, "Close over"),
    "19 callable": (lambda: plain(ONE, tf.sin), 19, "Close over"),
    "19 None, graph": (lambda: tf.function(lambda x: plain(x, None))(ONE), 19, "Close over"),
    "19 callable, graph": (lambda: tf.function(lambda x: plain(x, tf.sin))(ONE), 19, "Close over"),
    "19 bool, graph": (string_as_bool_in_a_graph, 19, "became a tensor"),
    "19 range, graph": (range_in_a_graph, 19, "became a tensor"),
    "20": (numpy_in_a_graph, 20, "numpy_function"),
    "20 asarray": (numpy_function_in_a_graph, 20, "numpy_function"),
    "20 layer": (numpy_in_a_layer, 20, "numpy_function"),
    "21": (lambda: gradient(lambda x: double_in_float64(x * 3.0), ONE), 21, "double"),
    "21 sum": (lambda: gradient(lambda x: double_in_float64(x * 1.0) + x, ONE), 21, "cast"),
    "21 graph": (
        lambda: tf.function(lambda x: gradient(lambda x: double_in_float64(x * 3.0), x))(ONE),
        21,
        "float64",
    ),
    "22": (variable_in_a_cond, 22, "tf.cond"),
    "25": (sparse_upstream, 25, "convert_to_tensor"),
    "28": (re_entered_tape, 28, "one inside the other"),
}


@pytest.mark.parametrize("name", REAL)
def test_every_error_that_tensorflow_really_raises_gets_its_hint(name):
    call, pitfall, words = REAL[name]
    hint = hints.explain(raised(call))
    assert hint is not None
    assert pitfall in hint.pitfalls
    assert words in str(hint)
    assert hint.lesson in str(hint)


def test_mixed_precision_is_named_where_it_is_the_reason():
    (note,) = raised(mixed_precision).__notes__
    assert "mixed_float16" in note
    assert "kernel" in note


def test_a_saved_model_without_its_rules_is_explained_in_a_fresh_process(tmp_path):
    module = tf.Module()
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: dy * 2.0 * x))
    module.f = tf.function(square, input_signature=[tf.TensorSpec([], tf.float32)])
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(tmp_path), options=options)
    program = f"""
import tensorflow as tf
from cgviz.hinting import hints
f, x = tf.saved_model.load({str(tmp_path)!r}).f, tf.constant(3.0)
try:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    tape.gradient(y, x)
except LookupError as error:
    print(hints.explain(error).pitfalls, hints.explain(error).mend)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(cgviz.__file__))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "(12,) Save it with" in done.stdout


OLDER = {
    "If using @custom_gradient with a function that uses variables, then grad_fn must accept a "
    "'variables' keyword argument.": (1, TypeError),
    "custom_gradient function expected to return 2 gradients but returned 1 instead.": (
        2,
        ValueError,
    ),
    "No gradients provided for any variable: ['dense/kernel:0'].": (4, ValueError),
    "No gradient defined for operation'IdentityN' (op type: IdentityN). In": (12, LookupError),
    "gradient registry has no entry for: CustomGradient-3": (12, LookupError),
    "Cannot convert a symbolic Keras input/output to a numpy array. This": (13, TypeError),
    "GradientTape.gradient can only be called once on non-persistent tapes.": (16, RuntimeError),
    "'Tensor' object has no attribute 'numpy'": (20, AttributeError),
    "Tape is already recording.": (28, ValueError),
}


@pytest.mark.parametrize("words", OLDER)
def test_older_wordings_are_known_too(words):
    pitfall, kind = OLDER[words]
    assert pitfall in hints.explain(kind(words)).pitfalls


def test_older_wordings_that_need_a_place_are_known_from_there():
    old = AttributeError("Tensor.graph is meaningless when eager execution is enabled.")
    assert hints.explain(library_error(old, "ops/cond_v2.py")).pitfalls == (22,)
    old = TypeError("grad() takes 1 positional argument but 2 were given")
    from_rule = library_error(old, "ops/custom_gradient.py", "actual_grad_fn")
    assert hints.explain(from_rule).pitfalls == (11,)


def learners_graph():
    return tf.constant(1.0).graph


UNRELATED = {
    "another TypeError": lambda: len(3),
    "a function called wrongly": lambda: gradient(lambda x: hints.explain(x, x), ONE),
    "a helper called wrongly inside a rule": lambda: gradient(
        tf.custom_gradient(lambda x: (x * x, lambda dy: helper(dy, x))), ONE
    ),
    "unpacking wrongly inside a rule": lambda: gradient(
        tf.custom_gradient(lambda x: (x * x, lambda dy: unpack(dy))), ONE
    ),
    "two dtypes in a forward pass": lambda: ONE * tf.constant(1.0, tf.float64),
    "shapes that have nothing to do with broadcasting": lambda: tf.Variable(tf.ones(3)).assign_sub(
        tf.ones(4)
    ),
    "a value of another shape": lambda: tf.Variable(tf.ones(3)).assign(tf.ones((4, 3))),
    "matmul shapes": lambda: tf.matmul(tf.ones((2, 3)), tf.ones((2, 3))),
    "None as a tensor": lambda: tf.constant(None),
    "a function as a tensor": lambda: tf.constant(tf.sin),
    "a graph's bool": lambda: tf.function(lambda x: 1 if x else 2, autograph=False)(ONE),
    "a graph's range": lambda: tf.function(lambda n: range(n), autograph=False)(tf.constant(3)),
    "an eager tensor's graph": learners_graph,
    "another class without numpy": lambda: (3).numpy(),
    "a dict times a float": lambda: {} * 2.0,
    "a missing key": lambda: {}["gradient"],
    "a tape that does not record": lambda: tf.GradientTape().stop_recording().__enter__(),
    "a bad index": lambda: tf.ones(3)[5],
    "KeyboardInterrupt in words": lambda: int("gradient"),
}


def helper(x):
    return x


def unpack(x):
    one, two = x
    return one + two


@pytest.mark.parametrize("name", UNRELATED)
def test_an_error_that_only_looks_similar_gets_no_hint(name):
    assert hints.explain(raised(UNRELATED[name])) is None


LOOKALIKES = [
    TypeError("grad() takes 1 positional argument but 2 were given"),
    ValueError("None values not supported."),
    ValueError("not enough values to unpack (expected 2, got 1)"),
    RuntimeError("expected to return 2 gradients, but returned 1"),
    KeyError("No gradients provided for any variable"),
    LookupError("No gradient was defined"),
    AttributeError("Tensor.graph is undefined when eager execution is enabled."),
    ValueError(""),
    Exception(),
]


@pytest.mark.parametrize("error", LOOKALIKES, ids=lambda e: repr(e)[:40])
def test_words_alone_are_not_enough_where_others_use_them_too(error):
    assert hints.explain(error) is None


# --- the block ---------------------------------------------------------------------------------


def test_a_block_adds_one_note_and_changes_nothing_else():
    error = RuntimeError("tf.gradients is not supported when eager execution is enabled.")
    args = error.args
    with pytest.raises(RuntimeError) as caught, hints.hinting(), hints.hinting():
        raise error
    assert caught.value is error
    assert error.args is args
    assert len(error.__notes__) == 1
    assert [f.name for f in traceback.extract_tb(error.__traceback__)] == [
        "test_a_block_adds_one_note_and_changes_nothing_else"
    ]


def test_a_block_lets_an_interrupt_and_an_unknown_error_pass():
    with pytest.raises(KeyboardInterrupt) as caught, hints.hinting():
        raise KeyboardInterrupt
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(ZeroDivisionError) as caught, hints.hinting():
        1 / 0  # noqa: B018
    assert not hasattr(caught.value, "__notes__")


def test_an_error_whose_text_cannot_be_had_is_raised_as_it_is():
    class OddError(ValueError):
        def __str__(self):
            raise RuntimeError("no text")

    with pytest.raises(OddError), hints.hinting():
        raise OddError


@pytest.mark.parametrize("way", ["trace", "record"])
def test_errors_inside_trace_and_record_carry_their_hint(way):
    def run():
        if way == "trace":
            cgviz.trace(one_gradient_for_two, 1.0, 2.0)
        else:
            with cgviz.record():
                gradient(one_gradient_for_two, ONE, ONE)

    error = raised(run)
    assert type(error) is ValueError
    assert str(error).startswith("custom_gradient function expected")
    assert "one gradient per positional argument" in error.__notes__[0]


# --- in IPython --------------------------------------------------------------------------------


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    yield made
    cgviz.unload_ipython_extension(made)
    InteractiveShell.clear_instance()


SECOND_CALL = """
import tensorflow as tf
x = tf.constant(1.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = x * x
tape.gradient(y, x)
tape.gradient(y, x)
"""


def test_the_extension_shows_the_hint_once_and_leaves_the_error_as_it_was(shell, capsys):
    shell.run_line_magic("load_ext", "cgviz")
    result = shell.run_cell(SECOND_CALL)
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("this tape has given its gradient already") == 1
    assert type(result.error_in_exec) is RuntimeError
    assert "non-persistent" in result.error_in_exec.args[0]


def test_an_ipython_that_shows_no_notes_gets_the_hint_under_the_traceback(
    shell, capsys, monkeypatch
):
    monkeypatch.setattr(shell.InteractiveTB, "structured_traceback", lambda *a, **k: ["Error"])
    shell.run_line_magic("load_ext", "cgviz")
    shell.run_cell(SECOND_CALL)
    assert capsys.readouterr().out.count("this tape has given its gradient already") == 1


def test_unloading_restores_the_shell_and_the_logger(shell, capsys):
    logger = logging.getLogger("tensorflow")
    before = shell.custom_exceptions, shell.CustomTB, list(logger.filters)
    shell.run_line_magic("load_ext", "cgviz")
    assert shell.custom_exceptions != before[0]
    shell.run_line_magic("unload_ext", "cgviz")
    assert (shell.custom_exceptions, shell.CustomTB, logger.filters) == before
    shell.run_cell(SECOND_CALL)
    shown = capsys.readouterr()
    assert "cgviz" not in shown.out + shown.err


def test_loading_twice_is_loading_once(shell):
    before = shell.custom_exceptions
    cgviz.load_ipython_extension(shell)
    cgviz.load_ipython_extension(shell)
    cgviz.unload_ipython_extension(shell)
    assert shell.custom_exceptions == before
    cgviz.unload_ipython_extension(shell)


def test_another_extensions_handler_still_has_its_turn_and_survives(shell, capsys):
    seen = []
    shell.set_custom_exc(
        (RuntimeError,), lambda self, kind, error, tb, tb_offset=None: seen.append(error)
    )
    cgviz.load_ipython_extension(shell)
    shell.run_cell(SECOND_CALL)
    assert "given its gradient" in seen[0].__notes__[0]
    late = (ValueError,)
    shell.set_custom_exc(late, lambda self, kind, error, tb, tb_offset=None: None)
    cgviz.unload_ipython_extension(shell)
    assert shell.custom_exceptions == late


def test_syntax_errors_look_as_they_always_did(shell, capsys):
    shell.run_cell("1 +")
    before = capsys.readouterr()
    cgviz.load_ipython_extension(shell)
    shell.run_cell("1 +")
    assert capsys.readouterr() == before


def test_the_warning_about_a_watched_integer_gets_its_hint(shell, caplog):
    cgviz.load_ipython_extension(shell)
    with caplog.at_level("WARNING", "tensorflow"):
        logging.getLogger("tensorflow").warning(
            "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", tf.int32
        )
        logging.getLogger("tensorflow").warning("something else")
    assert "Write `2.` instead of `2`" in caplog.messages[0]
    assert caplog.messages[1] == "something else"


def test_a_real_kernel_shows_the_hint_under_the_normal_traceback():
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    cells = [nbformat.v4.new_code_cell(s) for s in ("%load_ext cgviz", SECOND_CALL, "1 / 0")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client.NotebookClient(notebook, allow_errors=True, kernel_name="python3").execute()
    (error,) = (o for o in notebook.cells[1].outputs if o.output_type == "error")
    assert error.ename == "RuntimeError"
    assert error.evalue.startswith("A non-persistent GradientTape")
    assert "this tape has given its gradient already" in "\n".join(error.traceback)
    assert "05_nested_gradients" in "\n".join(error.traceback)
    (other,) = (o for o in notebook.cells[2].outputs if o.output_type == "error")
    assert "cgviz" not in "\n".join(other.traceback)


def test_importing_cgviz_does_not_load_the_extension():
    fresh = importlib.reload(hintbook)
    assert fresh.BOOK
    assert not hints._loaded
