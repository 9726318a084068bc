"""Trace: a flow with the doors to the rooms that show it, each opened when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .flow import Flow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .diagnosing.findings import Diagnosis
    from .reading.chain import ChainRule
    from .reading.table import Table
    from .screen.view import View


class Trace(Flow):
    """What TensorFlow did, forward and backward: the result of `cgviz.trace` and `cgviz.record`.

    A cell that ends in a trace shows `.view()`; printed, it is its table.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> trace = cgviz.trace(lambda x: tf.sin(x) * x, 2.0)
        >>> [(op.name, op.kind) for op in trace.ops]
        [('x', 'input'), ('Sin', 'op'), ('Mul', 'op')]
        >>> [step.op.name for step in trace.steps]
        ['Mul', 'Sin']
    """

    def table(self, which: int | None = None, *, full: bool = False) -> Table:
        """The backward table: one row per step, `downstream = upstream x local`.

        Args:
            which: The backward pass, as in `passes`; None is the one that `steps` shows.
            full: Also the steps that the picture folds away: constants, shape helpers, scopes.

        Returns:
            A `Table`: a sequence of rows, each a dict with the keys "step", "op", "type", "kind",
            "input", "upstream", "local", "downstream" and "source"; text, and HTML in a notebook.

        Raises:
            ValueError: There is no such pass.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> row = cgviz.trace(tf.square, 3.0).table()[0]
            >>> row["upstream"], row["local"], row["downstream"]
            (1.0, 6.0, 6.0)
        """
        from .reading import table

        return table.table(self, which, full=full)

    def chain_rule(self, which: int | None = None) -> ChainRule:
        """The chain rule with this trace's numbers: the product along each path, and their sum.

        Args:
            which: The backward pass, as in `passes`; None is the one that `steps` shows.

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
        from .reading import chain

        return chain.chain_rule(self, which)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        step: int | None = None,
        which: int | None = None,
        full: bool = False,
        kind: Literal["flow", "range"] = "flow",
    ) -> Axes:
        """Draw a picture for paper: how the gradient flows, or how large its numbers are.

        Args:
            ax: The Matplotlib axes to draw on; by default a new figure as large as its content.
            step: Show only the first `step` steps of the backward pass and mark the last of
                them: 0 shows the forward pass alone, None everything.
            which: The backward pass, as in `passes`; None is the one that `steps` shows.
            full: Show everything: constants and shape helpers too, and no scope folded.
            kind: "flow" is the graph, forward solid blue and backward dashed vermillion; "range"
                the magnitudes op by op, against the limits of their dtype.

        Returns:
            The axes. `ax.cgviz_alt` holds the picture in sentences.

        Raises:
            TypeError: `ax` is no Axes, or `step` no integer.
            ValueError: No such step, pass or kind, or `step` or `full` with "range".

        Example:
            >>> import cgviz, tensorflow as tf
            >>> ax = cgviz.trace(tf.square, 3.0).plot(step=0)
            >>> ax.figure.savefig("square.pdf")  # doctest: +SKIP
        """
        if kind == "range":
            from .diagnosing import range_figure

            if step is not None or full:
                raise ValueError('`step` and `full` belong to kind="flow"')
            return range_figure.plot(self, ax, which=which)
        if kind != "flow":
            raise ValueError(f'`kind` must be "flow" or "range", not {kind!r}')
        from .drawing import figure

        return figure.plot(self, ax, step=step, which=which, full=full)

    def diagnose(self, which: int | None = None) -> Diagnosis:
        """Say where a gradient became None, zero, NaN, infinite, tiny or huge, and why.

        Args:
            which: The backward pass to look at, as in `passes`; None looks at all of them.

        Returns:
            A `Diagnosis`: a sequence of findings, each with `.what .op .message .hint .lesson`;
            `.ok` where there is none.

        Raises:
            ValueError: There is no such pass.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> [found.what for found in cgviz.trace(lambda x: tf.round(x) * 2.0, 2.6).diagnose()]
            ['none']
            >>> cgviz.trace(tf.sin, 2.6).diagnose().ok
            True
        """
        from .diagnosing import doctor

        return doctor.diagnose(self, which)

    def view(
        self, *, which: int | None = None, full: bool = False, against: Trace | None = None
    ) -> View:
        """The live picture: step through the backward pass, open scopes, custom ops and cards.

        Args:
            which: The backward pass to begin with, as in `passes`.
            full: Show everything: constants and shape helpers too, and no scope folded.
            against: Another trace of the same program, shown beside this one; what differs is
                marked.

        Returns:
            The widget, a `View`.

        Raises:
            TypeError: `against` is no trace.
            ValueError: There is no such pass.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> naive = cgviz.trace(lambda x: tf.math.log(1.0 + tf.exp(x)), 100.0)
            >>> shown = naive.view(against=cgviz.trace(tf.math.softplus, 100.0))
        """
        from .screen import view

        return view.view(self, which=which, full=full, against=against)

    def save(self, path: Any) -> None:
        """Write the trace to a file.

        Args:
            path: Where to. `.html` gets the live picture, in one file that needs no kernel and no
                network; `.svg`, `.png` and `.pdf` get the picture of `plot()`; `.json` gets all
                of it, to be read by `cgviz.load`.

        Raises:
            ValueError: The suffix is none of these.
            FileNotFoundError: The folder does not exist.

        Example:
            >>> import cgviz
            >>> cgviz.trace(lambda x: x * x, 3.0).save("square.html")  # doctest: +SKIP
        """
        from .files import export

        export.save(self, path)

    def __repr__(self) -> str:
        from .reading import sheet

        return sheet.text(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        from .screen import view

        return view.bundle(self)

    def _display_(self) -> View:
        """What marimo shows, which has no IPython kernel."""
        return self.view()
