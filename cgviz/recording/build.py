"""Turns the events of a recording into the records of a trace.

The events are a flat list in execution order; each knows its container: the body of a custom op, a
backward pass, or a rule running inside a pass. Here each op is put into its container, tensors
become `Value`s, the reads of a variable are merged, and names are looked up; then each pass gets
its steps.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Op, Pass, Rule, Step, Value, readable
from . import source, tf_hooks
from .events import Body, CallEvent, NoteEvent, OpEvent, PassEvent, RuleEvent, ThreadRecorder

Event = OpEvent | PassEvent | NoteEvent

_FUNCTION = re.compile(r"^__(?:forward|inference)_(.+?)_\d+$")  # how TensorFlow names its graphs
_EARLIER = "its forward ops ran before the recording began, so their steps are not known"
_FAILED = "it ended with an error, so it gave no gradients"
_NOTES = {
    "opened": "run eagerly: {}",
    "jacobian": "a Jacobian's backward pass ran as a graph, so it is not recorded: give `jacobian` "
    "experimental_use_pfor=False, and the tape persistent=True",
    "closed": "run as a graph: {}; a tape inside is not recorded (to open it: open_functions=True "
    "if it is yours, `compile(run_eagerly=True)` if Keras made it, or before the recording "
    "`tf.config.run_functions_eagerly(True)`)",
}


@dataclass
class _Variable:
    """A variable that is read: one `Value` per version; an assignment begins a new version."""

    name: str
    place: int  # the index of its op among those of the root
    versions: list[Value] = field(default_factory=list)
    stale: bool = True  # the next read begins a new version if the numbers differ


class Builder:
    """Builds the ops and the passes of one recording."""

    def __init__(
        self,
        events: Sequence[Event],
        recorder: ThreadRecorder,
        root: Any,
        given: Sequence[tuple[Any, str]] = (),
    ) -> None:
        self.recorder = recorder
        self.root = root
        self.note_events = [e for e in events if isinstance(e, NoteEvent)]
        self.pass_events = [e for e in events if isinstance(e, PassEvent)]
        self.dropped: dict[int, CallEvent] = {}  # calls with a dropped rule, by id of each last op
        self.returned: dict[int, list[Any]] = {}  # what the body of a call returned, by its id
        self.made_by: dict[int, OpEvent] = {}  # by id of each output
        self.events = self._on_tape(e for e in events if isinstance(e, OpEvent))
        self.bodies: dict[Body, list[OpEvent]] = {}  # the events in each custom op, at any depth
        for event in self.events:
            for where in self._around(event.where):
                if isinstance(where, Body):
                    self.bodies.setdefault(where, []).append(event)
        self.sought = {id(tensor) for each in self.pass_events for tensor in each.sources}
        self.values: dict[int, Value] = {}  # by id of their tensor, or of a variable's handle
        self.variables: dict[int, _Variable] = {}  # by id of their handle
        # By type and, for a call, the id of its event, for another op, the id of its attributes.
        # These are an object of its own, unless there are none.
        self.op_of: dict[tuple[str, int], list[Op]] = {}
        self.touched: dict[Any, dict[int, Any]] = {}  # by the run of a rule, as in `_touch`
        self.ops: dict[Any, list[Op]] = {root: []}  # by the container that holds them
        self.names: Counter[str] = Counter()
        self.taken: set[str] = set()
        self.handles: dict[str, int] = {}  # ids of variables' handles, by the names of their ops
        self.closed_over: list[tuple[dict[str, Any], str, int]] = []  # variables, by their handles
        self.last_of_call = self._last_of_calls()
        self.given = {id(tensor): name for tensor, name in given}
        for each in self.pass_events:  # names not given, read from `tape.gradient(y, [x, w])`
            found = source.source_names(each.place)
            if len(found) == len(each.sources):
                for tensor, own in zip(each.sources, found, strict=True):
                    if own:
                        self.given.setdefault(id(tensor), own)
        for tensor, name in given:
            self._add_source(tensor, "input", name, root)
        self._build_ops()

    def _on_tape(self, events: Iterable[OpEvent]) -> list[OpEvent]:
        """The ops as a tape has them: a call recorded as a whole replaces the ops that end it.

        Those are the identities after the body of a custom gradient, or the op of a `tf.function`.
        """
        kept: dict[int, OpEvent] = {}
        for event in events:
            if event.type == "VarHandleOp":  # creates a variable, whose op comes from its reads
                continue
            earlier = (self.made_by.get(id(tensor)) for tensor in event.outputs)
            ends = {id(e): e for e in earlier if e is not None and e.where is event.where}
            if isinstance(event, CallEvent) and event.body is not None:
                followed = any(any(each.watched) for each in ends.values())
                event.body.has_rule = any(event.watched) or not followed
                if not event.body.has_rule:  # called by keyword only: its body is differentiated
                    self.dropped.update(dict.fromkeys(ends, event))
                    continue
                copied = {
                    id(copy): tensor
                    for each in ends.values()
                    for copy, tensor in zip(each.outputs, each.inputs, strict=False)
                }
                self.returned[id(event)] = [copied.get(id(each), each) for each in event.outputs]
            for replaced in ends:
                kept.pop(replaced, None)
            kept[id(event)] = event
            self.made_by.update((id(tensor), event) for tensor in event.outputs)
        return list(kept.values())

    # --- containers ---

    def _around(self, where: Any) -> Iterator[Any]:
        """A container and those around it, from the inside out; without the root."""
        while where is not None and where is not self.root:
            yield where
            where = where.outer

    def home(self, where: Any) -> Any:
        """The container that holds an event's op: the root, a custom op's body, or a pass."""
        for each in self._around(where):
            if isinstance(each, Body) and each.has_rule:
                return each
            if isinstance(each, PassEvent) and self.home(each.outer) is self.root:
                return each
        return self.root

    def top_passes(self) -> list[PassEvent]:
        """The events of the passes at the top level: not inside a custom op or a rule."""
        return [e for e in self.pass_events if self.home(e.outer) is self.root]

    # --- names ---

    def _unique(self, name: str) -> str:
        """`name`, or `name_1` and so on when it is taken."""
        candidate = name
        while candidate in self.taken:
            self.names[name] += 1
            candidate = f"{name}_{self.names[name]}"
        self.taken.add(candidate)
        return candidate

    def _last_of_calls(self) -> set[int]:
        """The ops that get their line's name: in `y = tf.norm(x)` only the last of several.

        In between, the call may run functions of the learner's, with lines of their own. A call
        that repeats the same ops is a loop, and the last op of each round gets the name; but of
        `sum` and its like, which run one op for each item, only the last op of all. A function that
        is called in two places names its ops in both; in a loop whose rounds run other ops, in its
        last call.
        """

        def call(event: OpEvent) -> tuple[int, ...]:
            code, _, caller, called_at = event.place
            return id(event.where), id(code), id(caller), called_at

        made = [e for e in self.events if e.outputs and e.type != "ReadVariableOp"]
        found: set[int] = set()
        for _, run in groupby(sorted(made, key=call), lambda e: (call(e), e.place[1])):
            events = list(run)
            types = [e.type for e in events]
            count = len(types)
            lengths = (n for n in range(1, count + 1) if count % n == 0)
            periods = (n for n in lengths if types[:n] * (count // n) == types)
            reduces = source.reduces(events[0].place)
            # The shortest that, repeated, makes up the whole.
            period = count if reduces else next(periods)
            found.update(map(id, events[period - 1 :: period]))
        return found

    def _name(self, event: OpEvent) -> tuple[str, str]:
        """An op's name and type."""
        named = id(event) in self.last_of_call
        own = source.assigned_name(event.place) if named else None
        if own and ", " in own:  # in `m, v = tf.nn.moments(x)` the last op makes one of the two
            each = own.split(", ")
            own = ", ".join(map(self._unique, each)) if len(each) == len(event.outputs) else None
        if function := _FUNCTION.match(event.type):
            return self._unique(own or function.group(1)), "tf.function"
        dropped = self.dropped.get(id(event), event)
        return self._unique(own or dropped.type), event.type

    # --- ops ---

    def value(self, tensor: Any) -> Value:
        """The one `Value` of a tensor."""
        found = self.values.get(id(tensor))
        if found is None:
            shape, dtype = tuple(tensor.shape), tensor.dtype.name
            found = Value(len(self.values), shape, dtype, reference(tensor))
            self.values[id(tensor)] = found
        return found

    def _build_ops(self) -> None:
        for event in self.events:
            self._touch(event)
            if event.type == "ReadVariableOp":
                self._read(event.inputs[0], event.outputs[0])
                continue
            if event.outputs:
                self._add(event)
            # An op may have written to each variable that it is given; a gather only reads.
            for tensor in event.inputs if "Gather" not in event.type else ():
                if written := self.variables.get(id(tensor)):
                    written.stale = True
        for handle, variable in self.variables.items():
            name = self._unique(variable.name)
            op = Op(name, "variable", "Variable", (), tuple(variable.versions))
            self.ops[self.root][variable.place] = op
            self.handles[name] = handle
        for closure, name, handle in self.closed_over:
            known = self.variables.get(handle)
            if known and len(known.versions) == 1:  # of one that changed nobody knows which number
                closure[name] = known.versions[0].reference

    def _add(self, event: OpEvent) -> None:
        home = self.home(event.where)
        inputs = tuple(self._input(event, i, home) for i in range(len(event.inputs)))
        name, type_ = self._name(event)
        call = event if isinstance(event, CallEvent) and event.body is not None else None
        ruled = call or self.dropped.get(id(event))
        differentiable = isinstance(event, CallEvent) or tf_hooks.is_differentiable(event.type)
        op = Op(
            name,
            "custom" if call else "op",
            type_,
            inputs,
            tuple(map(self.value, event.outputs)),
            source.locate(event.place),
            (event.scope or "").strip("/"),
            body=tuple(self.ops.get(call.body, ())) if call else (),
            rule=self._rule(ruled.grad_fn) if ruled else None,
            rule_variables=tuple(map(variable_name, call.variables)) if call else (),
            captured=self._captured(call) if call else (),
            returned=tuple(map(self.value, self.returned[id(call)])) if call else (),
            watched=event.watched,
            rule_missing=not differentiable,
            rule_dropped=ruled is not call,
        )
        known_by = event if isinstance(event, CallEvent) else event.attrs
        self.op_of.setdefault((event.type, id(known_by)), []).append(op)
        self.ops.setdefault(home, []).append(op)
        if isinstance(event.where, RuleEvent):
            run = event.where.outer, id(event.where.op)
            self.ops.setdefault(run, []).append(op)

    def _touch(self, event: OpEvent) -> None:
        """Note which variables a rule touches, and what it read of each before it wrote to it."""
        for where in self._around(event.where):
            if isinstance(where, RuleEvent):
                found = self.touched.setdefault((where.outer, id(where.op)), {})
                read = event.outputs[0] if event.type == "ReadVariableOp" else None
                for tensor in event.inputs:
                    if id(tensor) in self.recorder.variables:
                        found.setdefault(id(tensor), read)

    def _rule(self, function: Any) -> Rule | None:
        """The backward rule as its author wrote it, with the numbers of its closure."""
        code = getattr(function, "__code__", None)
        if code is None:
            return None
        where = source.at_line(code.co_filename, code.co_firstlineno)
        closure: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # a name that the body has not assigned
                found = cell.cell_contents
                if isinstance(found, tf.Variable):
                    self.closed_over.append((closure, name, id(found.handle)))
                elif tf.is_tensor(found) or isinstance(found, np.ndarray | np.number | int | float):
                    closure[name] = reference(found)
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
        names = tuple(p.name for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD))
        return Rule(where.file, where.line, where.text, source.lines(code), names, closure)

    def _read(self, handle: Any, tensor: Any) -> Value:
        """The value of a variable at this read; `tensor` is what the read returned."""
        variable = self.variables.get(id(handle))
        if variable is None:
            root = self.ops[self.root]
            owner = self.recorder.variables.get(id(handle))
            name = variable_name(owner) if owner is not None else "variable"
            variable = self.variables[id(handle)] = _Variable(name, len(root))
            root.append(None)  # type: ignore[arg-type]  # for its op, once all reads are known
        if variable.stale:
            variable.stale = False
            last = variable.versions[-1].reference if variable.versions else None
            if last is None or not np.array_equal(readable(last), readable(tensor)):
                variable.versions.append(self.value(tensor))
                self.values.setdefault(id(handle), variable.versions[0])
        self.values[id(tensor)] = variable.versions[-1]
        return variable.versions[-1]

    def _input(self, event: OpEvent, position: int, home: Any) -> Value:
        """The value an op reads; if no op made it, it is an input, a variable or a constant."""
        tensor = event.inputs[position]
        if variable := self.variables.get(id(tensor)):
            return variable.versions[-1]
        if id(tensor) in self.values or id(tensor) in self.made_by:
            return self.value(tensor)
        name = self.given.get(id(tensor))
        operands = source.operand_names(event.place)
        if name is None and len(operands) == len(event.inputs):
            name = operands[position]
        kind = "input" if self._live(event, position) or id(tensor) in self.given else "constant"
        return self._add_source(tensor, kind, name or kind, self.root if kind == "input" else home)

    def _add_source(self, tensor: Any, kind: str, name: str, home: Any) -> Value:
        """Add the op of an input, of a constant, or of a variable that nothing read."""
        value = self.value(tensor)
        op = Op(self._unique(name), kind, kind.capitalize(), (), (value,))
        self.ops.setdefault(home, []).append(op)
        return value

    def _captured(self, call: CallEvent) -> tuple[Value, ...]:
        """Tensors on a tape that the body uses but does not take as input: they get no gradient."""
        inside = self.bodies.get(call.body, [])  # type: ignore[arg-type]
        own = {id(tensor) for tensor in call.inputs}
        own |= {id(tensor) for event in inside for tensor in event.outputs}
        given = set(map(self.value, call.inputs))
        # To the rule, TensorFlow gives the variables that the body reads, but none by keyword.
        own |= {h for h, each in self.variables.items() if not given.isdisjoint(each.versions)}
        found = [
            self.value(tensor)
            for event in inside
            for position, tensor in enumerate(event.inputs)
            if id(tensor) not in own and self._live(event, position)
        ]
        return tuple(dict.fromkeys(value for value in found if value.differentiable))

    def _live(self, event: OpEvent, position: int) -> bool:
        """Whether a tape follows this input, as far as the recording can tell."""
        tensor = event.inputs[position]
        maker = self.made_by.get(id(tensor))
        if event.watched and event.watched[position]:
            return True
        return any(maker.watched) if maker is not None else id(tensor) in self.sought

    # --- passes ---

    def passes(self) -> tuple[Pass, ...]:
        """The backward passes at the top level, in the order they ran."""
        return tuple(self._pass(index, event) for index, event in enumerate(self.top_passes()))

    def _pass(self, index: int, event: PassEvent) -> Pass:
        result = event.result if event.result is not None else [None] * len(event.sources)
        steps = [
            self._step(event, op, *each) for each in event.steps() if (op := self._op(each[0]))
        ]
        targets = tuple(self._end(tensor) for tensor in event.targets)
        used = {value.key for step in steps for value in step.op.inputs} | {v.key for v in targets}
        sources = tuple(self._end(tensor, used) for tensor in event.sources)
        gradients = _references(result, sources)
        # The sums that TensorFlow computed. For a variable that was assigned between two reads of
        # the pass, it computed one sum for both versions, so neither gets it here.
        arrived = {
            value.key: sum_
            for step in steps
            for value, sum_ in zip(step.op.outputs, step.received, strict=True)
        }
        for tensor, value, gradient in zip(event.sources, sources, gradients, strict=True):
            variable = self.variables.get(id(tensor))
            versions = used.intersection(v.key for v in variable.versions) if variable else ()
            if gradient is not None and len(versions) < 2:
                arrived[value.key] = gradient
        begun = bool(steps) or {v.key for v in targets}.issubset(v.key for v in sources)
        known = begun or all(gradient is None for gradient in result)
        return Pass(
            index,
            targets,
            [reference(t) for t in event.seeds or [None] * len(event.targets)],
            sources,
            gradients,
            tuple(steps),
            tuple(self.ops.get(event, ())),
            arrived,
            _FAILED if event.result is None else "" if known else _EARLIER,
        )

    def _end(self, tensor: Any, used: Container[int] = ()) -> Value:
        """The value of a source or target of a pass, even of one that no op touched.

        For a variable, the first of its versions whose key is in `used`.
        """
        variable = self.variables.get(id(tensor))
        for version in variable.versions if variable else ():
            if version.key in used:
                return version
        if id(tensor) in self.values:
            return self.value(tensor)
        known = self.recorder.variables.get(id(tensor))
        if known is None:
            return self._add_source(tensor, "input", self.given.get(id(tensor), "input"), self.root)
        self.values[id(tensor)] = self.value(tf_hooks.read(known, tensor))
        return self._add_source(tensor, "variable", variable_name(known), self.root)

    def _op(self, ran: Any) -> Op | None:
        """The op whose rule ran; None for a read, which is merged into its variable's op.

        Nor are the calls of an op without attributes told apart, if there are several.
        """
        called = isinstance(ran, CallEvent)
        found = self.op_of.get((ran.type, id(ran)) if called else (ran[0], id(ran[1])), ())
        return found[0] if len(found) == 1 else None

    def _step(
        self, run: PassEvent, op: Op, ran: Any, upstream: Sequence[Any], downstream: Sequence[Any]
    ) -> Step:
        # A rule may return something for an input that this tape does not follow, which drops it.
        # The seventh argument of TensorFlow's own rules lists these inputs.
        skipped = () if isinstance(ran, CallEvent) else tuple(ran[6] or ())
        given = [
            t if op.follows(j) and j not in skipped else None for j, t in enumerate(downstream)
        ]
        touched = self.touched.get((run, id(ran)), {})
        variables = [(self.recorder.variables[handle], read) for handle, read in touched.items()]
        return Step(
            op,
            _references(upstream, op.outputs),
            _references(given, op.inputs),
            pull(op, ran, upstream, variables),
            tuple(self.ops.get((run, id(ran)), ())),
            skipped,
        )

    def notes(self, passes: Sequence[Pass]) -> tuple[str, ...]:
        """What ran otherwise than without a recording, and what is not recorded."""
        names: dict[str, dict[str, None]] = {}
        for each in self.note_events:
            if each.what != "closed" or not passes:  # a pass beside it may be all that was meant
                names.setdefault(each.what, {})[each.name] = None
        return tuple(text.format(", ".join(names[x])) for x, text in _NOTES.items() if x in names)


