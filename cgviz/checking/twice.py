"""The gradient differentiated once more: by differences of it, and by f's own rules.

    slope        x -> upstream · df/dx, for many x
    pull_twice   the derivative of that along a direction, as f's rules claim it
    in_a_graph   the same, from within a `tf.function`

A rule of a rule answers for upstream as well as for x, so an `Upstream` may grow with x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array
from ..recording.build import dense
from .subject import Pulled, Subject


@dataclass(frozen=True, eq=False)
class Upstream:
    """What is handed to f from after it: `seed`, or (growth · x) times it."""

    seed: Array
    growth: Array | None = None

    def of(self, subject: Subject, targets: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
        """As tensors like the targets, differentiable by the sources."""
        seeds = subject.split(self.seed, targets)
        if self.growth is None:
            return seeds
        parts = zip(subject.split(self.growth, sources), sources, strict=True)
        factor = tf.add_n(
            [
                tf.cast(tf.reduce_sum(tf.math.real(tf.math.conj(part) * source)), tf.float64)
                for part, source in parts
            ]
        )
        return [seed * tf.cast(factor, seed.dtype) for seed in seeds]


def growing(seed: Array, subject: Subject) -> Upstream:
    """An upstream that depends on every input; for one number x it is x."""
    if subject.x.size == 1:
        return Upstream(seed, np.ones(1))
    weights = np.random.default_rng(17).uniform(0.5, 1.5, subject.x.size)
    return Upstream(seed, weights / subject.scale)


def slope(subject: Subject, upstream: Upstream) -> Callable[[Array], Array]:
    """x -> upstream · df/dx, for many x: as a graph where that is known to be quicker."""

    def first(args: Sequence[Any], unconnected: Any) -> list[Any]:
        sources = subject.sources(args)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            targets = subject.call(args)
        seeds = upstream.of(subject, targets, sources)
        return list(tape.gradient(targets, sources, seeds, unconnected_gradients=unconnected))

    def eager(x: Array) -> Array:
        found = first(subject.arguments(x), tf.UnconnectedGradients.NONE)
        return subject.pulled(found).vector

    @tf.function(autograph=False)
    def graph(*args: Any) -> list[Any]:
        found = first(args, tf.UnconnectedGradients.ZERO)
        return [dense(g, s.shape) for g, s in zip(found, subject.sources(args), strict=True)]

    def quick(x: Array) -> Array:
        subject.on_run()
        return subject.join(graph(*subject.arguments(x)))

    if subject.quick is None:
        return eager
    try:
        same = np.allclose(quick(subject.x), eager(subject.x), rtol=1e-4, atol=0, equal_nan=True)
    except Exception:
        same = False
    return quick if same else eager


def pull_twice(subject: Subject, upstream: Upstream, direction: Array) -> Pulled:
    """The gradient of (upstream · df/dx) · direction: f's second derivative."""
    args = subject.arguments(subject.x)
    return subject.pulled(_twice(subject, upstream, direction, args))


def in_a_graph(subject: Subject, upstream: Upstream, direction: Array) -> Array:
    """The same with both tapes inside of a `tf.function`."""

    @tf.function(autograph=False)
    def graph(*args: Any) -> list[Any]:
        found = _twice(subject, upstream, direction, args)
        pairs = zip(found, subject.sources(args), strict=True)
        return [tf.zeros_like(s) if g is None else dense(g, s.shape) for g, s in pairs]

    return subject.pulled(graph(*subject.arguments(subject.x))).vector


def _twice(
    subject: Subject, upstream: Upstream, direction: Array, args: Sequence[Any]
) -> list[Any]:
    sources = subject.sources(args)
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape() as inner:
            inner.watch(sources)
            targets = subject.call(args)
        seeds = upstream.of(subject, targets, sources)
        first = inner.gradient(targets, sources, output_gradients=seeds)
        parts = zip(first, subject.split(direction, sources), sources, strict=True)
        kept = [(dense(g, s.shape), part) for g, part, s in parts if g is not None]
    if not kept:
        return [None] * len(sources)
    weights = [tf.cast(tf.broadcast_to(part, g.shape), g.dtype) for g, part in kept]
    return list(outer.gradient([g for g, _ in kept], sources, output_gradients=weights))
