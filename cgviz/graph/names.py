"""What ops and values are called, and why no gradient flows along an edge.

symbol      what an op does, as mathematics writes it: `×` for `Mul`
value_name  the name of a value: the learner's own where there is one
reason      why nothing flows back from an op to one of its inputs, in a few words
"""

from __future__ import annotations

import re

from .. import style
from .model import Op, Step, Value
from .trace import Trace

# Ops that compute or fill shapes: what is computed from them alone counts as a constant.
_SHAPE_HELPERS = """Shape ShapeN Size Rank ZerosLike OnesLike InvertPermutation BroadcastArgs
    BroadcastGradientArgs ConcatOffset"""
SHAPE_HELPERS = frozenset(_SHAPE_HELPERS.split())
IDENTITIES = frozenset(("Identity", "IdentityN", "Snapshot", "EnsureShape", "CheckNumericsV2"))

INFIX = {
    **dict.fromkeys(("Mul", "MulNoNan"), "×"),
    **dict.fromkeys(("Add", "AddV2", "AddN", "BiasAdd"), "+"),
    "Sub": "−",
    **dict.fromkeys(("RealDiv", "DivNoNan"), "÷"),
    "FloorDiv": "//",
    "FloorMod": "mod",
    "Greater": ">",
    "GreaterEqual": "≥",
    "Less": "<",
    "LessEqual": "≤",
    "Equal": "=",
    "NotEqual": "≠",
    "LogicalAnd": "and",
    "LogicalOr": "or",
    "Maximum": "max",
    "Minimum": "min",
}
# `{}` is the name of the op's input; if that has none, the op's type is written in words.
FORMULAS = {
    "Neg": "−{}",
    "Square": "{}²",
    "Sqrt": "√{}",
    "Rsqrt": "1/√{}",
    "Reciprocal": "1/{}",
    "Abs": "|{}|",
    "ComplexAbs": "|{}|",
}
SYMBOLS = {
    "Pow": "power",
    "SquaredDifference": "squared\ndifference",
    "MatMul": "matmul",
    "BatchMatMul": "matmul",
    "Select": "where",
    "Pack": "stack",
    "Unpack": "unstack",
    "StridedSlice": "slice",
    "ResourceGather": "gather",
    "BroadcastTo": "broadcast",
    "SparseSoftmaxCrossEntropyWithLogits": "sparse\ncross-entropy",
    "SoftmaxCrossEntropyWithLogits": "cross-entropy",
    "StopGradient": "stop_gradient",
    "FusedBatchNorm": "batch norm",
    "Conv2D": "conv 2D",
    "Prod": "product",
}
# Elementwise functions whose derivative is not constant. Where TensorFlow has an op `...Grad` for
# one of them, that op multiplies upstream by this derivative.
_ELEMENTWISE = """Abs Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Erfinv Exp Expm1 LeakyRelu
    Log Log1p Reciprocal Relu Relu6 Rsqrt Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Square Tan
    Tanh"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
_SUPERSCRIPT = str.maketrans("0123456789-−.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻·")


def symbol(op: Op, constants: dict[int, str], given: str = "x") -> str:
    """What an op does, as mathematics writes it.

    Args:
        op: The op.
        constants: The text of each input that is a constant and not drawn, by its position.
        given: The name of the first input that is drawn; empty where it has no short one.

    Returns:
        For example `×`, `× 2`, `x³`, `sin`, `matmul`.
    """
    sign = "@" if op.type == "MatMul" else INFIX.get(op.type)
    if sign and len(op.inputs) == 2 and len(constants) == 1:
        ((position, text),) = constants.items()
        return f"{sign} {text}" if position == 1 else f"{text} {sign}"
    if op.type == "Pow" and len(constants) == 1:
        if 0 in constants:
            return f"{constants[0]}^{given}" if given else f"{constants[0]} ^"
        if not given:
            return f"^ {constants[1]}"
        if re.fullmatch("[-−]?[0-9]{1,2}", constants[1]):
            return f"{given}{constants[1].translate(_SUPERSCRIPT)}"
        return f"{given}^{constants[1]}"
    if op.type == "SquaredDifference" and len(constants) == 1:
        return f"({given} − {constants[1]})²" if 1 in constants else f"({constants[0]} − {given})²"
    if op.type == "Cast":
        return f"cast\n{op.outputs[0].dtype}"
    return INFIX.get(op.type) or plain(op.type, given)


def plain(op_type: str, given: str = "x") -> str:
    """An op type as a symbol or in words: `Square` is `x²`, `MatrixInverse` is `matrix inverse`.

    >>> plain("MatrixInverse"), plain("UnsortedSegmentSum"), plain("LeakyRelu")
    ('matrix inverse', 'unsorted segment sum', 'leaky relu')
    >>> plain("SelectV2"), plain("TanhGrad"), plain("RsqrtGrad")
    ('where', 'tanh′', '(1/√x)′')
    >>> plain("BiasAddGrad"), plain("FusedBatchNormGradV3")
    ('bias add grad', 'batch norm grad')
    """
    op_type = re.sub(r"V\d$", "", op_type)
    if given and op_type in FORMULAS:
        return FORMULAS[op_type].format(given)
    if op_type in SYMBOLS:
        return SYMBOLS[op_type]
    if op_type.endswith("Grad"):
        function = op_type.removesuffix("Grad")
        of = plain(function)
        if function not in ELEMENTWISE:
            return f"{of} grad"
        return f"({of})′" if "/" in of else f"{of}′"
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", op_type)
    return words.lower() if words[:2] != words[:2].upper() or " " in words else words


def own_name(op: Op) -> bool:
    """Whether an op's name is the learner's, and not its type or kind with a number."""
    made_up = rf"({re.escape(op.type)}|{op.kind})(_\d+)?"
    return not re.fullmatch(made_up, op.name, re.IGNORECASE)


def operand(value: Value, made: Op) -> str:
    """A constant as part of a symbol: short numbers, else the learner's name, or the shape."""
    if value.size <= 3 and value.dtype != "string" and len(value.shape) <= 1:
        text = style.array(value.numpy())
        if len(text) <= 14:
            return text
    return made.name if own_name(made) else style.shape(value) or "[]"


