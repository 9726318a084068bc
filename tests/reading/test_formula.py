"""The chain rule written out: the text word for word, and never a wrong equality."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import mathtext

import cgviz
from cgviz.reading.chain_rule import Fraction, Matrix, plain, tex


@tf.custom_gradient
def clipped(x):
    return tf.identity(x), lambda upstream: tf.clip_by_value(upstream, -0.5, 0.5)


def rule(f, *args, which=None, **options):
    return cgviz.trace(f, *args, **options).chain_rule(which)


def lines(f, *args, **options):
    return str(rule(f, *args, **options)).split("\n")


def chained(x):
    a = tf.square(x)
    y = tf.square(a)
    return y


def test_a_variable_that_a_closed_function_reads_has_a_local():
    w = tf.Variable(1.5, name="w")
    trace = cgviz.trace(tf.function(lambda x: x * w), 2.0, open_functions=False)
    assert str(trace.chain_rule()).endswith("/∂w\n               = 2")
    assert trace.diagnose().notes == ()


def test_a_gradient_of_0_that_no_path_leads_to_names_what_was_differentiated():
    x, z = tf.Variable(3.0, name="x"), tf.Variable(1.0, name="z")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            y = x**2.0
        tape.gradient(y, [x, z], unconnected_gradients="zero")
    assert "dy/dz =\n" in str(trace.chain_rule())


def test_a_chain_is_its_symbols_its_numbers_and_its_product():
    assert lines(chained, 2.0) == [
        "dy/dx = ∂y/∂a · ∂a/∂x",
        "      = 8 · 4",
        "      = 32",
    ]


def test_the_latex_says_the_same():
    assert rule(chained, 2.0).latex == (
        "$$\n\\begin{aligned}\n"
        r"\frac{d y}{d x} &= \frac{\partial y}{\partial a} \cdot \frac{\partial a}{\partial x}"
        " \\\\[0.3em]\n"
        r"&= 8 \cdot 4"
        " \\\\[0.3em]\n"
        r"&= 32"
        "\n\\end{aligned}\n$$"
    )


def test_a_value_used_twice_is_a_sum_of_two():
    def f(x):
        y = x * x
        return y

    assert lines(f, 3.0) == [
        "dy/dx = ∂y/∂x|1 + ∂y/∂x|2",
        "      = 3 + 3",
        "      = 6",
    ]


def test_a_sum_too_long_for_a_line_has_a_line_for_each_path():
    def f(x):
        near = tf.square(x)
        y = near * near * near
        return y

    text = lines(f, 2.0)
    assert text[0].startswith("dy/dx = ∂y/∂")
    assert [line.split()[0] for line in text[1:3]] == ["+", "+"]
    assert text[-1].split() == ["=", "192"]


def test_terms_that_read_the_same_are_all_there():
    text = str(rule(lambda x: tf.add_n([tf.square(x)] * 5), 2.0))
    assert text.count("∂Square/∂x") == 5
    assert text.count("1 · 4") == 5


def test_the_left_side_names_every_target_also_one_whose_paths_are_not_written():
    def f(x):
        a = x * x
        b = a * a
        y = b * b
        z = 5.0 * x
        return y, z

    text = str(rule(f, 1.0, upstream=(1.0, 10.0)))
    assert text.startswith("upstream of y · dy/dx + upstream of z · dz/dx\n")
    assert "(1 more path)" in text
    assert text.endswith("= 58")


def test_a_target_that_is_given_twice_has_the_sum_as_its_upstream():
    def f(x):
        y = tf.square(x)
        return {"loss": y, "total": y}

    trace = cgviz.trace(f, 3.0)
    assert str(trace.chain_rule()).startswith("upstream · dy/dx = upstream · ∂y/∂x + upstream")
    assert str(trace.chain_rule()).endswith("= 12")
    assert "Target y (x²): value 9, upstream 2." in trace.plot().cgviz_alt


def test_a_negative_factor_stands_in_brackets():
    assert "(−2) · 3" in str(rule(lambda x: -2.0 * (3.0 * x), 1.0))
    z = tf.constant(1 - 2j, tf.complex64)
    found = str(rule(lambda x: (x * z) * z, tf.constant(1.0, tf.complex64)))
    assert re.search(r"\(1[+−]2i\) · \(1[+−]2i\)", found), found


def test_cut_digits_are_about_equal_and_full_ones_equal():
    signs = [line.split()[1 if i == 0 else 0] for i, line in enumerate(lines(tf.sin, 1.0))]
    assert signs == ["=", "≈"]
    assert lines(tf.sin, 0.0)[-1].split() == ["=", "1"]


def test_float32_tenths_count_as_printed_in_full():
    assert lines(lambda x: x * 0.1, 1.0)[-1].split() == ["=", "0.1"]


def test_a_vector_is_a_row_times_jacobians():
    def f(x):
        y = tf.square(x)
        return y

    assert lines(f, [1.0, 2.0, 3.0]) == [
        "upstream · dy/dx = upstream · ∂y/∂x",
        "                 = [1, 1, 1] · [[2, 0, 0], [0, 4, 0], [0, 0, 6]]",
        "                 = [2, 4, 6]",
    ]


def test_a_matrix_is_in_latex_a_matrix():
    latex = rule(lambda x: tf.reduce_sum(tf.square(x)), [1.0, 2.0]).latex
    assert r"\begin{pmatrix} 2 & 0 \\ 0 & 4 \end{pmatrix}" in latex


def test_an_upstream_that_is_not_one_is_a_factor():
    text = lines(tf.square, 3.0, upstream=2.0)
    assert text[0] == "upstream · dSquare/dx = upstream · ∂Square/∂x"
    assert text[1].split() == ["=", "2", "·", "6"]


def test_of_larger_tensors_the_result_is_summed_up():
    text = str(rule(lambda x: tf.reduce_sum(tf.square(x)), np.ones(20, "f")))
    assert "= float32 [20] L2 norm 8.944" in text


def test_jacobians_too_large_are_named_and_nothing_is_claimed():
    text = str(rule(lambda x: tf.reduce_sum(tf.square(x)), np.ones(300, "f")))
    assert "gradient in this trace: float32 [300] L2 norm 34.64" in text
    assert "too large to multiply out" in text
    assert text.count("=") == 1  # the symbolic line


def test_a_rule_that_is_not_linear_gets_no_equality():
    text = lines(lambda x: 3.0 * clipped(x), 2.0)
    assert [line for line in text if "=" in line] == [text[0]]
    assert text[1].strip() == "gradient in this trace: 0.5"
    words = " ".join(line.strip() for line in text[2:])
    assert words == (
        "(the product of the locals would be 1.5: "
        "the rule of `clipped` is not linear in its upstream)"
    )


@pytest.mark.parametrize(
    ("f", "printed"),
    [
        (lambda x: x / 3.0 + x / 3.0 + x / 3.0, ["≈ 0.33333 + 0.33333 + 0.33333", "≈ 1"]),
        (lambda x: 3.0 * (x / 3.0), ["≈ 3 · 0.33333", "≈ 1"]),
        (lambda x: x / 4.0 + x / 4.0, ["= 0.25 + 0.25", "= 0.5"]),
        (lambda x: x / -3.0 + x / -3.0, ["≈ (−0.33333) + (−0.33333)", "≈ −0.66667"]),
    ],
)
def test_a_gradient_is_about_what_the_printed_numbers_do_not_give(f, printed):
    assert [line.strip() for line in lines(f, 1.0)[-2:]] == printed


def test_every_equality_in_numbers_is_true():
    for x in (0.5, 1.0, -3.0):
        for f in (tf.sin, lambda x: x * x + 3.0 * x, lambda x: tf.exp(x) * x):
            for line in lines(f, x)[1:]:
                text = line.strip().replace("−", "-").replace("·", "*")
                sign, expression = text[0], text[1:]
                gradient = float(cgviz.trace(f, x).gradients[0])
                if sign == "=":
                    assert np.float32(eval(expression)) == gradient
                elif sign == "≈":
                    assert eval(expression) == pytest.approx(gradient, rel=1e-3)


def test_infinity_and_nan_are_written_by_their_signs():
    latex = rule(lambda x: tf.sqrt(x) * tf.math.log(x), 0.0).latex
    assert r"(-\infty) \cdot \infty" in latex
    assert r"\mathrm{NaN}" in latex


def test_many_paths_are_cut_and_counted():
    def f(x):
        for _ in range(40):
            x = x * x
        return x

    text = str(rule(f, 1.0))
    assert "+ ⋯ (1,099,511,627,773 more paths)" in text
    assert len(text.split("\n")) < 12


def test_more_paths_than_can_be_written_are_a_power_of_ten():
    def f(x):
        for _ in range(60):
            x = x * x
        return x

    assert "⋯ (about 10^18 more paths)" in str(rule(f, 1.0))


def test_a_long_product_is_cut_in_the_middle():
    def f(x):
        for _ in range(20):
            x = tf.negative(x)
        return x

    text = str(rule(f, 1.0))
    symbols, numbers = text.split("=")[1:3]
    assert symbols.count("∂") == 14
    assert "· ⋯ ·" in symbols
    assert " ".join(numbers.split()) == "(−1) · (−1) · (−1) · (−1) · ⋯ · (−1) · (−1) · (−1)"
    assert text.endswith("= 1")


def test_a_source_without_gradient_is_named_below():
    assert lines(lambda x, y: tf.round(x) * y, 2.0, 3.0)[-1] == "no gradient: x"


def test_nothing_but_none_is_said_in_a_word():
    assert lines(tf.round, 2.0) == ["no gradient: x"]
    assert r"\mathrm{no\ gradient{:}\ x}" in rule(tf.round, 2.0).latex


def test_more_than_eight_sources_are_counted():
    variables = [tf.Variable(float(k), name=f"v{k}") for k in range(12)]
    text = str(rule(lambda x: x * tf.add_n([v * 1.0 for v in variables]), 1.0))
    assert text.endswith("and 5 more sources")


def test_text_is_at_most_a_hundred_columns_wide():
    w = np.ones((2, 2), "f")
    text = str(rule(lambda x: tf.reduce_sum(tf.tanh(x @ w) ** 2), [[0.3, 0.7]]))
    assert max(map(len, text.split("\n"))) <= 100


def test_the_formula_is_the_same_every_time():
    assert str(rule(chained, 0.3)) == str(rule(chained, 0.3))
    assert rule(chained, 0.3).latex == rule(chained, 0.3).latex


def test_latex_is_balanced():
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="my_layer/kernel")
    latex = rule(lambda x: tf.reduce_sum(tf.tanh(x @ w)), [[0.3, 0.7]]).latex
    assert latex.count("{") == latex.count("}")
    assert latex.count(r"\left") == latex.count(r"\right")
    assert latex.count(r"\begin") == latex.count(r"\end")
    assert r"my\_layer/kernel" in latex


# --- notations ------------------------------------------------------------------------------------


def in_tex(name, slot=0, sign="∂"):
    return tex(Fraction(name, "x", sign, slot))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("x", " x"),
        ("x1", " x_{1}"),
        ("y_2", " y_{2}"),
        ("loss", r" \, \mathrm{loss}"),
        ("my_var", r" \, \mathrm{my\_var}"),
        ("dense/kernel:0", r" \, \mathrm{dense/kernel{:}0}"),
        ("50% off", r" \, \mathrm{50\%\ off}"),
        ("a}{$\\b", r" \, \mathrm{a\}\{\$\backslash{}b}"),
        ("θ", " θ"),
    ],
)
def test_a_name_is_escaped_for_latex(name, written):
    assert in_tex(name) == rf"\frac{{\partial{written}}}{{\partial x}}"


@given(st.text(alphabet="ab_{}$%#&\\^~ :-<>'`", min_size=1, max_size=12))
def test_no_name_leaves_its_group(name):
    written = in_tex(name).replace("\\{", "").replace("\\}", "").replace(r"\$", "")
    assert written.count("{") == written.count("}")
    assert "$" not in written


@pytest.mark.parametrize("name", ["x", "x1", "loss", "my_var", "dense/kernel"])
@pytest.mark.parametrize("slot", [0, 2])
def test_a_fraction_is_read_by_a_second_reader_of_latex(name, slot):
    mathtext.MathTextParser("path").parse(f"${in_tex(name, slot)}$")
    mathtext.MathTextParser("path").parse(f"${in_tex(name, sign='d')}$")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("−3", "-3"),
        ("1.2e−5", r"1.2 \times 10^{-5}"),
        ("1e20", r"1 \times 10^{20}"),
        ("∞", r"\infty"),
        ("−∞", r"-\infty"),
        ("NaN", r"\mathrm{NaN}"),
    ],
)
def test_a_number_is_mathematics_in_latex(text, written):
    assert tex(Matrix(((text,),))) == written
    assert plain(Matrix(((text,),))) == text


def test_a_row_and_a_matrix():
    assert plain(Matrix((("1", "2"),))) == "[1, 2]"
    assert plain(Matrix((("1",), ("2",)))) == "[[1], [2]]"
    matrix = Matrix((("1", "2"), ("3", "4")))
    assert tex(matrix) == r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"


def test_a_plain_name_that_is_no_word_stands_in_brackets():
    assert plain(Fraction("loss", "dense/kernel", "d")) == "dloss/d(dense/kernel)"
    assert plain(Fraction("Split[0]", "x", slot=2)) == "∂Split[0]/∂x|2"
