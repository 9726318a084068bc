"""Numbers that are zero, NaN or infinite: where that began, and why.

    zero, not_finite   gradients of a pass that are 0 in every entry, NaN or infinite
    underflow          16-bit gradients of which many entries round to 0
    forward            values of the forward pass that are NaN or infinite

Except for `underflow`, they share one walk: `origins` goes from a number to the numbers that it was
made of, until the problem comes from none of these. A gradient is followed from its source towards
the targets, to the seed, the step or the sum of gradients where it began; a value of the forward
pass is followed back to the op whose inputs were still in order. `ZERO`, `BACKWARD` and `FORWARD`
are the records of possible causes: the first that fits the numbers is reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Step, Trace, Value, differentiates, wide, wide_norm
from ..graph.dtypes import limits
from ..graph.jacobian import rerun, tolerance
from ..graph.names import ELEMENTWISE, INFIX, value_name
from ..graph.trace import walk, with_bodies
from ..lessons import CHAIN, GRAPHS, KINKS, STABILITY, UPSTREAM
from .pass_graph import MOST_ORIGINS, Cause, PassGraph, at, listed

Test = Callable[[Any], bool]
Spreads = Callable[[Iterable[bool]], bool]


class Case:
    """A problem to explain; its items are its attributes, as text for the words of a cause."""

    causes: Sequence[Cause]
    type: str  # of the op; or "seed", "sum" or "custom"

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


def shown(array: Any) -> str:
    """A few numbers in full, many by their range."""
    a = wide(array)
    if a.size <= 4 or a.dtype.kind == "c":
        return style.array(a, most=4)
    return f"{a.size} numbers from {style.number(a.min())} to {style.number(a.max())}"


# --- where it began ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """An array that can have a problem: a value, its gradient, or one term of the gradient."""

    value: Value
    array: Array = field(compare=False, repr=False)
    step: Step | None = None  # the step that returned this term of the gradient
    position: int = 0  # the input of the step's op that it was returned to
    is_seed: bool = False  # whether the pass started with it


def origins(
    made_of: Callable[[Number], list[Number]], test: Test, spreads: Spreads = any
) -> Callable[[Number], Iterator[Number]]:
    """Make the function that finds where the problem of a number began.

    Args:
        made_of: Gives the numbers that a number was made of.
        test: Whether an array has the problem.
        spreads: `all` if a number gets the problem when everything it is made of has it, as with
            zero; `any` if one of them is enough, as with NaN.

    Returns:
        A function from a number with the problem to the numbers where it began. Each number is
        examined only once, because the paths from many numbers meet.
    """

    @cache
    def onward(here: Number) -> list[Number]:
        parts = made_of(here)
        spread = parts and spreads(test(part.array) for part in parts)
        return [part for part in reversed(parts) if test(part.array)] if spread else []

    return lambda start: (here for here in walk([start], onward) if not onward(here))


def parts_of(graph: PassGraph, number: Number) -> list[Number]:
    """The numbers that a number of a backward pass is made of."""
    if number.step is not None:
        pairs = zip(number.step.op.outputs, number.step.upstream, strict=True)
        return [Number(v, u) for v, u in pairs if u is not None and u.size]
    if number.is_seed:
        return []
    value = number.value
    seed = graph.seeds.get(value.key)
    parts = [Number(value, g, s, j) for s, j, g in graph.contributions(value)]
    return [*parts, *([] if seed is None else [Number(value, seed, is_seed=True)])]


def zero(graph: PassGraph) -> list[Finding]:
    """Explain each of a pass's gradients whose entries are all exactly zero.

    Second derivatives of piecewise linear functions are rightly zero: of a pass that differentiates
    a backward pass only those are explained that became 0 in the forward pass of its loss, unless
    no variable learns; or that a loss is made of. A target that is not finite is left to `values`.
    """
    learned = [g for v, g in graph.gradients if graph.kind(v) == "variable" and g is not None]
    own = learned and all(graph.trace.maker(t) in graph.trace.ops for t in graph.pass_.targets)
    if _any_bad(graph.pass_.targets):
        return []
    explained = _explained(graph, is_zero, all)
    straight = [x for cause, x in explained if cause == "straight"]
    if graph.first_order or (own and all(map(is_zero, learned))):
        # What is at an op follows from a ReLU's second derivative, where there is one.
        return [x for cause, x in explained if cause == "straight" or not (straight and x.op)]
    if own:
        return [x for _, x in explained if x.op in graph.trace.ops]
    if not straight:
        return []
    ends = (v for p in graph.trace.passes if differentiates(p, graph.pass_) for v in p.sources)
    in_a_loss = any(graph.kind(v) == "variable" for v in ends)
    return [replace(each, level="warning") for each in straight[:1] if in_a_loss]


def not_finite(graph: PassGraph) -> list[Finding]:
    """Explain NaN and infinite gradients, except those that come from values `forward` explains."""
    return [each for _, each in _explained(graph, is_bad, any)]


def underflow(graph: PassGraph) -> list[Finding]:
    """Find the first step at which much of a 16-bit gradient, but not all of it, rounds to 0."""
    for step in graph.pass_.steps if graph.first_order else ():
        shares = [(rounded(step, j), value.dtype) for j, value in enumerate(step.op.inputs)]
        share, dtype = max(shares, default=(0.0, ""))
        if share > UNDERFLOW:
            known = {"share": style.number(100 * share, 2), "at": at(step.op, True), "dtype": dtype}
            return [graph.finding(ROUNDED, known, step.op, ())]
    return []


def rounded(step: Step, j: int) -> float:
    """The share of entries returned to an input that are 0, but not for a larger upstream."""
    given, known = step.downstream[j], limits(step.op.inputs[j].dtype)
    if known is None or not known.coarse or given is None or not given.any():
        return 0.0
    zeros = wide(given) == 0
    overflows = any(is_bad(u) for u in step.upstream if u is not None)  # a larger one does so too
    if zeros.mean() <= UNDERFLOW or overflows:
        return 0.0
    again = amplified(step, j)
    return 0.0 if not again.size else float((zeros & (again != 0)).mean())


def _explained(graph: PassGraph, test: Test, spreads: Spreads) -> list[tuple[str, Finding]]:
    """One finding per place and cause, after the name of the cause, with all sources affected."""
    began = origins(partial(parts_of, graph), test, spreads)
    case_of = cache(partial(GradientCase, graph, zero=test is is_zero))  # a case may run a rule
    groups: dict[object, tuple[GradientCase, list[Value]]] = {}
    for value, gradient in graph.gradients:
        if gradient is None or not test(gradient):
            continue
        start = Number(value, gradient)
        for origin in islice(began(start), MOST_ORIGINS):
            case = case_of(origin)
            key = case.place, case.cause.words(case)
            groups.setdefault(key, (case, []))[1].append(value)
    told = "forward pass" if _any_bad(graph.pass_.targets) else ""  # `forward` reports it
    return [(c.cause.name, c.finding(v)) for c, v in groups.values() if c.cause.name != told]


# --- why a gradient is zero --------------------------------------------------------------------

CANCELS = "The function is flat that way, as a softmax is to a shift, or here, as at a minimum."
SOFTMAX = "Softmax LogSoftmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"
SINGLE = "A softmax over one entry is always 1."
SIGMOID = "Use a sigmoid, or check the axis and the number of outputs."
PRODUCTS = "Mul MatMul BatchMatMulV2 BatchMatMulV3"
SEED = Cause("seed", UPSTREAM, ops="seed").says(
    "the upstream that the backward pass started with at {name} is {sign}.",
    "Everything downstream is upstream times something. Start with another upstream.",
)
PERHAPS = Cause("rule cancels", CHAIN, "custom", lambda c: cancels(c.step, c.j), "warning").says(
    "Its terms add up to 0 for the upstream {upstream} at the input {x}, and not for others.",
    "0 is right where the outputs always add up to the same number, as a softmax's do, and the "
    "upstream is the same for all. Trace with another loss or upstream; `cgviz.check` tells "
    "whether the rule is right.",
)
ZERO = (
    SEED,
    Cause("no path", ops="sum", when=lambda c: not c.graph.contributions(c.value)).says(
        "no path that a tape followed leads from there to the target, and "
        "`unconnected_gradients='zero'` gives 0 in place of None.",
        "Use it in what is differentiated, or leave it out of the sources. To see where a path is "
        "cut, diagnose it without `unconnected_gradients='zero'`.",
    ),
    Cause("one entry", STABILITY, ops="sum", when=lambda case: 1 in case.centred).says(
        "{name} minus its mean over a single entry is always 0, as in a normalisation.",
        "Normalise over more entries: a larger batch, or another axis.",
    ),
    Cause("normalised", CHAIN, "sum", lambda case: case.centred, "note").says(
        "{name} is used with its mean subtracted, and the gradients of these uses add up to 0.",
        "A sum of normalised values never changes. Or the function is flat here, as at a minimum.",
    ),
    Cause("uses cancel", CHAIN, ops="sum", level="note").says(
        "the gradients that the uses of {name} return add up to 0.", CANCELS
    ),
    Cause("outside", KINKS, "Relu", lambda case: not (case.x > 0).any(), optional=True).says(
        "Its input is nowhere above 0: {x}.",
        "Nothing flows back there. Try another start, a smaller step, or a leaky ReLU.",
    ),
    Cause("sign", KINKS, ops="Sign").says(
        "TensorFlow's gradient of the sign is 0 for every input.",
        "Use a straight-through rule or a surrogate with @tf.custom_gradient.",
    ),
    Cause("factor 0", CHAIN, PRODUCTS, lambda case: is_zero(case.other), optional=True).says(
        "The other factor is 0.",
        "A product's derivative is the other factor. Look where that becomes 0: if it is weights "
        "that all start at 0, give them other numbers.",
    ),
    Cause("single", CHAIN, SOFTMAX, lambda c: single(c.op), "warning").says(SINGLE, SIGMOID),
    # These ops take upstream and the number that the slope depends on.
    Cause("straight", KINKS, "ReluGrad LeakyReluGrad", lambda case: case.j == 1).says(
        "The second derivative of ReLU and leaky ReLU is 0 for every input.",
        "This term teaches the weights nothing: use a smooth function, as tanh, softplus or sin.",
    ),
    Cause("py_function", GRAPHS, ops="EagerPyFunc").says(
        "tf.py_function takes numbers out of TensorFlow, so the tape inside it follows nothing.",
        "Use TensorFlow's functions there, or give it a rule with @tf.custom_gradient.",
    ),
    Cause("equal", STABILITY, "SelfAdjointEigV2 Svd", lambda case: case.equal).says(
        "Some eigenvalues or singular values are equal there. Their vectors have no derivative, "
        "and TensorFlow returns 0 in its place.",
        "Differentiate the eigenvalues or singular values alone, or keep them apart.",
    ),
    # The next three are found by running the rule again for other upstreams.
    PERHAPS,
    Cause("cancels", CHAIN, when=lambda c: cancels(c.step, c.j), level="note").says(
        "Its derivative is not 0, but its products with the upstream {upstream} add up to 0.",
        CANCELS,
    ),
    Cause("underflow", STABILITY, when=lambda case: np.any(amplified(case.step, case.j))).says(
        "Its product with the upstream {upstream} is below {smallest}: that is 0 in {dtype}.",
        "Scale the loss up, or compute in float64 or with logarithms.",
    ),
    Cause("custom rule", UPSTREAM, ops="custom").says(
        "It returned 0 for the upstream {upstream} at the input {x}.",
        "Look at what its rule multiplies upstream by.",
    ),
    Cause("flat", optional=True).says(
        "It returned 0 for the upstream {upstream} at the input {x}.",
        "It may be flat here, as where it is saturated or clipped, or where another branch wins: "
        "try another input, or smaller weights. Or upstream is 0 where it is not flat.",
    ),
)

UNDERFLOW = 0.25  # share of entries that become 0: more than rounding does to an ordinary gradient
ROUNDED = Cause("underflow", STABILITY).says(
    "{share}% of what {at} returns rounds to 0 in {dtype}, and would not with a larger upstream.",
    "Use float32 here, or tf.keras.mixed_precision.LossScaleOptimizer.",
)

# --- why a gradient is not finite --------------------------------------------------------------

_unstable = partial(Cause, lesson=STABILITY)
BACKWARD = (
    SEED,
    _unstable("uses add up", ops="sum").says(
        "what the uses of {name} return adds up to more than {dtype} holds.",
        "Scale the loss down, or compute in a wider type.",
    ),
    _unstable("tf.where", when=lambda case: case.arrived == 0 and case.not_taken).says(
        "tf.where did not take this branch and sent it the upstream 0. 0 × ∞, 0 × NaN and 0 / 0 "
        "are NaN, and this NaN reaches the input.",
        "Make the input safe first: `safe = tf.where(ok, x, 1.)`, and compute with `safe`.",
    ),
    _unstable("custom rule", ops="custom").says(
        "The rule itself made it.", "Rewrite the rule so that it stays finite here."
    ),
    _unstable("0 × ∞", when=lambda case: case.arrived == 0 and not _any_bad(case.op.inputs)).says(
        "The derivative is not finite there: 0 × ∞ and 0 / 0 are NaN.", "Write the stable rule."
    ),
    _unstable("forward pass", when=lambda case: _any_bad(case.op.inputs + case.op.outputs)).says(
        "The forward value is not finite there either.", "Fix the forward pass first."
    ),
    _unstable("singular", when=lambda c: is_bad(amplified(c.step, c.j, max(c.normal, 1e-30)))).says(
        "Its derivative is infinite, not defined or too large for {dtype} there.",
        "Keep the input away from it: a small ε inside, or `safe = tf.where(ok, x, other)` first.",
    ),
    _unstable("steep").says(
        "Its derivative is not finite there, or upstream times it is too large for {dtype}.",
        "Scale the loss down, or keep the input away from that point.",
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
        self.smallest, self.normal = (known.smallest, known.normal) if known else (0.0, 0.0)
        self.type = "seed" if origin.is_seed else "sum"
        if origin.step is None:
            return
        self.step, self.j, self.op = origin.step, origin.position, origin.step.op
        self.type = "custom" if self.op.kind == "custom" else self.op.type
        inputs = list(map(numbers, self.op.inputs))
        self.x = inputs[self.j]
        self.other = inputs[1 - self.j] if len(inputs) == 2 else inputs[-1]
        given = [wide(u) for u in self.step.upstream if u is not None and u.size]
        self.upstream = next((u for u in given if u.any()), np.zeros(0))
        at_entry = (number_at(self.op, u, self.index, self.value) for u in given)
        self.arrived = next((n for n in at_entry if n is not None), None)  # None if not unique

    @property
    def place(self) -> object:
        """The step; for a branch that tf.where did not take, the line, which often has many ops."""
        where = self.op.source if self.op and self.cause.name == "tf.where" else None
        return (where.file, where.line) if where else self.origin.step

    def finding(self, values: list[Value], small: Iterable[Value] = ()) -> Finding:
        """The finding about the sources affected; `small` are all that are 0 but for rounding."""
        graph, op, began = self.graph, self.op, ""
        head = f"the gradient of {listed(map(graph.name, values))} is"
        if self.what == "zero":
            began = f"it became 0 at {at(op, True)}. " if op else ""
        elif op:
            upstream = "" if self.arrived is None else f" and upstream {self['arrived']}"
            made = made_at(op, self.index, self.value, graph.trace, True)
            began = f"the first {self.sign} of the backward pass is {made}{upstream}. "
        because = self.cause.words(self)[0]
        rounded = "0 but for rounding" if self.origin.array.any() else "exactly 0"
        what = rounded if self.what == "zero" else "not finite"
        message = f"{head} {what}: {began}{because}".strip()
        # A network still learns if one parameter has no effect, such as a bias before a softmax.
        others = (g for v, g in graph.gradients if v not in small)
        learns = any(g is not None and is_ordinary(g) for g in others)
        level = self.cause.level if learns or self.cause is PERHAPS else "error"
        known = {"what": self.what, "message": message, "level": level}
        return graph.finding(self.cause, self, op, values, **known)

    @property
    def centred(self) -> set[int]:
        """Over how many entries the means are taken that are subtracted from a value."""
        ops = [step.op for step, *_ in self.graph.contributions(self.value)]
        less = (v for o in ops if o.type in ("Sub", "SquaredDifference") for v in o.inputs)
        same = "StopGradient", "Reshape"  # they pass the mean on
        made = self.graph.trace.maker
        before = walk(less, lambda v: o.inputs if (o := made(v)) and o.type in same else [])
        means = [o for v in before if (o := made(v)) in ops and o and o.type == "Mean"]
        return {o.inputs[0].size // max(o.outputs[0].size, 1) for o in means}

    @property
    def equal(self) -> bool:
        """Whether two eigenvalues are equal, and upstream arrived at eigenvectors."""
        given = any(u.any() for u in self.step.upstream[1:] if u is not None)
        return given and not np.diff(self.step.op.outputs[0].numpy()).all()

    @property
    def not_taken(self) -> bool:
        """Whether the zero upstream comes from a later tf.where, of which it is one branch."""
        uses = self.graph.contributions
        later = walk(self.step.op.outputs, lambda v: [o for s, *_ in uses(v) for o in s.op.outputs])
        choices = {(s.op, j) for value in later for s, j, _ in uses(value) if j > 0}
        return any(
            op.type in ("SelectV2", "Select")
            and (op, 3 - j) not in choices
            and (wide(op.inputs[0].numpy()) != (j == 1)).any()
            for op, j in choices
        )


# --- the forward pass --------------------------------------------------------------------------

_DOMAINS = {
    **{"Log": "above 0", "Log1p": "above −1", "Sqrt": "of 0 or more", "Rsqrt": "above 0"},
    **{"Acos": "from −1 to 1", "Asin": "from −1 to 1", "Acosh": "of 1 or more"},
    **{"Atanh": "between −1 and 1"},
}
_DIVISIONS = "RealDiv Div Reciprocal Inv Xdivy FloorDiv FloorMod Pow"
GIVEN = ("input", "variable", "constant")  # kinds of op whose numbers were given, not computed
FORWARD = (
    _unstable("given", when=lambda case: case.given).says(
        "", "Look where its numbers come from: those of a variable, at the step that changed it."
    ),
    _unstable("exp", ops="Exp Expm1", when=lambda case: case.x[0] is not None).says(
        "Above {limit} it overflows in {dtype}.",
        "Rewrite it so that it needs no large exponent, for example with tf.nn.softplus, "
        "tf.nn.log_softmax or by subtracting the maximum.",
    ),
    _unstable("division", ops=_DIVISIONS, when=lambda case: case.divisor == 0).says(
        "It divides by 0.", "Make the divisor safe first, or use tf.math.divide_no_nan."
    ),
    _unstable("domain", when=lambda case: case.domain).says(
        "{type} is defined for inputs {domain}.",
        "Keep its input there. For logarithms there are tf.math.xlogy, tf.math.log_sigmoid and "
        "tf.nn.log_softmax.",
    ),
    _unstable("infinite", when=lambda c: any(np.isinf(numbers(v)).any() for v in c.op.inputs)).says(
        "It turns ∞ into NaN, as ∞ − ∞, 0 × ∞ and ∞ / ∞ do.",
        "Look at the infinity that came in.{row}",
    ),
    _unstable("too large", when=lambda case: case.what == "inf").says(
        "The result is infinite, or beyond ±{largest}, the largest {real}.",
        "Keep its input away from that point, scale the numbers, or compute in a wider type.",
    ),
    _unstable("none", ops="Mean", when=lambda case: not case.op.inputs[0].size).says(
        "The mean of no numbers is NaN.", "Give it at least one."
    ),
    _unstable("unknown").says("", "Look at the numbers that it was given."),
)


def values(graph: PassGraph) -> list[Finding]:
    """Explain targets that are not finite.

    What began in an inner gradient is left to `not_finite` in the pass that took it.
    """
    own = set(with_bodies(graph.trace.ops))
    return [each for each in forward(graph.trace, graph.pass_.targets) if each.op in own]


def forward(trace: Trace, ends: Iterable[Value]) -> list[Finding]:
    """Explain values of the forward pass that are not finite.

    Args:
        trace: The trace.
        ends: The values that should be finite, such as the targets.

    Returns:
        One finding per op where NaN or infinity began.
    """

    def inputs(number: Number) -> list[Number]:
        op = trace.maker(number.value)
        return [Number(v, numbers(v)) for v in op.inputs + op.captured] if op else []

    def made_of(number: Number) -> list[Number]:
        given = inputs(number)
        if not np.isnan(number.array).any():
            return given
        # An infinity that was given, as in a mask, is intended: the op that makes NaN of it is to
        # blame.
        nans = [n for n in given if np.isnan(n.array).any()]
        return nans or [n for n in given if not meant(n)]

    def meant(number: Number) -> bool:
        ops = (trace.maker(origin.value) for origin in came_from(number))
        return all(op is None or op.kind in GIVEN for op in ops)

    came_from = origins(inputs, is_bad)
    starts = [n for v in ends if is_bad((n := Number(v, numbers(v))).array)]
    began = origins(made_of, is_bad)
    first = (trace.maker(origin.value) for start in starts for origin in began(start))
    ops = dict.fromkeys(map(_inside, filter(None, first)))
    return [ForwardCase(trace, op).finding() for op in ops]


def _inside(op: Op) -> Op:
    """The op in a custom op's body where the problem began, else the op itself."""
    for inner in op.body:
        if _any_bad(inner.outputs) and not _any_bad(inner.inputs):
            return _inside(inner)
    return op


