"""How long a figure of 20 nodes takes, from the trace to the drawn canvas; prints the median."""

from __future__ import annotations

import statistics
import time

import matplotlib
import tensorflow as tf

import cgviz
from cgviz.graph.selection import select

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def chain(x: tf.Tensor) -> tf.Tensor:
    """A chain of sines and products: 20 nodes with its input."""
    for _ in range(9):
        x = tf.sin(x) * 1.1
    return tf.exp(x)


def branches(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """A cell with two gates, used twice: 20 nodes that branch."""
    for _ in range(2):
        gate = tf.sigmoid(x * w + 1.0)
        x = x * gate + tf.tanh(x) * (1.0 - gate)
    return tf.square(x)


def layers(x: tf.Tensor, w: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Two layers with skip connections, of 2x2 matrices: four times as many letters."""
    for _ in range(2):
        h = tf.tanh(x @ w) @ v
        x = tf.nn.relu(x + h) * 0.5
        x = x + h
    return tf.reduce_sum(x * x)


def main() -> None:
    """Print the medians."""
    eye = [[1.0, 0.5], [0.25, 1.0]]
    for name, trace in (
        ("chain", cgviz.trace(chain, 1.0)),
        ("branches", cgviz.trace(branches, 1.0, 2.0)),
        ("matrices", cgviz.trace(layers, eye, eye, eye)),
    ):
        nodes = len(select(trace).nodes)
        took = []
        for _ in range(15):
            start = time.perf_counter()
            ax = trace.plot()
            ax.figure.canvas.draw()
            took.append(time.perf_counter() - start)
            plt.close(ax.figure)
        print(f"{name}, {nodes} nodes: {1000 * statistics.median(took):.0f} ms (at most 150)")


if __name__ == "__main__":
    main()
