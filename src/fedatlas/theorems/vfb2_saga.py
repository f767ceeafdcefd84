"""VFB²-SAGA's theorems: 3 on strongly convex objectives, 6 on others."""

from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.theorems._vfb2_convex import theorem_3
from fedatlas.theorems._vfb2_nonconvex import theorem_6
from fedatlas.theory.constants import PartyConstants
from fedatlas.theory.theorems import Course, Theorem


def theorems(method: Vfb2Saga, constants: PartyConstants, course: Course) -> list[Theorem]:
    """Theorem 3 with an l2 regulariser, Theorem 6 without."""
    known = theorem_6 if constants.convexity is None else theorem_3
    return known(method, constants, course)
