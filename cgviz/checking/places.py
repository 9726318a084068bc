"""Where else f will be used: again, in a graph, under XLA, from a SavedModel, in forward mode.

Each place runs f with one upstream and compares value and gradients with the eager ones.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..graph import Array, dtypes
from ..lessons import GRAPHS
from ..recording import arguments, tf_hooks
from . import derivatives, rules
from .case import Case, wobble
from .flattened import join, split
from .report import Row, Rule

# --- run again ---------------------------------------------------------------------------------


def mutation(case: Case) -> None:
    """Running f, forward and backward, changes nothing but its value."""
    names = ", ".join(case.written)
    if not names and case.deterministic:
        case.results.passed("mutation", "a run changes nothing")
        return
    quoted = ", ".join(f"`{name}`" for name in case.written)
    case.results.broken(
        "mutation",
        names or "another value each time",
        f"a run of f changes {quoted}."
        if names
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


# --- comparing ---------------------------------------------------------------------------------

_DIFFERS = (
    "A graph runs the Python code of f once, while it is traced: state, prints and Python "
    "conditions of that moment stay for ever."
)


def _agrees(case: Case, rule: str, value: Array, gradient: Array) -> None:
    """Compare value and gradients with the eager ones, and note the outcome."""
    if case.flat.seeded or not case.deterministic:
        case.results.passed(rule, "f is random, so its numbers differ there; it runs")
        return
    if case.results.has("variables"):  # which one gets which is chance, here and there
        case.results.skipped(rule, "runs; not compared: see variables")
        return
    eager = case.flat.pull(case.upstream)
    give = 10 * wobble(case.flat, case.upstream, dtypes.FLOAT32.eps)
    for mine, expected, what, name, extra in (
        (value, eager.value, "", case.output_name, np.zeros(eager.value.size)),
        (gradient, eager.vector, "the gradient for ", case.input_name, give),
    ):
        if mine.shape != expected.shape:
            sizes = f"{mine.size} numbers there, and {expected.size} in eager mode."
            _differs(case, rule, f"the {'gradient' if what else 'value'} has {sizes}")
            return
        with np.errstate(all="ignore"):
            size = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
            # Float32 in another order of operations: three digits are the same.
            near = np.abs(mine - expected) <= 5e-3 * np.abs(expected) + 1e-4 * size + extra
        wrong = np.flatnonzero(~near & (mine != expected) & ~(np.isnan(mine) & np.isnan(expected)))
        if wrong.size:
            i = int(wrong[0])
            numbers = f"{style.number(mine[i])} there, and {style.number(expected[i])} in eager"
            _differs(case, rule, f"{what}{name(i)} is {numbers} mode.")
            return
    case.results.passed(rule, "the same value and gradients as in eager mode")


def _differs(case: Case, rule: str, message: str) -> None:
    case.results.broken(rule, "differs", message, _DIFFERS)


def _run(case: Case, rule: str, function: Callable[..., Any], verb: str) -> None:
    """Run `function` in f's place, and compare."""
    try:
        found = case.flat.pull(case.upstream, function=function)
    except Exception as error:
        about, hint = rules.explain(error, True)
        if case.results.has(about):
            case.results.rows[rule] = Row(rule, "fail", f"raises: see {about}")
            return
        named = about if about in ("keywords", "variables", "arity") and rule == "graph" else rule
        if about == "numpy" and case.results.has("value"):
            named = about
        message = f"{verb} f raised {rules.first_line(error)}"
        level = case.results.rules[rule].level
        case.results.broken(named, "raises", message, hint, level=level)
        if named != rule:
            case.results.skipped(rule, f"see {named}")
        return
    _agrees(case, rule, found.value, found.vector)


# --- the places --------------------------------------------------------------------------------


def vectorised(case: Case) -> None:
    """`tape.jacobian`, which runs the rule once for all upstreams together, in a graph."""
    flat, results = case.flat, case.results
    if case.y.size * flat.x.size > MOST_ENTRIES:
        results.skipped("vectorised", "too large for jacobian")
        return
    if any(target.dtype.is_complex for target in case.targets):
        results.skipped("vectorised", "jacobian takes no complex numbers")
        return
    args = flat.arguments(flat.x)
    sources = flat.sources(args)
    total = np.zeros(flat.x.size)
    try:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(sources)
            targets = flat.call(args)
        for target, seed in zip(targets, split(case.upstream, targets), strict=True):
            products = [
                None if r is None else tf.tensordot(tf.cast(seed, r.dtype), r, seed.shape.rank)
                for r in tape.jacobian(target, sources)
            ]
            total += flat.pulled(products, case.y).vector
    except Exception as error:
        message = f"tape.jacobian raised {rules.first_line(error)}"
        hint = rules.explain(error, True)[1] or _VECTORISED
        results.broken("vectorised", "raises", message, hint)
        return
    expected = flat.pull(case.upstream).vector
    with np.errstate(all="ignore"):
        size = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
        far = np.abs(total - expected) > 0.01 * size + 1e-12
    wrong = np.flatnonzero(far & np.isfinite(expected) & np.isfinite(total))
    if wrong.size and case.linear and case.deterministic and not results.has("variables"):
        i = int(wrong[0])
        message = (
            f"upstream · tape.jacobian is {style.number(total[i])} for {case.input_name(i)}, and "
            f"the gradient {style.number(expected[i])}."
        )
        results.broken("vectorised", "differs", message, _VECTORISED)
    else:
        results.passed("vectorised", "tape.jacobian agrees")


MOST_ENTRIES = 250_000  # of a Jacobian: two megabytes, and a second to make
_VECTORISED = (
    "tape.jacobian(..., experimental_use_pfor=False) runs the rule once for each output instead."
)


