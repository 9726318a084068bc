"""Gradients that are zero, NaN, infinite, vanishing or exploding: where that began, and why.

    zero, not_finite   of the gradients of a pass
    forward            of the values of the forward pass
    scale              vanishing and exploding gradients of a pass
    diverging          gradients that grow from step to step of a training

One walk serves the first three: `followed` leads from number to number, always to what
the number was made of, until it is in none of that. A gradient is followed from its source towards
the targets, to the step that made it or to a value whose gradients add up to it; a value of the
forward pass is followed back to the op whose inputs were in order. `ZERO`, `BACKWARD` and
`FORWARD` are the records of what can be the cause: the first that the numbers bear out is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Step, Trace, Value, ratio, wide
from ..graph.dtypes import BOTH_SIDES, exp_limit, limits
from ..graph.jacobian import tolerance
from ..graph.names import INFIX, value_name
from ..lessons import CHAIN, GRAPHS, KINKS, STABILITY, UPSTREAM
from .pass_graph import MOST_ORIGINS, Cause, PassGraph, Words, at, calls, line, listed, walk

# Calls that change variables, as an optimizer's step does.
UPDATES = r".+\.(assign|assign_add|assign_sub|apply|apply_gradients|minimize)"
Test = Callable[[Any], bool]
Spreads = Callable[[Iterable[bool]], bool]


class Case:
    """A trouble that is being explained: its attributes as the words of a cause name them."""

    causes: Sequence[Cause]
    type: str  # of the op

    def __getitem__(self, name: str) -> Any:
        found = getattr(self, name)
        if isinstance(found, np.ndarray):
            return shown(found)
        return style.number(found) if isinstance(found, float | complex) else found

    @cached_property
    def cause(self) -> Cause:
        """The first cause that holds."""
        about = (each for each in self.causes if not each.ops or self.type in each.ops.split())
        return next(each for each in about if each.when is None or each.when(self))

    @property
    def words(self) -> Words:
        """What that cause says."""
        return self.cause.words(self)


def shown(array: Any) -> str:
    """A few numbers in full, many by their range."""
    a = wide(array)
    if a.size <= 4 or a.dtype.kind == "c":
        return style.array(a, most=4)
    return f"{a.size} numbers from {style.number(a.min())} to {style.number(a.max())}"


# --- where it began ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """What a trouble can be in: a value, its gradient, or a part of the gradient."""

    value: Value
    array: Array = field(compare=False, repr=False)
    kind: str = "value"  # or "gradient", "seed", "returned"
    step: Step | None = None  # that returned this part of the gradient
    position: int = 0  # to which input of its op


def followed(
    made_of: Callable[[Number], list[Number]], test: Test, spreads: Spreads = any
) -> Callable[[Number], list[Number]]:
    """How a trouble is followed: from a number that has it to what it has it from.

    Args:
        made_of: What a number was made of.
        test: Whether an array has it.
        spreads: `all` if what is made has the trouble when all that it is made of has it, as zero;
            `any` if one is enough, as NaN.

    Returns:
        The parts of a number that have it too, the first one last; none where it began. The paths
        of many sources meet, so that each number is looked at once.
    """

    @cache
    def onward(here: Number) -> list[Number]:
        parts = made_of(here)
        spread = parts and spreads(test(part.array) for part in parts)
        return [part for part in reversed(parts) if test(part.array)] if spread else []

    return onward


def origins(start: Number, onward: Callable[[Number], list[Number]]) -> Iterator[Number]:
    """Where a trouble of a number began, followed by what `followed` returns."""
    return (here for here in walk([start], onward) if not onward(here))


def _parts(graph: PassGraph, number: Number) -> list[Number]:
    """What a number of a backward pass is made of."""
    if number.step is not None:
        pairs = zip(number.step.op.outputs, number.step.upstream, strict=True)
        return [Number(v, u, "gradient") for v, u in pairs if u is not None and u.size]
    if number.kind == "seed":
        return []
    value = number.value
    seed = graph.seeds.get(value.key)
    parts = [Number(value, g, "returned", s, j) for s, j, g in graph.contributions(value)]
    return [*parts, *([] if seed is None else [Number(value, seed, "seed")])]


def zero(graph: PassGraph) -> list[Finding]:
    """Explain every gradient of a pass that is exactly zero, all entries of it.

    Passes over a backward pass are left alone: second derivatives of piecewise linear functions
    are zero and right.
    """
    return _explained(graph, is_zero, all) if graph.first_order else []


def not_finite(graph: PassGraph) -> list[Finding]:
    """Explain gradients that are NaN or infinite, unless the values are too."""
    return _explained(graph, is_bad, any)


def _explained(graph: PassGraph, test: Test, spreads: Spreads) -> list[Finding]:
    """One finding per cause, with all the sources behind it."""
    onward = followed(partial(_parts, graph), test, spreads)
    case_of = cache(partial(GradientCase, graph, zero=test is is_zero))  # may run a rule
    groups: dict[object, tuple[GradientCase, list[Value]]] = {}
    for value, gradient in graph.gradients:
        if gradient is None or not test(gradient):
            continue
        start = Number(value, gradient, "gradient")
        for origin in islice(origins(start, onward), MOST_ORIGINS):
            case = case_of(origin)
            groups.setdefault((case.place, case.words), (case, []))[1].append(value)
    told = "forward pass" if _any_bad(graph.pass_.targets) else ""  # by `forward`
    return [case.finding(values) for case, values in groups.values() if case.cause.name != told]


# --- why a gradient is zero --------------------------------------------------------------------

_CANCELS = "The function does not change that way, as the sum of a softmax does not."
_BRANCHES = "Relu6 Maximum Minimum SelectV2 Select"
_FLATTEN = "Sigmoid Tanh Erf Erfc Softmax Exp"
_PRODUCTS = "Mul MatMul BatchMatMulV2 BatchMatMulV3"
ZERO = (
    Cause("started with 0", UPSTREAM, ops="seed").says(
        "the upstream that the backward pass started with at {name} is 0.",
        "Everything downstream is upstream times something. Start with another upstream.",
    ),
    Cause("uses cancel", CHAIN, ops="sum").says(
        "the gradients that the uses of {name} return add up to 0.", _CANCELS
    ),
    Cause("outside", KINKS, "Relu", lambda case: not (case.x > 0).any()).says(
        "Its input is nowhere above 0: {x}.",
        "Nothing flows back there. Try another start, a smaller step, or a leaky ReLU.",
    ),
    Cause("sign", KINKS, ops="Sign").says(
        "The derivative of the sign is 0 everywhere.",
        "Use a straight-through rule or a surrogate with @tf.custom_gradient.",
    ),
    Cause("branch", KINKS, _BRANCHES, lambda case: not case.flows_for(np.abs)).says(
        "Another branch or bound wins wherever upstream is not 0.",
        "Only what wins gets the gradient. Use wider bounds, or a straight-through rule.",
    ),
    Cause("saturated", STABILITY, _FLATTEN, lambda case: case.saturated).says(
        "It is saturated: at {x} it gives {y}, flat to the last digit of {dtype}.",
        "Keep its input near 0: scale the input, or start with smaller weights.",
    ),
    Cause("factor 0", CHAIN, _PRODUCTS, lambda case: is_zero(case.other)).says(
        "The other factor is 0.",
        "A product's derivative is the other factor: weights that all start at 0 learn nothing.",
    ),
    Cause("custom rule", UPSTREAM, ops="custom").says(
        "Its rule returned 0 for the upstream {upstream}.",
        "Look at what the rule multiplies upstream by.",
    ),
    Cause("py_function", GRAPHS, ops="EagerPyFunc").says(
        "tf.py_function takes numbers out of TensorFlow, so the tape inside it follows nothing.",
        "Use TensorFlow's functions there, or give it a rule with @tf.custom_gradient.",
    ),
    # These two are found by running TensorFlow's own rule for other upstreams.
    Cause("underflow", STABILITY, when=lambda c: c.flows_for(lambda u: u / c.largest)).says(
        "Upstream is {largest}, and the product is below {smallest}, the smallest normal {dtype}.",
        "Scale the loss up, or compute in float64 or with logarithms.",
    ),
    Cause("cancels", CHAIN, when=lambda c: c.flows_for(lambda u: unlike(u) * (u != 0))).says(
        "Its derivative is not 0, but its products with the upstream {upstream} add up to 0.",
        _CANCELS,
    ),
    Cause("flat").says(
        "It returned 0 for the upstream {upstream} at the input {x}.",
        "Try another input: the function may be flat here. Or upstream is 0 where it is not.",
    ),
)

# --- why a gradient is not finite --------------------------------------------------------------

_unstable = partial(Cause, lesson=STABILITY)
_SCALE_DOWN = "Scale the loss down, or compute in a wider type."
BACKWARD = (
    _unstable("started with it", ops="seed").says(
        "the upstream it started with is not.", "Start with a finite upstream."
    ),
    _unstable("uses add up", ops="sum").says(
        "what the uses of {name} return adds up to more than {dtype} holds.", _SCALE_DOWN
    ),
    _unstable("tf.where", when=lambda case: case.arrived == 0 and case.not_taken).says(
        "tf.where did not take this branch and returned 0 to it, but 0 × ∞ is NaN, and it reaches "
        "the input all the same.",
        "Make the input safe first: `safe = tf.where(ok, x, 1.)`, and compute with `safe`.",
    ),
    _unstable("0 × ∞", when=lambda case: case.arrived == 0).says(
        "The derivative is infinite there, and 0 × ∞ is NaN.", "Write the stable rule."
    ),
    _unstable("custom rule", ops="custom").says(
        "The rule itself made it.", "Rewrite the rule so that it stays finite here."
    ),
    _unstable("forward pass", when=lambda case: _any_bad(case.op.inputs + case.op.outputs)).says(
        "The forward value is not finite there either.", "Fix the forward pass first."
    ),
    _unstable("steep", when=lambda case: case.what == "nan" or case.steep).says(
        "Its derivative is infinite or not defined there.",
        "Keep the input away from that point, or write a rule of its own with @tf.custom_gradient.",
    ),
    _unstable("too large").says(
        "Upstream times its derivative is too large for {dtype}.", _SCALE_DOWN
    ),
)


class GradientCase(Case):
    """A gradient that became zero or not finite, with the numbers that its causes look at."""

    op: Op | None = None

    def __init__(self, graph: PassGraph, origin: Number, zero: bool) -> None:
        self.causes = ZERO if zero else BACKWARD
        self.graph, self.origin, self.value = graph, origin, origin.value
        self.name, self.dtype = graph.name(self.value), self.value.dtype
        self.what, self.index, self.sign = ("zero", (), "0") if zero else first_bad(origin.array)
        known = limits(self.dtype)
        self.smallest = known.smallest if known else 0.0
        self.type = "seed" if origin.kind == "seed" else "sum"
        if origin.step is None:
            return
        self.step, self.j, self.op = origin.step, origin.position, origin.step.op
        self.type = "custom" if self.op.kind == "custom" else self.op.type
        self.inputs = list(map(numbers, self.op.inputs))
        self.x = self.inputs[self.j]
        self.other = self.inputs[1 - self.j] if len(self.inputs) == 2 else self.inputs[-1]
        self.y = numbers(self.op.outputs[0])
        given = [wide(u) for u in self.step.upstream if u is not None and u.size]
        self.upstream = next((u for u in given if u.any()), np.zeros(1))
        self.largest = max((float(np.abs(u).max()) for u in given), default=0.0)
        at_entry = (number_at(self.op, u, self.index, self.value) for u in given)
        self.arrived = next((n for n in at_entry if n is not None), None)  # if there is just one

    @property
    def place(self) -> object:
        """The step; of a branch not taken the line, in which many ops often are."""
        where = self.op.source if self.op and self.cause.name == "tf.where" else None
        return (where.file, where.line) if where else self.origin.step

    def finding(self, values: list[Value]) -> Finding:
        """What is said of the sources behind it."""
        graph, op, began = self.graph, self.op, ""
        head = f"the gradient of {listed(map(graph.name, values))} is"
        if self.what == "zero":
            began = f"it became 0 at {at(op)}. " if op else ""
        elif op:
            upstream = "" if self.arrived is None else f" and upstream {self['arrived']}"
            made = made_at(op, self.index, self.value, graph.trace)
            began = f"the first {self.sign} of the backward pass is {made}{upstream}. "
        because, hint, lesson = self.words
        message = f"{head} {'exactly 0' if self.what == 'zero' else 'not finite'}: {began}{because}"
        found = graph.finding(self.what, (message, hint, lesson), op, values)
        # A network in which one parameter has no effect, as a bias before a softmax, still learns.
        note = self.cause.name == "cancels" and any(
            g is not None and is_ordinary(g) for _, g in graph.gradients
        )
        return replace(found, level="note") if note else found

    def flows_for(self, change: Callable[[Array], Array]) -> bool:
        """Whether the rule returns anything to the input for a changed upstream."""
        return bool(np.any(rerun(self.step, self.j, change)))

    @property
    def saturated(self) -> bool:
        """Whether the output is one of the values that the op nears at ±∞."""
        away = self.type == "Softmax" or self.x.all()  # tanh is 0 at 0, and steep
        return bool(away and np.isin(self.y, (-1.0, 0.0, 1.0, 2.0)).all())

    @property
    def not_taken(self) -> bool:
        """Whether the zero that reached the step was returned by a tf.where further on."""
        uses = self.graph.contributions
        later = walk(self.step.op.outputs, lambda v: [o for s, *_ in uses(v) for o in s.op.outputs])
        choices = ((s.op, j) for value in later for s, j, _ in uses(value) if j > 0)
        return any(
            op.type in ("SelectV2", "Select") and (wide(op.inputs[0].numpy()) != (j == 1)).any()
            for op, j in choices
        )

    @property
    def steep(self) -> bool:
        """Whether the derivative itself is infinite: a tiny upstream gives infinity too."""
        size = math.sqrt(self.smallest)  # no finite derivative is so large
        again = rerun(self.step, self.j, lambda u: np.sign(u) * size)
        return again is not None and bool(np.isinf(again).any())


# --- the forward pass --------------------------------------------------------------------------

_DOMAINS = {
    **{"Log": "above 0", "Log1p": "above −1", "Sqrt": "of 0 or more", "Rsqrt": "above 0"},
    **{"Acos": "from −1 to 1", "Asin": "from −1 to 1", "Acosh": "of 1 or more"},
    **{"Atanh": "between −1 and 1", "Erfinv": "between −1 and 1"},
}
_DIVISIONS = "RealDiv Div Reciprocal Inv Xdivy FloorDiv FloorMod"
GIVEN = ("input", "variable", "constant")  # kinds of op whose numbers somebody gave
FORWARD = (
    _unstable("given", when=lambda case: case.given).says("", "Look where its numbers come from."),
    _unstable("exp", when=lambda case: case.limit and case.x[0] is not None).says(
        "{limit} it overflows in {dtype}.",
        "Rewrite it so that it needs no large exponent, for example with tf.nn.softplus, "
        "tf.nn.log_softmax or by subtracting the maximum.",
    ),
    _unstable("division", ops=_DIVISIONS, when=lambda case: case.x[-1] == 0).says(
        "It divides by 0.", "Make the divisor safe first, or use tf.math.divide_no_nan."
    ),
    _unstable("domain", when=lambda case: case.domain).says(
        "It is defined for inputs {domain}.",
        "Keep its input there. For logarithms there are tf.math.xlogy and tf.math.log_sigmoid.",
    ),
    _unstable(
        "infinite input", when=lambda case: any(np.isinf(numbers(v)).any() for v in case.op.inputs)
    ).says(
        "It makes NaN of ∞, as ∞ − ∞, 0 × ∞ and ∞ / ∞ do.", "Look at the infinity that came in."
    ),
    _unstable("too large", when=lambda case: case.what == "inf").says(
        "The result is beyond ±{largest}, the largest {real}.",
        "Scale the numbers, or compute in a wider type.",
    ),
    _unstable("unknown").says("", "Keep its input where it is defined."),
)


def values(graph: PassGraph) -> list[Finding]:
    """Explain targets that are not finite; passes over a backward pass are left alone."""
    return forward(graph.trace, graph.pass_.targets if graph.first_order else ())


def forward(trace: Trace, ends: Iterable[Value]) -> list[Finding]:
    """Explain values of the forward pass that are not finite.

    Args:
        trace: The trace.
        ends: The values that should be finite, such as the targets.

    Returns:
        One finding per op where NaN or infinity began.
    """

    def made_of(number: Number) -> list[Number]:
        op = maker(number.value)
        given = [Number(v, numbers(v)) for v in op.inputs + op.captured] if op else []
        if not np.isnan(number.array).any():
            return given
        # An infinity that somebody gave, as that of a mask, is meant so: what makes NaN of it is
        # to blame.
        nans = [n for n in given if np.isnan(n.array).any()]
        return nans or [n for n in given if not meant(n.value)]

    def maker(value: Value) -> Op | None:
        made = trace.producer(value)
        return made and made[0]

    def meant(value: Value) -> bool:
        return (op := maker(value)) is None or op.kind in GIVEN

    starts = [n for v in ends if is_bad((n := Number(v, numbers(v))).array)]
    onward = followed(made_of, is_bad)
    began = (maker(o.value) for start in starts for o in origins(start, onward))
    ops = dict.fromkeys(_inside(op) for op in began if op)
    return [ForwardCase(trace, op).finding() for op in ops]


def _inside(op: Op) -> Op:
    """The op of a custom gradient's body where it began, else the op itself."""
    for inner in op.body:
        if _any_bad(inner.outputs) and not _any_bad(inner.inputs):
            return _inside(inner)
    return op


