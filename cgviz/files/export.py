"""Save a trace to a file, by the suffix of its name.

A file is made whole before it takes its name, so a failure leaves what was there before.
"""

from __future__ import annotations

import io
import json
import os
from html import escape
from typing import Any

from .. import disk
from ..graph import Trace
from . import schema

PICTURES = (".svg", ".png", ".pdf")
SUFFIXES = (".html", *PICTURES, ".json")


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """What `trace.save` does."""
    target = disk.target(path, SUFFIXES)
    suffix = target.suffix.lower()
    if suffix == ".html":
        from ..live import page

        disk.write(target, page.page(trace).encode())
    else:
        disk.write(target, _picture(trace, suffix) if suffix in PICTURES else _document(trace))


def _document(trace: Trace) -> bytes:
    return json.dumps(schema.write(trace), allow_nan=False, separators=(",", ":")).encode()


def _picture(trace: Trace, suffix: str) -> bytes:
    """The picture as a file's bytes, the same whenever the trace is."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    from ..drawing import figure

    buffer = io.BytesIO()
    axes: Any = figure.plot(trace)
    title = f"How the gradient flows through {trace.title}"
    about = _about(title, axes.cgviz_alt, suffix)
    try:
        with mpl.rc_context({"svg.hashsalt": "cgviz"}):
            axes.figure.savefig(buffer, format=suffix[1:], bbox_inches="tight", metadata=about)
    finally:
        plt.close(axes.figure)
    return _described(buffer.getvalue(), axes.cgviz_alt) if suffix == ".svg" else buffer.getvalue()


def _described(svg: bytes, words: str) -> bytes:
    """An SVG that a screen reader takes as one picture with a title and a description."""
    svg = svg.replace(b"<svg ", b'<svg role="img" ', 1)
    return svg.replace(b"</title>", f"</title>\n <desc>{escape(words)}</desc>".encode(), 1)


def _about(title: str, words: str, suffix: str) -> dict[str, Any]:
    """What the picture shows, for who cannot see it, under the names that each format knows."""
    if suffix == ".svg":
        return {"Title": title, "Description": words, "Creator": "cgviz", "Date": None}
    if suffix == ".pdf":
        return {"Title": title, "Subject": words, "Creator": "cgviz", "CreationDate": None}
    return {"Title": title, "Description": words, "Software": "cgviz"}
