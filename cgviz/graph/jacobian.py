"""The local Jacobian of a step: its backward rule run with unit vectors; and upstream · local.

A rule is a vector-Jacobian product: it maps an upstream u to u · J and never writes J down. With
u = (1, 0, ..., 0) it returns the first row of J, and so on. A rule need not be linear in its
upstream (one that clips gradients is not); then J is what the rule claims at unit upstream.
A `Product` has upstream · J beside what the rule returned in its pass: all that is shown or asked
about an input of a step is read from there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from .model import Array, Step, Value, total, wide
from .names import ELEMENTWISE

MOST_RUNS = 256  # entries of an output: the rule runs once for each, about 0.1 ms a run
MOST_NUMBERS = 65_536  # entries of a Jacobian: half a megabyte, and more than anybody reads
MOST_SIDE = 8  # rows and columns of a Jacobian that is shown with its numbers
# Of these an entry of the output depends on one entry of an input of its shape.
DIAGONAL = ELEMENTWISE | {"Mul", "RealDiv", "DivNoNan", "Pow"}

Local = tuple[tuple[Any, ...], ...]


def local_jacobians(step: Step) -> Local:
    """`local[i][j]`: the Jacobian of output i with respect to input j, as the rule claims it.

    Each has the shape of output i followed by that of input j. None where nothing flows:
    no upstream reached the output, or the rule returns nothing for the input, or the dtype of
    either has no gradient, such as int32. Where output i has more than 256 entries, or the Jacobian
    more than 65,536, there is a `LargeJacobian` instead.

    Raises:
        RuntimeError: The rule has no local that explains its pass: when it runs again it returns
            something else, or it treats the real and the imaginary part of upstream differently.
    """
    return tuple(_row(step, i) for i in range(len(step.op.outputs)))


@dataclass(frozen=True, eq=False)
class Product:
    """Upstream · local for one input of a step, beside what the rule returned for it.

    Attributes:
        value: The input.
        upstream: What reached each output.
        returned: What the rule returned; None for nothing.
        terms: Which output, its upstream and its local, for each output that has both.
        missing: Why no local is known; "" if none is missing.
    """

    value: Value
    upstream: tuple[Array | None, ...]
    returned: Array | None
    terms: tuple[tuple[int, Array, Any], ...]
    missing: str

    def sum(self, change: Callable[[Array], Array], zeros: bool = False) -> Array | None:
        """The sum of upstream · local, `change` applied to both; None if a local is not known."""
        if not self.terms or any(isinstance(local, LargeJacobian) for *_, local in self.terms):
            return None
        found = [times(change(up), change(local), zeros) for _, up, local in self.terms]
        return np.asarray(total(found))

    @cached_property
    def total(self) -> Array | None:
        """The sum of upstream · local over the outputs; None where a local is not known.

        Some rules multiply by zeros, others leave them out: what was returned tells which did. But
        a finite number is no product with a local that is NaN.
        """
        found = self.sum(np.asarray)
        if found is None or self.returned is None or found.shape != self.returned.shape:
            return found
        given = wide(self.returned)
        no_number = (np.isnan(wide(x)).any(axis=tuple(range(up.ndim))) for _, up, x in self.terms)
        lost = np.isnan(given) | (np.isfinite(given) & np.any([*no_number], axis=0))
        if not lost.any():
            return found
        return np.where(lost, np.asarray(self.sum(np.asarray, zeros=True)), found)

    @cached_property
    def agrees(self) -> bool | None:
        """Whether the rule returned `total`, up to rounding; None where that is not known."""
        return None if self.total is None else same(self.returned, self.total, self.sum(np.abs))

    @property
    def is_linear(self) -> bool:
        """Whether upstream · local is what the rule returned, as for every true derivative.

        A rule is not blamed for what its dtype cannot hold, nor where a number is not finite.
        """
        if self.agrees is not False:
            return True
        returned, product = np.asarray(self.returned), np.asarray(self.total)
        with np.errstate(all="ignore"):
            held = product.astype(returned.dtype)
        finite = all(np.isfinite(wide(each)).all() for each in (returned, product))
        return not finite or same(returned, held, self.sum(np.abs))

    @cached_property
    def matrix(self) -> Array | None:
        """The locals as one matrix, a row for each entry of upstream, if that can be read.

        None for a single number, too, and where the rule returned a shape other than its input's.
        """
        columns = self.value.size
        if self.total is None or np.size(np.asarray(self.returned)) != columns:
            return None
        whole = all(up.size * columns == local.size > 0 for _, up, local in self.terms)
        if not whole or not 1 < max(columns, *(up.size for _, up, _ in self.terms)) <= MOST_SIDE:
            return None
        return np.concatenate([np.reshape(local, (up.size, -1)) for _, up, local in self.terms])


def is_small(step: Step) -> bool:
    """Whether the local Jacobians of a step have few rows, each costing a run of its rule."""
    return all(v.size <= MOST_SIDE for v in step.op.outputs)


def products(step: Step, local: Local = (), missing: str = "") -> Iterator[Product]:
    """The `Product` of each input of a step; no rule runs for those without `local`."""
    upstream = step.upstream
    for j, (value, given) in enumerate(zip(step.op.inputs, step.downstream, strict=True)):
        pairs = [(i, upstream[i], row[j]) for i, row in enumerate(local)]
        terms = tuple((i, up, x) for i, up, x in pairs if up is not None and x is not None)
        yield Product(value, upstream, given, terms, missing)


def times(upstream: Array, local: Any, zeros: bool = True) -> Array:
    """A row vector times a Jacobian, in double precision.

    Without `zeros` a term of a sum that has a factor 0 contributes nothing: not NaN, as 0 · ∞ does.
    """
    u, jacobian = wide(upstream), wide(local)
    with np.errstate(all="ignore"):
        if u.size == 1 or zeros or (np.isfinite(u).all() and np.isfinite(jacobian).all()):
            return np.asarray(np.tensordot(u, jacobian, axes=u.ndim) if u.ndim else u * jacobian)
        factors = u.reshape(u.shape + (1,) * (jacobian.ndim - u.ndim))
        terms = factors * jacobian
    terms[(factors == 0) | (jacobian == 0)] = 0
    return terms.sum(axis=tuple(range(u.ndim)))


def tolerance(dtype: Any) -> float:
    """How far two computations of a number of this dtype may differ, relative to their terms."""
    dtype = np.dtype(dtype)
    if dtype.itemsize <= 2:  # float16, bfloat16 and smaller: few of them have a finfo
        return 0.05
    return 100 * float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


@dataclass(frozen=True)
class LargeJacobian:
    """The shape of a Jacobian too large to write down. `Step.vjp` still multiplies by it."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many numbers it would have."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"<LargeJacobian, a summary: shape {self.shape}, {self.size:,} numbers>"


