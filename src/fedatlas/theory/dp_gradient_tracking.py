"""DP-GT's theorems of convergence (Chen, Wang, Zhang 2025) on agents whose constants are known.

The paper prints orders only. Bounds here are those of its proofs' recursion, `tracking_recursion`:
E‖∇F(x_i,k)‖² ≤ start · ρ_A^k + floor, for each horizon K, whose steps, samples and noise enter ρ_A
and the floor.
"""

import numpy as np

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.evaluation.theory_table import LAST_SQUARED_GRADIENT
from fedatlas.federations.algorithm import StepBound
from fedatlas.privacy.conditions import Condition, assumption_4, assumption_5
from fedatlas.privacy.schemes import S1, S2
from fedatlas.theory.agents import AgentConstants
from fedatlas.theory.covered_steps import largest_step
from fedatlas.theory.theorems import Bound, Course, Theorem
from fedatlas.theory.tracking_recursion import recursion

_SMALLEST = 1e-9  # γ; below it 1 − ρ_A is lost in rounding


def theorems(
    method: DpGradientTracking, constants: AgentConstants, course: Course
) -> list[Theorem]:
    """Theorem 2 or 3, by the scheme, as printed, and what its proof gives when corrected."""
    conditions = conditions_of(method, constants)
    name = "Theorem 2" if isinstance(method.scheme, S1) else "Theorem 3"
    return [
        _theorem(name, method, constants, course, conditions, printed=printed)
        for printed in (True, False)
        if isinstance(method.scheme, S1 | S2) and method.form == "compact"
    ]


def conditions_of(method: DpGradientTracking, constants: AgentConstants) -> tuple[Condition, ...]:
    """Assumption 4 or 5, with L and μ."""
    graphs = constants.states, constants.trackers
    if isinstance(method.scheme, S1):
        return assumption_4(method.scheme, method.horizon, *graphs, constants.curvature)
    if isinstance(method.scheme, S2):
        return assumption_5(method.scheme, *graphs, constants.curvature)
    return ()


def _theorem(
    name: str,
    method: DpGradientTracking,
    constants: AgentConstants,
    course: Course,
    conditions: tuple[Condition, ...],
    *,
    printed: bool,
) -> Theorem:
    steps = method.scheme.steps(method.horizon)
    noises = [
        float(scales.max())
        for scales in (
            method.scheme.state_noise(method.horizon),
            method.scheme.tracker_noise(method.horizon),
        )
    ]

    def contracts(step: float) -> bool:
        """Whether ρ_A < 1 at this γ."""
        tried = type(steps)(steps.state_coupling, steps.tracker_coupling, step, steps.samples)
        found = recursion(constants, tried, *noises, printed=printed)
        # I − A is an M-matrix iff its leading minors are positive.
        if found is None:
            return False
        rest = np.eye(3) - found.transfer
        return all(np.linalg.det(rest[:size, :size]) > 0 for size in (1, 2, 3))

    broken = [each for each in conditions if not each.holds]
    lacks = ", ".join(_told(each) for each in broken) if printed else ""
    bound = None
    if contracts(steps.step_size):
        found = recursion(constants, steps, *noises, printed=printed)
        assert found is not None
        start, radius, floor = found.geometric()
        bound = Bound(LAST_SQUARED_GRADIENT, "iterations", 0.0, start, radius, floor)
    elif not printed and not contracts(_SMALLEST):
        lacks = "couplings at which I − αL1 and I − βL2 contract in the Euclidean norm"
    largest = largest_step(lambda step: step < _SMALLEST or contracts(step))
    return Theorem(
        name=name,
        version="as printed" if printed else "corrected",
        smoothness=constants.curvature.smoothness,
        steps=(StepBound("γ", steps.step_size, largest, name),),
        lacks=lacks,
        bound=bound,
        epochs=course.rounds,
        note=f"μ = {constants.curvature.polyak:.4g}, σ_g² = {constants.variance:.4g}, m = "
        f"{steps.samples}; the bound is that of Lemma A.9, for this horizon",
    )


def _told(condition: Condition) -> str:
    """The condition, and by which factor it is missed."""
    factor = condition.factor
    return condition.name + ("" if np.isnan(factor) else f" ({factor:.3g} times)")
