"""What a trace says in a terminal: its title, its value and gradients, and its backward table."""

from __future__ import annotations

from typing import Any

from .. import style
from ..graph import Trace
from ..graph.names import value_name
from .format import counted
from .table import table

MOST_SOURCES = 8  # gradients in one line


def text(trace: Trace) -> str:
    """What `repr(trace)` returns."""
    lines = [title(trace), *(f"{name}: {value}" for name, value in facts(trace))]
    return "\n".join([*lines, "", repr(table(trace))] if trace.passes else lines)


def title(trace: Trace) -> str:
    """What was traced, and how much of it there is."""
    ops = sum(op.kind in ("op", "custom") for op in trace.ops)
    passes = counted(len(trace.passes), "backward pass") if trace.passes else "no backward passes"
    return f"trace of {trace.title}: {counted(ops, 'op')}, {passes}"


def facts(trace: Trace) -> list[tuple[str, str]]:
    """The value, and the gradients of every pass."""
    found = [("value", _structure(trace.value))]
    for each in trace.passes:
        name = "gradients" if len(trace.passes) == 1 else f"gradients of pass {each.index}"
        pairs = list(zip(each.sources, each.gradients, strict=True))
        texts = [f"{value_name(trace, s)} {style.array(g)}" for s, g in pairs[:MOST_SOURCES]]
        if len(pairs) > MOST_SOURCES:
            texts.append(f"and {len(pairs) - MOST_SOURCES} more")
        found.append((name, ", ".join(texts) or "none asked for"))
        if each.note:
            found.append((f"pass {each.index}", each.note))
    return found


def _structure(value: Any) -> str:
    """A value or a nested structure of values."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {_structure(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_structure, value))})"
    return style.array(value)
