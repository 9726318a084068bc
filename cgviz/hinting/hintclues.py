"""What an error tells of itself: its types, its words, and the places it passed through."""

from __future__ import annotations

import linecache
import re
import sys
from types import TracebackType

_LIBRARY = re.compile(r"[\\/](?:tensorflow|keras|tf_keras)[\\/]")
_PYTHON = re.compile(r"[\\/](?:lib[\\/]python|Lib[\\/])")  # and what is installed beside it
_CALLS_A_RULE = ("actual_grad_fn", "tape_grad_fn")  # eager, and in a graph


class Clues:
    """What an error tells: its types, its words, and the places it passed through."""

    def __init__(self, error: BaseException) -> None:
        self.types = {each.__name__ for each in type(error).__mro__}
        self.text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        self.places = _places(error.__traceback__)
        # A `tf.function` raises its error anew, shorter; the first one still knows the way.
        first = error.__context__
        if first is not None and str(first) and str(first) in self.text:
            self.places += _places(first.__traceback__)
        self.line = _last_line(error.__traceback__)
        self.match: re.Match[str] = re.match("", "")  # type: ignore[assignment]

    def passed(self, file: str, function: str = "") -> bool:
        """Whether the error came through this file of TensorFlow or Keras."""
        return any(
            library and name.endswith(file) and function in (at, "")
            for library, name, at in self.places
        )

    def called_by(self, file: str) -> str:
        """The function in `file` that the error came from with no learner's code in between."""
        for library, name, at in reversed(self.places):
            if name.endswith(file):
                return at
            if not library and not _PYTHON.search(name):
                return ""
        return ""


def _places(traceback: TracebackType | None) -> list[tuple[bool, str, str]]:
    """Outermost first: is it a library's, its file, its function."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found.append((bool(_LIBRARY.search(code.co_filename)), code.co_filename, code.co_name))
        traceback = traceback.tb_next
    return found


def _last_line(traceback: TracebackType | None) -> str:
    """The text of the line that raised, if it is the learner's; TensorFlow hides its own frames."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    code = traceback.tb_frame.f_code
    return linecache.getline(code.co_filename, traceback.tb_lineno).strip()


# --- what an entry may ask, and say -------------------------------------------------------------


def mixed_policy(clues: Clues) -> str:
    """The name of Keras's mixed-precision policy, if one is on and a layer was being called."""
    keras = sys.modules.get("keras")
    if keras is None or "Exception encountered when calling" not in clues.text:
        return ""
    name = str(keras.mixed_precision.dtype_policy().name)
    return name if name.startswith("mixed") else ""


def variables(clues: Clues) -> str:
    """The names of the variables that a message lists: TensorFlow lists a set, in any order."""
    pairs = re.findall(r"<(?:tf\.)?Variable (?:'([^']+?)(?::\d+)?'|path=([^,>]+))", clues.text)
    names = sorted(f"`{one or other}`" for one, other in pairs)
    if len(names) > 3:
        names = [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(names) or "a variable"


def uses_variables(clues: Clues) -> str:
    """Which variables the function reads."""
    return (
        f"the function under @tf.custom_gradient reads {variables(clues)}, which it was not given "
        "as a positional argument, so the rule must return a gradient for it too."
    )


def uses_mixed_variables(clues: Clues) -> str:
    """Why mixed precision makes a variable count as read inside."""
    return (
        f"the policy is {mixed_policy(clues)}: a layer's variable ({variables(clues)}) is read "
        "as a float16 copy, so TensorFlow sees a variable used inside, even if it was passed by "
        "position."
    )


def count(clues: Clues) -> str:
    """How many gradients the rule returned, and how many arguments there were."""
    wanted, given = int(clues.match.group(1)), int(clues.match.group(2))
    return (
        f"the rule returned {_some(given, 'gradient')}, and the function was called with "
        f"{_some(wanted, 'positional argument')}."
    )


def difference(clues: Clues) -> str:
    """By how many the rule was wrong, where the message counts outputs too."""
    wanted, given = int(clues.match.group(2)), int(clues.match.group(3))
    away = abs(wanted - given)
    which = "few" if given < wanted else "many (TensorFlow says “too few” for both)"
    return f"the rule of `{clues.match.group(1)}` returned {_some(away, 'gradient')} too {which}."


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def is_broadcast(clues: Clues) -> bool:
    """Whether the second shape is the first one broadcast, as an unreduced gradient's is."""
    small, large = ([int(n) for n in re.findall(r"\d+", group)] for group in clues.match.groups())
    if len(small) > len(large) or small == large:
        return False
    ends = zip(reversed(small), reversed(large), strict=False)
    return all(a in (1, b) for a, b in ends)


def in_backward(clues: Clues) -> bool:
    """Raised while a gradient was being taken."""
    return (
        clues.passed("imperative_grad.py")
        or any(clues.passed("custom_gradient.py", function) for function in _CALLS_A_RULE)
        or bool(re.search(r"\.(gradient|jacobian)\(", clues.line))
    )


def in_optimizer(clues: Clues) -> bool:
    """Raised while an optimizer applied its gradients."""
    return clues.passed("optimizer.py")


def in_custom_call(clues: Clues) -> bool:
    """Raised while TensorFlow made tensors of a custom function's arguments."""
    return clues.passed("custom_gradient.py") and not in_backward(clues)


def by_rule_call(clues: Clues) -> bool:
    """Raised by calling the rule, or by taking apart what it returned."""
    return clues.called_by("custom_gradient.py") in _CALLS_A_RULE


def by_function_call(clues: Clues) -> bool:
    """Raised by taking apart what the decorated function returned."""
    at = clues.called_by("custom_gradient.py")
    return at in ("_eager_mode_decorator", "_graph_mode_decorator")
