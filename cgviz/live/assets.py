"""What the browser gets of ours: one ES module, and the stylesheet.

    module      the modules of `js`, joined
    stylesheet  `view.css` with the palettes of `style` as its variables, light and dark
    version     the name of both, by which a page knows whether it has them
    stub        the small module of each widget, which finds the module
    still       the style of the picture that is stored beside a live one
    shared      what embedded pictures share: both, compressed, and the script that uses them

A widget's module is loaded from a Blob, from where nothing can be imported, and a saved page may
load nothing either. Not a bundler, because that is a build, and Node, for what a page of Python
does.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from base64 import b64encode
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from .. import style

FOLDER = Path(__file__).parent
# Where dark pages say so: JupyterLab and Notebook, VS Code, Colab; ours; marimo's shadow root.
DARK = (
    '[data-jp-theme-light="false"] .cgviz-view:not(.cgviz-light)',
    ".vscode-dark .cgviz-view:not(.cgviz-light)",
    "html[theme=dark] .cgviz-view:not(.cgviz-light)",
    ".cgviz-view.cgviz-dark:not(.cgviz-light)",
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.mjs";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def module() -> str:
    """The module: each file once, after those that it imports, without imports and exports.

    Only `mount`'s default export stays: `{ render }`, as anywidget wants it. The files share one
    scope in it, so no two may give the same name to something.
    """
    return _joined("mount")


def _joined(name: str) -> str:
    return "\n".join(_in_order(name, []))


def _in_order(name: str, seen: list[str]) -> list[str]:
    seen.append(name)
    text = (FOLDER / "js" / f"{name}.mjs").read_text(encoding="utf-8")
    before = [
        part for each in _IMPORT.findall(text) if each not in seen for part in _in_order(each, seen)
    ]
    return [*before, _EXPORT.sub("", _IMPORT.sub("", text))]


@cache
def version() -> str:
    """A name for this module and stylesheet: pages of two versions of cgviz can be one page."""
    return hashlib.sha256((module() + stylesheet()).encode()).hexdigest()[:12]


@cache
def stub() -> str:
    """The module of each widget: it takes the module from the page, or else from the kernel."""
    render = f'(given) => showWidget(given, "{version()}")'
    return f"{_joined('load')}\nexport default {{ render: {render} }};\n"


@cache
def shared() -> str:
    """What a page with embedded pictures needs once; that it is there again changes nothing."""
    texts = packed({"module": module(), "stylesheet": stylesheet()})
    script = re.sub(r"\n{2,}", "\n", _joined("load")).strip()  # a blank line ends it in Markdown
    return (
        f'<script type="text/plain" data-cgviz="{version()}">{texts}</script>\n'
        f'<script type="module">\n{script}\nshowEmbedded();\n</script>\n'
    )


@cache
def still() -> str:
    """The style of a stored picture: hidden beside a live one, dark where the page is."""
    return f"<style>{(FOLDER / 'still.css').read_text(encoding='utf-8')}</style>"


def packed(value: Any) -> str:
    """A document as JSON, compressed, as base64: equal for equal documents."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


@cache
def stylesheet() -> str:
    """The stylesheet.

    >>> "--cgviz-forward: #0072B2;" in stylesheet()
    True
    """
    light, dark = _variables(style.LIGHT), _variables(style.DARK)
    head = f".cgviz-view {{ {light} }}\n{', '.join(DARK)} {{ {dark} }}\n"
    return head + (FOLDER / "view.css").read_text(encoding="utf-8")


def _variables(palette: style.Palette) -> str:
    named = asdict(palette)
    return " ".join(f"--cgviz-{name.replace('_', '-')}: {tone};" for name, tone in named.items())
