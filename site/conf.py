"""Sphinx's settings for the site; `build.py` runs the notebooks first, and then Sphinx."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

import cgviz

project = "cgviz"
html_title = f"cgviz {cgviz.__version__}"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
default_role = "code"  # docstrings write code as `x`

# The notebooks have been run, with live pictures in place of widgets, which need a kernel.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # else each page asks a server for scripts
nb_merge_streams = True
nb_number_source_lines = False
suppress_warnings = ["misc.highlighting_failure"]  # an error's message is no Python
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
myst_heading_slug_func = "conf.slug"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
python_use_unqualified_type_names = True
napoleon_use_rtype = False

html_theme = "furo"
html_static_path = ["static"]
html_js_files = ["site.js"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_search_summary = False  # browsers let no page from disk read another, as this would
html_math_renderer = "mathml"

TEX = [  # what latex2mathml does not know, or turns into more than browsers draw
    (r"\\\\\[[^]]*\]", r"\\\\"),
    (r"\{aligned\}", "{split}"),
    (r"\\!", ""),
    (r"\\(sin|cos) ", r"\\\1\\,"),
    (r"\\xrightarrow(\{.*?\})", r"\\overset\1{\\longrightarrow}"),
]
NOTHING = (
    '<mo stretchy="true" fence="true" form="prefix" />'  # an invisible bracket, which takes space
)


def slug(heading: str) -> str:
    """The anchor of a heading, as Jupyter makes it."""
    return heading.replace(" ", "-")


def mathml(tex: str, display: str) -> str:
    """A formula as MathML, which browsers draw without a script."""
    for pattern, instead in TEX:
        tex = re.sub(pattern, instead, tex)
    return convert(tex, display=display).replace(NOTHING, "")


def inline(writer: Any, node: Any) -> None:
    """Write a formula in a line of text."""
    writer.body.append(mathml(node.astext(), "inline"))


def block(writer: Any, node: Any) -> None:
    """Write a displayed formula."""
    writer.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')


def skipped(visit: Any) -> Any:
    """A visitor that writes a node by `visit` alone, and skips its children."""
    from docutils.nodes import SkipNode

    def visited(writer: Any, node: Any) -> None:
        visit(writer, node)
        raise SkipNode

    return visited


def setup(app: Sphinx) -> None:
    """Let Sphinx write formulas as MathML, and compute the stem of each word only once."""
    stem: Any = cache(SearchEnglish({}).stem)
    app.add_search_language(type("Search", (SearchEnglish,), {"stem": lambda _, word: stem(word)}))
    app.add_html_math_renderer("mathml", (skipped(inline), None), (skipped(block), None))
