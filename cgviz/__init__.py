"""cgviz shows what TensorFlow does when it takes a gradient."""

from importlib import import_module
from typing import TYPE_CHECKING

from .hinting import hints
from .hinting.hints import load_ipython_extension as load_ipython_extension
from .hinting.hints import unload_ipython_extension as unload_ipython_extension
from .recording.events import on_error

if TYPE_CHECKING:
    from .checking.checker import check
    from .files import load
    from .history import watch
    from .lessons import course
    from .live.explorer import explore
    from .live.quiz import predict
    from .recording.api import record, trace

__all__ = ["check", "course", "explore", "load", "predict", "record", "trace", "watch"]
__version__ = "0.1.0"

on_error.append(hints.add)  # an error that leaves a recording carries its hint

# Imported on first use, so that a saved trace can be read and shown without TensorFlow.
_LATER = {
    "check": ".checking.checker",
    "course": ".lessons",
    "watch": ".history",
    "explore": ".live.explorer",
    "load": ".files",
    "predict": ".live.quiz",
    "record": ".recording.api",
    "trace": ".recording.api",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'cgviz' has no attribute {name!r}")
    try:
        return getattr(import_module(_LATER[name], __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            f"`cgviz.{name}` runs TensorFlow, and none is installed: install `tensorflow`, or "
            "`tensorflow-cpu`, which is smaller"
        ) from error


def __dir__() -> list[str]:
    return [*__all__, "__version__"]  # what the Tab key offers, loaded or not
