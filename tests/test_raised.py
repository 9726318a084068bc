"""TensorFlow's exceptions are told apart by the rule they are about."""

import pytest

from cgviz.checking.raised import explain, first_line

MESSAGES = [
    ("@tf.custom_gradient grad_fn must accept keyword argument 'variables'", "variables"),
    ("Must return gradient for each variable from @custom_gradient grad_fn.", "variables"),
    ("custom_gradient function expected to return 2 gradients, but returned 1", "arity"),
    ("Recorded operation 'f' returned too few gradients. Expected 3 but received 2", "arity"),
    ("decorator currently supports keywords arguments only when eager execution", "keywords"),
    ("unsupported operand type(s) for *: 'IndexedSlices' and 'float'", "upstream"),
    ("was expected to be a double tensor but is a float tensor", "dtype"),
    ("'SymbolicTensor' object has no attribute 'numpy'", "numpy"),
    ("Tensor.graph is undefined when eager execution is enabled.", "graph"),
    ("Incompatible shapes: [3] vs. [4]", "shape"),
    ("something else", "runs"),
]


@pytest.mark.parametrize(("message", "rule"), MESSAGES)
def test_a_message_is_about_a_rule(message, rule):
    found, hint = explain(ValueError(message), True)
    assert found == rule
    assert hint or rule in ("runs", "graph")


def test_shapes_that_do_not_fit_in_the_forward_part_are_no_rules_fault():
    assert explain(ValueError("Incompatible shapes: [3] vs. [4]"), False)[0] == "runs"


def test_a_long_message_becomes_one_line():
    assert first_line(KeyError()) == "KeyError"
    assert first_line(ValueError("first\nsecond")) == "ValueError: first"
    assert first_line(ValueError("in user code:\n\n  TypeError: this\n")) == "TypeError: this"
    assert len(first_line(ValueError("x" * 1000))) < 330
