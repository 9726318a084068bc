"""The programs whose words and numbers are kept in tests/golden, and how they are written down.

Only `written` and its helpers know the modules of the package; when these move, only they change.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from programs import documented, log1pexp, square

import cgviz


def chain():
    return cgviz.trace(lambda x: tf.sin(tf.square(x)), 0.5)


def fan_out():
    return cgviz.trace(lambda x: x * x + 3.0 * x, 2.0)


def matrices():
    def layer(x, w, b):
        return tf.nn.relu(x @ w + b)

    return cgviz.trace(layer, [[1.0, 2.0]], [[0.5, -1.0], [0.25, 1.0]], [0.5, -2.0])


def custom():
    @tf.custom_gradient
    def clipped(x):
        def grad(upstream):
            return tf.clip_by_value(upstream, -0.5, 0.5)

        return tf.identity(x), grad

    return cgviz.trace(lambda x: tf.square(clipped(x)), 2.0)


def custom_body():
    return cgviz.trace(lambda x: tf.sin(documented(square(x))), 1.5)


def two_outputs():
    @tf.custom_gradient
    def halves(x):
        def grad(first, second):
            return tf.concat([first, 3.0 * second], 0)

        return (x[:1], x[1:]), grad

    def f(x):
        first, second = halves(x)
        return first * second

    return cgviz.trace(f, [2.0, 5.0])


def variables():
    w = tf.Variable(2.0, name="w")
    b = tf.Variable([1.0, -1.0], name="b")
    return cgviz.trace(lambda x: tf.reduce_sum(w * x + b * w), 3.0)


def second_order():
    return cgviz.trace(lambda x: tf.sin(x) * x, 2.0, order=2)


def not_finite():
    return cgviz.trace(log1pexp, 100.0)


def blocked():
    def f(x, y):
        return tf.round(x) * y + tf.stop_gradient(x) + tf.cast(tf.cast(y, tf.int32), tf.float32)

    return cgviz.trace(f, 2.6, 1.5)


def _scoped(layers, widths):
    random = np.random.default_rng(0)
    weights = [tf.Variable(random.normal(size=(4, 4)), name=f"w{i}") for i in range(layers)]

    def network(x):
        for i, w in enumerate(weights):
            with tf.name_scope(f"layer_{i}"):
                for _ in range(widths):
                    x = tf.tanh(x @ w)
        return tf.reduce_sum(x)

    return cgviz.trace(network, np.linspace(-1.0, 1.0, 4)[None])


def scopes_folded():
    return _scoped(12, 3)


def scopes_open():
    return _scoped(3, 2)


def recurrent():
    w, u = tf.Variable(0.5, name="w"), tf.Variable(0.25, name="u")

    def f(xs):
        state = tf.zeros([])
        for i in range(5):
            with tf.name_scope(f"step_{i}"):
                state = tf.tanh(w * xs[i] + u * state)
        return state

    return cgviz.trace(f, [1.0, -1.0, 0.5, 2.0, 0.0])


def network():
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(3, "relu", name="hidden"), tf.keras.layers.Dense(1, name="out")],
        name="model",  # else Keras numbers it by what ran before
    )
    model.build((None, 2))

    def loss(x, y):
        return tf.reduce_mean(tf.square(model(x) - y))

    return cgviz.trace(loss, [[1.0, 2.0], [-1.0, 0.5]], [[1.0], [0.0]])


def recorded():
    x = tf.constant([1.0, 2.0, 3.0])
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.reduce_sum(x**3)
            z = tf.reduce_max(x)
        tape.gradient(y, x)
        tape.gradient(z, x)
    return trace


def repeated():
    """An LSTM with so many ops that only one of its steps is shown at a time."""
    random = np.random.default_rng(1)
    w, u = (tf.Variable(random.normal(size=(2, 8)), name=name) for name in "wu")
    b = tf.Variable(random.normal(size=8), name="b")

    def f(xs):
        state = memory = tf.zeros([1, 2], tf.float64)
        for i in range(4):
            with tf.name_scope(f"step_{i}"):
                gates = tf.split(xs[:, i] @ w + state @ u + b, 4, axis=1)
                keep, add, show = (tf.sigmoid(gate) for gate in gates[:3])
                memory = keep * memory + add * tf.tanh(gates[3])
                state = show * tf.tanh(memory)
        return tf.reduce_sum(state)

    return cgviz.trace(f, random.normal(size=(1, 4, 2)))


PROGRAMS = {
    f.__name__: f
    for f in (
        *(chain, fan_out, matrices, custom, custom_body, two_outputs, variables, second_order),
        *(not_finite, blocked, scopes_folded, scopes_open, recurrent, network, recorded, repeated),
    )
}


# --- how they are written down -------------------------------------------------------------------


def written(trace):
    """All that a user reads of a trace, as a dict of strings and lists."""
    return {
        "table": repr(trace.table()),
        "table html": trace.table()._repr_html_(),
        "full table": repr(trace.table(full=True)),
        "chain rule": repr(trace.chain_rule()),
        "diagnosis": repr(trace.diagnose()),
        "sentences": trace.plot().cgviz_alt,
        "passes": [_pass(trace, i) for i in range(len(trace.passes))],
    }


def _pass(trace, which):
    from cgviz.graph.selection import select

    shown = select(trace, which)
    steps = range(shown.steps + 1) if shown.steps <= 12 else (0, 1, shown.steps)
    return {
        "selection": _selection(shown),
        "paper": {str(step): _paper(trace, which, step) for step in steps},
        "paper at the end": _paper(trace, which, None),
        "live": _live(trace, which, []),
        "live, opened or closed": {
            name: _live(trace, which, [name])["nodes"] for name in _names(trace, which)
        },
    }


def _selection(shown):
    """The nodes and edges with their numbers."""
    return {
        "nodes": [
            [n.kind, n.label, n.symbol, list(n.orders)]
            + [[edge.output for edge in shown.starts(i)], bool(n.asked), n.frame]
            + [_number(v.numpy()) for v in n.outputs]
            + [_number(a) for a in n.upstream]
            for i, n in enumerate(shown.nodes)
        ],
        "edges": [
            [e.source, e.output, e.target, e.position, e.order, e.reason, _number(e.contribution)]
            for e in shown.edges
        ],
        "frames": [[f.name, f.label, f.parent, f.node] for f in shown.frames],
    }


def _number(a):
    """An array as text with six digits, so that another processor gives the same."""
    if a is None:
        return None
    a = np.asarray(a)
    return str(a.dtype) if a.dtype == object else np.array2string(a, precision=6, threshold=60)


def _paper(trace, which, step):
    """The words on the picture for paper."""
    from matplotlib import pyplot as plt

    from cgviz.drawing.figure import Drawn

    ax = trace.plot(which=which, step=step)
    (drawn,) = [c for c in ax.collections if isinstance(c, Drawn) and c.words]
    plt.close(ax.figure)
    return sorted(drawn.words)


def _builder(trace, which):
    from cgviz.live.pages import PageBuilder

    return PageBuilder(trace, which).patiently()


def _names(trace, which):
    builder = _builder(trace, which)
    return builder.names(which) + builder.others(which)


def _live(trace, which, toggled):
    """The words of the live picture, with the step at which each comes, and the side panels."""
    from cgviz.drawing.texts import Moments

    builder = _builder(trace, which)
    page, chosen = builder.page(which, toggled), builder.selection(which, toggled)
    shown = page["displays"][0]
    said = {
        (text["of"], text["i"], text["role"]): versions
        for text, versions in zip(shown["texts"], page["texts"]["written"], strict=True)
    }

    def last(*of):
        return said[of][-1][1] if of in said else ""

    return {
        "nodes": [
            [last("node", i, role) for role in ("title", "name", "kind")]
            + [said.get(("node", i, "gradient"), [])]
            for i in range(len(page["texts"]["nodes"]))
        ],
        "links": [
            [
                last("link", i, "value"),
                last("link", i, "gradient") or last("link", i, "reason"),
                ("link", i, "reason") in said,
                Moments(chosen).of_edge(edge),
                edge.order,
            ]
            for i, edge in enumerate((*chosen.edges, *chosen.targets))
        ],
        "side panels": [_panel(each) for each in page["panels"]],
        "forward": shown["forward"],
        "backward": shown["backward"],
    }


def _panel(panel):
    """A side panel with its elements as words."""
    told = ("about", "inputs", "more")
    found = panel | {name: [_words(part) for part in panel[name]] for name in told}
    if "note" in panel:
        found["note"] = [*map(_line, panel["note"])]
    if "paths" in panel:
        found["paths"] = [
            x | {"rows": [*map(_line, x["rows"])], "words": "".join(map(_words, x["words"]))}
            for x in panel["paths"]
        ]
    return found


def _line(parts):
    """The words of an equation, whose parts are words, or a role and its words."""
    return " ".join(part if isinstance(part, str) else part[1] for part in parts)


def _words(part):
    """The text of an element; if it is shown only from a step on, that step is put before it."""
    if isinstance(part, str):
        return part
    tag, attributes, *children = part
    apart = tag in ("tr", "tbody", "tfoot", "section.input", "div.product", "span.summand")
    text = (" " if apart or tag.startswith("div.term") else "").join(map(_words, children))
    return f"({attributes['since']}) {text}" if "since" in attributes else text
