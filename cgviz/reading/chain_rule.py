"""The chain rule read off a trace: the paths from the target to each source, products and sums.

    dy/dx = sum over the paths from y to x of the product of the local Jacobians along the path

Each path's product starts with the upstream of the target, a row vector, so that the products
have the shape of the source and their sum is the gradient that TensorFlow computed. There may be
exponentially many paths: one sweep over the steps counts them, another sums them, and only a few
are ever walked.

The formula is written as LaTeX for a notebook and as text for a terminal, both from the same lines
of factors. An equals sign stands only between expressions that are equal as printed: if digits
were cut it is ≈, and if the product of the locals is not the gradient of the trace, a sentence says
so instead.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np

from .. import style
from ..graph import Array, Pass, Step, Trace, Value, total, wide
from ..graph.jacobian import LargeJacobian, same, times
from ..graph.names import is_folded, value_name

MOST_PATHS = 8  # kept for each source: more are not read one by one
MOST_RUNS = 2_000  # runs of backward rules that one total may cost, about 0.2 s
MOST_ENTRIES = 4  # of a tensor whose Jacobians are written as matrices, at most 4 by 4
MOST_FACTORS = 8  # of a product that is written in full: about a line
MOST_SOURCES = 8  # that have a formula of their own: about a screen
SHORT = 60  # columns of a sum on one line, so that it can be read at a glance
DIGITS = 5  # of a number: the most that `style.number` writes
WIDTH = 96  # columns: 100 less the brackets and signs that are added to a full line


class ChainRule:
    r"""The chain rule of one backward pass, in symbols and in this trace's numbers.

    A cell that ends in a ChainRule shows the formula; `str()` gives it as text, `.latex` as LaTeX.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> def f(x):
        ...     a = tf.square(x)
        ...     y = tf.square(a)
        ...     return y
        >>> cgviz.trace(f, 2.0).chain_rule()
        dy/dx = ∂y/∂a · ∂a/∂x
              = 8 · 4
              = 32
    """

    def __init__(self, trace: Trace, each: Pass) -> None:
        names = [value_name(trace, source) for source in each.sources]
        named = list(zip(names, each.sources, each.gradients, strict=True))
        self.sources = tuple(Derivative(trace, each, n, s, g) for n, s, g in named if g is not None)
        self.unreached = tuple(name for name, _, g in named if g is None)  # got no gradient

    def __repr__(self) -> str:
        blocks = []
        for derivative in self.sources[:MOST_SOURCES]:
            writer = Writer(derivative)
            left = _joined(writer.left_side(), plain, " · ")
            indent = len(left) if len(left) <= WIDTH // 3 else 1
            rows = []
            for sign, terms in writer.lines():
                # Lines are broken only between factors.
                words = _joined(terms, lambda factor: plain(factor).replace(" ", "\xa0"), " ·\xa0")
                line = f"{sign}\xa0{words}".strip("\xa0")
                found = textwrap.wrap(line, WIDTH - indent, **UNBROKEN)
                rows += [f"{'':{indent}} {row}".replace("\xa0", " ") for row in found]
            rows[0] = f"{left}{rows[0][indent:]}" if indent > 1 else f"{left}\n{rows[0]}"
            blocks.append("\n".join(rows))
        return "\n\n".join(blocks + self._rest())

    @property
    def latex(self) -> str:
        """The formula in LaTeX, between dollar signs, ready for a slide or a paper."""
        blocks = []
        for derivative in self.sources[:MOST_SOURCES]:
            writer = Writer(derivative)
            lines = [
                f"&{TEX_SIGNS.get(sign, '')} {_joined(terms, tex, TEX_TIMES)}"
                for sign, terms in writer.lines()
            ]
            lines[0] = f"{_joined(writer.left_side(), tex, TEX_TIMES)} {lines[0]}"
            blocks.append(" \\\\[0.3em]\n".join(lines))
        blocks += [f"&{tex(sentence)}" for sentence in self._rest()]
        body = " \\\\[1.2em]\n".join(blocks)
        return f"$$\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}\n$$"

    def _repr_latex_(self) -> str:
        return self.latex

    def _rest(self) -> list[str]:
        """The lines after the formulas: sources left out, sources without a gradient."""
        found = []
        if (left := len(self.sources) - MOST_SOURCES) > 0:
            found.append(f"and {left} more source{'s' * (left > 1)}")
        if self.unreached:
            left = len(self.unreached) - MOST_SOURCES
            more = f" and {left} more" * (left > 0)
            found.append(f"no gradient: {', '.join(self.unreached[:MOST_SOURCES])}{more}")
        return found or ([] if self.sources else ["no sources"])


@dataclass(frozen=True, eq=False)
class Factor:
    """One edge of a path: from an output of a step's op back to one of its inputs."""

    step: Step
    output: int
    input: int

    @property
    def local(self) -> Any:
        """The local Jacobian: an array, zeros where the rule claims None, or a `LargeJacobian`."""
        local = self.step.local[self.output][self.input]
        op = self.step.op
        shape = op.outputs[self.output].shape + op.inputs[self.input].shape
        return np.zeros(shape) if local is None else local

    @property
    def slot(self) -> int:
        """Which input it is, from 1, if the op takes one value twice, as in `x * x`; else 0."""
        keys = [value.key for value in self.step.op.inputs]
        return self.input + 1 if keys.count(keys[self.input]) > 1 else 0


