"""What ops are called, and why nothing flows."""

import numpy as np
import pytest

from cgviz.graph import Op, Value, names


def op(type_, inputs=1, name="op", kind="op", **how):
    values = tuple(Value(i, (), "float32", np.float32(2)) for i in range(inputs))
    return Op(name, kind, type_, values, values[:1], **how)


@pytest.mark.parametrize(
    ("made", "constants", "symbol"),
    [
        (op("Mul", 2), {}, "×"),
        (op("Mul", 2), {1: "2"}, "× 2"),
        (op("Sub", 2), {0: "1"}, "1 −"),
        (op("Pow", 2), {1: "3"}, "x³"),
        (op("Pow", 2), {1: "−12"}, "x⁻¹²"),
        (op("Pow", 2), {1: "0.5"}, "x^0.5"),
        (op("Pow", 2), {0: "2"}, "2^x"),
        (op("Pow", 2), {}, "power"),
        (op("SquaredDifference", 2), {}, "squared\ndifference"),
        (op("SquaredDifference", 2), {1: "5"}, "(x − 5)²"),
        (op("SquaredDifference", 2), {0: "5"}, "(5 − x)²"),
        (op("MatMul", 2), {0: "x"}, "x @"),
        (op("MatMul", 2), {}, "matmul"),
        (op("Square"), {}, "x²"),
        (op("Cast"), {}, "cast\nfloat32"),
        (op("SomeNewOpV2"), {}, "some new op"),
        (op("LRN"), {}, "LRN"),
        (op("TanhGrad", 2), {}, "tanh′"),
        (op("BiasAddGrad"), {}, "bias add grad"),
        (op("MirrorPadGrad", 2), {}, "mirror pad grad"),
        (op("MaxPoolGrad", 3), {}, "max pool grad"),
    ],
)
def test_a_symbol_says_what_an_op_does(made, constants, symbol):
    assert names.symbol(made, constants) == symbol


@pytest.mark.parametrize(
    ("made", "constants", "named", "nameless"),
    [
        (op("Square"), {}, "h²", "square"),
        (op("Neg"), {}, "−h", "neg"),
        (op("Pow", 2), {1: "3"}, "h³", "^ 3"),
        (op("Pow", 2), {0: "2"}, "2^h", "2 ^"),
        (op("SquaredDifference", 2), {1: "5"}, "(h − 5)²", "( − 5)²"),
        (op("Sin"), {}, "sin", "sin"),
    ],
)
def test_a_formula_has_the_name_of_what_comes_in_and_no_other(made, constants, named, nameless):
    assert names.symbol(made, constants, "h") == named
    assert names.symbol(made, constants, "") == nameless


@pytest.mark.parametrize(
    ("name", "type_", "own"),
    [("y", "Mul", True), ("Mul", "Mul", False), ("Mul_12", "Mul", False), ("mul_2x", "Mul", True)],
)
def test_a_name_is_the_learners_unless_it_is_the_type_and_a_number(name, type_, own):
    assert names.own_name(op(type_, name=name)) is own


@pytest.mark.parametrize(
    ("made", "live", "reason"),
    [
        (op("StopGradient", watched=(True,)), True, "stop_gradient"),
        (op("Foo", watched=(True,), rule_missing=True), True, "no gradient for Foo"),
        (op("Sin"), False, "not watched"),
        (op("Sin"), True, "tape not recording"),
        (op("Sin", watched=(True,)), True, "nothing arrives"),
        (op("f", kind="custom", watched=(True,), rule_dropped=True), True, "rule dropped"),
    ],
)
def test_a_reason_is_a_few_words(made, live, reason):
    assert names.reason(made, 0, None, False, live) == reason


def test_an_operand_is_its_number_or_the_learners_name_or_its_shape():
    def operand(shape, name, kind="constant", type_="Const"):
        value = Value(0, shape, "float32", np.ones(shape, np.float32))
        return names.operand(value, Op(name, kind, type_, (), (value,)))

    assert operand((), "k") == "1"
    assert operand((2,), "k") == "[1, 1]"
    assert operand((5, 4), "mask") == "mask"
    assert operand((5, 4), "constant_3") == "[5×4]"
    assert operand((5, 4), "Mul_1", "op", "Mul") == "[5×4]"