class ForwardCase(Case):
    """An op whose output is not finite, though its inputs are."""

    causes = FORWARD

    def __init__(self, trace: Trace, op: Op) -> None:
        self.trace, self.op, self.type = trace, op, op.type
        self.given = op.kind in GIVEN
        self.output = next(v for v in op.outputs if is_bad(numbers(v)))
        self.what, self.index, self.sign = first_bad(numbers(self.output))
        self.x = [number_at(op, numbers(v), self.index, self.output) for v in op.inputs]
        self.dtype = self.output.dtype
        known = limits(self.dtype)
        self.largest, self.real = (known.largest, known.name) if known else (math.nan, "")
        exp = exp_limit(op.type, op.inputs[0].dtype) if op.inputs else None
        beyond = "Beyond ±" if op.type in BOTH_SIDES else "Above "
        self.limit = "" if exp is None else beyond + style.number(round(exp, 2), 5)
        self.domain = _DOMAINS.get(op.type, "")

    def finding(self) -> Finding:
        """What is said of it."""
        because, hint, lesson = self.words
        message = f"`{self.op.name}` itself holds {self.sign}{entry(self.index)}."
        if not self.given:
            made = made_at(self.op, self.index, self.output, self.trace)
            message = f"the first {self.sign} of the forward pass is {made}. {because}".strip()
        return Finding(self.what, message, hint, lesson, self.op)