@dataclass(frozen=True, eq=False)
class Path:
    """One way from a target of the pass back to a source: its factors, target first."""

    upstream: Array
    target: Value
    factors: tuple[Factor, ...]

    @property
    def locals(self) -> tuple[Any, ...]:
        """The local Jacobian of each factor."""
        return tuple(factor.local for factor in self.factors)

    @cached_property
    def products(self) -> tuple[Array, ...]:
        """Upstream, upstream · local, ...: what a path brings to each value; last, the source."""
        return tuple(accumulate(self.locals, times, initial=wide(self.upstream)))


class Derivative:
    """What the chain rule says about one source: its paths, their sum, the trace's gradient."""

    def __init__(self, trace: Trace, each: Pass, name: str, source: Value, gradient: Array) -> None:
        self.name = name
        self.source = source
        self.gradient = gradient
        self.trace = trace
        self.pass_ = each
        maker = trace.maker(source)
        versions = maker.outputs if maker and maker.kind == "variable" else (source,)
        self._keys = {value.key for value in versions}

    @cached_property
    def _ahead(self) -> set[int]:
        """The keys of the values from which a path leads back to the source, and its own."""
        ahead = {*self._keys}
        for step in reversed(self.pass_.steps):
            pairs = zip(step.op.inputs, step.flows, strict=True)
            if any(flows and value.key in ahead for value, flows in pairs):
                pairs = zip(step.op.outputs, step.received, strict=True)
                ahead.update(value.key for value, given in pairs if given is not None)
        return ahead

    @cached_property
    def targets(self) -> list[tuple[Value, Array]]:
        """The targets from which a path leads to the source, each with its upstream."""
        pairs = zip(self.pass_.targets, self.pass_.seeds, strict=True)
        return [(t, seed) for t, seed in pairs if seed is not None and t.key in self._ahead]

    @property
    def count(self) -> int:
        """How many paths there are."""
        return sum(self.pass_.path_counts[key] for key in self._keys)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The first 8 paths."""
        return tuple(islice(self.walk(), MOST_PATHS))

    def walk(self) -> Iterator[Path]:
        """Every path, one after the other; `count` tells how many there are."""
        makers = {v.key: (s, i) for s in self.pass_.steps for i, v in enumerate(s.op.outputs)}
        for target, seed in self.targets:
            stack: list[tuple[Value, tuple[Factor, ...]]] = [(target, ())]
            while stack:
                value, trail = stack.pop()
                if value.key in self._keys:
                    yield Path(seed, target, trail)
                    continue
                step, output = makers[value.key]
                for j in reversed(range(len(step.op.inputs))):
                    earlier = step.op.inputs[j]
                    if step.flows[j] and earlier.key in self._ahead:
                        stack.append((earlier, (*trail, Factor(step, output, j))))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps that lie on at least one path, in execution order."""
        ahead = self._ahead - self._keys
        return tuple(s for s in self.pass_.steps if any(v.key in ahead for v in s.op.outputs))

    @cached_property
    def missing(self) -> str:
        """Why there is no sum over all paths; "" if there is one."""
        large = "the Jacobians on the way are too large to multiply out"
        if sum(v.size for s in self.steps for v in s.op.outputs) > MOST_RUNS:
            return large
        products = [product for step in self.steps for product in step.products]
        locals_ = [local for product in products for *_, local in product.terms]
        if any(isinstance(local, LargeJacobian) for local in locals_):
            return large
        return next((product.missing for product in products if product.missing), "")

    @cached_property
    def total(self) -> Array | None:
        """The sum over all paths; None if their Jacobians are too large or take too many runs."""
        return None if self.missing else self._sum(np.asarray)

    @cached_property
    def agrees(self) -> bool | None:
        """Whether the sum is the trace's gradient, up to rounding; None if there is no sum."""
        return None if self.missing else same(self.gradient, self.total, self._sum(np.abs))

    def _sum(self, change: Callable[[Array], Array]) -> Array:
        """The sum over all paths of the products, `change` applied to each factor.

        One sweep in execution order: upstream · local is distributive, so what arrives at a value
        is summed before it goes on, as in TensorFlow's own pass.
        """
        arrived: dict[int, list[Array]] = {}
        for target, seed in self.targets:
            arrived.setdefault(target.key, []).append(change(wide(seed)))
        for step in self.steps:
            for product in step.products:
                key = product.value.key
                for i, _, local in product.terms:
                    row = arrived.get(step.op.outputs[i].key)
                    if row and key in self._ahead:
                        arrived.setdefault(key, []).append(times(total(row), change(local)))
        found = [row for key in self._keys for row in arrived.get(key, [])]
        return np.asarray(total(found or [np.zeros(self.source.shape)]))