class ForwardCase(Case):
    """An op at which a NaN or an infinity of the forward pass began."""

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
        self.limit = style.number(round(math.log(self.largest), 2), 5)  # above it exp overflows
        # Of a power, the base: a negative power is infinite at 0.
        self.divisor = self.x[0 if op.type == "Pow" else -1] if self.x else None
        self.domain = _DOMAINS.get(op.type, "")
        self.row = " Each row needs a number above −∞." if op.type in SOFTMAX.split() else ""

    def finding(self) -> Finding:
        """The finding about the op."""
        because, hint, lesson = self.cause.words(self)
        message = f"`{self.op.name}` itself holds {self.sign}{entry(self.index)}."
        if not self.given:
            made = made_at(self.op, self.index, self.output, self.trace)
            message = f"the first {self.sign} of the forward pass is {made}. {because}".strip()
        return Finding(self.what, message, hint, lesson, self.op)


# --- single entries ----------------------------------------------------------------------------

# Ops that compute each entry from one entry of every input. For others, such as a matrix product,
# it would be wrong to say which numbers an entry came from, even if the shapes agree.
_OTHERS = """Neg Pow SquaredDifference Atan2 Cast Select SelectV2 Xdivy Xlogy Xlog1py Lgamma Digamma
    Ndtri"""