# --- single entries ----------------------------------------------------------------------------

# Ops that make each entry of one entry of every input. Of others, such as a matrix product, it
# would be wrong to say which numbers an entry came from, also where the shapes agree.
_FUNCTIONS = (
    "Neg Abs Square Sqrt Rsqrt Reciprocal Pow SquaredDifference Exp Expm1 Log Log1p Sin Cos Tan "
    "Asin Acos Atan Atan2 Sinh Cosh Tanh Atanh Sigmoid Softplus Erf Erfinv Relu Cast Select "
    "SelectV2"
)
BY_ENTRY = {*INFIX, *_FUNCTIONS.split()}


def numbers(value: Value) -> Array:
    """A value's numbers in double precision; none for integers."""
    return wide(value.numpy()) if value.differentiable else np.zeros(0)


def is_ordinary(gradient: Array) -> bool:
    """Whether there are numbers, all finite and not all of them 0."""
    return gradient.size > 0 and not is_zero(gradient) and not is_bad(gradient)


def is_zero(array: Any) -> bool:
    """Whether there are numbers, all of them zero."""
    a = wide(array)
    return a.size > 0 and not a.any()


def is_bad(array: Any) -> bool:
    """Whether there is a NaN or an infinity."""
    return not bool(np.isfinite(wide(array)).all())


