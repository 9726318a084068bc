"""The only module that touches TensorFlow's non-public API, and why.

TensorFlow has no public hook for "this op's backward rule ran with this upstream and returned
that". The parts below provide exactly this; each is replaced while a recording is open and restored
on every way out. A context that records has a `ThreadRecorder`, which collects a list of events;
`build` turns them into a trace. In any other context the hooks only call what they replace. One
thing remains afterwards: a `tf.function` that was opened keeps how it was called until a model that
contains it is saved, so that the saved model has the graphs it would have had without a recording.

- `Context.op_callbacks`: every op that runs eagerly. Thread-local; tfdbg is built on them.
- `pywrap_tfe.TFE_Py_RegisterGradientFunction`: registers the function by which a tape runs the
  rules of TensorFlow's own ops. Ours notes what such a rule is given and what it returns.
- `record.record_operation` and `.record_operation_backprop_only`: every custom gradient and every
  closed `tf.function`.
- `record.VariableWatcher`: where the body of a custom-gradient function begins and ends.
- `imperative_grad.imperative_grad`: one call is one backward pass.
- `resource_variable_ops.variable_accessed`: the variable behind a handle that an op is given.
- `BaseResourceVariable._handle`: a variable that is given to an op and read in C++.
- `execute.args_to_matching_eager`: where Python reads such a variable, and chooses the dtype.
- `Function.__call__`: opens a learner's `tf.function` in this context only. Not done by
  `run_functions_eagerly`, which is process-wide, and which `tape.jacobian` warns about.
- `mirrored_run._MirroredReplicaThread`: what a replica of `tf.distribute.MirroredStrategy` runs on
  its thread. TensorFlow lets one replica run at a time, so their events have an order.
- `GradientTape.jacobian` and `.batch_jacobian`: whether a backward pass is built as a graph.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from . import source
from .arguments import as_source, title
from .events import (
    Body,
    CallEvent,
    NoteEvent,
    OpEvent,
    PassEvent,
    Recording,
    RuleEvent,
    ThreadRecorder,
    current_task,
)
from .source import NOWHERE, place


def _unsupported(error: Exception) -> RuntimeError:
    return RuntimeError(
        f"cgviz cannot record with TensorFlow {tf.__version__}: {error}. "
        "cgviz is tested with TensorFlow 2.16 to 2.21; install one of these."
    )


try:
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.distribute.mirrored_run import _MirroredReplicaThread
    from tensorflow.python.eager import backprop, context, execute, imperative_grad, record
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import resource_variable_ops
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    # TensorFlow's own functions, not the wrappers in `record`, which a recording may replace.
    _is_watched = pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop
    _no_tape = pywrap_tfe.TFE_Py_TapeSetIsEmpty
    _gradient_function = backprop._gradient_function
    _register = pywrap_tfe.TFE_Py_RegisterGradientFunction
    _registry = ops._gradient_registry
    _execute_with_callbacks = execute.execute_with_callbacks
except (ImportError, AttributeError) as error:
    raise _unsupported(error) from error

_recorder: ContextVar[ThreadRecorder | None] = ContextVar("_recorder", default=None)
# Custom rules that were left out, so that their bodies are differentiated; None where none is.
_ignored: ContextVar[list[Any] | None] = ContextVar("_ignored", default=None)


def _open_recorder() -> ThreadRecorder | None:
    """The recorder of this context, if it is open and belongs to this thread.

    A context that was copied may run on another thread, or outlive the recording.
    """
    recorder = _recorder.get()
    if recorder is None or not recorder.recordings or recorder.thread != threading.get_ident():
        return None
    return recorder


def _eager_recorder() -> ThreadRecorder | None:
    """The open recorder; None while a graph is being built, which has no numbers to note."""
    recorder = _open_recorder()
    return recorder if recorder is not None and context.executing_eagerly() else None


# --- noting ops and steps --------------------------------------------------------------------


def run_rule(ran: Any, *upstream: Any) -> Any:
    """Run a backward rule on some upstream; `ran` is as in `PassEvent.noted`."""
    if isinstance(ran, CallEvent):
        return ran.rule(*upstream)
    return _gradient_function(*ran[:5], upstream, *ran[6:])


def _on_gradient(*given: Any) -> Any:
    """Run a built-in op's backward rule; inside a pass, note what it was given and returned."""
    gradients = _gradient_function(*given)
    recorder = _recorder.get()
    if recorder is not None and recorder.where.__class__ is PassEvent:
        recorder.where.noted += (given, given[5], gradients)  # the sixth argument is the upstream
    return gradients


