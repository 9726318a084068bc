"""Matplotlib's renderer: a trace as a picture for print, GitHub and slides.

    plot  a trace -> Axes
    draw  a display list -> artists on Axes

`display` decides what is drawn and where; this module adds colours and line widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure

from .. import style
from ..graph import Trace
from ..graph.selection import select
from . import display, shapes, texts
from .display import Display, Path
from .texts import Text

LINE = 1.7  # the width of an arrow's line, in points: still visible when printed at half size
STRONG = 1.8  # how much wider the arrow of the current step is
BORDER, THIN, THICK = 1.4, 1.0, 2.6  # widths: an outline; an inner one; the current step's node
DASHES = (0, (3.2, 1.8))  # of a backward arrow, in widths of its line
LARGEST = 1.5  # the scale at which a picture in given axes is large enough; lines grow no wider
HEAD = 26.0  # points above each of two pictures on a sheet, for its name
CONTROLS = ("handle", "tab")  # the roles of what is clicked: for the screen only


class SpokenFigure(Figure):
    """A figure that says what it shows: as alternative text in a notebook, and as its repr."""

    alt = ""

    def __repr__(self) -> str:
        return self.alt or super().__repr__()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"image/png": {"alt": self.alt}}


def plot(
    trace: Trace, ax: Axes | None, step: int | None, which: int | None, full: bool, local: bool
) -> Axes:
    """What `trace.plot` returns."""
    _check_axes(ax)
    shown = replace(select(trace, which, full), local=local)
    if step is not None and step not in range(shown.steps + 1):  # a text or fraction is not in it
        raise ValueError(f"`step` is {step!r}, and must be an integer from 0 to {shown.steps}")
    found = display.make(shown, _space(ax), enough=LARGEST) if ax else display.make(shown)
    width, height = found.sheet
    ax = ax or new_figure(width / 72, height / 72).add_axes((0, 0, 1, 1))
    draw(ax, found, step)
    return speak(ax, texts.describe(shown, step))


def _check_axes(ax: Axes | None) -> None:
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be a Matplotlib Axes, not {type(ax).__name__}")


# --- axes --------------------------------------------------------------------------------------


def _space(ax: Axes) -> tuple[float, float]:
    """Width and height of given axes, in points."""
    box = ax.get_window_extent()
    scale = 72 / ax.figure.dpi
    return box.width * scale, box.height * scale


def sheet(shown: Sequence[Display], names: Sequence[str] = ("",)) -> Figure:
    """Pictures one above the other, each below its name; of a single one, the picture alone.

    Pyplot does not know the figure, so a notebook does not show it by itself.
    """
    head = HEAD * (len(shown) > 1)
    width = max(each.sheet[0] for each in shown)
    height = low = sum(each.sheet[1] + head for each in shown)
    found = Figure(figsize=(width / 72, height / 72))
    for each, name in zip(shown, names, strict=True):
        low -= each.sheet[1] + head
        ax = found.add_axes((0, low / height, 1, each.sheet[1] / height))
        ax.set_title(name if head else "", parse_math=False)
        draw(ax, each)
    return found


def new_figure(width: float, height: float, **how: Any) -> SpokenFigure:
    """A new pyplot figure of this size in inches; `how` is passed to Matplotlib."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), FigureClass=SpokenFigure, **how)  # type: ignore


def returned_figure(width: float, height: float) -> SpokenFigure:
    """A new figure for a function to return; it is closed, so pyplot does not show it again."""
    import matplotlib.pyplot as plt

    found = new_figure(width, height, layout="constrained")
    plt.close(found)
    return found


def returned_axes(width: float, height: float, columns: int = 1, **how: Any) -> tuple[Any, ...]:
    """A `returned_figure`, its axes side by side, and the palette; `how` is passed to each axes."""
    found = returned_figure(width, height)
    axes = found.subplots(1, columns, squeeze=False, subplot_kw=how)[0]
    return found, axes, current_palette()


def current_palette() -> style.Palette:
    """The palette for a new figure, by the background colour in Matplotlib's settings."""
    return style.palette(to_rgb(rcParams["figure.facecolor"]))


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure of this size in inches, with space for labels.

    Raises:
        TypeError: `ax` is no Axes.
    """
    _check_axes(ax)
    figure = None if ax else new_figure(width, height, layout="constrained")
    return ax or figure.add_subplot(facecolor=figure.get_facecolor())  # type: ignore[union-attr]


def speak(ax: Axes, text: str) -> Axes:
    """Keep a picture's description on its axes and, for a `SpokenFigure`, as alternative text."""
    ax.cgviz_alt = text  # type: ignore[attr-defined]
    if isinstance(ax.figure, SpokenFigure):
        ax.figure.alt = text
    return ax


def background(ax: Axes) -> tuple[float, float, float]:
    """The first visible colour behind the axes: their own, the figure's, or the default one."""
    for colour in (ax.get_facecolor(), ax.figure.get_facecolor()):
        if to_rgba(colour)[3] > 0:
            return to_rgb(colour)
    return to_rgb(rcParams["figure.facecolor"])


# --- drawing -----------------------------------------------------------------------------------


class Drawn(PathCollection):
    """Elements of a display list as one artist; `elements` lists them in the order of its paths.

    For texts, `words` has what each says, and `boxes` the left, top, right and bottom of each.
    """

    words: Sequence[str] = ()
    boxes: Sequence[shapes.Box] = ()

    def __init__(self, elements: Sequence[Any], outlines: Sequence[Any], **how: Any) -> None:
        super().__init__(outlines, **how)
        self.elements = list(elements)


