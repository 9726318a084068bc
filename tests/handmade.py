"""Small traces made by hand from the records of `graph`, for tests that need no TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cgviz.graph import Op, Pass, Step, Trace, Value


class Tape:
    """Builds a trace op by op; every op is recorded and returns what it is told to."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.steps: list[Step] = []
        self.maker: dict[int, Op] = {}

    def value(self, number: Any, dtype: Any = np.float32) -> Value:
        array = np.asarray(number, dtype)
        return Value(len(self.maker) + 1000, array.shape, array.dtype.name, array)

    def start(self, name: str, number: Any, kind: str = "input", dtype: Any = np.float32) -> Value:
        return self.op(name, kind.capitalize(), [], number, kind=kind, dtype=dtype)

    def op(
        self,
        name: str,
        type_: str,
        inputs: Sequence[Value],
        number: Any,
        back: Sequence[Any] | None = None,
        upstream: Any = 1.0,
        kind: str = "op",
        dtype: Any = np.float32,
        **how: Any,
    ) -> Value:
        """Add an op; with `back`, the gradients it returns per input, also its step."""
        output = self.value(number, dtype)
        how.setdefault("watched", (True,) * len(inputs))
        op = Op(name, kind, type_, tuple(inputs), (output,), **how)
        self.ops.append(op)
        self.maker[output.key] = op
        if back is not None:
            arrays = [None if b is None else np.asarray(b, np.float32) for b in back]
            self.steps.insert(0, Step(op, [np.asarray(upstream, np.float32)], arrays))
        return output

    def gradient(self, source: Value) -> Any:
        """The sum of the gradients that the steps return to a source."""
        given = [
            downstream
            for step in self.steps
            for value, downstream in zip(step.op.inputs, step.downstream, strict=True)
            if value is source and downstream is not None
        ]
        with np.errstate(all="ignore"):
            return sum(given) if given else None

    def trace(self, target: Value, sources: Sequence[Value], passes: bool = True) -> Trace:
        made = Pass(
            0,
            (target,),
            [None],
            tuple(sources),
            [self.gradient(source) for source in sources],
            tuple(self.steps),
            (),
            {target.key: np.ones(target.shape, np.float32)},
        )
        return Trace("f", target.numpy(), (), {}, tuple(self.ops), (made,) if passes else ())


def square_plus_sine(name: str = "x", gradient: float = 3.0) -> Trace:
    """y = x * x + sin(x) at 3."""
    tape = Tape()
    x = tape.start(name, 3.0)
    a = tape.op("a", "Mul", [x, x], 9.0)
    b = tape.op("Sin", "Sin", [x], 0.1411)
    y = tape.op("y", "AddV2", [a, b], 9.1411)
    ops = {op.name: op for op in tape.ops}
    one = np.float32(1)
    tape.steps = [
        Step(ops["y"], [one], [one, one]),
        Step(ops["a"], [one], [np.float32(gradient), np.float32(3)]),
        Step(ops["Sin"], [one], [np.float32(-0.99)]),
    ]
    return tape.trace(y, [x])


def chain(length: int) -> Trace:
    """A chain of sines."""
    tape = Tape()
    x = first = tape.start("x", 1.0)
    for i in range(length):
        x = tape.op(f"Sin_{i}", "Sin", [x], 0.5, back=[0.5])
    return tape.trace(x, [first])
