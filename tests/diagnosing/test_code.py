"""The learner's text tells how a line is written, and what the function around it calls."""

import ast
import textwrap

import pytest

from cgviz.diagnosing import none
from cgviz.diagnosing import pass_graph as code
from cgviz.graph import Op, Source


@pytest.fixture
def line(tmp_path):
    """The line of a text that holds a mark, as the source of an op."""

    def find(text, mark="here"):
        path = tmp_path / "learner.py"
        text = textwrap.dedent(text)
        path.write_text(text, encoding="utf-8")
        number = next(i for i, row in enumerate(text.split("\n"), 1) if mark in row)
        return Source(str(path), number, text.split("\n")[number - 1].strip())

    return find


TAPES = {
    "inside": """
        def f(x):
            with tf.GradientTape() as tape:
                y = x  # here
        """,
    "stopped": """
        def f(x):
            with tf.GradientTape() as tape:
                y = x
                with tape.stop_recording():
                    z = y  # here
        """,
    "outside": """
        def f(x):
            z = x  # here
            with tf.GradientTape() as tape:
                y = z
        """,
    "": """
        def f(x):
            return x  # here
        """,
}
AWKWARD = {
    "in the first line of the block": ("inside", "with tf.GradientTape() as tape: y = x  # here"),
    "at the top of a notebook cell": ("outside", "z = x  # here\nwith tf.GradientTape() as t: 1"),
    "two blocks in one with": (
        "inside",
        "with record() as trace, tf.GradientTape() as tape:\n    y = x  # here",
    ),
    "over several lines": (
        "inside",
        "with tf.GradientTape() as tape:\n    y = f(\n        x,  # here\n    )",
    ),
    "in a function of its own that the block calls": (
        "",
        "def g(x):\n    return x  # here\nwith tf.GradientTape() as tape:\n    y = g(x)",
    ),
    "in a rule beside a block": (
        "",
        """
        def f(x):
            with tf.GradientTape() as tape:
                y = x
            def grad(upstream):
                return upstream  # here
            return y, grad
        """,
    ),
    "in another block": ("", "with open('f') as file:\n    y = x  # here"),
    "in a method": (
        "inside",
        """
        class Model:
            def step(self, x):
                with tf.GradientTape() as tape:
                    y = x  # here
        """,
    ),
}


@pytest.mark.parametrize("stands", TAPES)
def test_a_line_stands_to_the_tapes_of_its_function(line, stands):
    assert none.inside_tape(line(TAPES[stands])) == stands


@pytest.mark.parametrize("place", AWKWARD)
def test_a_line_is_found_also(line, place):
    stands, text = AWKWARD[place]
    assert none.inside_tape(line(text)) == stands


TAKES = [
    "y = tf.constant(x.numpy())  # here",
    "y = tf.constant(np.sin(x))  # here",
    "y = tf.constant(numpy.linalg.norm(x))  # here",
    "y = tf.constant(float(x))  # here",
    "y = tf.constant(tf.reduce_sum(x).numpy().item())  # here",
    "y = tf.numpy_function(sine, [x], tf.float32)  # here",
    "y = tf.constant(\n    x  # here\n    .numpy())",
]
TAKES_NOT = [
    "y = tf.sin(np.pi * x)  # here",
    "y = tf.zeros(3, np.float32) * x  # here",
    "y = tf.experimental.numpy.sin(x)  # here",
    "y = tf.cast(x, float)  # here, not float()",
    "print('use np.sin(x) or x.numpy()'); y = x  # here",
    "y = myfloat(x) + snp.sin(x)  # here",
]


@pytest.mark.parametrize("text", TAKES)
def test_numbers_taken_out_of_tensorflow_are_seen(line, text):
    assert code.calls(line(text), none.NUMPY)


@pytest.mark.parametrize("text", TAKES_NOT)
def test_what_only_looks_like_numpy_is_not(line, text):
    assert not code.calls(line(text), none.NUMPY)


def test_a_docstring_calls_nothing(line):
    assert not code.calls(
        line('def f(x):\n    """Like np.sin(x)."""\n    return x  # here'), none.NUMPY
    )


def test_the_whole_function_is_read_from_a_line_within_a_rule(line):
    text = """
        def f(x):
            number = x.numpy()
            w.assign_add(number)
            def grad(upstream):
                return upstream * number  # here
            return x, grad
        """
    assert code.calls(line(text), none.NUMPY)


def test_other_statements_of_a_cell_are_not_the_functions(line):
    text = "w.assign(float(1))\ny = x  # here\nz = x.numpy()"
    assert not code.calls(line(text), none.NUMPY)


BROKEN = ["y = = x  # here", "y = x  # here\x00", "%matplotlib inline\ny = x  # here"]


@pytest.mark.parametrize("text", BROKEN)
def test_text_that_is_no_python_tells_nothing(line, text):
    with pytest.raises((SyntaxError, ValueError)):
        ast.parse(text)
    assert tells_nothing(line(text))


def test_a_file_that_is_not_there_tells_nothing():
    assert tells_nothing(Source("<stdin>", 3, "y = x"))
    assert tells_nothing(None)


def test_a_line_past_the_end_of_the_text_tells_nothing(line):
    source = line("y = x.numpy()  # here")
    assert tells_nothing(Source(source.file, 99, ""))


def tells_nothing(source):
    return none.inside_tape(source) == "" and not code.calls(source, none.NUMPY)


def test_numpy_is_found_by_the_name_of_a_value(line):
    text = """
        def f(x):
            h = tf.sin(x)  # here
            print(h.numpy())
            n = h.numpy()
            return tf.constant(n)
        """
    op = Op("h", "op", "Sin", (), (), source=line(text))
    assert none.numpy_call(op, "h", []).text == "n = h.numpy()"
    assert none.numpy_call(op, "x", []) is None


def test_numpy_is_found_in_the_ops_own_line(line):
    source = line("y = tf.constant(tf.sin(x).numpy())  # here")
    op = Op("Sin", "op", "Sin", (), (), source=source)
    assert none.numpy_call(op, "Sin", []).text.startswith("y = ")


def test_the_gradient_that_is_asked_outside_every_tape_is_found(line):
    text = """
        def f(x):
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    y = x**3  # here
                inner.gradient(y, x)
            slope = inner.gradient(y, x)
            return outer.gradient(slope, x)
        """
    op = Op("y", "op", "Pow", (), (), source=line(text))
    assert none.gradient_call(op).text == "slope = inner.gradient(y, x)"
