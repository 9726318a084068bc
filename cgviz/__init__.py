"""cgviz shows what TensorFlow does when it takes a gradient."""

from .recording.recorder import record, trace

__all__ = ["check", "explore", "load", "predict", "record", "trace"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "check":  # judging a gradient is not needed to record one
        from .checking.checker import check

        return check
    if name == "explore":  # nor are widgets
        from .screen.explorer import explore

        return explore
    if name == "predict":
        from .screen.quiz import predict

        return predict
    if name == "load":  # reading files is not needed to record
        from .files.export import load

        return load
    raise AttributeError(f"module 'cgviz' has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """Show a hint under TensorFlow's gradient errors: `%load_ext cgviz`."""
    from .hinting import hints

    hints.load_ipython_extension(shell)


def unload_ipython_extension(shell: object) -> None:
    """Take the hints away again: `%unload_ext cgviz`."""
    from .hinting import hints

    hints.unload_ipython_extension(shell)
