"""A function of tensors as a function of one real vector, run and differentiated by TensorFlow.

All tensors that f can be differentiated by (arguments, and trainable variables that it reads) are
laid end to end as one float64 vector x, and so are its outputs as y. A complex number is two
real ones: TensorFlow's gradient of it is then the pair of real gradients.

    Flattened   f at one point: forward, pull (upstream · df/dx)
    Upstream    what f receives from after it: fixed, or growing with x
    gradient_at, pull_twice, pull_twice_in_a_graph    the second order
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array
from ..recording import arguments
from ..recording.build import dense, variable_name
from .state import Kept, restore

SEED = 20  # any fixed number: a random f draws the same in every run
TINY = 1e-30  # as good as 0: a thousandth of it is no longer a normal float32

# --- tensors and vectors -----------------------------------------------------------------------


def entry_name(name: str, shape: Sequence[int], index: int, is_complex: bool = False) -> str:
    """The name of one entry of a tensor.

    >>> entry_name("w", (2, 3), 4), entry_name("x", (), 0), entry_name("z", (2,), 3, True)
    ('w[1, 1]', 'x', 'imag z[1]')
    """
    part = ""
    if is_complex:
        size = int(np.prod(shape, dtype=np.int64))
        part, index = ("real " if index < size else "imag "), index % max(size, 1)
    indices = ", ".join(str(i) for i in np.unravel_index(index, shape)) if shape else ""
    return f"{part}{name}[{indices}]" if indices else f"{part}{name}"


def to_vector(tensor: Any) -> Array:
    """A tensor's numbers as float64; of complex ones all real parts, then all imaginary."""
    array = np.asarray(tf.convert_to_tensor(tensor).numpy()).reshape(-1)
    if array.dtype.kind == "c":
        array = np.concatenate([array.real, array.imag])
    return array.astype(np.float64)


def to_tensor(vector: Array, shape: Sequence[int], dtype: Any) -> Any:
    """The inverse of `to_vector`."""
    if dtype.is_complex:
        half = vector.size // 2
        vector = vector[:half] + 1j * vector[half:]
    return tf.constant(vector.reshape(shape).astype(dtype.as_numpy_dtype), dtype)


def vector_size(tensor: Any) -> int:
    """How many real numbers a tensor or variable holds."""
    size = int(np.prod(tuple(tensor.shape), dtype=np.int64))
    return size * (2 if tensor.dtype.is_complex else 1)


def join(tensors: Sequence[Any]) -> Array:
    """Tensors laid end to end."""
    return np.concatenate([np.zeros(0), *map(to_vector, tensors)])


def split(vector: Array, like: Sequence[Any]) -> list[Any]:
    """The inverse of `join`: tensors of the shapes and dtypes of `like`."""
    ends = np.cumsum([vector_size(each) for each in like])[:-1]
    return [
        to_tensor(part, tuple(each.shape), each.dtype)
        for part, each in zip(np.split(vector, ends), like, strict=True)
    ]


def shapes(tensors: Sequence[Any]) -> list[tuple[int, ...]]:
    """The shapes of tensors in their vector: of complex ones there are two parts."""
    return [((2,) if t.dtype.is_complex else ()) + tuple(t.shape) for t in tensors]


def output_name(index: int, targets: Sequence[Any]) -> str:
    """The name of an entry of y: `out`, `out[1]`; `out[1][0]` where f returns several tensors."""
    start = 0
    for number, each in enumerate(targets):
        size = vector_size(each)
        if index < start + size:
            name = "out" if len(targets) == 1 else f"out[{number}]"
            return entry_name(name, tuple(each.shape), index - start, each.dtype.is_complex)
        start += size
    return "out"


# --- the function ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Leaf:
    """One tensor or variable to differentiate by, and where it begins in the vector x."""

    name: str
    source: Any  # what a tape differentiates by
    start: int

    @property
    def variable(self) -> bool:
        """Whether it is a variable, which is assigned to and not handed to f anew."""
        return isinstance(self.source, tf.Variable)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.source.shape)

    @property
    def stop(self) -> int:
        """Where the next leaf begins."""
        return self.start + vector_size(self.source)


@dataclass(frozen=True)
class Pulled:
    """One run, forward and backward: the value, and upstream · df/dx."""

    value: Array
    gradients: tuple[Any, ...]  # one tensor or None per leaf
    vector: Array  # laid end to end; 0 for None, NaN where the shape is wrong


