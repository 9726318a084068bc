"""A function of tensors as a function of one real vector, run again and again by TensorFlow.

All tensors with respect to which f can be differentiated (arguments, and trainable variables that
it reads) are laid end to end as one float64 vector x, and f's outputs as y. A complex number counts
as two real ones: TensorFlow's gradient for it is then the pair of real gradients.

    Flattened   f at one point: forward, pull (upstream · df/dx), push (df/dx · direction)
    first_derivative   upstream · df/dx as a function, whose pull is the second derivative
    kept        restores what runs may change: variables, random streams, the terminal
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array, dtypes
from ..graph.dtypes import Dtype
from ..graph.model import silenced
from ..recording import arguments, tf_hooks
from ..recording.build import dense, variable_name
from ..recording.events import OpEvent

Kept = dict[int, tuple[Any, Any]]
"""Variables by their id, each with a copy of its value."""

# The random streams belong to the process, so one check runs at a time.
_ALONE = threading.RLock()

SEED = 20  # any fixed number: a random f draws the same in every run
TINY = 1e-30  # as good as 0: 1e-8 of it is no longer a normal float32

# --- tensors and vectors -----------------------------------------------------------------------


def to_vector(tensor: Any) -> Array:
    """A tensor's numbers as float64; if complex, all real parts, then all imaginary parts."""
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
    return math.prod(tensor.shape) * (2 if tensor.dtype.is_complex else 1)


def join(tensors: Sequence[Any]) -> Array:
    """Tensors laid end to end."""
    return np.concatenate([np.zeros(0), *map(to_vector, tensors)])


def split(vector: Array, like: Sequence[Any]) -> list[Any]:
    """The inverse of `join`: tensors of the shapes and dtypes of `like`."""
    return [to_tensor(vector[x.span], x.source.shape, x.source.dtype) for x in lay(like)]


def largest(array: Array) -> float:
    """The size of the largest finite number; 0 if there is none."""
    return float(np.max(np.abs(array[np.isfinite(array)]), initial=0.0))


def largest_beside(array: Array, sizes: Sequence[int] = ()) -> Array:
    """For each number, the size of the largest in its part; parts of these sizes lie end to end."""
    parts = np.split(array, np.cumsum(sizes, dtype=int))
    return np.concatenate([np.full(part.size, largest(part)) for part in parts])


def dot(tensors: Sequence[Any], others: Sequence[Any]) -> Any:
    """The inner product of two lists of tensors as vectors, in float64."""
    products = [tf.math.real(tf.math.conj(a) * b) for a, b in zip(tensors, others, strict=True)]
    return tf.add_n([tf.reduce_sum(tf.cast(each, tf.float64)) for each in products])


# --- the function ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Leaf:
    """One tensor or variable with respect to which f is differentiated."""

    name: str
    source: Any  # the tensor as given, or the tf.Variable
    span: slice  # its place in x

    @property
    def variable(self) -> bool:
        """Whether it is a variable, which is assigned to, not an argument, which is made anew."""
        return isinstance(self.source, tf.Variable)

    @property
    def size(self) -> int:
        """How many entries of x it has."""
        return vector_size(self.source)

    def entry(self, index: int) -> str:
        """The name of an entry of x: `w[1, 2]`, `imag z[0]`; without an index for a scalar."""
        part, index = "", index - self.span.start
        if self.source.dtype.is_complex:
            half = self.size // 2
            part, index = ("real " if index < half else "imag "), index % half
        indices = ", ".join(map(str, np.unravel_index(index, tuple(self.source.shape))))
        return f"{part}{self.name}[{indices}]" if indices else f"{part}{self.name}"


def lay(tensors: Sequence[Any], names: Iterable[str] = repeat("")) -> tuple[Leaf, ...]:
    """Leaves for tensors that are laid end to end in one vector."""
    ends = np.cumsum([0, *map(vector_size, tensors)]).tolist()
    return tuple(map(Leaf, names, tensors, map(slice, ends, ends[1:])))


def leaf_at(leaves: Sequence[Leaf], index: int) -> Leaf:
    """The leaf that holds an entry of the vector."""
    return next(leaf for leaf in leaves if index < leaf.span.stop)


@dataclass(frozen=True)
class Pulled:
    """One run, forward and backward: the value, and upstream · df/dx."""

    value: Array
    gradients: tuple[Any, ...]  # one tensor or None per leaf
    vector: Array  # the gradients laid end to end; 0 for None, NaN where the shape is wrong


