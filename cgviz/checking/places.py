"""Where else f will be used: again, in a graph, under XLA, from a SavedModel, in forward mode.

Each place runs f with one upstream, and value and gradients are compared with those of eager mode.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..graph import Array
from ..lessons import GRAPHS
from ..recording import arguments, tf_hooks
from . import rules
from .case import Case
from .differences import largest
from .flattened import Flattened, Pulled, join, split
from .report import Row, Rule

# --- run again ---------------------------------------------------------------------------------


def mutation(case: Case) -> None:
    """Running f, forward and backward, changes nothing but its value."""
    if not case.written and case.deterministic:
        case.results.passed("mutation", "a run changes nothing")
        return
    quoted = ", ".join(f"`{name}`" for name in case.written)
    case.results.broken(
        "mutation",
        ", ".join(case.written) or "another value each time",
        f"a run of f changes {quoted}."
        if quoted
        else "f gives another value each time, with every seed fixed.",
        "Under tf.function Python code runs once only, and `check`, `jacobian` and second "
        "derivatives run it again: keep such changes out of f and its rule.",
    )


def registry(case: Case) -> None:
    """Calling f again and again does not fill TensorFlow's registry of gradients."""
    case.flat.pull()
    before = tf_hooks.registered_gradients()
    case.flat.pull()
    grown = tf_hooks.registered_gradients() - before
    if not grown:
        case.results.passed("registry", "calling f again registers nothing")
        return
    case.results.broken(
        "registry",
        f"{grown} more with each call",
        f"each call of f leaves {grown} gradient{'s' * (grown > 1)} in TensorFlow's registry "
        "for ever: f builds a graph anew whenever it runs.",
        "Make the `tf.function` once, outside of f.",
    )


# --- run elsewhere -----------------------------------------------------------------------------

_DIFFERS = (
    "A graph runs the Python code of f once, while it is traced: state, prints and Python "
    "conditions of that moment stay for ever."
)
_SAYS = "is {} there, and {} in eager mode."


def _visit(
    case: Case,
    rule: str,
    run: Callable[[], Pulled],
    what: str,
    *,
    hint: str = "",
    agrees: str = "the same value and gradients as in eager mode",
    says: str = _SAYS,
) -> None:
    """Run f in another place, compare it with eager mode, and note the outcome.

    Args:
        case: The check.
        rule: The rule that is judged.
        run: Makes value and gradient there, for `case.upstream`.
        what: Begins the message where that raises.
        hint: What to do, where the exception does not tell it.
        agrees: The words where it is right.
        says: The words for two numbers that differ.
    """
    results = case.results
    try:
        found = run()
    except Exception as error:
        about, mend = rules.explain(error, True)
        if results.has(about):
            results.rows[rule] = Row(rule, "fail", f"raises: see {about}")
            return
        as_in_eager = rule == "graph" and about in ("keywords", "variables", "arity")
        named = about if as_in_eager or (about == "numpy" and results.has("value")) else rule
        message, level = f"{what} raised {rules.first_line(error)}", results.rules[rule].level
        results.broken(named, "raises", message, mend or hint, level=level)
        if named != rule:
            results.skipped(rule, f"see {named}")
        return
    eager, give = case.eager
    message = _difference(found.value, eager.value, case.output_name, says)
    message = message or _difference(found.vector, eager.vector, case.gradient_name, says, give)
    if case.flat.seeded or not case.deterministic:
        results.passed(rule, "f is random, so its numbers differ there; it runs")
    elif results.has("variables"):  # which one gets which is chance, here and there
        results.skipped(rule, "runs; not compared: see variables")
    elif message:
        results.broken(rule, "differs", message, hint or _DIFFERS)
    else:
        results.passed(rule, agrees)


