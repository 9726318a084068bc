"""Custom ops that are opened in their place."""

import tensorflow as tf

import cgviz
from cgviz.graph.selection import select


@tf.custom_gradient
def square(x):
    return x * x, lambda upstream: upstream * 2 * x


@tf.custom_gradient
def outer(x, y):
    def grad(upstream):
        return upstream * y, upstream * x

    return square(x) * y + x, grad


def opened(f, *args, names):
    return select(cgviz.trace(f, *args), framed=True, toggled=names)


def test_a_closed_custom_op_knows_that_it_opens():
    shown = opened(lambda x: square(x), 2.0, names=[])
    assert [node.group for node in shown.nodes] == ["", "custom:square"]
    assert shown.frames == ()


def test_an_open_one_has_its_body_in_a_frame():
    shown = opened(lambda x: square(x), 2.0, names=["custom:square"])
    (frame,) = shown.frames
    assert frame.node == 1
    assert [(node.kind, node.symbol) for node in shown.nodes if node.owner == 1] == [
        ("port", ""),
        ("op", "×"),
        ("port", ""),
    ]
    assert {node.frame for node in shown.nodes if node.owner == 1} == {0}


def test_every_value_enters_and_leaves_by_a_port():
    shown = opened(outer, 2.0, 3.0, names=["custom:outer"])
    owner = shown.frames[0].node
    ports = {i for i, node in enumerate(shown.nodes) if node.kind == "port"}
    assert len(ports) == 3
    (out,) = [i for i in ports if shown.nodes[i].outputs[0] in shown.nodes[owner].outputs]
    (last,) = [e for e in shown.edges if e.target == out]
    assert shown.nodes[last.source].symbol == "+"
    assert all(e.contribution is None for e in shown.edges if shown.nodes[e.source].owner == owner)


def test_what_leaves_is_what_the_body_returns_even_if_another_value_is_equal():
    @tf.custom_gradient
    def safe_sqrt(x):
        y = tf.sqrt(x)
        safe = tf.maximum(y, 1e-3)  # equal to y here, and for the rule only
        return y, lambda upstream: upstream / (2.0 * safe)

    shown = opened(lambda x: safe_sqrt(x), 4.0, names=["custom:safe_sqrt"])
    (out,) = [i for i, n in enumerate(shown.nodes) if n.kind == "port" and not shown.outgoing[i]]
    assert [shown.nodes[e.source].label for e in shown.edges if e.target == out] == ["y"]


def test_a_custom_op_within_a_custom_op_opens_too():
    within = "custom:outer/custom:square"
    once = opened(outer, 2.0, 3.0, names=["custom:outer"])
    assert within in [node.group for node in once.nodes]
    twice = opened(outer, 2.0, 3.0, names=["custom:outer", within])
    assert [frame.parent for frame in twice.frames] == [-1, 0]
    inner = twice.frames[1].node
    assert twice.nodes[inner].owner == twice.frames[0].node
    assert sum(node.owner == inner for node in twice.nodes) == 3


def test_to_open_one_within_another_moves_no_edge_of_the_other():
    names = ["custom:outer", "custom:outer/custom:square"]
    once, twice = (opened(outer, 2.0, 3.0, names=names[:n]) for n in (1, 2))
    assert [(e.source, e.target) for e in twice.edges][: len(once.edges)] == [
        (e.source, e.target) for e in once.edges
    ]
    assert [node.key for node in twice.nodes][: len(once.nodes)] == [n.key for n in once.nodes]


def test_the_rest_of_the_picture_stays():
    trace = cgviz.trace(outer, 2.0, 3.0)
    closed = select(trace, framed=True)
    open_ = select(trace, framed=True, toggled=["custom:outer"])
    assert [(e.source, e.target) for e in open_.edges][: len(closed.edges)] == [
        (e.source, e.target) for e in closed.edges
    ]
    assert [node.key for node in open_.nodes][:3] == [node.key for node in closed.nodes]
