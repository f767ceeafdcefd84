"""SCAFFOLD's theorem on nonconvex objectives."""

from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.theory.constants import Constants
from fedatlas.theory.theorems import Course, Theorem


def theorems(method: Scaffold, constants: Constants, course: Course) -> list[Theorem]:
    """η̃ = K η_g η_l ≤ (S/N)^(2/3)/(24 L) with η_g ≥ 1, quoted from memory, without its constant."""
    lacks = "" if method.server_step_size >= 1 else "η_g ≥ 1"
    return [
        Theorem(
            "SCAFFOLD's nonconvex theorem",
            "quoted from memory",
            constants.smoothness,
            tuple(method.step_bounds(constants)),
            lacks,
        )
    ]
