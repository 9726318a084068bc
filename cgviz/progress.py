"""A line that says what is being done, while somebody waits for it."""

from __future__ import annotations

import sys
import time

PATIENCE = 3.0  # seconds after which somebody who waits wants to know what is being done
PAUSE = 0.5  # seconds between two lines, to be read


class Progress:
    """A line that says what is being done, if it takes long and somebody is looking.

    It is written to the error stream and vanishes at the end. A file, a pipe and a notebook that
    runs by itself get nothing: what is stored must not depend on how fast the machine was.
    """

    def __init__(self, title: str) -> None:
        self.doing = "first run"
        self._title = title
        self._runs = 0
        self._start = self._last = time.monotonic()
        self._written = 0

    def run(self) -> None:
        """f runs once more."""
        self._runs += 1
        now = time.monotonic()
        if now - self._last > PAUSE and now - self._start > PATIENCE and is_watched():
            self._last = now
            seconds = now - self._start
            line = f"{self._title}: {self.doing}, {self._runs} runs in {seconds:.0f} s"
            print(f"\r{line.ljust(self._written)}", end="", file=sys.stderr, flush=True)
            self._written = len(line)

    def close(self) -> None:
        """Remove the line."""
        if self._written:
            print(f"\r{' ' * self._written}\r", end="", file=sys.stderr, flush=True)


def is_watched() -> bool:
    """Whether somebody is looking: who runs a notebook as a whole answers no input."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    kernel = getattr(found, "kernel", None)
    return sys.stderr.isatty() or bool(getattr(kernel, "_allow_stdin", False))