@dataclass(frozen=True, eq=False)
class Flattened:
    """f with everything it needs to be run again at another point."""

    f: Callable[..., Any]
    given: Sequence[Any]
    names: Mapping[int, str]  # of tensors, by their id; variables have their own names
    variables: Sequence[Any] = ()  # trainable ones that f reads, besides those given
    seeded: bool = False  # f draws random numbers: the streams are seeded before each run
    changed: Kept = field(default_factory=dict)  # variables to restore before each run
    on_run: Callable[[], None] = lambda: None
    x: Array = field(default_factory=lambda: np.zeros(0))  # the point at which f is judged

    def __post_init__(self) -> None:
        if not self.x.size:  # else `replace` handed it on, and variables may have moved since
            object.__setattr__(self, "x", join([leaf.source for leaf in self.leaves]))

    @cached_property
    def flat(self) -> list[Any]:
        """The arguments as a flat list."""
        return list(tf.nest.flatten(self.given))

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The tensors and variables with respect to which f is differentiated."""
        named: dict[int, tuple[Any, str]] = {}
        for given in (*self.flat, *self.variables):
            source = arguments.as_source(given)
            if arguments.can_be_watched(source):
                name = self.names.get(id(given)) or variable_name(source)
                named.setdefault(id(source), (source, name))
        return lay(*zip(*named.values(), strict=True))

    @cached_property
    def scale(self) -> Array:
        """The size of each entry of x, as a power of two so that steps are exact.

        An entry that is 0 has the size of the largest entry of its leaf, or 1 if all are 0.
        """
        size, beside = np.abs(self.x), largest_beside(self.x, self.sizes)
        size = np.where(size > TINY, size, np.where(beside > TINY, beside, 1.0))
        return np.asarray(2.0 ** np.round(np.log2(size)))

    @property
    def sizes(self) -> list[int]:
        """How many entries of x each leaf has."""
        return [leaf.size for leaf in self.leaves]

    def call(self, args: Sequence[Any]) -> list[Any]:
        """Run f, from the same state every time; its outputs that have a derivative."""
        self.on_run()
        restore(self.changed)
        if self.seeded:
            tf.random.set_seed(SEED)
            np.random.seed(SEED)
            random.seed(SEED)
        return self.outputs(self.f(*args))

    def outputs(self, value: Any) -> list[Any]:
        """The tensors in a value of f that have a derivative."""
        return [t for t in arguments.check_value(value, self.f) if arguments.can_be_watched(t)]

    def arguments(self, x: Array) -> list[Any]:
        """f's arguments at x: new tensors, and the variables, which are assigned their values."""
        pairs = [(x[leaf.span], leaf.source) for leaf in self.leaves]
        tensors = [to_tensor(part, source.shape, source.dtype) for part, source in pairs]
        for leaf, tensor in zip(self.leaves, tensors, strict=True):
            if leaf.variable:
                leaf.source.assign(tensor)
        return self.packed(tensors)

    def packed(self, tensors: Sequence[Any]) -> list[Any]:
        """f's arguments with these tensors in place of the leaves; variables stay as they are."""
        pairs = zip(self.leaves, tensors, strict=True)
        made = {id(leaf.source): tensor for leaf, tensor in pairs if not leaf.variable}
        return list(tf.nest.pack_sequence_as(self.given, [made.get(id(t), t) for t in self.flat]))

    def forward(self, x: Array) -> Array:
        """f's value at x."""
        return join(self.call(self.arguments(x)))

    def taped(self, args: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
        """Run f: the tape that saw it, the sources in the order of the leaves, and the targets."""
        by_id = {id(old): new for old, new in zip(self.flat, tf.nest.flatten(args), strict=True)}
        sources = [leaf.source if leaf.variable else by_id[id(leaf.source)] for leaf in self.leaves]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            targets = self.call(args)
        return tape, sources, targets

    def pull(self, upstream: Array | None = None, x: Array | None = None) -> Pulled:
        """Upstream · df/dx as f's own rules claim it, in a fresh forward and backward pass.

        Args:
            upstream: One number for each entry of y; None means ones.
            x: The point; None means the one where f is judged.
        """
        tape, sources, targets = self.taped(self.arguments(self.x if x is None else x))
        seeds = None if upstream is None else split(upstream, targets)
        gradients = tape.gradient(targets, sources, output_gradients=seeds)
        return self.pulled(gradients, join(targets))

    def claim(self, upstream: Array, x: Array) -> Array:
        """Upstream · df/dx as one vector."""
        return self.pull(upstream, x).vector

    def push(self, direction: Array, x: Array) -> Array:
        """df/dx · direction as f's rules claim it: their derivative with respect to upstream."""
        tape, sources, targets = self.taped(self.arguments(x))
        upstream = [tf.ones_like(target) for target in targets]
        with tf.GradientTape(watch_accessed_variables=False) as outer:
            outer.watch(upstream)
            found = tape.gradient(targets, sources, upstream, unconnected_gradients="zero")
            pairs = zip(found, sources, strict=True)
            total = dot([dense(g, s.shape) for g, s in pairs], split(direction, sources))
        return join(outer.gradient(total, upstream, unconnected_gradients="zero"))

    def pulled(self, gradients: Sequence[Any], value: Array) -> Pulled:
        """Gradients as tensors and as one vector."""
        vector = np.zeros(self.x.size)
        pairs = zip(self.leaves, gradients, strict=True)
        found = [None if g is None else dense(g, leaf.source.shape) for leaf, g in pairs]
        for leaf, gradient in zip(self.leaves, found, strict=True):
            if gradient is not None:
                part = to_vector(gradient)
                vector[leaf.span] = part if part.size == leaf.size else np.nan
        return Pulled(value, tuple(found), vector)

    def summed(self) -> Flattened:
        """f followed by the (real) sum of its outputs, which is what a tape differentiates."""

        def total(*args: Any) -> Any:
            targets = self.outputs(self.f(*args))
            return dot([tf.ones_like(target) for target in targets], targets)

        return replace(self, f=total)

    def widened(self) -> Flattened:
        """The function with float64 (complex128) arguments; variables f reads stay as they are."""
        read = {id(variable) for variable in self.variables}
        given = [leaf for leaf in self.leaves if id(leaf.source) not in read]
        made = {id(leaf.source): _in_double(leaf.source) for leaf in given}
        wide = [made.get(id(arguments.as_source(each)), each) for each in self.flat]
        names = {id(made[id(leaf.source)]): leaf.name for leaf in given}
        return replace(self, given=tf.nest.pack_sequence_as(self.given, wide), names=names)

    @property
    def dtypes(self) -> list[Dtype]:
        """The dtype of each leaf."""
        return [dtypes.limits(leaf.source.dtype.name) or dtypes.BFLOAT16 for leaf in self.leaves]


def _in_double(source: Any) -> Any:
    """A tensor or variable in double precision."""
    dtype = tf.complex128 if source.dtype.is_complex else tf.float64
    made = tf.cast(tf.convert_to_tensor(source), dtype)
    if isinstance(source, tf.Variable):
        return tf.Variable(made, name=variable_name(source), trainable=source.trainable)
    return made


# --- the derivative as a function --------------------------------------------------------------


GROWTH = 0.1  # of upstream along the inputs: enough to show errors there, too little to hide others


def first_derivative(flat: Flattened, seed: Array, growing: bool = False) -> Flattened:
    """Upstream · df/dx as a function of x, whose own derivative is f's second.

    Args:
        flat: f at its point.
        seed: The upstream, one number for each output.
        growing: Whether the upstream, which is `seed` at the point, grows with each input. A rule
            of a rule must return a gradient for upstream as well as for x, and an error there shows
            only if upstream depends on x.
    """
    slopes = GROWTH * np.random.default_rng(17).uniform(0.5, 1.5, flat.x.size) / flat.scale
    start = 1.0 - slopes @ flat.x
    along = split(slopes, [leaf.source for leaf in flat.leaves])

    def derivative(*args: Any) -> list[Any]:
        tape, sources, targets = flat.taped(args)
        upstream = split(seed, targets)
        if growing:
            factor = start + dot(along, sources)
            upstream = [each * tf.cast(factor, each.dtype) for each in upstream]
        found = tape.gradient(targets, sources, upstream, unconnected_gradients="zero")
        return [tf.cast(dense(g, s.shape), s.dtype) for g, s in zip(found, sources, strict=True)]

    return replace(flat, f=derivative)


# --- what a run does, and what it may change -----------------------------------------------------


def ops_of(run: Callable[[], Any]) -> list[OpEvent]:
    """The ops that run, those inside a `tf.function` too."""
    with tf_hooks.recording(True) as recording:
        tf_hooks.run_recorded(recording, run)
    return [each for each in recording.events() if isinstance(each, OpEvent)]


@contextmanager
def kept(variables: Kept) -> Iterator[None]:
    """Leave variables, random streams, the terminal and the log as they were, on every way out."""
    with _ALONE, np.errstate(all="ignore"):
        numpy_state, python_state = np.random.get_state(), random.getstate()
        try:
            with tf_hooks.unrecorded(), tf_hooks.state_kept(), silenced():
                yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)
            restore(variables)


def copies(variables: Iterable[Any]) -> Kept:
    """Variables, each with a copy of its present value."""
    return {id(variable): (variable, tf.identity(variable)) for variable in variables}


def restore(variables: Kept) -> list[Any]:
    """Restore every variable that changed, and return those."""
    changed = []
    with tf.init_scope():  # eagerly, even while a graph is traced
        for variable, value in list(variables.values()):
            if np.asarray(variable).tobytes() != np.asarray(value).tobytes():
                variable.assign(value)
                changed.append(variable)
    return changed
