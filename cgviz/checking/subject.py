"""A function at one point, as `check` sees it: real vectors in, real vectors out.

All tensors that f can be differentiated by (arguments, and trainable variables that it reads) are
laid end to end as one float64 vector x, and so are its outputs as y. A complex number is two
real ones: TensorFlow's gradient of it is then the pair of real gradients.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array
from ..recording import arguments
from ..recording.build import dense, variable_name
from .vectors import as_tensor, as_vector, as_vector_size, entry

SEED = 20
TINY = 1e-30  # as good as 0: a thousandth of it is no longer a normal float32
SLOW = 0.1  # seconds for a run of f; making a graph takes several of them


@dataclass(frozen=True, eq=False)
class Leaf:
    """One tensor or variable to differentiate by, and its place in the vector."""

    name: str
    source: Any  # what a tape differentiates by
    variable: bool
    start: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.source.shape)

    @property
    def stop(self) -> int:
        """Where the next leaf begins."""
        numbers = int(np.prod(self.shape, dtype=np.int64))
        return self.start + numbers * (2 if self.source.dtype.is_complex else 1)

    def place(self, index: int) -> str:
        """The name of one entry: `w[0, 2]`, for a scalar the name alone."""
        return entry(self.name, self.shape, index - self.start, self.source.dtype.is_complex)


@dataclass(frozen=True)
class Pulled:
    """What f's backward pass handed back for one upstream."""

    gradients: tuple[Any, ...]  # one tensor or None per leaf
    vector: Array  # laid end to end; 0 for None, NaN where the shape is wrong