BY_ENTRY = {*INFIX, *ELEMENTWISE, *_OTHERS.split()}


def numbers(value: Value) -> Array:
    """A value's numbers in double precision; an empty array for a dtype without gradients."""
    return wide(value.numpy()) if value.differentiable else np.zeros(0)


def single(op: Op) -> bool:
    """Whether an op is a softmax over one entry."""
    return op.type in SOFTMAX.split() and op.inputs[0].shape[-1:] == (1,)


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
    """The first NaN of an array, else its first infinity: "nan" or "inf", index and text."""
    array = wide(array)
    nan = bool(np.isnan(array).any())
    places = np.argwhere(np.isnan(array) if nan else np.isinf(array))
    index = tuple(map(int, next(iter(places), ())))
    return ("nan", index, "NaN") if nan else ("inf", index, style.number(array[index]))


def entry(index: tuple[int, ...]) -> str:
    """An index in words: " at entry [1, 0]", or "" for a scalar."""
    return f" at entry [{', '.join(map(str, index))}]" if index else ""


def number_at(op: Op, a: Array, index: tuple[int, ...], like: Value) -> complex | None:
    """The number of `a` that belongs to entry `index` of `like` at an op; None if not just one."""
    if a.size == 1:
        return a.reshape(-1)[0].item()
    if op.kind == "op" and op.type not in BY_ENTRY:  # custom ops are taken to work entry by entry
        return None
    try:
        return np.broadcast_to(a, like.shape)[index].item()
    except ValueError:
        return None


