"""Where else f will be used: in a graph, under XLA, from a SavedModel, forward mode, `jacobian`.

Each runs f there with the same upstream and compares value and gradients with the eager ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..graph import Array
from ..recording import arguments
from . import curvature, raised
from . import saved as saved_model
from .case import Case, upstream, wobble
from .report import Row

NAMES = ("eager", "graph", "xla", "saved", "forward")
_RULE = {"forward": "forward mode"}
MOST_DIRECTIONS = 16


def visit(case: Case, where: Sequence[str]) -> list[Row]:
    """Run f in each place and note what differs; the badges."""
    rooms: dict[str, Callable[[Case], None]] = {
        "graph": graph,
        "xla": xla,
        "saved": saved,
        "forward": forward,
    }
    badges = []
    for name in where:
        rule = _RULE.get(name, name)
        if name in rooms:
            rooms[name](case)
            row = case.ledger.rows[rule]
            badges.append(Row(name, row.state, row.reason))
        else:
            state = "fail" if case.error is not None else "pass"
            badges.append(Row(name, state, "runs here"))
    return badges


def gradient(case: Case, u: Array, run: Callable[..., Any] | None = None) -> tuple[Array, Array]:
    """Value and gradients for one upstream, of f or of `run` in its place."""
    subject = case.subject

    def function(args: Sequence[Any]) -> list[Any]:
        assert run is not None
        targets = arguments.check_value(run(*args), case.f)
        return [t for t in targets if t.dtype.is_floating or t.dtype.is_complex]

    pulled = subject.pull(
        lambda targets: subject.split(u, targets), None, None if run is None else function
    )
    return subject.y, pulled.vector


def agrees(case: Case, rule: str, found: tuple[Array, Array], u: Array, warning: bool) -> None:
    """Compare value and gradients with the eager ones, and note the outcome."""
    if case.ledger.has("variables"):  # which one gets which is chance, here and there
        case.ledger.skipped(rule, "runs; not compared: see variables")
        return
    expected = gradient(case, u)
    give = wobble(case.subject, u, float(np.finfo(np.float32).eps))
    out, into = case.places()
    for kind, mine, eager, name, extra in (
        ("value", found[0], expected[0], out, np.zeros(expected[0].size)),
        ("gradient", found[1], expected[1], into, 10 * give),
    ):
        if mine.shape != eager.shape:
            message = f"the {kind} has {mine.size} numbers there, and {eager.size} in eager mode."
            case.ledger.broken(rule, "differs", message, _DIFFERS, warning=warning)
            return
        with np.errstate(all="ignore"):
            size = np.max(np.abs(eager[np.isfinite(eager)]), initial=0.0)
            near = np.abs(mine - eager) <= 5e-3 * np.abs(eager) + 1e-4 * size + extra
        same = near | (mine == eager) | (np.isnan(mine) & np.isnan(eager))
        if not same.all():
            i = int(np.flatnonzero(~same)[0])
            which = name(i) if kind == "value" else f"the gradient for {name(i)}"
            message = (
                f"{which} is {style.number(mine[i])} there, and {style.number(eager[i])} in "
                "eager mode."
            )
            case.ledger.broken(rule, "differs", message, _DIFFERS, warning=warning)
            return
    case.ledger.passed(rule, "the same value and gradients as in eager mode")


_DIFFERS = (
    "A graph runs the Python code of f once, while it is traced: state, prints and Python "
    "conditions of that moment stay for ever."
)
_NO_RANDOM = "f is random, so its numbers differ from run to run there; it runs"


def _try(case: Case, rule: str, run: Callable[..., Any], warning: bool, verb: str) -> None:
    u = upstream(case)
    try:
        found = gradient(case, u, run)
    except Exception as error:
        about, hint = raised.explain(error, True)
        if case.ledger.has(about):
            case.ledger.rows[rule] = Row(rule, "fail", f"raises: see {about}")
            return
        named = about if about in ("keywords", "variables", "arity") and rule == "graph" else rule
        if about == "numpy" and case.ledger.has("value"):
            named = about
        case.ledger.broken(
            named, "raises", f"{verb} f raised {raised.first_line(error)}", hint, warning=warning
        )
        if named != rule:
            case.ledger.skipped(rule, f"see {named}")
        return
    if case.subject.seeded or not case.deterministic:
        case.ledger.passed(rule, _NO_RANDOM)
        return
    agrees(case, rule, found, u, warning)


def graph(case: Case) -> None:
    """f under `tf.function`, differentiated from outside, as in a training loop."""
    _try(case, "graph", tf.function(_plain(case.f)), False, "under tf.function,")
    if case.ledger.rows["graph"].state == "pass" and case.deterministic:
        curvature.graph(case)
    if case.printed:
        case.ledger.broken(
            "graph",
            "prints once",
            "f prints, and under tf.function it does so only while it is traced.",
            "tf.print runs every time.",
            warning=True,
        )


def _plain(f: Callable[..., Any]) -> Callable[..., Any]:
    """f as a function of positional tensors: tf.function takes no callable object as it is."""
    return lambda *args: f(*args)


def xla(case: Case) -> None:
    """f and its gradient compiled by XLA."""

    @tf.function(jit_compile=True, autograph=False)
    def compiled(*args: Any) -> Any:
        return case.f(*args)

    if case.subject.leaves:
        _try(case, "xla", compiled, True, "under XLA,")


def saved(case: Case) -> None:
    """f saved as a SavedModel and differentiated in a fresh process, which knows nothing of it."""
    u = upstream(case)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = saved_model.differentiate(case, u, Path(folder))
    except Exception as error:
        hint = (
            "What a SavedModel holds must be TensorFlow's: no NumPy functions, and custom "
            "gradients saved with tf.saved_model.SaveOptions(experimental_custom_gradients=True)."
        )
        message = f"saved and loaded in a fresh process, f raised {raised.first_line(error)}"
        case.ledger.broken("saved", "raises", message, hint)
        return
    if case.subject.seeded or not case.deterministic:
        case.ledger.passed("saved", _NO_RANDOM)
        return
    agrees(case, "saved", found, u, False)


def forward(case: Case) -> None:
    """Forward mode, which in eager execution ignores custom rules and differentiates the body."""
    subject, u = case.subject, upstream(case)
    _, claimed = gradient(case, u)
    random, n = np.random.default_rng(15), subject.x.size
    few = n <= MOST_DIRECTIONS
    directions = np.eye(n) if few else random.choice([-1.0, 1.0], (3, n)) * subject.scale
    try:
        for number, v in enumerate(directions):
            jvp, vjp = _jvp(case, u, v), float(claimed @ v)
            give = 5e-3 * float(np.abs(claimed) @ np.abs(v)) + 1e-30
            if not abs(jvp - vjp) <= give and np.isfinite(vjp):
                where = case.places()[1](number) if few else "a random direction"
                case.ledger.broken(
                    "forward mode",
                    "disagrees",
                    f"along {where} forward mode gives {style.number(jvp)}, and reverse mode "
                    f"{style.number(vjp)}.",
                    _FORWARD,
                    warning=True,
                )
                return
    except Exception as error:
        message = f"forward mode raised {raised.first_line(error)}"
        case.ledger.broken("forward mode", "raises", message, _FORWARD, warning=True)
        return
    case.ledger.passed("forward mode", "agrees with reverse mode")


def _jvp(case: Case, u: Array, v: Array) -> float:
    """u · J · v by forward mode."""
    subject = case.subject
    args = subject.arguments(subject.x)
    sources = subject.sources(args)
    with tf.autodiff.ForwardAccumulator(sources, subject.split(v, sources)) as forwarded:
        targets = subject.call(args)
    products = [forwarded.jvp(t) for t in targets]
    pairs = zip(targets, products, strict=True)
    return float(u @ subject.join([tf.zeros_like(t) if p is None else p for t, p in pairs]))


_FORWARD = (
    "In eager execution tf.autodiff.ForwardAccumulator ignores a custom rule and differentiates "
    "the body of f: use it only where both agree."
)


def vectorised(case: Case) -> None:
    """`tape.jacobian`, which runs the rule once for all upstreams together, in a graph."""
    subject = case.subject
    args = subject.arguments(subject.x)
    sources = subject.sources(args)
    u = upstream(case)
    if subject.y.size * subject.x.size > 250_000:
        case.ledger.skipped("vectorised", "too large for jacobian")
        return
    try:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(sources)
            targets = subject.call(args)
        total = np.zeros(subject.x.size)
        for target, seed in zip(targets, subject.split(u, targets), strict=True):
            if target.dtype.is_complex:
                case.ledger.skipped("vectorised", "jacobian takes no complex numbers")
                return
            rows = tape.jacobian(target, sources)
            total += subject.pulled(
                [
                    None if r is None else tf.tensordot(tf.cast(seed, r.dtype), r, seed.shape.rank)
                    for r in rows
                ]
            ).vector
    except Exception as error:
        case.ledger.broken(
            "vectorised",
            "raises",
            f"tape.jacobian raised {raised.first_line(error)}",
            raised.explain(error, True)[1] or _VECTORISED,
            warning=True,
        )
        return
    _, expected = gradient(case, u)
    with np.errstate(all="ignore"):
        size = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
        near = np.abs(total - expected) <= 0.01 * size + 1e-12
    known = np.isfinite(expected) & np.isfinite(total)
    settled = case.linear and case.deterministic and not case.ledger.has("variables")
    if settled and np.any(~near & known):
        i = int(np.flatnonzero(~near & known)[0])
        message = (
            f"upstream · tape.jacobian is {style.number(total[i])} for {case.places()[1](i)}, and "
            f"the gradient {style.number(expected[i])}."
        )
        case.ledger.broken("vectorised", "differs", message, _VECTORISED, warning=True)
    else:
        case.ledger.passed("vectorised", "tape.jacobian agrees")


_VECTORISED = (
    "tape.jacobian(..., experimental_use_pfor=False) runs the rule once for each output instead."
)
