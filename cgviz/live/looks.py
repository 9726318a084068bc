"""The stylesheet of the live picture: `view.css` with the palette of `style` as its variables.

css   the stylesheet, light and dark
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from .. import style

SHEET = Path(__file__).parent / "view.css"
# Where dark pages say so: JupyterLab and Notebook, VS Code, Colab; ours; marimo's shadow root.
DARK = (
    '[data-jp-theme-light="false"] .cgviz-view',
    ".vscode-dark .cgviz-view",
    "html[theme=dark] .cgviz-view",
    ".cgviz-view.cgviz-dark",
)


@lru_cache(maxsize=1)
def css() -> str:
    """The stylesheet.

    >>> "--cgviz-forward: #0072B2;" in css()
    True
    """
    light = _variables(style.LIGHT)
    dark = _variables(style.DARK)
    head = f".cgviz-view {{ {light} }}\n{', '.join(DARK)} {{ {dark} }}\n"
    return head + SHEET.read_text(encoding="utf-8")


def _variables(palette: style.Palette) -> str:
    named = asdict(palette)
    return " ".join(f"--cgviz-{name.replace('_', '-')}: {tone};" for name, tone in named.items())
