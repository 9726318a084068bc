"""The only room that touches TensorFlow's non-public API, and why.

TensorFlow has no public hook for "this op's backward rule ran with this upstream and returned
that". The attributes below, each replaced for the length of a recording and put back on every way
out, tell exactly this. A thread that records has a `Hub`; what it sees becomes a list of events,
which `builder` turns into a trace. A thread that does not record passes straight through.

- `op_callbacks.add_op_callback`: every op that runs eagerly. Thread-local; tfdbg stands on it.
- `execute.record_gradient`: when TensorFlow's slow path puts an op on the tape, which is after the
  callback has been.
- `record.record_operation` and `.record_operation_backprop_only`: every custom gradient and every
  closed `tf.function`.
- `record.VariableWatcher`: where the body of a custom-gradient function begins and ends.
- `imperative_grad.imperative_grad`: one call is one backward pass.
- `resource_variable_ops.variable_accessed`: the variable behind a resource handle.
- `BaseResourceVariable._handle`: a variable that C++ reads by itself on its way into an op.
- `Function.__call__`: opens a `tf.function` on this thread only. `run_functions_eagerly` lost: it
  is process-wide, and `tape.jacobian` warns of it.

How a built-in op comes to tell its upstream: when it is on a tape, the tape is given a second
record for the same outputs, whose backward function calls TensorFlow's own gradient function and
notes what went in and out. The tape keeps the last record; `tf.custom_gradient` relies on the same.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import tensorflow as tf

from . import source
from .arguments import as_source
from .events import Body, CallEvent, Hub, OpEvent, PassEvent, RuleEvent
from .source import learner_frame

try:
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import (
        backprop,
        context,
        execute,
        imperative_grad,
        record,
    )
    from tensorflow.python.framework import op_callbacks, ops
    from tensorflow.python.ops import resource_variable_ops

    # TensorFlow's own, also while their Python wrappers in `record` are replaced.
    _tape_record = pywrap_tfe.TFE_Py_TapeSetRecordOperationBackprop
    _watched = pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop
    _no_tape = pywrap_tfe.TFE_Py_TapeSetIsEmpty

    _IMPORT_ERROR: Exception | None = None
except (ImportError, AttributeError) as error:
    _IMPORT_ERROR = error

_PLACES = (
    "op_callbacks.add_op_callback",
    "op_callbacks.remove_op_callback",
    "execute.execute",
    "execute.record_gradient",
    "record.record_operation",
    "record.record_operation_backprop_only",
    "record.VariableWatcher",
    "imperative_grad.imperative_grad",
    "resource_variable_ops.variable_accessed",
    "backprop._gradient_function",
    "ops._gradient_registry",
    "ops.uid",
)


class _Local(threading.local):
    hub: Hub | None = None
    # Which custom rules, by their code, are left out, so that their bodies are differentiated.
    bodies: Callable[[Any], bool] | None = None


_local = _Local()


# --- noting ops and steps --------------------------------------------------------------------


def run_rule(event: OpEvent, *upstream: Any) -> Any:
    """Run an op's backward rule: upstream in, one downstream per input out."""
    return event.rule(*upstream) if isinstance(event, CallEvent) else _built_in(event, upstream)


def _built_in(event: OpEvent, upstream: Sequence[Any]) -> list[Any]:
    """Run TensorFlow's own rule of an op.

    An input that no tape watches is skipped, as TensorFlow's own record does: without it the first
    layer of a network would compute a gradient for its data.
    """
    watched = event.watched
    count = len(event.inputs)
    skip: Any = ()
    if watched != (1 << count) - 1:
        skip = tuple([i for i in range(count) if not watched >> i & 1])
    gradients = backprop._gradient_function(
        event.type,
        event.attrs,
        count,
        event.inputs,
        event.outputs,
        upstream,
        skip,
        event.scope or "",
    )
    if gradients.__class__ is list:
        return gradients
    return list(gradients) if isinstance(gradients, tuple) else [gradients]


def _note_step(event: OpEvent, *upstream: Any) -> list[Any]:
    """Run a built-in op's backward rule; inside a pass, note what went in and came out."""
    gradients = _built_in(event, upstream)
    hub = _local.hub
    where = None if hub is None else hub.where
    if isinstance(where, PassEvent):
        where.noted += (event, upstream, gradients)
    return gradients


