"""A trace as one HTML file: live, offline, without a kernel.

    page   a trace -> HTML

The file holds the module, the stylesheet and the state of the live picture, and nothing else: its
content security policy lets it load nothing and run this one script only.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from .. import style as tones
from ..graph import Trace
from . import looks, view
from .album import Album, Document

DARK = '[data-jp-theme-light="false"]'
BODY = """\
body { margin: 0; padding: 1rem; font-family: system-ui, sans-serif; }
h1 { font-size: 1.2rem; margin: 0 0 0.6rem; }
noscript { white-space: pre-wrap; }
"""


def page(
    trace: Trace,
    albums: Sequence[Album] = (),
    which: int | None = None,
    extra: Document | None = None,
    words: str = "",
) -> str:
    """A trace as a page that opens from disk and within another page.

    Args:
        trace: The trace.
        albums: Its pages, and those of a trace beside it; by default made here.
        which: The backward pass to begin with.
        extra: More of the view's document, such as the questions of a quiz.
        words: What it says without scripts; by default the trace as text.

    Returns:
        The HTML.
    """
    patient = [a.patiently() for a in albums] or [Album(trace).patiently()]
    which = which if which is not None else patient[0].which or 0
    extra = extra or {}
    document = view.document(trace, patient, which) | extra
    document["more"] = {
        f"{other}|": view.pages(patient, other, [])
        for other in range(len(trace.passes))
        if other != which
    }
    step = 0 if "quiz" in extra else document["pages"][0]["lines"]["steps"]
    state = {"document": document, "which": which, "step": step, "selected": ""}
    script = view.MODULE.read_text(encoding="utf-8") + "\nboot();\n"
    style = looks.css() + _ground("", tones.LIGHT) + _ground(DARK, tones.DARK) + BODY
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"How the gradient flows through {trace.title}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<main><h1>{escape(title)}</h1>\n"
        f"<noscript>{escape(words or repr(trace))}</noscript>\n"
        '<div id="cgviz"></div></main>\n'
        f'<script type="application/json" id="cgviz-state">{embedded(state)}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )


def _ground(when: str, palette: tones.Palette) -> str:
    return f"body{when} {{ background: {palette.paper}; color: {palette.ink}; }}\n"


def embedded(state: Any) -> str:
    r"""JSON that cannot end the script element it stands in.

    >>> embedded("</script>")
    '"\\u003c/script>"'
    """
    text = json.dumps(state, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for sign in "<\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
