"""The range of each floating-point type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Limits:
    """The largest number of a type and the smallest normal one."""

    name: str
    largest: float
    smallest: float  # below it digits are lost, and TensorFlow may flush to 0


def _of(dtype: type[np.floating]) -> Limits:
    known = np.finfo(dtype)
    return Limits(np.dtype(dtype).name, float(known.max), float(known.smallest_normal))


FLOAT16, FLOAT32, FLOAT64 = _of(np.float16), _of(np.float32), _of(np.float64)
# NumPy does not know it: 8 bits of exponent as in float32, 7 of mantissa.
BFLOAT16 = Limits("bfloat16", 2.0**127 * (2 - 2.0**-7), 2.0**-126)
_KNOWN = {each.name: each for each in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}
_KNOWN |= {"complex64": FLOAT32, "complex128": FLOAT64}


def limits(dtype: str) -> Limits | None:
    """The limits of a dtype; None for what is not floating or complex.

    >>> limits("float16").largest, limits("int32")
    (65504.0, None)
    """
    return _KNOWN.get(dtype)
