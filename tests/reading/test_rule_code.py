"""The code of a backward rule, with the numbers of one step under its names."""

import re

import numpy as np
import tensorflow as tf

import cgviz
from cgviz.reading.table import rule_lines


@tf.custom_gradient
def log1pexp(x):
    e = tf.exp(x)

    def grad(upstream):
        share = e / (1 + e)
        local = share
        return upstream * local

    return tf.math.log(1 + e), grad


def noted(f, *args, step=0):
    """The names and numbers under each line that has some."""
    steps = [each for each in cgviz.trace(f, *args).steps if each.op.kind == "custom"]
    lines = ((text.strip(), numbers) for text, numbers in rule_lines(steps[step]) if numbers)
    return {
        text: dict(re.split(" = |(?<=returns) ", each) for each in numbers)
        for text, numbers in lines
    }


def test_each_line_has_the_numbers_of_its_names():
    e = np.exp(1.5)
    lines = noted(lambda x: 3.0 * log1pexp(x), 1.5)
    assert lines["def grad(upstream):"] == {"upstream": "3"}
    share = f"{e / (1 + e):.4f}"
    assert lines["share = e / (1 + e)"] == {"share": share, "e": f"{e:.3f}"}
    assert lines["local = share"] == {"share": share}
    assert lines["return upstream * local"] == {
        "upstream": "3",
        "returns": f"{3 * e / (1 + e):.3f}",
    }


def test_two_runs_of_one_rule_have_each_their_own_numbers():
    def f(x):
        return log1pexp(2.0 * log1pexp(x))

    last, first = (noted(f, 1.5, step=k)["def grad(upstream):"] for k in (0, 1))
    assert last == {"upstream": "1"}
    y = np.log1p(np.exp(1.5))
    assert first == {"upstream": f"{2 / (1 + np.exp(-2 * y)):.3f}"}


def test_of_a_name_that_is_assigned_twice_or_in_a_loop_nothing_is_said():
    @tf.custom_gradient
    def powers(x):
        def grad(upstream):
            total = upstream * 0.0
            total = total + x
            for _ in range(2):
                part = upstream * x
            return total + part

        return x * x, grad

    lines = noted(powers, 3.0)
    assert not {"total", "part"} & {name for names in lines.values() for name in names}
    assert lines["part = upstream * x"] == {"upstream": "1", "x": "3"}


def test_a_part_of_what_is_assigned_is_not_taken_for_the_whole():
    def halved(x):
        return x.numpy() / 2

    @tf.custom_gradient
    def wrong(x):
        def grad(upstream):
            half = halved(upstream * 3.0)
            return half

        return x * x, grad

    lines = noted(wrong, 3.0)
    assert "half" not in lines["half = halved(upstream * 3.0)"]


def test_what_a_branch_would_have_assigned_is_not_told():
    @tf.custom_gradient
    def branch(x):
        def grad(upstream):
            slope = x * 2.0
            if x < 0:
                slope = x * 7.0
            other = x * 1.0 if x < 0 else x * 5.0
            return upstream * slope * other

        return x * x, grad

    lines = noted(branch, 3.0)
    assert "slope" not in {name for names in lines.values() for name in names}
    assert lines["other = x * 1.0 if x < 0 else x * 5.0"].get("other") in (None, "15")


def test_numbers_of_the_closure_are_told_whatever_made_them():
    @tf.custom_gradient
    def scaled(x):
        count, table = 3, np.array([1.0, 2.0], np.float32)

        def grad(*upstream):
            return upstream[0] * count * table[1]

        return x * count, grad

    lines = noted(scaled, 2.0)
    assert lines["def grad(*upstream):"] == {"upstream": "1"}
    assert lines["return upstream[0] * count * table[1]"] == {
        "upstream": "1",
        "count": "3",
        "table": "[1, 2]",
        "returns": "6",
    }


def test_all_upstreams_are_those_of_the_star_beside_variables_as_well():
    w = tf.Variable(3.0)

    @tf.custom_gradient
    def scaled(x):
        def grad(*upstream, variables=None):
            return upstream[0] * w, [upstream[0] * x]

        return w * x, grad

    lines = noted(lambda x: 5.0 * scaled(x), 2.0)
    assert lines["def grad(*upstream, variables=None):"] == {"upstream": "5"}


def test_the_upstreams_that_have_no_name_of_their_own_are_those_of_the_star():
    @tf.custom_gradient
    def three(x):
        def grad(first, *rest):
            return first + 2.0 * rest[0] + 3.0 * rest[1]

        return (x, 2.0 * x, 3.0 * x), grad

    def f(x):
        a, b, c = three(x)
        return a + 10.0 * b + 100.0 * c

    lines = noted(f, 2.0)
    assert lines["def grad(first, *rest):"] == {"first": "1", "rest": "10, 100"}


def test_the_rule_of_an_object_has_its_upstream_and_the_object_no_number():
    class Doubled:
        def rule(self, upstream):
            return 2.0 * upstream

    f = tf.custom_gradient(lambda x: (2.0 * x, Doubled().rule))
    assert noted(lambda x: 3.0 * f(x), 1.0)["def rule(self, upstream):"] == {"upstream": "3"}


def test_a_rule_without_a_body_of_its_own_is_shown_without_numbers():
    def f(x):
        return tf.custom_gradient(lambda x: (x * x, lambda upstream: upstream * 2.0))(x)

    (step,) = cgviz.trace(f, 3.0).steps
    assert all(not names for _, names in rule_lines(step))


def test_a_loaded_trace_has_the_code_and_its_numbers(tmp_path):
    trace = cgviz.trace(log1pexp, 1.5)
    trace.save(tmp_path / "trace.json")
    loaded = cgviz.load(tmp_path / "trace.json")
    assert rule_lines(loaded.steps[0]) == rule_lines(trace.steps[0])


def test_a_number_of_the_closure_that_changed_after_the_pass_is_left_out():
    def train():
        factor = 0.5

        @tf.custom_gradient
        def reverse(x):
            def grad(u):
                return -factor * u

            return tf.identity(x), grad

        w = tf.Variable(2.0, name="w")
        with cgviz.record() as trace:
            for _ in range(2):
                with tf.GradientTape() as tape:
                    loss = reverse(w) ** 2
                tape.gradient(loss, w)
                factor *= 2
        return trace

    trace = train()
    (step,) = (s for s in trace.passes[0].steps if s.op.kind == "custom")
    notes = [note for _, numbers in rule_lines(step) for note in numbers]
    assert notes == ["u = 4", "u = 4", "returns −2"]  # in the first line, and where it is used


def test_names_and_returns_of_inner_functions_are_not_those_of_the_rule():
    @tf.custom_gradient
    def halved(x):
        def grad(upstream):
            half = lambda x: x / 2.0  # noqa: E731

            def helper(t):
                return t

            return helper(half(upstream))

        return x * x, grad

    (step,) = cgviz.trace(halved, 4.0, upstream=10.0).steps
    notes = [note for _, numbers in rule_lines(step) for note in numbers]
    assert notes == ["upstream = 10", "upstream = 10", "returns 5"]
