"""How arrays, counts and tables are written, as text and as HTML.

    Rows        a table: a sequence of rows
    written     an array as text
    marked      an array as text, with the sign of NaN or infinity
    Equation    `upstream · local = downstream` as text
    told_apart  names for two things that are shown side by side
    text_table  lines of cells -> an aligned table
    html_table  rows of HTML -> a table
    stylesheet  the look of HTML, from a file
    sheet       parts of HTML -> what a notebook shows, with the look that all tables share

HTML takes its colours from JupyterLab's variables and is legible without them. The caller escapes
what comes from the learner's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import style
from ..graph import Array
from ..graph.jacobian import LargeJacobian, Product

WIDTH = 100  # columns of a text table where that is possible, for a terminal of usual width


class Rows(Sequence[Any]):
    """A sequence of rows, a slice of which is a table of the same form."""

    rows: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        """One row, or for a slice the table of its rows."""
        if not isinstance(place, slice):
            return self.rows[place]
        found = copy(self)
        found.rows = self.rows[place]
        return found


def written(array: Any, most: int, rows: str = ", ", width: int | None = None) -> str:
    """An array in numbers up to `most` entries; a summary if that is wider than `width`."""
    full = style.array(array, most=most, rows=rows)
    if array is None or array.ndim == 0 or width is None or len(full) <= width:
        return full
    return style.summary(array, dtype=False)


def marked(array: Any) -> str:
    """A small array in numbers, or the summary of a large one, after the sign of what is wrong."""
    return style.mark(array) + style.array(array)


@dataclass(frozen=True, eq=False)
class Equation:
    """A `Product` as text, to be read as `factors` `sign` `returned`.

    Where the rule returned something else, it is `factors` `equal` `should` ≠ `returned`.
    """

    product: Product

    @cached_property
    def factors(self) -> tuple[tuple[str, str], ...]:
        """The upstream and the local of each output, or of all together where they are one matrix.

        A local of several numbers is its shape or a summary; one that is not known is dots.
        """
        product = self.product
        if product.terms and product.matrix is None:
            return tuple(self._factors(up, local) for _, up, local in product.terms)
        upstream = [up for _, up, _ in product.terms] or product.upstream
        shapes = [style.shape(local) for *_, local in product.terms] or ["…"]
        return ((", ".join(map(marked, upstream)), ", ".join(shapes)),)

    @cached_property
    def returned(self) -> str:
        """What the rule returned."""
        return marked(self.product.returned)

    @cached_property
    def should(self) -> str:
        """What upstream · local is, where the rule returned what reads otherwise; else ""."""
        total = marked(self.product.total) if self.product.agrees is False else ""
        return total if total != self.returned else ""

    @property
    def equal(self) -> str:
        """What is written behind the factors before what they make: = or ≈."""
        return style.equals(self.factors, self.should or self.returned)

    @property
    def sign(self) -> str:
        """What is written before `returned`: =, ≈ or ≠."""
        return "≠" if self.should else self.equal

    def _factors(self, upstream: Array, local: Any) -> tuple[str, str]:
        whole = local.size == upstream.size * self.product.value.size
        if whole and local.size == 1:
            return style.number(upstream), style.number(local)
        if not whole or isinstance(local, LargeJacobian):
            return marked(upstream), style.shape(local) or style.number(local)
        return marked(upstream), style.summary(local, dtype=False)


def counted(n: int, word: str) -> str:
    """A number of things, with the word in the singular or plural.

    >>> counted(1, "op"), counted(0, "pass")
    ('1 op', '0 passes')
    """
    return f"{n:,} {word}{'' if n == 1 else 'es' if word.endswith('s') else 's'}"


def told_apart(titles: Sequence[str], kind: str) -> list[str]:
    """Names for two things of one kind: their titles, if these differ."""
    alike = len(set(titles)) < len(titles)
    return [f"this {kind}", "the other"] if alike else [*titles]


def clipped(text: str, width: int) -> str:
    """Text cut to a width, with an ellipsis if anything was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def text_table(
    head: Sequence[str], lines: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[str]
) -> str:
    """Cells in columns of these widths; `right` names the columns aligned right.

    A line of one cell is shown as it is.
    """
    found = []
    for line in [head, *lines]:
        cut = [clipped(cell, width) for cell, width in zip(line, widths, strict=False)]
        columns = zip(head, cut, widths, strict=False)
        cells = [x.rjust(n) if name in right else x.ljust(n) for name, x, n in columns]
        found.append(line[0] if len(line) == 1 else "  ".join(cells).rstrip())
    return "\n".join(found)


def html_table(caption: str, head: Sequence[str], numeric: Sequence[str], *bodies: str) -> str:
    """A table of rows in one or more bodies; `numeric` names the columns aligned right."""
    titles = "".join(
        f'<th scope="col"{NUMBER if name in numeric else ""}>{escape(name)}</th>' for name in head
    )
    body = "".join(f"<tbody>\n{rows}</tbody>\n" for rows in bodies)
    return (
        f'<table class="cgviz-rows">\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{titles}</tr></thead>\n{body}</table>\n"
    )


NUMBER = ' class="cgviz-number"'  # of a cell that is aligned right


def data_frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; cgviz itself does not depend on pandas."""
    try:
        return import_module("pandas").DataFrame(rows)
    except ModuleNotFoundError as error:
        raise ImportError("`to_pandas` needs pandas, and it is not installed") from error


def stylesheet(module: str, name: str) -> str:
    """The stylesheet `name` beside a module, as a `<style>` element for the body of a page."""
    return f"<style>\n{Path(module).with_name(name).read_text(encoding='utf-8')}</style>"


STYLE = stylesheet(__file__, "sheet.css")


def sheet(*parts: str, kind: str = "") -> str:
    """What a notebook shows: the parts, with the look that all tables share."""
    classes = f"cgviz-sheet {kind}".strip()
    return f'{STYLE}\n<div class="{classes}">\n{"".join(parts)}</div>'