@dataclass(frozen=True, eq=False)
class Flattened:
    """f with everything it needs to be run again at another point."""

    f: Callable[..., Any]
    given: Sequence[Any]
    names: Mapping[int, str]  # by the id of the tensor
    variables: Sequence[Any] = ()  # trainable ones that f reads, besides those given
    seeded: bool = False  # f draws random numbers: the streams are seeded before each run
    changed: Kept = field(default_factory=dict)  # what a run changes, put back before the next
    on_run: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        _ = self.x  # read the variables before anything is assigned to them

    @cached_property
    def flat(self) -> list[Any]:
        """The arguments, with nothing nested."""
        return list(tf.nest.flatten(self.given))

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """What f is differentiated by."""
        found: list[Leaf] = []
        sources = [(arguments.as_source(t), self.names.get(id(t), "x")) for t in self.flat]
        sources += [(v, variable_name(v)) for v in self.variables]
        for source, name in sources:
            if arguments.can_be_watched(source) and all(source is not e.source for e in found):
                found.append(Leaf(name, source, found[-1].stop if found else 0))
        return tuple(found)

    @cached_property
    def x(self) -> Array:
        """The point at which f is judged."""
        return join([leaf.source for leaf in self.leaves])

    @cached_property
    def scale(self) -> Array:
        """The size of each entry of x, in powers of two so that steps are exact; 1 at 0."""
        sizes = np.ones(self.x.size)
        for leaf in self.leaves:
            part = np.abs(self.x[leaf.start : leaf.stop])
            largest = np.max(part, initial=0.0)
            part = np.where(part > TINY, part, largest if largest > TINY else 1.0)
            sizes[leaf.start : leaf.stop] = 2.0 ** np.round(np.log2(part))
        return sizes

    @cached_property
    def input_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the leaves, as `shapes` has them."""
        return shapes([leaf.source for leaf in self.leaves])

    def call(self, args: Sequence[Any], function: Callable[..., Any] | None = None) -> list[Any]:
        """The outputs of f, or of `function` in its place, that have a derivative."""
        self.on_run()
        restore(self.changed)
        if self.seeded:
            tf.random.set_seed(SEED)
            np.random.seed(SEED)
            random.seed(SEED)
        value = (self.f if function is None else function)(*args)
        return [t for t in arguments.check_value(value, self.f) if arguments.can_be_watched(t)]

    def arguments(self, x: Array) -> list[Any]:
        """f's arguments at x: new tensors, and the variables, which are assigned to."""
        made: dict[int, Any] = {}
        for leaf in self.leaves:
            tensor = to_tensor(x[leaf.start : leaf.stop], leaf.shape, leaf.source.dtype)
            if leaf.variable:
                leaf.source.assign(tensor)
            else:
                made[id(leaf.source)] = tensor
        return list(tf.nest.pack_sequence_as(self.given, [made.get(id(t), t) for t in self.flat]))

    def sources(self, args: Sequence[Any]) -> list[Any]:
        """What to differentiate by, for these arguments, in the order of the leaves."""
        by_id = {id(old): new for old, new in zip(self.flat, tf.nest.flatten(args), strict=True)}
        return [leaf.source if leaf.variable else by_id[id(leaf.source)] for leaf in self.leaves]

    def forward(self, x: Array) -> Array:
        """f's value at x."""
        return join(self.call(self.arguments(x)))

    def pull(
        self,
        upstream: Array | None = None,
        x: Array | None = None,
        function: Callable[..., Any] | None = None,
    ) -> Pulled:
        """Upstream · df/dx as f's own rules claim it, in a fresh forward and backward pass.

        Args:
            upstream: One number for each of y; None is ones.
            x: The point; None is the one judged.
            function: What is run in f's place.
        """
        args = self.arguments(self.x if x is None else x)
        sources = self.sources(args)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            targets = self.call(args, function)
        seeds = None if upstream is None else split(upstream, targets)
        gradients = tape.gradient(targets, sources, output_gradients=seeds) if targets else []
        return self.pulled(gradients or [None] * len(sources), join(targets))

    def pulled(self, gradients: Sequence[Any], value: Array) -> Pulled:
        """Gradients as tensors and as one vector."""
        vector = np.zeros(self.x.size)
        pairs = zip(self.leaves, gradients, strict=True)
        found = [None if g is None else dense(g, leaf.source.shape) for leaf, g in pairs]
        for leaf, gradient in zip(self.leaves, found, strict=True):
            if gradient is not None:
                part = to_vector(gradient)
                fits = part.size == leaf.stop - leaf.start
                vector[leaf.start : leaf.stop] = part if fits else np.nan
        return Pulled(value, tuple(found), vector)

    def leaf_at(self, index: int) -> Leaf:
        """The leaf that holds an entry of x."""
        return next(leaf for leaf in self.leaves if leaf.start <= index < leaf.stop)

    def input_name(self, index: int) -> str:
        """The name of an entry of x: `w[0, 2]`; `in[2]` where f has one input only."""
        leaf = self.leaf_at(index)
        name = leaf.name if len(self.leaves) > 1 or leaf.variable else "in"
        return entry_name(name, leaf.shape, index - leaf.start, leaf.source.dtype.is_complex)

    def widened(self) -> Flattened:
        """The function with float64 (complex128) arguments; variables f reads stay as they are."""
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
        return replace(self, given=given, names=names)

    @property
    def wide(self) -> bool:
        """Whether every leaf is in double precision already."""
        return all(leaf.source.dtype in (tf.float64, tf.complex128) for leaf in self.leaves)