def _any_bad(values: Iterable[Value]) -> bool:
    return any(is_bad(numbers(v)) for v in values)


def first_bad(array: Array) -> tuple[str, tuple[int, ...], str]:
    """What is not finite in an array: "nan" or "inf", where first, and as text."""
    array = wide(array)
    nan = bool(np.isnan(array).any())
    places = np.argwhere(np.isnan(array) if nan else np.isinf(array))
    index = tuple(map(int, next(iter(places), ())))
    return ("nan", index, "NaN") if nan else ("inf", index, style.number(array[index]))


def entry(index: tuple[int, ...]) -> str:
    """An index in words: " at entry [1, 0]", or "" for a scalar."""
    return f" at entry [{', '.join(map(str, index))}]" if index else ""


def number_at(op: Op, a: Array, index: tuple[int, ...], like: Value) -> complex | None:
    """The number of an array at an op that belongs to an entry of `like`, if there is just one."""
    if a.size == 1:
        return a.reshape(-1)[0].item()
    if op.kind == "op" and op.type not in BY_ENTRY:  # taken for granted of custom ops
        return None
    try:
        return np.broadcast_to(a, like.shape)[index].item()
    except ValueError:
        return None


def made_at(op: Op, index: tuple[int, ...], like: Value, trace: Trace) -> str:
    """Where an entry of `like` is made: "made at Log (line 3: ...) at entry [1] from `x` = 0"."""
    found = [(value_name(trace, v), number_at(op, numbers(v), index, like)) for v in op.inputs]
    texts = [f"`{name}` = {style.number(number)}" for name, number in found if number is not None]
    inputs = f" from {' and '.join(texts)}" if texts else ""
    return f"made at {at(op)}{entry(index)}{inputs}"


