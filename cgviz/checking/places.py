"""The other ways in which f will be used: again, in a graph, under XLA, from a SavedModel.

Each place runs f with the same upstream, and its value and gradients are compared with eager mode.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..graph import Array, dtypes
from ..hinting import hints
from ..lessons import GRAPHS
from ..reading.format import counted
from ..recording import tf_hooks
from . import rules
from .case import Case, Row, Rule
from .comparison import wobble
from .flattened import Pulled, join, largest_beside, restore, split, vector_size

# --- run again ---------------------------------------------------------------------------------


def mutation(case: Case) -> None:
    """Running f, forward and backward, changes no variable and gives the same value every time."""
    if not case.written and case.deterministic:
        case.results.passed("mutation", "a run changes nothing")
        return
    reason = ", ".join(case.written)
    message = f"a run of f changes {', '.join(f'`{name}`' for name in case.written)}."
    mend = "If that is intended, as with moving averages, all is well."
    if not case.deterministic:
        reason, mend = "another value each time", "Keep such changes out of f and its rule."
        message = "f gives another value each time, with every seed fixed: no derivative is judged."
    case.results.broken(
        "mutation",
        reason,
        message,
        "`check`, `jacobian` and second derivatives run f more than once, and each run changes it "
        f"again; under tf.function Python code runs once only. {mend}",
        level="warning" if case.deterministic else "error",
    )


def registry(case: Case) -> None:
    """Calling f again and again does not fill TensorFlow's registry of gradients."""
    before = tf_hooks.registered_gradients()
    case.flat.pull()
    grown = tf_hooks.registered_gradients() - before
    if not grown:
        case.results.passed("registry", "calling f again registers nothing")
        return
    case.results.broken(
        "registry",
        f"{grown} more with each call",
        f"each call of f leaves {counted(grown, 'rule')} in TensorFlow's registry forever: f "
        "builds a new graph whenever it runs.",
        "Build the graph once: make the `tf.function` outside of f. tf.vectorized_map builds one "
        "with each call and, if it maps over more than one, drops every custom rule in it: use "
        "tf.map_fn, or write f for a batch.",
    )


# --- run elsewhere -----------------------------------------------------------------------------


def visit(case: Case, rule: str, run: Callable[[Case], Pulled], what: str, hint: str) -> None:
    """Run f in another place, compare it with eager mode, and note the outcome.

    Args:
        case: The check.
        rule: The rule that is judged.
        run: Computes value and gradients there, for `case.upstream`.
        what: The beginning of the message if `run` raises.
        hint: What to do if the numbers differ; for "saved", also if saving raises.
    """
    results = case.results
    if rule == "saved" and tf_hooks.is_loaded(case.flat.f):
        # Saving it again would add the rules of this process, which its file may lack.
        results.skipped(rule, "f comes from a SavedModel: check it in a fresh process instead")
        return
    try:
        found = run(case)
    except Exception as error:
        about, mend = rules.explain(error)
        if results.has(about):
            results.rows[rule] = Row(rule, "fail", f"raises: see {about}")
        else:
            numbers = _NUMBERS if "does not match type" in str(error) else ""
            mend = mend or (hint if rule == "saved" else numbers)
            told = rules.said(error)
            if "indexed_slices.py" in hints.way(error):  # the rule that made them has returned
                sliced = [s for s in case.steps if tf.IndexedSlices in map(type, s.downstream)]
                told = f"{told.rstrip('.')}, by {sliced[0].label}." if sliced else told
            results.broken(rule, "raises", f"{what} raised {told}", mend)
        return
    if case.flat.seeded and not case.draws:
        results.broken(rule, "draws once", *_ONE_DRAW)
    elif case.flat.seeded or not case.deterministic:
        results.passed(rule, "f is random, so its numbers differ there; it runs")
    elif results.has("variables"):  # chance decides which variable gets which gradient
        results.skipped(rule, "runs; not compared: see variables")
    elif message := _difference(case, found):
        results.broken(rule, "differs", message, hint)
    else:
        results.passed(rule, "the same value and gradients as in eager mode")


def _difference(case: Case, found: Pulled) -> str:
    """In words, the first number that differs from eager mode's and is no nearer to float64's."""
    eager, wide, dtype = case.eager, case.wide, case.given
    if found.value.shape != eager.value.shape:
        return f"f returns {found.value.size} numbers there, and {eager.value.size} in eager mode."

    def first(
        name: Callable[[int], str], mine: Array, usual: Array, true: Array, give: Array
    ) -> str:
        near = np.abs(mine - usual) <= dtype.wrong * np.abs(usual) + give
        # A graph may compute log(1 + x) as log1p, nearer to the truth than eager mode: no fault.
        near |= np.abs(mine - true) < np.abs(usual - true)
        # Or what eager mode loses beside a 1, in float64 too.
        near |= (usual == 0) & (np.abs(mine) < dtypes.FLOAT32.eps)
        same = near | (mine == usual) | (np.isnan(mine) & np.isnan(usual))
        if same.all():
            return ""
        i = int(np.argmin(same))
        there, here = style.number(mine[i]), style.number(usual[i])
        return f"{name(i)} is {there} there, and {here} in eager mode."

    # The operations may run in another order: in float32 three digits stay the same.
    part = max(1e-4, 2 * dtype.eps)
    give = part * largest_beside(eager.value)
    values = case.output_name, found.value, eager.value, wide.value
    words = first(*values, give) and first(*values, give + _noise(case))
    moved = part * largest_beside(eager.vector, case.flat.sizes)
    gradients = case.gradient_name, found.vector, eager.vector, wide.vector
    # `case.give` takes two runs.
    return words or (first(*gradients, moved) and first(*gradients, moved + case.give))