def graph(case: Case) -> None:
    """f under `tf.function`, differentiated from outside, as in a training loop."""
    f = case.f  # tf.function takes no callable object as it is
    _run(case, "graph", tf.function(lambda *args: f(*args)), "under tf.function,")
    if case.results.rows["graph"].state == "pass" and case.deterministic:
        derivatives.second_order_in_a_graph(case)
    if case.printed:
        case.results.broken(
            "graph",
            "prints once",
            "f prints, and under tf.function it does so only while it is traced.",
            "tf.print runs every time.",
            level="warning",
        )


def xla(case: Case) -> None:
    """f and its gradient compiled by XLA."""
    f = case.f
    compiled = tf.function(lambda *args: f(*args), jit_compile=True, autograph=False)
    if case.flat.leaves:
        _run(case, "xla", compiled, "under XLA,")


def saved(case: Case) -> None:
    """f saved as a SavedModel and differentiated in a fresh process, which knows nothing of it."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = _in_a_fresh_process(case, Path(folder))
    except Exception as error:
        hint = (
            "What a SavedModel holds must be TensorFlow's: no NumPy functions, and custom "
            "gradients saved with tf.saved_model.SaveOptions(experimental_custom_gradients=True)."
        )
        message = f"saved and loaded in a fresh process, f raised {rules.first_line(error)}"
        case.results.broken("saved", "raises", message, hint)
        return
    _agrees(case, "saved", *found)


MOST_SECONDS = 300  # for the process, which imports TensorFlow; a graph of thousands of ops is slow


def _in_a_fresh_process(case: Case, folder: Path) -> tuple[Array, Array]:
    """Value and gradients of f, saved in `folder` and loaded elsewhere."""
    flat = case.flat
    tensors = [tf.convert_to_tensor(arguments.as_source(t)) for t in flat.flat]
    kept = [leaf.source for leaf in flat.leaves if leaf.variable]
    module = tf.Module()
    module.kept = kept
    # As variables, which a SavedModel keeps whatever their type: NumPy's files know no bfloat16.
    module.given = [tf.Variable(t, trainable=False) for t in tensors]
    module.inner = case.f if isinstance(case.f, tf.Module) else None

    def call(*new: Any) -> Any:
        given = [
            old if isinstance(arguments.as_source(old), tf.Variable) else tensor
            for old, tensor in zip(flat.flat, new, strict=True)
        ]
        return tf.nest.flatten(case.f(*tf.nest.pack_sequence_as(flat.given, given)))

    signature = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
    module.call = tf.function(call, input_signature=signature)
    tf.saved_model.save(module, str(folder / "model"))
    np.save(folder / "upstream.npy", case.upstream)
    script = Path(__file__).with_name("_reload.py")
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if ": " in line]
        raise RuntimeError(lines[-1] if lines else f"the process ended with {done.returncode}")
    keys = {id(arguments.as_source(t)): f"x{i}" for i, t in enumerate(flat.flat)}
    keys |= {id(v): f"v{i}" for i, v in enumerate(kept)}
    with np.load(folder / "found.npz") as arrays:
        parts = [
            arrays.get(keys[id(leaf.source)], np.zeros(leaf.stop - leaf.start))
            for leaf in flat.leaves
        ]
        return arrays["y"], np.concatenate([np.zeros(0), *parts])


MOST_DIRECTIONS = 16  # inputs up to which forward mode is asked for each one
_FORWARD = (
    "In eager execution tf.autodiff.ForwardAccumulator ignores a custom rule and differentiates "
    "the body of f: use it only where both agree."
)


def forward(case: Case) -> None:
    """Forward mode, which in eager execution ignores custom rules and differentiates the body."""
    claimed = case.flat.pull(case.upstream).vector
    random, n = np.random.default_rng(15), claimed.size
    few = n <= MOST_DIRECTIONS
    directions = np.eye(n) if few else random.choice([-1.0, 1.0], (3, n)) * case.flat.scale
    try:
        for number, v in enumerate(directions):
            jvp, vjp = _jvp(case, v), float(claimed @ v)
            give = 5e-3 * float(np.abs(claimed) @ np.abs(v)) + 1e-30
            if not abs(jvp - vjp) <= give and np.isfinite(vjp):
                which = case.input_name(number) if few else "a random direction"
                case.results.broken(
                    "forward mode",
                    "disagrees",
                    f"along {which} forward mode gives {style.number(jvp)}, and reverse mode "
                    f"{style.number(vjp)}.",
                    _FORWARD,
                )
                return
    except Exception as error:
        message = f"forward mode raised {rules.first_line(error)}"
        case.results.broken("forward mode", "raises", message, _FORWARD)
        return
    case.results.passed("forward mode", "agrees with reverse mode")


def _jvp(case: Case, v: Array) -> float:
    """Upstream · J · v by forward mode."""
    args = case.flat.arguments(case.flat.x)
    sources = case.flat.sources(args)
    with tf.autodiff.ForwardAccumulator(sources, split(v, sources)) as forwarded:
        targets = case.flat.call(args)
    products = [forwarded.jvp(t) for t in targets]
    pairs = zip(targets, products, strict=True)
    return float(case.upstream @ join([tf.zeros_like(t) if p is None else p for t, p in pairs]))


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

NAMES = ("eager", *PLACES)


def visited(case: Case, where: Sequence[str]) -> list[Row]:
    """How f fared in each place."""
    eager = Row("eager", "pass" if case.error is None else "fail", "runs here")
    rows = {name: case.results.rows.get(rule.name) for name, rule in PLACES.items()}
    found = [(name, eager if name == "eager" else rows[name]) for name in NAMES if name in where]
    return [Row(name, row.state, row.reason) for name, row in found if row is not None]
