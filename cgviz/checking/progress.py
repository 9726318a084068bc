"""A line that says what is being done, if it takes long and somebody is looking."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 3.0  # seconds in a terminal
LONG = 10.0  # in a notebook, where the line stays
PAUSE = 0.5
BAR = 24


class Progress:
    """Counts runs of f, and shows a bar once that takes seconds.

    A terminal is written to on its error stream, and the bar vanishes at the end. A notebook that
    somebody sits at shows it in the cell, and how long it took at the end. A file, a pipe and a
    notebook that runs by itself get nothing: what is stored must not depend on how fast the
    machine was.
    """

    def __init__(self, title: str, stages: int) -> None:
        self.title = title
        self.stages = stages
        self.stage = 0
        self.doing = ""
        self.runs = 0
        self._start = self._last = time.monotonic()
        self._handle: Any = None
        self._written = 0

    def next(self, doing: str) -> None:
        """The next stage begins."""
        self.stage += 1
        self.doing = doing

    def run(self) -> None:
        """f runs once more."""
        self.runs += 1
        now = time.monotonic()
        if now - self._last > PAUSE and now - self._start > PATIENCE:
            self._last = now
            self._show(now - self._start)

    def _show(self, seconds: float) -> None:
        done = BAR * min(self.stage, self.stages) // self.stages
        line = (
            f"check of {self.title} [{'█' * done}{'░' * (BAR - done)}] {self.doing}: "
            f"{self.runs} runs of f in {seconds:.0f} s"
        )
        if sys.stderr.isatty():
            print(f"\r{line.ljust(self._written)}", end="", file=sys.stderr, flush=True)
            self._written = len(line)
        elif seconds > LONG and _in_notebook():
            from IPython.display import display

            data = {"text/plain": line}
            if self._handle is None:
                self._handle = display(data, raw=True, display_id=True)
            else:
                self._handle.update(data, raw=True)

    def close(self) -> None:
        """Remove the line; in a notebook, where a cell cannot be emptied, leave the outcome."""
        if self._written:
            print(f"\r{' ' * self._written}\r", end="", file=sys.stderr, flush=True)
        if self._handle is not None:
            seconds = time.monotonic() - self._start
            line = f"check of {self.title}: {self.runs} runs of f in {seconds:.0f} s"
            self._handle.update({"text/plain": line}, raw=True)


def _in_notebook() -> bool:
    """Whether a cell is being run by somebody: who runs a notebook as a whole answers no input."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return bool(getattr(getattr(found, "kernel", None), "_allow_stdin", False))