def _noise(case: Case) -> Array:
    """How far rounding may move an output where large terms cancel in f, as in x / 3 · 3 - x.

    It is at most some last bits of the largest number on the way, or a jump would excuse anything,
    and what the last bits of the inputs do, or a large number that does not cancel would.
    """
    flat, eps = case.flat, case.given.eps
    sizes = [*map(vector_size, case.targets)]
    moved = 10 * largest_beside(wobble(flat.forward, case.eager.value, flat.x, eps), sizes)
    return np.minimum(moved, 16 * eps * rules.largest_term(lambda: flat.forward(flat.x)))


def compiled(case: Case, **how: Any) -> Pulled:
    """f and its backward pass under `tf.function`, as in a training loop."""
    flat = case.flat

    def run(*args: Any) -> Any:
        tape, sources, targets = flat.taped(args)
        return targets, tape.gradient(targets, sources, split(case.upstream, case.targets))

    targets, gradients = tf.function(run, **how)(*flat.arguments(flat.x))
    return flat.pulled(gradients, join(targets))


# --- from a SavedModel -------------------------------------------------------------------------

MOST_SECONDS = 300  # for the process, which imports TensorFlow; a graph of thousands of ops is slow


def in_a_fresh_process(case: Case) -> Pulled:
    """f saved as a SavedModel and differentiated in a fresh process, which knows nothing of it."""
    flat = case.flat
    module = tf.Module()
    module.inner = flat.f if isinstance(flat.f, tf.Module) else None
    # All leaves as variables, which a SavedModel keeps whatever their dtype.
    module.leaves = [x.source if x.variable else tf.Variable(x.source) for x in flat.leaves]
    module.touched = [variable for variable, _ in case.variables.values()]  # those of rules, too
    module.upstream = [tf.Variable(u) for u in split(case.upstream, case.targets)]
    signature = [tf.TensorSpec(x.source.shape, x.source.dtype) for x in flat.leaves]
    module.call = tf.function(
        lambda *tensors: flat.outputs(flat.f(*flat.packed(tensors))), input_signature=signature
    )
    restore(flat.changed)  # the last run of f may have changed them
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, f"{folder}/model")
        # Collecting garbage, and tearing TensorFlow down at exit, would take a third of the time.
        program = f"import gc, os\ngc.disable()\n{inspect.getsource(reload)}\n\n"
        program += f"reload({folder!r})\nos._exit(0)"
        done = subprocess.run(
            [sys.executable, "-I", "-c", program],
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        if done.returncode:
            lines = [line for line in done.stderr.strip().splitlines() if ": " in line]
            raise RuntimeError(lines[-1] if lines else f"the process ended with {done.returncode}")
        with np.load(f"{folder}/found.npz") as arrays:
            found = [arrays[name] for name in arrays.files]
    count = len(case.targets)
    return flat.pulled(found[count:], join(found[:count]))


def reload(folder: str) -> None:
    """Load the model in a folder, differentiate it, and write value and gradients beside it.

    The process that runs it gets only the source of this function, so that nothing from cgviz or
    from the caller can help the model along.
    """
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    module = tf.saved_model.load(f"{folder}/model")
    variables = list(module.leaves)
    with tf.GradientTape() as tape:
        tape.watch(variables)
        # If f itself also reads a leaf, the gradients of both uses are added up.
        targets = module.call(*(each.read_value() for each in variables))
    upstream = [tf.convert_to_tensor(each) for each in module.upstream]
    found = tape.gradient(targets, variables, upstream, unconnected_gradients="zero")
    for i, (gradient, variable) in enumerate(zip(found, variables, strict=True)):
        if isinstance(gradient, tf.IndexedSlices):  # may not know its dense shape
            slices = tf.IndexedSlices(gradient.values, gradient.indices, tf.shape(variable))
            found[i] = tf.convert_to_tensor(slices)
    # NumPy's files cannot hold bfloat16.
    wide = [
        tf.cast(t, tf.complex128 if t.dtype.is_complex else tf.float64) for t in (*targets, *found)
    ]
    np.savez(f"{folder}/found.npz", *wide)


# --- the rules ---------------------------------------------------------------------------------


def _place(name: str, run: Callable[[Case], Pulled], *words: str) -> Rule:
    level = "error" if name in ("graph", "saved") else "warning"
    return Rule(name, GRAPHS, lambda case: visit(case, name, run, *words), level)


_ONE_DRAW = (
    "f draws numbers with Python or NumPy: a graph draws them once, while it is traced.",
    "Draw them with TensorFlow: tf.random.uniform.",
)
_NUMBERS = (
    "A Python number given to a custom gradient becomes a tensor there, of float32 or int32: close "
    "over it instead."
)
_TRACED = (
    "A graph runs the Python code of f once, while it is traced: state, prints and Python "
    f"conditions stay as they were at that moment. {_NUMBERS} If the numbers are mere rounding, as "
    "the norm of a 0 is, check at another point."
)
RULES = (
    Rule("mutation", GRAPHS, mutation, "warning"),
    Rule("registry", GRAPHS, registry, "warning"),
)
PLACES = {
    "graph": _place("graph", compiled, "under tf.function, f", _TRACED),
    "xla": _place(
        "xla", partial(compiled, jit_compile=True, autograph=False), "under XLA, f", _TRACED
    ),
    "saved": _place(
        "saved",
        in_a_fresh_process,
        "saved and loaded in a fresh process, f",
        "What a SavedModel holds must be TensorFlow's: no NumPy functions, and custom gradients "
        "saved with tf.saved_model.SaveOptions(experimental_custom_gradients=True).",
    ),
}
"""The rules of the places other than "eager", each judged if `check(where=...)` names it."""