def unlike(like: Array) -> Array:
    """Numbers between 1 and 2 of which no two are alike, and that have no simple sums."""
    golden = (np.sqrt(5.0) - 1) / 2  # its multiples are spread most evenly, and never meet
    return (1 + np.arange(like.size) * golden % 1).reshape(like.shape).astype(like.dtype)


def rerun(step: Step, j: int, change: Callable[[Array], Array]) -> Array | None:
    """What a step's rule returns to input j for a changed upstream; None where it cannot run."""
    given = [None if u is None else change(wide(u)).astype(u.dtype) for u in step.upstream]
    try:
        again = step.vjp(given)[j]
    except RuntimeError:  # as of a trace that was read from a file
        return None
    return None if again is None else wide(again)


# --- vanishing and exploding -------------------------------------------------------------------

# The size of a gradient is compared with that of the upstream the pass started with. A gradient is
# vanishing when its L2 norm is below a millionth of that, exploding when its typical entry (root
# mean square) is above a million of it. The two measures differ so that a mean over many entries
# is no fall and a sum over many entries no rise. float32 has 7 digits: a step this much smaller
# than usual is lost in a weight, and one this much larger leaves nothing of the weight.
DECADES = 6
# Units alone must raise no alarm: `1e-8 * x` has a small gradient and nothing is wrong. So without
# the op that changed the size most it is still this much; grams for kilograms are one such factor.
SEVERAL = 3
ALIKE = 0.1  # contributions of one order of magnitude: the longest path tells most
GROWN = 1e3  # a training that converges has its largest gradients within 100 times the first
Size = Callable[[Sequence[Array]], float]