class Subject:
    """f with everything it needs to be run again at another point."""

    def __init__(
        self,
        f: Callable[..., Any],
        given: Sequence[Any],
        names: dict[int, str],
        variables: Sequence[Any] = (),
    ) -> None:
        self.f = f
        self.given = given
        self.flat = tf.nest.flatten(given)
        self.names = names
        self.variables = tuple(variables)
        self.seeded = False
        self.restless = False  # f changes variables by itself
        self.before_run: Callable[[], None] = lambda: None
        self.quick: Any = None  # f as a graph, where f is slow and the graph says the same
        self.on_run: Callable[[], None] = lambda: None
        self.leaves = self._leaves()
        self.x = self.join([leaf.source for leaf in self.leaves])
        self.held = {id(e.source): self._part(e) for e in self.leaves if e.variable}
        self.structure: Any = None
        self.y = np.zeros(0)

    def _leaves(self) -> tuple[Leaf, ...]:
        found: list[Leaf] = []
        sources = [(arguments.as_source(t), self.names.get(id(t), "x")) for t in self.flat]
        sources += [(v, variable_name(v)) for v in self.variables]
        for source, name in sources:
            if arguments.can_be_watched(source) and all(source is not e.source for e in found):
                start = found[-1].stop if found else 0
                found.append(Leaf(name, source, isinstance(source, tf.Variable), start))
        return tuple(found)

    def _part(self, leaf: Leaf) -> Array:
        return self.x[leaf.start : leaf.stop]

    # --- running ---

    def call(self, args: Sequence[Any]) -> list[Any]:
        """f's outputs that have a derivative, as tensors."""
        self.on_run()
        self.before_run()
        if self.seeded:
            sow()
        value = self.f(*args)
        targets = arguments.check_value(value, self.f)
        self.structure = value
        return [t for t in targets if t.dtype.is_floating or t.dtype.is_complex]

    def forward(self, x: Array) -> Array:
        """f's value at x."""
        args = self.arguments(x)
        if self.quick is None:
            return self.join(self.call(args))
        self.on_run()
        return self.join(self.quick(*args))

    def quicken(self) -> None:
        """Let a slow f run as a graph from now on, if it gives the same value there."""
        if self.seeded or self.restless:
            return
        start = time.monotonic()
        expected = self.forward(self.x)
        if time.monotonic() - start < SLOW:
            return
        graph = tf.function(lambda *args: self.call(args), autograph=False)
        try:
            found = self.join(graph(*self.arguments(self.x)))
        except Exception:  # then f stays slow; whether it has to run in a graph is judged elsewhere
            return
        if np.allclose(found, expected, rtol=1e-4, atol=0, equal_nan=True):
            self.quick = graph

    def pull(
        self,
        upstream: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
        x: Array | None = None,
        function: Callable[..., Any] | None = None,
    ) -> Pulled:
        """Upstream · df/dx as f's own rules claim it, in a fresh forward and backward pass."""
        args = self.arguments(self.x if x is None else x)
        sources = self.sources(args)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            targets = self.call(args) if function is None else function(args)
        seeds = None if upstream is None else upstream(targets)
        self.y = self.join(targets)
        gradients = tape.gradient(targets, sources, output_gradients=seeds) if targets else []
        return self.pulled(gradients or [None] * len(sources))

    def arguments(self, x: Array) -> list[Any]:
        """f's arguments at x: new tensors, and the variables with their new values."""
        for leaf in self.leaves:
            part = x[leaf.start : leaf.stop]
            if not leaf.variable:
                continue
            if self.restless or not np.array_equal(part, self.held[id(leaf.source)]):
                leaf.source.assign(as_tensor(part, leaf.shape, leaf.source.dtype))
                self.held[id(leaf.source)] = part
        by_id = {id(leaf.source): leaf for leaf in self.leaves if not leaf.variable}
        flat = []
        for each in self.flat:
            at = by_id.get(id(each))
            new = at and as_tensor(x[at.start : at.stop], at.shape, at.source.dtype)
            flat.append(each if at is None else new)
        return list(tf.nest.pack_sequence_as(self.given, flat))

    def sources(self, args: Sequence[Any]) -> list[Any]:
        """What to differentiate by, for these arguments, in the order of the leaves."""
        by_id = {id(old): new for old, new in zip(self.flat, tf.nest.flatten(args), strict=True)}
        return [leaf.source if leaf.variable else by_id[id(leaf.source)] for leaf in self.leaves]

    # --- tensors and vectors ---

    def pulled(self, gradients: Sequence[Any]) -> Pulled:
        """Gradients as tensors and as one vector."""
        vector = np.zeros(self.x.size)
        pairs = zip(self.leaves, gradients, strict=True)
        found = [None if g is None else dense(g, leaf.source.shape) for leaf, g in pairs]
        for leaf, gradient in zip(self.leaves, found, strict=True):
            if gradient is not None:
                part = as_vector(gradient)
                fits = part.size == leaf.stop - leaf.start
                vector[leaf.start : leaf.stop] = part if fits else np.nan
        return Pulled(tuple(found), vector)

    @staticmethod
    def join(tensors: Sequence[Any]) -> Array:
        """Tensors laid end to end."""
        return np.concatenate([np.zeros(0), *map(as_vector, tensors)])

    @staticmethod
    def split(vector: Array, like: Sequence[Any]) -> list[Any]:
        """The opposite of `join`: tensors of the shapes and dtypes of `like`."""
        found, start = [], 0
        for each in like:
            size = as_vector_size(each)
            found.append(as_tensor(vector[start : start + size], tuple(each.shape), each.dtype))
            start += size
        return found

    @property
    def scale(self) -> Array:
        """The size of each entry of x, in powers of two so that steps stay exact; 1 at 0."""
        sizes = np.ones(self.x.size)
        for leaf in self.leaves:
            part = np.abs(self.x[leaf.start : leaf.stop])
            largest = np.max(part, initial=0.0)
            part = np.where(part > TINY, part, largest if largest > TINY else 1.0)
            sizes[leaf.start : leaf.stop] = 2.0 ** np.round(np.log2(part))
        return sizes

    def leaf_at(self, index: int) -> Leaf:
        """The leaf that holds an entry of x."""
        return next(leaf for leaf in self.leaves if leaf.start <= index < leaf.stop)

    def in_place(self, index: int) -> str:
        """The name of an entry of x; `in[2]` where f has one input only."""
        leaf = self.leaf_at(index)
        if len(self.leaves) == 1 and not leaf.variable:
            return entry("in", leaf.shape, index - leaf.start, leaf.source.dtype.is_complex)
        return leaf.place(index)

    def out_place(self, index: int, targets: Sequence[Any]) -> str:
        """The name of an entry of y: `out`, `out[1]`; `out[1][0]` where f returns several."""
        start = 0
        for number, each in enumerate(targets):
            size = as_vector_size(each)
            if index < start + size:
                name = "out" if len(targets) == 1 else f"out[{number}]"
                return entry(name, tuple(each.shape), index - start, each.dtype.is_complex)
            start += size
        return "out"

    def widened(self) -> Subject:
        """The same with float64 (complex128) arguments; variables that f reads stay as they are."""
        names: dict[int, str] = {}
        made_of: dict[int, Any] = {}

        def wide(leaf: Any) -> Any:
            source = arguments.as_source(leaf)
            if not arguments.can_be_watched(source):
                return leaf
            if id(source) in made_of:  # one variable given twice stays one
                return made_of[id(source)]
            dtype = tf.complex128 if source.dtype.is_complex else tf.float64
            made = tf.cast(tf.convert_to_tensor(source), dtype)
            if isinstance(source, tf.Variable):
                made = tf.Variable(made, name=variable_name(source), trainable=source.trainable)
            made_of[id(source)] = made
            names[id(made)] = self.names.get(id(leaf), "x")
            return made

        given = tf.nest.map_structure(wide, list(self.given))
        found = Subject(self.f, given, names, self.variables)
        found.seeded, found.restless = self.seeded, self.restless
        found.before_run, found.on_run = self.before_run, self.on_run
        found.held = self.held | found.held  # one variable, whoever varies it
        self.held = found.held
        return found

    @property
    def wide(self) -> bool:
        """Whether every leaf is in double precision already."""
        return all(leaf.source.dtype in (tf.float64, tf.complex128) for leaf in self.leaves)


def sow() -> None:
    """Seed every stream that f may draw from, so that it draws the same again."""
    tf.random.set_seed(SEED)
    np.random.seed(SEED)
    random.seed(SEED)
