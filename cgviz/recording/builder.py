"""From the events of a recording to the records of a trace.

The events come flat and in execution order; each knows its container: the body of a custom op,
a backward pass, a rule running inside one. Here they find their place, tensors become `Value`s,
reads merge into their variable, and names are looked up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import tensorflow as tf

from ..graph import Op, Value
from . import source, tf_hooks
from .events import Body, CallEvent, Hub, OpEvent, PassEvent
from .values import Values, Variable, variable_name

_FUNCTION = re.compile(r"^__(?:forward|inference)_(.+?)_\d+$")
_is_differentiable = lru_cache(maxsize=None)(tf_hooks.is_differentiable)


def _period(types: list[str]) -> int:
    """The shortest run of op types that, repeated, makes up the whole."""
    count = len(types)
    for n in range(1, count):
        if types[:n] * (count // n) == types:
            return n
    return count


class Builder:
    """Builds the ops of one recording; `beside` another, it shares its values and its names."""

    def __init__(
        self,
        events: Sequence[OpEvent | PassEvent],
        hub: Hub,
        root: Any,
        given: Sequence[tuple[Any, str]] = (),
        beside: Builder | None = None,
    ) -> None:
        self.hub = hub
        self.root = root
        self.given = {id(tensor): name for tensor, name in given}
        self.pass_events = [e for e in events if isinstance(e, PassEvent)]
        self.owners = {e.body for e in events if isinstance(e, CallEvent) and e.body is not None}
        self.events = self._with_earlier(events)
        self.bodies = self._bodies()
        self.sought = {id(tensor) for each in self.pass_events for tensor in each.sources}
        self.values: Values = Values() if beside is None else beside.values.beside()
        self.made_by: dict[int, OpEvent] = {}
        self.op_of: dict[int, Op] = {}
        self.ops: dict[Any, list[Op]] = {}
        self.names: Counter[str] = Counter() if beside is None else beside.names
        self.taken: set[str] = set() if beside is None else beside.taken
        self.last_of_call = self._last_of_calls()
        self._name_sources()
        for tensor, name in given:
            self._add_source(tensor, "input", name, self.root)
        self._build_ops()

    def _with_earlier(self, events: Sequence[OpEvent | PassEvent]) -> list[OpEvent]:
        """The op events, led by those that ran before this recording but take part in a pass."""
        ours = [
            e
            for e in events
            if isinstance(e, OpEvent)
            and id(e) not in self.hub.absorbed
            and e.type != "VarHandleOp"  # the making of a variable; its reads tell of it
        ]
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

        A call that runs the same ops again and again is a loop, and names each round.
        """
        found: set[int] = set()
        made = [e for e in self.events if e.outputs and e.type != "ReadVariableOp"]
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
        dropped = self.hub.dropped.get(id(event))
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
        for variable in self.values.variables.values():
            root[variable.place] = Op(
                self.unique(variable.name), "variable", "Variable", (), tuple(variable.versions)
            )

    def _add(self, event: OpEvent) -> None:
        home = self.root if id(event) in self.before else self.home(event.where)
        inputs = tuple(self._input(event, i, home) for i in range(len(event.inputs)))
        name, type_ = self._names(event)
        call = event if isinstance(event, CallEvent) and event.body is not None else None
        ruled = call or self.hub.dropped.get(id(event))
        op = Op(
            name,
            "custom" if call else "op",
            type_,
            inputs,
            tuple(self.values.of(tensor) for tensor in event.outputs),
            source.locate(event.code, event.lasti),
            (event.scope or "").strip("/"),
            body=tuple(self.ops.get(call.body, ())) if call else (),
            rule=source.definition(getattr(ruled.grad_fn, "__code__", None)) if ruled else None,
            rule_variables=tuple(variable_name(v) for v in call.variables) if call else (),
            captured=self._captured(call) if call else (),
            watched=tuple(event.follows(i) for i in range(len(inputs))),
            recorded=bool(event.watched),
            rule_missing=not isinstance(event, CallEvent) and not _is_differentiable(event.type),
            rule_dropped=ruled is not call,
        )
        self.op_of[id(event)] = op
        self.ops.setdefault(home, []).append(op)

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
            known = self.hub.variables.get(id(handle))
            name = variable_name(known) if known is not None else "variable"
            variable = self.values.variables[id(handle)] = Variable(name, len(root))
            root.append(None)  # type: ignore[arg-type]  # its op, once all reads are known
        return self.values.read(variable, handle, tensor)

    def _input(self, event: OpEvent, position: int, home: Any) -> Value:
        """The value an op reads; what nobody made becomes an input, a variable or a constant."""
        tensor = event.inputs[position]
        if tensor in self.values or id(tensor) in self.made_by:
            return self.values.of(tensor)
        if tensor.dtype == tf.resource and id(tensor) in self.hub.variables:
            return self._read(tensor, self.hub.snapshots.get(id(event), tensor))
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

    def source(self, tensor: Any) -> Value:
        """The value of a source or target of a pass, also of one that no op touched."""
        if tensor in self.values or id(tensor) in self.made_by:
            return self.values.of(tensor)
        known = self.hub.variables.get(id(tensor))
        if known is not None:
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
