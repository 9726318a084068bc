"""The first op that made NaN or infinity, in the forward pass and in a backward pass.

Forward: from a target that is not finite back to the op whose inputs were finite. Infinite values
on the way that do no harm, as in a mask, are left alone. Backward: from a gradient that is not
finite towards the target, to the rule whose upstream was finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np

from .. import style
from ..dtypes import limits
from ..findings import Finding
from ..graph import Array, Op, Step, Value
from ..graph.jacobian import wide
from ..graph.names import INFIX
from ..lessons import STABILITY
from .pass_graph import (
    Case,
    Cause,
    Origin,
    PassGraph,
    Test,
    at,
    is_bad,
    listed,
    origins,
    walk,
)

Name = Callable[[Value], str]

# --- forward -----------------------------------------------------------------------------------


def forward(ops: Iterable[Op], ends: Iterable[Value], name: Name) -> list[Finding]:
    """Explain values that are not finite.

    Args:
        ops: The forward ops.
        ends: The values that should be finite, such as the targets.
        name: The learner's name of a value.

    Returns:
        One finding per op where NaN or infinity began.
    """
    makers = {v.key: op for op in ops for v in op.outputs}
    found: dict[Op, None] = {}
    for value in ends:
        for test in (has_nan, has_inf):
            if test(numbers(value)):
                found |= dict.fromkeys(map(_inside, _roots(value, makers, test)))
    return [_forward_finding(op, name) for op in found]


def _roots(value: Value, makers: dict[int, Op], test: Test) -> list[Op]:
    """The ops where what the test looks for began."""
    found: list[Op] = []

    def onward(here: Value) -> Iterable[Value]:
        op = makers.get(here.key)
        if op is None:
            return []
        before = [v for v in op.inputs + op.captured if test(numbers(v))]
        if not before:
            found.append(op)
            if test is has_nan:  # who made the infinity that became NaN
                for v in op.inputs:
                    found.extend(_roots(v, makers, has_inf) if has_inf(numbers(v)) else ())
        return before

    for _ in walk([value], onward):
        pass
    return found


def _inside(op: Op) -> Op:
    """The op of a custom gradient's body where it began, else the op itself."""
    for inner in op.body:
        if _is_bad(inner.outputs) and not _is_bad(inner.inputs):
            return _inside(inner)
    return op


def _is_bad(values: Iterable[Value]) -> bool:
    return any(is_bad(numbers(v)) for v in values)


def _forward_finding(op: Op, name: Name) -> Finding:
    case = ForwardCase(op)
    if op.kind in ("input", "variable", "constant"):
        message = f"`{op.name}` itself holds {case.sign}{entry(case.index)}."
        return Finding(case.what, message, "Look where its numbers come from.", STABILITY, op)
    because, hint, lesson = case.words(FORWARD)
    given = inputs_at(op, case.index, case.output, name)
    message = f"the first {case.sign} of the forward pass is made at {at(op)}{given}. {because}"
    return Finding(case.what, message.strip(), hint, lesson, op)


class NotFinite(Case):
    """An array that is not finite: what it holds, and where first."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.what = "nan" if has_nan(array) else "inf"
        bad = np.isnan(array) if self.what == "nan" else np.isinf(array)
        self.index = tuple(int(i) for i in np.argwhere(bad)[0])
        self.sign = "NaN" if self.what == "nan" else style.number(array[self.index])


class ForwardCase(NotFinite):
    """An op whose output is not finite, though its inputs are."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.output = next(v for v in op.outputs if is_bad(numbers(v)))
        super().__init__(numbers(self.output))
        self.x = [number_at(op, v, self.index, self.output) for v in op.inputs]
        self.dtype = self.output.dtype
        known = limits(self.dtype)
        self.largest, self.real = (known.largest, known.name) if known else (math.nan, "")
        exp = exp_limit(op.type, op.inputs[0].dtype) if op.inputs else None
        beyond = "Beyond ±" if op.type in BOTH_SIDES else "Above "
        self.limit = "" if exp is None else beyond + style.number(round(exp, 2), 5)

    @property
    def domain(self) -> str:
        """Which inputs the op is defined for, in words; "" for an op that takes all."""
        if self.op.type == "Pow" and self.what == "inf" and self.x[0] != 0:
            return ""
        return _DOMAINS.get(self.op.type, "")


