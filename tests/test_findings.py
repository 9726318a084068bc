"""A diagnosis reads as text and as a page."""

import tensorflow as tf

import cgviz


def test_a_diagnosis_is_a_sequence_with_text_and_a_page():
    diagnosis = cgviz.trace(lambda x: tf.round(x) * 1.0, 2.6).diagnose()
    assert len(diagnosis) == 1
    assert diagnosis[0] is next(iter(diagnosis))
    assert diagnosis[:1] == (diagnosis[0],)
    assert repr(diagnosis).startswith("diagnosis of f: 1 finding\n\n∅ None: `x` got None")
    page = diagnosis._repr_html_()
    assert "cgviz-sheet" in page
    assert "<ol" in page
    assert 'aria-hidden="true">∅</span> None' in page
    assert "<code>x</code> got None" in page


def test_the_page_escapes_the_learners_code():
    page = cgviz.trace(lambda x: tf.round(x) * tf.cast(x < 3.0, tf.float32), 2.6).diagnose()
    html = page._repr_html_()
    assert "x &lt; 3.0" in html
    assert "x < 3.0" not in html


def test_the_page_of_a_healthy_trace_is_one_line():
    html = cgviz.trace(tf.sin, 1.0).diagnose()._repr_html_()
    assert "healthy" in html
    assert "<ol" not in html
