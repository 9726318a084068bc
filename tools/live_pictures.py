"""Run a notebook so that its live pictures play without a kernel, for pages made from it.

run                     runs a notebook
load_ipython_extension  loaded in its kernel: cells store their live pictures as HTML
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from IPython.display import display
from nbclient import NotebookClient
from nbformat import NotebookNode

SLOW = 600  # seconds a cell may take: lesson 08 saves and compiles models, slow on a busy machine
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}


def run(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook in a folder, and keep the outputs in the notebook."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    NotebookClient(
        notebook,
        timeout=SLOW,
        store_widget_state=False,
        extra_arguments=["--IPKernelApp.extra_extensions=live_pictures"],
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=os.environ | QUIET | {"PYTHONPATH": os.pathsep.join(filter(None, paths))})


def load_ipython_extension(shell: Any) -> None:
    """Show views, traces and sliders as HTML."""
    from cgviz.graph import Trace
    from cgviz.live.view import View
    from cgviz.moons import Sliders

    def show(shown: View) -> None:
        display({"text/html": shown.embed(), "text/plain": shown.words}, raw=True)

    formatter = shell.display_formatter.ipython_display_formatter
    formatter.for_type(View, show)
    formatter.for_type(Sliders, Sliders.show_still)
    formatter.for_type(Trace, lambda trace: show(trace.view()))
