"""What an error tells of itself: its types, its words, and the places it came through."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from mistakes import (
    ONE,
    gradient,
    in_a_graph,
    library_error,
    raised,
    with_a_rule_of_two_arguments,
    without_a_rule,
)

from cgviz.hinting import book
from cgviz.hinting.book import Clues

CUSTOM, TAPE = "ops/custom_gradient.py", "eager/imperative_grad.py"


def matched(pattern, text):
    """The clues of an error whose text an entry of the book has matched."""
    clues = Clues(ValueError(text))
    clues.groups = re.search(pattern, text).groups()
    return clues


# --- what it is and where it came from ---------------------------------------------------------


def test_the_types_are_all_the_classes_of_an_error():
    clues = Clues(raised(lambda: tf.matmul(tf.ones((2, 3)), tf.ones((2, 3)))))
    assert {"InvalidArgumentError", "OpError", "Exception"} <= clues.types


def test_colours_are_no_part_of_the_words():
    assert Clues(ValueError("\x1b[1mNo gradients\x1b[0m provided")).text == "No gradients provided"


def test_a_file_of_a_library_is_known_by_its_end_and_the_function():
    clues = Clues(library_error(ValueError("no"), (CUSTOM, "decorated"), (TAPE, "run")))
    assert clues.passed("custom_gradient.py")
    assert clues.passed("custom_gradient.py", "decorated")
    assert not clues.passed("custom_gradient.py", "run")
    assert not clues.passed("backprop.py")


def test_a_learners_file_of_the_same_name_is_not_the_librarys():
    inside = {}
    exec(compile("def f(): raise ValueError('no')", "/home/me/custom_gradient.py", "exec"), inside)
    assert not Clues(raised(inside["f"])).passed("custom_gradient.py")


@pytest.mark.parametrize(
    "file",
    [
        "C:\\Lib\\site-packages\\keras\\src\\optimizers\\base_optimizer.py",
        "/lib/site-packages/keras/src/optimizers/base_optimizer.py",
    ],
)
def test_a_library_is_known_on_windows_too(file):
    inside = {}
    exec(compile("def apply(): raise ValueError('no')", file, "exec"), inside)
    assert Clues(raised(inside["apply"])).passed("optimizer.py")


def test_an_error_raised_anew_still_knows_the_way_of_the_first():
    first = library_error(ValueError("no shape"), (CUSTOM, "decorated"))

    def anew():
        try:
            raise first
        except ValueError as error:
            raise TypeError(f"in user code: {error}") from None

    assert Clues(raised(anew)).passed("custom_gradient.py")


def test_an_error_after_another_one_does_not_take_its_way():
    first = library_error(ValueError("no shape"), (CUSTOM, "decorated"))

    def handled():
        try:
            raise first
        except ValueError:
            raise TypeError("something of its own") from None

    assert not Clues(raised(handled)).passed("custom_gradient.py")


def test_the_line_is_the_one_that_raised():
    def mine():
        raise ValueError("no")  # here

    assert Clues(raised(mine)).line.endswith("# here")
    assert Clues(library_error(ValueError("no"), (CUSTOM, "f"))).line == ""


@pytest.mark.parametrize("error", [ValueError("caught by nobody"), Exception(), KeyError(3)])
def test_an_error_that_was_never_raised_has_no_places_and_no_line(error):
    clues = Clues(error)
    assert (clues.places, clues.line, clues.called_by("custom_gradient.py")) == ([], "", "")


# --- what an entry may ask ---------------------------------------------------------------------


@tf.custom_gradient
def fails_in_the_rule(x):
    return x * 1.0, lambda dy: [][1]


@tf.custom_gradient
def fails_in_the_function(x):
    return [][1], lambda dy: dy


def run(inside, f):
    """The clues of what f raises, eager or inside a graph."""
    return Clues(raised(in_a_graph, f, ONE) if inside else raised(f, ONE))


def backward(inside, f):
    """The clues of what the gradient of f raises."""
    return run(inside, lambda x: gradient(f, x))


@pytest.mark.parametrize("inside", [False, True])
def test_a_rule_that_is_called_wrongly_is_told_from_one_that_fails(inside):
    assert book.by_rule_call(backward(inside, with_a_rule_of_two_arguments))
    assert not book.by_rule_call(backward(inside, fails_in_the_rule))
    assert not book.by_rule_call(backward(inside, fails_in_the_function))


@pytest.mark.parametrize("inside", [False, True])
def test_a_function_without_a_rule_is_told_from_one_that_fails(inside):
    assert book.by_function_call(run(inside, without_a_rule))
    assert not book.by_function_call(run(inside, fails_in_the_function))


@pytest.mark.parametrize("inside", [False, True])
def test_what_fails_in_a_backward_pass_is_told_from_what_fails_in_a_call(inside):
    rule, function = backward(inside, fails_in_the_rule), run(inside, fails_in_the_function)
    assert book.in_backward(rule)
    assert not book.in_custom_call(rule)
    assert book.in_custom_call(function)
    assert not book.in_backward(function)


def test_python_itself_between_tensorflow_and_the_error_is_nobodys_code():
    error = library_error(ValueError("no"), (CUSTOM, "actual_grad_fn"))
    clues = Clues(error)
    clues.places.append((False, "/usr/lib/python3.12/contextlib.py", "inner"))
    clues.places.append((False, "C:/Python312/Lib/inspect.py", "signature"))
    assert book.by_rule_call(clues)
    clues.places.append((False, "/home/me/lesson.py", "grad"))
    assert not book.by_rule_call(clues)


SHAPES = st.lists(st.integers(0, 4), max_size=4)


@given(SHAPES, SHAPES)
def test_a_shape_is_broadcast_where_numpy_would_make_it_the_larger_one(small, large):
    clues = matched(r"\[(.*)\] to \[(.*)\]", f"[{str(small)[1:-1]}] to [{str(large)[1:-1]}]")
    try:
        grows = list(np.broadcast_shapes(small, large)) == large != small
    except ValueError:
        grows = False
    assert book.is_broadcast(clues) == grows