def _note_rule(event: CallEvent, *upstream: Any) -> Any:
    """Run a custom rule; inside a pass, note what went in and came out, and which ops it ran."""
    recorder = _recorder.get()
    where = None if recorder is None else recorder.where
    if recorder is None or not isinstance(where, PassEvent):
        return event.rule(*upstream)
    recorder.where = RuleEvent(where, event)
    heard = _hear(True)
    gradients = run_rule(event, *upstream)
    recorder.where = where
    _hear(heard and bool(recorder.recordings))
    where.noted += (event, upstream, gradients)
    return gradients


def _hear(wanted: bool) -> bool:
    """Turn the callback `_on_op` of this thread on or off; return whether it was on."""
    callbacks = context.context().op_callbacks
    heard = _on_op in callbacks
    if heard and not wanted:
        callbacks.remove(_on_op)
    if wanted and not heard:
        callbacks.append(_on_op)
    return heard


def _watched(inputs: Sequence[Any]) -> tuple[bool, ...]:
    """Whether a tape follows each input; () where no tape is recording."""
    if _no_tape():
        return ()
    return tuple(map(_is_watched, zip(inputs)))  # it takes a sequence, so each is in a tuple


def _on_op(
    op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
) -> None:
    """Note an op: TensorFlow calls this after each, so it is the hot path of a recording."""
    recorder = _recorder.get()
    if recorder is None or not recorder.recordings or graph is not None:
        return
    where = recorder.where
    at = NOWHERE if where.__class__ is PassEvent else place(sys._getframe(1))
    if op_type.__class__ is bytes:
        op_type = op_type.decode()
    scope = context.context()._thread_local_data.scope_name
    # `outputs` may be a list that its caller changes later, as a TensorArray does.
    made = tuple(outputs or ())
    recorder.events.append(
        OpEvent(op_type, inputs, made, attrs, where, scope, _watched(inputs), at)
    )


class _Handle:
    """Replaces the attribute `_handle` of variables.

    An op that is given a variable instead of a tensor reads it in C++, without a callback. If C++
    finds no handle, it leaves the op to Python, which reads the variable with a separate op.
    """

    def __get__(self, variable: Any, owner: Any = None) -> Any:
        # C++ asks from within the generated function of an op, which itself never reads `_handle`.
        asking = sys._getframe(1).f_globals.get("__name__", "")
        recorder = _eager_recorder()
        if asking.startswith("tensorflow.python.ops.gen_") and recorder is not None:
            recorder.left_to_python = True
            return None
        if "_handle" not in variable.__dict__:
            raise AttributeError("_handle")
        handle = variable.__dict__["_handle"]
        recorder = _open_recorder()
        if recorder is not None and recorder.before is not None:
            _note_before(recorder.before, variable, handle)
        return handle

    def __set__(self, variable: Any, handle: Any) -> None:
        variable.__dict__["_handle"] = handle


def _note_before(known: dict[int, tuple[Any, Any]], variable: Any, handle: Any) -> None:
    """Note what a variable holds, the first time that code touches it."""
    if id(variable) not in known:
        # A variable that is still being created has no value yet.
        with suppress(tf.errors.FailedPreconditionError), tf.init_scope():
            known[id(variable)] = variable, read(variable, handle)


