"""The two notations: names, numbers and matrices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import mathtext

from cgviz.reading.notation import Plain, Tex

TEX, PLAIN = Tex(), Plain()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("x", "x"),
        ("x1", "x_{1}"),
        ("y_2", "y_{2}"),
        ("loss", r"\mathrm{loss}"),
        ("my_var", r"\mathrm{my\_var}"),
        ("dense/kernel:0", r"\mathrm{dense/kernel{:}0}"),
        ("50% off", r"\mathrm{50\%\ off}"),
        ("a}{$\\b", r"\mathrm{a\}\{\$\backslash{}b}"),
        ("θ", "θ"),
    ],
)
def test_a_name_is_escaped_for_latex(name, written):
    assert TEX.name(name) == written


@given(st.text(alphabet="ab_{}$%#&\\^~ :-<>'`", min_size=1, max_size=12))
def test_no_name_leaves_its_group(name):
    written = TEX.name(name).replace("\\{", "").replace("\\}", "").replace(r"\$", "")
    assert written.count("{") == written.count("}")
    assert "$" not in written


@pytest.mark.parametrize("name", ["x", "x1", "loss", "my_var", "dense/kernel"])
@pytest.mark.parametrize("slot", [0, 2])
def test_a_fraction_is_read_by_a_second_reader_of_latex(name, slot):
    mathtext.MathTextParser("path").parse(f"${TEX.partial(name, 'x', slot)}$")
    mathtext.MathTextParser("path").parse(f"${TEX.whole(name, 'x')}$")


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
    assert TEX.number(text) == written
    assert PLAIN.number(text) == text


def test_a_row_and_a_matrix():
    assert PLAIN.matrix([["1", "2"]]) == "[1, 2]"
    assert PLAIN.matrix([["1"], ["2"]]) == "[[1], [2]]"
    assert TEX.matrix([["1", "2"], ["3", "4"]]) == (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}")


def test_a_plain_name_that_is_no_word_stands_in_brackets():
    assert PLAIN.whole("loss", "dense/kernel") == "dloss/d(dense/kernel)"
    assert PLAIN.partial("Split[0]", "x", 2) == "∂Split[0]/∂x|2"


def test_words_before_a_formula_end_in_a_space():
    assert TEX.relation("of shapes") == r"\mathrm{of\ shapes\ }"
    assert TEX.relation("≈") == r"\approx"