class Factor(NamedTuple):
    """By how much a step multiplied the size of a gradient, on the path into one of its inputs."""

    size: float
    step: Step
    position: int


class Change(NamedTuple):
    """By how much the gradient of a value changed on its way, and at which steps."""

    ratio: float
    value: Value
    factors: list[Factor]


VANISHING = Cause("vanishing").says(
    "the gradient vanishes on its way to {who}: at {worst} its L2 norm is {ratio} times that of "
    "the upstream at the target. It fell most at {lines}.",
    "Keep each factor near 1: other activations, scaled weights, skip connections, normalisation.",
)
EXPLODING = Cause("exploding").says(
    "the gradient explodes on its way to {who}: at {worst} its typical entry is {ratio} times that "
    "of the upstream at the target. It rose most at {lines}.",
    "Keep each factor near 1: smaller weights, normalisation, tf.clip_by_global_norm.",
)
CANCELLED = Cause("zero", CHAIN).says(
    "the gradient of {who} is 0 but for rounding: its terms cancel at {at}.",
    "The function does not change that way, as a softmax does not when its inputs shift.",
)
DIVERGING = Cause("exploding", STABILITY).says(
    "the training diverges: the gradient of {who} grows from step to step ({sizes}), and {target} "
    "grows with it. Each update goes too far{line}.",
    "Make the learning rate ten times smaller. If it still grows, the update has a wrong sign.",
)


