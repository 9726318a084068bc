"""From the events of a recording to the records of a trace.

The events come flat and in execution order; each knows its container: the body of a custom op,
a backward pass, a rule running inside one. Here they find their place, tensors become `Value`s,
reads merge into their variable, and names are looked up; then each pass gets its steps.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Op, Pass, Rule, Step, Value
from ..graph.jacobian import local_jacobians
from . import source, tf_hooks
from .events import Body, CallEvent, NoteEvent, OpEvent, PassEvent, RuleEvent, ThreadRecorder

Event = OpEvent | PassEvent | NoteEvent

_FUNCTION = re.compile(r"^__(?:forward|inference)_(.+?)_\d+$")  # how TensorFlow names its graphs
_EARLIER = "its forward ops ran before the recording began, so their steps are not known"
_FAILED = "it ended with an error, so it gave no gradients"
_is_differentiable = lru_cache(maxsize=None)(tf_hooks.is_differentiable)


def _period(types: list[str]) -> int:
    """The shortest run of op types that, repeated, makes up the whole."""
    count = len(types)
    for n in range(1, count):
        if types[:n] * (count // n) == types:
            return n
    return count


def notes(builder: Builder, passes: Sequence[Pass]) -> tuple[str, ...]:
    """What a reader must know: what ran otherwise than without a recording, and what is missing."""
    names: dict[str, dict[str, None]] = {}
    for each in builder.notes:
        names.setdefault(each.what, {})[each.name] = None
    listed = {what: ", ".join(found) for what, found in names.items()}
    found = []
    if "opened" in listed:
        found.append(f"run eagerly: {listed['opened']}")
    if "jacobian" in listed:
        found.append(
            "a Jacobian's backward pass ran as a graph, so it is not recorded: give the tape "
            "experimental_use_pfor=False"
        )
    mend = {
        "closed": "open_functions=True records what is inside",
        "library": "`tf.config.run_functions_eagerly(True)` before the recording opens it",
    }
    found += [
        f"run as a graph: {listed[what]}; a tape inside is not recorded ({how})"
        for what, how in mend.items()
        if what in listed and not passes
    ]
    return tuple(found)


class Builder:
    """Builds the ops of one recording."""

    def __init__(
        self,
        events: Sequence[Event],
        recorder: ThreadRecorder,
        root: Any,
        given: Sequence[tuple[Any, str]] = (),
    ) -> None:
        self.recorder = recorder
        self.root = root
        self.given = {id(tensor): name for tensor, name in given}
        self.notes = [e for e in events if isinstance(e, NoteEvent)]
        self.pass_events = [e for e in events if isinstance(e, PassEvent)]
        self.owners = {e.body for e in events if isinstance(e, CallEvent) and e.body is not None}
        self.events = [
            e
            for e in events
            if isinstance(e, OpEvent)
            and id(e) not in recorder.replaced
            and e.type != "VarHandleOp"  # the making of a variable; its reads tell of it
        ]
        self.bodies = self._bodies()
        self.sought = {id(tensor) for each in self.pass_events for tensor in each.sources}
        self.values = Values()
        self.made_by: dict[int, OpEvent] = {}
        self.op_of: dict[int, Op] = {}
        self.ops: dict[Any, list[Op]] = {}
        self.names: Counter[str] = Counter()
        self.taken: set[str] = set()
        self.handles: dict[str, int] = {}  # ids of those of variables, by the names of their ops
        self.last_of_call = self._last_of_calls()
        self._name_sources()
        for tensor, name in given:
            self._add_source(tensor, "input", name, self.root)
        self._build_ops()

    # --- containers ---

    def home(self, where: Any) -> Any:
        """The container that holds an event's op: the root, a custom op's body, or a pass."""
        while where is not None and where is not self.root:
            if isinstance(where, Body):
                if not where.rule_dropped and where in self.owners:
                    return where
            elif isinstance(where, PassEvent) and self.home(where.outer) is self.root:
                return where
            where = where.outer
        return self.root

    def top_passes(self) -> list[PassEvent]:
        """The pass events that no custom op and no rule hides."""
        return [e for e in self.pass_events if self.home(e.outer) is self.root]

    def _bodies(self) -> dict[Body, dict[int, OpEvent]]:
        """The events in each custom op's body, at any depth, by their id."""
        found: dict[Body, dict[int, OpEvent]] = {}
        for event in self.events:
            where = event.where
            while where is not None and where is not self.root:
                if isinstance(where, Body):
                    found.setdefault(where, {})[id(event)] = event
                where = where.outer
        return found

    # --- names ---

    def unique(self, name: str) -> str:
        """`name`, or `name_1` and so on when it is taken."""
        candidate = name
        while candidate in self.taken:
            self.names[name] += 1
            candidate = f"{name}_{self.names[name]}"
        self.taken.add(candidate)
        return candidate

    def _last_of_calls(self) -> set[int]:
        """The ops that a line's name belongs to: in `y = tf.norm(x)` only the last of several.

        Between them the call may run functions of the learner's, with lines of their own. A call
        that runs the same ops again and again is a loop, and names each round.
        """
        found: set[int] = set()
        made = [e for e in self.events if e.outputs and e.type != "ReadVariableOp"]
        made.sort(key=lambda e: (id(e.where), id(e.code)))
        for _, run in groupby(made, lambda e: (id(e.where), id(e.code), e.lasti)):
            events = list(run)
            period = _period([e.type for e in events])
            found.update(map(id, events[period - 1 :: period]))
        return found

    def _name_sources(self) -> None:
        """Take the names of inputs from `tape.gradient(y, [x, w])` where nobody gave them."""
        for each in self.pass_events:
            names = source.source_names(each.code, each.lasti)
            if len(names) == len(each.sources):
                for tensor, name in zip(each.sources, names, strict=True):
                    if name:
                        self.given.setdefault(id(tensor), name)

    def _names(self, event: OpEvent) -> tuple[str, str]:
        """An op's name and type."""
        named = id(event) in self.last_of_call
        own = source.assigned_name(event.code, event.lasti) if named else None
        function = _FUNCTION.match(event.type)
        if function:
            return self.unique(own or function.group(1)), "tf.function"
        dropped = self.recorder.dropped.get(id(event))
        return self.unique(own or (dropped.type if dropped else event.type)), event.type

    # --- ops ---

    def _build_ops(self) -> None:
        root = self.ops.setdefault(self.root, [])
        for event in self.events:
            for tensor in event.outputs:
                self.made_by[id(tensor)] = event
        for event in self.events:
            if event.type == "ReadVariableOp":
                self._read(event.inputs[0], event.outputs[0])
            elif event.outputs:
                self._add(event)
            else:
                self._assigned(event)
        for handle, variable in self.values.variables.items():
            name = self.unique(variable.name)
            root[variable.place] = Op(name, "variable", "Variable", (), tuple(variable.versions))
            self.handles[name] = handle

    def _add(self, event: OpEvent) -> None:
        home = self.home(event.where)
        inputs = tuple(self._input(event, i, home) for i in range(len(event.inputs)))
        name, type_ = self._names(event)
        call = event if isinstance(event, CallEvent) and event.body is not None else None
        ruled = call or self.recorder.dropped.get(id(event))
        op = Op(
            name,
            "custom" if call else "op",
            type_,
            inputs,
            tuple(self.values.of(tensor) for tensor in event.outputs),
            source.locate(event.code, event.lasti),
            (event.scope or "").strip("/"),
            body=tuple(self.ops.get(call.body, ())) if call else (),
            rule=_rule(ruled.grad_fn) if ruled else None,
            rule_variables=tuple(variable_name(v) for v in call.variables) if call else (),
            captured=self._captured(call) if call else (),
            watched=tuple(event.follows(i) for i in range(len(inputs))),
            recorded=bool(event.watched),
            rule_missing=not isinstance(event, CallEvent) and not _is_differentiable(event.type),
            rule_dropped=ruled is not call,
        )
        self.op_of[id(event)] = op
        self.ops.setdefault(home, []).append(op)
        if isinstance(event.where, RuleEvent):
            run = event.where.outer, event.where.op
            self.ops.setdefault(run, []).append(op)

    def _assigned(self, event: OpEvent) -> None:
        """An op without outputs: where it is given a variable, it has written to it."""
        for tensor in event.inputs:
            variable = self.values.variables.get(id(tensor))
            if variable:
                variable.stale = True

    def _read(self, handle: Any, tensor: Any) -> Value:
        variable = self.values.variables.get(id(handle))
        if variable is None:
            root = self.ops[self.root]
            known = self.recorder.variables.get(id(handle))
            name = variable_name(known) if known is not None else "variable"
            variable = self.values.variables[id(handle)] = Variable(name, len(root))
            root.append(None)  # type: ignore[arg-type]  # its op, once all reads are known
        return self.values.read(variable, handle, tensor)

    def _input(self, event: OpEvent, position: int, home: Any) -> Value:
        """The value an op reads; what nobody made becomes an input, a variable or a constant."""
        tensor = event.inputs[position]
        if tensor in self.values or id(tensor) in self.made_by:
            return self.values.of(tensor)
        if tensor.dtype == tf.resource and id(tensor) in self.recorder.variables:
            return self._read(tensor, self.recorder.snapshots.get(id(event), tensor))
        name = self.given.get(id(tensor))
        operands = source.operand_names(event.code, event.lasti)
        if name is None and len(operands) == len(event.inputs):
            name = operands[position]
        kind = "input" if self._live(event, position) or id(tensor) in self.given else "constant"
        return self._add_source(tensor, kind, name or kind, self.root if kind == "input" else home)

    def _add_source(self, tensor: Any, kind: str, name: str, home: Any) -> Value:
        """Add the op of an input, a constant or a variable that nothing read."""
        value = self.values.of(tensor)
        op = Op(self.unique(name), kind, kind.capitalize(), (), (value,))
        self.ops.setdefault(home, []).append(op)
        return value

    def source(self, tensor: Any, used: Container[int] = ()) -> Value:
        """The value of a source or target of a pass, also of one that no op touched.

        Of a variable it is the first version whose key is in `used`.
        """
        variable = self.values.variables.get(id(tensor))
        for version in variable.versions if variable else ():
            if version.key in used:
                return version
        if tensor in self.values or id(tensor) in self.made_by:
            return self.values.of(tensor)
        known = self.recorder.variables.get(id(tensor))
        if known is not None:
            self.values.unread(tensor, known.dtype)
            return self._add_source(tensor, "variable", variable_name(known), self.root)
        return self._add_source(tensor, "input", self.given.get(id(tensor), "input"), self.root)

    def _captured(self, call: CallEvent) -> tuple[Value, ...]:
        """Tensors on a tape that the body uses and that are no argument: no gradient, silently."""
        inside = self.bodies.get(call.body, {})  # type: ignore[arg-type]
        arguments = {id(tensor) for tensor in call.inputs}
        found: dict[int, Value] = {}
        for event in inside.values():
            if event.type == "ReadVariableOp":
                continue
            for position, tensor in enumerate(event.inputs):
                maker = self.made_by.get(id(tensor))
                outside = maker is None or id(maker) not in inside
                if outside and id(tensor) not in arguments and self._live(event, position):
                    value = self.values.of(tensor)
                    if value.differentiable:
                        found[value.key] = value
        return tuple(found.values())

    def _live(self, event: OpEvent, position: int) -> bool:
        """Whether a tape follows this input, as far as anything here can tell."""
        tensor = event.inputs[position]
        maker = self.made_by.get(id(tensor))
        if event.follows(position):
            return True
        return bool(maker.watched) if maker is not None else id(tensor) in self.sought


