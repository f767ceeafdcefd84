"""VFB²-SVRG's theorems: 2 on strongly convex objectives, 5 on others."""

from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.theorems._vfb2_convex import theorem_2
from fedatlas.theorems._vfb2_nonconvex import theorem_5
from fedatlas.theory.constants import PartyConstants
from fedatlas.theory.theorems import Course, Theorem


def theorems(method: Vfb2Svrg, constants: PartyConstants, course: Course) -> list[Theorem]:
    """Theorem 2 with an l2 regulariser, Theorem 5 without."""
    known = theorem_5 if constants.convexity is None else theorem_2
    return known(method, constants, course)