def draw(ax: Axes, shown: Display, step: int | None = None) -> None:
    """Draw a display list; a point in it is one data unit of the axes.

    Args:
        ax: The axes; the picture fills them, as far as its shape allows.
        shown: The display list.
        step: The backward step to show, and to emphasise; None shows all, and emphasises nothing.
    """
    _Renderer(ax, shown, step).draw()


class _Renderer:
    """Gives the elements of a display list their looks."""

    def __init__(self, ax: Axes, shown: Display, step: int | None) -> None:
        self.ax, self.shown, self.step = ax, shown, step
        self.moment = shown.steps if step is None else shown.moment(step)
        self.look = style.palette(background(ax))
        width, height = self.size = shown.sheet
        self.spare = (width - shown.width) / 2  # at each side, where the legend is wider
        across, down = _space(ax)
        self.scale = min(across / width, down / height, LARGEST)

    def draw(self) -> None:
        """Draw the paths, then the texts."""
        width, height = self.size
        self.ax.set_axis_off()
        self.ax.set_xlim(-self.spare, width - self.spare)
        self.ax.set_ylim(height, 0)
        self.ax.set_aspect("equal", adjustable="box", anchor="C")
        samples, words = self._legend()
        paths = [
            path
            for path in self.shown.paths
            if path.step <= self.moment and path.role not in CONTROLS
        ]
        self._paths(paths + samples)
        self._texts([text for text in self.shown.texts if text.at(self.moment)] + words)

    def _current(self, element: Path | Text) -> bool:
        return self.step is not None and self.moment > 0 and self.moment in element.now

    def _paths(self, paths: Sequence[Path]) -> None:
        looks = [self._look(path) for path in paths]
        drawn = Drawn(
            paths,
            [shapes.outline(path.d) for path in paths],
            facecolors=[face for face, *_ in looks],
            edgecolors=[edge for _, edge, *_ in looks],
            linewidths=[width * self.scale for *_, width, _ in looks],
            linestyles=[dashes for *_, dashes in looks],
            zorder=2,
        )
        self.ax.add_collection(drawn, autolim=False)

    def _look(self, path: Path) -> tuple[Any, Any, float, Any]:
        """The fill colour, and the line's colour, width and dashes."""
        look, current, nothing = self.look, self._current(path), (0.0, 0.0, 0.0, 0.0)
        if path.role in ("forward", "backward"):
            width = LINE * (STRONG if current else 1.0)
            back = path.role == "backward"
            return nothing, getattr(look, path.role), width, DASHES if back else "solid"
        if path.role.endswith("-head"):
            return getattr(look, path.role.removesuffix("-head")), nothing, 0.0, "solid"
        if path.of == "band":
            tone = look.backward if path.i else look.forward
            return (*to_rgb(tone), 0.06), nothing, 0.0, "solid"
        if path.of == "frame":
            return nothing, look.scope, THIN, "solid"
        node = self.shown.nodes[path.i]
        tone = look.backward if current or node.kind == "target" else look.of(node.kind)
        width = THICK if current else BORDER
        fill = look.glow if current else look.fill
        if path.role == "inner" and node.kind in ("variable", "constant"):
            fill = nothing  # type: ignore[assignment]
        elif path.role == "inner":
            fill = tone if node.kind == "target" else fill
            width = THIN if node.kind == "custom" else width
        return fill, tone, width, "solid"

    def _texts(self, shown: Sequence[Text]) -> None:
        found = [
            shapes.outlined(
                *(text.at(self.moment), text.x, text.y, text.size, text.anchor, text.side),
                bold=text.role == "gradient" and text.of == "link" and self._stands_out(text),
            )
            for text in shown
        ]
        drawn = Drawn(
            shown,
            [path for path, _ in found],
            facecolors=[self._colour(text) for text in shown],
            linewidths=0,
            zorder=3,
        )
        drawn.words = [text.at(self.moment) for text in shown]
        drawn.boxes = [box for _, box in found]
        self.ax.add_collection(drawn, autolim=False)

    def _stands_out(self, text: Text) -> bool:
        """Whether a text is of the current step, or a product that the rule did not return."""
        return self._current(text) or "≠" in text.at(self.moment)

    def _colour(self, text: Text) -> str:
        look = self.look
        if text.of == "node" and text.role == "title":
            return look.text
        if text.role == "gradient" and "≠" in text.at(self.moment):
            return look.custom
        tones = {"value": look.forward_text, "gradient": look.backward_text, "kind": look.custom}
        return tones.get(text.role, look.muted)

    def _legend(self) -> tuple[list[Path], list[Text]]:
        """Paths and texts of the legend: what each kind of arrow means, and the step."""
        width, height = self.size
        x, y = display.MARGIN - self.spare, height - display.MARGIN - texts.TEXT / 2
        paths, words = [], []
        # A live picture turns to other passes; this one names only the arrows that it has.
        ever = (path for path in self.shown.paths if path.step <= self.shown.steps)
        drawn_roles = {"", *(path.role for path in ever)}
        legend = [each for each in self.shown.legend if each[0] in drawn_roles]

        def text(n: int, x: float, anchor: shapes.Anchor, says: str) -> Text:
            return Text("legend", "legend", n, ((0, says),), display.SMALL, x, y, anchor)

        for n, (role, says) in enumerate(legend):
            if role:
                ends = [(x, y), (x + 26, y)]
                shaft, head = shapes.arrow(ends if role == "forward" else ends[::-1])
                drawn = (role, shaft), (f"{role}-head", head)
                paths += [Path(name, "legend", n, d, 0) for name, d in drawn]
            words.append(text(n, x + 31 * bool(role), "start", says))
            x += display.SAMPLE + shapes.extent(says, display.SMALL)[0]
        if self.step is not None:
            says = f"step {self.step} of {self.shown.steps}"
            words.append(text(-1, width - self.spare - display.MARGIN, "end", says))
        return paths, words