def read(variable: Any, handle: Any) -> Any:
    """The value of a variable as it is now, read through its handle."""
    with unrecorded(), record.stop_recording():
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)


@contextmanager
def as_they_were(variables: Sequence[tuple[Any, Any]]) -> Iterator[None]:
    """Give variables the values that are beside them, if any; then put back what they hold now."""
    now = [(variable, read(variable, variable.handle)) for variable, _ in variables]
    try:
        for variable, value in variables:
            if value is not None:
                variable.assign(value)  # it shares the numbers, and copies none
        yield
    finally:
        for variable, value in now:
            variable.assign(value)


def variables_now(recorder: ThreadRecorder) -> dict[int, Any]:
    """The present values of the variables that a recorder knows, by the ids of their handles."""
    return {id(h): read(recorder.variables[id(h)], h) for h in recorder.handles}


def _note_unread(recorder: ThreadRecorder, sources: Sequence[Any], raw: Sequence[Any]) -> None:
    """Note a read of each source of a pass that is a variable the recording has not seen yet."""
    for variable, handle in zip(map(as_source, raw), sources, strict=False):
        if handle.dtype == tf.resource and id(handle) not in recorder.variables:
            recorder.know(variable, handle)
            _note_read(recorder, variable, handle)


def _note_read(recorder: ThreadRecorder, variable: Any, handle: Any) -> None:
    """Note the read of a variable for which no read op ran."""
    value = read(variable, handle)
    recorder.events.append(OpEvent("ReadVariableOp", (handle,), (value,), (), recorder.where))


# --- the hooks: each is given the original that it replaces, and the arguments -----------------


