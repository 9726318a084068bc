"""check() tells right gradients from wrong ones, and names the rule that is broken."""

import gallery
import numpy as np
import pytest

import cgviz

# What a mistake may break besides: in a graph it shows once more, and so on.
FOLLOWS = {"upstream": {"value"}, "finite forward": {"finite gradient"}}


# Right gradients that are checked in float64 each time: with loops and random numbers, complex,
# large and tiny ones, sums that lose digits, inverses, and arguments that are no floats.
IN_DOUBLES = {
    *("newton root", "while loop", "fixed point", "dropout", "complex size", "complex square"),
    *("log", "root", "log1pexp", "inverse", "safe where", "nearly singular", "polynomial"),
    *("gather beside integers", "nested structures", "numpy both ways", "empty"),
    *("plain: a long sum", "plain: sum of large and small", "plain: sizes far apart"),
    *("plain: square at 1e-4", "plain: square at 1e4", "plain: sine at 1e4", "plain: eigenvalues"),
    *("plain: reciprocal near 0", "plain: arcsine near its end", "plain: softplus far out"),
    *("plain: sigmoid saturated", "plain: relu off its kink", "plain: relu just off its kink"),
}


def cases(listed, always=()):
    """Each case in each of its dtypes; all but the first are slow, if its name is not in always."""
    return [
        pytest.param(
            case,
            dtype,
            id=f"{case.name}-{np.dtype(dtype).name}",
            marks=[pytest.mark.slow] if n and case.name not in always else (),
        )
        for case in listed
        for n, dtype in enumerate(case.dtypes)
    ]


def test_the_gallery_is_large_enough():
    assert len({case.name for case in gallery.WRONG}) == len(gallery.WRONG) >= 60
    assert len({case.name for case in gallery.RIGHT}) == len(gallery.RIGHT) >= 60
    assert {case.name for case in gallery.RIGHT} >= IN_DOUBLES


# What is caught in float32 is caught in float64, where differences have more digits: it is slow.
@pytest.mark.parametrize(("case", "dtype"), cases(gallery.WRONG))
def test_a_wrong_gradient_is_caught_and_named(case, dtype):
    f, args = case.make(dtype)
    report = cgviz.check(f, *args, **case.how)
    errors = [finding.rule for finding in report.findings if finding.level == "error"]
    assert case.rule in errors, report
    assert set(errors) <= {case.rule, "graph"} | FOLLOWS.get(case.rule, set()), report


# For float32 the differences are taken in float64 as well, so that to check most cases in float64
# too says little more: that is slow.
@pytest.mark.parametrize(("case", "dtype"), cases(gallery.RIGHT, IN_DOUBLES))
def test_a_right_gradient_raises_no_alarm(case, dtype):
    f, args = case.make(dtype)
    report = cgviz.check(f, *args, order=2, **case.how)
    assert not report.findings, report
    value = next(row for row in report.rows if row.rule == "value")
    assert value.state == "pass", report


@pytest.mark.parametrize("make", gallery.SURROGATES)
def test_a_surrogate_is_no_error_and_its_bias_is_shown(make):
    f, args = make(np.float32)
    report = cgviz.check(f, *args, surrogate=True)
    report.assert_ok()
    bias = next(row for row in report.rows if row.rule == "surrogate")
    assert "bias" in bias.reason
