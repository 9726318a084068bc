"""The floating-point types: their limits, and how closely results in them must agree.

A complex type has the limits of its real and imaginary parts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """The range and the precision of a floating-point type.

    `told` is the relative error of a derivative above which `check` warns, `wrong` the one above
    which it fails. Both are far above what rounding does in an op, so a correct rule stays below
    them; finite differences made in this type cannot tell smaller errors. `answer` is the tolerance
    for an answer to an exercise, after a few ops.
    """

    name: str
    eps: float  # the distance from 1 to the next number
    largest: float
    normal: float  # the smallest normal number: below it digits are lost
    told: float
    wrong: float
    answer: float

    @property
    def smallest(self) -> float:
        """The smallest number that TensorFlow keeps: except in float16, subnormal ones become 0."""
        return self.normal * self.eps if self is FLOAT16 else self.normal

    @property
    def coarse(self) -> bool:
        """Whether it has 16 bits or fewer: too few digits to tell a kink from rounding."""
        return self.eps > FLOAT32.eps


FLOAT16 = Dtype("float16", 2.0**-10, 65504.0, 2.0**-14, 0.05, 0.05, 1e-2)
BFLOAT16 = Dtype("bfloat16", 2.0**-7, 2.0**127 * (2 - 2.0**-7), 2.0**-126, 0.1, 0.1, 3e-2)
FLOAT32 = Dtype("float32", 2.0**-23, 2.0**127 * (2 - 2.0**-23), 2.0**-126, 5e-3, 5e-3, 1e-4)
FLOAT64 = Dtype("float64", 2.0**-52, 2.0**1023 * (2 - 2.0**-52), 2.0**-1022, 1e-7, 1e-4, 1e-9)

_KNOWN = {each.name: each for each in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}
_KNOWN |= {"complex64": FLOAT32, "complex128": FLOAT64}


def limits(name: str) -> Dtype | None:
    """The `Dtype` of this name; None for a type without known limits, such as int32.

    >>> limits("float16").largest, limits("complex64").name, limits("int32")
    (65504.0, 'float32', None)
    """
    return _KNOWN.get(name)
