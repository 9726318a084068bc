"""The chain rule read off a trace: every path from the target to a source, products and sums.

    dy/dx = sum over the paths from y to x of the product of the local Jacobians along the path

Each path's product starts with the upstream of the target, a row vector, so that the products
have the shape of the source and their sum is the gradient that TensorFlow computed.
"""

from __future__ import annotations

from ..graph import Array, Pass, Trace
from ..graph.names import value_name
from . import formula
from .paths import Derivative, Path


def chain_rule(trace: Trace, which: int | None = None) -> ChainRule:
    """What `trace.chain_rule` returns."""
    return ChainRule(trace, trace.pass_(which))


class ChainRule:
    r"""The chain rule of one backward pass, in symbols and in this trace's numbers.

    A cell that ends in it shows the formula; `str()` gives the same as text, `.latex` as LaTeX.

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
        self.trace = trace
        self.pass_ = each
        self.sources = tuple(
            Derivative(trace, each, value_name(trace, source), source, gradient)
            for source, gradient in zip(each.sources, each.gradients, strict=True)
            if gradient is not None
        )

    @property
    def unreached(self) -> tuple[str, ...]:
        """The names of the sources that got no gradient."""
        pairs = zip(self.pass_.sources, self.pass_.gradients, strict=True)
        return tuple(value_name(self.trace, source) for source, g in pairs if g is None)

    @property
    def paths(self) -> list[Path]:
        """The paths of every source, at most 8 each; `.sources[k].count` is how many there are."""
        return [path for source in self.sources for path in source.paths]

    @property
    def total(self) -> dict[str, Array | None]:
        """By the name of the source: the sum over all paths, of the source's shape."""
        return {source.name: source.total for source in self.sources}

    def __repr__(self) -> str:
        return formula.text(self.trace, self.sources, self.unreached)

    @property
    def latex(self) -> str:
        """The same in LaTeX, between dollar signs, to be taken to a slide or a paper."""
        return formula.latex(self.trace, self.sources, self.unreached)

    def _repr_latex_(self) -> str:
        return self.latex
