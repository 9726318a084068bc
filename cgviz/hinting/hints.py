"""Hints under TensorFlow's own errors: what was done, how to fix it, which lesson tells more.

    explain   an error -> a Hint, or None where nothing is sure
    add       an error gets its hint as a note (PEP 678); what leaves a recording has it
    load_ipython_extension   the same for a whole notebook: `%load_ext cgviz`

The error stays the same object with the same arguments and traceback; only a note is added.
"""

from __future__ import annotations

from typing import Any

from .book import BOOK, Clues, Hint


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


def load_ipython_extension(shell: Any) -> None:
    """Show a hint under TensorFlow's gradient errors: what `%load_ext cgviz` runs.

    Args:
        shell: The IPython shell. It has one handler of errors; another extension's is replaced.
    """
    import tensorflow as tf

    def show(
        shell: Any, kind: type[BaseException], error: BaseException, tb: Any, tb_offset: Any = None
    ) -> None:
        hint = add(error)
        shell.showtraceback((kind, error, tb), tb_offset=tb_offset, running_compiled_code=True)
        written = shell.InteractiveTB.structured_traceback(kind, error, None)
        if hint is not None and "cgviz: " not in "\n".join(map(str, written)):
            print(hint)  # this IPython writes no notes under a traceback, as that of Colab

    # Only what the book knows: IPython has ways of its own to show syntax errors.
    known = (TypeError, ValueError, AttributeError, LookupError, RuntimeError, tf.errors.OpError)
    shell.set_custom_exc(known, show)


def unload_ipython_extension(shell: Any) -> None:
    """Take the hints away again: what `%unload_ext cgviz` runs.

    Args:
        shell: The IPython shell.
    """
    shell.set_custom_exc((), None)