def scale(graph: PassGraph) -> list[Finding]:
    """Explain gradients that vanish or explode on their way.

    A gradient that is mathematically 0 is small too, as it comes out of a sum whose terms cancel
    but for rounding. It is told as that: of one among others that learn, such as the bias of the
    keys under a softmax, as a remark.

    Args:
        graph: The pass; passes over a backward pass are left alone.

    Returns:
        At most one finding for vanishing and one for exploding, with all the sources; and one for
        each op at which gradients cancel, a note where others learn.
    """
    seeds = [s for s in graph.seeds.values() if s is not None and s.size]
    if not graph.first_order or any(map(is_bad, seeds)) or all(map(is_zero, seeds)):
        return []
    judged = cache(cancels)  # paths to many sources have most of their steps in common
    onward = {size: cache(partial(largest, graph, size)) for size in (wide_norm, typical)}
    changed: dict[Cause, list[Change]] = {VANISHING: [], EXPLODING: []}
    cancelled: dict[Op, list[Value]] = {}
    learns = False
    for value, gradient in graph.gradients:
        if gradient is None or not is_ordinary(gradient):
            continue
        for cause, size, sign in ((VANISHING, wide_norm, -1), (EXPLODING, typical, 1)):
            times = ratio(size([gradient]), size(seeds))
            change = sign * decades(times)
            learns = learns or (size is wide_norm and change <= DECADES)
            if not change > DECADES:
                continue
            factors = path(onward[size], value)
            most = max((sign * decades(each.size) for each in factors), default=0.0)
            at_sum = (each.step.op for each in factors if sign < 0 and judged(*each[1:]))
            if op := next(at_sum, None):
                cancelled.setdefault(op, []).append(value)
            elif most > 0 and change - most > SEVERAL:
                changed[cause].append(Change(times, value, factors))
    found = [_changed(graph, cause, each) for cause, each in changed.items() if each]
    for op, values in cancelled.items():
        words = CANCELLED.words({"who": listed(map(graph.name, values)), "at": at(op)})
        note = graph.finding(CANCELLED.name, words, op, values)
        found.append(replace(note, level="note") if learns else note)
    return found


def decades(times: float) -> float:
    """How many powers of ten a ratio is; of 0, as of squares below every number, −∞."""
    return math.log10(times) if times else -math.inf


def cancels(step: Step, j: int) -> bool:
    """Whether the terms that a step adds up cancel but for rounding.

    Its rule is run again for an upstream without signs, of which no two entries are alike: there
    nothing cancels.
    """
    given = step.downstream[j]
    if step.op.kind != "op" or given is None:
        return False
    terms = rerun(step, j, lambda u: np.abs(u) * unlike(u))
    if terms is None:
        return False
    return wide_norm([given]) < tolerance(given.dtype) * wide_norm([terms])


def wide_norm(arrays: Sequence[Array]) -> float:
    """The L2 norm of all entries, also where their squares are beyond every number.

    A gradient of 1e-30 in float32 is small and not zero; `graph.norm`, in the array's own
    precision, is faster and tells 0.
    """
    entries = [np.abs(wide(a)) for a in arrays]
    largest = max((float(a.max(initial=0.0)) for a in entries), default=0.0)
    if not 0.0 < largest < math.inf:
        return largest
    return largest * math.sqrt(sum(float(np.square(a / largest).sum()) for a in entries))


def typical(arrays: Sequence[Array]) -> float:
    """The root mean square of all entries."""
    count = sum(a.size for a in arrays)
    return wide_norm(arrays) / math.sqrt(count) if count else 0.0


def path(onward: Callable[[Value], tuple[Factor, Value] | None], value: Value) -> list[Factor]:
    """The steps from a value to the target along the largest contributions.

    Args:
        onward: `largest` of a graph and a size.
        value: Where it begins.
    """
    found = []
    while step := onward(value):
        factor, value = step
        found.append(factor)
    return found


