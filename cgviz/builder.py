"""From the events of a recording to the records of a trace.

The events come flat and in execution order; each knows its container: the body of a custom op,
a backward pass, a rule running inside one. Here they find their place, tensors become `Value`s,
reads merge into their variable, and names are looked up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from . import _seams, source
from .events import Body, CallEvent, Hub, OpEvent, PassEvent, RuleEvent
from .graph import Op, Pass, Step, Value

_FUNCTION = re.compile(r"^__(?:forward|inference)_(.+?)_\d+$")
_is_differentiable = lru_cache(maxsize=None)(_seams.is_differentiable)


class Dense:
    """A tensor by reference that NumPy cannot read as it is: sparse slices, handles, variants."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers, dense; for what has none, its description as one string."""
        if isinstance(self._tensor, tf.IndexedSlices):
            with _seams.aside():
                return np.asarray(tf.convert_to_tensor(self._tensor).numpy())
        return np.asarray(str(self._tensor.dtype.name), dtype=object)


def reference(tensor: Any) -> Any:
    """What a record holds for a tensor: the tensor itself wherever NumPy can read it."""
    if tensor is None or (
        hasattr(tensor, "numpy") and tensor.dtype not in (tf.resource, tf.variant)
    ):
        return tensor
    return Dense(tensor)


def variable_name(variable: Any) -> str:
    """TensorFlow's name of a variable, without the output number; Keras names are paths."""
    return str(variable.name).removesuffix(":0")


