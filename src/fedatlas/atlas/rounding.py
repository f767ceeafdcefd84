"""Numbers with six significant digits, which compress well."""

import numpy as np

# Of the 23 bits of a float32: the other 20 are as good as six significant digits.
_DROPPED_BITS = 3


def six_digits(values: np.ndarray) -> np.ndarray:
    """Values as float32, rounded to 20 bits behind the leading one, by a share of 5e-7 at most."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    half = np.uint32((1 << (_DROPPED_BITS - 1)) - 1)
    odd = (bits >> np.uint32(_DROPPED_BITS)) & np.uint32(1)
    kept = np.uint32(0xFFFFFFFF ^ ((1 << _DROPPED_BITS) - 1))
    return ((bits + half + odd) & kept).view(np.float32)
