r"""Two notations for one formula: text for a terminal, LaTeX for a notebook.

`Plain` writes ∂y/∂a, `Tex` writes \frac{\partial y}{\partial a}; `formula` tells them what.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import style


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