_DOMAINS = {
    **{"Log": "above 0", "Log1p": "above −1", "Sqrt": "of 0 or more", "Rsqrt": "above 0"},
    **{"Acos": "from −1 to 1", "Asin": "from −1 to 1", "Acosh": "of 1 or more"},
    **{"Atanh": "between −1 and 1", "Erfinv": "between −1 and 1", "Ndtri": "between 0 and 1"},
    **dict.fromkeys(("Pow", "Lgamma", "Digamma", "Xlogy", "Xlog1py"), "of some values only"),
}
_DIVISIONS = ("RealDiv", "Div", "Reciprocal", "Inv", "Xdivy", "FloorDiv", "FloorMod")
FORWARD = {
    "exp": Cause(
        "{limit} it overflows in {dtype}.",
        "Rewrite it so that it needs no large exponent, for example with tf.nn.softplus, "
        "tf.nn.log_softmax or by subtracting the maximum.",
        STABILITY,
        lambda case: case.limit and case.x[0] is not None,
    ),
    "division": Cause(
        "It divides by 0.",
        "Make the divisor safe first, or use tf.math.divide_no_nan.",
        STABILITY,
        lambda case: case.op.type in _DIVISIONS and case.x[-1] == 0,
    ),
    "domain": Cause(
        "It is defined for inputs {domain}.",
        "Keep its input there. For logarithms there are tf.math.xlogy and tf.math.log_sigmoid.",
        STABILITY,
        lambda case: case.domain,
    ),
    "empty mean": Cause(
        "It is the mean of no numbers, 0 ÷ 0.",
        "Leave empty batches out.",
        STABILITY,
        lambda case: case.op.type == "Mean" and not case.op.inputs[0].size,
    ),
    "infinite input": Cause(
        "It makes NaN of ∞, as ∞ − ∞, 0 × ∞ and ∞ / ∞ do.",
        "Look at the infinity that came in.",
        STABILITY,
        lambda case: any(has_inf(numbers(v)) for v in case.op.inputs),
    ),
    "too large": Cause(
        "The result is beyond ±{largest}, the largest {real}.",
        "Scale the numbers, or compute in a wider type.",
        STABILITY,
        lambda case: not np.isnan(case.array[case.index]),
    ),
    "unknown": Cause("", "Keep its input where it is defined.", STABILITY),
}

# --- backward ----------------------------------------------------------------------------------


def backward(graph: PassGraph) -> list[Finding]:
    """Explain gradients that are not finite.

    Args:
        graph: The pass.

    Returns:
        One finding per rule that made NaN or infinity of a finite upstream.
    """
    told = _is_bad(graph.pass_.targets)  # then `forward` has said why
    cases: dict[object, BackwardCase] = {}  # a cause can cost a run of the rule
    groups: dict[object, tuple[Origin, BackwardCase | None, list[Value]]] = {}
    for value, origin in origins(graph, is_bad, any):
        step, key = origin.step, (origin.step, origin.position)
        if step is None:
            groups.setdefault(origin.value, (origin, None, []))[2].append(value)
            continue
        case = cases[key] = cases.get(key) or BackwardCase(graph, step, origin.position)
        if case.why == "forward pass" and told:
            continue
        # The ops of a branch that was not taken, often in one line, are one trouble.
        source = step.op.source if case.why == "tf.where" else None
        where = (source.file, source.line) if source else step.op
        groups.setdefault(where, (origin, case, []))[2].append(value)
    return [_backward_finding(graph, *each) for each in groups.values()]


