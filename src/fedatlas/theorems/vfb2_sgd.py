"""VFB²-SGD's theorems: 1 on strongly convex objectives, 4 on others."""

from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.theorems._vfb2_convex import theorem_1
from fedatlas.theorems._vfb2_nonconvex import theorem_4
from fedatlas.theory.constants import PartyConstants
from fedatlas.theory.theorems import Course, Theorem


def theorems(method: Vfb2Sgd, constants: PartyConstants, course: Course) -> list[Theorem]:
    """Theorem 1 with an l2 regulariser, Theorem 4 without."""
    known = theorem_4 if constants.convexity is None else theorem_1
    return known(method, constants, course)
