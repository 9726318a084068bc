"""The first rule that made NaN or infinity in a backward pass is named, with its numbers."""

import numpy as np
import pytest
import tensorflow as tf
from troubles import only

import cgviz


@tf.custom_gradient
def makes_nan(x):
    return x * 1.0, lambda dy: dy * (x - x) / (x - x)


BAD = {
    "log of 0 in the branch not taken": (
        lambda x: tf.where(x > 0.0, tf.math.log(x), 0.0),
        [0.0, 1.0],
        [("nan", "Log")],
        "tf.where did not take this branch",
    ),
    "sin(x)/x at 0": (
        lambda x: tf.where(x == 0.0, 1.0, tf.sin(x) / x),
        [0.0, 1.0],
        [("nan", "RealDiv")],
        "tf.where did not take this branch",
    ),
    "sqrt at 0": (tf.sqrt, [0.0, 1.0], [("inf", "Sqrt")], "1/(2√x) is infinite at 0"),
    "a norm at 0": (tf.norm, [0.0, 0.0], [("inf", "Sqrt")], "infinite at 0"),
    "a rule that makes NaN": (makes_nan, [2.0], [("nan", "makes_nan")], "rule itself"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_first_rule_that_is_not_finite_is_named_with_its_inputs(name):
    f, x, expected, message = BAD[name]
    diagnosis = cgviz.trace(f, x).diagnose()
    assert [(f.what, f.op.type) for f in diagnosis][: len(expected)] == expected
    assert any(message in finding.message for finding in diagnosis)


def test_an_entry_is_told_where_there_are_several():
    finding = only(cgviz.trace(tf.sqrt, [[1.0, 4.0], [0.0, 9.0]]))
    assert "entry [1, 0] from `x` = 0 and upstream 1" in finding.message


def test_an_infinite_upstream_is_named_as_such():
    finding = only(cgviz.trace(tf.sin, 1.0, upstream=np.inf))
    assert (finding.what, finding.op) == ("inf", None)
