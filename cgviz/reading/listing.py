"""Which steps of a backward pass are listed, one after the other, and by which number."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import Pass, Step, Trace
from ..graph.selection import select


@dataclass(frozen=True)
class Listing:
    """Steps of one pass in the order they ran."""

    trace: Trace
    pass_: Pass
    steps: tuple[tuple[int, Step], ...]  # each with its number in the pass, from 1
    full: bool  # whether those are in it that a picture folds away


def listed(trace: Trace, which: int | None = None, full: bool = False) -> Listing:
    """The steps of a pass."""
    each = trace.pass_(which)
    if full:
        return Listing(trace, each, tuple(enumerate(each.steps, 1)), full)
    nodes = select(trace, each.index, limit=None).nodes
    shown = (pair for node in nodes for pair in zip(node.orders, node.steps, strict=True))
    return Listing(trace, each, tuple(sorted(shown)), full)