def _backward_finding(
    graph: PassGraph, origin: Origin, case: BackwardCase | None, values: list[Value]
) -> Finding:
    head = f"the gradient of {listed(graph.name(v) for v in values)} is not finite"
    if case is None:
        gradients = [wide(g) for v, g in graph.gradients if v in values and g is not None]
        what = "nan" if any(map(has_nan, gradients)) else "inf"
        because, hint = "the upstream it started with is not.", "Start with a finite upstream."
        if origin.adds_up:
            name, dtype = graph.name(origin.value), origin.value.dtype
            because = f"what the uses of {name} return adds up to more than {dtype} holds."
            hint = BACKWARD["too large"].hint
        return graph.finding(what, (f"{head}: {because}", hint, STABILITY), None, values)
    given = inputs_at(case.op, case.index, case.input, graph.name)
    arrived = "" if case.upstream is None else f" and upstream {style.number(case.upstream)}"
    because, hint, lesson = BACKWARD[case.why].words(case)
    made = f"the first {case.sign} of the backward pass is made at {at(case.op)}{given}{arrived}"
    return graph.finding(case.what, (f"{head}: {made}. {because}", hint, lesson), case.op, values)


class BackwardCase(NotFinite):
    """A rule that made NaN or infinity of a finite upstream."""

    def __init__(self, graph: PassGraph, step: Step, j: int) -> None:
        self.graph, self.step, self.op = graph, step, step.op
        self.j, self.input = j, step.op.inputs[j]
        self.dtype = self.input.dtype
        super().__init__(wide(step.downstream[j]))
        self.upstream = self._upstream()

    def _upstream(self) -> complex | None:
        """The upstream at the entry, if there is just one."""
        for u in self.step.upstream:
            if u is not None and u.shape == self.input.shape and by_entry(self.op):
                return wide(u)[self.index].item()
            if u is not None and u.size == 1:
                return wide(u).reshape(-1)[0].item()
        return None

    @cached_property
    def why(self) -> str:
        """The name of its cause."""
        return self.cause(BACKWARD)

    @property
    def not_taken(self) -> bool:
        """Whether the zero that reached the step was returned by a tf.where further on."""

        def onward(value: Value) -> Iterator[Value]:
            for later, _, gradient in self.graph.contributions(value):
                if not wide(gradient).all():  # some zero came this way
                    yield from later.op.outputs

        parts = (p for v in walk(self.op.outputs, onward) for p in self.graph.contributions(v))
        for later, j, _ in parts:
            if later.op.type in ("SelectV2", "Select") and j > 0:
                chosen = np.asarray(later.op.inputs[0].numpy(), bool)
                if not (chosen if j == 1 else ~chosen).all():
                    return True
        return False

    @property
    def steep(self) -> bool:
        """Whether the derivative itself is infinite: a tiny upstream gives infinity too."""
        known = limits(self.dtype)
        size = math.sqrt(known.smallest) if known else 0.0  # no finite derivative is so large
        upstream = self.step.upstream
        tiny = [None if u is None else (np.sign(u) * size).astype(u.dtype) for u in upstream]
        try:
            again = self.step.vjp(tiny)[self.j]
        except RuntimeError:  # as of a trace that was read from a file
            return False
        return again is not None and has_inf(wide(again))


