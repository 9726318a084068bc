"""The range of numbers in words: the labels and notes of the picture, and its alternative text."""

from __future__ import annotations

import re
from typing import Any

from .. import style
from ..graph import Trace, names
from .ranges import rows

NEAR = 0.9  # of an input limit: from here on it is marked


def describe(trace: Trace, *, which: int | None = None) -> str:
    """The picture in sentences: the alternative text for screen readers.

    Args:
        trace: The trace.
        which: The backward pass, as in `trace.passes`.

    Returns:
        One line for the whole and one per op.
    """
    table = rows(trace, which)
    lines = [f"Magnitudes of {trace.title}, op by op, against the limits of their types."]
    for row in table:
        text = f"{label(row)} ({row['dtype']}): values {_span(row, '')}"
        if row["gradient_max"] is not None or row["gradient_special"]:
            text += f"; gradients {_span(row, 'gradient_')}"
        near = note(row)
        lines.append(f"{text}{f'; {near}' if near else ''}.")
    return "\n".join(lines)


def _span(row: dict[str, Any], prefix: str) -> str:
    largest, smallest = row[f"{prefix}max"], row[f"{prefix}min"]
    special = row[f"{prefix}special"]
    if largest is None:
        return f"all {special}" if special else "none"
    if smallest is None:
        text = "0" if special else "all 0"
    elif smallest == largest:
        text = style.number(largest)
    else:
        text = f"from {style.number(smallest)} to {style.number(largest)}"
    return f"{text}, and {special}" if special else text


def label(row: dict[str, Any]) -> str:
    """The op of a row: its name, and what it does where that is not the name."""
    op, symbol = row["op"], names.SYMBOLS.get(row["type"], "")
    kind = symbol if symbol.replace(" ", "").isascii() and symbol else names.plain(row["type"])
    if row["type"] in _NAMED:
        text = op
    else:  # a name that is the type and a number is not the learner's
        text = kind if re.fullmatch(re.escape(row["type"]) + r"(_\d+)?", op) else f"{op}: {kind}"
    return f"{row['inside']} / {text}" if row["inside"] else str(text)


_NAMED = ("Input", "Variable")


def note(row: dict[str, Any]) -> str:
    """What to see coming: how near the input of exp or the value is to its limit."""
    if row["limit"] is not None and row["input"] is not None:
        limit = style.number(round(row["limit"], 2), 5)
        sign = (
            "▲ "
            if row["input"] > row["limit"]
            else "! "
            if row["input"] > NEAR * row["limit"]
            else ""
        )
        return f"{sign}input {style.number(row['input'])} of at most {limit}"
    if row["special"]:
        return f"▲ {row['special']}"
    if row["headroom"] is not None and row["headroom"] < 100:
        return f"! {style.number(row['headroom'], 2)} times from overflow"
    return ""
