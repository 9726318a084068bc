"""Hints under TensorFlow's own errors: what went wrong, how to fix it, which lesson tells more.

    BOOK      the records: how to recognise an error, and what to say
    explain   an error -> a Hint, or None if cgviz is not sure
    add       adds the hint to an error as a note (PEP 678); errors that leave a recording have it
    load_ipython_extension   the same for a whole notebook: `%load_ext cgviz`

An error is recognised by its type, its message and, where these are not enough, the frames that it
came through. The messages are those of TensorFlow 2.16 to 2.21 and Keras 3. The error stays the
same object with the same arguments and traceback; only a note is added.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from traceback import extract_tb, walk_tb
from typing import Any

from ..findings import line
from ..lessons import CHAIN, DEBUGGING, GRAPHS, INPUTS, KINKS, NESTED, UPSTREAM, VARIABLES
from ..recording import source


@dataclass(frozen=True)
class Hint:
    """One kind of error: how to recognise it, what went wrong, how to fix it, where to read on."""

    types: str  # class names, separated by spaces; the error is an instance of one
    lesson: str
    way: str = ""  # a regular expression, searched in what `way` returns
    rule: str = ""  # the rule of `cgviz.check` that is broken if this error occurs
    pattern: str = ""  # a regular expression, searched in the error's message
    what: str = ""  # `{1}` is the first group of the pattern that matched
    fix: str = ""

    def says(self, pattern: str, what: str, fix: str) -> Hint:
        """A copy of the record with these words."""
        return replace(self, pattern=pattern, what=what, fix=fix)

    def __str__(self) -> str:
        return (
            f"cgviz: {self.what}\nHow to fix it: {self.fix}\n"
            f"More: lesson {self.lesson}, notebooks/{self.lesson}.ipynb"
        )


# --- where an error came from --------------------------------------------------------------------

_LIBRARY = r".*[\\/](?:tensorflow|keras|tf_keras)[\\/].*"
_RULE = _LIBRARY + r"custom_gradient\.py:(?:actual_grad_fn|tape_grad_fn)"  # eager, and in a graph
_FUNCTION = _LIBRARY + r"custom_gradient\.py:_(?:eager|graph)_mode_decorator"
# From there on, only frames of these libraries, of Python, and of packages installed with it. A
# lookahead tests each line, so that even many lines match in only one way.
_NO_LEARNER = r"(?:\n(?=.*[\\/](?:tensorflow|keras|tf_keras|Lib|lib[\\/]python.*)[\\/]).*)*\Z"
BY_RULE_CALL = _RULE + _NO_LEARNER  # or by unpacking what the rule returned
BY_FUNCTION_CALL = _FUNCTION + _NO_LEARNER  # or by unpacking what the function returned
# While a gradient was being taken. If TensorFlow has hidden its frames, the learner's line tells.
IN_BACKWARD = (
    rf"{_LIBRARY}(?:imperative_grad|gradients_util)\.py:|{_RULE}|\A.*\.(?:gradient|jacobian)\("
)
IN_COND = _LIBRARY + r"cond_v2\.py:"
# While a custom function ran, or while its arguments were converted to tensors.
IN_CUSTOM_CALL = rf"\A(?![\s\S]*(?:{IN_BACKWARD}))[\s\S]*{_LIBRARY}custom_gradient\.py:"


def way(error: BaseException) -> str:
    """The line of code that raised an error, then "file:function" of each frame it came through.

    The frames are outermost first. A `tf.function` raises its error anew, with fewer frames; those
    of the original error follow.
    """
    frames = extract_tb(error.__traceback__)
    raised = (frames[-1].line or "") if frames else ""
    first = error.__context__
    if first is not None and str(first) and str(first) in str(error):
        frames += extract_tb(first.__traceback__)
    return "\n".join([raised, *(f"{f.filename}:{f.name}" for f in frames)])


def rule_left(error: BaseException) -> str:
    """The rule that an error left, or its function, in words; "" where the traceback shows it."""
    for frame, _ in reversed([*walk_tb(error.__traceback__)]):
        file, known = frame.f_code.co_filename, frame.f_locals
        if source.kind(file) == source.LEARNER:
            break
        code = getattr(known.get("grad_fn", known.get("f")), "__code__", None)
        if code and file.endswith("custom_gradient.py"):
            where = source.at_line(code.co_filename, code.co_firstlineno)
            return f"`{code.co_qualname}`{line(where)}"
    return ""


# --- the records -------------------------------------------------------------------------------

_FLOATS = "(half|float|double|bfloat16|float16|float32|float64)"
_UNPACKED = (
    "Cannot iterate over a scalar|Iterating over a symbolic|cannot unpack non-iterable"
    "|values to unpack"
)
_READS = (
    "the function under @tf.custom_gradient reads a variable that it was not given as a positional "
    "argument, so the rule must return a pair: a gradient for each argument and each variable."
)
_PAIR = (
    "Let the rule take `variables=None` and return `dx, [dw]`: a list with one gradient for each "
    "of `variables`, in their order. Or pass the variable by position, `f(x, w)`. Under "
    "mixed_float16 only the first works, with dw in float32."
)
_ONE_EACH = (
    "Return one gradient per positional argument, in their order: upstream times the derivative, "
    "summed over the outputs, or None for one that has none, such as a Python number. An argument "
    "passed by keyword does not count: pass it by position."
)
WRONG_SHAPE = (
    "Are the gradients in the order of the inputs? What was broadcast forward is summed backward: "
    "tf.reduce_sum over the axes that the input did not have. If nothing was broadcast, look at "
    "slices and transposes."
)

BOOK: tuple[Hint, ...] = (
    Hint("TypeError ValueError", VARIABLES, rule="variables").says(
        "grad_fn must accept keyword argument 'variables'",
        _READS,
        _PAIR,
    ),
    Hint("ValueError", VARIABLES, rule="variables").says(
        "Must return gradient for each variable",
        "the list that the rule returns must have one gradient for each of `variables`.",
        "Fill it in their order: `return dx, [gradient_of[v.ref()] for v in variables]`, with a "
        "dict of the gradients by `v.ref()`.",
    ),
    Hint("TypeError ValueError", VARIABLES, BY_RULE_CALL, rule="variables").says(
        _UNPACKED + r"|Scalar tensor has no `len\(\)`", _READS, _PAIR
    ),
    Hint("ValueError", INPUTS, rule="arity").says(
        r"custom_gradient function expected to return (\d+) gradients, but returned (\d+)",
        "the function was called with {1} positional argument(s), and its rule returned {2} "
        "gradient(s).",
        _ONE_EACH,
    ),
    Hint("InternalError ValueError", INPUTS, rule="arity").says(
        "Recorded operation '.+?' returned too few gradients. Expected"
        r"|Num gradients \d+ generated for op name:.*CustomGradient-.*do not match num inputs",
        "a rule inside a tf.function returned the wrong number of gradients.",
        _ONE_EACH,
    ),
    Hint("TypeError ValueError", UPSTREAM, BY_FUNCTION_CALL, rule="arity").says(
        _UNPACKED + "|unsupported callable|is not a callable object",
        "this function under @tf.custom_gradient did not return its value and its rule.",
        "End it in `return y, grad`, where `grad` is the function itself: no brackets after it.",
    ),
    Hint("TypeError", INPUTS, BY_RULE_CALL, rule="arity").says(
        r"takes (?:from )?\d.* positional arguments? but \d+ (?:was|were) given"
        r"|missing \d+ required positional argument",
        "TensorFlow calls the rule with one upstream per output, and it takes another number.",
        "Write one argument per output: `def grad(dy, dz)` for two. Return one gradient per input.",
    ),
    Hint("ValueError", DEBUGGING).says(
        "No gradients provided for any variable",
        "every gradient was None: no tape followed a path from the variables to the loss.",
        "Run one step under `with cgviz.record() as trace:`, and `trace.diagnose()` names the line "
        "where the gradient stops: round, argmax, NumPy, outside the tape, trainable=False.",
    ),
    Hint("TypeError AttributeError", NESTED).says(
        r"Argument `target` should be .*but received None\b",
        "the target of this gradient is None, as a function gives that forgot its `return`, or a "
        "gradient that was None already.",
        "Return the target. Why a gradient is None, `cgviz.trace(f, x, order=2).diagnose()` says.",
    ),
    Hint("AttributeError", GRAPHS, IN_BACKWARD).says(
        "'(.+)' object has no attribute '_id'",
        "the target or the source of this gradient is a {1}, and no tensor.",
        "Write `tf.sin`, not `np.sin`, and make a source a tensor first: `x = tf.constant(x)`.",
    ),
    Hint("KeyError", GRAPHS).says(
        "Registering two gradient with name '(.+?)'",
        "the name {1} has a gradient already, and keeps it until Python ends.",
        "Restart the kernel, or choose another name. @tf.custom_gradient needs none.",
    ),
    Hint("ValueError", DEBUGGING, rule="keywords").says(
        "custom_gradient decorator currently supports keywords? arguments only when eager",
        "a custom gradient was called with a keyword argument inside a tf.function.",
        "Pass every argument by position: `f(x, 2.0)`, not `f(x, k=2.0)`. Eager code ignores the "
        "rule when all are passed by keyword, and says nothing.",
    ),
    Hint("InvalidArgumentError ValueError", INPUTS).says(
        "Cannot update variable with shape|var and delta do not have the same shape"
        r"|(?:must be equal rank, but are|Dimension .* must be equal).*Assign\w+VariableOp",
        "what the variable is changed by has another shape than the variable.",
        "If the variable was broadcast, sum its gradient over these axes, `tf.reduce_sum(dw, "
        "axis=0)`: a gradient has the shape of its variable.",
    ),
    Hint("LookupError", GRAPHS).says(
        r"(?:No gradient defined for operation ?'[^']*IdentityN[^']*'"
        r"|gradient registry has no entry for: CustomGradient-)",
        "this SavedModel was written without its custom gradients, so their rules are not here.",
        "Save it with `tf.saved_model.SaveOptions(experimental_custom_gradients=True)`, and try it "
        "in a fresh process: the one that saved it still has the rules.",
    ),
    Hint("LookupError", KINKS).says(
        r"No gradient defined for operation ?'[^']*' \(op type: (\w+)\)"
        r"|gradient registry has no entry for: (\w+)",
        "TensorFlow has no gradient for {1}.",
        "Give it a rule with @tf.custom_gradient, or none on purpose with `tf.stop_gradient`.",
    ),
    Hint("ValueError TypeError AttributeError NotImplementedError", GRAPHS).says(
        "KerasTensor cannot be used as input|'KerasTensor' object has no attribute 'numpy'",
        "a function of tensors was called on what keras.Input made, which has no numbers.",
        "Put it into a layer: a keras.layers.Layer whose `call(self, x)` returns `f(x)`.",
    ),
    Hint("RuntimeError", NESTED).says(
        "non-persistent GradientTape can only be used to compute one set",
        "this tape has already given its gradient, and then forgot what it had recorded.",
        "Ask once for all: `tape.gradient(y, [x, w])`. Or use `tf.GradientTape(persistent=True)`.",
    ),
    Hint("RuntimeError", CHAIN).says(
        "tf.gradients is not supported when eager execution is enabled",
        "tf.gradients is from TensorFlow 1, and works in graphs only.",
        "Write `with tf.GradientTape() as tape: y = f(x)`, then `tape.gradient(y, x)`.",
    ),
    Hint("TypeError OperatorNotAllowedInGraphError", GRAPHS, IN_CUSTOM_CALL).says(
        "Using a symbolic `?tf.Tensor`? as a Python `bool`",
        "Python asked a tensor for True or False in a custom gradient, which AutoGraph skips.",
        "Write tf.cond or tf.while_loop, or put the loop into a @tf.function within it. If an "
        "argument became a tensor, as each one does, close over it instead.",
    ),
    Hint("ValueError TypeError", INPUTS, IN_CUSTOM_CALL).says(
        r"Attempt to convert a value \((.+)\) with an unsupported type|None values not supported"
        r"|Failed to convert elements of <(?:function|built-in)"
        "|'(?:Symbolic)?Tensor' object cannot be interpreted as an integer",
        "an argument of a custom gradient is not a number, or became a tensor, as each one does.",
        "Give @tf.custom_gradient only tensors. Close over the rest, as in `def make(axis)`.",
    ),
    Hint("AttributeError NotImplementedError", GRAPHS, rule="numpy").says(
        "'(?:Symbolic)?Tensor' object has no attribute 'numpy'"
        "|Cannot convert a symbolic (?:tf\\.)?Tensor",
        "NumPy was given a tensor of a graph, which tf.function, `fit` and tape.jacobian build.",
        "Use TensorFlow's own functions (`tf.sin`, not `np.sin`). Where NumPy must be, wrap it in "
        "`tf.numpy_function`, in the forward function and in the rule.",
    ),
    Hint("TypeError", GRAPHS, rule="numpy").says(
        "must be real number, not (?:Symbolic|Keras)?Tensor",
        "Python's `math` was given a tensor of a graph, which has no numbers yet.",
        "Use TensorFlow's own functions: `tf.sqrt`, not `math.sqrt`.",
    ),
    Hint("InvalidArgumentError TypeError", DEBUGGING, IN_BACKWARD, rule="dtype").says(
        rf"cannot compute (\w+) as input #\d+\(zero-based\) was expected to be an? {_FLOATS} tensor"
        rf" but is an? {_FLOATS} tensor"
        rf"|Input '\w+' of '(\w+)' Op has type {_FLOATS} that does not match type {_FLOATS} of arg",
        "in the backward pass {1} met a {2} and a {3}: in a rule, or because a rule returned a "
        "gradient of another dtype than its input.",
        "In a rule cast what meets upstream, such as a layer's weight: `tf.cast(w, dy.dtype)`. "
        "Return each gradient in the dtype of its input: `tf.cast(dx, x.dtype)`.",
    ),
    Hint("InvalidArgumentError", GRAPHS, rule="xla").says(
        r"Detected unsupported operations when trying to compile graph.*No registered '(\w+)'",
        "XLA cannot compile {1}.",
        "Keep this op out of what is compiled with `jit_compile=True`, or do not compile it.",
    ),
    Hint("AttributeError", GRAPHS, f"{IN_BACKWARD}|{IN_COND}", rule="graph").says(
        "Tensor.graph is undefined when eager execution is enabled",
        "a rule inside tf.cond reads a variable, which belongs to no graph.",
        "Read the variable in the forward function (`value = tf.identity(w)`) and use that in the "
        "rule, or pass it as an argument.",
    ),
    Hint("TypeError", UPSTREAM, rule="upstream").says(
        r"unsupported operand type\(s\) for .*'IndexedSlices'",
        "this upstream is a tf.IndexedSlices, the sparse gradient of tf.gather and embeddings.",
        "Make it dense first: `dy = tf.convert_to_tensor(dy)`.",
    ),
    Hint("ValueError InvalidArgumentError", INPUTS, IN_BACKWARD, rule="shape").says(
        "[Ii]ncompatible shapes|[Ii]nconsistent shape|Dimensions must be equal"
        "|must be broadcastable|must have the same size and shape|Matrix size-incompatible",
        "two shapes that met in the backward pass do not fit. An upstream has the shape of its "
        "output, and what a rule returns the shape of its input.",
        "A rule returns each gradient in the shape of its input: sum what was broadcast.",
    ),
    Hint("TypeError", GRAPHS).says(
        r"(?:Expected \w+, but got|`type_value`:) <function \S*?tf__(\w+)\.<locals>",
        "a tf.function was given {1} as an argument, and unwraps what it is given: without "
        "@tf.custom_gradient, {1} returns its value and its rule.",
        "Call it by its name there, or close over it: `tf.function(lambda x: step(f, x))`.",
    ),
    Hint("AttributeError", INPUTS, rf"\A.*dense_shape\.dtype[\s\S]*{_LIBRARY}indexed_slices").says(
        "'(?:list|tuple|TensorShape)' object has no attribute 'dtype'",
        "the shape of this tf.IndexedSlices is made of Python numbers, and a graph needs a tensor.",
        "Where the tf.IndexedSlices is made, write `dense_shape=tf.shape(x)`.",
    ),
    Hint("ValueError", NESTED).says(
        "Tape is still recording",
        "a tape was entered again while it was still open.",
        "Use one tape per order, one inside the other; ask the inner one in the outer block.",
    ),
)


# --- using the records ----------------------------------------------------------------------------


def explain(error: BaseException) -> Hint | None:
    """Say what one of TensorFlow's or Keras's gradient errors means.

    Args:
        error: The exception, preferably as it was caught, with its traceback.

    Returns:
        A hint, or None if cgviz is not sure.

    Example:
        >>> from cgviz.hinting import hints
        >>> error = RuntimeError("tf.gradients is not supported when eager execution is enabled.")
        >>> print(hints.explain(error).what)
        tf.gradients is from TensorFlow 1, and works in graphs only.
        >>> hints.explain(ValueError("something else")) is None
        True
    """
    names = {each.__name__ for each in type(error).__mro__}
    text, frames = re.sub(r"\x1b\[[0-9;]*m", "", str(error)), way(error)
    for hint in BOOK:
        found = re.search(hint.pattern, text, re.DOTALL)
        if found and names & set(hint.types.split()) and re.search(hint.way, frames):
            groups = (group for group in found.groups() if group is not None)
            what, where = hint.what.format(found[0], *groups), rule_left(error)
            return replace(hint, what=f"{what} See {where}." if where else what)
    return None


def add(error: BaseException) -> Hint | None:
    """Add the hint to the error as a note, once, without ever raising an error of its own.

    Args:
        error: The exception.

    Returns:
        The hint that the error now carries, or None.

    Example:
        >>> error = RuntimeError("tf.gradients is not supported when eager execution is enabled.")
        >>> hint = add(error)
        >>> error.__notes__[0] == str(hint)
        True
    """
    try:
        hint = explain(error)
        if hint is not None and hint.fix not in "".join(getattr(error, "__notes__", ())):
            error.add_note(str(hint))
    except Exception:  # the learner's own error is what matters
        return None
    return hint


# --- in a notebook -----------------------------------------------------------------------------


def load_ipython_extension(shell: Any) -> None:
    """Show hints under TensorFlow's gradient errors: `%load_ext cgviz` calls this.

    Args:
        shell: The IPython shell. It has one custom error handler: another extension's is replaced.
    """
    import tensorflow as tf

    def show(
        shell: Any, kind: type[BaseException], error: BaseException, tb: Any, tb_offset: Any = None
    ) -> None:
        hint = add(error)
        shell.showtraceback((kind, error, tb), tb_offset=tb_offset, running_compiled_code=True)
        written = shell.InteractiveTB.structured_traceback(kind, error, None)
        if hint is not None and "cgviz: " not in "\n".join(map(str, written)):
            print(hint)  # an IPython, such as Colab's, that shows no notes under a traceback

    # Only the error types of `BOOK`: IPython shows others, such as syntax errors, in its own way.
    known = (TypeError, ValueError, AttributeError, LookupError, RuntimeError, tf.errors.OpError)
    shell.set_custom_exc(known, show)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the hints again: `%unload_ext cgviz` calls this.

    Args:
        shell: The IPython shell.
    """
    shell.set_custom_exc((), None)