def _note_rule(event: CallEvent, *upstream: Any) -> Any:
    """The same for a rule of somebody's own, whose ops get a container."""
    hub = _local.hub
    where = None if hub is None else hub.where
    if hub is None or not isinstance(where, PassEvent):
        return event.rule(*upstream)
    hub.where = RuleEvent(where, event)
    gradients = run_rule(event, *upstream)
    hub.where = where
    noted = list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
    where.noted += (event, upstream, noted)
    return gradients


class _TapedOp(OpEvent):
    """An op that is its own backward function: one object for the garbage collector, not four."""

    __slots__ = ()
    __call__ = _note_step


def _put_on_tape(event: OpEvent) -> None:
    """Give every active tape a record of `event` whose backward function takes notes."""
    watched = _watched_inputs(event.inputs)
    if watched:
        event.watched = watched
        # A read needs no note: what reaches it is the variable's gradient.
        if event.type != "ReadVariableOp":
            _tape_record(event.type, event.outputs, event.inputs, event)


def _watched_inputs(inputs: Sequence[Any]) -> int:
    """Which inputs a tape follows, one bit each."""
    watched, bit = 0, 1
    for tensor in inputs:
        if _watched((tensor,)):
            watched |= bit
        bit += bit
    return watched


def _op_callback(hub: Hub) -> Callable[..., None]:
    """The callback that TensorFlow calls after every eager op; the hot path of a recording."""
    log = hub.log.append
    names = context.context()._thread_local_data
    kinds = source.kinds

    def on_op(
        op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        if graph is not None or hub.muted:
            return
        where = hub.where
        if where.__class__ is PassEvent:  # a built-in rule runs this op
            if _no_tape():
                return  # nobody differentiates it: `rerun` has it when asked
            frame = None
        else:
            frame = sys._getframe(1)
            while frame is not None:  # `learner_frame`, inlined: a tenth of a recording's cost
                kind = kinds.get(frame.f_code.co_filename)
                if kind == source.LEARNER:
                    break
                if kind != source.LIBRARY:
                    frame = learner_frame(frame)
                    break
                frame = frame.f_back
        slow = op_type.__class__ is bytes  # the slow path: `record_gradient` comes after us
        if slow:
            op_type = op_type.decode()
        # `outputs` may be a list that its caller changes later, as a TensorArray does.
        made = tuple(outputs or ())
        event = _TapedOp(op_type, inputs, made, attrs, where, names.scope_name, frame)
        if hub.touched:
            _note_reads(hub, event)
        log(event)
        if op_type == "ResourceGather":
            hub.snapshots[id(event)] = _read(hub, inputs[0])
        if not slow and outputs and op_type[:2] != "__":
            _put_on_tape(event)

    return on_op


class _Handle:
    """Stands for the attribute `_handle` of variables, and notes whose was asked for.

    An op that is given a variable itself reads it in C++ and calls nobody back; all that Python
    sees of it is that it asks for the handle.
    """

    def __get__(self, variable: Any, owner: Any = None) -> Any:
        if variable is None:
            return self
        hub = _local.hub
        if hub is not None and not hub.muted:
            hub.touched.append((variable, ops.uid()))
        try:
            return variable.__dict__["_handle"]
        except KeyError:
            raise AttributeError("_handle") from None

    def __set__(self, variable: Any, handle: Any) -> None:
        variable.__dict__["_handle"] = handle


def _note_reads(hub: Hub, event: OpEvent) -> None:
    """Log the reads that C++ did for `event`: those of its inputs that are a variable's value.

    Such a tensor is younger than the moment the handle was asked for, and shares the variable's
    buffer. Its age matters: TensorFlow keeps small constants, so others can share it too.
    """
    touched = {id(variable): (variable, uid) for variable, uid in reversed(hub.touched)}
    hub.touched.clear()
    for variable, uid in touched.values():
        handle = variable.__dict__.get("_handle")
        young = [
            t
            for t in event.inputs
            if t._id > uid and t.dtype == variable.dtype and t.shape == variable.shape
        ]
        if not young:
            continue
        with aside(), record.stop_recording():
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)
        for tensor in young:
            if _same_memory(tensor, value):
                hub.know(variable, handle)
                read = OpEvent("ReadVariableOp", (handle,), (tensor,), (), hub.where, "", None)
                hub.log.append(read)


