"""What values are called in tables, formulas and cards: by the learner's own names."""

from __future__ import annotations

from ..drawing import words
from ..graph import Op, Trace, Value


def value_name(trace: Trace, value: Value) -> str:
    """The learner's name of a value: that of the op that made it, and which output it is."""
    maker = trace.producer(value)
    while maker is not None and is_folded(maker[0]):
        value = maker[0].inputs[maker[1]]
        maker = trace.producer(value)
    if maker is None:
        return f"v{value.key}"
    op, position = maker
    if len(op.outputs) == 1 or op.kind == "variable":
        return op.name
    names = op.name.split(", ")  # of `z, w = f(x)`
    return names[position] if len(names) == len(op.outputs) else f"{op.name}[{position}]"


def is_folded(op: Op) -> bool:
    """Whether an op is an identity that the learner gave no name: it is not written as a factor."""
    return op.type in words.IDENTITIES and op.kind == "op" and not words.own_name(op)