def _difference(
    mine: Array, usual: Array, name: Callable[[int], str], says: str, give: Array | float = 0.0
) -> str:
    """The first number that differs between two modes, in words; empty where all agree."""
    if mine.shape != usual.shape:
        return f"the count of numbers {says.format(mine.size, usual.size)}"
    with np.errstate(all="ignore"):
        # Float32 in another order of operations: three digits are the same.
        near = np.abs(mine - usual) <= 5e-3 * np.abs(usual) + 1e-4 * largest(usual) + give
    same = near | (mine == usual) | (np.isnan(mine) & np.isnan(usual))
    if same.all():
        return ""
    i = int(np.argmin(same))
    return f"{name(i)} {says.format(style.number(mine[i]), style.number(usual[i]))}"


def vectorised(case: Case) -> None:
    """`tape.jacobian`, which runs the rule once for all upstreams together, in a graph."""
    reason = ""
    if case.y.size * case.flat.x.size > MOST_ENTRIES:
        reason = "too large for jacobian"
    elif any(target.dtype.is_complex for target in case.targets):
        reason = "jacobian takes no complex numbers"
    elif not case.linear:
        reason = "not compared, for the rule is not linear in upstream"
    if reason:
        case.results.skipped("vectorised", reason)
        return
    _visit(
        case,
        "vectorised",
        partial(_by_jacobian, case),
        "tape.jacobian",
        hint="tape.jacobian(..., experimental_use_pfor=False) runs the rule once for each output "
        "instead.",
        agrees="tape.jacobian agrees",
        says="is {} by upstream · tape.jacobian, and {} by tape.gradient.",
    )


MOST_ENTRIES = 250_000  # of a Jacobian: two megabytes, and a second to make


def _by_jacobian(case: Case) -> Pulled:
    """Upstream · tape.jacobian."""
    flat = case.flat
    args = flat.arguments(flat.x)
    sources = flat.sources(args)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        targets = flat.call(args)
    total = np.zeros(flat.x.size)
    for target, seed in zip(targets, split(case.upstream, targets), strict=True):
        products = [
            None if r is None else tf.tensordot(tf.cast(seed, r.dtype), r, seed.shape.rank)
            for r in tape.jacobian(target, sources)
        ]
        total += flat.pulled(products, case.y).vector
    return Pulled(join(targets), (), total)


def _compiled(flat: Flattened, **how: Any) -> Flattened:
    """The function with f under `tf.function`, which takes no callable object as it is."""
    return replace(flat, f=tf.function(lambda *args: flat.f(*args), **how))


def graph(case: Case) -> None:
    """f under `tf.function`, differentiated from outside, as in a training loop."""
    results = case.results
    run = partial(_compiled(case.flat).pull, case.upstream)
    _visit(case, "graph", run, "under tf.function, f")
    if case.printed:
        results.broken(
            "graph",
            "prints once",
            "f prints, and under tf.function it does so only while it is traced.",
            "tf.print runs every time.",
            level="warning",
        )


def xla(case: Case) -> None:
    """f and its gradient compiled by XLA."""
    run = partial(_compiled(case.flat, jit_compile=True, autograph=False).pull, case.upstream)
    if case.flat.leaves:
        _visit(case, "xla", run, "under XLA, f")


# --- from a SavedModel -------------------------------------------------------------------------

MOST_SECONDS = 300  # for the process, which imports TensorFlow; a graph of thousands of ops is slow


def saved(case: Case) -> None:
    """f saved as a SavedModel and differentiated in a fresh process, which knows nothing of it."""
    _visit(
        case,
        "saved",
        partial(_in_a_fresh_process, case),
        "saved and loaded in a fresh process, f",
        hint="What a SavedModel holds must be TensorFlow's: no NumPy functions, and custom "
        "gradients saved with tf.saved_model.SaveOptions(experimental_custom_gradients=True).",
    )


