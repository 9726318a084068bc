"""Which of TensorFlow's and Keras's errors mean what, and how to fix them.

An `Entry` is matched by the type of the error and its words; where the words alone are not enough,
`sure` looks at where the error came from, which `Clues` tells. The messages are those of TensorFlow
2.16 to 2.21 and Keras 3, with the older wordings that are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from traceback import StackSummary, extract_tb

from ..lessons import CHAIN, DEBUGGING, GRAPHS, INPUTS, KINKS, NESTED, UPSTREAM, VARIABLES


@dataclass(frozen=True)
class Hint:
    """What an error means: what was done, how to fix it, and where to read on."""

    what: str
    fix: str
    lesson: str
    rule: str = ""  # of `cgviz.check`, that an error of this kind breaks

    def __str__(self) -> str:
        return (
            f"cgviz: {self.what}\nHow to fix it: {self.fix}\n"
            f"More: lesson {self.lesson}, notebooks/{self.lesson}.ipynb"
        )


# --- what an error tells -----------------------------------------------------------------------

_LIBRARY = re.compile(r"[\\/](?:tensorflow|keras|tf_keras)[\\/]")
_PYTHON = re.compile(r"[\\/](?:lib[\\/]python|Lib[\\/])")  # and what is installed beside it
_CALLS_A_RULE = ("actual_grad_fn", "tape_grad_fn")  # eager, and in a graph


class Clues:
    """What an error tells: its types, its words, and the places it passed through."""

    def __init__(self, error: BaseException) -> None:
        self.types = {each.__name__ for each in type(error).__mro__}
        self.text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        frames = extract_tb(error.__traceback__)
        self.places = _places(frames)
        # A `tf.function` raises its error anew, shorter; the first one still knows the way.
        first = error.__context__
        if first is not None and str(first) and str(first) in self.text:
            self.places += _places(extract_tb(first.__traceback__))
        # Of the learner's own text, where TensorFlow has hidden its frames.
        self.line = (frames[-1].line or "") if frames else ""
        self.groups: tuple[str, ...] = ()  # what the pattern of an entry found

    def passed(self, file: str, function: str = "") -> bool:
        """Whether the error came through this file of TensorFlow or Keras."""
        return any(
            library and name.endswith(file) and function in (at, "")
            for library, name, at in self.places
        )

    def called_by(self, file: str) -> str:
        """The function in `file` that the error came from with no learner's code in between."""
        for library, name, at in reversed(self.places):
            if name.endswith(file):
                return at
            if not library and not _PYTHON.search(name):
                return ""
        return ""


def _places(frames: StackSummary) -> list[tuple[bool, str, str]]:
    """Outermost first: is it a library's, its file, its function."""
    return [(bool(_LIBRARY.search(f.filename)), f.filename, f.name) for f in frames]


# --- what an entry may ask -----------------------------------------------------------------------


def is_broadcast(clues: Clues) -> bool:
    """Whether the second shape is the first one broadcast, as an unreduced gradient's is."""
    small, large = ([int(n) for n in re.findall(r"\d+", group)] for group in clues.groups)
    if len(small) > len(large) or small == large:
        return False
    ends = zip(reversed(small), reversed(large), strict=False)
    return all(a in (1, b) for a, b in ends)


def in_backward(clues: Clues) -> bool:
    """Raised while a gradient was being taken."""
    return (
        clues.passed("imperative_grad.py")
        or any(clues.passed("custom_gradient.py", function) for function in _CALLS_A_RULE)
        or bool(re.search(r"\.(gradient|jacobian)\(", clues.line))
    )


def in_backward_or_cond(clues: Clues) -> bool:
    """Raised while a gradient was being taken, or inside tf.cond."""
    return in_backward(clues) or clues.passed("cond_v2.py")


def in_custom_call(clues: Clues) -> bool:
    """Raised while TensorFlow made tensors of a custom function's arguments."""
    return clues.passed("custom_gradient.py") and not in_backward(clues)


