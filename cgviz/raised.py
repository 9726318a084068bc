"""Which rule an exception of TensorFlow's is about, when f or its backward pass raises."""

from __future__ import annotations

import re
import traceback

# In order: (what the message says, the rule, the hint). Checked on TensorFlow 2.16 to 2.21.
_MESSAGES = (
    (
        r"must accept keyword argument 'variables'|unexpected keyword argument 'variables'",
        "variables",
        "f reads a trainable variable that is no argument. Write `def grad(dy, variables=None)` "
        "and return `(dx, [dv for v in variables])`, or pass the variable as an argument.",
    ),
    (
        r"Must return gradient for each variable",
        "variables",
        "Return a pair: the gradients of the inputs, and a list with one gradient for each "
        "variable in `variables`.",
    ),
    (
        r"expected to return \d+ gradients, but returned|too few gradients"
        r"|derivatives but grad must return|Num gradients \d+ generated",
        "arity",
        "A rule returns one gradient for each positional argument, Python numbers included. "
        "Return None for those that have none.",
    ),
    (
        r"supports keywords arguments only when eager",
        "keywords",
        "A custom gradient must be called with positional arguments: inside a function that "
        "takes keywords, call it as `f(x, y)`.",
    ),
    (
        r"unsupported operand type.*IndexedSlices",
        "upstream",
        "After a lookup, upstream comes as `tf.IndexedSlices`. Begin the rule with "
        "`dy = tf.convert_to_tensor(dy)`.",
    ),
    (
        r"expected to be a \w+ tensor but is a \w+ tensor|incompatible with requested type",
        "dtype",
        "A rule returns each gradient in the dtype of its input: `tf.cast(g, x.dtype)`.",
    ),
    (
        r"attribute 'numpy'|numpy\(\) is only available|[Cc]annot convert a symbolic"
        r"|symbolic tf\.Tensor|__array__\(\)",
        "numpy",
        "NumPy sees numbers, and a graph has none yet. Keep to tf functions, or wrap the NumPy "
        "code in `tf.numpy_function`, in the value and in the rule.",
    ),
    (
        r"Tensor\.graph is undefined when eager",
        "graph",
        "A rule with `tf.cond` cannot read a variable. Read it in the forward part, or pass it.",
    ),
    (
        r"Incompatible shapes|[Ii]nconsistent shape|Dimensions must be equal|must be broadcastable"
        r"|shape.*(?:does not|doesn't) match",
        "shape",
        "A rule returns each gradient in the shape of its input; what was broadcast is summed.",
    ),
)
_PAIR = (
    "Return a pair: the gradients of the inputs, and a list with one gradient for each variable "
    "in `variables`."
)
_RULE = (
    "A custom gradient returns its value and its rule: `return y, grad`, and the rule takes one "
    "upstream for each output."
)


def explain(error: BaseException, backward: bool) -> tuple[str, str]:
    """The rule that an exception is about, and a hint; "runs" where nothing more is known.

    Args:
        error: The exception.
        backward: Whether it came from the backward pass.

    Returns:
        The name of the rule, and one or two sentences, empty where nothing is sure.
    """
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    in_decorator = last is not None and last.filename.endswith("custom_gradient.py")
    line = (last.line or "") if last is not None else ""
    for pattern, rule, hint in _MESSAGES:
        if re.search(pattern, text) and (rule != "shape" or backward):
            return rule, hint
    if in_decorator and "variable_grads" in line and isinstance(error, TypeError | ValueError):
        return "variables", _PAIR
    if in_decorator and ("grad_fn" in line) and isinstance(error, TypeError | ValueError):
        return "arity", _RULE
    return "runs", ""


def first_line(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its message."""
    text = [line for line in str(error).strip().splitlines() if line.strip()]
    line = re.sub(r"\{\{function_node .*?\}\}\s*", "", text[0]) if text else ""
    if line.strip() == "in user code:":  # AutoGraph's: what was raised stands at the end
        return text[-1].strip()
    line = line if len(line) <= 300 else line[:299] + "…"
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