def _same_memory(one: Any, other: Any) -> bool:
    """Whether two tensors share their buffer, as all reads of a variable between writes do."""
    try:
        first, second = (
            np.asarray(memoryview(t)).__array_interface__["data"] for t in (one, other)
        )
    except (TypeError, ValueError, BufferError):  # bfloat16 and other dtypes no buffer knows
        return bool(tf.reduce_all(one == other))
    return bool(first == second)


def _read(hub: Hub, handle: Any) -> Any:
    """The value of a variable that an op reads through its handle, as it is now."""
    variable = hub.variables.get(id(handle))
    if variable is None:
        return None
    with aside(), record.stop_recording():
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)


def _note_unread(hub: Hub, sources: Sequence[Any], raw: Sequence[Any], where: Any) -> None:
    """Log a read of each variable among the sources of a pass that no code here has touched."""
    unknown = {id(t): t for t in sources if id(t) not in hub.variables and t.dtype == tf.resource}
    for variable in map(as_source, raw if unknown else ()):
        with aside():
            handle = unknown.get(id(getattr(variable, "handle", None)))
        if handle is not None:
            hub.know(variable, handle)
            value = _read(hub, handle)
            hub.log.append(OpEvent("ReadVariableOp", (handle,), (value,), (), where, "", None))


def _claim(hub: Hub, outputs: Sequence[Any]) -> list[OpEvent]:
    """The latest events that made `outputs`: what a record now replaces on the tape."""
    wanted = {id(t) for t in outputs}
    claimed = []
    for event in reversed(hub.log):
        if not wanted:
            break
        if isinstance(event, OpEvent) and event.where is hub.where:
            made = {id(t) for t in event.outputs}
            if made & wanted:
                claimed.append(event)
                wanted -= made
    return claimed


