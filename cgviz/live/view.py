"""The live picture: an anywidget that steps through a trace in the browser.

Python makes the display list and its texts; the browser draws it and steps through it without
asking again. Only what is costly is made on demand, and never for a step: the picture of another
pass or of an opened scope, the local Jacobians of a large trace.

    view     a trace -> a View
    View     the widget: `step` and `which` can be linked to other widgets
    display  what a cell that ends in a trace shows
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import anywidget
import ipywidgets
import traitlets
from IPython import get_ipython
from IPython.display import publish_display_data

from .. import files
from ..drawing import figure
from ..drawing.display import Display, largest
from ..graph import Trace
from ..reading import summary
from . import assets, pages
from .pages import Document, PageBuilder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = ("forward", "end")
SCREEN = (820.0, 620.0)  # the space of a picture on a usual screen, beside the side panel
READABLE = 11 / 11.5  # of the size on paper: at this scale labels are 11 pixels high
MOST_PIXELS = 900_000  # of each side of the stored picture: about 100 kB in the notebook


class Shared(ipywidgets.Widget):
    """The module and the stylesheet: sent to a page once, for all its views of this kernel."""

    module = traitlets.Unicode(assets.module()).tag(sync=True)
    stylesheet = traitlets.Unicode(assets.stylesheet()).tag(sync=True)

    _made: ClassVar[list[Shared]] = []

    @classmethod
    def one(cls) -> Shared:
        """The instance of this kernel; a new one if it was closed together with all widgets."""
        if not cls._made or cls._made[-1].comm is None:
            cls._made[:] = [cls()]
        return cls._made[-1]


class View(anywidget.AnyWidget):
    """The live picture of a trace.

    Attributes:
        step: How far it has come: 0 is the end of the forward pass, `k` the backward pass after
            its step number `k`, `-k` the forward pass with `k` ops still to run.
        which: The backward pass that is shown, as in `trace.passes`.
    """

    _esm = assets.stub()

    shared = traitlets.Instance(Shared).tag(sync=True, **ipywidgets.widget_serialization)
    step = traitlets.Int().tag(sync=True)
    which = traitlets.Int().tag(sync=True)
    # Sent compressed: it is mostly paths and words that are much alike.
    document = traitlets.Dict().tag(sync=True, to_json=lambda found, _: assets.packed(found))

    def __init__(
        self,
        builders: Sequence[PageBuilder],
        extra: Document | None = None,
        *,
        start: str = "forward",
        words: str = "",
        paper: Callable[[], Figure] | None = None,
    ) -> None:
        """Make a view from the page builder of one trace, or from those of two side by side.

        `words` is the text that a cell stores for where no widget can run, by default that of each
        trace; `paper` draws the picture that it stores, too, by default as `plot` does, the two
        sides one above the other.
        """
        self.trace = builders[0].trace
        self.builders = tuple(builders)
        self.extra = extra or {}
        self.start, self.paper = start, paper
        which = builders[0].which or 0
        shown = pages.document(self.builders, which) | self.extra
        order = [", and below it ".join(shown["names"])] if len(builders) > 1 else []
        self.words = words or "\n\n".join([*order, *(repr(each.trace) for each in builders)])
        super().__init__(
            shared=Shared.one(),
            document=shown,
            step=shown["pages"][0]["displays"][0]["steps"] if start == "end" else 0,
            which=which,
        )
        self.on_msg(type(self)._answer)  # a bound method would refer back to the widget
        _watch_cells()

    def _answer(self, content: Document, buffers: Any) -> None:
        """Send what the browser asked for."""
        which, toggled = content.get("which", self.which), content.get("toggled", [])
        if content.get("ask") == "pages":
            found = pages.pages(self.builders, which, toggled)
            self.send({"pages": found, "key": pages.page_key(which, toggled)})
        elif content.get("ask") == "panels":
            side = int(content.get("side", 0))
            page = self.builders[side].patiently().page(which, toggled)
            self.send({"panels": page["panels"], "side": side, "key": content.get("key")})
        elif content.get("ask") == "module":
            self.send({"module": self.shared.module, "stylesheet": self.shared.stylesheet})

    @property
    def model_id(self) -> str:
        """Its id, also once it is closed: a box or a link may still hold it.

        For a closed widget ipywidgets raises, and then a page that is loaded again gets the state
        of no widget at all.
        """
        return super().model_id if self.comm is not None else "closed"

    def close(self) -> None:
        """Remove it from every page, and also its layout, a widget with a comm of its own."""
        own = self._trait_values.get("layout")
        super().close()
        if own is not None:
            own.close()

    def save(self, path: Any) -> None:
        """Write what is shown to an `.html` file that needs no kernel and no network."""
        target = files.target(path, (".html",))
        state = assets.state(self.builders, self.which, self.kept(), self.start)
        target.write_bytes(assets.page(self.trace.title, self.words, state).encode())

    def embed(self) -> str:
        """What is shown, as HTML for the middle of another page: live, without a kernel.

        It asks nothing of any server, keeps its style apart from that of the page around it, and
        is dark where that page is. Several on one page share one module and one stylesheet. Where
        no script runs it is the picture with its text.

        Returns:
            The HTML, without a blank line, so that it can be pasted into Markdown.

        Example:
            >>> import cgviz
            >>> html = cgviz.trace(lambda x: x * x, 3.0).view().embed()
            >>> html.startswith('<div class="cgviz-embed"')
            True
        """
        state = assets.state(self.builders, self.which, self.kept(), self.start)
        return assets.embed(self.still(), state)

    def kept(self) -> Document:
        """The entries of the document that a page without a kernel has besides the pictures."""
        return self.extra

    def __repr__(self) -> str:
        return f"live view of a {summary.title(self.trace)}"

    def still(self) -> str:
        """The picture as HTML, with its text."""
        sheet = self.paper() if self.paper else figure.sheet(self.drawn(), self.document["names"])
        pixels = MOST_PIXELS * len(self.builders)
        dots = min(100.0, (pixels / sheet.get_size_inches().prod()) ** 0.5)
        buffer = io.BytesIO()
        # In full colours: a palette would be a third as large, but lose the pale bands.
        sheet.savefig(buffer, format="png", dpi=dots)
        words = escape(self.words).replace("\n", "&#10;")
        source = b64encode(buffer.getvalue()).decode()
        return f'<img alt="{words}" src="data:image/png;base64,{source}" style="max-width:100%">'

    def drawn(self) -> list[Display]:
        """Each side of the stored picture: as `plot` draws it, but sized for a screen."""
        return [largest(each.displays(), SCREEN, READABLE) for each in self.builders]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        shown = super()._repr_mimebundle_(**kwargs)
        data, metadata = shown if isinstance(shown, tuple) else (shown or {}, {})
        return {**data, "text/plain": self.words}, metadata

    def _ipython_display_(self) -> None:
        """Show the live view and, as a second output that is hidden below it, a picture.

        A host shows one of the forms of an output, and it chooses the widget even in a notebook
        that was opened again, whose widgets are gone. There the second output is seen. The picture
        comes second so that the live view need not wait for it.
        """
        if not _in_a_notebook():
            raise NotImplementedError  # and IPython goes on to the text
        _shown.append(self)
        if self.comm is None:  # closed when its cell ran again; shown anew
            self.layout.open()
            self.shared = Shared.one()
            self.open()
        live, metadata = View._repr_mimebundle_(self)
        del live["text/plain"]
        publish_display_data(live, metadata)
        picture = f'{assets.still()}<div class="cgviz-still">{self.still()}</div>'
        publish_display_data({"text/html": picture, "text/plain": self.words})


def view(
    trace: Trace, which: int | None, full: bool, against: Trace | None, start: str, local: bool
) -> View:
    """What `trace.view` returns."""
    if against is not None and not isinstance(against, Trace):
        raise TypeError(f"`against` must be a trace, not {type(against).__name__}")
    if start not in STARTS:
        raise ValueError(f"`start` must be one of {', '.join(STARTS)}, not {start!r}")
    traces = [trace] if against is None else [trace, against]
    return View([PageBuilder(each, which, full, local=local) for each in traces], start=start)


# --- in a cell -----------------------------------------------------------------------------------


def display(trace: Trace) -> None:
    """Show a trace in the cell that ends in it."""
    if not _in_a_notebook():
        raise NotImplementedError
    trace.view()._ipython_display_()


_shown: list[View] = []  # by the cell that runs
_of_cell: dict[str, list[View]] = {}  # per cell the views that its last run showed


@cache
def _watch_cells() -> None:
    """Ask to be told when a cell runs; once in a process."""
    if _in_a_notebook():
        events = get_ipython().events
        events.register("pre_run_cell", lambda info: _shown.clear())
        events.register("post_run_cell", _close_earlier)


def _close_earlier(result: Any) -> None:
    """Close the views that only earlier runs of the cell that has run showed."""
    waiting = [result.result]
    while waiting:  # a box at the end of a cell calls no `_ipython_display_`
        last = waiting.pop()
        waiting += last.children if isinstance(last, ipywidgets.Box) else ()
        if isinstance(last, View):
            _shown.append(last)
    if cell := getattr(result.info, "cell_id", None):  # some notebooks do not tell
        earlier, _of_cell[cell] = _of_cell.get(cell, []), [*_shown]
        still = {id(each) for views in _of_cell.values() for each in views}
        for each in earlier:
            if id(each) not in still:
                each.close()


def _in_a_notebook() -> bool:
    return getattr(get_ipython(), "kernel", None) is not None
