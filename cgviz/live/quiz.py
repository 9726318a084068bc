"""Predict before reveal: the flow with numbers hidden, and a judge that names the mistake.

    predict   a trace -> a View that asks

The browser judges, so a saved page can ask, too. For each number it knows the results of the usual
mistakes: the wrong sign, upstream forgotten, the local derivative forgotten, a path forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import style
from ..drawing.display import Display
from ..drawing.texts import Text
from ..graph import Array, Step, Trace, total, wide
from ..graph.jacobian import times, tolerance
from ..graph.names import output_name
from ..graph.selection import Edge, Selection
from ..reading.format import counted
from .pages import Document, PageBuilder
from .panel import named
from .view import View

HIDE = ("downstream", "local", "gradient")
MISTAKES = {
    "product": "That is upstream · local. This rule returns another number.",
    "sign": "Wrong sign: the size is right.",
    "upstream": "You forgot upstream: this is the local derivative alone.",
    "local": "You forgot the local derivative: this is upstream alone.",
    "path": "You forgot to add the other path: a value used twice gets a gradient from each use.",
    "times": "That is upstream · local already: the local derivative alone is asked for.",
    "multiplied": "You multiplied where paths add.",
    "own": "You used this input itself: the local derivative of a product is the other factor.",
    "sum": "You added where the chain rule multiplies.",
    "zero": "0 · ∞ is not 0.",
    "other": "That is what another input gets.",
}
HINTS = {  # by what is asked for: of an answer that is none of these mistakes
    "downstream": "Not yet. Multiply the upstream by the local for this input alone.",
    "rule": "Not yet. Put the upstream into its backward rule.",  # which may be no derivative
    "entries": "Not yet. Add upstream · local over all results that {} is part of.",
    "local": "Not yet. Differentiate the op alone.",
    "gradient": "Not yet. Add every gradient that arrives there.",
}
MOST_NUMBERS = 4  # entries of an array that a learner is asked to type
ROUNDING = 0.04  # the share of `tolerance` that rounding in one op costs
# Points: a field's width for a number of six letters; more for each further one, also for a second
# that a learner may wrongly type; its height.
FIELD, MORE, HIGH = 54, 22, 24


def predict(trace: Trace, *, hide: str = "downstream", which: int | None = None) -> Quiz:
    """Ask for numbers of a trace before showing them.

    The flow can be stepped through as in `trace.view()`, up to the first number that is asked
    for. An answer is judged: right, wrong sign, upstream forgotten, the local derivative
    forgotten, the other path forgotten. `predict(trace).save("quiz.html")` writes it as a page.

    Args:
        trace: The trace.
        hide: What is asked for: "downstream", what each op returns; "local", each op's own
            derivative; "gradient", the sum where a value is used more than once.
        which: The backward pass, as in `trace.passes`.

    Returns:
        The widget.

    Raises:
        TypeError: `trace` is no trace.
        ValueError: `hide` is none of these, or there is nothing to ask.

    Example:
        >>> import cgviz
        >>> quiz = cgviz.predict(cgviz.trace(lambda x: x * x, 3.0))
        >>> [question["text"] for question in quiz.questions]
        ['What does × return to x, its first input?',
         'What does × return to x, its second input?']
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"`trace` must be a trace, not {type(trace).__name__}")
    if hide not in HIDE:
        raise ValueError(f"`hide` must be one of {', '.join(HIDE)}, not {hide!r}")
    trace.pass_(which)
    builder = PageBuilder(trace, which, framed=False)
    found = [{"hint": HINTS[hide], **q} for q in _questions(builder.selection(), hide)]
    if not found:
        where = "a value used more than once" if hide == "gradient" else "an op"
        raise ValueError(
            f"there is no {hide} to ask for in this trace: a question needs {where}, in a box of "
            f"its own, and 1 to {MOST_NUMBERS} numbers in float16, float32 or float64, not None"
        )
    owners = [("node", q["node"]) if q["link"] is None else ("link", q["link"]) for q in found]
    builder.fields = dict(zip(owners, (q["size"] for q in found), strict=True))
    return Quiz([builder], {"quiz": {"questions": found}})


