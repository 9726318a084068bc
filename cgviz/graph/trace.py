"""Trace: a whole recording, and what flowed where, forward and backward.

The methods that show a trace (`table`, `plot`, `view`, ...) import the module that does the work
when they are called, so the data model needs nothing above it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from .model import Array, Op, Pass, Step, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..diagnosing.diagnosis import Diagnosis
    from ..live.view import View
    from ..reading.chain_rule import ChainRule
    from ..reading.summary import Summary
    from ..reading.table import Table


Item = TypeVar("Item", bound=Hashable)


@dataclass(eq=False, repr=False)
class Trace:
    """What TensorFlow did, forward and backward: the result of `cgviz.trace` and `cgviz.record`.

    A cell that ends in a trace shows `.view()`; printed, a trace is its value, gradients and table.

    Attributes:
        title: What was traced: the function's name.
        value: f's value, as NumPy; for `record()` the target of the first backward pass.
        gradients: One gradient or None per positional argument; for `record()`, per source of the
            first pass that is no variable.
        variables: The gradient of each trainable variable, by its name; for `record()`, from
            the first pass that has it as a source.
        ops: The forward ops in execution order, with the inputs, variables and constants.
        passes: Every backward pass, in the order they ran.
        main: The index in `passes` of the one that `steps` shows: for `trace` the first that
            differentiates f, for `record()` the first, for `watch` the one that it follows.
        asked: Whether the recorded code chose its sources itself, as in `record()`; in `trace`
            all arguments are sources.
        notes: What ran differently from a run without a recording, and what is not recorded.
        after: For `record()`: what each variable held when the recording ended, by the name of its
            op; held by reference, and not saved in a file.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> trace = cgviz.trace(lambda x: tf.sin(x) * x, 2.0)
        >>> [(op.name, op.kind) for op in trace.ops]
        [('x', 'input'), ('Sin', 'op'), ('Mul', 'op')]
        >>> [step.op.name for step in trace.steps]
        ['Mul', 'Sin']
    """

    title: str
    value: Any
    gradients: tuple[Any, ...]
    variables: dict[str, Array | None]
    ops: tuple[Op, ...]
    passes: tuple[Pass, ...]
    # Factories: a plain default would be a class attribute, which a deferred trace would return.
    main: int = field(default_factory=int)
    asked: bool = field(default_factory=bool)
    notes: tuple[str, ...] = field(default_factory=tuple)
    after: Mapping[str, Any] = field(default_factory=dict)
    _build: Callable[[], Trace] = field(init=False)

    @classmethod
    def deferred(cls, build: Callable[[], Trace]) -> Trace:
        """A trace whose attributes are built when one of them is first read."""
        trace = cls.__new__(cls)
        trace._build = build
        return trace

    def __getattr__(self, name: str) -> Any:
        # Called only for a missing attribute: of a deferred trace, or by a wrong name.
        if name in Trace.__dataclass_fields__ and "_build" in self.__dict__:
            built = self._build()
            del self._build
            self.__dict__.update(built.__dict__)
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the backward pass `main`, in execution order."""
        return self.pass_(None).steps if self.passes else ()

    def pass_(self, which: int | None) -> Pass:
        """One of `passes`.

        Args:
            which: Its number, from 0; negative counts from the last; None is the one that
                `steps` shows.

        Returns:
            The `Pass`.

        Raises:
            ValueError: There is no such pass.
        """
        passes = self.passes
        if not passes:
            why = "; ".join(self.notes) or "call `tape.gradient` inside the recording"
            raise ValueError(f"this trace has no backward pass: {why}")
        index = self.main if which is None else which
        if index not in range(-len(passes), len(passes)):  # a text or fraction is not in it
            raise ValueError(
                f"`which` is {which!r}, but this trace has {len(passes)} backward "
                f"pass{'es' if len(passes) > 1 else ''}: 0 to {len(passes) - 1}"
            )
        return passes[int(index)]

    @cached_property
    def _producers(self) -> dict[int, tuple[Op, int]]:
        found: dict[int, tuple[Op, int]] = {}
        for op in self.walk():
            for position, value in enumerate(op.outputs):
                found.setdefault(value.key, (op, position))
        return found

    def producer(self, value: Value) -> tuple[Op, int] | None:
        """Which op made a value.

        Args:
            value: An entry of some op's `inputs` or `outputs`.

        Returns:
            The op and which of its outputs the value is, from 0; None if it came from elsewhere.
        """
        return self._producers.get(value.key)

    def maker(self, value: Value) -> Op | None:
        """The op of `producer` alone.

        Args:
            value: An entry of some op's `inputs` or `outputs`.

        Returns:
            The op that made it; None if it came from elsewhere.
        """
        found = self.producer(value)
        return found and found[0]

    def walk(self) -> Iterator[Op]:
        """Every op: forward, inside the bodies of custom ops, and of the backward passes."""
        yield from with_bodies(self.ops)
        for each in self.passes:
            yield from with_bodies(each.ops)

    def table(self, which: int | None = None, *, full: bool = False) -> Table:
        """The backward table: one row per step, `downstream = upstream x local`.

        Args:
            which: The backward pass, by its index in `passes`; None is the one that `steps` shows.
            full: Also the steps that the picture folds away: constants, shape helpers, scopes.

        Returns:
            A `Table`: a sequence of rows, each a dict with the keys "step", "op", "type", "kind",
            "input", "upstream", "local", "downstream" and "source". It prints as text, and is HTML
            in a notebook.

        Raises:
            ValueError: There is no such pass.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> row = cgviz.trace(tf.square, 3.0).table()[0]
            >>> row["upstream"], row["local"], row["downstream"]
            (1.0, 6.0, 6.0)
        """
        from ..reading import table

        return table.table(self, which, full)

    def chain_rule(self, which: int | None = None) -> ChainRule:
        """The chain rule with this trace's numbers: the product along each path, and their sum.

        Args:
            which: The backward pass, by its index in `passes`; None is the one that `steps` shows.

        Returns:
            A `ChainRule`: text, and `.latex`, with a formula for each source that has a gradient.

        Raises:
            ValueError: There is no such pass.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> cgviz.trace(lambda x: tf.sin(tf.square(x)), 0.5).chain_rule()
            dSin/dx = ∂Sin/∂Square · ∂Square/∂x
                    ≈ 0.96891 · 1
                    ≈ 0.96891
        """
        from ..reading import chain_rule

        return chain_rule.ChainRule(self, self.pass_(which))

    def summary(self, which: int | None = None) -> Summary:
        """The layers of the trace, the worst first: norms of values and gradients, zeros, NaN.

        Args:
            which: The backward pass, by its index in `passes`; None is the one that `steps` shows.

        Returns:
            A `Summary`: a sequence of rows, one for each name scope and each op outside of them. It
            prints as text, is HTML with a bar per row in a notebook, and has `.to_pandas()`.

        Raises:
            ValueError: There is no such pass.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> layers = cgviz.trace(lambda x: tf.square(tf.sqrt(x + 1.0)), 3.0).summary()
            >>> [(row["layer"], row["value"], row["gradient"]) for row in layers]
            [('Sqrt', 2.0, 4.0), ('AddV2', 4.0, 1.0), ('Square', 4.0, 1.0)]
        """
        from ..reading import summary

        return summary.summary(self, which)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        step: int | None = None,
        which: int | None = None,
        full: bool = False,
        local: bool = False,
    ) -> Axes:
        """Draw a picture for paper: forward solid blue, backward dashed orange.

        Args:
            ax: The Matplotlib axes to draw on; by default a new figure as large as its content.
            step: Show only the first `step` steps of the backward pass and mark the last of
                them: 0 shows the forward pass alone, None everything.
            which: The backward pass, by its index in `passes`; None is the one that `steps` shows.
            full: Show everything: constants and shape helpers too, and no scope folded.
            local: Write upstream · local before each downstream where all three are scalars.
                Where a rule returned something else, the sign is ≠; a small array has only it.

        Returns:
            The axes. `ax.cgviz_alt` holds the picture in sentences.

        Raises:
            TypeError: `ax` is no Axes.
            ValueError: No such step or pass.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> ax = cgviz.trace(tf.square, 3.0).plot(step=0)
            >>> ax.figure.savefig("square.pdf")  # doctest: +SKIP
        """
        from ..drawing import figure

        return figure.plot(self, ax, step, which, full, local)

    def diagnose(self, which: int | None = None) -> Diagnosis:
        """Say where a gradient became None, zero, NaN, infinite, tiny or huge, and why.

        Args:
            which: The backward pass to look at, by its index in `passes`; None looks at all.

        Returns:
            A `Diagnosis`: a sequence of findings, each with `.what .op .message .hint .lesson`;
            `.ok` is True where none of them is an error.

        Raises:
            ValueError: There is no such pass.
            RuntimeError: It was read from a file that has only the statistics of large arrays.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> [found.what for found in cgviz.trace(lambda x: tf.round(x) * 2.0, 2.6).diagnose()]
            ['none']
            >>> cgviz.trace(tf.sin, 2.6).diagnose().ok
            True
        """
        from ..diagnosing import diagnosis

        return diagnosis.diagnose(self, which)

    def view(
        self,
        *,
        which: int | None = None,
        full: bool = False,
        against: Trace | None = None,
        start: str = "forward",
        local: bool = False,
    ) -> View:
        """The live picture: step through the backward pass, open scopes, custom ops and cards.

        Args:
            which: The backward pass to begin with, by its index in `passes`; None is the one that
                `steps` shows.
            full: Show everything: constants and shape helpers too, and no scope folded.
            against: Another trace of the same program, shown beside this one; what differs is
                marked.
            start: "forward" begins after the forward pass, and shows no gradient before its step;
                "end" begins after the backward pass.
            local: Write upstream · local before each downstream where all three are scalars.
                Where a rule returned something else, the sign is ≠; a small array has only it.

        Returns:
            The widget, a `View`.

        Raises:
            TypeError: `against` is no trace.
            ValueError: There is no such pass, or `start` is neither of these.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> naive = cgviz.trace(lambda x: tf.math.log(1.0 + tf.exp(x)), 100.0)
            >>> shown = naive.view(against=cgviz.trace(tf.math.softplus, 100.0))
        """
        from ..live import view

        return view.view(self, which, full, against, start, local)

    def save(self, path: Any, *, full: bool = False) -> None:
        """Write the trace to a file.

        Args:
            path: Where to. `.html` gets the live picture, in one file that needs no kernel and no
                network; so that it stays small, some folds of a large trace do not open in it.
                `.svg`, `.png` and `.pdf` get the picture of `plot()`; `.json` gets what
                `cgviz.load` reads; `.dot` gets the graph for Graphviz or networkx.
            full: In a `.json`, keep all numbers; by default, of an array with more than 1,024 only
                the norm, the range, and the number of zeros, NaN and infinities: too little for
                `diagnose`.

        Raises:
            ValueError: The suffix is none of these, or `full` is given for a picture, or for a
                trace whose file kept only statistics.
            FileNotFoundError: The folder does not exist.

        Example:
            >>> import cgviz
            >>> cgviz.trace(lambda x: x * x, 3.0).save("square.html")  # doctest: +SKIP
        """
        from .. import files

        files.save(self, path, full=full)

    def __repr__(self) -> str:
        from ..reading import summary

        return summary.text(self)

    def _ipython_display_(self) -> None:
        from ..live import view

        view.display(self)

    def _display_(self) -> View:
        """What marimo shows: it has no IPython kernel to call `_ipython_display_`."""
        return self.view()


def with_bodies(ops: Sequence[Op]) -> Iterator[Op]:
    """Each op, followed by the ops of its body, at any depth."""
    for op in ops:
        yield op
        yield from with_bodies(op.body)


def walk(start: Iterable[Item], onward: Callable[[Item], Iterable[Item]]) -> Iterator[Item]:
    """The items of `start`, and, each once, all others that `onward` reaches from them.

    >>> sorted(walk([6], lambda n: [n // 2, n - 2] if n > 1 else []))
    [0, 1, 2, 3, 4, 6]
    """
    stack = list(dict.fromkeys(start))
    seen = set(stack)
    while stack:
        here = stack.pop()
        for each in onward(here):
            if each not in seen:
                seen.add(each)
                stack.append(each)
        yield here
