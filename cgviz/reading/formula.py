r"""A chain rule written out: as LaTeX for a notebook, as text for a terminal.

Both say the same, line by line, from one description; only the notation differs. An equals sign
is only between what is equal as printed: where digits were cut it is ≈, and where the product
of the locals is not the gradient of the trace, a sentence says so instead.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import style
from ..graph import Array, Trace, Value
from ..graph.names import is_folded, value_name

if TYPE_CHECKING:
    from .chain_rule import Derivative, Path

MOST_ENTRIES = 4  # of a tensor whose Jacobians are written as matrices, at most 4 by 4
MOST_FACTORS = 8  # of a product that is written in full: about a line
MOST_SOURCES = 8  # that have a formula of their own: about a screen
WIDTH = 96  # columns: 100 less the brackets and signs that are added to a full line


@dataclass(frozen=True)
class Line:
    """One line of a formula: a sign, and the factors that follow it."""

    relation: str  # "=", "≈", "+", or a few words
    factors: tuple[str, ...]


def text(trace: Trace, sources: Sequence[Derivative], unreached: Sequence[str]) -> str:
    """The chain rule as text, at most about 96 columns wide where names are short.

    Args:
        trace: What it is read off.
        sources: The derivative by each source that has a gradient.
        unreached: The names of the sources that have none.
    """
    blocks = []
    for derivative in sources[:MOST_SOURCES]:
        writer = Writer(trace, derivative, Plain())
        left = writer.left_side()
        indent = len(left) if len(left) <= WIDTH // 3 else 1
        lines = [line for each in writer.lines() for line in _wrapped(each, indent)]
        rows = [f"{'':{indent}} {line}" for line in lines]
        rows[0] = f"{left} {lines[0]}" if indent > 1 else f"{left}\n{rows[0]}"
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks + _rest(sources, unreached))


def latex(trace: Trace, sources: Sequence[Derivative], unreached: Sequence[str]) -> str:
    """The same as one LaTeX display."""
    to = Tex()
    blocks = []
    for derivative in sources[:MOST_SOURCES]:
        writer = Writer(trace, derivative, to)
        lines = [f"&{to.relation(x.relation)} {to.times.join(x.factors)}" for x in writer.lines()]
        lines[0] = f"{writer.left_side()} {lines[0]}"
        blocks.append(" \\\\[0.3em]\n".join(lines))
    blocks += [f"&{to.word(sentence)}" for sentence in _rest(sources, unreached)]
    body = " \\\\[1.2em]\n".join(blocks)
    return f"$$\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}\n$$"


def _rest(sources: Sequence[Derivative], unreached: Sequence[str]) -> list[str]:
    """What is said after the formulas: sources left out, sources without a gradient."""
    found = []
    left = len(sources) - MOST_SOURCES
    if left > 0:
        found.append(f"and {left} more source{'s' * (left > 1)}")
    if unreached:
        left = len(unreached) - MOST_SOURCES
        more = f" and {left} more" if left > 0 else ""
        found.append(f"no gradient: {', '.join(unreached[:MOST_SOURCES])}{more}")
    return found or ([] if sources else ["no sources"])


def _wrapped(line: Line, indent: int) -> list[str]:
    """A line as one or more lines of text, broken between factors."""
    rows = [line.relation]
    for i, factor in enumerate(line.factors):
        piece = f"{' ' if line.relation else ''}{factor}" if i == 0 else f" · {factor}"
        if len(rows[-1] + piece) + indent > WIDTH and i:
            rows.append(" ")
        rows[-1] += piece
    return rows


class Writer:
    """Writes one derivative, line by line, in a notation."""

    def __init__(self, trace: Trace, derivative: Derivative, notation: Plain | Tex) -> None:
        self.trace = trace
        self.derivative = derivative
        self.to = notation
        self.paths = derivative.paths
        if derivative.count > len(self.paths) and len(self.paths[0].factors) > MOST_FACTORS:
            self.paths = self.paths[:3]
        self.left = derivative.count - len(self.paths)
        self.seeded = any(_is_seeded(path) for path in self.paths)

    def name(self, value: Value) -> str:
        """The learner's name of a value."""
        return value_name(self.trace, value)

    def left_side(self) -> str:
        """`dy/dx`, with the upstream before it where it is not the number 1."""
        source = self.derivative.name
        targets = list({path.target.key: path for path in self.paths}.values())
        terms = [
            self.to.times.join([*self.seed(path), self.to.whole(self.name(path.target), source)])
            for path in targets
        ]
        return " + ".join(terms) or self.to.whole("", source)

    def seed(self, path: Path) -> list[str]:
        """The upstream of a path's target as a factor."""
        if not self.seeded:
            return []
        several = len({p.target.key for p in self.paths}) > 1
        of = f" of {self.name(path.target)}" if several else ""
        return [self.to.word(f"upstream{of}")]

    def lines(self) -> list[Line]:
        """The whole formula."""
        found = self.sum([self.symbols(path) for path in self.paths], "=")
        if self.left:
            words = f"({count(self.left)} more path{'s' * (self.left != 1)})"
            found.append(Line("+", (f"{self.to.dots} {self.to.word(words)}",)))
        problem = self.problem()
        if not problem and self.is_small():
            found += self.numbers()
        elif self.is_long():
            found += self.sum([self.shapes(path) for path in self.paths[:1]], "of shapes")
        found += self.result(problem)
        repeated = [a == b and b.relation != "+" for a, b in pairwise(found)]
        return [line for line, again in zip(found, [False, *repeated], strict=True) if not again]

    def sum(self, terms: list[list[str]], relation: str) -> list[Line]:
        """A sum: on one line if it is short, else one line for each term."""
        if self.to.fits(terms):
            return [Line(relation, (" + ".join(map(self.to.times.join, terms)),))]
        relations = [relation] + ["+"] * (len(terms) - 1)
        return [Line(r, tuple(t)) for r, t in zip(relations, terms, strict=True)]

    # --- symbols ---

    def symbols(self, path: Path) -> list[str]:
        """The product of a path in the learner's names."""
        factors = self.seed(path)
        for factor in self.cut(path):
            if factor is None:
                factors.append(self.to.dots)
                continue
            y = self.name(factor.op.outputs[factor.output])
            x = self.name(factor.op.inputs[factor.input])
            factors.append(self.to.partial(y, x, factor.slot))
        return factors or ["1"]

    def cut(self, path: Path) -> list[Any]:
        """The factors but for identities, with None for those left out of a long product."""
        factors = [factor for factor in path.factors if not is_folded(factor.op)]
        if len(factors) <= MOST_FACTORS:
            return factors
        half = MOST_FACTORS // 2
        return [*factors[:half], None, *factors[1 - half :]]

    def shapes(self, path: Path) -> list[str]:
        """The shapes of a path's factors, each tensor counted as one row of its entries."""
        factors = [self.to.shape(1, path.target.size)] if self.seeded else []
        for factor in self.cut(path):
            if factor is None:
                factors.append(self.to.dots)
            else:
                output = factor.op.outputs[factor.output]
                factors.append(self.to.shape(output.size, factor.op.inputs[factor.input].size))
        return factors

    # --- numbers ---

    def is_small(self) -> bool:
        """Whether every tensor on the paths is small enough to write its Jacobians down."""
        values = [self.derivative.source]
        values += [v for s in self.derivative.steps for v in s.op.outputs]
        return not self.left and all(0 < value.size <= MOST_ENTRIES for value in values)

    def is_long(self) -> bool:
        """Whether any tensor on the paths is no scalar, so that shapes tell something."""
        return any(v.size > 1 for s in self.derivative.steps for v in s.op.outputs)

    def numbers(self) -> list[Line]:
        """The products in numbers, and where there are several, the values of each."""
        products = [self.product(path) for path in self.paths]
        found = self.sum([p for p, _ in products], relation(all(exact for _, exact in products)))
        if len(self.paths) > 1 and max(len(p) for p, _ in products) > 1:
            values = [path.product for path in self.paths]
            texts = [(self.row(v),) for v in values]
            found += self.sum([list(t) for t in texts], relation(all(map(is_exact, values))))
        return found

    def product(self, path: Path) -> tuple[list[str], bool]:
        """The product of a path in numbers, and whether they are printed in full."""
        arrays: list[Array] = [path.upstream] if self.seeded else []
        texts = [self.row(path.upstream)] if self.seeded else []
        for factor in self.cut(path):
            if factor is None:
                texts.append(self.to.dots)
                continue
            output = factor.op.outputs[factor.output]
            local = np.zeros(1) if factor.local is None else np.asarray(factor.local)
            arrays.append(local)
            texts.append(self.entries(local.reshape(output.size, -1)))
        return texts or [self.to.number("1")], all(map(is_exact, arrays))

    def row(self, array: Any) -> str:
        """A tensor as a row vector of all its entries."""
        return self.entries(np.asarray(array).reshape(1, -1))

    def entries(self, matrix: Array) -> str:
        """A matrix; of one entry, the number, in brackets where a sign would hang loose."""
        if matrix.size == 1:
            text = number(matrix)
            loose = text.startswith(style.MINUS) or "+" in text
            return f"({self.to.number(text)})" if loose else self.to.number(text)
        return self.to.matrix([[self.to.number(number(x)) for x in row] for row in matrix])

    # --- the result ---

    def problem(self) -> str:
        """Why no product of locals can be written as the gradient; empty if it can."""
        if not self.derivative.count:
            return "no path leads there"
        try:
            agrees = self.derivative.agrees
            if agrees is None:
                return "the Jacobians on the way are too large to multiply out"
            if agrees:
                return ""
            nonlinear = [op.name for op in self.derivative.nonlinear]
        except RuntimeError as error:
            return str(error)
        total = style.array(self.derivative.total)
        why = "a factor that is not finite does not keep to the rules of numbers"
        if nonlinear:
            rules = " and ".join(f"`{name}`" for name in nonlinear[:3])
            why = f"the rule of {rules} is not linear in its upstream"
        elif np.isfinite(self.derivative.total).all():  # type: ignore[arg-type]
            why = "they differ by more than rounding"
        return f"the product of the locals would be {total}: {why}"

    def result(self, problem: str) -> list[Line]:
        """The gradient of the trace, and what keeps it from being the product."""
        gradient = self.derivative.gradient
        if 0 < gradient.size <= 4 * MOST_ENTRIES:
            text = self.row(gradient)
            if gradient.size == 1:
                text = text.strip("()")
            exact = is_exact(gradient)
        else:
            text, exact = self.to.word(style.array(gradient)), True
        if not problem:
            return [Line(relation(exact), (text,))]
        notes = textwrap.wrap(f"({problem})", WIDTH - 20)
        found = [Line("", (f"{self.to.word('gradient in this trace: ')}{text}",))]
        return found + [Line("", (self.to.word(note),)) for note in notes]