# --- passes ------------------------------------------------------------------------------------


def passes(builder: Builder) -> tuple[Pass, ...]:
    """The backward passes at the top level, in the order they ran."""
    return tuple(_pass(builder, index, event) for index, event in enumerate(builder.top_passes()))


def _pass(builder: Builder, index: int, event: PassEvent) -> Pass:
    result = event.result if event.result is not None else [None] * len(event.sources)
    steps = tuple(_steps(builder, event))
    targets = tuple(builder.source(tensor) for tensor in event.targets)
    used = {value.key for step in steps for value in step.op.inputs} | {v.key for v in targets}
    sources = tuple(builder.source(tensor, used) for tensor in event.sources)
    known = bool(steps) or all(gradient is None for gradient in result)
    note = _FAILED if event.result is None else "" if known else _EARLIER
    return Pass(
        index,
        targets,
        [reference(t) for t in event.seeds or [None] * len(event.targets)],
        sources,
        [reference(t, source.shape) for t, source in zip(result, sources, strict=True)],
        steps,
        tuple(builder.ops.get(event, ())),
        _arrived(builder, event, steps, sources, result, used),
        note,
    )


def _steps(builder: Builder, event: PassEvent) -> list[Step]:
    """The steps, but for reads of variables: what reaches a read is the variable's gradient.

    A rule may return something for an input that no tape follows. The tape drops it, so here it
    is None, as for every input where nothing flows.
    """
    return [
        _step(builder, event, op_event, upstream, downstream)
        for op_event, upstream, downstream in event.steps()
        if id(op_event) in builder.op_of
    ]


