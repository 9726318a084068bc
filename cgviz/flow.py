"""Flow: all of a recording, to be read: what flowed where, forward and backward.

Content   what there is, once the recording has been read
Flow      the same behind the names that a learner uses; every room that shows it takes a Flow
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .graph import Array, Op, Pass, Step, Value


def _with_bodies(ops: Sequence[Op]) -> Iterator[Op]:
    """Ops, each followed by those of its body."""
    stack = list(reversed(ops))
    while stack:
        op = stack.pop()
        yield op
        stack.extend(reversed(op.body))


def _by_output(ops: Iterable[Op]) -> dict[int, tuple[Op, int]]:
    found: dict[int, tuple[Op, int]] = {}
    for op in ops:
        for position, value in enumerate(op.outputs):
            found.setdefault(value.key, (op, position))
    return found


@dataclass(frozen=True, eq=False)
class Content:
    """All that a trace holds, once it is read."""

    title: str
    value: Any
    gradients: tuple[Any, ...]
    variables: dict[str, Array | None]
    ops: tuple[Op, ...]
    passes: tuple[Pass, ...]
    main: int = 0  # which pass `trace.steps` shows
    asked: bool = False  # the code's own tape chose what to differentiate, as in `record()`


class Flow:
    """What TensorFlow did, forward and backward. A learner gets it as a `Trace`, which shows it."""

    def __init__(self, content: Callable[[], Content] | Content) -> None:
        self._make = content

    @cached_property
    def _content(self) -> Content:
        made = self._make() if callable(self._make) else self._make
        del self._make
        return made

    @property
    def title(self) -> str:
        """What was traced: the function's name."""
        return self._content.title

    @property
    def asked(self) -> bool:
        """Whether the recorded code chose what to differentiate; `trace` takes all arguments."""
        return self._content.asked

    @property
    def value(self) -> Any:
        """f's value, as NumPy; for `record()` the target of the first backward pass."""
        return self._content.value

    @property
    def gradients(self) -> tuple[Any, ...]:
        """One gradient or None per positional argument; for `record()` per source."""
        return self._content.gradients

    @property
    def variables(self) -> dict[str, Array | None]:
        """The gradient of each trainable variable, by its name."""
        return self._content.variables

    @property
    def ops(self) -> tuple[Op, ...]:
        """The forward ops in execution order, with the inputs, variables and constants."""
        return self._content.ops

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Every backward pass, in the order they ran."""
        return self._content.passes

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the first backward pass, in execution order."""
        return self.pass_(None).steps if self.passes else ()

    def pass_(self, which: int | None) -> Pass:
        """One of `passes`.

        Args:
            which: Its number, from 0; negative counts from the last; None is the one that
                `steps` shows.

        Returns:
            The `Pass`.

        Raises:
            ValueError: There is no such pass.
        """
        passes = self.passes
        if not passes:
            raise ValueError(
                "this trace has no backward pass: call `tape.gradient` inside the recording"
            )
        index = self._content.main if which is None else which
        if not -len(passes) <= index < len(passes):
            raise ValueError(
                f"`which` is {which}, but this trace has {len(passes)} backward "
                f"pass{'es' if len(passes) > 1 else ''}: 0 to {len(passes) - 1}"
            )
        return passes[index]

    @cached_property
    def _producers(self) -> dict[int, tuple[Op, int]]:
        return _by_output(_with_bodies(self.ops))

    @cached_property
    def _pass_producers(self) -> dict[int, tuple[Op, int]]:
        return _by_output(op for each in self.passes for op in _with_bodies(each.ops))

    def producer(self, value: Value) -> tuple[Op, int] | None:
        """Which op made a value.

        Args:
            value: An entry of some op's `inputs` or `outputs`.

        Returns:
            The op and which of its outputs the value is, from 0; None if it came from elsewhere.
        """
        # What only a pass may have made is looked up last: its ops can cost a second run.
        return self._producers.get(value.key) or self._pass_producers.get(value.key)

    def walk(self) -> Iterator[Op]:
        """Every op: forward, inside the bodies of custom ops, and of the backward passes."""
        yield from _with_bodies(self.ops)
        for each in self.passes:
            yield from _with_bodies(each.ops)
