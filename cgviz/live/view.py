"""The live picture: an anywidget that steps through a trace in the browser.

Python says where everything stands and what is written there; `ink` shows it, step by step,
without asking again. Only what is costly is made on demand, and never for a step: the picture of
another pass, a folded scope opened, the local Jacobians of a large trace.

    view     a trace -> a View
    View     the widget: `step`, `selected` and `which` can be linked to other widgets
    bundle   what a cell shows: the live view, and beside it a picture and text
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import anywidget
import numpy as np
import traitlets

from .. import files
from ..drawing import figure
from ..drawing.picture import Picture
from ..graph import Trace
from ..reading import summary
from . import album, looks, module
from .album import Album, Document

LIVE = "application/vnd.jupyter.widget-view+json"
MOST_PIXELS = 900_000  # of the picture beside a live view


class View(anywidget.AnyWidget):
    """The live picture of a trace.

    Attributes:
        step: How far it has come: 0 is the end of the forward pass, `k` the backward pass after
            its step number `k`, `-k` the forward pass with `k` ops still to run.
        selected: The key of the node whose card is open, or "".
        which: The backward pass that is shown, as in `trace.passes`.
    """

    drawn = True  # whether a picture is stored beside it

    _esm = module.source()
    _css = looks.css()

    step = traitlets.Int().tag(sync=True)
    selected = traitlets.Unicode().tag(sync=True)
    which = traitlets.Int().tag(sync=True)
    document = traitlets.Dict().tag(sync=True)

    def __init__(
        self, trace: Trace, albums: Sequence[Album], extra: Document | None = None
    ) -> None:
        self.trace = trace
        self.albums = tuple(albums)
        self.extra = extra or {}
        which = albums[0].which or 0
        shown = album.document(trace, self.albums, which) | self.extra
        super().__init__(
            document=shown,
            step=0 if self.extra.get("quiz") else shown["pages"][0]["lines"]["steps"],
            which=which,
        )
        self.on_msg(_asked)

    def _answer(self, content: Document, buffers: Any) -> None:
        """Send what the browser asked for."""
        which, toggled = content.get("which", self.which), content.get("toggled", [])
        if content.get("ask") == "pages":
            found = album.pages(self.albums, which, toggled)
            self.send({"pages": found, "key": album.page_key(which, toggled)})
        elif content.get("ask") == "notes":
            side = int(content.get("side", 0))
            notes = self.albums[side].notes(which, toggled)
            self.send({"notes": notes, "side": side, "key": content.get("key")})

    def close(self) -> None:
        """Take it off every page; its layout, a widget with a comm of its own, goes with it."""
        own = self._trait_values.get("layout")
        super().close()
        if own is not None:
            own.close()

    def save(self, path: Any) -> None:
        """Write what is shown to an `.html` file that needs no kernel and no network."""
        from . import page

        target = files.target(path, (".html",))
        text = page.page(self.trace, self.albums, self.which, self.kept, self.words)
        files.write(target, text.encode())

    @property
    def words(self) -> str:
        """The text that stands beside it where no widget can run; the same in every run."""
        return repr(self.trace)

    @property
    def kept(self) -> Document:
        """What of the document needs no kernel."""
        return {name: x for name, x in self.extra.items() if name == "quiz"}

    def __repr__(self) -> str:
        return f"live view of a {summary.title(self.trace)}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        shown = super()._repr_mimebundle_(**kwargs)
        data, metadata = shown if isinstance(shown, tuple) else (shown or {}, {})
        data = {**data, "text/plain": self.words}
        if not self.drawn:
            return data, metadata
        data["image/png"] = b64encode(png(self.albums[0].arranged())).decode()
        return data, {**metadata, "image/png": {"alt": self.words}}


def _asked(shown: View, content: Document, buffers: Any) -> None:
    """The browser's questions, answered by whatever kind of view it is."""
    shown._answer(content, buffers)


def view(
    trace: Trace, *, which: int | None = None, full: bool = False, against: Trace | None = None
) -> View:
    """What `trace.view` returns."""
    if against is not None and not isinstance(against, Trace):
        raise TypeError(f"`against` must be a trace, not {type(against).__name__}")
    albums = [Album(trace, which, full)]
    if against is not None:
        albums.append(Album(against, which, full))
    return View(trace, albums)


# --- in a cell -----------------------------------------------------------------------------------


def bundle(trace: Trace) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """What a cell that ends in a trace shows; None where nothing live can be shown."""
    if not _in_a_notebook():
        return None
    return view(trace)._repr_mimebundle_()


def _in_a_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


def png(placed: Picture) -> bytes:
    """The picture of paper as a PNG, small enough to be made at once."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    size = placed.width / 72, placed.height / 72
    dots = min(100.0, (MOST_PIXELS / (size[0] * size[1])) ** 0.5)
    sheet = Figure(figsize=size, dpi=dots)
    canvas = FigureCanvasAgg(sheet)
    figure._Ink(sheet.add_axes((0, 0, 1, 1)), placed, None).draw()
    canvas.draw()  # type: ignore[no-untyped-call]
    # In full colours: a palette would be a third as large, and lose the pale floors.
    inked = Image.fromarray(np.asarray(canvas.buffer_rgba()))  # type: ignore[no-untyped-call]
    buffer = io.BytesIO()
    inked.convert("RGB").save(buffer, "png", compress_level=3)
    return buffer.getvalue()
