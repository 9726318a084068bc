"""The browser's part: the ES modules of `js`, joined into the one that a widget may have.

A widget's module is loaded from a Blob, from where nothing can be imported, and a saved page may
load nothing either. A bundler lost: it would be a build, and Node, for what a page of Python does.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SCRIPTS = Path(__file__).parent / "js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.mjs";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def source() -> str:
    """The module: each file once, after those that it imports, without imports and exports.

    Only `mount`'s default export stays: `{ render }`, as anywidget wants it. The files share one
    scope in it, so no two may give the same name to something.
    """
    return "\n".join(_in_order("mount", []))


def _in_order(name: str, seen: list[str]) -> list[str]:
    seen.append(name)
    text = (SCRIPTS / f"{name}.mjs").read_text(encoding="utf-8")
    before = [
        part for each in _IMPORT.findall(text) if each not in seen for part in _in_order(each, seen)
    ]
    return [*before, _EXPORT.sub("", _IMPORT.sub("", text))]