def _step(
    builder: Builder,
    run: PassEvent,
    event: OpEvent,
    upstream: Sequence[Any],
    downstream: Sequence[Any],
) -> Step:
    op = builder.op_of[id(event)]
    given = [t if event.follows(position) else None for position, t in enumerate(downstream)]
    return Step(
        op,
        _references(upstream, op.outputs),
        _references(given, op.inputs),
        pull(op, event, upstream),
        local_jacobians,
        tuple(builder.ops.get((run, event), ())),
    )


def _rule(function: Any) -> Rule | None:
    """The backward rule as its author wrote it, with the numbers of its closure."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    where = source.definition(code)
    closure = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # a name that the body has not assigned
            found = cell.cell_contents
            if tf.is_tensor(found) or isinstance(found, np.ndarray | np.number | int | float):
                closure[name] = reference(found)
    names = code.co_varnames[: code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)]
    return Rule(where.file, where.line, where.text, source.lines(code), names, closure)


def _references(gradients: Sequence[Any], values: Sequence[Value]) -> list[Any]:
    """Gradients by reference, each with the shape of the value it belongs to."""
    return [reference(t, value.shape) for t, value in zip(gradients, values, strict=True)]


def _arrived(
    builder: Builder,
    event: PassEvent,
    steps: Sequence[Step],
    sources: Sequence[Value],
    result: Sequence[Any],
    used: set[int],
) -> dict[int, Any]:
    """The sum that reached each value, as TensorFlow had it, where TensorFlow had it.

    Of a variable that was assigned between two reads of the pass, it had one sum for both.
    """
    arrived: dict[int, Any] = {}
    for step in steps:
        arrived.update(zip((v.key for v in step.op.outputs), step.received, strict=False))
    for tensor, value, gradient in zip(event.sources, sources, result, strict=True):
        variable = builder.values.variables.get(id(tensor))
        versions = used.intersection(v.key for v in variable.versions) if variable else ()
        if gradient is not None and len(versions) < 2:
            arrived[value.key] = reference(gradient, value.shape)
    return arrived


def pull(
    op: Op, event: OpEvent, original: Sequence[Any]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The backward rule of an op as a function of NumPy upstreams, unseen by any recording."""

    def run(upstream: Sequence[Any]) -> Sequence[Any]:
        with tf_hooks.unrecorded():
            tensors = [
                _like(u, t, o) for u, t, o in zip(upstream, original, event.outputs, strict=True)
            ]
            downstream = tf_hooks.run_rule(event, *tensors)
            if not isinstance(downstream, list | tuple):
                downstream = [downstream]
            return _references(downstream, op.inputs)

    return run


