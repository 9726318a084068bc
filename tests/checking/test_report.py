"""A report says the same as text and as a page, and escapes what is not its own."""

import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking.case import Results
from cgviz.checking.checker import EVERY_RULE, Report

mpl.use("Agg")


@pytest.fixture
def report():
    results = Results(EVERY_RULE)
    results.passed("shape", "fits")
    results.broken("value", "wrong for <x>", "d out / d <x>: yours 1, true 2", "use `tf.sin`")
    results.broken("kink", "a kink", "here", "")
    results.skipped("graph", "not tried")
    return Report("f<script>", results, (), ["a note & more"], None)


def test_the_text_has_a_row_for_each_rule_and_a_paragraph_for_each_finding(report):
    assert repr(report).splitlines() == [
        "check of f<script>: ✗ wrong (1 error, 1 warning)",
        "",
        "✓ shape  fits",
        "✗ value  wrong for <x>",
        "! kink   a kink",
        "– graph  not tried",
        "",
        "✗ value: d out / d <x>: yours 1, true 2",
        "  hint: use `tf.sin`",
        "  lesson: 01_chain_rule",
        "",
        "! kink: here",
        "  lesson: 07_non_differentiable",
        "",
        "a note & more",
    ]


def test_the_page_is_well_formed_escaped_and_read_aloud(report):
    html = report._repr_html_()
    assert "<script>" not in html
    page = ET.fromstring(f"<div>{html}</div>")
    marks = [e.get("aria-label") for e in page.iter("span") if e.get("role") == "img"]
    assert marks == ["passed", "failed", "warning", "not judged", "failed", "warning"]
    assert [e.text for e in page.iter("code")] == ["tf.sin"]
    assert all(th.get("scope") and th.text for th in page.iter("th"))


def test_errors_come_first_and_decide(report):
    assert [f.level for f in report.findings] == ["error", "warning"]
    assert not report.ok
    with pytest.raises(AssertionError, match="yours 1, true 2"):
        report.assert_ok()


def test_a_warning_is_no_error():
    results = Results(EVERY_RULE)
    results.broken("kink", "a kink", "here", "")
    report = Report("f", results, (), (), None)
    assert report.ok
    report.assert_ok()


def test_a_broken_rule_outweighs_a_kept_one():
    results = Results(EVERY_RULE)
    results.passed("graph", "fine")
    results.broken("graph", "prints", "m", "h", level="warning")
    assert results.rows["graph"].state == "warn"
    results.broken("graph", "differs", "m", "h")
    results.passed("graph", "fine")
    assert results.rows["graph"].state == "fail"


def test_nothing_to_draw_is_said_so():
    with pytest.raises(ValueError, match="nothing to draw"):
        cgviz.check(lambda x: tf.cast(x, tf.int32), 1.0).plot()


# --- the picture -------------------------------------------------------------------------------


@tf.custom_gradient
def leaky(x):
    return tf.nn.relu(x), lambda dy: dy * tf.where(x < 0, 0.25, 1.0)


@pytest.fixture(scope="module")
def drawn():
    return cgviz.check(leaky, [-1.0, 2.0], surrogate=True)


def test_the_headline_says_that_it_is_right_as_a_surrogate(drawn):
    assert drawn.headline.endswith(": ✓ right as a surrogate")


def test_the_picture_says_what_it_shows(drawn):
    ax = drawn.plot()
    assert repr(ax.figure) == ax.cgviz_alt
    assert ax.cgviz_alt == (
        "The derivative d sum(out) / d x[0], as x[0] runs from −4 to 4. At the two ends: "
        "custom rule 0.25 and 1, autodiff of the body 0 and 1, finite differences 0 and 1."
    )


def test_of_one_number_the_axes_are_the_parameter_and_the_slope():
    ax = cgviz.check(lambda rate: leaky(rate), 2.0, surrogate=True).plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rate", "slope")


@pytest.mark.parametrize(
    ("f", "args", "labels"),
    [
        (lambda rate: leaky(rate), ([-1.0, 2.0],), ("rate[0]", "d sum(out) / d rate[0]")),
        (lambda a, b: leaky(a) * b, (2.0, 3.0), ("a", "d out / d a")),
        (lambda a: (leaky(a), a), (2.0,), ("a", "d sum(out) / d a")),
    ],
)
def test_of_several_numbers_the_axes_say_which_is_differentiated_by_which(f, args, labels):
    ax = cgviz.check(f, *args, surrogate=True).plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels


def test_the_picture_goes_where_it_is_told(drawn):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert drawn.plot(ax) is ax
    assert [line.get_label() for line in ax.get_lines()[:3]] == [
        "finite differences",
        "autodiff of the body",
        "custom rule",
    ]


def test_the_picture_of_complex_numbers_holds_one_derivative_in_three_lines():
    z = np.complex64([1 + 2j, -0.5 + 1j])
    lines = cgviz.check(lambda z: z * z, z).plot().get_lines()[:3]
    for line in lines[1:]:
        np.testing.assert_allclose(line.get_ydata(), lines[0].get_ydata(), atol=1e-4)