def by_rule_call(clues: Clues) -> bool:
    """Raised by calling the rule, or by taking apart what it returned."""
    return clues.called_by("custom_gradient.py") in _CALLS_A_RULE


def by_function_call(clues: Clues) -> bool:
    """Raised by taking apart what the decorated function returned."""
    at = clues.called_by("custom_gradient.py")
    return at in ("_eager_mode_decorator", "_graph_mode_decorator")


# --- the entries -------------------------------------------------------------------------------

_FLOATS = "(half|float|double|bfloat16|float16|float32|float64)"


@dataclass(frozen=True)
class Entry:
    """One kind of error: how it is known, and what to say."""

    types: str  # any of these names among the error's classes
    lesson: str
    sure: Callable[[Clues], bool] = lambda clues: True
    rule: str = ""
    pattern: str = ""  # a regular expression
    what: str = ""  # `{1}` is the first group of the pattern that is there
    fix: str = ""

    def says(self, pattern: str, what: str, fix: str) -> Entry:
        """The record with its words."""
        return replace(self, pattern=pattern, what=what, fix=fix)

    def hint(self, clues: Clues) -> Hint | None:
        """What is said of an error that is surely of this kind, with its numbers and names."""
        found = re.search(self.pattern, clues.text, re.DOTALL)
        if found is None or clues.types.isdisjoint(self.types.split()):
            return None
        clues.groups = tuple(group for group in found.groups() if group is not None)
        if not self.sure(clues):
            return None
        return Hint(self.what.format(found[0], *clues.groups), self.fix, self.lesson, self.rule)


_UNPACKED = (
    "Cannot iterate over a scalar|Iterating over a symbolic|cannot unpack non-iterable"
    "|values to unpack"
)
_REDUCE = (
    "Sum over the axes that were broadcast, so that the gradient has the shape of its input: "
    "`tf.reduce_sum(dw, axis=0)`."
)
_ONE_EACH = (
    "Return one gradient per positional argument, in their order: upstream times the derivative, "
    "summed over the outputs, or None for one that has none, such as a Python number. An argument "
    "passed by keyword does not count: pass it by position."
)
_NO_NUMPY = (
    "Use TensorFlow's own functions (`tf.sin`, not `np.sin`). Where NumPy must be, wrap it in "
    "`tf.numpy_function`, in the forward function and in the rule."
)

