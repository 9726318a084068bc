"""The chain rule read off a trace: the paths from the target to each source, products and sums.

    dy/dx = sum over the paths from y to x of the product of the local Jacobians along the path

Each path's product starts with the upstream of the target, a row vector, so that the products
have the shape of the source and their sum is the gradient that TensorFlow computed. There may be
exponentially many paths: they are counted, and summed, in one sweep over the steps each, and only
a few are ever walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from typing import Any

import numpy as np

from ..graph import Array, Op, Pass, Step, Trace, Value, total, wide
from ..graph.jacobian import LargeJacobian, is_linear, same, times
from ..graph.names import value_name
from . import formula

MOST_PATHS = 8  # kept for each source: more are not read one by one
MOST_RUNS = 2_000  # runs of backward rules that one total may cost, about 0.2 s


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
        names = [value_name(trace, source) for source in each.sources]
        named = list(zip(names, each.sources, each.gradients, strict=True))
        self.sources = tuple(Derivative(trace, each, n, s, g) for n, s, g in named if g is not None)
        self.unreached = tuple(name for name, _, g in named if g is None)  # got no gradient

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


@dataclass(frozen=True, eq=False)
class Factor:
    """One edge of a path: from an output of a step's op back to one of its inputs."""

    step: Step
    output: int
    input: int

    @property
    def op(self) -> Op:
        """The op whose rule this is."""
        return self.step.op

    @property
    def local(self) -> Any:
        """The local Jacobian: a number, an array, or a `LargeJacobian`."""
        return self.step.local[self.output][self.input]

    @property
    def slot(self) -> int:
        """Which input it is, from 1, where the op takes the same value twice, as `x * x` does."""
        keys = [value.key for value in self.op.inputs]
        return self.input + 1 if keys.count(keys[self.input]) > 1 else 0


@dataclass(frozen=True, eq=False)
class Path:
    """One way from a target of the pass back to a source: its factors, target first."""

    source: str
    upstream: Array
    target: Value
    factors: tuple[Factor, ...]

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops along the path, target first."""
        return tuple(factor.op for factor in self.factors)

    @property
    def locals(self) -> tuple[Any, ...]:
        """The local Jacobian of each factor."""
        return tuple(factor.local for factor in self.factors)

    @cached_property
    def product(self) -> Array | None:
        """Upstream · local · ... · local, of the source's shape; None with a `LargeJacobian`."""
        if any(isinstance(local, LargeJacobian) for local in self.locals):
            return None
        return reduce(_times_or_zero, self.factors, wide(self.upstream))

    def __repr__(self) -> str:
        return f"<Path to {self.source}: {' <- '.join(op.name for op in self.ops)}>"


class Derivative:
    """What the chain rule says about one source: its paths, their sum, the trace's gradient."""

    def __init__(self, trace: Trace, each: Pass, name: str, source: Value, gradient: Array) -> None:
        self.name = name
        self.source = source
        self.gradient = gradient
        self._trace = trace
        self._pass = each
        maker = trace.producer(source)
        versions = maker[0].outputs if maker and maker[0].kind == "variable" else (source,)
        self._keys = {value.key for value in versions}

    @cached_property
    def _counts(self) -> dict[int, int]:
        """For each value, how many paths lead from it back to the source."""
        counts = dict.fromkeys(self._keys, 1)
        for step in reversed(self._pass.steps):
            pairs = zip(step.op.inputs, step.flows, strict=True)
            ways = sum(counts.get(value.key, 0) for value, flows in pairs if flows)
            if ways:
                for value, upstream in zip(step.op.outputs, step.received, strict=True):
                    if upstream is not None and value.key not in self._keys:
                        counts[value.key] = counts.get(value.key, 0) + ways
        return counts

    @property
    def count(self) -> int:
        """How many paths there are."""
        return sum(self._counts.get(value.key, 0) for value in self._pass.targets)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The first 8 paths."""
        return tuple(islice(self.walk(), MOST_PATHS))

    def walk(self) -> Iterator[Path]:
        """Every path, one after the other; `count` tells how many that would be."""
        makers = {v.key: (s, i) for s in self._pass.steps for i, v in enumerate(s.op.outputs)}
        for target, seed in zip(self._pass.targets, self._pass.seeds, strict=True):
            if not self._counts.get(target.key) or seed is None:
                continue
            stack: list[tuple[Value, tuple[Factor, ...]]] = [(target, ())]
            while stack:
                value, trail = stack.pop()
                if value.key in self._keys:
                    yield Path(self.name, seed, target, trail)
                    continue
                step, output = makers[value.key]
                for j in reversed(range(len(step.op.inputs))):
                    earlier = step.op.inputs[j]
                    if step.flows[j] and self._counts.get(earlier.key):
                        stack.append((earlier, (*trail, Factor(step, output, j))))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps that lie on at least one path, in execution order."""
        reached = {value.key for value in self._pass.targets}
        found = []
        for step in self._pass.steps:
            made = {v.key for v in step.op.outputs}
            pairs = zip(step.op.inputs, step.flows, strict=True)
            ahead = {v.key for v, flows in pairs if flows} & self._counts.keys()
            if ahead and made & reached and made.isdisjoint(self._keys):
                found.append(step)
                reached |= ahead
        return tuple(found)

    @cached_property
    def total(self) -> Array | None:
        """The sum over all paths; None where a Jacobian on them is too large to write down."""
        found = self._sums
        return None if found is None else found[0]

    @cached_property
    def _sums(self) -> tuple[Array, Array] | None:
        """The sum over all paths of the products, and of the products' absolute values.

        One sweep in execution order: upstream · local is distributive, so what arrives at a value
        is summed before it goes on, as in TensorFlow's own pass.
        """
        if sum(v.size for s in self.steps for v in s.op.outputs) > MOST_RUNS:
            return None
        arrived: dict[int, list[tuple[Array, Array]]] = {}
        for target, seed in zip(self._pass.targets, self._pass.seeds, strict=True):
            if seed is not None and target.key in self._counts:
                arrived.setdefault(target.key, []).append((wide(seed), np.abs(wide(seed))))
        for step in self.steps:
            for value, locals_ in zip(step.op.outputs, step.local, strict=True):
                if value.key not in arrived:
                    continue
                row, size = map(total, zip(*arrived[value.key], strict=True))
                for earlier, local in zip(step.op.inputs, locals_, strict=True):
                    if isinstance(local, LargeJacobian):
                        return None
                    if local is not None and earlier.key in self._counts:
                        pair = times(row, local), times(size, np.abs(local))
                        arrived.setdefault(earlier.key, []).append(pair)
        zero = np.zeros(self.source.shape)
        found = [pair for key in self._keys for pair in arrived.get(key, [])] or [(zero, zero)]
        row, size = map(total, zip(*found, strict=True))
        return row, size

    @cached_property
    def agrees(self) -> bool | None:
        """Whether the sum is the trace's gradient, to rounding; None where there is no sum."""
        if self._sums is None:
            return None
        return same(self.gradient, *self._sums)

    @cached_property
    def nonlinear(self) -> tuple[Op, ...]:
        """The ops on the paths whose rule is not linear in its upstream."""
        return tuple(step.op for step in self.steps if not is_linear(step))


def _times_or_zero(row: Array, factor: Factor) -> Array:
    """The next row vector along a path; a rule that returned nothing here claims zeros."""
    if factor.local is None:
        return np.zeros(factor.op.inputs[factor.input].shape)
    return times(row, factor.local)
