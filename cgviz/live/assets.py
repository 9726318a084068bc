"""What the browser gets: one ES module, the stylesheet, and whole pages.

    module      the files of `js`, joined into one module
    stylesheet  `view.css`, with the light and the dark palette of `style` as its variables
    version     a hash of both, by which a page knows whether it has them
    stub        the small module of each widget, which loads the joined one
    still       the style of the picture that is stored beside a live one
    shared      what embedded pictures share: module and stylesheet, compressed, and a loader
    page        a file of HTML: live, offline, without a kernel
    embed       HTML for the middle of another page
    state       what both hold: the live picture with all its pages

The files are joined because a module that is loaded from a Blob, as a widget's is, cannot import
other files, and a saved page may load nothing. Not by a bundler, which would need Node and a build
step for what a page of Python does.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

from .. import style
from . import pages
from .pages import Document, PageBuilder

FOLDER = Path(__file__).parent
# Marks of a dark page: JupyterLab, Notebook; VS Code; Colab; ours, for saved pages and marimo.
DARK = (
    ':is([data-jp-theme-light="false"] .cgviz-view):not(.cgviz-light)',
    ":is(.vscode-dark .cgviz-view):not(.cgviz-light)",
    ":is(html[theme=dark] .cgviz-view):not(.cgviz-light)",
    ".cgviz-view.cgviz-dark:not(.cgviz-light)",
)
MOST_FOLDS = 1_000_000  # compressed bytes, in one direction, of the pictures with one fold toggled
MOST_MORE = 36_000  # bytes of all pictures up to which those with several folds toggled are added
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.mjs";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


def _text(name: str) -> str:
    """A file of this folder."""
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def module() -> str:
    """The module: each file once, after those that it imports, without imports and exports.

    Only `mount`'s default export stays, `{ render, embed }`, which `load` calls. All files share
    one scope, so no two of them may define the same name.
    """
    return _joined("mount", set())


def _joined(name: str, seen: set[str]) -> str:
    """A file after those that it imports, as far as they have not been `seen`."""
    seen.add(name)
    text = _text(f"js/{name}.mjs")
    before = (_joined(each, seen) for each in _IMPORT.findall(text) if each not in seen)
    return "\n".join([*before, _EXPORT.sub("", _IMPORT.sub("", text))])


def version() -> str:
    """A hash of module and stylesheet: a page may hold views of two versions of cgviz."""
    return hashlib.sha256((module() + stylesheet()).encode()).hexdigest()[:12]


def stub() -> str:
    """The module of each widget: it gets the joined module from the page, else from the kernel."""
    render = f'(given) => showWidget(given, "{version()}")'
    return f"{_joined('load', set())}\nexport default {{ render: {render} }};\n"


@cache
def shared() -> str:
    """What a page with embedded pictures needs once; a second copy does no harm."""
    texts = packed({"module": module(), "stylesheet": stylesheet()})
    # A blank line would end HTML in Markdown.
    script = re.sub(r"\n{2,}", "\n", _joined("load", set())).strip()
    return (
        f'<script type="text/plain" data-cgviz="{version()}">{texts}</script>\n'
        f'<script type="module">\n{script}\nshowEmbedded();\n</script>\n'
    )


def still() -> str:
    """The style of a stored picture: hidden where a live one is shown, dark on a dark page."""
    return f"<style>{_text('still.css')}</style>"


def packed(value: Any) -> str:
    """A document as compressed JSON, in base64; equal documents give equal text."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


@cache
def stylesheet() -> str:
    """The stylesheet.

    >>> "--cgviz-forward: #0072B2;" in stylesheet()
    True
    """
    light, dark = _variables(style.LIGHT), _variables(style.DARK)
    head = f".cgviz-view {{ {light} }}\n@media screen {{ {', '.join(DARK)} {{ {dark} }} }}\n"
    return head + _text("view.css")


def _variables(palette: style.Palette) -> str:
    named = asdict(palette)
    return " ".join(f"--cgviz-{name.replace('_', '-')}: {tone};" for name, tone in named.items())


# --- pages without a kernel ----------------------------------------------------------------------


