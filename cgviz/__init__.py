"""cgviz shows what TensorFlow does when it takes a gradient."""

from importlib import import_module
from typing import TYPE_CHECKING

from .hinting import hints
from .recording import api
from .recording.api import record, trace

if TYPE_CHECKING:
    from .checking.checker import check
    from .files import load
    from .history import watch
    from .lessons import course
    from .live.explorer import explore
    from .live.quiz import predict

__all__ = ["check", "course", "explore", "load", "predict", "record", "trace", "watch"]
__version__ = "0.1.0"

api.on_error.append(hints.add)  # an error that leaves a recording carries its hint

# What recording does not need is loaded when it is first used.
_LATER = {
    "check": ".checking.checker",
    "course": ".lessons",
    "watch": ".history",
    "explore": ".live.explorer",
    "load": ".files",
    "predict": ".live.quiz",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module 'cgviz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]  # what the Tab key offers, loaded or not


def load_ipython_extension(shell: object) -> None:
    """Show a hint under TensorFlow's gradient errors: `%load_ext cgviz`."""
    hints.load_ipython_extension(shell)


def unload_ipython_extension(shell: object) -> None:
    """Take the hints away again: `%unload_ext cgviz`."""
    hints.unload_ipython_extension(shell)
