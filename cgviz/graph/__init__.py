"""The data model: one `Trace` of NumPy numbers, and the records that it is made of."""

from .model import Array as Array
from .model import Op as Op
from .model import Pass as Pass
from .model import Rule as Rule
from .model import Source as Source
from .model import Statistics as Statistics
from .model import Step as Step
from .model import Value as Value
from .model import as_numpy as as_numpy
from .model import differentiates as differentiates
from .model import norm as norm
from .model import ratio as ratio
from .model import readable as readable
from .model import statistics as statistics
from .model import total as total
from .model import wide as wide
from .model import wide_norm as wide_norm
from .trace import Trace as Trace