def made_at(op: Op, index: tuple[int, ...], like: Value, trace: Trace, back: bool = False) -> str:
    """Where an entry of `like` is made: "made at Log (line 3: ...) at entry [1] from `x` = 0"."""
    found = [(value_name(trace, v), number_at(op, numbers(v), index, like)) for v in op.inputs]
    texts = [f"`{name}` = {style.number(number)}" for name, number in found if number is not None]
    inputs = f" from {' and '.join(texts)}" if texts else ""
    return f"made at {at(op, back)}{entry(index)}{inputs}"


# --- a rule run again ----------------------------------------------------------------------------


def amplified(step: Step, j: int, largest: float = 1.0) -> Array:
    """What one of TensorFlow's rules returns for upstream scaled to a largest entry; or nothing."""
    given = [np.abs(wide(u)).max(initial=0.0) for u in step.upstream if u is not None]
    usable = step.op.kind == "op" and any(given)
    again = rerun(step, j, lambda u: u * (largest / max(given))) if usable else None
    return np.zeros(0) if again is None else again


def cancels(step: Step, j: int) -> bool:
    """Whether the terms that a rule adds up cancel, except for rounding.

    It runs again for the absolute values of upstream, each scaled by a different factor below 1, so
    that nothing cancels and nothing that was 0 becomes larger.
    """
    given: Any = step.downstream[j]
    terms = rerun(step, j, lambda u: np.abs(u) * unlike(u))
    return terms is not None and wide_norm([given]) < tolerance(given.dtype) * wide_norm([terms])


def unlike(like: Array) -> Array:
    """Numbers from ½ to 1 in the shape of `like`, no two equal and in no simple proportion."""
    golden = (np.sqrt(5.0) - 1) / 2  # its multiples modulo 1 spread most evenly, and never meet
    return (0.5 + np.arange(like.size) * golden % 1 / 2).reshape(like.shape).astype(like.dtype)
