"""DP-GT's theorems of convergence (Chen, Wang, Zhang 2025), for agents with known constants.

The paper prints orders only. Bounds here are those of its proofs' recursion V_{k+1} ≤ A V_k + u
(Lemma A.9) with V_k = (E‖(W1 ⊗ I)x_k‖², E‖(W2 ⊗ I)y_k‖², E F(x̄_k) − F*), section 6:
E‖∇F(x_i,k)‖² ≤ start · ρ_A^k + floor, for each horizon K, whose steps, samples and noise enter ρ_A
and the floor.

As printed, norms of matrices are their spectral radii, which are smaller unless a matrix is normal;
noise is counted of one agent in place of n; u² lacks an L²; and A³³ has −3L/2 where its proof gives
−2μ·3L/2. Corrected (ours), every step is taken in Euclidean norms, and E‖∇F(x_i)‖² is bounded by
4L (F(x̄) − F*) + 2L² ‖(W1 ⊗ I)x‖² in place of 2L times the paper's bound of F(x_i) − F*.
"""

from dataclasses import dataclass

import numpy as np

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.evaluation.bounds import LAST_SQUARED_GRADIENT, Bound
from fedatlas.federations.algorithm import StepBound
from fedatlas.privacy.conditions import (
    Condition,
    GraphQuantities,
    assumption_4,
    assumption_5,
)
from fedatlas.privacy.schemes import S1, S2, TrackingSteps
from fedatlas.theory.agents import AgentConstants
from fedatlas.theory.theorems import Course, Theorem, largest_step


@dataclass(frozen=True)
class Recursion:
    """transfer: A, (3, 3). added: u of the largest noise of a run, (3,). start: V_0, (3,).

    weights: (3,) of V in the bound of E‖∇F(x_i)‖² for every agent i.
    """

    transfer: np.ndarray
    added: np.ndarray
    start: np.ndarray
    weights: np.ndarray

    @property
    def radius(self) -> float:
        """ρ_A."""
        return float(np.abs(np.linalg.eigvals(self.transfer)).max())

    def geometric(self) -> tuple[float, float, float]:
        """(start, ρ, floor) with weights · V_k ≤ start · ρ^k + floor for all k; needs ρ_A < 1.

        By the left Perron vector r > 0: weights ≤ c r, and r·V shrinks by ρ_A; the floor is exact.
        """
        values, vectors = np.linalg.eig(self.transfer.T)
        place = int(np.abs(values).argmax())
        left = np.abs(vectors[:, place].real)
        floor = np.linalg.solve(np.eye(3) - self.transfer, self.added)
        scale = float((self.weights / left).max())
        return scale * float(left @ self.start), self.radius, float(self.weights @ floor)


@dataclass(frozen=True)
class _Norms:
    """Norms of L1, L2, W1, W2, and by how much I − αL1 and I − βL2 contract, over α and β."""

    laplacian_1: float
    laplacian_2: float
    projection_1: float
    projection_2: float
    rate_1: float
    rate_2: float