def _row(step: Step, i: int) -> tuple[Any, ...]:
    output, inputs = step.op.outputs[i], step.op.inputs
    if step.upstream[i] is None or not output.differentiable:
        return (None,) * len(inputs)
    flows = [f and v.differentiable for f, v in zip(step.flows, inputs, strict=True)]
    small = [output.size <= MOST_RUNS and output.size * v.size <= MOST_NUMBERS for v in inputs]
    rows: list[Any] = []
    if any(map(operator.and_, flows, small)):
        if step.op.kind == "custom" and not repeats(step):  # TensorFlow's own rules do
            raise RuntimeError(
                f"the rule of `{step.op.name}` returned something else when it ran again, as one "
                "does that draws random numbers, or reads a Python value that has changed since"
            )
        units = np.eye(output.size, dtype=output.dtype).reshape(output.size, *output.shape)
        rows = [step.vjp(_only(step, i, unit)) for unit in units]
        if output.dtype.startswith("complex"):
            turned = [step.vjp(_only(step, i, 1j * unit)) for unit in units]
            pairs = zip(chain(*rows), chain(*turned), strict=True)
            if not all(_agree(None if a is None else 1j * wide(a), b) for a, b in pairs):
                raise RuntimeError(
                    f"the rule of `{step.op.name}` treats the real and the imaginary part of "
                    "upstream differently, which no complex number as its local does"
                )
    return tuple(
        None
        if not flows[j]
        else _stack(step, [row[j] for row in rows], output, value)
        if small[j]
        else LargeJacobian(output.shape + value.shape)
        for j, value in enumerate(inputs)
    )


def _stack(step: Step, rows: list[Array | None], output: Value, input: Value) -> Array | None:
    """The rows of a Jacobian as one array; None if there are rows, and all of them are None."""
    found = [row for row in rows if row is not None]
    if not found:
        return None if rows else np.zeros(output.shape + input.shape, input.dtype)
    matrix = np.stack([np.zeros_like(found[0]) if row is None else row for row in rows])
    if step.op.kind == "op" and step.op.type in DIAGONAL and output.shape == input.shape:
        # The zeros of a unit vector times an infinite slope are NaN.
        matrix[~np.eye(output.size, dtype=bool).reshape(matrix.shape)] = 0
    # A rule may return a shape other than its input's; its claim is shown unchanged.
    return matrix.reshape(output.shape + found[0].shape)


def _only(step: Step, i: int, upstream: Array) -> list[Array | None]:
    """Upstreams: `upstream` for output i, and zeros for every other output that had one."""
    given: list[Array | None] = [None if u is None else np.zeros_like(u) for u in step.upstream]
    given[i] = upstream
    return given


def repeats(step: Step) -> bool:
    """Whether a step's rule still returns what it did in its pass, as far as it can run again."""
    try:
        again = zip(step.flows, step.downstream, step.vjp(step.upstream), strict=True)
    except RuntimeError:  # such as in a trace that was read from a file
        return True
    return all(_agree(*pair) for flows, *pair in again if flows)  # the tape drops the others


def rerun(step: Step, j: int, change: Callable[[Array], Array]) -> Array | None:
    """What a step's rule returns for input j if `change` is applied to each upstream.

    None if it returns nothing, or cannot run again.
    """
    try:
        given = [None if u is None else change(wide(u)).astype(u.dtype) for u in step.upstream]
        again = step.vjp(given)[j]
    except RuntimeError:  # such as in a trace that was read from a file
        return None
    return None if again is None else wide(again)


def _agree(a: Any, b: Any) -> bool:
    """Whether two results of a rule agree, up to the rounding of their largest number."""
    if a is None or b is None:
        return a is b
    return same(a, b, max(np.max(np.abs(wide(each)), initial=0.0) for each in (a, b)))


def same(a: Any, b: Any, size: Any) -> bool:
    """Whether two sums agree up to rounding; `size` is the sum of their terms' absolute values."""
    if np.shape(a) != np.shape(b):
        return False
    slack = tolerance(np.asarray(a).dtype) * wide(size) + 1e-300
    with np.errstate(all="ignore"):
        near = np.abs(wide(a) - wide(b)) <= slack
    return bool(np.all(near | (wide(a) == wide(b)) | (np.isnan(wide(a)) & np.isnan(wide(b)))))