def _on_record(
    original: Any,
    op_type: Any,
    output_tensors: Any,
    input_tensors: Any,
    backward_function: Any,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Note a custom gradient, or a closed `tf.function`, that TensorFlow records as a whole."""
    rule = backward_function
    ignored = _ignored.get()
    if ignored is not None and rule.__name__ == "actual_grad_fn":
        ignored.append(rule)
        return
    recorder = _eager_recorder()
    if recorder is not None:
        event = CallEvent(
            op_type,
            tuple(input_tensors),
            tuple(output_tensors),
            (),
            recorder.where,
            context.context().scope_name,
            _watched(input_tensors),
            place(sys._getframe(1)),
            rule=backward_function,
        )
        body, recorder.finished = recorder.finished, None
        if body is not None and body.outer is recorder.where:
            event.body = body
            known = inspect.getclosurevars(backward_function).nonlocals
            event.grad_fn = known.get("grad_fn")
            event.variables = known.get("variables") or ()
        recorder.events.append(event)
        rule = partial(_note_rule, event)
    original(op_type, output_tensors, input_tensors, rule, *args, **kwargs)


def _on_body_enter(original: Any, watcher: Any) -> Any:
    result = original(watcher)
    recorder = _eager_recorder()
    if recorder is not None:
        recorder.where = Body(recorder.where)
    return result


def _on_body_exit(original: Any, watcher: Any, *error: Any) -> Any:
    recorder = _eager_recorder()
    if recorder is not None and isinstance(recorder.where, Body):
        body = recorder.where
        recorder.where = body.outer
        recorder.finished = body if error[0] is None else None
    return original(watcher, *error)


def _on_imperative_grad(
    original: Any, tape: Any, target: Any, sources: Any, output_gradients: Any = None, **others: Any
) -> Any:
    recorder = _open_recorder()
    if recorder is None:
        return original(tape, target, sources, output_gradients, **others)
    where = recorder.where
    event = PassEvent(where, target, output_gradients, sources)
    if context.executing_eagerly():
        event.place = place(sys._getframe(1))
        recorder.events.append(event)
        _note_unread(recorder, sources, others.get("sources_raw") or ())
        recorder.where = event
    else:
        recorder.where = None  # building a graph (tape.jacobian): there are no numbers to note
    heard = _hear(not _no_tape())  # without a tape, nobody differentiates the ops of the pass
    try:
        event.result = original(tape, target, sources, output_gradients, **others)
        return event.result
    finally:
        recorder.where = where
        _hear(heard and bool(recorder.recordings))


def _on_variable_accessed(original: Any, variable: Any) -> None:
    recorder = _eager_recorder()
    if recorder is not None:
        recorder.know(variable, variable.handle)
        # A gather and a closed function get the handle; a read has an op, an assignment reads not.
        if sys._getframe(2).f_code.co_name not in ("_read_variable_op", "_lazy_read"):
            _note_read(recorder, variable, variable.handle)
    original(variable)


def _on_matching(original: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
    """Read the variables first, as C++ would have: they, not a number before them, set the dtype.

    Only after C++ asked for a handle: otherwise TensorFlow refuses the op, recorded or not.
    """
    recorder = _eager_recorder()
    if recorder is not None and recorder.left_to_python:
        recorder.left_to_python = False
        variable = BaseResourceVariable
        values = [tf.convert_to_tensor(v) if isinstance(v, variable) else v for v in values]
    return original(values, *args, **kwargs)


def _on_function_call(original: Any, called: Any, *args: Any, **kwargs: Any) -> Any:
    recorder = _eager_recorder()
    if recorder is None:
        return original(called, *args, **kwargs)
    function = called.python_function
    opens = recorder.recordings[-1].open_functions and called not in recorder.graph_only
    opens = opens and source.is_learners(function)  # a library's own may need the graph
    note = NoteEvent("opened" if opens else "closed", title(called))
    if not (getattr(function, "__module__", None) or "").startswith("tensorflow."):
        recorder.events.append(note)
    if opens:
        try:
            return _open(called, args, kwargs)
        except Exception as error:
            # TensorFlow's message says "eager" if something needs a graph, such as `tf.gradients`.
            if "eager" not in str(error):
                raise
            recorder.graph_only.add(called)
            note.what = "closed"
    return original(called, *args, **kwargs)


def _open(called: Any, args: Any, kwargs: Any) -> Any:
    """Run a `tf.function`'s body eagerly; arguments and results are converted as for a graph."""
    bound = called.function_type.bind_with_defaults(args, kwargs, called._default_values)
    args, kwargs = tf.nest.map_structure(_argument, (bound.args, bound.kwargs))
    result = called.python_function(*args, **kwargs)
    # Unlike a closed call, this one makes no graph: `_graphs` makes it when a model is saved.
    specs = tf.nest.map_structure(_spec, (args, kwargs))
    asked = vars(called).setdefault(_LISTING, partial(_graphs, called, {}))
    asked.args[1][tuple(map(_kind, tf.nest.flatten(specs)))] = specs
    return tf.nest.map_structure(_result, result)


def _argument(leaf: Any) -> Any:
    return tf.convert_to_tensor(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf


def _spec(leaf: Any) -> Any:
    """What a graph is made for: a tensor's spec (ragged and sparse too), else the leaf itself."""
    is_tensor = tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable)
    return tf.type_spec_from_value(leaf) if is_tensor else leaf


def _kind(spec: Any) -> Any:
    """A key, equal for arguments that share a graph: the spec, the plain value, or the object."""
    if isinstance(spec, bool | int | float | complex | str | bytes):
        return type(spec), spec
    return spec if isinstance(spec, tf.TypeSpec) else id(spec)


def _result(leaf: Any) -> Any:
    plain = np.ndarray | np.generic | bool | int | float | complex | str | bytes | tf.Variable
    return tf.convert_to_tensor(leaf) if isinstance(leaf, plain) else leaf


def _graphs(called: Any, opened: dict[Any, Any]) -> Any:
    """The graphs of a function that was opened, including those of its opened calls."""
    vars(called).pop(_LISTING, None)
    for args, kwargs in opened.values():
        with suppress(Exception):  # a call that runs only eagerly has no graph
            called.get_concrete_function(*args, **kwargs)
    return getattr(called, _LISTING)()


def _on_replica_made(original: Any, thread: Any, *args: Any, **kwargs: Any) -> None:
    original(thread, *args, **kwargs)
    recorder = _eager_recorder()
    thread.cgviz_recorder = None if recorder is None else recorder.beside()


def _on_replica_run(original: Any, thread: Any) -> None:
    recorder = thread.cgviz_recorder
    if recorder is not None:
        recorder.thread = threading.get_ident()
        _recorder.set(recorder)
    original(thread)


def _on_jacobian(original: Any, tape: Any, *args: Any, **kwargs: Any) -> Any:
    recorder = _eager_recorder()
    # The fifth argument of both methods is whether the pass is built as a graph.
    if recorder is not None and kwargs.get("experimental_use_pfor", (*args, *[True] * 5)[4]):
        recorder.events.append(NoteEvent("jacobian"))
    return original(tape, *args, **kwargs)


# --- on and off ------------------------------------------------------------------------------

_LISTING = "_list_all_concrete_functions_for_serialization"
# What each replaces: an attribute, by its owner and its name.
_HOOKS: list[tuple[Any, str, Callable[..., Any]]] = [
    (record, "record_operation", _on_record),
    (record, "record_operation_backprop_only", _on_record),
    (record.VariableWatcher, "__enter__", _on_body_enter),
    (record.VariableWatcher, "__exit__", _on_body_exit),
    (execute, "args_to_matching_eager", _on_matching),
    (imperative_grad, "imperative_grad", _on_imperative_grad),
    (resource_variable_ops, "variable_accessed", _on_variable_accessed),
    (Function, "__call__", _on_function_call),
    (_MirroredReplicaThread, "__init__", _on_replica_made),
    (_MirroredReplicaThread, "run", _on_replica_run),
    (tf.GradientTape, "jacobian", _on_jacobian),
    (tf.GradientTape, "batch_jacobian", _on_jacobian),
]
_NEEDED = ((context.Context, "op_callbacks"), (Function, "function_type"), (Function, _LISTING))
for _owner, _name in (*((owner, name) for owner, name, _ in _HOOKS), *_NEEDED):
    if not hasattr(_owner, _name):
        raise _unsupported(AttributeError(f"`{_owner.__name__}.{_name}` is gone"))
_lock = threading.Lock()
_users: list[object] = []  # what needs the hooks now: recorders, and blocks of `rules_ignored`
_saved: list[tuple[Any, str, Any]] = []


def _hooked(hook: Callable[..., Any], original: Any) -> Callable[..., Any]:
    """`hook`, given the original; a function, not a `partial`, so that it can be a method."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return hook(original, *args, **kwargs)

    return call


def _install(user: object) -> None:
    with _lock:
        _users.append(user)
        if not _saved:
            _saved.append((execute, "execute", execute.execute))
            execute.execute = _execute_with_callbacks
            _register(_on_gradient)
            BaseResourceVariable._handle = _Handle()
            for owner, name, hook in _HOOKS:
                original = getattr(owner, name)
                _saved.append((owner, name, original))
                setattr(owner, name, _hooked(hook, original))


def _uninstall(user: object) -> None:
    """Undo `_install` and remove the callback; after an interrupt it can run once more."""
    with _lock:
        if user in _users:
            _users.remove(user)
        threads = [each.thread for each in _users if isinstance(each, ThreadRecorder)]
        if threading.get_ident() not in threads:
            _hear(False)
        if _users:
            return
        for owner, name, original in _saved:
            setattr(owner, name, original)
        _saved.clear()
        _register(_gradient_function)
        if "_handle" in vars(BaseResourceVariable):
            del BaseResourceVariable._handle


@contextmanager
def recording(open_functions: bool) -> Iterator[Recording]:
    """Record in this context and on this thread while the block runs.

    A recording inside another shares the outer recorder, and has its own part of the events.
    """
    if not tf.executing_eagerly():
        raise RuntimeError(
            "cgviz records eager execution, and this code is building a graph: start the "
            "recording outside of `tf.function`. The function itself is opened for you."
        )
    recorder = _open_recorder() or ThreadRecorder()
    if recorder.task is not current_task():
        raise RuntimeError(
            "this asyncio task began inside a recording: record around the tasks or in each of them"
        )
    mine = Recording(recorder, len(recorder.events), recorder.where, open_functions)

    def end() -> None:
        if mine in recorder.recordings:
            recorder.recordings.remove(mine)
        recorder.where = mine.root
        if not recorder.recordings:
            _recorder.set(None)
            _uninstall(recorder)

    try:
        recorder.recordings.append(mine)
        if len(recorder.recordings) == 1:
            _install(recorder)
            _hear(True)
            _recorder.set(recorder)
        yield mine
    finally:
        try:
            end()
        except BaseException:  # an interrupt came while it ended
            end()
            raise


def run_recorded(recording: Recording, run: Callable[[], Any]) -> Any:
    """Run; if that raises because it needs a graph, run again with every function closed.

    A rule may need the graph too: `tf.gradients` does not run eagerly.

    Raises:
        Exception: What the first run raises, if it has nothing to do with eager mode; else what the
            second raises.
    """
    recorder = recording.recorder
    if not recording.open_functions:
        return run()
    kept, recorder.before = recorder.before, {} if recorder.before is None else recorder.before
    try:
        return run()
    except Exception as error:
        noted = recording.events()
        opened = any(isinstance(each, NoteEvent) and each.what == "opened" for each in noted)
        if not opened or "eager" not in str(error):
            raise
        del recorder.events[recording.start :]
        recording.open_functions = False
        with unrecorded():
            for variable, value in recorder.before.values():  # the first run may have changed them
                variable.assign(value)
        return run()
    finally:
        recorder.before = kept


@contextmanager
def unrecorded() -> Iterator[None]:
    """Run code that no recording around it sees, even if the code opens recordings of its own.

    Tapes stay on: stopping them would also stop the tape that a rule opens for itself.
    """
    before = _recorder.get()
    _recorder.set(None)
    try:
        yield
    finally:
        _recorder.set(before)


@contextmanager
def rules_ignored() -> Iterator[list[Any]]:
    """Differentiate the bodies of custom gradients, in eager mode, as if they had no rule.

    Yields the rules that were left out so far.
    """
    before, user = _ignored.get(), object()
    found: list[Any] = []
    try:
        _install(user)
        _ignored.set(found)
        yield found
    finally:
        _ignored.set(before)
        _uninstall(user)


def is_differentiable(op_type: str) -> bool:
    """Whether TensorFlow has a gradient function for this op type."""
    try:
        return _registry.lookup(op_type) is not None
    except LookupError:
        return False


def is_loaded(f: Any) -> bool:
    """Whether f, a model or a function of one, comes from a SavedModel; no public API tells."""
    return type(f).__module__.startswith("tensorflow.python.saved_model.")


def registered_gradients() -> int:
    """How many gradients the process-wide registry holds; no public API tells."""
    return len(_registry.list())


@contextmanager
def state_kept() -> Iterator[None]:
    """Leave TensorFlow's global seed and stream, and the variable scope, as they were.

    No public API reads the first two. `tf.map_fn` leaves the scope changed where its body raises.
    """
    now, scope = context.context(), tf.compat.v1.get_variable_scope()
    device = scope.caching_device
    seed, stream = now._seed, getattr(now, "_rng", None)  # a context begins without a stream
    place = None if stream is None else stream.getstate()
    try:
        yield
    finally:
        scope._caching_device = device
        if getattr(now, "_rng", None) is not stream:
            now._set_global_seed(seed)
            now._rng = stream
        if stream is not None:
            stream.setstate(place)