def _free_variable(function: Any, name: str) -> Any:
    """What `function` closes over under `name`, or None."""
    code = getattr(function, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    return function.__closure__[code.co_freevars.index(name)].cell_contents


def _record_operation(hub: Hub, op_type: str, outputs: Any, inputs: Any, rule: Any) -> Any:
    """Note a custom gradient, or a closed `tf.function`, that TensorFlow records itself.

    Returns the backward function to hand on to TensorFlow.
    """
    frame = learner_frame(sys._getframe(2))
    event = CallEvent(
        op_type,
        tuple(inputs),
        tuple(outputs),
        (),
        hub.where,
        context.context().scope_name,
        frame,
        rule=rule,
    )
    event.watched = _watched_inputs(inputs)
    claimed = _claim(hub, outputs)
    body, hub.finished = hub.finished, None
    if body is not None and body.outer is hub.where:
        event.body = body
        event.grad_fn = _free_variable(rule, "grad_fn")
        event.variables = _free_variable(rule, "variables") or ()
        if not event.watched and any(e.watched for e in claimed):
            body.flat = True  # called by keyword only: TensorFlow drops the rule, the body stays
            hub.dropped.update((id(e), event) for e in claimed)
            claimed = [event]
    hub.absorbed.update(map(id, claimed))
    hub.log.append(event)
    return partial(_note_rule, event)


# --- the replacements ------------------------------------------------------------------------


def _eager_hub() -> Hub | None:
    hub = _local.hub
    return hub if hub is not None and not hub.muted and context.executing_eagerly() else None


def _wrap_record(original: Any) -> Any:
    def record_operation(
        op_type: Any,
        output_tensors: Any,
        input_tensors: Any,
        backward_function: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if _local.bodies is not None and backward_function.__name__ == "actual_grad_fn":
            grad_fn = _free_variable(backward_function, "grad_fn")
            if _local.bodies(getattr(grad_fn, "__code__", None)):
                return
        hub = _eager_hub()
        if hub is not None:
            backward_function = _record_operation(
                hub, op_type, output_tensors, input_tensors, backward_function
            )
        original(op_type, output_tensors, input_tensors, backward_function, *args, **kwargs)

    return record_operation


def _wrap_record_gradient(original: Any) -> Any:
    def record_gradient(op_name: Any, inputs: Any, attrs: Any, outputs: Any) -> None:
        original(op_name, inputs, attrs, outputs)
        hub = _eager_hub()
        event = hub.log[-1] if hub is not None and hub.log else None
        if isinstance(event, OpEvent) and event.outputs and event.outputs[0] is outputs[0]:
            event.inputs, event.outputs, event.attrs = tuple(inputs), tuple(outputs), attrs
            _put_on_tape(event)

    return record_gradient


def _wrap_enter(original: Any) -> Any:
    def __enter__(self: Any) -> Any:
        result = original(self)
        hub = _eager_hub()
        if hub is not None:
            hub.where = Body(hub.where)
        return result

    return __enter__


def _wrap_exit(original: Any) -> Any:
    def __exit__(self: Any, *exc: Any) -> Any:
        hub = _eager_hub()
        if hub is not None and isinstance(hub.where, Body):
            body = hub.where
            hub.where = body.outer
            hub.finished = body if exc[0] is None else None
        return original(self, *exc)

    return __exit__


def _wrap_imperative_grad(original: Any) -> Any:
    def imperative_grad(
        tape: Any,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        sources_raw: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        hub = _local.hub
        if hub is None or hub.muted:
            return original(tape, target, sources, output_gradients, sources_raw, *args, **kwargs)
        where = hub.where
        event = PassEvent(where, target, output_gradients, sources, _no_tape())
        if context.executing_eagerly():
            frame = learner_frame(sys._getframe(1))
            if frame is not None:
                event.code, event.lasti = frame.f_code, frame.f_lasti
            hub.log.append(event)
            _note_unread(hub, sources, sources_raw or (), where)
            hub.where = event
        else:
            hub.where = None  # building a graph (tape.jacobian): there are no numbers to note
        try:
            event.result = original(
                tape, target, sources, output_gradients, sources_raw, *args, **kwargs
            )
            return event.result
        finally:
            hub.where = where

    return imperative_grad


def _wrap_variable_accessed(original: Any) -> Any:
    def variable_accessed(variable: Any) -> None:
        hub = _eager_hub()
        if hub is not None:
            hub.know(variable, variable.handle)
        original(variable)

    return variable_accessed


def _wrap_function_call(original: Any) -> Any:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        hub = _eager_hub()
        if hub is not None and hub.open_functions[-1]:
            function = self.python_function
            # TensorFlow's own (pfor, optimizers) stay closed: they need the graph.
            if not (getattr(function, "__module__", None) or "").startswith("tensorflow."):
                return function(*args, **kwargs)
        return original(self, *args, **kwargs)

    return __call__


@cache
def _function_type() -> Any:
    """The class of a `tf.function`; making one takes as long as recording twenty ops."""
    return type(tf.function(lambda: None))


def _replacements() -> list[tuple[Any, str, Callable[[Any], Any]]]:
    return [
        (record, "record_operation", _wrap_record),
        (record, "record_operation_backprop_only", _wrap_record),
        (record.VariableWatcher, "__enter__", _wrap_enter),
        (record.VariableWatcher, "__exit__", _wrap_exit),
        (execute, "record_gradient", _wrap_record_gradient),
        (imperative_grad, "imperative_grad", _wrap_imperative_grad),
        (resource_variable_ops, "variable_accessed", _wrap_variable_accessed),
        (_function_type(), "__call__", _wrap_function_call),
    ]


# --- on and off ------------------------------------------------------------------------------

# A recording keeps all it makes, so the garbage collector finds nothing in it, and by its defaults
# looks every 700 objects: a third of the time of a long recording. While one runs it looks less.
_LOOK_EVERY = 50_000
_lock = threading.Lock()
_recording_threads = 0
_thresholds = gc.get_threshold()
_saved: list[tuple[Any, str, Any]] = []


def check_release() -> None:
    """Raise one clear error when this TensorFlow lacks a seam that recording needs."""
    missing = str(_IMPORT_ERROR) if _IMPORT_ERROR else None
    if missing is None:
        for place in _PLACES:
            module, name = place.split(".")
            if not hasattr(globals()[module], name):
                missing = f"`{globals()[module].__name__}.{name}` is gone"
                break
    if missing:
        raise RuntimeError(
            f"cgviz cannot record with TensorFlow {tf.__version__}: {missing}. "
            "cgviz is tested with TensorFlow 2.16 to 2.21; install one of these."
        )


@cache
def _let_malloc_keep_memory() -> None:
    """Let a trace that is dropped leave its memory to the next one.

    A trace keeps tensors whose memory TensorFlow would have used again. When it goes, glibc hands
    this memory back to the system, and the next recording pays for it in page faults. How much
    glibc keeps it learns from the blocks that are freed: twice the largest, of those up to 32 MB.
    So it is shown one, which costs nothing, for nobody writes to it. `mallopt` lost: it would end
    the learning. Other systems' malloc takes no notice.
    """
    np.empty(2**25 - 2**16, np.uint8)


def _install() -> None:
    global _recording_threads, _thresholds
    _let_malloc_keep_memory()
    with _lock:
        if _recording_threads == 0:
            _thresholds = gc.get_threshold()
            if 0 < _thresholds[0] < _LOOK_EVERY:  # 0 is a collector that somebody switched off
                gc.set_threshold(_LOOK_EVERY, *_thresholds[1:])
            resource_variable_ops.BaseResourceVariable._handle = _Handle()
            _saved.append((execute, "execute", execute.execute))
            for owner, name, wrap in _replacements():
                original = getattr(owner, name)
                _saved.append((owner, name, original))
                setattr(owner, name, wrap(original))
        _recording_threads += 1


def _uninstall() -> None:
    global _recording_threads
    with _lock:
        _recording_threads -= 1
        if _recording_threads == 0:
            while _saved:
                owner, name, original = _saved.pop()
                setattr(owner, name, original)
            del resource_variable_ops.BaseResourceVariable._handle
            if gc.get_threshold()[0] == _LOOK_EVERY:
                gc.set_threshold(*_thresholds)
        else:
            # Removing a callback put back the fast `execute`, which other threads must not have.
            execute.execute = execute.execute_with_callbacks


@contextmanager
def listening(open_functions: bool) -> Iterator[tuple[Hub, int, Any]]:
    """Record on this thread while the block runs.

    Yields the thread's hub, the place in its log where this recording begins, and the container
    that is top level to it. A recording inside a recording shares the hub, so each sees its part.
    """
    check_release()
    if not tf.executing_eagerly():
        raise RuntimeError(
            "cgviz records eager execution, and this code is building a graph: start the "
            "recording outside of `tf.function`. The function itself is opened for you."
        )
    hub = _local.hub
    outermost = hub is None
    if hub is None:
        _install()
        try:
            hub = Hub()
            hub.callback = _op_callback(hub)
            op_callbacks.add_op_callback(hub.callback)
        except BaseException:
            _uninstall()
            raise
        _local.hub = hub
    hub.open_functions.append(open_functions)
    where = hub.where
    try:
        yield hub, len(hub.log), where
    finally:
        hub.open_functions.pop()
        hub.where = where
        if outermost:
            _local.hub = None
            try:
                op_callbacks.remove_op_callback(hub.callback)
                hub.callback = None  # hub and callback hold each other: nothing waits for the gc
            finally:
                _uninstall()


@contextmanager
def aside() -> Iterator[None]:
    """Run TensorFlow code that a recording on this thread does not see.

    Tapes stay on: stopping them would also stop the tape that a rule opens for itself.
    """
    hub = _local.hub
    muted = hub.muted if hub else False
    if hub:
        hub.muted = True
    try:
        yield
    finally:
        if hub:
            hub.muted = muted


def is_differentiable(op_type: str) -> bool:
    """Whether TensorFlow has a gradient function for this op type."""
    try:
        return ops._gradient_registry.lookup(op_type) is not None
    except LookupError:
        return False


@contextmanager
def afresh() -> Iterator[None]:
    """Run code, recordings of its own included, that a recording on this thread does not see."""
    outer = _local.hub
    with aside():
        _local.hub = None
        try:
            yield
        finally:
            _local.hub = outer


@contextmanager
def rules_ignored(which: Callable[[Any], bool] = lambda code: True) -> Iterator[None]:
    """Differentiate the bodies of custom gradients, in eager mode, as if they had no rule.

    `which` tells by the code of a rule whether it is left out.
    """
    check_release()
    _install()
    try:
        _local.bodies = which
        yield
    finally:
        _local.bodies = None
        _uninstall()


def registered_gradients() -> int:
    """How many gradients the process-wide registry holds; no public way tells."""
    return len(ops._gradient_registry.list())


@contextmanager
def seeds_kept() -> Iterator[None]:
    """Leave TensorFlow's global seed and its stream as they were; it can be set, not asked."""
    now = context.context()
    seed, stream = now._seed, getattr(now, "_rng", None)  # a context begins without a stream
    place = None if stream is None else stream.getstate()
    try:
        yield
    finally:
        if getattr(now, "_rng", None) is not stream:
            now._set_global_seed(seed)
            now._rng = stream
        if stream is not None:
            stream.setstate(place)
