"""What an error tells of itself: its types, its words, and the frames it came through."""

import re
import time

import pytest
import tensorflow as tf
from mistakes import (
    ONE,
    gradient,
    in_a_graph,
    library_error,
    raised,
    with_a_rule_of_two_arguments,
    without_a_rule,
)

from cgviz.hinting import hints

CUSTOM, TAPE = "ops/custom_gradient.py", "eager/imperative_grad.py"


def came(way, error):
    """Whether an error came by one of the ways that the hints know."""
    return re.search(way, hints.way(error)) is not None


# --- what it is and where it came from ---------------------------------------------------------


def test_an_error_is_known_by_any_of_its_classes():
    class OwnError(RuntimeError):
        pass

    words = "tf.gradients is not supported when eager execution is enabled."
    assert hints.explain(OwnError(words)) is not None
    assert hints.explain(ValueError(words)) is None


def test_colours_are_no_part_of_the_words():
    assert hints.explain(ValueError("No \x1b[1mgradients\x1b[0m provided for any variable"))


def test_a_file_of_a_library_is_known_by_its_end_and_the_function():
    error = library_error(ValueError("no"), (CUSTOM, "actual_grad_fn"), ("ops/cond_v2.py", "run"))
    assert came(hints.IN_BACKWARD, error)
    assert came(hints.IN_COND, error)
    other = library_error(ValueError("no"), (CUSTOM, "decorated"), (TAPE[:-3], "run"))
    assert not came(hints.IN_BACKWARD, other)
    assert not came(hints.IN_COND, other)


def test_a_learners_file_of_the_same_name_is_not_the_librarys():
    inside = {}
    exec(compile("def f(): raise ValueError('no')", "/home/me/custom_gradient.py", "exec"), inside)
    assert not came(hints.IN_CUSTOM_CALL, raised(inside["f"]))


@pytest.mark.parametrize(
    "file",
    [
        "C:\\Lib\\site-packages\\tensorflow\\python\\ops\\cond_v2.py",
        "/lib/site-packages/tensorflow/python/ops/cond_v2.py",
    ],
)
def test_a_library_is_known_on_windows_too(file):
    inside = {}
    exec(compile("def apply(): raise ValueError('no')", file, "exec"), inside)
    assert came(hints.IN_COND, raised(inside["apply"]))


def test_an_error_raised_anew_still_knows_the_way_of_the_first():
    first = library_error(ValueError("no shape"), (CUSTOM, "decorated"))

    def anew():
        try:
            raise first
        except ValueError as error:
            raise TypeError(f"in user code: {error}") from None

    assert came(hints.IN_CUSTOM_CALL, raised(anew))


def test_an_error_after_another_one_does_not_take_its_way():
    first = library_error(ValueError("no shape"), (CUSTOM, "decorated"))

    def handled():
        try:
            raise first
        except ValueError:
            raise TypeError("something of its own") from None

    assert not came(hints.IN_CUSTOM_CALL, raised(handled))


def test_the_line_is_the_one_that_raised():
    def mine():
        raise ValueError("no")  # tape.gradient(y, x)

    assert came(hints.IN_BACKWARD, raised(mine))
    assert hints.way(library_error(ValueError("no"), (CUSTOM, "f"))).startswith("\n")


@pytest.mark.parametrize("error", [ValueError("caught by nobody"), Exception(), KeyError(3)])
def test_an_error_that_was_never_raised_has_no_way(error):
    assert hints.way(error) == ""


# --- what a hint may ask -----------------------------------------------------------------------


@tf.custom_gradient
def fails_in_the_rule(x):
    return x * 1.0, lambda dy: [][1]


@tf.custom_gradient
def fails_in_the_function(x):
    return [][1], lambda dy: dy


def run(inside, f):
    """What f raises, eager or inside a graph."""
    return raised(in_a_graph, f, ONE) if inside else raised(f, ONE)


def backward(inside, f):
    """What the gradient of f raises."""
    return run(inside, lambda x: gradient(f, x))


@pytest.mark.parametrize("inside", [False, True])
def test_a_rule_that_is_called_wrongly_is_told_from_one_that_fails(inside):
    assert came(hints.BY_RULE_CALL, backward(inside, with_a_rule_of_two_arguments))
    assert not came(hints.BY_RULE_CALL, backward(inside, fails_in_the_rule))
    assert not came(hints.BY_RULE_CALL, backward(inside, fails_in_the_function))


@pytest.mark.parametrize("inside", [False, True])
def test_a_function_without_a_rule_is_told_from_one_that_fails(inside):
    assert came(hints.BY_FUNCTION_CALL, run(inside, without_a_rule))
    assert not came(hints.BY_FUNCTION_CALL, run(inside, fails_in_the_function))


@pytest.mark.parametrize("inside", [False, True])
def test_what_fails_in_a_backward_pass_is_told_from_what_fails_in_a_call(inside):
    rule, function = backward(inside, fails_in_the_rule), run(inside, fails_in_the_function)
    assert came(hints.IN_BACKWARD, rule)
    assert not came(hints.IN_CUSTOM_CALL, rule)
    assert came(hints.IN_CUSTOM_CALL, function)
    assert not came(hints.IN_BACKWARD, function)


def test_python_itself_between_tensorflow_and_the_error_is_nobodys_code():
    way = hints.way(library_error(ValueError("no"), (CUSTOM, "actual_grad_fn")))
    way += "\n/usr/lib/python3.12/contextlib.py:inner\nC:/Python312/Lib/inspect.py:signature"
    assert re.search(hints.BY_RULE_CALL, way)
    assert not re.search(hints.BY_RULE_CALL, way + "\n/home/me/lesson.py:grad")


def test_a_way_through_many_library_lines_is_read_at_once():
    way = "\n/lib/python3.12/site-packages/tensorflow/python/custom_gradient.py:actual_grad_fn"
    way += "\n/usr/lib/python3.12/site-packages/tensorflow/python/keras/lib/python/a.py:f" * 30
    assert re.search(hints.BY_RULE_CALL, way)
    before = time.process_time()
    assert not re.search(hints.BY_RULE_CALL, way + "\n/home/me/lesson.py:grad")
    assert time.process_time() - before < 1.0