class Quiz(View):
    """A live picture that asks; the picture stored beside it has a ? in place of gradients."""

    def __init__(self, builders: Sequence[PageBuilder], extra: Document) -> None:
        super().__init__(builders, extra)
        asked = (f"{n}. {q['text']}" for n, q in enumerate(self.questions, 1))
        self.words = "\n".join([repr(self), *asked])

    @property
    def questions(self) -> list[Document]:
        """What is asked, in order."""
        return list(self.extra["quiz"]["questions"])

    def drawn(self) -> list[Display]:
        """What the stored picture shows: a ? for each gradient from the first question on."""
        first = min(question["step"] for question in self.questions)

        def gaps(text: Text) -> Text:
            known = [(at, "?" if at >= first else words) for at, words in text.versions]
            return replace(text, versions=tuple(known)) if text.role == "gradient" else text

        return [replace(each, texts=[*map(gaps, each.texts)]) for each in super().drawn()]

    def __repr__(self) -> str:
        return f"{counted(len(self.questions), 'question')} on a {super().__repr__()}"


# --- what is asked -------------------------------------------------------------------------------


def _questions(shown: Selection, hide: str) -> Iterator[Document]:
    if hide == "gradient":
        for i in range(len(shown.nodes)):
            yield from _of_sum(shown, i)
        return
    nodes = sorted((n.order, i) for i, n in enumerate(shown.nodes) if n.order is not None)
    for _, i in nodes:
        for link, edge in enumerate(shown.edges):
            if edge.target == i and _askable(edge.contribution):
                place = {"step": edge.order, "node": i, "link": link, "nodes": [edge.source]}
                ask = _of_local if hide == "local" else _of_downstream
                yield from (found | place for found in ask(shown, i, edge))


def _askable(array: Array | None) -> bool:
    return array is not None and 0 < array.size <= MOST_NUMBERS and array.dtype.kind in "fiu"


def _of_downstream(shown: Selection, i: int, edge: Edge) -> Iterator[Document]:
    """What an op returns to one of its inputs."""
    step, answer = shown.nodes[i].step, edge.contribution
    if step is None or answer is None:
        return
    product = step.products[edge.position]
    mistakes: list[tuple[str, Any]] = [("sign", -answer), ("local", step.upstream[0])]
    if product.total is not None:
        if not product.agrees:
            mistakes.insert(0, ("product", product.total))
        forgotten = [times(np.ones_like(up), local) for _, up, local in product.terms]
        mistakes.append(("upstream", total(forgotten)))
        output, up, local = product.terms[0]
        if np.isnan(answer).all() and np.isinf(local).any() and not np.any(up):
            mistakes.insert(0, ("zero", np.zeros_like(answer)))
        mistakes += [("path", times(term, local)) for term in _terms(shown, i, output)]
        if step.op.type == "Mul":
            with np.errstate(all="ignore"):
                mistakes.append(("own", up * edge.value.numpy()))
        if up.shape == answer.shape == ():
            mistakes.append(("sum", up + local))
    mistakes += [("other", d) for j, d in enumerate(step.downstream) if j != edge.position]
    text = f"What does {named(shown, i)} return to {_input(shown, edge, step)}?"
    found = _asked(text, answer, mistakes, _size(step.upstream) * _local_size(step))
    if step.op.kind == "custom":
        found["hint"] = HINTS["rule"]
    elif product.matrix is not None and (np.count_nonzero(product.matrix, axis=0) > 1).any():
        found["hint"] = HINTS["entries"].format("an entry" if edge.value.shape else "it")
    yield found


