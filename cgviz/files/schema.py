r"""A trace as a JSON document, version 1, and back.

    {"format": "cgviz trace", "version": 1, "title": ..., "main": ..., "asked": ...,
     "value": structure, "gradients": structure, "variables": structure,
     "values": [{"key", "shape", "dtype", "array"}, ...],
     "ops": [{"name", "kind", "type", "inputs", "outputs", ...}, ...],
     "forward": [op, ...],
     "passes": [{"targets", "seeds", "sources", "gradients", "steps", "ops", ...}, ...]}

An op stands for its place in "ops", a value for its "key"; arrays and structures are as `codec`
writes them, so the document is strict JSON and every number comes back to the last bit. A step's
"local" is null where it is not kept, or has, per output and input, null, an array, or
`{"large": true}` above 256 numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..graph import Array, Op, Pass, Source, Step, Trace, Value, as_numpy
from ..graph.jacobian import LargeJacobian, Local, local_jacobians
from .codec import Document, read_array, read_structure, write_array, write_structure

FORMAT, VERSION = "cgviz trace", 1
MOST_LOCAL = 256  # entries of a Jacobian that are written at all


# --- writing -------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.values: dict[int, Value] = {}
        self.renamed: dict[Value, int] = {}
        every = (v.key for op in trace.walk() for v in (*op.inputs, *op.outputs, *op.captured))
        self.fresh = max(every, default=0) + 1_000_000  # above the keys of targets and sources too
        self.places: dict[Op, int] = {}
        self.ops: list[Document] = []

    def document(self) -> Document:
        trace = self.trace
        forward = [self.op(op) for op in trace.ops]
        passes = [self.pass_(each) for each in trace.passes]
        return {
            "format": FORMAT,
            "version": VERSION,
            "title": trace.title,
            "main": trace.main,
            "asked": trace.asked,
            "value": write_structure(trace.value),
            "gradients": write_structure(trace.gradients),
            "variables": write_structure(trace.variables),
            "values": [_write_value(key, value) for key, value in self.values.items()],
            "ops": self.ops,
            "forward": forward,
            "passes": passes,
        }

    def keys(self, values: Iterable[Value]) -> list[int]:
        """The keys of values; one whose key another value has already gets a new one."""
        return [self.key(value) for value in values]

    def key(self, value: Value) -> int:
        key = self.renamed.get(value, value.key)
        if self.values.setdefault(key, value) is not value:
            self.renamed[value] = key = self.fresh
            self.fresh += 1
            self.values[key] = value
        return key

    def op(self, op: Op) -> int:
        if op not in self.places:
            body = [self.op(inner) for inner in op.body]
            self.places[op] = len(self.ops)
            self.ops.append(
                {
                    "name": op.name,
                    "kind": op.kind,
                    "type": op.type,
                    "inputs": self.keys(op.inputs),
                    "outputs": self.keys(op.outputs),
                    "source": _write_source(op.source),
                    "scope": op.scope,
                    "body": body,
                    "rule": _write_source(op.rule),
                    "rule_variables": list(op.rule_variables),
                    "captured": self.keys(op.captured),
                    "watched": list(map(bool, op.watched)),
                    "recorded": op.recorded,
                    "rule_missing": op.rule_missing,
                    "rule_dropped": op.rule_dropped,
                }
            )
        return self.places[op]

    def pass_(self, each: Pass) -> Document:
        arrived = [(key, as_numpy(a)) for key, a in each._arrived.items() if a is not None]
        return {
            "targets": self.keys(each.targets),
            "seeds": _write_arrays(each.seeds),
            "sources": self.keys(each.sources),
            "gradients": _write_arrays(each.gradients),
            "steps": [self.step(step) for step in each.steps],
            "ops": [self.op(op) for op in each.ops],
            "arrived": [[key, write_array(a)] for key, a in arrived],
            "note": each.note,
        }

    def step(self, step: Step) -> Document:
        return {
            "op": self.op(step.op),
            "upstream": _write_arrays(step.upstream),
            "downstream": _write_arrays(step.downstream),
            "local": _write_local(step),
        }


def write(trace: Trace) -> Document:
    """A trace as a document."""
    return _Writer(trace).document()


def _write_arrays(arrays: Iterable[Array | None]) -> list[Document | None]:
    return [None if array is None else write_array(array) for array in arrays]


def _write_value(key: int, value: Value) -> Document:
    return {
        "key": key,
        "shape": list(value.shape),
        "dtype": value.dtype,
        "array": write_array(value.numpy()),
    }


def _write_source(source: Source | None) -> Document | None:
    if source is None:
        return None
    # The name of the file alone: its folder tells nothing to whom the trace is given.
    return {"file": os.path.basename(source.file), "line": source.line, "text": source.text}


def _write_local(step: Step) -> list[list[Any]] | None:
    sizes = [
        out.size * into.size
        for out in step.op.outputs
        for into, flows in zip(step.op.inputs, step.flows, strict=True)
        if flows
    ]
    if not sizes or min(sizes) > MOST_LOCAL:
        return None
    try:
        local = step.local
    except RuntimeError:  # the rule cannot run again
        return None
    return [[_write_jacobian(jacobian) for jacobian in row] for row in local]


def _write_jacobian(jacobian: Any) -> Document | None:
    if jacobian is None:
        return None
    if isinstance(jacobian, LargeJacobian) or np.size(jacobian) > MOST_LOCAL:
        return {"large": True}
    return write_array(jacobian)


# --- reading -------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.values = {each["key"]: _read_value(each) for each in document["values"]}
        self.ops: list[Op] = []
        for each in document["ops"]:  # bodies stand before what they belong to
            self.ops.append(self.op(each))

    def content(self) -> Trace:
        document = self.document
        return Trace(
            document["title"],
            read_structure(document["value"]),
            read_structure(document["gradients"]),
            read_structure(document["variables"]),
            self.picked(document["forward"]),
            tuple(self.pass_(i, each) for i, each in enumerate(document["passes"])),
            document["main"],
            document.get("asked", False),
        )

    def picked(self, places: Iterable[int]) -> tuple[Op, ...]:
        return tuple(self.ops[place] for place in places)

    def valued(self, keys: Iterable[int]) -> tuple[Value, ...]:
        return tuple(self.values[key] for key in keys)

    def op(self, each: Document) -> Op:
        return Op(
            name=each["name"],
            kind=each["kind"],
            type=each["type"],
            inputs=self.valued(each["inputs"]),
            outputs=self.valued(each["outputs"]),
            source=_read_source(each["source"]),
            scope=each["scope"],
            body=self.picked(each["body"]),
            rule=_read_source(each["rule"]),
            rule_variables=tuple(each["rule_variables"]),
            captured=self.valued(each["captured"]),
            watched=tuple(each["watched"]),
            recorded=each["recorded"],
            rule_missing=each["rule_missing"],
            rule_dropped=each["rule_dropped"],
        )

    def pass_(self, index: int, each: Document) -> Pass:
        return Pass(
            index,
            self.valued(each["targets"]),
            _read_arrays(each["seeds"]),
            self.valued(each["sources"]),
            _read_arrays(each["gradients"]),
            tuple(self.step(step) for step in each["steps"]),
            self.picked(each["ops"]),
            {key: read_array(array) for key, array in each["arrived"]},
            each["note"],
        )

    def step(self, each: Document) -> Step:
        return Step(
            self.ops[each["op"]],
            _read_arrays(each["upstream"]),
            _read_arrays(each["downstream"]),
            local=local_jacobians if each["local"] is None else _kept(each["local"]),
        )


def read(document: Document) -> Trace:
    """What the trace holds that a document describes."""
    return _Reader(document).content()


def _read_arrays(documents: Iterable[Document | None]) -> list[Array | None]:
    return [None if each is None else read_array(each) for each in documents]


def _read_value(each: Document) -> Value:
    return Value(each["key"], tuple(each["shape"]), each["dtype"], read_array(each["array"]))


def _read_source(each: Document | None) -> Source | None:
    return None if each is None else Source(each["file"], each["line"], each["text"])


def _kept(rows: Sequence[Any]) -> Callable[[Step], Local]:
    """The local Jacobians as they stand in the file."""
    return lambda step: tuple(
        tuple(_read_jacobian(step, i, j, cell) for j, cell in enumerate(row))
        for i, row in enumerate(rows)
    )


def _read_jacobian(step: Step, i: int, j: int, cell: Document | None) -> Any:
    if cell is None:
        return None
    return LargeJacobian(step, i, j) if "large" in cell else read_array(cell)
