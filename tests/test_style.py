"""Numbers, signs and colours."""

import numpy as np
import pytest
import tensorflow as tf
from contrast import contrast
from hypothesis import given
from hypothesis import strategies as st

from cgviz import style


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (32, "32"),
        (32.0, "32"),
        (np.float32(0.1), "0.1"),
        (2.5838532, "2.584"),
        (31.9999999, "32"),
        (-0.0, "0"),
        (-1.5, "−1.5"),
        (9999.96, "10000"),
        (12345.67, "12346"),
        (123456.7, "1.235e5"),
        (1048576.0, "1048576"),
        (1.2e-5, "1.2e−5"),
        (1e-30, "1e−30"),
        (np.finfo(np.float64).max, "1.798e308"),  # rounded up it is more than a float64 holds
        (float("nan"), "NaN"),
        (float("inf"), "∞"),
        (-float("inf"), "−∞"),
        (True, "True"),
        (1 - 2j, "1−2i"),
        (None, "None"),
        (np.int64(-7), "−7"),
    ],
)
def test_a_number_is_short_and_honest(x, text):
    assert style.number(x) == text


@given(st.floats(width=32))
def test_a_number_is_never_minus_zero_nor_longer_than_eleven_letters(x):
    text = style.number(x)
    assert text != "−0"
    assert "-" not in text
    assert len(text) <= 11


@given(st.floats(min_value=-9e6, max_value=9e6))
def test_a_number_read_back_is_near(x):
    back = float(style.number(x).replace("−", "-"))
    assert back == pytest.approx(x, rel=1e-3, abs=1e-300)


def test_a_small_array_is_written_out():
    assert style.array(np.array([2.0, 4.0, 6.0])) == "[2, 4, 6]"
    assert style.array([[1, 2], [3, 4]]) == "[[1, 2], [3, 4]]"
    assert style.array(7.0) == "7"
    assert style.array(np.zeros((1, 1))) == "[[0]]"


def test_a_large_array_is_a_summary_that_names_its_norm():
    a = np.full((512, 512), 3.1 / 512, np.float32)
    assert style.array(a) == "float32 [512×512] L2 norm 3.1"


def test_a_summary_says_what_is_wrong():
    a = np.ones((10, 10))
    a[0, 0] = np.nan
    assert style.array(a) == "float64 [10×10] 1 of 100 NaN"
    a[0, 0] = np.inf
    assert style.array(a) == "float64 [10×10] 1 of 100 ∞"
    assert style.array(np.zeros((10, 10))) == "float64 [10×10] all 0"
    assert style.array(np.ones((0, 3))) == "float64 [0×3] empty"


def test_texts_and_truth_values_are_arrays_too():
    assert style.array(np.array([True, False])) == "[True, False]"
    assert style.array(np.array(["a" * 3] * 20)).endswith("[20]")


def test_half_floats_have_numbers():
    assert style.number(tf.constant(1.5, tf.bfloat16).numpy()) == "1.5"
    assert style.array(tf.constant([1.5, 2.0], tf.bfloat16).numpy()) == "[1.5, 2]"
    assert style.sign(tf.constant([1.5, np.nan], tf.bfloat16).numpy()) is style.NAN


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_large_array_is_called_by_its_own_dtype(dtype):
    assert style.array(tf.ones([3, 12], dtype).numpy()) == f"{dtype} [3×12] L2 norm 6"


@pytest.mark.parametrize(
    ("a", "sign"),
    [
        (None, style.NONE),
        (np.nan, style.NAN),
        (np.inf, style.INFINITE),
        (-np.inf, style.INFINITE),
        (np.zeros(3), style.ZERO),
        ([np.inf, np.nan], style.NAN),
        (1.0, None),
        ([0.0, 1.0], None),
        (np.zeros((0,)), None),
        (np.array(["text"]), None),
    ],
)
def test_what_is_no_ordinary_number_has_a_sign(a, sign):
    assert style.sign(a) is sign


def test_each_sign_has_its_own_word_and_all_that_is_not_finite_one_symbol():
    signs = [style.NAN, style.INFINITE, style.ZERO, style.NONE]
    assert len({s.word for s in signs}) == 4
    assert style.NAN.symbol == style.INFINITE.symbol
    assert len({s.symbol for s in signs}) == 3


@pytest.mark.parametrize("look", [style.LIGHT, style.DARK])
def test_text_has_contrast_on_paper_and_inside_every_node(look):
    texts = [
        "text",
        "muted",
        "forward_text",
        "backward_text",
        *["op", "custom", "variable", "input"],
    ]
    texts += ["constant", "scope"]
    for name in texts:
        colour = getattr(look, name)
        assert contrast(colour, look.paper) >= 4.5, name
        assert contrast(colour, look.fill) >= 4.5, name
    for name in ("text", "muted", "backward_text"):
        assert contrast(getattr(look, name), look.glow) >= 4.5, name
    for name in ("forward", "backward"):
        assert contrast(getattr(look, name), look.paper) >= 3, name


def test_the_palette_follows_the_background():
    assert style.palette((1, 1, 1)) is style.LIGHT
    assert style.palette((0.1, 0.1, 0.1)) is style.DARK


def test_the_light_theme_draws_in_okabe_and_itos_blue_and_vermillion():
    assert (style.LIGHT.forward, style.LIGHT.backward) == ("#0072B2", "#D55E00")
