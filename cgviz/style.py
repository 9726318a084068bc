"""Looks: the palette, the symbols and the one number format of tables, figures and views.

    Palette   colours on white (`LIGHT`) and on near-black (`DARK`)
    Sign      a symbol and a word for NaN, infinity, zero and None
    number    one number, short
    equals    = or ≈, between a sum of products as printed and its printed result
    array     any array: a small one in full, a large one as a summary with its norm

Floats are rounded to at most five significant digits, whole ones only from ten million on, so that
a stored notebook reads the same on every machine. Nothing is told by colour alone: forward is solid
and backward dashed, and every sign has a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .graph.model import Statistics, readable, statistics

MINUS = "\N{MINUS SIGN}"
INFINITY = "\N{INFINITY}"


@dataclass(frozen=True)
class Palette:
    """Colours of one theme; text tones have a contrast of 4.5:1 or more, lines of 3:1."""

    paper: str
    text: str  # names and symbols
    muted: str  # second lines, legend
    forward: str  # arrows of values, solid
    forward_text: str
    backward: str  # arrows of gradients, dashed
    backward_text: str
    op: str  # outlines and words, by kind of node
    custom: str
    variable: str
    input: str
    constant: str
    scope: str
    fill: str  # inside of a node
    glow: str  # behind the step that is being taken

    def of(self, kind: str) -> str:
        """The tone of a kind of node."""
        return str(getattr(self, "variable" if kind == "use" else kind, self.op))


# Okabe and Ito's colours; where one is too pale for text, the same hue, darker or lighter.
_TONES = {  # on white, and on near-black
    "paper": ("#ffffff", "#111111"),
    "text": ("#1a1a1a", "#f2f2f2"),
    "muted": ("#5c5c5c", "#b0b0b0"),
    "forward": ("#0072B2", "#3C9FDB"),
    "forward_text": ("#005F96", "#7CC4F0"),
    "backward": ("#D55E00", "#E8752A"),
    "backward_text": ("#A34700", "#FF9A57"),
    "op": ("#4a4a4a", "#c9c9c9"),
    "custom": ("#8F3F73", "#E39AC6"),
    "variable": ("#00745A", "#3CC9A2"),
    "input": ("#0072B2", "#56B4E9"),
    "constant": ("#5c5c5c", "#b0b0b0"),
    "scope": ("#6B5A00", "#D9C54A"),
    "fill": ("#ffffff", "#1d1d1d"),
    "glow": ("#FBE3D0", "#4a2c16"),
}
LIGHT = Palette(**{name: light for name, (light, _) in _TONES.items()})
DARK = Palette(**{name: dark for name, (_, dark) in _TONES.items()})


def palette(background: tuple[float, float, float]) -> Palette:
    """The palette that is legible on a background, given as red, green and blue from 0 to 1.

    >>> palette((0, 0, 0)) is DARK
    True
    """
    luminance = np.dot((0.2126, 0.7152, 0.0722), np.power(background, 2.2))
    return LIGHT if luminance > 0.18 else DARK


@dataclass(frozen=True)
class Sign:
    """A symbol and a word for a value that needs a mark, such as NaN."""

    symbol: str
    word: str

    def __str__(self) -> str:
        return f"{self.symbol} {self.word}"


NAN = Sign("⚠", "NaN")
INFINITE = Sign("⚠", INFINITY)
ZERO = Sign("○", "0")
NONE = Sign("∅", "None")
BLOCKED = "⊘"


def sign(a: Any) -> Sign | None:
    """The sign of an array by the worst that applies: None, NaN, infinity, all zero; else no sign.

    >>> str(sign(np.array([1.0, np.nan])))
    '⚠ NaN'
    >>> sign(2.0) is None
    True
    """
    if a is None:
        return NONE
    if not isinstance(a, Statistics):
        a = readable(np.asarray(a))
        if a.dtype.kind in "OSUbV" or (a.any() and np.isfinite(a).all()):  # most have no sign
            return None
    found = statistics(a)
    if found.nans or found.infinities:
        return NAN if found.nans else INFINITE
    return ZERO if 0 < found.zeros == found.size else None


def mark(a: Any) -> str:
    """What is written before an array: the symbol of None, NaN or infinity, or nothing.

    >>> mark(np.inf), mark(0.0)
    ('⚠ ', '')
    """
    found = sign(a)
    return "" if found is None or found is ZERO else f"{found.symbol} "


def number(x: Any, digits: int = 4) -> str:
    """One number as short, honest text, the same on every machine.

    Args:
        x: A number, a NumPy scalar, an array with one entry, or None.
        digits: Significant digits of a number that is not written in full, at most 5.

    Returns:
        The text: integers, and whole floats below ten million, in full; never `-0`.

    >>> number(32.0), number(2.5838532), number(-0.0), number(1.2e-5), number(float("nan"))
    ('32', '2.584', '0', '1.2e−5', 'NaN')
    """
    if x is None:
        return NONE.word
    x = readable(np.asarray(x)).item(0)
    if isinstance(x, (bool, str, bytes)):
        return str(x)
    if isinstance(x, complex):
        imaginary = number(x.imag, digits)
        return f"{number(x.real, digits)}{'' if imaginary[0] == MINUS else '+'}{imaginary}i"
    if isinstance(x, int):
        return str(x).replace("-", MINUS)
    return _float(float(x), min(digits, 5))


@lru_cache(maxsize=4096)  # a number is written in many places: as value, upstream, term, product
def _float(x: float, digits: int) -> str:
    if np.isnan(x):
        return NAN.word
    if np.isinf(x):
        return (MINUS if x < 0 else "") + INFINITY
    exact = abs(x) < 1e7 and x == int(x)
    # Rounded up, the largest float64 overflows.
    near = x if exact else float(f"{x:.{5 if 1e4 <= abs(x) < 1e5 else digits}g}")
    if exact or (abs(near) < 1e5 and near == int(near)):
        text = str(int(near))
    else:
        text = re.sub(r"e\+?(-?)0*", r"e\1", f"{x:.{digits}g}")
    return text.replace("-", MINUS)


def factor(number: str) -> str:
    """A number as a factor behind a sign: in brackets if it has a sign of its own.

    >>> factor("2"), factor("−3"), factor("1−2i")
    ('2', '(−3)', '(1−2i)')
    """
    return f"({number})" if number.startswith(MINUS) or number.endswith("i") else number


def product(factors: Sequence[str]) -> str:
    """Numbers as a product, with brackets where two signs would meet.

    >>> product(["−2", "−3", "1−2i"])
    '−2 · (−3) · (1−2i)'
    """
    first, *others = factors
    return " · ".join([factor(first) if first.endswith("i") else first, *map(factor, others)])


def added(terms: Sequence[str]) -> str:
    """Numbers as a sum, in which a negative one is subtracted.

    >>> added(["1", "−2", "3"])
    '1 − 2 + 3'
    """
    return " + ".join(terms).replace(f"+ {MINUS}", f"{MINUS} ")


def equals(products: Sequence[Sequence[str]], result: str, digits: int = 4) -> str:
    """The sign between a sum of products and `result`: ≈ if the printed numbers disagree, else =.

    >>> equals([("1.701", "1.701")], "2.895"), equals([("2", "−3"), ("1", "4")], "−2")
    ('≈', '=')
    >>> equals([["[0.1235, 1]"], ["[0.1235, 1]"]], "[0.2469, 2]")
    '≈'
    """

    def read(text: str) -> Any:
        return np.asarray(json.loads(text.replace(MINUS, "-")), dtype=float)

    try:
        found, given = sum(prod(map(read, each)) for each in products), read(result)
        pairs = zip(found.flat, given.flat, strict=True)
        alike = [number(x, digits) == number(y, digits) for x, y in pairs]
    except ValueError:  # not written out, or no ordinary numbers
        return "="
    return "=" if all(alike) else "≈"


def shape(a: Any) -> str:
    """The shape of an array as `[512×512]`; a scalar has none.

    >>> shape(np.zeros((2, 3)))
    '[2×3]'
    """
    sizes = getattr(a, "shape", ())
    return f"[{'×'.join(map(str, sizes))}]" if sizes else ""


def array(a: Any, *, digits: int = 4, most: int = 9, rows: str = ", ") -> str:
    """An array as text: in full if it is small, else its type, shape and norm.

    Args:
        a: Anything that NumPy takes as an array, or None.
        digits: Significant digits of its numbers.
        most: The largest number of entries that are written out.
        rows: The separator between the rows of a matrix; a figure breaks the line there.

    Returns:
        For example `7`, `[2, 4, 6]`, `[[1, 2], [3, 4]]`, or
        `float32 [512×512] L2 norm 3.1`.

    >>> array([2.0, 4.0, 6.0]), array(7.0), array(None)
    ('[2, 4, 6]', '7', 'None')
    >>> array(np.ones((3, 12), np.float32))
    'float32 [3×12] L2 norm 6'
    """
    if a is None:
        return NONE.word
    if isinstance(a, Statistics):
        return summary(a)
    a = np.asarray(a)
    if a.ndim == 0:
        return number(a, digits)
    if a.ndim > 2 or not 0 < a.size <= most or a.shape[-1] > 6:
        return summary(a)
    lines = [", ".join(number(x, digits) for x in row) for row in np.atleast_2d(readable(a))]
    return f"[{lines[0]}]" if a.ndim == 1 else f"[{rows.join(f'[{line}]' for line in lines)}]"


def summary(a: Any, *, dtype: bool = True) -> str:
    """A large array in one line: dtype, shape, what is wrong with it, or else its L2 norm.

    >>> summary(np.array([[np.nan, 1.0]] * 20))
    'float64 [20×2] 20 of 40 NaN'
    """
    if not isinstance(a, Statistics):
        a = np.asarray(a)
    head = f"{a.dtype} {shape(a)}".strip() if dtype else shape(a)
    if a.size == 0:
        return f"{head} empty"
    if not isinstance(a, Statistics) and readable(a).dtype.kind not in "biufc":
        return head
    a = statistics(a)
    for bad, word in ((a.nans, NAN.word), (a.infinities, INFINITY)):
        if bad:
            return f"{head} {bad} of {a.size} {word}"
    if a.norm is None:
        return f"{head} numbers not in the file"
    return f"{head} all 0" if a.zeros == a.size else f"{head} L2 norm {number(a.norm)}"
