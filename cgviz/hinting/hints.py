"""Hints under TensorFlow's own errors: what was done, how to fix it, which lesson tells more.

    explain   an error -> a Hint, or None where nothing is sure
    add       an error gets its hint as a note (PEP 678); what leaves a recording has it
    load_ipython_extension   the same for a whole notebook: `%load_ext cgviz`

The error stays the same object with the same arguments and traceback; only a note is added.
"""

from __future__ import annotations

import logging
from typing import Any

from ..lessons import DEBUGGING
from .book import BOOK, INTEGER_WARNING, Clues, Hint


def explain(error: BaseException) -> Hint | None:
    """Say what one of TensorFlow's or Keras's gradient errors means.

    Args:
        error: The exception, best as it was caught, with its traceback.

    Returns:
        A hint, or None where cgviz is not sure.

    Example:
        >>> from cgviz.hinting import hints
        >>> error = RuntimeError("tf.gradients is not supported when eager execution is enabled.")
        >>> print(hints.explain(error).what)
        tf.gradients is from TensorFlow 1, and works in graphs only.
        >>> hints.explain(ValueError("something else")) is None
        True
    """
    clues = Clues(error)
    return next((hint for entry in BOOK if (hint := entry.hint(clues))), None)


def add(error: BaseException) -> Hint | None:
    """Add the hint to the error as a note, once; a hint must never be an error of its own.

    Args:
        error: The exception.

    Returns:
        The hint that the error now carries, or None.

    Example:
        >>> error = RuntimeError("tf.gradients is not supported when eager execution is enabled.")
        >>> hint = add(error)
        >>> error.__notes__[0] == str(hint)
        True
    """
    try:
        hint = explain(error)
        if hint is not None and str(hint) not in getattr(error, "__notes__", ()):
            error.add_note(str(hint))
    except Exception:  # the learner's own error is what matters
        return None
    return hint


# --- in a notebook -----------------------------------------------------------------------------


class _IntegerWarning(logging.Filter):
    """Adds the hint to TensorFlow's warning that an integer cannot be watched."""

    def filter(self, record: logging.LogRecord) -> bool:
        found = INTEGER_WARNING.search(record.getMessage())
        if found and "cgviz:" not in str(record.msg):
            hint = Hint(
                f"a tape cannot watch {found.group(1)}: its gradient will be None.",
                "Write `2.` instead of `2`, or convert with tf.cast(x, tf.float32).",
                DEBUGGING,
            )
            record.msg, record.args = f"{record.getMessage()}\n{hint}", None
        return True


class _Extension:
    """What `%load_ext cgviz` has put into a shell, so that it can be taken out again."""

    def __init__(self, shell: Any) -> None:
        import tensorflow as tf

        self.shell = shell
        self.before = (shell.custom_exceptions, shell.CustomTB)
        # Only what the book knows: IPython has ways of its own to show syntax errors.
        self.mine = (
            *(TypeError, ValueError, AttributeError, LookupError, RuntimeError),
            tf.errors.OpError,
        )
        self.filter = _IntegerWarning()
        self.logger = logging.getLogger("tensorflow")
        self.logger.addFilter(self.filter)
        shell.set_custom_exc((*self.mine, *self.before[0]), self.show)
        self.handler = shell.CustomTB

    def show(
        self,
        shell: Any,
        kind: type[BaseException],
        error: BaseException,
        tb: Any,
        tb_offset: Any = None,
    ) -> Any:
        """Show an error as the shell would, with its hint."""
        hint = add(error)
        exceptions, handler = self.before
        if exceptions and issubclass(kind, exceptions):
            return handler(kind, error, tb, tb_offset=tb_offset)  # another extension's turn
        shell.showtraceback((kind, error, tb), tb_offset=tb_offset, running_compiled_code=True)
        if hint is not None and not self._shows_notes(kind, error):
            print(hint)
        return None

    def _shows_notes(self, kind: type[BaseException], error: BaseException) -> bool:
        """Whether this IPython writes an exception's notes under its traceback."""
        written = self.shell.InteractiveTB.structured_traceback(kind, error, None)
        return "cgviz: " in "\n".join(map(str, written))

    def remove(self) -> None:
        """Put the shell back as it was."""
        self.logger.removeFilter(self.filter)
        if self.shell.CustomTB == self.handler:  # else somebody came after us, and stays
            self.shell.custom_exceptions, self.shell.CustomTB = self.before


_loaded: dict[int, _Extension] = {}  # by the id of their shell


def load_ipython_extension(shell: Any) -> None:
    """Show a hint under TensorFlow's gradient errors: what `%load_ext cgviz` runs.

    Args:
        shell: The IPython shell.
    """
    if id(shell) not in _loaded:
        _loaded[id(shell)] = _Extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the hints away again: what `%unload_ext cgviz` runs.

    Args:
        shell: The IPython shell.
    """
    extension = _loaded.pop(id(shell), None)
    if extension is not None:
        extension.remove()
