"""Which rule an exception of TensorFlow's is about, when f or its backward pass raises."""

from __future__ import annotations

import re
import traceback

from ..hinting import hints

# What the message says, and the rule it is about. Checked on TensorFlow 2.16 to 2.21.
_MESSAGES = (
    ("accept (?:keyword argument )?'variables'|keyword argument 'variables'", "variables"),
    ("Must return gradient for each variable", "variables"),
    (r"expected to return \d+ gradients|too few gradients|Num gradients \d+ generated", "arity"),
    ("derivatives but grad must return", "arity"),
    ("supports keywords arguments only when eager", "keywords"),
    ("unsupported operand type.*IndexedSlices", "upstream"),
    (r"expected to be a \w+ tensor but is a|incompatible with requested type", "dtype"),
    (r"attribute 'numpy'|numpy\(\) is only available|annot convert a symbolic", "numpy"),
    (r"symbolic tf\.Tensor|__array__\(\)", "numpy"),
    (r"Tensor\.graph is undefined when eager", "graph"),
)
_SHAPES = (
    "[Ii]ncompatible shapes|[Ii]nconsistent shape|Dimensions must be equal|must be broadcastable"
    "|is not compatible with supplied shape"
)
_HINTS = {
    "shape": "A rule returns each gradient in the shape of its input: sum what was broadcast.",
    "variables": "Return a pair: the gradients of the inputs, and a list with one gradient for "
    "each variable in `variables`.",
    "arity": "A custom gradient returns its value and its rule, `return y, grad`; the rule takes "
    "one upstream for each output and returns one gradient for each argument.",
    "upstream": "After a lookup, upstream comes as `tf.IndexedSlices`: begin the rule with "
    "`dy = tf.convert_to_tensor(dy)`.",
    "dtype": "A rule returns each gradient in the dtype of its input: `tf.cast(g, x.dtype)`.",
    "numpy": "NumPy sees numbers, and a graph has none yet. Keep to tf functions, or wrap the "
    "NumPy code in `tf.numpy_function`, in the value and in the rule.",
    "keywords": "Call a custom gradient with positional arguments.",
}


def explain(error: BaseException, backward: bool) -> tuple[str, str]:
    """The rule that an exception is about, and a hint; "runs" where nothing more is known.

    Args:
        error: The exception, with its traceback.
        backward: Whether it came from the backward pass.

    Returns:
        The name of the rule, and what to do, empty where nothing is sure.

    Example:
        >>> explain(TypeError("grad_fn must accept keyword argument 'variables'"), False)[0]
        'variables'
    """
    rule = _rule(error, backward)
    hint = hints.explain(error)
    return rule, hint.mend if hint is not None else _HINTS.get(rule, "")


def _rule(error: BaseException, backward: bool) -> str:
    text = f"{type(error).__name__}: {error}"
    for pattern, rule in _MESSAGES:
        if re.search(pattern, text):
            return rule
    if backward and re.search(_SHAPES, text):
        return "shape"
    if isinstance(error, TypeError | ValueError):
        line = _decorator_line(error)
        if "variable_grads" in line:
            return "variables"
        if "grad_fn" in line:
            return "arity"
    return "runs"


def _decorator_line(error: BaseException) -> str:
    """The line of `tf.custom_gradient` that raised, with none of the caller's code after it."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = frame.filename.replace("\\", "/")
        if file.endswith("tensorflow/python/ops/custom_gradient.py"):
            return frame.line or ""
        if "/tensorflow/python/" not in file:
            return ""
    return ""


def first_line(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its message."""
    text = [line for line in str(error).strip().splitlines() if line.strip()]
    line = re.sub(r"\{\{function_node .*?\}\}\s*", "", text[0]) if text else ""
    if line.strip() == "in user code:":  # AutoGraph's: what was raised stands at the end
        return text[-1].strip()
    line = line if len(line) <= 300 else line[:299] + "…"
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
