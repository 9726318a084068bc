"""trace() and record(): run code, and turn what TensorFlow did into a Trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, count
from typing import Any

import tensorflow as tf

from ..graph import Array, Trace, as_numpy
from . import arguments, tf_hooks
from .build import Builder, dense, reference, variable_name
from .events import PassEvent, Recording, on_error


def trace(
    f: Callable[..., Any],
    *args: Any,
    upstream: Any = None,
    order: int = 1,
    open_functions: bool = True,
) -> Trace:
    """Run `f(*args)` eagerly, forward and backward, and record all of it.

    The backward pass computes upstream · df/d(arg) for every argument and every trainable
    variable that f reads, as `tape.gradient(f(*args), ..., output_gradients=upstream)` does. With
    `order=2` a second pass differentiates the sum of those gradients, and so on.

    Args:
        f: A function of tensors that returns a tensor, or a nested structure of tensors.
        *args: Floats and lists of floats (each becomes a float32 tensor), NumPy arrays, tensors and
            variables, or tuples, lists and dicts of these. Integer tensors get no gradient.
        upstream: The gradient that reaches f's value, of the same shape; None means ones.
        order: How many times to differentiate, 1 or more.
        open_functions: Run the body of each `tf.function` in your own files op by op, so that its
            ops are recorded; `Trace.notes` names these functions. The last digit may differ from
            the graph's, with `jit_compile=True` more digits. Random ops that keep their state in
            the graph draw other numbers, and `tf.inside_function()` is False. Functions that work
            only as a graph, such as those that call `tf.gradients`, forward or in a rule, and
            functions of libraries stay closed. With False, each call stays one op.

    Returns:
        A `Trace`. Its numbers are TensorFlow's own, to the last bit.

    Raises:
        TypeError: f is not callable, or an argument or f's value is not made of tensors.
        ValueError: No arguments, integers where floats are meant, or a wrong upstream or order.
        RuntimeError: Called while a graph is being built, or TensorFlow's release is not supported.

    Example:
        >>> import cgviz
        >>> t = cgviz.trace(lambda x: x * x, 3.0)
        >>> float(t.value), float(t.gradients[0])
        (9.0, 6.0)
    """
    given, names = arguments.convert(f, args)
    arguments.check_order(order)
    with _recording(open_functions) as recording:
        run = partial(differentiate, f, given, upstream, order, recording.recorder.events)
        value, first = tf_hooks.run_recorded(recording, run)
        events = recording.events()

    def built() -> Trace:
        builder = Builder(events, recording.recorder, recording.root, names)
        passes = builder.passes()
        pairs = _pairs(builder, first)
        leaves = [_number(g, t.shape) for t, g in pairs[: len(tf.nest.flatten(given))]]
        return Trace(
            arguments.title(f),
            tf.nest.map_structure(_number, value),
            tf.nest.pack_sequence_as(given, leaves),
            _by_name(pairs),
            tuple(builder.ops[recording.root]),
            passes,
            builder.top_passes().index(first),
            notes=builder.notes(passes),
        )

    return Trace.deferred(built)


@contextmanager
def record(*, open_functions: bool = True) -> Iterator[Trace]:
    """Record any code that uses `tf.GradientTape` itself; read the trace after the block.

    Open the tape inside the block: ops that ran before the block are not recorded.

    Args:
        open_functions: As in `trace`.

    Yields:
        A `Trace`, filled when the block ends, even if it ends with an exception.

    Raises:
        RuntimeError: Entered while a graph is being built, or read while it is still recording.

    Example:
        >>> import cgviz
        >>> import tensorflow as tf
        >>> x = tf.constant(3.0)
        >>> with cgviz.record() as t:
        ...     with tf.GradientTape() as tape:
        ...         tape.watch(x)
        ...         y = x * x
        ...     g = tape.gradient(y, x)
        >>> [float(d) for d in t.steps[0].downstream]
        [3.0, 3.0]
    """
    trace = Trace.deferred(_still_open)
    with _recording(open_functions) as recording:
        try:
            yield trace
        finally:
            events = recording.events()
            after = tf_hooks.variables_now(recording.recorder)
            trace._build = lambda: _recorded(
                Builder(events, recording.recorder, recording.root), after
            )


@contextmanager
def _recording(open_functions: bool) -> Iterator[Recording]:
    """Open a recording; an exception that leaves it is passed to each function in `on_error`."""
    try:
        with tf_hooks.recording(open_functions) as recording:
            yield recording
    except Exception as error:
        for tell in on_error:
            tell(error)
        raise


def _still_open() -> Trace:
    raise RuntimeError("this recording is still open: read the trace after the `with` block")


def _recorded(builder: Builder, after: Mapping[int, Any]) -> Trace:
    """The content of a `record()` trace: value and gradients are those of its first pass."""
    passes = builder.passes()
    pairs = [_pairs(builder, event) for event in builder.top_passes()]
    value: Any = None
    gradients: list[Any] = []
    if passes:
        values = tuple(target.numpy() for target in passes[0].targets)
        value = values[0] if len(values) == 1 else values
        gradients = [_number(g, t.shape) for t, g in pairs[0] if not isinstance(t, tf.Variable)]
    return Trace(
        "recording",
        value,
        tuple(gradients),
        _by_name(chain.from_iterable(pairs)),
        tuple(builder.ops[builder.root]),
        passes,
        asked=True,
        notes=builder.notes(passes),
        after={name: after[handle] for name, handle in builder.handles.items() if handle in after},
    )


def differentiate(
    f: Callable[..., Any], given: Any, upstream: Any, order: int, events: list[Any]
) -> tuple[Any, PassEvent]:
    """Run f under nested tapes, one per order, and ask each for a gradient, the innermost first.

    Returns:
        What f returned, and the first backward pass. The sources of each pass are the arguments and
        the variables that f reads.
    """
    flat = [arguments.as_source(t) for t in tf.nest.flatten(given)]
    with ExitStack() as stack:
        tapes = [stack.enter_context(tf.GradientTape()) for _ in range(order)]
        for tape in tapes:
            tape.watch([t for t in flat if arguments.can_be_watched(t)])
        value = f(*given)
        targets = arguments.check_value(value, f)
        seeds = arguments.seeds(upstream, targets)
        mine = {id(t) for t in flat}
        sources = flat + [v for v in tapes[-1].watched_variables() if id(v) not in mine]
        place = len(events)
        result = tapes[-1].gradient(targets, sources, output_gradients=seeds)
        first: PassEvent = events[place]
        for tape in reversed(tapes[:-1]):
            # A sparse gradient cannot be a target, so it is made dense, under the outer tape.
            pairs = zip(sources, result, strict=True)
            targets = [dense(g, t.shape) for t, g in pairs if g is not None]
            if targets:
                result = tape.gradient(targets, sources)
        return value, first


def _pairs(builder: Builder, event: PassEvent) -> list[tuple[Any, Any]]:
    """The sources of a pass, tensors and variables, each with its gradient."""
    known = builder.recorder.variables
    result = event.result or [None] * len(event.sources)
    return [(known.get(id(t), t), g) for t, g in zip(event.sources, result, strict=True)]


def _number(tensor: Any, shape: Sequence[int] | None = None) -> Any:
    return as_numpy(reference(tensor, shape))


def _by_name(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """The first gradient of each variable, by its name; one that occurs again gets a number."""
    variables: dict[int, tuple[Any, Any]] = {}
    for given, gradient in pairs:
        if isinstance(given, tf.Variable):
            variables.setdefault(id(given), (given, gradient))
    found: dict[str, Array | None] = {}
    for variable, gradient in variables.values():
        own = variable_name(variable)
        more = (f"{own}_{n}" for n in count(1))
        name = next(each for each in chain([own], more) if each not in found)
        tensor = reference(gradient, variable.shape)
        # `as_numpy` alone would copy: a recorded step of training has many large gradients.
        found[name] = as_numpy(tensor.__array__() if hasattr(tensor, "__array__") else tensor)
    return found
