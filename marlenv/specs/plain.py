"""Specs whose values are numbers as simulators and networks both have them."""

from marlenv.specs.base import TensorSpec
from marlenv.specs.bounded import Bounded
from marlenv.specs.categorical import Binary, Categorical
from marlenv.specs.multi import MultiCategorical
from marlenv.specs.unbounded import Unbounded

PLAIN = (Binary, Bounded, Categorical, MultiCategorical, Unbounded)


def is_plain(spec: TensorSpec) -> bool:
    """Whether values of a spec are numbers as they come, neither one-hot, nor nested, nor objects.

    >>> is_plain(Categorical(3)), is_plain(Unbounded((2,)))
    (True, True)
    """
    return type(spec) in PLAIN
