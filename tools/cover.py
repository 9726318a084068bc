"""Draw the picture at the top of README.md, for light and for dark pages."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import tensorflow as tf

import cgviz

PICTURES = Path(__file__).resolve().parents[1] / "notebooks" / "images"
PAPERS = {"light": "#ffffff", "dark": "#0d1117"}


def f(x: tf.Tensor) -> tf.Tensor:
    """The function that README.md shows."""
    return x * x + 3.0 * x


def main() -> None:
    """Write both pictures."""
    trace = cgviz.trace(f, 2.0)
    for theme, paper in PAPERS.items():
        with mpl.rc_context({"figure.facecolor": paper, "axes.facecolor": paper}):
            trace.save(PICTURES / f"flow_{theme}.svg")


if __name__ == "__main__":
    main()