BOOK: tuple[Entry, ...] = (
    Entry("TypeError", VARIABLES, rule="variables").says(
        "grad_fn must accept (?:a )?(?:keyword argument )?'variables'",
        "the function under @tf.custom_gradient reads a variable that it was not given as a "
        "positional argument, so the rule must return a gradient for it too.",
        "Let the rule take `variables=None` and return two things: `return dx, [dw]`. Or pass the "
        "variable by position: `f(x, w)`. Under a policy such as mixed_float16 only the first way "
        "is left, with dw in float32: a layer reads a float16 copy of its variable.",
    ),
    Entry("ValueError", INPUTS, rule="arity").says(
        r"custom_gradient function expected to return (\d+) gradients,? but returned (\d+)",
        "the function was called with {1} positional argument(s), and its rule returned {2} "
        "gradient(s).",
        _ONE_EACH,
    ),
    Entry("InternalError ValueError", INPUTS, rule="arity").says(
        "Recorded operation '.+?' returned too few gradients. Expected"
        r"|Num gradients \d+ generated for op name:.*CustomGradient-.*do not match num inputs",
        "a rule inside a tf.function returned the wrong number of gradients.",
        _ONE_EACH,
    ),
    Entry("ValueError", VARIABLES, rule="variables").says(
        "Must return gradient for each variable from\\s+@custom_gradient grad_fn",
        "the rule took `variables` and returned another number of gradients than there are "
        "variables.",
        "Return `dx, [one gradient per entry of variables]`, matched by identity or name: "
        "`[by_name[v.name] for v in variables]`.",
    ),
    Entry("TypeError ValueError", VARIABLES, by_rule_call, rule="variables").says(
        _UNPACKED,
        "the function reads variables, so the rule must return a pair, and it returned one thing.",
        "Return both: `return dx, [dw for each variable]`.",
    ),
    Entry("TypeError ValueError", UPSTREAM, by_function_call, rule="arity").says(
        _UNPACKED + "|unsupported callable|is not a callable object",
        "a function under @tf.custom_gradient must return two things, its value and its rule, and "
        "this one did not.",
        "End it in `return y, grad`, where `grad` is the function itself: no brackets after it.",
    ),
    Entry("TypeError", INPUTS, by_rule_call, rule="arity").says(
        r"takes (?:from )?\d.* positional arguments? but \d+ (?:was|were) given"
        r"|missing \d+ required positional argument",
        "TensorFlow calls the rule with one upstream per output of the function, and the rule "
        "takes another number of arguments.",
        "Write one argument per output: `def grad(dy, dz)` for two. Return one gradient per input.",
    ),
    Entry("ValueError", DEBUGGING).says(
        "No gradients provided for any variable",
        "every gradient was None: no path that a tape followed leads from the variables to the "
        "loss.",
        "Run one step under `with cgviz.record() as trace:`, and `trace.diagnose()` names the line "
        "where the gradient stops: round, argmax, NumPy, outside the tape, trainable=False.",
    ),
    Entry("TypeError AttributeError", NESTED).says(
        r"Argument `target` should be .*but received None\b",
        "the target of this gradient is None, so the gradient taken before it was None already.",
        "Find out why with `cgviz.trace(f, x, order=2).diagnose()`: a NumPy number in the rule "
        "cuts the second order.",
    ),
    Entry("ValueError", INPUTS, rule="keywords").says(
        "custom_gradient decorator currently supports keywords? arguments only when eager",
        "a function under @tf.custom_gradient was called with a keyword argument inside a "
        "tf.function.",
        "Pass every argument by position: `f(x, 2.0)`, not `f(x, k=2.0)`. Eager code ignores the "
        "rule when all are passed by keyword, and says nothing.",
    ),
    Entry("InvalidArgumentError", INPUTS, is_broadcast).says(
        r"(?:Cannot update variable with shape |do not have the same shape ?)\[([\d,]*)\]"
        r"(?: using a Tensor with shape)? ?\[([\d,]*)\]",
        "the gradient has the shape [{2}], and its variable [{1}]: the input was broadcast in the "
        "forward pass.",
        _REDUCE,
    ),
    Entry(
        "ValueError InvalidArgumentError", INPUTS, lambda clues: clues.passed("optimizer.py")
    ).says(
        r"(?:Shapes must be equal rank, but are \d+ and \d+|Dimension .* must be equal).*"
        r"Assign(?:Sub|Add)VariableOp",
        "the optimizer was given a gradient of another shape than its variable: the input was "
        "broadcast in the forward pass.",
        _REDUCE,
    ),
    Entry("LookupError", GRAPHS).says(
        r"(?:No gradient defined for operation ?'[^']*IdentityN[^']*'"
        r"|gradient registry has no entry for: CustomGradient-)",
        "this SavedModel was written without its custom gradients, so their rules are not here.",
        "Save it with `tf.saved_model.SaveOptions(experimental_custom_gradients=True)`, and try it "
        "in a fresh process: the one that saved it still has the rules.",
    ),
    Entry("LookupError", KINKS).says(
        r"No gradient defined for operation ?'[^']*' \(op type: (\w+)\)",
        "TensorFlow has no gradient for {1}.",
        "Give that part a rule of your own with @tf.custom_gradient, or put `tf.stop_gradient` "
        "around it if no gradient should flow there.",
    ),
    Entry("ValueError TypeError AttributeError NotImplementedError", GRAPHS).says(
        "KerasTensor cannot be used as input to a TensorFlow function"
        "|Cannot convert a symbolic Keras input/output"
        "|'KerasTensor' object has no attribute 'numpy'",
        "a function of tensors was called on what keras.Input made, which has no numbers.",
        "Put the call into a layer: `class F(keras.layers.Layer)` with `def call(self, x): return "
        "f(x)`.",
    ),
    Entry("RuntimeError", NESTED).says(
        "non-persistent GradientTape can only be used to compute one set"
        "|GradientTape.gradient can only be called once on non-persistent",
        "this tape has given its gradient already, and then it forgets what it recorded.",
        "Ask once for all of them: `tape.gradient(y, [x, w])`. Or open it with "
        "`tf.GradientTape(persistent=True)` and `del tape` afterwards.",
    ),
    Entry("RuntimeError", CHAIN).says(
        "tf.gradients is not supported when eager execution is enabled",
        "tf.gradients is from TensorFlow 1, and works in graphs only.",
        "Write `with tf.GradientTape() as tape: tape.watch(x); y = f(x)`, then "
        "`tape.gradient(y, x)`.",
    ),
    Entry("ValueError TypeError OperatorNotAllowedInGraphError", INPUTS, in_custom_call).says(
        r"Attempt to convert a value \((.+)\) with an unsupported type|None values not supported"
        r"|Failed to convert elements of <(?:function|built-in)"
        "|Using a symbolic `?tf.Tensor`? as a Python `bool`"
        "|'(?:Symbolic)?Tensor' object cannot be interpreted as an integer",
        "an argument of a function under @tf.custom_gradient is no number, or became a tensor: "
        "TensorFlow makes a tensor of every positional argument.",
        "Give @tf.custom_gradient only tensors. Close over the rest: "
        "`def make(axis): @tf.custom_gradient def f(x): ...; return f`.",
    ),
    Entry("AttributeError NotImplementedError", GRAPHS, rule="numpy").says(
        "'(?:Symbolic)?Tensor' object has no attribute 'numpy'"
        "|Cannot convert a symbolic (?:tf\\.)?Tensor",
        "NumPy was given a tensor of a graph, which has no numbers yet. A tf.function, `fit` and "
        "tape.jacobian build graphs.",
        _NO_NUMPY,
    ),
    Entry("InvalidArgumentError TypeError", INPUTS, in_backward, rule="dtype").says(
        rf"cannot compute (\w+) as input #\d+\(zero-based\) was expected to be an? {_FLOATS} tensor"
        rf" but is an? {_FLOATS} tensor"
        rf"|Input '\w+' of '(\w+)' Op has type {_FLOATS} that does not match type {_FLOATS} of arg",
        "in the backward pass {1} met a {2} and a {3}. A rule returned a gradient of another dtype "
        "than its input.",
        "Return the gradient in the dtype of the input: `tf.cast(dx, x.dtype)`, and make constants "
        "in the rule with `dtype=x.dtype`.",
    ),
    Entry("AttributeError", GRAPHS, in_backward_or_cond, rule="graph").says(
        "Tensor.graph is (?:undefined|meaningless) when eager execution is enabled",
        "a rule inside tf.cond reads a variable, and TensorFlow cannot tell to which graph it "
        "belongs.",
        "Read the variable in the forward function (`value = tf.identity(w)`) and use that in the "
        "rule, or pass it as an argument.",
    ),
    Entry("TypeError", UPSTREAM, rule="upstream").says(
        r"unsupported operand type\(s\) for .*'IndexedSlices'",
        "this upstream is a tf.IndexedSlices, the sparse gradient that tf.gather and embeddings "
        "return.",
        "Make it dense first: `dy = tf.convert_to_tensor(dy)`.",
    ),
    Entry("ValueError", NESTED).says(
        "Tape is (?:still|already) recording",
        "a tape was entered again while it was still open.",
        "Use one tape per order, one inside the other; call the inner `tape.gradient` inside the "
        "outer block, after the inner one.",
    ),
)