def _in_a_fresh_process(case: Case) -> Pulled:
    """Value and gradients of f, saved in a folder and loaded elsewhere."""
    flat = case.flat
    inputs = [arguments.as_source(each) for each in flat.flat]
    tensors = [tf.convert_to_tensor(each) for each in inputs]
    module = tf.Module()
    module.inner = flat.f if isinstance(flat.f, tf.Module) else None
    module.kept = [leaf.source for leaf in flat.leaves if leaf.variable]
    # As variables, which a SavedModel keeps whatever their type.
    module.given = [tf.Variable(each, trainable=False) for each in tensors]
    module.upstream = [tf.Variable(u) for u in split(case.upstream, case.targets)]

    def call(*new: Any) -> list[Any]:
        pairs = zip(flat.flat, inputs, new, strict=True)
        given = [
            old if isinstance(source, tf.Variable) else tensor for old, source, tensor in pairs
        ]
        return flat.outputs(flat.f(*tf.nest.pack_sequence_as(flat.given, given)))

    signature = [tf.TensorSpec(each.shape, each.dtype) for each in tensors]
    module.call = tf.function(call, input_signature=signature)
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, f"{folder}/model")
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"{inspect.getsource(reload)}\n\nreload({folder!r})"],
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
    values, gradients = found[: len(case.targets)], found[len(case.targets) :]
    watched = [id(each) for each in (*module.kept, *inputs) if arguments.can_be_watched(each)]
    in_order = [gradients[watched.index(id(leaf.source))] for leaf in flat.leaves]
    return flat.pulled(in_order, join(values))


def reload(folder: str) -> None:
    """Load the model in a folder, differentiate it, and write value and gradients beside it.

    The process that runs it is given the text of this function alone: nothing of cgviz and nothing
    of the caller's helps the model along.
    """
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    module = tf.saved_model.load(f"{folder}/model")
    args = [tf.convert_to_tensor(each) for each in module.given]
    sources = [s for s in [*module.kept, *args] if s.dtype.is_floating or s.dtype.is_complex]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        targets = module.call(*args)
    upstream = [tf.convert_to_tensor(each) for each in module.upstream]
    found = list(targets)
    gradients = tape.gradient(targets, sources, upstream, unconnected_gradients="zero")
    for gradient, source in zip(gradients, sources, strict=True):
        if isinstance(gradient, tf.IndexedSlices):  # they may not know of what shape
            gradient = tf.IndexedSlices(gradient.values, gradient.indices, tf.shape(source))
        found.append(tf.convert_to_tensor(gradient))
    # NumPy's files know no bfloat16.
    wide = [tf.cast(t, tf.complex128 if t.dtype.is_complex else tf.float64) for t in found]
    np.savez(f"{folder}/found.npz", *wide)


# --- forward mode ------------------------------------------------------------------------------

MOST_INPUTS = 100  # for which forward mode is asked: each takes a run of f


def forward(case: Case) -> None:
    """Forward mode, which in eager execution ignores custom rules and differentiates the body."""
    if case.flat.x.size > MOST_INPUTS:
        reason = f"not compared for more than {MOST_INPUTS} numbers: each takes a run"
        case.results.skipped("forward mode", reason)
        return
    _visit(
        case,
        "forward mode",
        partial(_by_forward_mode, case),
        "forward mode",
        hint="In eager execution tf.autodiff.ForwardAccumulator ignores a custom rule and "
        "differentiates the body of f: use it only where both agree.",
        agrees="agrees with reverse mode",
        says="is {} in forward mode, and {} in reverse mode.",
    )


def _by_forward_mode(case: Case) -> Pulled:
    """Upstream · J, a column at a time."""
    flat = case.flat
    args = flat.arguments(flat.x)
    sources = flat.sources(args)
    found = []
    for unit in np.eye(flat.x.size):
        with tf.autodiff.ForwardAccumulator(sources, split(unit, sources)) as forwarded:
            targets = flat.call(args)
        columns = [forwarded.jvp(target, "zero") for target in targets]
        found.append(float(case.upstream @ join(columns)))
    return Pulled(case.eager[0].value, (), np.array(found))


RULES = (
    Rule("mutation", GRAPHS, mutation, "warning"),
    Rule("registry", GRAPHS, registry, "warning"),
    Rule("vectorised", GRAPHS, vectorised, "warning"),
)
PLACES = {
    "graph": Rule("graph", GRAPHS, graph),
    "xla": Rule("xla", GRAPHS, xla, "warning"),
    "saved": Rule("saved", GRAPHS, saved),
    "forward": Rule("forward mode", GRAPHS, forward, "warning"),
}
"""The rules that are judged where `check(where=...)` names them, besides "eager"."""
