"""A page of feedback for a student: what was run, what it printed, and the marks with a reason.

What a student has written is shown as text, never as markup, and the page allows no script,
because it is also opened in the teacher's browser.
"""

from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING, Any

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

if TYPE_CHECKING:
    from judge import Result

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>{title}</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif }}
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ overflow-x: auto; padding: .5rem; border: 1px solid GrayText; white-space: pre-wrap }}
pre.out {{ border-style: none none none dotted; margin-left: 1rem }}
.mark {{ border-left: .3rem solid; padding-left: .7rem; font-weight: bold }}
img {{ max-width: 100%; background: white }}
</style></head><body>
"""

ANSI = re.compile(r"\x1b\[[0-9;]*m")
"""Escape codes for the colours of a terminal."""


def feedback(name: str, result: Result, reports: list[dict[str, Any]], reveal: bool) -> str:
    """Return the page, in HTML.

    Args:
        name: The exercise.
        result: Its marks, notices and cells.
        reports: The reports of the code cells that ran; a hand-in can forge them.
        reveal: Whether to show the hidden tests.
    """
    parts = [HEAD.format(title=html.escape(f"{name}: {result.points:g} of {result.of:g}"))]
    parts.append(f"<h1>{html.escape(name)}: {result.points:g} of {result.of:g} points</h1>")
    if result.noticed:
        items = "".join(f"<li>{html.escape(words)}</li>" for words in result.noticed)
        parts.append(f"<h2>What was noticed</h2><ul>{items}</ul>")
    left = iter(reports)
    for cell in result.cells:
        if cell.kind == "markdown":
            # The exercise's own prose is the teacher's, so its markup is safe.
            ours = cell.role == "prose"
            parts.append(_prose(cell.source) if ours else _pre(cell.source))
            continue
        parts.append(_pre(cell.source))
        report = next(left, None)
        parts.append("<p>(not run)</p>" if report is None else _outputs(report))
        if cell.role == "tests":
            if reveal:
                parts.append(f"<p>Hidden tests:</p>{_pre(cell.probe)}")
            parts.append(_mark(cell.name, result))
    if not result.cells:
        parts += [_mark(mark, result) for mark in result.marks]
    return "\n".join(parts) + "\n</body></html>\n"


def _prose(source: str) -> str:
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


def _mark(name: str, result: Result) -> str:
    mark = result.marks[name]
    sign, why = ("✗", f": {mark.why}") if mark.why else ("✓", "")
    words = f"{sign} {name}: {mark.points:g} of {mark.of:g} points{why}"
    return f'<p class="mark">{html.escape(words)}</p>'


def _outputs(report: dict[str, Any]) -> str:
    texts = [report.get(name) for name in ("stdout", "stderr")]
    parts = [_pre(text, "out") for text in texts if text]
    shown = report.get("shown")
    for output in shown if isinstance(shown, list) else []:
        if isinstance(output, dict):
            parts.append(_image(output) or _pre(output.get("text/plain"), "out"))
    return "\n".join(parts)


def _image(output: dict[str, Any]) -> str:
    try:
        data = base64.b64decode(str(output["image/png"]), validate=True)
    except (KeyError, ValueError):
        return ""
    alt = html.escape(str(output.get("text/plain", "a figure")), quote=True)
    return f'<img alt="{alt}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'


def _pre(text: Any, kind: str = "") -> str:
    words = html.escape(ANSI.sub("", str(text)))
    return f'<pre class="{kind}">{words}</pre>' if kind else f"<pre>{words}</pre>"