# --- the second order --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Upstream:
    """What f receives from after it: `seed`, or (growth · x) times it.

    A rule of a rule answers for upstream as well as for x, which shows where upstream depends on x.
    """

    seed: Array
    growth: Array | None = None

    def tensors(self, targets: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
        """As tensors like the targets, differentiable by the sources."""
        seeds = split(self.seed, targets)
        if self.growth is None:
            return seeds
        parts = zip(split(self.growth, sources), sources, strict=True)
        factor = tf.add_n(
            [
                tf.cast(tf.reduce_sum(tf.math.real(tf.math.conj(part) * source)), tf.float64)
                for part, source in parts
            ]
        )
        return [seed * tf.cast(factor, seed.dtype) for seed in seeds]


def growing(seed: Array, flat: Flattened) -> Upstream:
    """An upstream that depends on every input; for one number x it is x."""
    if flat.x.size == 1:
        return Upstream(seed, np.ones(1))
    weights = np.random.default_rng(17).uniform(0.5, 1.5, flat.x.size)
    return Upstream(seed, weights / flat.scale)


def gradient_at(flat: Flattened, upstream: Upstream, x: Array) -> Array:
    """Upstream · df/dx at x."""
    args = flat.arguments(x)
    sources = flat.sources(args)
    with tf.GradientTape() as tape:
        tape.watch(sources)
        targets = flat.call(args)
    found = tape.gradient(targets, sources, upstream.tensors(targets, sources))
    return flat.pulled(found, join(targets)).vector


def pull_twice(flat: Flattened, upstream: Upstream, direction: Array) -> Array:
    """The gradient of (upstream · df/dx) · direction: f's second derivative."""
    return flat.pulled(_twice(flat, upstream, direction, flat.arguments(flat.x)), flat.x).vector


def pull_twice_in_a_graph(flat: Flattened, upstream: Upstream, direction: Array) -> Array:
    """As `pull_twice`, with both tapes inside of a `tf.function`."""

    @tf.function(autograph=False)
    def graph(*args: Any) -> list[Any]:
        found = _twice(flat, upstream, direction, args)
        pairs = zip(found, flat.sources(args), strict=True)
        return [tf.zeros_like(s) if g is None else dense(g, s.shape) for g, s in pairs]

    return flat.pulled(graph(*flat.arguments(flat.x)), flat.x).vector


def _twice(flat: Flattened, upstream: Upstream, direction: Array, args: Sequence[Any]) -> list[Any]:
    sources = flat.sources(args)
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape() as inner:
            inner.watch(sources)
            targets = flat.call(args)
        first = inner.gradient(targets, sources, upstream.tensors(targets, sources))
        parts = zip(first, split(direction, sources), sources, strict=True)
        kept = [(dense(g, s.shape), part) for g, part, s in parts if g is not None]
    if not kept:
        return [None] * len(sources)
    weights = [tf.cast(tf.broadcast_to(part, g.shape), g.dtype) for g, part in kept]
    return list(outer.gradient([g for g, _ in kept], sources, output_gradients=weights))
