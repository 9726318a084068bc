"""Why a gradient is exactly zero: the op that made it so, or a sum that cancels.

A gradient counts as zero when every entry is. `CAUSES` are the records of what makes an op return
zero although its upstream is not; each looks at the numbers, and the first that they bear out is
told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..dtypes import limits
from ..findings import Finding
from ..graph import Array, Step, Value
from ..graph.jacobian import wide
from ..lessons import CHAIN, GRAPHS, KINKS, STABILITY, UPSTREAM
from .pass_graph import (
    Case,
    Cause,
    Origin,
    PassGraph,
    Words,
    at,
    is_bad,
    is_zero,
    listed,
    origins,
    shown,
    unlike,
)


def find(graph: PassGraph) -> list[Finding]:
    """Explain every gradient of a pass that is exactly zero.

    Args:
        graph: The pass. Passes over a backward pass are left alone: second derivatives of
            piecewise linear functions are zero and right.

    Returns:
        One finding per place where zero began, with all the sources behind it.
    """
    if not graph.first_order:
        return []
    known: dict[object, tuple[str, Words]] = {}  # a cause can cost a run of the rule
    groups: dict[object, tuple[Origin, str, Words, list[Value]]] = {}
    for value, origin in origins(graph, is_zero, all):
        key = (origin.step, origin.position) if origin.step else origin.value.key
        if key not in known:
            known[key] = _explained(graph, origin)
        group = groups.setdefault((origin.step, known[key]), (origin, *known[key], []))
        group[3].append(value)
    gradients = [g for _, g in graph.gradients if g is not None]
    learns = not all(is_zero(g) or is_bad(g) for g in gradients)
    return [_finding(graph, learns, *each) for each in groups.values()]


def _explained(graph: PassGraph, origin: Origin) -> tuple[str, Words]:
    """The name of the cause and its words."""
    if origin.step is not None:
        case = ZeroCase(origin.step, origin.position)
        because, hint, lesson = case.words(CAUSES)
        message = f"it became 0 at {at(origin.step.op)}. {because}"
        return case.cause(CAUSES), (message, hint, lesson)
    name = graph.name(origin.value)
    if origin.adds_up:
        message = f"the gradients that the uses of {name} return add up to 0."
        return "uses cancel", (message, CAUSES["cancels"].hint, CHAIN)
    message = f"the upstream that the backward pass started with at {name} is 0."
    hint = "Everything downstream is upstream times something. Start with another upstream."
    return "no upstream", (message, hint, UPSTREAM)


def _finding(
    graph: PassGraph, learns: bool, origin: Origin, cause: str, words: Words, values: list[Value]
) -> Finding:
    who = listed(graph.name(v) for v in values)
    several = len({graph.name(v) for v in values}) > 1
    head = f"the gradients of {who} are" if several else f"the gradient of {who} is"
    message = f"{head} exactly 0: {words[0]}"
    op = origin.step.op if origin.step else None
    found = graph.finding("zero", (message, *words[1:]), op, values)
    # A network in which one parameter has no effect, as a bias before a softmax, still learns.
    return replace(found, level="note") if cause == "cancels" and learns else found


class ZeroCase(Case):
    """A step that returns zero to its input j, with the numbers that its causes look at."""

    def __init__(self, step: Step, j: int) -> None:
        self.step, self.j, self.op = step, j, step.op
        self.type = "custom" if step.op.kind == "custom" else step.op.type
        self.inputs = [wide(v.numpy()) if v.differentiable else v.numpy() for v in step.op.inputs]
        self.x, self.last = self.inputs[j], self.inputs[-1]
        self.other = self.inputs[1 - j] if len(self.inputs) == 2 else self.last
        self.y = wide(step.op.outputs[0].numpy())
        self.dtype = step.op.inputs[j].dtype
        known = limits(self.dtype)
        self.smallest = known.smallest if known else 0.0
        arrived = [wide(u) for u in step.upstream if u is not None and wide(u).any()]
        self.upstream = arrived[0]
        self.largest = max(float(np.abs(u).max()) for u in arrived)

    @cached_property
    def cannot_run(self) -> str:
        """Why the rule cannot run again: "file", "once", or "" if it can."""
        try:
            self.step.vjp(self.step.upstream)
        except RuntimeError as error:
            return "once" if error.__cause__ else "file"
        return ""

    def returns(self, change: Callable[[Array], Array]) -> bool:
        """Whether the rule returns something to the input for a changed upstream."""
        upstream = self.step.upstream
        changed = [None if u is None else change(wide(u)).astype(u.dtype) for u in upstream]
        again = self.step.vjp(changed)[self.j]
        return again is not None and not is_zero(again)

    @property
    def range(self) -> str:
        """Where the derivative of an op is not 0, in words; "" if some input is there."""
        low, high = np.zeros(()), np.array(6.0 if self.type == "Relu6" else np.inf)
        within = (low < self.x) & (self.x < high)
        if self.type == "ClipByValue":
            low, high = self.inputs[1:]
            within = (low <= self.x) & (self.x <= high) | (self.j > 0)
        if within.any():
            return ""
        return "above 0" if self.type == "Relu" else f"between {shown(low)} and {shown(high)}"

    @property
    def wins(self) -> bool:
        """Whether the other branch of a maximum or minimum wins everywhere."""
        lost = self.x < self.other if self.type == "Maximum" else self.x > self.other
        return bool((lost | ((self.x == self.other) & (self.j == 1))).all())  # of equals the first

    @property
    def saturated(self) -> bool:
        """Whether the output is one of the values that the op nears at ±∞."""
        away = self.type == "Softmax" or self.x.all()  # tanh is 0 at 0, and steep
        return bool(away and np.isin(self.y, (-1.0, 0.0, 1.0, 2.0)).all())

    @property
    def not_chosen(self) -> bool:
        """Whether a tf.where chose the other branch everywhere."""
        return self.j > 0 and bool((np.asarray(self.inputs[0], bool) != (self.j == 1)).all())

    @property
    def formula(self) -> str:
        """The op's own derivative as a formula, for the ops that divide."""
        return _DIVIDES.get((self.type, self.j), ("",))[0]

    @property
    def derivative(self) -> float:
        """Its largest magnitude."""
        with np.errstate(all="ignore"):
            found = _DIVIDES[self.type, self.j][1](*self.inputs)
        return float(np.abs(found).max(initial=0))