class _Variable:
    """A variable being read: one `Value` per version, a new one after each assignment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: list[Value] = []
        self.stale = True
        self.place = 0


class Builder:
    """Builds the ops and passes of one recording."""

    def __init__(
        self,
        events: Sequence[OpEvent | PassEvent],
        hub: Hub,
        root: Any,
        given: Sequence[tuple[Any, str]] = (),
    ) -> None:
        self.hub = hub
        self.root = root
        self.given = {id(tensor): name for tensor, name in given}
        self.pass_events = [e for e in events if isinstance(e, PassEvent)]
        self.owners = {e.body for e in events if isinstance(e, CallEvent) and e.body is not None}
        self.events = self._with_earlier(events)
        self.values: dict[int, Value] = {}
        self.variables: dict[int, _Variable] = {}
        self.made_by: dict[int, OpEvent] = {}
        self.op_of: dict[int, Op] = {}
        self.ops: dict[Any, list[Op]] = {}
        self.names: Counter[str] = Counter()
        self.taken: set[str] = set()
        self._name_sources()
        for tensor, name in given:
            self._add_source(self.value(tensor), "input", name, self.root)
        self._build_ops()

    def _with_earlier(self, events: Sequence[OpEvent | PassEvent]) -> list[OpEvent]:
        """The op events, led by those that ran before this recording but take part in a pass."""
        ours = [e for e in events if isinstance(e, OpEvent) and id(e) not in self.hub.absorbed]
        known = set(map(id, ours))
        earlier = {
            id(event): event
            for each in self.pass_events
            for event, _, _ in each.steps()
            if id(event) not in known
        }
        self.before = set(earlier)
        order = {id(event): place for place, event in enumerate(self.hub.log)}
        return sorted(earlier.values(), key=lambda e: order.get(id(e), -1)) + ours

    # --- containers ---

    def home(self, where: Any) -> Any:
        """The container that holds an event's op: the root, a custom op's body, or a pass."""
        while where is not None and where is not self.root:
            if isinstance(where, Body):
                if not where.flat and where in self.owners:
                    return where
            elif isinstance(where, PassEvent) and self.home(where.outer) is self.root:
                return where
            where = where.outer
        return self.root

    def inside(self, event: OpEvent, body: Body) -> bool:
        """Whether `event` ran within `body`, at any depth."""
        where = event.where
        while where is not None and where is not self.root:
            if where is body:
                return True
            where = where.outer
        return False

    # --- values ---

    def value(self, tensor: Any) -> Value:
        """The one `Value` of a tensor."""
        found = self.values.get(id(tensor))
        if found is None:
            shape = tuple(-1 if d is None else int(d) for d in tensor.shape)
            found = Value(len(self.values), shape, tensor.dtype.name, reference(tensor))
            self.values[id(tensor)] = found
        return found

    def _read(self, handle: Any, tensor: Any) -> Value:
        """The `Value` of a variable as it is read now; `tensor` is what the read returned."""
        variable = self.variables.get(id(handle))
        if variable is None:
            known = self.hub.variables.get(id(handle))
            variable = _Variable(variable_name(known) if known is not None else "variable")
            self.variables[id(handle)] = variable
            root = self.ops.setdefault(self.root, [])
            variable.place = len(root)
            root.append(None)  # type: ignore[arg-type]  # its op, once all reads are known
        if variable.stale:
            variable.versions.append(self.value(tensor))
            variable.stale = False
            self.values.setdefault(id(handle), variable.versions[0])
        self.values[id(tensor)] = variable.versions[-1]
        return variable.versions[-1]

    # --- names ---

    def unique(self, name: str) -> str:
        """`name`, or `name_1` and so on when it is taken."""
        candidate = name
        while candidate in self.taken:
            self.names[name] += 1
            candidate = f"{name}_{self.names[name]}"
        self.taken.add(candidate)
        return candidate

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
        function = _FUNCTION.match(event.type)
        if function:
            kind = function.group(1)
        elif isinstance(event, CallEvent):
            kind = event.type
        else:
            kind = event.type.rsplit(">", 1)[-1]  # `Vendor>Op` of a library of custom kernels
        own = source.assigned_name(event.code, event.lasti)
        return self.unique(own or kind), "tf.function" if function else kind

    # --- ops ---

    def _build_ops(self) -> None:
        root = self.ops.setdefault(self.root, [])
        for event in self.events:
            for tensor in event.outputs:
                self.made_by[id(tensor)] = event
        self._inputs_of_passes = {
            id(t) for e in self.pass_events for t in e.sources if id(t) not in self.made_by
        }
        for event in self.events:
            self._add(event)
        for variable in self.variables.values():
            root[variable.place] = Op(
                self.unique(variable.name), "variable", "Variable", (), tuple(variable.versions)
            )

    def _add(self, event: OpEvent) -> None:
        if event.type == "ReadVariableOp":
            self._read(event.inputs[0], event.outputs[0])
            return
        if event.type.startswith("Assign") and event.type.endswith("VariableOp"):
            variable = self.variables.get(id(event.inputs[0]))
            if variable:
                variable.stale = True
            return
        home = self.home(event.where)
        if id(event) in self.before:
            home = self.root
        inputs = tuple(self._input(event, i, home) for i in range(len(event.inputs)))
        outputs = tuple(self.value(t) for t in event.outputs)
        name, type_ = self._names(event)
        call = event if isinstance(event, CallEvent) and event.body is not None else None
        op = Op(
            name,
            "custom" if call else "op",
            type_,
            inputs,
            outputs,
            source.locate(event.code, event.lasti),
            (event.scope or "").strip("/"),
            body=tuple(self.ops.get(call.body, ())) if call else (),
            rule=source.definition(getattr(call.grad_fn, "__code__", None)) if call else None,
            rule_variables=tuple(variable_name(v) for v in call.variables) if call else (),
            captured=self._captured(call) if call else (),
            watched=tuple(event.follows(i) for i in range(len(inputs))),
            recorded=bool(event.watched),
            rule_missing=not isinstance(event, CallEvent) and not _is_differentiable(event.type),
        )
        self.op_of[id(event)] = op
        self.ops.setdefault(home, []).append(op)

    def _input(self, event: OpEvent, position: int, home: Any) -> Value:
        """The value an op reads; what nobody made becomes an input, a variable or a constant."""
        tensor = event.inputs[position]
        if id(tensor) in self.values:
            return self.values[id(tensor)]
        if tensor.dtype == tf.resource and id(tensor) in self.hub.variables:
            snapshot = self.hub.snapshots.get(id(event))
            return self._read(tensor, tensor if snapshot is None else snapshot)
        value = self.value(tensor)
        if id(tensor) in self.made_by:
            return value
        watched = event.follows(position)
        name = self.given.get(id(tensor))
        operands = source.operand_names(event.code, event.lasti)
        if name is None and len(operands) == len(event.inputs):
            name = operands[position]
        kind = "constant"
        if watched or id(tensor) in self.given or id(tensor) in self._inputs_of_passes:
            kind = "input"
        place = self.root if kind == "input" else home
        self._add_source(value, kind, name or kind, place)
        return value

    def _add_source(self, value: Value, kind: str, name: str, home: Any) -> None:
        """Add the op of an input or a constant."""
        op = Op(self.unique(name), kind, kind.capitalize(), (), (value,))
        self.ops.setdefault(home, []).append(op)

    def _captured(self, call: CallEvent) -> tuple[Value, ...]:
        """Tensors on a tape that the body uses and that are no argument: no gradient, silently."""
        arguments = {id(t) for t in call.inputs}
        found: dict[int, Value] = {}
        for event in self.events:
            if event is call:
                break
            if not self.inside(event, call.body) or event.type == "ReadVariableOp":  # type: ignore[arg-type]
                continue
            for position, tensor in enumerate(event.inputs):
                maker = self.made_by.get(id(tensor))
                if id(tensor) in arguments or not self._live(event, position, maker):
                    continue
                if maker is None or not self.inside(maker, call.body):  # type: ignore[arg-type]
                    value = self.values[id(tensor)]
                    if value.differentiable:
                        found[value.key] = value
        return tuple(found.values())

    def _live(self, event: OpEvent, position: int, maker: OpEvent | None) -> bool:
        """Whether a tape follows this tensor, as far as anything here can tell."""
        if event.follows(position):
            return True
        if maker is not None:
            return bool(maker.watched)
        return id(event.inputs[position]) in self._inputs_of_passes

    # --- passes ---

    def passes(self) -> tuple[Pass, ...]:
        """The backward passes at the top level, in the order they ran."""
        return tuple(self._pass(i, event) for i, event in enumerate(self.top_passes()))

    def top_passes(self) -> list[PassEvent]:
        """The pass events that no custom op and no rule hides."""
        return [e for e in self.pass_events if self.home(e.outer) is self.root]

    def _pass(self, index: int, event: PassEvent) -> Pass:
        result = event.result if event.result is not None else [None] * len(event.sources)
        arrived: dict[int, Any] = {}
        steps = []
        for op_event, upstream, downstream in event.steps():
            op = self.op_of.get(id(op_event))
            if op is None:  # the read of a variable: its sum is the variable's gradient
                continue
            up = tuple(reference(t) for t in upstream)
            steps.append(
                Step(op, up, tuple(reference(t) for t in downstream), pull(op_event, upstream))
            )
            arrived.update(zip((v.key for v in op.outputs), up, strict=False))
        for tensor, gradient in zip(event.sources, result, strict=True):
            variable = self.variables.get(id(tensor))
            if gradient is not None and (variable is None or len(variable.versions) == 1):
                arrived[self._source(tensor).key] = reference(gradient)
        return Pass(
            index,
            tuple(self._source(t) for t in event.targets),
            [reference(t) for t in event.seeds or [None] * len(event.targets)],
            tuple(self._source(t) for t in event.sources),
            [reference(t) for t in result],
            tuple(steps),
            lambda: self._pass_ops(event),
            arrived,
            ""
            if steps or all(g is None for g in result)
            else "its forward ops ran before the recording began, so their steps are not known",
        )

    def _source(self, tensor: Any) -> Value:
        """The value of a source or target, also of one that no op touched."""
        if id(tensor) not in self.values:
            value = self.value(tensor)
            if id(tensor) not in self.made_by:
                name = self.given.get(id(tensor), "input")
                if tensor.dtype == tf.resource and id(tensor) in self.hub.variables:
                    name = variable_name(self.hub.variables[id(tensor)])
                kind = "variable" if tensor.dtype == tf.resource else "input"
                self._add_source(value, kind, name, self.root)
        return self.values[id(tensor)]

    def _pass_ops(self, event: PassEvent) -> tuple[Op, ...]:
        """The ops a pass ran. Those of built-in rules that no tape saw are had by a second run."""
        if not event.quiet:
            return tuple(self.ops.get(event, ()))
        found: list[Op] = []
        for op_event, upstream, _ in event.steps():
            if isinstance(op_event, CallEvent):
                found += [
                    self.op_of[id(e)]
                    for e in self.events
                    if isinstance(e.where, RuleEvent)
                    and e.where.op is op_event
                    and e.where.outer is event
                    and id(e) in self.op_of
                ]
            else:
                found += self._rerun(op_event, upstream)
        return tuple(found)

    def _rerun(self, event: OpEvent, upstream: Sequence[Any]) -> list[Op]:
        with _seams.listening(True) as (hub, start, root):
            _seams.run_rule(event, *upstream)
            events = hub.log[start:]
        again = Builder(events, hub, root)
        return [op for op in again.ops[root] if op.kind == "op"]


def pull(event: OpEvent, original: Sequence[Any]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The backward rule of `event` as a function of NumPy upstreams, unseen by any recording."""

    def run(upstream: Sequence[Any]) -> Sequence[Any]:
        with _seams.aside():
            tensors = [
                _like(u, t, o) for u, t, o in zip(upstream, original, event.outputs, strict=True)
            ]
            downstream: Iterable[Any] = _seams.run_rule(event, *tensors)
            if not isinstance(downstream, list | tuple):
                downstream = [downstream]
            return [reference(t) for t in downstream]

    return run


def _like(upstream: Any, original: Any, output: Any) -> Any:
    """A tensor for one output's upstream; None stays None only where TensorFlow gave None."""
    if upstream is None:
        return None if original is None else tf.zeros(output.shape, output.dtype)
    return tf.convert_to_tensor(upstream, dtype=output.dtype)