def reason(op: Op, position: int, step: Step | None, arrives: bool, live: bool) -> str:
    """Why nothing flows back from `op` to its input at `position`, a float, in a few words.

    Args:
        op: The op that uses the value.
        position: Which of its inputs the value is.
        step: The op's step in this pass, if its rule ran.
        arrives: Whether a gradient reached any output of `op`.
        live: Whether a tape follows the value elsewhere.

    Returns:
        The reason; empty where something flows.
    """
    if step is not None and step.flows[position] and op.follows(position):
        return ""
    if op.outputs and not any(v.differentiable for v in op.outputs):
        return dtype(op.outputs[0].dtype)
    if op.type == "StopGradient":
        return "stop_gradient"
    if op.rule_dropped:
        return "rule dropped"
    if op.rule_missing:
        return f"no gradient for {op.type}"
    if not op.watched:
        return "tape not recording" if live else "not watched"
    if not any(op.watched):
        return "not watched"
    if step is None:
        return "nothing arrives" if not arrives else "not on this tape"
    if not op.follows(position) or position in step.skipped:
        return "not watched"
    return "the rule returned None" if op.kind == "custom" else f"no gradient for {op.type}"


def dtype(name: str) -> str:
    """Why a dtype has no gradient: "integer", "boolean" or "text"; empty for a handle."""
    if name in ("resource", "variant"):
        return ""
    return {"bool": "boolean", "string": "text"}.get(name, "integer")


def value_name(trace: Trace, value: Value) -> str:
    """The name of a value: that of the op that made it, and which of its outputs it is."""
    value, maker = _unfolded(trace, value)
    if maker is None:
        return f"v{value.key}"
    op, position = maker
    if len(op.outputs) == 1 or op.kind == "variable":
        return op.name
    return output_name(op.name, position, len(op.outputs)) or f"{op.name}[{position}]"


def output_name(name: str, position: int, outputs: int) -> str:
    """The part of an op's name that is of one output; "" if not each of its outputs has one.

    >>> output_name("z, w", 1, 2), output_name("z", 1, 2)
    ('w', '')
    """
    names = name.split(", ")
    return names[position] if len(names) == outputs else ""


def has_own_name(trace: Trace, value: Value) -> bool:
    """Whether `value_name` is the learner's, and not an op's type and a number."""
    _, maker = _unfolded(trace, value)
    return maker is not None and own_name(maker[0])


def _unfolded(trace: Trace, value: Value) -> tuple[Value, tuple[Op, int] | None]:
    """The value behind any folded identities, and what made it."""
    maker = trace.producer(value)
    while maker is not None and is_folded(maker[0]):
        value = maker[0].inputs[maker[1]]
        maker = trace.producer(value)
    return value, maker


def is_folded(op: Op) -> bool:
    """Whether an op is an identity that the learner gave no name: it is not written as a factor."""
    return op.type in IDENTITIES and op.kind == "op" and not own_name(op)