_DIVIDES: dict[tuple[str, int], tuple[str, Callable[..., Array]]] = {
    ("Log", 0): ("1/x", lambda x: 1 / x),
    ("Reciprocal", 0): ("−1/x²", lambda x: 1 / x**2),
    ("RealDiv", 0): ("1/b", lambda a, b: 1 / b),
    ("RealDiv", 1): ("−a/b²", lambda a, b: a / b**2),
}


def _of(
    ops: str, also: Callable[[ZeroCase], object] = lambda case: True
) -> Callable[[ZeroCase], object]:
    return lambda case: case.type in ops.split() and also(case)


CAUSES = {
    "outside": Cause(
        "Its input is nowhere {range}: {x}.",
        "Nothing flows back there. Try another start, wider bounds, a smaller step, a leaky ReLU "
        "or a straight-through rule.",
        KINKS,
        _of("Relu Relu6 ClipByValue", lambda case: case.range),
    ),
    "abs at 0": Cause(
        "Its input is 0, where the slope jumps from −1 to 1. TensorFlow takes 0 there.",
        "Start beside the kink.",
        KINKS,
        _of("Abs", lambda case: not case.x.any()),
    ),
    "sign": Cause(
        "The derivative of the sign is 0 everywhere.",
        "Use a straight-through rule or a surrogate with @tf.custom_gradient.",
        KINKS,
        _of("Sign"),
    ),
    "other branch": Cause(
        "The bound, or other branch, wins everywhere: {x} against {other}.",
        "Only the branch that wins gets the gradient. Use wider bounds, or a straight-through "
        "rule.",
        KINKS,
        _of("Maximum Minimum", lambda case: case.wins),
    ),
    "tf.where": Cause(
        "The condition chose the other branch everywhere.",
        "Only the branch that is taken gets a gradient.",
        KINKS,
        _of("SelectV2 Select", lambda case: case.not_chosen),
    ),
    "saturated": Cause(
        "It is saturated: at {x} it gives {y}, flat to the last digit of {dtype}.",
        "Keep its input near 0: scale the input, or start with smaller weights.",
        STABILITY,
        _of("Sigmoid Tanh Erf Erfc Softmax", lambda case: case.saturated),
    ),
    "exp": Cause(
        "exp of {x} is too small for {dtype} and became 0.",
        "Work with the exponent itself, or subtract the maximum first.",
        STABILITY,
        _of("Exp", lambda case: is_zero(case.y)),
    ),
    "factor 0": Cause(
        "The other factor is 0.",
        "The derivative of a product is the other factor. Weights that all start at 0 learn "
        "nothing through a product.",
        CHAIN,
        _of("Mul MatMul BatchMatMulV2 BatchMatMulV3", lambda case: is_zero(case.other)),
    ),
    "huge divisor": Cause(
        "At {last} its derivative {formula} is {derivative}, below {smallest}, the smallest normal "
        "{dtype}.",
        "Rewrite the function so that no huge number is divided by, or write its stable rule.",
        STABILITY,
        lambda case: case.formula and 0 < case.derivative < case.smallest,
    ),
    "custom rule": Cause(
        "Its rule returned 0 for the upstream {upstream}.",
        "Look at what the rule multiplies upstream by.",
        UPSTREAM,
        _of("custom"),
    ),
    "py_function": Cause(
        "The function inside tf.py_function takes numbers out of TensorFlow, so the tape inside it "
        "follows nothing, and 0 is returned for it.",
        "Use TensorFlow's functions there, or give it a rule with @tf.custom_gradient.",
        GRAPHS,
        _of("EagerPyFunc"),
    ),
    # What is left is found by running TensorFlow's own rule for other upstreams.
    "from a file": Cause(
        "It returned 0 for the upstream {upstream}.",
        "Trace the function again to learn why: a file keeps numbers and no rules.",
        holds=lambda case: case.cannot_run == "file",
    ),
    "runs once": Cause(
        "It returned 0 for the upstream {upstream}, and its rule cannot run a second time.",
        "Look at what it multiplies upstream by.",
        holds=lambda case: case.cannot_run == "once",
    ),
    "underflow": Cause(
        "Upstream is {largest}, and the product is below {smallest}, the smallest normal {dtype}.",
        "Scale the loss up, or compute in float64 or with logarithms.",
        STABILITY,
        lambda case: case.largest < 1 and case.returns(lambda u: u / case.largest),
    ),
    "cancels": Cause(
        "Its derivative is not 0, but its products with the upstream {upstream} add up to 0.",
        "The function does not change in this direction, as the sum of a softmax does not. Look "
        "at the contributions in `trace.table()`.",
        CHAIN,
        lambda case: case.returns(lambda u: unlike(u) * (u != 0)),
    ),
    "upstream 0": Cause(
        "The upstream {upstream} is 0 at every entry where its derivative is not.",
        "Find what made that part of the upstream 0: an op between here and the target.",
        UPSTREAM,
        lambda case: case.returns(unlike),
    ),
    "flat": Cause(
        "Its derivative is 0 at the input {x}.",
        "Try another input: here the function is flat.",
    ),
}
