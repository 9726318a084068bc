"""An IPython extension: a cell stores its live picture as HTML that plays without a kernel."""

from __future__ import annotations

from typing import Any

from IPython.display import display

from cgviz.graph import Trace
from cgviz.live.view import View


def show(shown: View) -> None:
    """Show a view as such HTML."""
    display({"text/html": shown.embed(), "text/plain": shown.words}, raw=True)


def load_ipython_extension(shell: Any) -> None:
    """Show views and traces so."""
    formatter = shell.display_formatter.ipython_display_formatter
    formatter.for_type(View, show)
    formatter.for_type(Trace, lambda trace: show(trace.view()))
