"""A trace as plain text for a terminal, and its backward table as text and as HTML.

Both are made of the same cells, so they say the same, and the same in every run. HTML takes its
colours from JupyterLab's variables and works without them; everything from the learner's code is
escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import chain

from ..graph import Trace
from . import cells
from .cells import Cells
from .listing import Listing, listed

WIDTH = 100
MOST_SOURCE = 60  # characters of a source line in HTML
BREAK = ",\n"  # between the rows of a matrix in HTML
HEAD = ("step", "op", "type", "input", "upstream", "local", "downstream", "source")

# --- text --------------------------------------------------------------------------------------


def text(trace: Trace) -> str:
    """What a trace says in a terminal."""
    lines = [cells.title(trace), *(f"{name}: {value}" for name, value in cells.facts(trace))]
    if trace.passes:
        lines += ["", table_text(listed(trace))]
    return "\n".join(lines)


def table_text(listing: Listing) -> str:
    """The backward table as aligned text, at most 100 columns wide where that is possible."""
    top, left_out, bottom = cells.cut(listing)
    filled = [cells.fill(listing, number, step) for number, step in [*top, *bottom]]
    for width in (40, 24, 16):
        rows = [_lines(each, width) for each in filled]
        widths = [max(map(len, column)) for column in zip(HEAD, *chain(*rows), strict=True)]
        spare = WIDTH - sum(widths[:-1]) - 2 * (len(HEAD) - 1)
        if spare >= min(widths[-1], 16):
            break
    widths[-1] = min(widths[-1], max(spare, len("line 100")))
    rows.insert(len(top), [[f"({left_out} more rows)"]] if left_out else [])
    lines = [_aligned(line, widths) for line in [list(HEAD), *chain(*rows)]]
    return "\n".join(lines if len(listing.steps) else [*lines, "(no steps)"])


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    if len(line) == 1:
        return line[0]
    padded = [
        cell.rjust(width) if name == "step" else cells.clipped(cell, width).ljust(width)
        for name, cell, width in zip(HEAD, line, widths, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _lines(row: Cells, width: int) -> list[list[str]]:
    """One line per input; what belongs to all of them on the first."""
    type_ = f"{row.type} (custom)" if row.custom else row.type
    found = []
    words = (row.step, row.op, type_, cells.join(row.upstream, width), row.source)
    for value, local, downstream in _numbers(row, width):
        step, op, type_, upstream, source = words
        found.append([step, op, type_, value, upstream, local, downstream, source])
        words = ("",) * 5
    return found


def _numbers(row: Cells, width: int | None) -> list[tuple[str, str, str]]:
    """Per input: its name and value, its local, its downstream; one empty line for no input."""
    return [
        (
            f"{each.name} = {each.value.at(width)}",
            cells.join(each.local, width),
            each.downstream.at(width),
        )
        for each in row.inputs
    ] or [("", "", "")]


# --- HTML --------------------------------------------------------------------------------------

STYLE = """<style>
.cgviz-sheet { color: var(--jp-content-font-color1, inherit); overflow-x: auto; }
.cgviz-sheet p { margin: 0 0 0.4em; }
.cgviz-sheet table.cgviz-rows { border-collapse: collapse; border: 0; margin: 0.5em 0;
  font-size: var(--jp-ui-font-size1, 13px); font-variant-numeric: tabular-nums; }
.cgviz-sheet table.cgviz-rows caption { caption-side: top; text-align: left; padding: 0 0 0.4em;
  color: var(--jp-content-font-color2, inherit); }
.cgviz-sheet table.cgviz-rows tr { background: none; }
.cgviz-sheet table.cgviz-rows th, .cgviz-sheet table.cgviz-rows td { padding: 0.25em 0.8em;
  text-align: left; vertical-align: top; white-space: pre; max-width: none; border: 0; }
.cgviz-sheet table.cgviz-rows thead th { font-weight: 600; vertical-align: bottom;
  border-bottom: 2px solid var(--jp-border-color0, #8c8c8c); }
.cgviz-sheet table.cgviz-rows tbody th { font-weight: 600; }
.cgviz-sheet table.cgviz-rows tr.cgviz-first > * {
  border-top: 1px solid var(--jp-border-color2, #c4c4c4); }
.cgviz-sheet table.cgviz-rows .cgviz-number { text-align: right; }
.cgviz-sheet .cgviz-custom { border: 1px solid currentColor; border-radius: 0.3em;
  padding: 0 0.35em; font-size: 0.85em; }
</style>"""
_NUMERIC = {"step", "input", "upstream", "local", "downstream"}


def table_html(listing: Listing) -> str:
    """The backward table as HTML."""
    top, left_out, bottom = cells.cut(listing)
    numeric = ' class="cgviz-number"'
    head = "".join(
        f'<th scope="col"{numeric if name in _NUMERIC else ""}>{name}</th>' for name in HEAD
    )
    body = [_html_rows(cells.fill(listing, n, step, BREAK)) for n, step in top]
    if left_out:
        words = f"({left_out} more rows)"
        body.append(f'<tr class="cgviz-first"><td colspan="{len(HEAD)}">{words}</td></tr>\n')
    body += [_html_rows(cells.fill(listing, n, step, BREAK)) for n, step in bottom]
    return (
        f'{STYLE}\n<div class="cgviz-sheet">\n'
        f'<table class="cgviz-rows">\n<caption>{escape(cells.caption(listing))}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(body)}</tbody>\n</table>\n</div>"
    )


def _html_rows(row: Cells) -> str:
    """One table row per input; what belongs to all of them spans the rows."""
    inputs = _numbers(row, None)
    span = f' rowspan="{len(inputs)}"' if len(inputs) > 1 else ""
    type_ = escape(row.type)
    if row.custom:
        type_ += ' <span class="cgviz-custom">custom</span>'
    found = []
    for i, (value, local, downstream) in enumerate(inputs):
        first = i == 0
        tds = []
        if first:
            tds.append(f'<td class="cgviz-number"{span}>{row.step}</td>')
            tds.append(f'<th scope="row"{span}>{escape(row.op)}</th><td{span}>{type_}</td>')
        tds.append(f'<td class="cgviz-number">{escape(value)}</td>')
        if first:
            tds.append(
                f'<td class="cgviz-number"{span}>{escape(cells.join(row.upstream, None))}</td>'
            )
        tds += [f'<td class="cgviz-number">{escape(x)}</td>' for x in (local, downstream)]
        if first:
            source = escape(cells.clipped(row.source, MOST_SOURCE))
            tds.append(f'<td{span} title="{escape(row.source)}">{source}</td>')
        mark = ' class="cgviz-first"' if first else ""
        found.append(f"<tr{mark}>{''.join(tds)}</tr>\n")
    return "".join(found)
