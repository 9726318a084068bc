"""The book of hints: which of TensorFlow's and Keras's errors mean what, and how to mend them.

An `Entry` is matched by the type of the error and its words; where the words alone are not enough,
`sure` looks at where the error came from. The messages are those of TensorFlow 2.16 to 2.21 and
Keras 3, with the older wordings that are known. The numbers are those of the pitfalls in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..lessons import CHAIN, DEBUGGING, GRAPHS, INPUTS, KINKS, NESTED, UPSTREAM, VARIABLES
from . import hintclues
from .hintclues import Clues

_FLOATS = "(half|float|double|bfloat16|float16|float32|float64)"


@dataclass(frozen=True)
class Entry:
    """One kind of error: how it is known, and what to say."""

    pitfalls: tuple[int, ...]
    types: str  # any of these names among the error's classes
    words: str  # a regular expression
    what: str | Callable[[Clues], str]  # `{1}` is the first group of `words`
    mend: str
    lesson: str
    sure: Callable[[Clues], bool] = lambda clues: True

    def matches(self, clues: Clues) -> bool:
        """Whether this is surely the error that the entry speaks of."""
        if clues.types.isdisjoint(self.types.split()):
            return False
        found = re.search(self.words, clues.text, re.DOTALL)
        if found is None:
            return False
        clues.match = found
        return self.sure(clues)

    def says(self, clues: Clues) -> str:
        """What was done, with the numbers and names of this error."""
        if callable(self.what):
            return self.what(clues)
        return self.what.format(clues.match.group(0), *clues.match.groups(default=""))


_UNPACKED = (
    "Cannot iterate over a scalar|Iterating over a symbolic|cannot unpack non-iterable"
    "|values to unpack"
)
_REDUCE = (
    "Sum over the axes that were broadcast, so that the gradient has the shape of its input: "
    "`tf.reduce_sum(dw, axis=0)`."
)
_ONE_EACH = (
    "Return one gradient per positional argument, in their order; None for one that has none, such "
    "as a Python number."
)
_FACTORY = (
    "Give @tf.custom_gradient only tensors. Close over the rest: "
    "`def make(axis): @tf.custom_gradient def f(x): ...; return f`."
)
_ANOTHER_DTYPE = (
    "in the backward pass {1} met a {2} and a {3}. A rule returned a gradient of another dtype "
    "than its input.",
    "Give back the dtype of the input: `tf.cast(dx, x.dtype)`, and make constants in the rule "
    "with `dtype=x.dtype`.",
    INPUTS,
    hintclues.in_backward,
)
_NO_NUMPY = (
    "Use TensorFlow's own functions (`tf.sin`, not `np.sin`). Where NumPy must be, wrap it in "
    "`tf.numpy_function`, in the forward function and in the rule."
)

BOOK: tuple[Entry, ...] = (
    Entry(
        (14, 1),
        "TypeError",
        "grad_fn must accept (?:a )?(?:keyword argument )?'variables'",
        hintclues.uses_mixed_variables,
        "Let the rule take `variables=None` and return two things: `return dx, [dw]`, dw as "
        "float32.",
        VARIABLES,
        lambda clues: bool(hintclues.mixed_policy(clues)),
    ),
    Entry(
        (1,),
        "TypeError",
        "grad_fn must accept (?:a )?(?:keyword argument )?'variables'",
        hintclues.uses_variables,
        "Let the rule take `variables=None` and return two things: `return dx, [dw]`. Or pass the "
        "variable by position: `f(x, w)`.",
        VARIABLES,
    ),
    Entry(
        (2, 11),
        "ValueError",
        r"custom_gradient function expected to return (\d+) gradients,? but returned (\d+)",
        hintclues.count,
        _ONE_EACH,
        INPUTS,
        lambda clues: int(clues.match.group(1)) > int(clues.match.group(2)),
    ),
    Entry(
        (2, 6, 11),
        "ValueError",
        r"custom_gradient function expected to return (\d+) gradients,? but returned (\d+)",
        hintclues.count,
        "Return one gradient per positional argument: upstream times the derivative, summed over "
        "the outputs, not a list of all derivatives. An argument passed by keyword does not count: "
        "pass it by position.",
        INPUTS,
    ),
    Entry(
        (2,),
        "InternalError",
        r"Recorded operation '(.+?)' returned too few gradients. Expected (\d+) but received (\d+)",
        hintclues.difference,
        _ONE_EACH + " Arguments that are Python numbers count too.",
        INPUTS,
    ),
    Entry(
        (2,),
        "ValueError",
        r"Num gradients \d+ generated for op name:.*CustomGradient-.*do not match num inputs",
        "a rule inside a tf.function returned the wrong number of gradients.",
        _ONE_EACH + " Arguments that are Python numbers count too.",
        INPUTS,
    ),
    Entry(
        (2, 15),
        "ValueError",
        "Must return gradient for each variable from\\s+@custom_gradient grad_fn",
        "the rule took `variables` and returned another number of gradients than there are "
        "variables.",
        "Return `dx, [one gradient per entry of variables]`, matched by identity or name: "
        "`[by_name[v.name] for v in variables]`.",
        VARIABLES,
    ),
    Entry(
        (1, 2),
        "TypeError ValueError",
        _UNPACKED,
        "the function reads variables, so the rule must return a pair, and it returned one thing.",
        "Return both: `return dx, [dw for each variable]`.",
        VARIABLES,
        hintclues.by_rule_call,
    ),
    Entry(
        (2,),
        "TypeError ValueError",
        _UNPACKED + "|unsupported callable|is not a callable object",
        "a function under @tf.custom_gradient must return two things, its value and its rule, and "
        "this one did not.",
        "End it in `return y, grad`, where `grad` is the function itself: no brackets after it.",
        UPSTREAM,
        hintclues.by_function_call,
    ),
    Entry(
        (11,),
        "TypeError",
        r"takes (?:from )?\d.* positional arguments? but \d+ (?:was|were) given"
        r"|missing \d+ required positional argument",
        "TensorFlow calls the rule with one upstream per output of the function, and the rule "
        "takes another number of arguments.",
        "Write one argument per output: `def grad(dy, dz)` for two. Return one gradient per input.",
        INPUTS,
        hintclues.by_rule_call,
    ),
    Entry(
        (4, 5),
        "ValueError",
        "No gradients provided for any variable",
        "every gradient was None: no path that a tape followed leads from the variables to the "
        "loss.",
        "Run one step under `with cgviz.record() as trace:`, and `trace.diagnose()` names the line "
        "where the gradient stops: round, argmax, NumPy, outside the tape, trainable=False.",
        DEBUGGING,
    ),
    Entry(
        (4, 7),
        "TypeError AttributeError",
        r"Argument `target` should be .*but received None\b",
        "the target of this gradient is None, so the gradient taken before it was None already.",
        "Find out why with `cgviz.trace(f, x, order=2).diagnose()`: a NumPy number in the rule "
        "cuts the second order.",
        NESTED,
    ),
    Entry(
        (6,),
        "ValueError",
        "custom_gradient decorator currently supports keywords? arguments only when eager",
        "a function under @tf.custom_gradient was called with a keyword argument inside a "
        "tf.function.",
        "Pass every argument by position: `f(x, 2.0)`, not `f(x, k=2.0)`. Eager code ignores the "
        "rule when all are passed by keyword, and says nothing.",
        INPUTS,
    ),
    Entry(
        (10,),
        "InvalidArgumentError",
        r"Cannot update variable with shape \[([\d,]*)\] using a Tensor with shape \[([\d,]*)\]",
        "what is added to the variable has the shape [{2}], and the variable [{1}]. A gradient "
        "comes out like this when the input was broadcast in the forward pass.",
        _REDUCE,
        INPUTS,
        hintclues.is_broadcast,
    ),
    Entry(
        (10,),
        "InvalidArgumentError",
        r"var and (?:grad|delta) do not have the same shape ?\[([\d,]*)\] ?\[([\d,]*)\]",
        "the gradient has the shape [{2}], and its variable [{1}]: the input was broadcast in the "
        "forward pass.",
        _REDUCE,
        INPUTS,
        hintclues.is_broadcast,
    ),
    Entry(
        (10,),
        "ValueError InvalidArgumentError",
        r"(?:Shapes must be equal rank, but are \d+ and \d+|Dimension .* must be equal).*"
        r"Assign(?:Sub|Add)VariableOp",
        "the optimizer was given a gradient of another shape than its variable: the input was "
        "broadcast in the forward pass.",
        _REDUCE,
        INPUTS,
        hintclues.in_optimizer,
    ),
    Entry(
        (12,),
        "LookupError",
        r"(?:No gradient defined for operation ?'[^']*IdentityN[^']*'"
        r"|gradient registry has no entry for: CustomGradient-)",
        "this SavedModel was written without its custom gradients, so their rules are not here.",
        "Save it with `tf.saved_model.SaveOptions(experimental_custom_gradients=True)`, and try it "
        "in a fresh process: the one that saved it still has the rules.",
        GRAPHS,
    ),
    Entry(
        (5,),
        "LookupError",
        r"No gradient defined for operation ?'[^']*' \(op type: (\w+)\)",
        "TensorFlow has no gradient for {1}.",
        "Give that part a rule of your own with @tf.custom_gradient, or put `tf.stop_gradient` "
        "around it if no gradient should flow there.",
        KINKS,
    ),
    Entry(
        (13,),
        "ValueError TypeError AttributeError NotImplementedError",
        "KerasTensor cannot be used as input to a TensorFlow function"
        "|Cannot convert a symbolic Keras input/output"
        "|'KerasTensor' object has no attribute 'numpy'",
        "a function of tensors was called on what keras.Input made, which has no numbers.",
        "Put the call into a layer: `class F(keras.layers.Layer)` with `def call(self, x): return "
        "f(x)`.",
        GRAPHS,
    ),
    Entry(
        (16,),
        "RuntimeError",
        "non-persistent GradientTape can only be used to compute one set"
        "|GradientTape.gradient can only be called once on non-persistent",
        "this tape has given its gradient already, and then it forgets what it recorded.",
        "Ask once for all of them: `tape.gradient(y, [x, w])`. Or open it with "
        "`tf.GradientTape(persistent=True)` and `del tape` afterwards.",
        NESTED,
    ),
    Entry(
        (17,),
        "RuntimeError",
        "tf.gradients is not supported when eager execution is enabled",
        "tf.gradients is from TensorFlow 1, and works in graphs only.",
        "Write `with tf.GradientTape() as tape: tape.watch(x); y = f(x)`, then "
        "`tape.gradient(y, x)`.",
        CHAIN,
    ),
    Entry(
        (19,),
        "ValueError TypeError",
        r"Attempt to convert a value \((.+)\) with an unsupported type|None values not supported"
        r"|Failed to convert elements of <(?:function|built-in)",
        "an argument of a function under @tf.custom_gradient is not a number: TensorFlow makes a "
        "tensor of every positional argument.",
        _FACTORY,
        INPUTS,
        hintclues.in_custom_call,
    ),
    Entry(
        (19,),
        "OperatorNotAllowedInGraphError TypeError",
        "Using a symbolic `?tf.Tensor`? as a Python `bool`"
        "|'(?:Symbolic)?Tensor' object cannot be interpreted as an integer",
        "a Python argument of a function under @tf.custom_gradient became a tensor: in a graph "
        "every positional argument does.",
        _FACTORY,
        INPUTS,
        hintclues.in_custom_call,
    ),
    Entry(
        (20, 7),
        "AttributeError",
        "'(?:Symbolic)?Tensor' object has no attribute 'numpy'",
        "tape.jacobian builds a graph of the rule, and its tensors have no numbers that NumPy "
        "could read.",
        _NO_NUMPY,
        GRAPHS,
        lambda clues: clues.passed("pfor.py") or clues.passed("control_flow_ops.py"),
    ),
    Entry(
        (20,),
        "AttributeError NotImplementedError",
        "'(?:Symbolic)?Tensor' object has no attribute 'numpy'"
        "|Cannot convert a symbolic (?:tf\\.)?Tensor",
        "NumPy was handed a tensor of a graph, which has no numbers yet. A tf.function, `fit` and "
        "tape.jacobian build graphs.",
        _NO_NUMPY,
        GRAPHS,
    ),
    Entry(
        (21,),
        "InvalidArgumentError",
        r"cannot compute (\w+) as input #\d+\(zero-based\) was expected to be an? "
        + _FLOATS
        + " tensor but is an? "
        + _FLOATS
        + " tensor",
        *_ANOTHER_DTYPE,
    ),
    Entry(
        (21,),
        "TypeError",
        r"Input '\w+' of '(\w+)' Op has type "
        + _FLOATS
        + " that does not match type "
        + _FLOATS
        + " of argument",
        *_ANOTHER_DTYPE,
    ),
    Entry(
        (22,),
        "AttributeError",
        "Tensor.graph is (?:undefined|meaningless) when eager execution is enabled",
        "a rule inside tf.cond reads a variable, and TensorFlow cannot tell to which graph it "
        "belongs.",
        "Read the variable in the forward function (`value = tf.identity(w)`) and use that in the "
        "rule, or pass it as an argument.",
        GRAPHS,
        lambda clues: hintclues.in_backward(clues) or clues.passed("cond_v2.py"),
    ),
    Entry(
        (25,),
        "TypeError",
        r"unsupported operand type\(s\) for .*'IndexedSlices'",
        "this upstream is a tf.IndexedSlices, the sparse gradient that tf.gather and embeddings "
        "hand back.",
        "Make it dense first: `dy = tf.convert_to_tensor(dy)`.",
        UPSTREAM,
    ),
    Entry(
        (28,),
        "ValueError",
        "Tape is (?:still|already) recording",
        "a tape was entered again while it was still open.",
        "Use one tape per order, one inside the other; the inner `tape.gradient` stands inside the "
        "outer block, after the inner one.",
        NESTED,
    ),
)

# TensorFlow logs this one and goes on; the gradient is None afterwards.
INTEGER_WARNING = re.compile(
    r"The dtype of the (?:watched tensor|watched primal|target tensor|source tensor) must be "
    r"floating.*got (\S+)"
)