def _of_local(shown: Selection, i: int, edge: Edge) -> Iterator[Document]:
    """The local derivative of an op with respect to one of its inputs."""
    step = shown.nodes[i].step
    if step is None or len(step.op.outputs) != 1:
        return
    words = f"{named(shown, i)} with respect to {_input(shown, edge, step)}"
    for *_, local in step.products[edge.position].terms:
        if _askable(local):
            rows = step.op.outputs[0].size
            shape = f": the {rows}×{local.size // rows} Jacobian, row by row" * (local.size > 1)
            text = f"What is the local derivative of {words}{shape}?"
            mistakes = [("sign", -local), ("times", edge.contribution)]
            yield _asked(text, local, mistakes, _local_size(step))


def _of_sum(shown: Selection, i: int) -> Iterator[Document]:
    """The gradient that arrives at a value that is used more than once, or is a target as well."""
    node, terms = shown.nodes[i], _terms(shown, i, 0)
    orders = [e.order for e in shown.outgoing[i] if e.contribution is not None]
    answer = node.upstream[0] if node.upstream else None
    if len(node.outputs) != 1 or not terms or not orders or not _askable(answer):
        return
    assert answer is not None
    mistakes = [("sign", -answer), *(("path", term) for term in terms)]
    with np.errstate(all="ignore"):
        mistakes.append(("multiplied", np.prod(np.stack(terms), axis=0)))
    text = f"What gradient arrives at {named(shown, i)} in all?"
    found = _asked(text, answer, mistakes, _size(terms))
    yield found | {"step": max(orders), "node": i, "link": None, "nodes": [i]}


def _asked(text: str, answer: Array, mistakes: list[tuple[str, Any]], size: float) -> Document:
    """A question; `size` is that of the numbers whose rounding may have put the answer off."""
    alike = [
        (kind, a)
        for kind, a in mistakes
        if a is not None and np.size(a) == answer.size and not np.iscomplexobj(a)
    ]
    return {
        "text": text,
        "answer": _numbers(answer),
        "size": (FIELD + MORE * max(1, answer.size - 1), HIGH),
        "shown": style.array(answer),
        "mistakes": [(MISTAKES[kind], _numbers(a)) for kind, a in alike],
        "noise": ROUNDING * tolerance(answer.dtype) * size,
    }


def _local_size(step: Step) -> float:
    """The size of what rounding puts off a local: 6e-17 may be 0, but not as a factor of 6e-17."""
    return min(1.0, _size(value.numpy() for value in step.op.outputs))


def _size(arrays: Iterable[Any]) -> float:
    """The largest absolute value that is finite."""
    known = (a for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind in "fc")
    sizes = [np.nan_to_num(np.abs(wide(a)), posinf=0.0) for a in known]
    return max((float(np.max(size, initial=0.0)) for size in sizes), default=0.0)


def _numbers(array: Any) -> list[Any]:
    """The numbers as JSON can hold them: NaN and the infinities as words."""
    words = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    flat = [float(x) for x in np.reshape(array, -1)]
    return ["NaN" if np.isnan(x) else words.get(x, x) for x in flat]


# --- what is known -------------------------------------------------------------------------------


def _terms(shown: Selection, i: int, output: int) -> list[Array]:
    """The terms of an output's gradient, one for each use of it; empty for a single term."""
    terms = [e.contribution for e in shown.summands(i, [output]) if e.contribution is not None]
    return terms if len(terms) > 1 else []


def _input(shown: Selection, edge: Edge, step: Step) -> str:
    """The name of an input, and which input it is where the op takes the value twice."""
    source, values = shown.nodes[edge.source], [v.key for v in step.op.inputs]
    # The name alone where there is one: a symbol says what an op does, not what it returns.
    own = output_name(source.label, edge.output, len(source.outputs))
    name = own or source.label or named(shown, edge.source)
    if values.count(values[edge.position]) == 1:
        return name
    j = edge.position
    return f"{name}, its {('first', 'second', 'third')[j] if j < 3 else f'{j + 1}th'} input"