# --- written out -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Fraction:
    """A derivative; `slot` says which input x is, if the op takes x more than once."""

    y: str
    x: str
    sign: str = "∂"
    slot: int = 0


@dataclass(frozen=True)
class Matrix:
    """Numbers in rows; a single number is written without brackets."""

    rows: tuple[tuple[str, ...], ...]
    exact: bool = True  # whether no digit was cut


Part = Fraction | Matrix | str  # a string is words, or dots for what is left out
Terms = Sequence[Sequence[Part]]  # a sum of products
DOTS = "⋯"


Line = tuple[str, Terms]  # a sign, or "", and the sum that follows


UNBROKEN: Any = {"subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}


def _joined(terms: Terms, write: Callable[[Part], str], times: str) -> str:
    return " + ".join(times.join(map(write, term)) for term in terms)


class Writer:
    """Writes one derivative, line by line."""

    def __init__(self, derivative: Derivative) -> None:
        self.derivative = derivative
        self.paths = derivative.paths
        if derivative.count > len(self.paths) and len(self.paths[0].factors) > MOST_FACTORS:
            self.paths = self.paths[:3]
        self.left = derivative.count - len(self.paths)
        self.targets = {target.key: target for target, _ in derivative.targets}
        ones = all(t.shape == () and np.all(seed == 1) for t, seed in derivative.targets)
        self.seeded = not ones or len(self.targets) < len(derivative.targets)  # one given twice

    def name(self, value: Value) -> str:
        """The learner's name of a value."""
        return value_name(self.derivative.trace, value)

    def left_side(self) -> Terms:
        """`dy/dx`, preceded by the upstream if that is not the number 1."""
        source = self.derivative.name
        return [
            [*self.seed(target), Fraction(self.name(target), source, "d")]
            for target in self.targets.values() or self.derivative.pass_.targets  # without a path
        ]

    def seed(self, target: Value) -> list[Part]:
        """The upstream of a target as a factor."""
        if not self.seeded:
            return []
        several = len(self.targets) > 1
        return [f"upstream of {self.name(target)}" if several else "upstream"]

    def lines(self) -> list[Line]:
        """The whole formula."""
        named = [self.product(path, self.seed(path.target), self.symbol) for path in self.paths]
        found = split("=", named)
        if self.left:
            words = f"{DOTS} ({count(self.left)} more path{'s' * (self.left != 1)})"
            found.append(("+", [[words]]))
        problem = self.problem()
        sums = self.numbers() if not problem and self.is_small() else []
        found += [line for terms in sums for line in split(relation(terms), terms)]
        found += self.result(problem, *sums[-1:])
        # The value of a product of one factor is not repeated; terms that read the same all stay.
        return found[:1] + [b for a, b in pairwise(found) if a != b or b[0] == "+"]

    def product(
        self, path: Path, seed: Sequence[Part], write: Callable[[Factor], Part]
    ) -> list[Part]:
        """The product of a path without identities; of a long one, dots stand for the middle."""
        factors = [factor for factor in path.factors if not is_folded(factor.step.op)]
        if len(factors) <= MOST_FACTORS:
            return [*seed, *map(write, factors)] or [row(1)]
        half = MOST_FACTORS // 2
        return [*seed, *map(write, factors[:half]), DOTS, *map(write, factors[1 - half :])]

    def symbol(self, factor: Factor) -> Fraction:
        """A factor in the learner's names."""
        y = self.name(factor.step.op.outputs[factor.output])
        x = self.name(factor.step.op.inputs[factor.input])
        return Fraction(y, x, slot=factor.slot)

    def is_small(self) -> bool:
        """Whether every tensor on the paths is small enough to write its Jacobians down."""
        values = [self.derivative.source]
        values += [v for s in self.derivative.steps for v in s.op.outputs]
        return not self.left and all(0 < value.size <= MOST_ENTRIES for value in values)

    def numbers(self) -> list[Terms]:
        """The products in numbers and, if there are several paths, the value of each product."""
        seeds = [[row(path.upstream)] if self.seeded else [] for path in self.paths]
        terms = [
            self.product(path, seed, jacobian) for path, seed in zip(self.paths, seeds, strict=True)
        ]
        if len(self.paths) > 1 and max(map(len, terms)) > 1:
            return [terms, [[row(path.products[-1])] for path in self.paths]]
        return [terms]

    def problem(self) -> str:
        """Why the product of the locals cannot be written as the gradient; empty if it can."""
        if not self.derivative.count:
            return "no path leads there"
        if self.derivative.missing or self.derivative.agrees:
            return self.derivative.missing
        steps = self.derivative.steps
        nonlinear = [s.op.name for s in steps if not all(p.is_linear for p in s.products)]
        found = f"the product of the locals would be {style.array(self.derivative.total)}"
        rules = " and ".join(f"`{name}`" for name in nonlinear[:3])
        return f"{found}: the rule of {rules} is not linear in its upstream" if rules else found

    def result(self, problem: str, terms: Terms = ()) -> list[Line]:
        """The gradient of the trace, after the sum of `terms`; or why it is not the product."""
        gradient = self.derivative.gradient
        small = 0 < gradient.size <= 4 * MOST_ENTRIES
        result = row(gradient, alone=True) if small else style.array(gradient)
        if not problem:
            sign = relation([[result]])
            written = [[plain(part).strip("()") for part in term] for term in terms]
            numbers = all(len(each) == 1 or "[" not in "".join(each) for each in written)
            if terms and sign == "=" and numbers:  # a product of matrices is not read again
                sign = style.equals(written, plain(result), DIGITS)
            return [(sign, [[result]])]
        said = f"gradient in this trace: {plain(result)}"
        return [("", [[words]]) for words in (said, *textwrap.wrap(f"({problem})", WIDTH - 20))]


def split(sign: str, terms: Terms) -> list[Line]:
    """A sum: on one line if it is short, else one line for each term."""
    if len(_joined(terms, plain, " · ")) <= SHORT:
        return [(sign, terms)]
    return [(sign if n == 0 else "+", [term]) for n, term in enumerate(terms)]


def count(n: int) -> str:
    """How many, in full up to a quadrillion."""
    return f"{n:,}" if n < 10**15 else f"about 10^{len(str(n)) - 1}"


def relation(terms: Terms) -> str:
    """The sign before numbers: `=` if they are printed exactly, else `≈`."""
    matrices = [part for term in terms for part in term if isinstance(part, Matrix)]
    return "=" if all(each.exact for each in matrices) else "≈"


def matrix(array: Array, alone: bool = False) -> Matrix:
    """A matrix; a single entry with a leading minus or a plus is in brackets unless `alone`."""
    rows = tuple(tuple(style.number(x, DIGITS) for x in entries) for entries in array)
    if array.size == 1 and not alone and re.search(rf"^{style.MINUS}|i$", rows[0][0]):
        rows = ((f"({rows[0][0]})",),)
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    return Matrix(rows, all(is_exact(x) for part in parts for x in part.reshape(-1)))


def is_exact(x: Any) -> bool:
    """Whether a real number is printed in full."""
    text = style.number(x, DIGITS).replace(style.MINUS, "-").replace(style.INFINITY, "inf")
    # The text is read in the number's dtype, because NumPy 1 would compare in float64.
    return bool(np.isnan(x) or x.dtype.type(float(text)) == x)


def row(array: Any, alone: bool = False) -> Matrix:
    """A tensor as a row vector of all its entries."""
    return matrix(np.asarray(array).reshape(1, -1), alone)


def jacobian(factor: Factor) -> Matrix:
    """The local Jacobian of a factor, a row for each entry of its output."""
    return matrix(factor.local.reshape(factor.step.op.outputs[factor.output].size, -1))


# --- notations -----------------------------------------------------------------------------------


def plain(factor: Part) -> str:
    """A factor as text for a terminal."""
    if isinstance(factor, str):
        return factor
    if isinstance(factor, Matrix):
        rows = [f"[{', '.join(row)}]" for row in factor.rows]
        if len(rows) == 1:
            return rows[0] if len(factor.rows[0]) > 1 else factor.rows[0][0]
        return f"[{', '.join(rows)}]"
    y, x = (n if re.fullmatch(r"[\w\[\]]*", n) else f"({n})" for n in (factor.y, factor.x))
    return f"{factor.sign}{y}/{factor.sign}{x}" + (f"|{factor.slot}" if factor.slot else "")


TEX_TIMES = r" \cdot "
TEX_SIGNS = {"=": "=", "≈": r"\approx", "+": r"\quad {} +"}
_TEX = {
    **{c: f"\\{c}" for c in "_{}$%#&"},
    "\\": r"\backslash{}",
    "^": r"\wedge{}",
    "~": r"\sim{}",
    " ": r"\ ",
    ":": "{:}",
    "'": r"\text{'}",
    "`": "",
    "·": r"\cdot{}",
    "⋯": r"\ldots{}",
    "-": "{-}",
    "<": r"\lt{}",
    ">": r"\gt{}",
}


def tex(factor: Part) -> str:
    """A factor in LaTeX that MathJax, KaTeX and pdfTeX can all read."""
    if isinstance(factor, str):
        return rf"\mathrm{{{''.join(_TEX.get(c, c) for c in factor)}}}"
    if isinstance(factor, Matrix):
        rows = [" & ".join(map(_tex_number, row)) for row in factor.rows]
        if len(rows) == len(factor.rows[0]) == 1:
            return rows[0]
        return r"\begin{pmatrix} " + r" \\ ".join(rows) + r" \end{pmatrix}"
    d = {"∂": r"\partial", "d": "d"}[factor.sign]
    found = rf"\frac{{{d} {_tex_name(factor.y)}}}{{{d} {_tex_name(factor.x)}}}"
    return rf"\left.{found}\right|_{{{factor.slot}}}" if factor.slot else found


def _tex_name(name: str) -> str:
    """A name after a d: a letter in italics, its number as a subscript; anything else upright."""
    letter = re.fullmatch(r"([^\W\d_])(?:_?(\d+))?", name)
    if letter:
        return letter[1] + (f"_{{{letter[2]}}}" if letter[2] else "")
    return rf"\, {tex(name)}"


def _tex_number(text: str) -> str:
    text = re.sub(r"e([−\d]+)", r" \\times 10^{\1}", text)
    text = text.replace("NaN", r"\mathrm{NaN}").replace(style.INFINITY, r"\infty")
    return text.replace(style.MINUS, "-")
