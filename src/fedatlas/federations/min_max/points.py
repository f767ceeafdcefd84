"""Points of min–max problems."""

from typing import Any, NamedTuple


class PrimalDual(NamedTuple):
    """A point, or a gradient: θ and w."""

    theta: Any
    w: Any