def count(n: int) -> str:
    """How many, in full up to a quadrillion."""
    return f"{n:,}" if n < 10**15 else f"about 10^{len(str(n)) - 1}"


def relation(exact: bool) -> str:
    """The sign before numbers."""
    return "=" if exact else "≈"


def number(x: Any) -> str:
    """One number, in the one format."""
    return style.number(x, 5)


def is_exact(array: Any) -> bool:
    """Whether the printed numbers are the numbers themselves."""
    array = np.asarray(array)
    if array.dtype.kind == "c":
        return is_exact(array.real) and is_exact(array.imag)
    # What is printed is read in the array's own dtype, for NumPy 1 compares in float64.
    return all(np.isnan(x) or array.dtype.type(_parsed(number(x))) == x for x in array.reshape(-1))


def _parsed(text: str) -> float:
    return float(text.replace(style.MINUS, "-").replace(style.INFINITY, "inf"))


def _is_seeded(path: Path) -> bool:
    return path.target.shape != () or not np.all(path.upstream == 1)


# --- notations -----------------------------------------------------------------------------------


class Plain:
    """Text for a terminal."""

    times = " · "
    dots = "⋯"
    word = staticmethod(str)

    def fits(self, terms: Sequence[Sequence[str]]) -> bool:
        """Whether a sum of products is short enough for one line."""
        return len(terms) > 1 and sum(len(f) + 3 for term in terms for f in term) <= 60

    def name(self, name: str) -> str:
        """A learner's name."""
        return name if re.fullmatch(r"[\w\[\]]+", name) else f"({name})"

    def partial(self, y: str, x: str, slot: int) -> str:
        """A local derivative; the slot tells x as one input from x as another."""
        return f"∂{self.name(y)}/∂{self.name(x)}" + (f"|{slot}" if slot else "")

    def whole(self, y: str, x: str) -> str:
        """The derivative over all paths."""
        return f"d{self.name(y)}/d{self.name(x)}"

    def number(self, text: str) -> str:
        """A number, as `style` writes it."""
        return text

    def matrix(self, rows: Sequence[Sequence[str]]) -> str:
        """A matrix of numbers, or a row vector."""
        lines = [f"[{', '.join(row)}]" for row in rows]
        return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"

    def shape(self, rows: int, columns: int) -> str:
        """The shape of a factor."""
        return f"[{rows}×{columns}]"


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
    "-": "{-}",
    "<": r"\lt{}",
    ">": r"\gt{}",
}