def pull(
    op: Op, ran: Any, original: Sequence[Any], variables: Sequence[tuple[Any, Any]] = ()
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The backward rule of an op as a function of NumPy upstreams, unseen by any recording.

    An upstream of None stays None if it was None in the pass too; otherwise it becomes zeros. The
    rule finds the `variables` as they were then, and they are left as they are now.
    """

    def run(upstream: Sequence[Any]) -> Sequence[Any]:
        with tf_hooks.unrecorded(), tf_hooks.as_they_were(variables):
            tensors = [
                tf.convert_to_tensor(new, dtype=output.dtype)
                if new is not None
                else None
                if old is None
                else tf.zeros(output.shape, output.dtype)
                for new, old, output in zip(upstream, original, op.outputs, strict=True)
            ]
            downstream = tf_hooks.run_rule(ran, *tensors)
            if not isinstance(downstream, list | tuple):
                downstream = [downstream]
            return _references(downstream, op.inputs)

    return run


# --- numbers by reference ------------------------------------------------------------------------


class _Slices:
    """Sparse slices by reference, made dense when they are read."""

    def __init__(self, slices: Any, shape: Sequence[int] | None) -> None:
        self._slices = slices
        self._shape = shape

    def numpy(self) -> np.ndarray[Any, Any]:
        with tf_hooks.unrecorded():
            return np.asarray(dense(self._slices, self._shape).numpy())


def dense(tensor: Any, shape: Sequence[int] | None) -> Any:
    """A gradient as a dense tensor; `shape` is for sparse slices that do not know their own."""
    sliced = isinstance(tensor, tf.IndexedSlices) and not tf.is_tensor(tensor.dense_shape)
    if sliced and shape is not None:
        tensor = tf.IndexedSlices(
            tensor.values, tensor.indices, tf.constant(tuple(shape), tf.int64)
        )
    return tf.convert_to_tensor(tensor)


def reference(tensor: Any, shape: Sequence[int] | None = None) -> Any:
    """What a record holds for a tensor: the tensor itself wherever NumPy can read it.

    `shape` is that of the value a gradient belongs to, for sparse gradients that do not know their
    own. For a tensor without numbers, such as a handle, the record holds the name of its dtype.
    """
    if tensor is None:
        return None
    if isinstance(tensor, tf.IndexedSlices):
        return _Slices(tensor, shape)
    if not hasattr(tensor, "dtype") or isinstance(tensor, np.ndarray | np.generic):
        return np.asarray(tensor)  # a rule returned a plain number
    if not hasattr(tensor, "numpy") or tensor.dtype in (tf.resource, tf.variant):
        return np.asarray(tensor.dtype.name, dtype=object)
    return tensor


def _references(gradients: Sequence[Any], values: Sequence[Value]) -> list[Any]:
    """Gradients by reference, each with the shape of the value it belongs to."""
    return [reference(t, value.shape) for t, value in zip(gradients, values, strict=True)]


def variable_name(variable: Any) -> str:
    """The name of a variable in TensorFlow, without the `:0`; names from Keras are paths."""
    return str(variable.name).removesuffix(":0")