def page(title: str, words: str, state: str) -> str:
    """A trace as an HTML page that opens from disk and within another page.

    It holds the module, the stylesheet and the state of the live picture, and nothing else; its
    content security policy lets it load nothing and run this one script only. (`data:` images are
    allowed, because a PNG is made by way of one.)

    Args:
        title: The title of the trace.
        words: The text shown where no script runs.
        state: What `state` returns.

    Returns:
        The HTML.
    """
    script = module() + "\nboot();\n"
    dark = f"@media screen and (prefers-color-scheme: dark) {{ {_ground(style.DARK)} }}\n"
    sheet = stylesheet() + _ground(style.LIGHT) + dark + _text("page.css")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(sheet)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return _text("page.html").format(
        policy=policy,
        title=escape(f"How the gradient flows through {title}"),
        sheet=sheet,
        words=escape(words),
        state=state,
        script=script,
    )


def embed(picture: str, state: str) -> str:
    """What `View.embed` returns; where no script runs, the `picture` stays."""
    return (
        f'<div class="cgviz-embed" data-version="{version()}">\n{picture}\n'
        f'<script type="text/plain">{state}</script>\n</div>\n{shared()}'
    )


def state(builders: Sequence[PageBuilder], which: int, extra: Document, start: str) -> str:
    """The state of a live picture and its pages, compressed.

    Without a kernel to ask for a layout, it also needs the pictures of other passes, and those with
    scopes and custom ops opened and closed.

    Args:
        builders: The page builder of one trace, or those of two traces side by side.
        which: The backward pass to begin with.
        extra: Further entries of the view's document, such as the questions of a quiz.
        start: The step to begin at: "forward", when the forward pass has run, or "end".
    """
    patient = [each.patiently() for each in builders]
    document = pages.document(patient, which) | extra
    found = {"": document.pop("pages"), **dict(_others(patient, which, len(document["passes"])))}
    step = found[""][0]["displays"][0]["steps"] if start == "end" else 0
    begin = {"document": document, "which": which, "step": step}
    # Steps of a training share display lists: each is kept once, and pages refer to it by index.
    kept: dict[str, tuple[int, Document]] = {}
    for page in chain.from_iterable(found.values()):
        own = ((json.dumps(x), x) for x in page["displays"])
        page["displays"] = [kept.setdefault(text, (len(kept), x))[0] for text, x in own]
    displays = [each for _, each in kept.values()]
    return packed({"state": begin, "pages": [*found.items()], "displays": displays})


def _others(
    builders: Sequence[PageBuilder], which: int, passes: int
) -> Iterator[tuple[str, list[Document]]]:
    """The other pages, each with its key: passes, moments, and folds opened and closed.

    n folds can be open or closed in 2^n ways, so not all are kept: each fold toggled alone, also at
    each moment and with each of the repeats in turn, and several folds as long as the pages are
    small. For the rest, the browser shows the page nearest to what is wanted: the fold that was
    clicked is as wanted, others may not be.
    """
    for other in range(passes):
        if other != which:
            yield pages.page_key(other, []), pages.pages(builders, other, [])
    repeats = dict.fromkeys(name for each in builders for name in each.others(which))
    alone = (*builders[0].moments, *repeats)
    for name in alone:
        yield pages.page_key(which, [name]), pages.pages(builders, which, [name])
    starts: list[tuple[str, ...]] = [(), *((name,) for name in alone)]
    seen, waiting, size = {*starts}, [*starts], 0
    while waiting:
        toggled = waiting.pop(0)
        names = dict.fromkeys(n for each in builders for n in each.names(which, toggled))
        for then in [tuple(sorted({*toggled} ^ {name})) for name in names]:
            if then in seen or size > (MOST_FOLDS if toggled in starts else MOST_MORE):
                continue
            seen.add(then)
            waiting.append(then)
            found = pages.pages(builders, which, then)
            size += len(zlib.compress(json.dumps([x["displays"][0] for x in found]).encode()))
            yield pages.page_key(which, then), found


def _ground(palette: style.Palette) -> str:
    return f"body {{ background: {palette.paper}; color: {palette.text}; }}\n"


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