class Tex:
    """LaTeX as MathJax, KaTeX and pdfTeX read it."""

    times = r" \cdot "
    dots = r"\ldots"

    def fits(self, terms: Sequence[Sequence[str]]) -> bool:
        """Whether a sum of products is short enough for one line."""
        return len(terms) > 1 and sum(map(len, terms)) <= 4

    def escape(self, text: str) -> str:
        """Text inside an upright group."""
        return "".join(_TEX.get(c, c) for c in text)

    def word(self, text: str) -> str:
        """A few words in a formula: letters, digits and plain punctuation."""
        return rf"\mathrm{{{self.escape(text)}}}"

    def relation(self, sign: str) -> str:
        """An equals sign, a plus, or a few words."""
        if sign in ("=", "≈"):
            return sign.replace("≈", r"\approx")
        return r"\quad {} +" if sign == "+" else self.word(sign + " ")

    def name(self, name: str) -> str:
        """A learner's name: one letter slanted, with its number below; anything else upright."""
        letter = re.fullmatch(r"([^\W\d_])(?:_?(\d+))?", name)
        if letter:
            return letter[1] + (f"_{{{letter[2]}}}" if letter[2] else "")
        return self.word(name)

    def partial(self, y: str, x: str, slot: int) -> str:
        """A local derivative; the slot tells x as one input from x as another."""
        fraction = rf"\frac{{\partial {self._after(y)}}}{{\partial {self._after(x)}}}"
        return rf"\left.{fraction}\right|_{{{slot}}}" if slot else fraction

    def whole(self, y: str, x: str) -> str:
        """The derivative over all paths."""
        return rf"\frac{{d {self._after(y)}}}{{d {self._after(x)}}}"

    def _after(self, name: str) -> str:
        """A name after a d, with a thin space where it is a word."""
        written = self.name(name)
        return rf"\, {written}" if written.startswith("\\") else written

    def number(self, text: str) -> str:
        """A number, as `style` writes it."""
        text = re.sub(r"e([−\d]+)", r" \\times 10^{\1}", text)
        text = text.replace("NaN", r"\mathrm{NaN}").replace(style.INFINITY, r"\infty")
        return text.replace(style.MINUS, "-")

    def matrix(self, rows: Sequence[Sequence[str]]) -> str:
        """A matrix of numbers, or a row vector."""
        body = r" \\ ".join(" & ".join(row) for row in rows)
        return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}"

    def shape(self, rows: int, columns: int) -> str:
        """The shape of a factor."""
        return rf"[{rows} \times {columns}]"