def _like(upstream: Any, original: Any, output: Any) -> Any:
    """A tensor for one output's upstream; None stays None only where TensorFlow gave None."""
    if upstream is None:
        return None if original is None else tf.zeros(output.shape, output.dtype)
    return tf.convert_to_tensor(upstream, dtype=output.dtype)


# --- values ------------------------------------------------------------------------------------


class Dense:
    """A tensor by reference that NumPy cannot read as it is: sparse slices, handles, variants."""

    def __init__(self, tensor: Any, shape: Sequence[int] | None = None) -> None:
        self._tensor = tensor
        self._shape = shape

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers, dense; for what has none, its dtype as one string."""
        if isinstance(self._tensor, tf.IndexedSlices):
            with tf_hooks.unrecorded():
                return np.asarray(dense(self._tensor, self._shape).numpy())
        if not hasattr(self._tensor, "dtype"):  # a rule may return a number of Python's
            return np.asarray(self._tensor)
        return np.asarray(str(self._tensor.dtype.name), dtype=object)


def dense(tensor: Any, shape: Sequence[int] | None) -> Any:
    """A gradient as a tensor; slices of which nobody said of what shape are taken from `shape`."""
    if isinstance(tensor, tf.IndexedSlices) and tensor.dense_shape is None and shape is not None:
        tensor = tf.IndexedSlices(
            tensor.values, tensor.indices, tf.constant(tuple(shape), tf.int64)
        )
    return tf.convert_to_tensor(tensor)


def reference(tensor: Any, shape: Sequence[int] | None = None) -> Any:
    """What a record holds for a tensor: the tensor itself wherever NumPy can read it.

    `shape` is that of what a gradient belongs to, for sparse ones that do not know their own.
    """
    if tensor is None:
        return None
    if not hasattr(tensor, "dtype") or isinstance(tensor, np.ndarray | np.generic):
        return np.asarray(tensor)  # a rule returned a plain number
    if hasattr(tensor, "numpy") and tensor.dtype not in (tf.resource, tf.variant):
        return tensor
    return Dense(tensor, shape)


def variable_name(variable: Any) -> str:
    """TensorFlow's name of a variable, without the output number; Keras names are paths."""
    return str(variable.name).removesuffix(":0")