def largest(graph: PassGraph, size: Size, here: Value) -> tuple[Factor, Value] | None:
    """The step that returned the largest contribution to a value, and the output it was made of."""
    parts = graph.contributions(here)
    sizes = [wide_norm([part[2]]) for part in parts]
    alike = [part for part, each in zip(parts, sizes, strict=True) if each >= ALIKE * max(sizes)]
    if not alike:
        return None
    step, j, gradient = alike[-1]  # the first of a loop's rounds: the last on the way back
    pairs = zip(step.op.outputs, step.upstream, strict=True)
    arrived = [(v, u) for v, u in pairs if u is not None]
    before = size([u for _, u in arrived])
    if before == 0:
        return None
    factor = Factor(size([gradient]) / before, step, j)
    return factor, max(arrived, key=lambda pair: wide_norm([pair[1]]))[0]


def _changed(graph: PassGraph, cause: Cause, changes: list[Change]) -> Finding:
    """The worst change in words, with the three lines that made most of it."""
    worst = max(changes, key=lambda change: abs(decades(change.ratio)))
    values = [change.value for change in changes]
    by_line: dict[object, list[Factor]] = {}
    for factor in worst.factors:
        op = factor.step.op
        key = (op.type, op.source.file, op.source.line) if op.source else op
        by_line.setdefault(key, []).append(factor)
    totals = [(math.prod(each.size for each in row), row) for row in by_line.values()]
    fell = worst.ratio < 1
    first, *more = sorted(totals, key=lambda pair: pair[0], reverse=not fell)[:3]
    lines = [
        f"{at(row[0].step.op)} {f'{len(row)} times, in all' if len(row) > 1 else 'once,'} "
        f"× {style.number(total, 2)}"
        for total, row in (first, *(pair for pair in more if (pair[0] < 1) == fell))
    ]
    known = {
        "who": listed(map(graph.name, values)),
        "worst": graph.name(worst.value),
        "ratio": style.number(worst.ratio, 2),
        "lines": ", ".join(lines),
    }
    return graph.finding(cause.name, cause.words(known), first[1][0].step.op, values)


# --- from step to step -------------------------------------------------------------------------


def diverging(graphs: Sequence[PassGraph]) -> Finding | None:
    """Say that a training diverges: each step that is too large makes the next gradient larger.

    What follows, exploding gradients, infinity and at last NaN, is told once and by its cause.

    Args:
        graphs: The passes of a recording, in execution order.

    Returns:
        A finding where the gradients of some variables, or the variables themselves, become more
        than 1,000 times as large as at first before anything is infinite, and the target grows too.
    """
    steps = list({graph.training_step: graph for graph in reversed(graphs)}.values())[::-1]
    if len(steps) < 2 or not all(graph.first_order and graph.pass_.targets for graph in steps):
        return None
    first, target = steps[0], steps[0].pass_.targets[0]
    grown = {v: sizes for v in first.pass_.sources if (sizes := _growth(steps, v))}
    if not grown or not _size(steps[-1].pass_.targets[0].numpy()) > _size(target.numpy()):
        return None
    sizes = max(grown.values(), key=lambda found: found[-1] / found[0])
    maker = first.maker(target)
    update = next((where for _, where in calls(maker.source if maker else None, UPDATES)), None)
    known = {
        "who": listed(map(first.name, grown)),
        "sizes": ", ".join(style.number(x, 2) for x in sizes[:4]) + ", ..." * (len(sizes) > 4),
        "target": first.name(target),
        "line": line(update),
    }
    return replace(first.finding("exploding", DIVERGING.words(known), None, grown), line=update)


def _growth(steps: Sequence[PassGraph], value: Value) -> list[float]:
    """The sizes of a variable's gradient from step to step; empty where the variable is stable."""
    variable = steps[0].maker(value)
    pairs = (
        pair for graph in steps for pair in graph.gradients if graph.maker(pair[0]) is variable
    )
    # Of a variable that only a closed function reads, nothing is known but its handle.
    found = [
        (_size(g), _size(v.numpy()) if v.differentiable else 0.0) for v, g in pairs if g is not None
    ]
    last = next((i for i, pair in enumerate(found) if math.isinf(pair[0])), len(found))
    if not variable or len(found[: last + 1]) < 2 or not last or not found[0][0]:
        return []
    gradients, values = zip(*found[: last + 1], strict=True)
    apart = max(gradients[:last]) > GROWN * gradients[0] or max(values) > GROWN * values[0] > 0
    return list(gradients) if apart else []


def _size(array: Array) -> float:
    """The typical entry; infinite where one is not finite."""
    return math.inf if is_bad(array) else typical([array])
