"""From an instruction of the learner's code to its line and its names."""

import tensorflow as tf

import cgviz


def test_a_source_line_is_where_the_learner_wrote_the_op():
    def f(x):
        return tf.nn.relu(x)

    op = cgviz.trace(f, 1.0).steps[0].op
    assert op.source.text == "return tf.nn.relu(x)"
    assert op.source.file == __file__
