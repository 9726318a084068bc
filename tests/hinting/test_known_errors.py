"""The book of hints knows the errors that it is about, and stays away from all others."""

import forked
import pytest
import tensorflow as tf
from mistakes import ONE, REAL, gradient, in_a_graph, mixed_precision, raised

from cgviz.hinting import hints


@pytest.mark.parametrize("name", REAL)
def test_every_error_that_tensorflow_really_raises_gets_its_hint(name):
    call, words = REAL[name]
    hint = hints.explain(raised(call))
    assert hint is not None
    assert words in str(hint)
    assert hint.lesson in str(hint)


def test_mixed_precision_is_named_where_it_is_the_reason():
    (note,) = raised(mixed_precision).__notes__
    assert "mixed_float16" in note


def test_a_loss_without_return_is_named_as_a_reason():
    def loss(w):
        w * w

    assert "forgot its `return`" in hints.explain(raised(lambda: gradient(loss, ONE))).what


def test_an_update_of_another_shape_is_not_called_a_gradient():
    mean = tf.Variable(tf.zeros(3))
    said = hints.explain(raised(lambda: mean.assign_add(tf.ones((8, 3)) - mean))).what
    assert said.startswith("what the variable is changed by has another shape")


def test_a_saved_model_without_its_rules_is_explained_in_a_fresh_process(tmp_path):
    module = tf.Module()
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: dy * 2.0 * x))
    module.f = tf.function(square, input_signature=[tf.TensorSpec([], tf.float32)])
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(tmp_path), options=options)
    program = tmp_path / "program.py"
    program.write_text(f"""
import tensorflow as tf
from cgviz.hinting import hints
f, x = tf.saved_model.load({str(tmp_path)!r}).f, tf.constant(3.0)
try:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    tape.gradient(y, x)
except LookupError as error:
    print(hints.explain(error).fix)
""")
    assert "Save it with" in forked.printed(program)


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
    "unpacking wrongly inside a rule in a graph": lambda: in_a_graph(
        lambda x: gradient(unpacks_in_its_rule(), x), ONE
    ),
    "unpacking wrongly inside a rule that a graph makes": lambda: in_a_graph(
        makes_a_rule_and_uses_it, ONE
    ),
    "two dtypes in a forward pass": lambda: ONE * tf.constant(1.0, tf.float64),
    "a value of another shape": lambda: tf.Variable(tf.ones(3)).assign(tf.ones((4, 3))),
    "matmul shapes": lambda: tf.matmul(tf.ones((2, 3)), tf.ones((2, 3))),
    "None as a tensor": lambda: tf.constant(None),
    "a function as a tensor": lambda: tf.constant(tf.sin),
    "a list without a dtype": lambda: [].dtype,
    "a graph's bool": lambda: tf.function(lambda x: 1 if x else 2, autograph=False)(ONE),
    "a graph's range": lambda: tf.function(lambda n: range(n), autograph=False)(tf.constant(3)),
    "an eager tensor's graph": learners_graph,
    "another class without numpy": lambda: (3).numpy(),
    "a dict times a float": lambda: {} * 2.0,
    "a function for a number": lambda: tf.tanh(learners_graph),
    "a missing key": lambda: {}["gradient"],
    "a tape that does not record": lambda: tf.GradientTape().stop_recording().__enter__(),
    "a bad index": lambda: tf.ones(3)[5],
    "KeyboardInterrupt in words": lambda: int("gradient"),
}


def helper(x):
    return x


def unpacks_in_its_rule():
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            one, two = dy
            return one + two

        return x * x, grad

    return f


def makes_a_rule_and_uses_it(x):
    return gradient(unpacks_in_its_rule(), x)


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


def test_a_list_as_the_values_of_indexed_slices_is_not_said_to_be_its_shape():
    error = raised(lambda: tf.IndexedSlices([1.0, 2.0], [0, 1]).dtype)
    assert "'list' object has no attribute 'dtype'" in str(error)
    assert hints.explain(error) is None