_OWN_RULE = (
    "Keep the input away from that point, or write a rule of its own with @tf.custom_gradient."
)
BACKWARD = {
    "tf.where": Cause(
        "tf.where did not take this branch and returned 0 to it, but 0 × ∞ is NaN, and it reaches "
        "the input all the same.",
        "Make the input safe first: `safe = tf.where(ok, x, 1.)`, compute with `safe`, then choose "
        "with tf.where.",
        STABILITY,
        lambda case: case.upstream == 0 and case.not_taken,
    ),
    "0 × ∞": Cause(
        "The derivative is infinite there, and 0 × ∞ is NaN.",
        "Write the stable rule.",
        STABILITY,
        lambda case: case.upstream == 0,
    ),
    "custom rule": Cause(
        "The rule itself made it.",
        "Rewrite the rule so that it stays finite here.",
        STABILITY,
        lambda case: case.op.kind == "custom",
    ),
    "forward pass": Cause(
        "The forward value is not finite there either.",
        "Mend the forward pass first.",
        STABILITY,
        lambda case: _is_bad(case.op.inputs + case.op.outputs),
    ),
    "infinite derivative": Cause(
        "Its derivative is infinite there.", _OWN_RULE, STABILITY, lambda case: case.steep
    ),
    "undefined": Cause(
        "Its derivative is not defined there.",
        _OWN_RULE,
        STABILITY,
        lambda case: case.what == "nan",
    ),
    "too large": Cause(
        "Upstream times its derivative is too large for {dtype}.",
        "Scale the loss down, or compute in a wider type.",
        STABILITY,
    ),
}

# --- single entries ----------------------------------------------------------------------------

# Ops that make each entry of one entry of every input. Of others, such as a matrix product, it
# would be wrong to say which numbers an entry came from, also where the shapes agree.
BY_ENTRY = frozenset(
    (
        *INFIX,
        *("Neg", "Abs", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Pow", "SquaredDifference"),
        *("Exp", "Expm1", "Log", "Log1p", "Xlogy", "Xlog1py", "Xdivy", "Lgamma", "Digamma"),
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Atan2", "Erf", "Erfc", "Erfinv", "Ndtri"),
        *("Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Sigmoid", "Softplus", "Softsign"),
        *("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Cast", "Select", "SelectV2"),
    )
)
# Ops that overflow where exp(input) is so many times the largest number of their type.
_EXP_LIKE = {"Exp": 1.0, "Expm1": 1.0, "Sinh": 2.0, "Cosh": 2.0}
BOTH_SIDES = frozenset(("Sinh", "Cosh"))  # these overflow below minus their limit too


def exp_limit(op_type: str, dtype: str) -> float | None:
    """The largest input for which an op like exp stays finite; None for other ops.

    >>> [round(exp_limit("Exp", d), 2) for d in ("float16", "float32", "float64")]
    [11.09, 88.72, 709.78]
    >>> exp_limit("Mul", "float32") is None
    True
    """
    known = limits(dtype)
    if known is None or op_type not in _EXP_LIKE:
        return None
    return math.log(known.largest) + math.log(_EXP_LIKE[op_type])


def numbers(value: Value) -> Array:
    """A value's numbers in double precision; none for integers."""
    return wide(value.numpy()) if value.differentiable else np.zeros(0)


def has_nan(a: Array) -> bool:
    """Whether there is a NaN."""
    return bool(np.isnan(a).any())


def has_inf(a: Array) -> bool:
    """Whether there is an infinity."""
    return bool(np.isinf(a).any())


def entry(index: tuple[int, ...]) -> str:
    """An index in words: " at entry [1, 0]", or "" for a scalar."""
    return f" at entry [{', '.join(map(str, index))}]" if index else ""


def by_entry(op: Op) -> bool:
    """Whether each entry comes of one entry of every input; taken for granted of custom ops."""
    return op.kind != "op" or op.type in BY_ENTRY


def number_at(op: Op, value: Value, index: tuple[int, ...], like: Value) -> complex | None:
    """The number of an op's input that belongs to an entry of `like`, if there is just one."""
    a = numbers(value)
    if a.size == 1:
        return a.reshape(-1)[0].item()
    if not by_entry(op):
        return None
    try:
        return np.broadcast_to(a, like.shape)[index].item()
    except ValueError:
        return None


def inputs_at(op: Op, index: tuple[int, ...], like: Value, name: Name) -> str:
    """An entry of `like` and its inputs: " at entry [1, 0] from `x` = 0 and `y` = 2"."""
    found = [(name(v), number_at(op, v, index, like)) for v in op.inputs]
    texts = [f"{who} = {style.number(number)}" for who, number in found if number is not None]
    return entry(index) + (f" from {' and '.join(texts)}" if texts else "")