class Variable:
    """A variable being read: one `Value` per version, a new one after each assignment."""

    def __init__(self, name: str, place: int) -> None:
        self.name = name
        self.place = place  # where its op goes among the ops
        self.versions: list[Value] = []
        self.stale = True


class Values:
    """The values of one recording, by the identity of their tensor."""

    def __init__(self) -> None:
        self._known: dict[int, Value] = {}
        self.variables: dict[int, Variable] = {}  # by id of their handle

    def __contains__(self, tensor: Any) -> bool:
        return id(tensor) in self._known

    def of(self, tensor: Any) -> Value:
        """The one `Value` of a tensor."""
        found = self._known.get(id(tensor))
        if found is None:
            shape, dtype = tuple(tensor.shape), tensor.dtype.name
            found = Value(len(self._known), shape, dtype, reference(tensor))
            self._known[id(tensor)] = found
        return found

    def unread(self, handle: Any, dtype: tf.DType) -> None:
        """Let a variable that nothing read have the value that it has now."""
        with tf_hooks.unrecorded():  # the raw op, because a tape watches what a variable reads
            found = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        self._known[id(handle)] = self.of(found)

    def read(self, variable: Variable, handle: Any, tensor: Any) -> Value:
        """The `Value` of a variable as it is now; `tensor` is what reading it returned."""
        if variable.stale:
            variable.versions.append(self.of(tensor))
            variable.stale = False
            self._known.setdefault(id(handle), variable.versions[0])
        self._known[id(tensor)] = variable.versions[-1]
        return variable.versions[-1]
