"""The derivative of a gradient, for upstreams that stay and upstreams that grow with x."""

import numpy as np
import tensorflow as tf

from cgviz.checking import twice
from cgviz.checking.subject import Subject


def subject(f, *given):
    given = [tf.constant(x, tf.float64) for x in given]
    return Subject(f, given, {id(t): f"x{i}" for i, t in enumerate(given)})


def test_a_product_has_ones_beside_the_diagonal():
    s = subject(lambda x, y: x * y, [1.0, 2.0], [3.0, 4.0])
    upstream = twice.Upstream(np.ones(2))
    np.testing.assert_array_equal(twice.slope(s, upstream)(s.x), [3, 4, 1, 2])
    found = twice.pull_twice(s, upstream, np.eye(4)[0]).vector
    np.testing.assert_array_equal(found, [0, 0, 1, 0])


def test_an_upstream_that_is_x_is_differentiated_too():
    s = subject(lambda x: x**3, 2.0)
    upstream = twice.growing(np.ones(1), s)
    assert twice.slope(s, upstream)(s.x) == [24.0]  # x · 3x²
    assert twice.pull_twice(s, upstream, np.ones(1)).vector == [36.0]  # 9x²
    assert twice.in_a_graph(s, upstream, np.ones(1)) == [36.0]


def test_an_upstream_grows_with_each_input_and_part_of_a_complex_number():
    s = Subject(tf.abs, [tf.constant([3 + 4j], tf.complex128)], {})
    upstream = twice.growing(np.ones(1), s)
    assert upstream.growth.all()
    claimed = np.stack([twice.pull_twice(s, upstream, unit).vector for unit in np.eye(2)])
    first = twice.slope(s, upstream)
    moved = np.stack([(first(s.x + h) - first(s.x - h)) / 2e-4 for h in 1e-4 * np.eye(2)])
    np.testing.assert_allclose(claimed, moved.T, rtol=1e-6)
