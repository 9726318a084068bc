"""What a custom op ran inside, shown in its place: a frame with the ops of its body.

    opened   a scene -> the same with a frame in the place of each open custom op

The values that a body reads and makes enter and leave through ports, where the lines of the custom
op itself end: backward, TensorFlow runs the custom rule and not the rules of these ops.

A helper of `scene`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ..graph import Op, Trace, Value
from . import scene
from .scene import Edge, Frame, Node, Scene

MOST = 60  # ops of a body that is drawn


def opened(shown: Scene, names: Collection[str], around: str = "") -> Scene:
    """Open some of a scene's custom ops.

    Args:
        shown: The scene.
        names: What is open.
        around: The name of the custom op whose body the scene is.

    Returns:
        The scene; a custom op that can be opened has a `group`.
    """
    for i, node in enumerate(shown.nodes):
        if node.kind != "custom" or not 0 < len(node.ops[0].body) <= MOST:
            continue
        named = replace(node, group=f"{around}custom:{node.ops[0].name}")
        shown = replace(shown, nodes=(*shown.nodes[:i], named, *shown.nodes[i + 1 :]))
        if named.group in names:
            shown = _with_body(shown, i, names)
    return shown


def _with_body(shown: Scene, owner: int, names: Collection[str]) -> Scene:
    """Put the frame of one custom op around its body's nodes, behind all other nodes."""
    node = shown.nodes[owner]
    (op,) = node.ops
    frame = Frame(node.group, node.label or node.symbol, node.frame, owner, node.floor)
    given = {v.key: v for v in (*op.captured, *op.inputs)}
    starts = tuple(Op("", "input", "Input", (), (v,)) for v in given.values())
    within = Trace("", None, (), {}, (*starts, *op.body), ())
    body = opened(scene.make(within, limit=None), names, f"{node.group}/")
    first, frames = len(shown.nodes), len(shown.frames)
    nodes = [_moved(n, first, frames, owner, node.floor) for n in body.nodes]
    edges = [replace(e, source=e.source + first, target=e.target + first) for e in body.edges]
    doors = [(a + first, name, port + first) for a, name, port in body.doors]
    inner = [
        replace(f, parent=f.parent + frames + 1, node=f.node + first, floor=node.floor)
        for f in body.frames
    ]
    for n, each in enumerate(nodes):
        if each.kind == "port" and each.owner == owner:
            doors.append((owner, each.outputs[0].key, first + n))
    for i, value in enumerate(op.outputs):
        port = first + len(nodes)
        nodes.append(_port(f"{node.group}:{i}", value, frames, owner, node.floor))
        doors.append((owner, ~i, port))
        if (made := _maker(body, value)) is not None:
            edges.append(Edge(made[0] + first, made[1], port, 0, value))
    return replace(
        shown,
        nodes=(*shown.nodes, *nodes),
        edges=(*shown.edges, *edges),
        frames=(*shown.frames, frame, *inner),
        doors=(*shown.doors, *doors),
    )


def _moved(node: Node, first: int, frames: int, owner: int, floor: int) -> Node:
    """A node of a body as one of the whole scene."""
    key = f"{first}:{node.key}"
    if node.kind == "input" and not node.label and not node.ops[0].name:
        return _port(key, node.outputs[0], frames, owner, floor)
    return replace(
        node,
        key=key,
        frame=node.frame + frames + 1,
        owner=node.owner + first if node.owner >= 0 else owner,
        floor=floor,
    )


def _port(key: str, value: Value, frame: int, owner: int, floor: int) -> Node:
    return Node(key, "", "", "port", (), (value,), (None,), floor=floor, frame=frame, owner=owner)


def _maker(body: Scene, value: Value) -> tuple[int, int] | None:
    """The last node that made these very numbers: TensorFlow hands out copies of its values."""
    wanted = value.numpy()
    for i in range(len(body.nodes) - 1, -1, -1):
        for k, made in enumerate(body.nodes[i].outputs):
            if (made.shape, made.dtype) == (value.shape, value.dtype) and np.array_equal(
                made.numpy(), wanted, equal_nan=wanted.dtype.kind in "fc"
            ):
                return i, k
    return None
