"""One derivative over a range: what the rule claims, what autodiff of its body says, and truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import style
from ..graph import Array
from ..recording import tf_hooks
from .case import Case
from .differences import slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 121  # a point in every second pixel of the picture, and one at 0


@dataclass(frozen=True)
class Sweep:
    """The derivative of the outputs' sum by one entry, as that runs from left to right."""

    output: str
    name: str
    at: Array
    custom: Array
    body: Array
    true: Array
    here: float


def sweep(case: Case) -> Sweep:
    """Move the first entry of the first input over a range around 0 that holds all its numbers."""
    judged = case.judged
    leaf = judged.leaves[0]
    part = judged.x[leaf.start : leaf.stop]
    half = max(2.0 * float(np.max(np.abs(part), initial=0.0)), 1.0)
    at = np.linspace(-half, half, POINTS)
    scale = float(2.0 ** np.round(np.log2(half / 8)))
    unit = np.eye(1, judged.x.size, leaf.start)[0]

    def true(x: Array) -> float:
        def along(t: float) -> Array:
            return np.array([judged.forward(x + t * scale * unit).sum()])

        with np.errstate(all="ignore"):
            found = slope(along, along(0.0), case.dtype.eps)
        vague = found.error[0] > 0.05 * abs(found.value[0]) + 1e-3
        known = not (vague or found.jump[0] or found.kink[0])
        return float(found.value[0] / scale) if known else float("nan")

    points = [np.where(unit == 1, t, judged.x) for t in at]
    custom = [judged.pull(None, x).vector[leaf.start] for x in points]
    with tf_hooks.rules_ignored():
        body = [judged.pull(None, x).vector[leaf.start] for x in points]
    return Sweep(
        "out" if case.y.size == 1 else "sum(out)",
        case.input_name(leaf.start),
        at,
        np.array(custom),
        np.array(body),
        np.array([true(x) for x in points]),
        float(judged.x[leaf.start]),
    )


def plot(found: Sweep, ax: Any = None) -> Axes:
    """Draw a sweep: three lines that differ in dash as well as in colour."""
    import matplotlib.pyplot as plt

    from ..drawing.figure import SpokenFigure

    if ax is None:
        size = (6.4, 3.6)
        ax = plt.figure(figsize=size, layout="constrained", FigureClass=SpokenFigure).subplots()
    tones = style.LIGHT
    ax.plot(found.at, found.true, color=tones.text, lw=4, alpha=0.25, label="finite differences")
    ax.plot(found.at, found.body, color=tones.forward, lw=1.8, label="autodiff of the body")
    ax.plot(found.at, found.custom, color=tones.backward, lw=2.2, ls="--", label="custom rule")
    ax.axvline(found.here, color=tones.muted, lw=1.2, ls=":", label="the point checked")
    ax.set_xlabel(found.name)
    ax.set_ylabel(f"d {found.output} / d {found.name}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    ax.cgviz_alt = describe(found)
    if isinstance(ax.figure, SpokenFigure):
        ax.figure.alt = ax.cgviz_alt
    return ax


def describe(found: Sweep) -> str:
    """The picture in sentences: what it shows, and the three lines at both ends."""
    lines = (
        ("custom rule", found.custom),
        ("autodiff of the body", found.body),
        ("finite differences", found.true),
    )
    ends = [f"{name} {style.number(y[0])} and {style.number(y[-1])}" for name, y in lines]
    span = f"{style.number(found.at[0])} to {style.number(found.at[-1])}"
    return (
        f"The derivative d sum(out) / d {found.name}, as {found.name} runs from {span}. "
        f"At the two ends: {', '.join(ends)}."
    )