def recursion(
    constants: AgentConstants,
    steps: TrackingSteps,
    state_noise: float,
    tracker_noise: float,
    *,
    printed: bool,
) -> Recursion | None:
    """The recursion at steps and largest scales σ of the noise; None where nothing contracts."""
    graphs = GraphQuantities.of(
        constants.states, constants.trackers, steps.state_coupling, steps.tracker_coupling
    )
    norms = _norms(graphs, steps, printed=printed)
    if norms.rate_1 <= 0 or norms.rate_2 <= 0:
        return None
    n, d = constants.agents, constants.dimension
    smooth, mu = constants.curvature.smoothness, constants.curvature.polyak
    alpha, beta, gamma = steps.state_coupling, steps.tracker_coupling, steps.step_size
    variance = constants.variance / steps.samples
    v1, v2 = (float(v @ v) for v in (graphs.left_vector, graphs.right_vector))
    s = float(graphs.left_vector @ graphs.right_vector)
    a, b = alpha * norms.rate_1, beta * norms.rate_2
    w1, w2 = norms.projection_1**2, norms.projection_2**2
    states = norms.laplacian_1**2 * alpha**2
    of_y = (1 + a) / a * gamma**2 * w1  # Young's inequality on γ(W1 ⊗ I)y
    of_g = (1 + b) / b * w2  # and on (W2 ⊗ I)(g⁺ − g)
    step = gamma**2 * v2
    zeta, eta = 2 * d * state_noise**2, 2 * d * tracker_noise**2
    if not printed:
        zeta, eta = n * zeta, n * eta
    first = [1 - a + 4 * of_y * v2 * smooth**2 / n, 2 * of_y, 8 * of_y * v2 * smooth]
    second = [
        of_g * (6 * states + 12 * step * smooth**2 / n) * smooth**2,
        1 - b + 6 * of_g * gamma**2 * smooth**2,
        24 * of_g * step * smooth**3,
    ]
    per_agent = s * gamma / n
    if printed:
        third = [
            per_agent * smooth**2 * (n + 3 * s * gamma * smooth) / (2 * n**2),
            (2 * n + 3 * s * gamma * smooth) * v1 * gamma / (2 * n**2 * s),
            1 - mu * per_agent + 1.5 * per_agent**2 * smooth,
        ]
        added = [
            states * zeta + variance,
            (n * (2 + 3 * b) + 6 * (1 + b) * w2 * step * smooth**2) * variance / b
            + norms.laplacian_2**2 * beta**2 * eta
            + 2 * of_g * states * zeta,
            per_agent * (n + s**2 * gamma * smooth) * variance / (2 * n),
        ]
        weights = smooth * np.array([smooth + 1, 0, 2 * (smooth + 1)])
    else:
        third = [
            per_agent * smooth**2 / n + 2 * per_agent**2 * smooth**3 / n,
            gamma * v1 / (n * s) + smooth * gamma**2 * v1 / n**2,
            1 - 2 * mu * per_agent * (0.5 - 2 * per_agent * smooth),
        ]
        added = [
            states * zeta + 2 * of_y * v2 * variance / n,
            n * w2 * (2 + 3 * b) / b * variance
            + norms.laplacian_2**2 * beta**2 * eta
            + 2 * of_g * smooth**2 * (3 * step * variance / n + states * zeta),
            smooth * per_agent**2 * variance / n,
        ]
        weights = np.array([2 * smooth**2, 0, 4 * smooth])
    away = constants.start_gradients
    projection = np.eye(n) - np.outer(graphs.right_vector, np.ones(n)) / n
    noisy = norms.projection_2**2 * n * variance
    start = [0.0, float(((projection @ away) ** 2).sum()) + noisy, constants.gap]
    return Recursion(np.array([first, second, third]), np.array(added), np.array(start), weights)


def _norms(graphs: GraphQuantities, steps: TrackingSteps, *, printed: bool) -> _Norms:
    n = len(graphs.left_vector)
    if printed:
        of_trackers = np.abs(np.linalg.eigvals(graphs.tracker_laplacian)).max()
        rates = graphs.state_rate, graphs.tracker_rate
        return _Norms(graphs.state_radius, float(of_trackers), 1.0, 1.0, *rates)
    w1 = np.eye(n) - np.outer(np.ones(n), graphs.left_vector) / n
    w2 = np.eye(n) - np.outer(graphs.right_vector, np.ones(n)) / n
    alpha, beta = steps.state_coupling, steps.tracker_coupling
    left, right = w1 - alpha * graphs.state_laplacian, w2 - beta * graphs.tracker_laplacian
    return _Norms(
        laplacian_1=_norm(graphs.state_laplacian),
        laplacian_2=_norm(graphs.tracker_laplacian),
        projection_1=_norm(w1),
        projection_2=_norm(w2),
        rate_1=(1 - _norm(left)) / alpha,
        rate_2=(1 - _norm(right)) / beta,
    )


def _norm(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, 2))


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
    noises = method.scheme.noise(method.horizon).max(axis=1).tolist()

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
