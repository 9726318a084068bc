"""What `check`, `diagnose` and `watch` report: findings as text and HTML, and their progress.

Finding    one thing that is wrong with a gradient
Outcome    the base class of `Report` and `Diagnosis`
Progress   a line that says what is being done, shown while somebody waits
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from . import style
from .graph import Op, Source
from .reading.format import clipped, sheet, stylesheet
from .recording.source import elsewhere

MOST_TEXT = 70  # characters of the learner's line, so that it fits beside the words about it
SIGNS = {  # by `level`, and for the findings of a diagnosis by `what`
    "error": style.Sign("✗", "failed"),
    "warning": style.Sign("!", "warning"),
    "note": style.Sign("i", "note"),
    "none": style.NONE,
    "zero": style.ZERO,
    "nan": style.NAN,
    "inf": style.INFINITE,
    "vanishing": style.Sign("↓", "vanishing"),
    "exploding": style.Sign("↑", "exploding"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where it began, and what to do about it.

    Attributes:
        what: The failed test of `check`; of `diagnose`: "none", "zero", "nan", "inf",
            "vanishing", "exploding", ...
        message: What is wrong.
        hint: What to do.
        lesson: The notebook that explains it.
        op: Where it began, or None.
        sources: Names of those whose gradient it is about.
        which: Index of the backward pass in `trace.passes`, or None.
        level: "error" or "warning"; a "note" is shown as a remark.
    """

    what: str
    message: str
    hint: str
    lesson: str
    op: Op | None = None
    sources: tuple[str, ...] = ()
    which: int | None = None
    line: Source | None = None  # where it began, if not on the op's own line
    level: str = "error"

    @property
    def rule(self) -> str:
        """The test of `check` that failed: the same as `what`."""
        return self.what

    @property
    def name(self) -> str:
        """The name of the op where it began, or ""."""
        return "" if self.op is None else self.op.name

    @property
    def source(self) -> Source | None:
        """The learner's own line where it began."""
        return self.line or (None if self.op is None else self.op.source or self.op.rule)

    @property
    def sign(self) -> style.Sign:
        """The symbol and the word that the finding begins with."""
        return SIGNS.get(self.what) or style.Sign(SIGNS[self.level].symbol, self.what)

    def __repr__(self) -> str:
        asides = [f"  {name}: {text}" for name, text in self._asides()]
        return "\n".join([f"{self.sign}: {self.message}", *asides])

    def html(self) -> str:
        """The finding as an HTML list item."""
        asides = "".join(f"<p>{name}: {code(text)}</p>" for name, text in self._asides())
        level = SIGNS[self.level].word  # spoken if the word beside the symbol is a rule's name
        spoken = 'aria-hidden="true"' if self.what in SIGNS else f'role="img" aria-label="{level}"'
        return (
            f'<li class="cgviz-finding cgviz-{self.level}"><p>'
            f"<span {spoken}>{escape(self.sign.symbol)}</span> "
            f"<strong>{escape(self.sign.word)}</strong>: {code(self.message)}</p>{asides}</li>\n"
        )

    def _asides(self) -> list[tuple[str, str]]:
        return [(n, t) for n, t in (("hint", self.hint), ("lesson", self.lesson)) if t]


class Outcome:
    """What `check` and `diagnose` return: findings, and notes, which are not problems."""

    headline: str  # the outcome in one line

    def __init__(self, title: str, findings: Iterable[Finding], notes: Iterable[str] = ()) -> None:
        self.title = title
        self.findings = tuple(findings)
        self.notes = tuple(notes)

    @property
    def ok(self) -> bool:
        """Whether no error was found; warnings do not count."""
        return not any(each.level == "error" for each in self.findings)

    def head(self) -> list[str]:
        """The paragraphs before the findings."""
        return [self.headline]

    def page(self) -> str:
        """The HTML before the findings."""
        return f"<p><strong>{escape(self.headline)}</strong></p>\n"

    def __repr__(self) -> str:
        notes = ["\n".join(self.notes)] if self.notes else []
        return "\n\n".join([*self.head(), *map(repr, self.findings), *notes])

    def _repr_html_(self) -> str:
        items = "".join(each.html() for each in self.findings)
        found = f'{STYLE}\n<ol class="cgviz-findings">\n{items}</ol>\n' if items else ""
        notes = "".join(f"<p>{code(note)}</p>\n" for note in self.notes)
        return sheet(self.page(), found, notes, kind=f"cgviz-{type(self).__name__.lower()}")


def code(text: str) -> str:
    """Text as HTML, escaped, with each part in backquotes as `<code>`.

    >>> code("`x < y` is a bool")
    '<code>x &lt; y</code> is a bool'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def line(source: Source | None) -> str:
    """The learner's own line in brackets, with a space before; empty where it is not known."""
    text = f": `{clipped(source.text, MOST_TEXT)}`" if source and source.text else ""
    return f" (line {source.line}{elsewhere(source.file)}{text})" if source else ""


STYLE = stylesheet(__file__, "findings.css")


# --- while somebody waits ------------------------------------------------------------------------

PATIENCE = 3.0  # seconds of waiting before the line is shown
PAUSE = 0.5  # minimum seconds between two lines, so that each can be read


class Progress:
    """A line that says what is being done, shown if it takes long and somebody is watching.

    The line is removed at the end. A file, a pipe and a notebook that runs unattended get no line:
    what is stored must not depend on the speed of the machine.
    """

    def __init__(self, title: str) -> None:
        self.doing = "first run"
        self._title = title
        self._runs = 0
        self._start = self._last = time.monotonic()
        self._shown = False

    def run(self) -> None:
        """Count one more run, and update the line when that is due."""
        self._runs += 1
        now = time.monotonic()
        if now - self._last > PAUSE and now - self._start > PATIENCE and is_watched():
            self._last = now
            seconds = now - self._start
            self._show(f"{self._title}: {self.doing}, {self._runs} runs in {seconds:.0f} s")

    def close(self) -> None:
        """Remove the line."""
        if self._shown:
            self._show("")

    def _show(self, line: str) -> None:
        if sys.stderr.isatty():
            erased = "\r\x1b[K"  # back to the start, then erase to the end of the line
            print(f"{erased}{line}", end="", file=sys.stderr, flush=True)
        else:  # a notebook, where the error stream would leave an empty red line
            from IPython.display import HTML, display

            display(HTML(escape(line)), display_id=str(id(self)), update=self._shown)
        self._shown = True


def is_watched() -> bool:
    """Whether somebody is watching; a notebook that runs unattended allows no input."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    kernel = getattr(found, "kernel", None)
    return sys.stderr.isatty() or bool(getattr(kernel, "_allow_stdin", False))
