"""A trace as HTML: live, offline, without a kernel.

    page    a trace -> a file of HTML
    embed   a trace -> HTML for the middle of another page

Both hold the module, the stylesheet and the state of the live picture, and nothing else; the
content security policy of the file lets it load nothing and run this one script only. (It lets in
images of its own data, by which a PNG is made.) As there is no kernel to ask for a layout, the
pictures of other passes, and with scopes and custom ops opened and closed, are in the state, which
is compressed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from .. import style as tones
from ..graph import Trace
from . import assets
from . import pages as builder
from .pages import Document, PageBuilder

if TYPE_CHECKING:
    from .view import View

MOST_FOLDS = 1_000_000  # bytes of the pictures in which one fold is opened or closed
MOST_MORE = 36_000  # bytes up to which there are those in which several are
DARK = "@media (prefers-color-scheme: dark) { %s }\n"
BODY = """\
body { margin: 0; padding: 1rem; font-family: system-ui, sans-serif; }
h1 { font-size: 1.2rem; margin: 0 0 0.6rem; }
noscript { white-space: pre-wrap; }
"""


def page(
    trace: Trace,
    builders: Sequence[PageBuilder] = (),
    which: int | None = None,
    extra: Document | None = None,
    words: str = "",
    start: str = "forward",
) -> str:
    """A trace as a page that opens from disk and within another page.

    Args:
        trace: The trace.
        builders: Of its pages, and those of a trace beside it; by default made here.
        which: The backward pass to begin with.
        extra: More of the view's document, such as the questions of a quiz.
        words: What it says without scripts; by default the trace as text.
        start: Where it begins: "forward", when the forward pass has run, or "end".

    Returns:
        The HTML.
    """
    packed = _packed(trace, builders, which, extra, start)
    script = assets.module() + "\nboot();\n"
    style = assets.stylesheet() + _ground(tones.LIGHT) + DARK % _ground(tones.DARK) + BODY
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
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
        f'<script type="text/plain" id="cgviz-state">{packed}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )


def embed(shown: View, height: int | None) -> str:
    """What `View.embed` returns; where no script runs the picture stays."""
    packed = _packed(shown.trace, shown.builders, shown.which, shown.kept(), shown.start)
    space = f"height:{height}px;overflow:auto" if height else "display:block"
    return (
        f'<div class="cgviz-embed" data-version="{assets.version()}" style="{space}">\n'
        f"{shown.still()}\n"
        f'<script type="text/plain">{packed}</script>\n</div>\n{assets.shared()}'
    )


def _others(
    builders: Sequence[PageBuilder], which: int, passes: int
) -> Iterator[tuple[str, list[Document]]]:
    """The other pictures, each by its name: passes, moments, and what is opened and closed.

    Folds can be open or closed in 2^n ways, so not all are kept: each one by itself, and more as
    long as they are small; and each of repeats with all folds as at first. The page shows the one
    most like what is wanted: what was clicked is as wanted, another fold may not be.
    """
    for other in range(passes):
        if other != which:
            yield builder.page_key(other, []), builder.pages(builders, other, [])
    alone = [*builders[0].moments, *(name for each in builders for name in each.others(which))]
    for name in dict.fromkeys(alone):
        yield builder.page_key(which, [name]), builder.pages(builders, which, [name])
    seen: set[tuple[str, ...]] = {()}
    waiting: list[tuple[str, ...]] = [()]
    size = 0
    while waiting:
        toggled = waiting.pop(0)
        names = list(dict.fromkeys(n for each in builders for n in each.names(which, toggled)))
        several = [tuple(sorted(names))] if not toggled else []
        for then in [tuple(sorted({*toggled} ^ {name})) for name in names] + several:
            if then in seen or size > (MOST_MORE if toggled else MOST_FOLDS):
                continue
            seen.add(then)
            waiting.append(then)
            found = builder.pages(builders, which, then)
            size += len(zlib.compress(json.dumps([x["display"] for x in found]).encode()))
            yield builder.page_key(which, then), found


def _packed(
    trace: Trace,
    builders: Sequence[PageBuilder],
    which: int | None,
    extra: Document | None,
    start: str,
) -> str:
    """The state and its pages, compressed."""
    patient = [each.patiently() for each in builders] or [PageBuilder(trace).patiently()]
    which = which if which is not None else patient[0].which or 0
    document = builder.document(trace, patient, which) | (extra or {})
    pages = {"": document.pop("pages"), **dict(_others(patient, which, len(trace.passes)))}
    step = pages[""][0]["display"]["steps"] if start == "end" else 0
    state = {"document": document, "which": which, "step": step}
    return assets.packed({"state": state, "pages": [*pages.items()]})


def _ground(palette: tones.Palette) -> str:
    return f"body {{ background: {palette.paper}; color: {palette.text}; }}\n"


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
