"""The picture of a report: the rule, autodiff of its body and finite differences over a range."""

import matplotlib as mpl
import pytest
import tensorflow as tf

import cgviz

mpl.use("Agg")


@tf.custom_gradient
def leaky(x):
    return tf.nn.relu(x), lambda dy: dy * tf.where(x < 0, 0.25, 1.0)


@pytest.fixture
def report():
    return cgviz.check(leaky, [-1.0, 2.0], surrogate=True)


def test_the_picture_says_what_it_shows(report):
    ax = report.plot()
    assert repr(ax.figure) == ax.cgviz_alt
    assert ax.cgviz_alt == (
        "The derivative d sum(out) / d in[0], as in[0] runs from −4 to 4. At the two ends: "
        "custom rule 0.25 and 1, autodiff of the body 0 and 1, finite differences 0 and 1."
    )


def test_the_picture_goes_where_it_is_told(report):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert report.plot(ax) is ax
    assert [line.get_label() for line in ax.get_lines()[:3]] == [
        "finite differences",
        "autodiff of the body",
        "custom rule",
    ]
