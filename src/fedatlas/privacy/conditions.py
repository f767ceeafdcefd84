"""Conditions of DP-GT's theorems on steps, samples and noise, each on its own.

Equations as printed in Assumptions 4 and 5 and Theorems 4 and 5. Graphs enter as weights R and C,
(n, n), where [i, j] > 0 iff i receives from j; they must satisfy Assumption 1 (FedatlasError). The
objective's constants L and μ ≤ L are known of few objectives: without them conditions state the L
below which a bound holds.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, nan, sqrt
from typing import Literal, Self, TypeAlias

import numpy as np

from fedatlas.privacy.schemes import S1, S2, Constant, TrackingSteps
from fedatlas.schema.graphs import check_common_root, in_laplacian, out_laplacian

Relation: TypeAlias = Literal["<", "≤", ">", "≥"]
#: Name, value, relation and bound of a condition.
Row: TypeAlias = tuple[str, float | None, Relation, float]
_RELATIONS = {"<": operator.lt, "≤": operator.le, ">": operator.gt, "≥": operator.ge}

_DECIMALS = 12  # of sums of exponents, which would miss their bounds by rounding otherwise


@dataclass(frozen=True)
class Condition:
    """One condition: value relation bound.

    name: the condition in the paper's symbols. value: None where it is not known.
    holds: None where that depends on an unknown value, a positive one.
    """

    name: str
    value: float | None
    relation: Relation
    bound: float
    holds: bool | None = field(init=False)
    source: str

    def __post_init__(self) -> None:
        holds = None if self.bound > 0 else False
        if self.value is not None:
            holds = bool(_RELATIONS[self.relation](self.value, self.bound))
        object.__setattr__(self, "holds", holds)

    @property
    def factor(self) -> float:
        """The factor by which the bound is missed, 1 at it; NaN if unknown, or for bounds of 0."""
        if self.value is None or self.value <= 0 or self.bound <= 0:
            return nan
        ratio = self.value / self.bound
        return ratio if self.relation in ("<", "≤") else 1 / ratio

    def __str__(self) -> str:
        if self.value is None:
            verdict = "cannot hold" if self.holds is False else "is not known"
            numbers = f"must be {self.relation} {self.bound:.3g}, {verdict}"
        else:
            verdict = "holds" if self.holds else "does not hold"
            numbers = f"{self.value:.4g} {self.relation} {self.bound:.4g} {verdict}"
        return f"{self.source}: {self.name}: {numbers}"


@dataclass(frozen=True)
class Curvature:
    """Constants of an objective: every f_i is L-smooth; μ of the PL condition (polyak)."""

    smoothness: float
    polyak: float


@dataclass(frozen=True)
class GraphQuantities:
    """Quantities of weights R and C, (n, n), [i, j] > 0 iff i receives from j: DP-GT, Lemma 1.

    states_received, trackers_received: (n,) Σ_j R_ij and Σ_j C_ij.
    state_laplacian, tracker_laplacian: L1 = diag(R1) − R and L2 = diag(1ᵀC) − C, (n, n).
    left_vector, right_vector: (n,) v1, v2 ≥ 0 with v1ᵀL1 = 0, L2v2 = 0; each sums to n.
    state_rate: r_L1, with which I − αL1 − (1/n)1v1ᵀ has the spectral radius 1 − α r_L1; it depends
        on α where L1 has complex eigenvalues. tracker_rate: r_L2, likewise of I − βL2 − (1/n)v2 1ᵀ.
    state_radius: ρ_L1, the largest modulus of an eigenvalue of L1.

    The paper's ρ_W1 and ρ_W2, of W1 = I − (1/n)1v1ᵀ and W2 = I − (1/n)v2 1ᵀ, are 1 for all graphs:
    both matrices are projections.
    """

    states_received: np.ndarray
    trackers_received: np.ndarray
    state_laplacian: np.ndarray
    tracker_laplacian: np.ndarray
    left_vector: np.ndarray
    right_vector: np.ndarray
    state_rate: float
    tracker_rate: float
    state_radius: float

    @classmethod
    def of(cls, states: np.ndarray, trackers: np.ndarray, alpha: float, beta: float) -> Self:
        """The numbers of R = states and C = trackers at the couplings α and β.

        Raises FedatlasError where the graphs violate Assumption 1, without which v1 and v2 are not
        unique or v1ᵀv2 is 0.
        """
        check_common_root(states, trackers)
        of_states, of_trackers = in_laplacian(states), out_laplacian(trackers)
        eigenvalues = np.linalg.eigvals(of_states)
        return cls(
            states_received=states.sum(axis=1),
            trackers_received=trackers.sum(axis=1),
            state_laplacian=of_states,
            tracker_laplacian=of_trackers,
            left_vector=_null_vector(of_states.T),
            right_vector=_null_vector(of_trackers),
            state_rate=_rate(eigenvalues, alpha),
            tracker_rate=_rate(np.linalg.eigvals(of_trackers), beta),
            state_radius=float(np.abs(eigenvalues).max()),
        )


def _null_vector(laplacian: np.ndarray) -> np.ndarray:
    """v ≥ 0 with laplacian v = 0 that sums to n; it is unique where there is a spanning tree."""
    n = len(laplacian)
    stacked = np.vstack([laplacian, np.ones(n)])
    vector = np.linalg.lstsq(stacked, np.append(np.zeros(n), n), rcond=None)[0]
    return np.where(np.abs(vector) < _ROUNDING, 0.0, vector)


_ROUNDING = 1e-12


def _rate(eigenvalues: np.ndarray, coupling: float) -> float:
    """(1 − ρ)/coupling, ρ the largest |1 − coupling λ| over eigenvalues but the one that is 0."""
    # Subtracting the rank-one matrix moves that one from 1 to 0 and leaves the others.
    others = np.delete(eigenvalues, np.abs(eigenvalues).argmin())
    return float((1 - np.abs(1 - coupling * others).max()) / coupling)


def conditions(
    scheme: S1 | S2 | Constant, horizon: int, states: np.ndarray, trackers: np.ndarray
) -> tuple[Condition, ...]:
    """All that theorems ask of a run: Lemma 1, convergence, a finite budget."""
    common = lemma_1(scheme.steps(horizon), states, trackers)
    if isinstance(scheme, S1):
        convergence = assumption_4(scheme, horizon, states, trackers)
        return (*common, *convergence, *theorem_4(scheme, states, trackers))
    if isinstance(scheme, S2):
        convergence = assumption_5(scheme, states, trackers)
        return (*common, *convergence, *theorem_5(scheme, states, trackers))
    return common


def lemma_1(
    steps: TrackingSteps, states: np.ndarray, trackers: np.ndarray
) -> tuple[Condition, ...]:
    """DP-GT, Lemma 1: I − αL1 and I − βL2 nonnegative, and what it concludes from that.

    The second is about what agents send; Assumptions 4 and 5 bound β by what they receive.
    """
    graphs = GraphQuantities.of(states, trackers, steps.state_coupling, steps.tracker_coupling)
    received = float(np.diag(graphs.state_laplacian).max())
    sent = float(np.diag(graphs.tracker_laplacian).max())
    return _conditions(
        "Lemma 1",
        ("α max_i Σ_j R_ij ≤ 1", steps.state_coupling * received, "≤", 1.0),
        ("β max_i Σ_j C_ji ≤ 1", steps.tracker_coupling * sent, "≤", 1.0),
        ("r_L1 > 0", graphs.state_rate, ">", 0.0),
        ("r_L2 > 0", graphs.tracker_rate, ">", 0.0),
    )


def assumption_4(
    scheme: S1,
    horizon: int,
    states: np.ndarray,
    trackers: np.ndarray,
    curvature: Curvature | None = None,
) -> tuple[Condition, ...]:
    """DP-GT, Assumption 4: convergence under (S1).

    horizon: K; r_L1 and r_L2 are those at α_K and β_K.
    """
    steps = scheme.steps(horizon)
    graphs = GraphQuantities.of(states, trackers, steps.state_coupling, steps.tracker_coupling)
    a, b, g, m = scheme.p_alpha, scheme.p_beta, scheme.p_gamma, scheme.p_m
    zeta, eta = scheme.p_zeta, scheme.p_eta
    v1, v2 = graphs.left_vector, graphs.right_vector
    n, alignment = len(v1), float(v1 @ v2)
    return _conditions(
        "Assumption 4",
        ("1/2 < p_β", b, ">", 0.5),
        ("p_β < p_α", b, "<", a),
        ("p_α < p_γ", a, "<", g),
        ("p_γ < 1", g, "<", 1.0),
        ("2p_γ − p_α ≥ 1", round(2 * g - a, _DECIMALS), "≥", 1.0),
        ("2p_α − 2p_ζ − p_β ≥ 1", round(2 * a - 2 * zeta - b, _DECIMALS), "≥", 1.0),
        ("2p_α − p_β ≥ 1", round(2 * a - b, _DECIMALS), "≥", 1.0),
        ("2p_β − 2p_η ≥ 1", round(2 * b - 2 * eta, _DECIMALS), "≥", 1.0),
        ("p_m − p_β ≥ 1", round(m - b, _DECIMALS), "≥", 1.0),
        _smoothness("a3 < n/(4 v1ᵀv2 L)", scheme.gamma_factor, n / (4 * alignment), curvature),
        *_couplings("a1", scheme.alpha_factor, "a2", scheme.beta_factor, graphs),
    )


def assumption_5(
    scheme: S2, states: np.ndarray, trackers: np.ndarray, curvature: Curvature | None = None
) -> tuple[Condition, ...]:
    """DP-GT, Assumption 5: convergence under (S2)."""
    alpha, beta, gamma = scheme.alpha, scheme.beta, scheme.gamma
    graphs = GraphQuantities.of(states, trackers, alpha, beta)
    n, alignment = len(graphs.left_vector), float(graphs.left_vector @ graphs.right_vector)
    r1, r2, radius = graphs.state_rate, graphs.tracker_rate, graphs.state_radius
    v1, v2 = (float(np.linalg.norm(v)) for v in (graphs.left_vector, graphs.right_vector))
    # ρ_W1 = ρ_W2 = 1 are left out.
    coupling = sqrt(330 * n) * alignment * r2 / (66 * n * v1 * radius)
    q1 = (sqrt(n) * r1 / (8 * v2), sqrt(6 * n) * r1 / (24 * v2))
    q1_with_mu = r1 * sqrt(n) / (2 * v2)
    q2 = (
        sqrt(2) * r2 / 6,
        r1 * r2 / (24 * radius),
        sqrt(2 * n * alignment**3) * r2 / (6 * v1 * v2),
        alignment * r1 * r2 / (36 * v1 * v2) * sqrt(6 / (4 * radius**2 + r1**2)),
        r2 * sqrt(alignment / (6 * n)),
    )
    q2_with_mu = alignment * r2 * sqrt(660) / (66 * v1 * v2)
    return _conditions(
        "Assumption 5",
        ("0 < p_ζ", scheme.p_zeta, ">", 0.0),
        ("p_ζ < 1", scheme.p_zeta, "<", 1.0),
        ("0 < p_η", scheme.p_eta, ">", 0.0),
        ("p_η < 1", scheme.p_eta, "<", 1.0),
        ("p_m > 1", scheme.samples_base, ">", 1.0),
        *_couplings("α", alpha, "β", beta, graphs),
        ("α < √(330n) v1ᵀv2 r_L2 β/(66n ‖v1‖ ρ_W2 ρ_L1)", alpha, "<", coupling * beta),
        ("γ < 1", gamma, "<", 1.0),
        _smoothness("γ < n/(15 v1ᵀv2 L)", gamma, n / (15 * alignment), curvature),
        *(
            _smoothness(f"γ < Q1 α, term {term} of 3", gamma, factor * alpha, curvature)
            for term, factor in enumerate(q1, start=1)
        ),
        _smoothness("γ < Q1 α, term 3 of 3", gamma, q1_with_mu * alpha, curvature, with_mu=True),
        *(
            _smoothness(f"γ < Q2 β, term {term} of 6", gamma, factor * beta, curvature)
            for term, factor in enumerate(q2, start=1)
        ),
        _smoothness("γ < Q2 β, term 6 of 6", gamma, q2_with_mu * beta, curvature, with_mu=True),
    )


def theorem_4(scheme: S1, states: np.ndarray, trackers: np.ndarray) -> tuple[Condition, ...]:
    """DP-GT, Theorem 4: under (S1), a finite ε of every agent over an infinite horizon."""
    a1, a2 = scheme.alpha_factor, scheme.beta_factor
    of_trackers = scheme.p_m - scheme.p_beta - max(0, 1 - scheme.p_eta)
    of_states = scheme.p_m + min(0, scheme.p_gamma - scheme.p_alpha - scheme.p_beta)
    of_states = round(of_states - max(0, 1 - scheme.p_zeta), _DECIMALS)
    return _conditions(
        "Theorem 4",
        *_received("a1", a1, "R", states),
        *_received("a2", a2, "C", trackers),
        ("p_m − p_β − max(0, 1 − p_η) > 0", round(of_trackers, _DECIMALS), ">", 0.0),
        ("p_m + min(0, p_γ − p_α − p_β) − max(0, 1 − p_ζ) > 0", of_states, ">", 0.0),
    )


def theorem_5(scheme: S2, states: np.ndarray, trackers: np.ndarray) -> tuple[Condition, ...]:
    """DP-GT, Theorem 5: under (S2), a finite ε of every agent over an infinite horizon."""
    inverse = 1 / scheme.samples_base if scheme.samples_base > 0 else inf
    return _conditions(
        "Theorem 5",
        *_received("α", scheme.alpha, "R", states),
        *_received("β", scheme.beta, "C", trackers),
        ("1/p_m < p_ζ", inverse, "<", scheme.p_zeta),
        ("1/p_m < p_η", inverse, "<", scheme.p_eta),
    )


def _conditions(source: str, *rows: Row) -> tuple[Condition, ...]:
    return tuple(Condition(*row, source) for row in rows)


def _couplings(
    alpha_name: str,
    alpha: float,
    beta_name: str,
    beta: float,
    graphs: GraphQuantities,
) -> Iterator[Row]:
    """Below min_i 1/Σ_j R_ij and 1/r_L1, and likewise of trackers."""
    for name, value, symbol, received, rate_name, rate in (
        (alpha_name, alpha, "R", graphs.states_received, "r_L1", graphs.state_rate),
        (beta_name, beta, "C", graphs.trackers_received, "r_L2", graphs.tracker_rate),
    ):
        # Assumption 1 leaves no graph without weights. A rate of 0 or less, at a coupling that is
        # too large for Lemma 1, satisfies nothing.
        yield f"{name} < min_i 1/Σ_j {symbol}_ij", value, "<", 1 / received.max()
        bound = 1 / rate if rate > 0 else 0.0
        yield f"{name} < 1/{rate_name}", value, "<", bound


def _received(name: str, factor: float, symbol: str, weights: np.ndarray) -> Iterator[Row]:
    """0 < factor Σ_j W_ij < 1 for all agents i."""
    products = factor * weights.sum(axis=1)
    total = f"Σ_j {symbol}_ij"
    yield f"0 < {name} min_i {total}", float(products.min()), ">", 0.0
    yield f"{name} max_i {total} < 1", float(products.max()), "<", 1.0


def _smoothness(
    name: str, value: float, factor: float, curvature: Curvature | None, *, with_mu: bool = False
) -> Row:
    """value < factor/L, or the L with which it holds.

    with_mu: √(μ/(16L² + 3μ)) times that; the L is that of the largest μ, L.
    """
    if curvature is not None:
        smooth, mu = curvature.smoothness, curvature.polyak
        bound = factor / smooth * (sqrt(mu / (16 * smooth**2 + 3 * mu)) if with_mu else 1.0)
        return name, value, "<", bound
    bound = max(factor / value, 0.0)
    if with_mu:  # 16 L³ + 3 L² < (factor/value)²
        zeros = np.roots([16, 3, 0, -(bound**2)])
        bound = float(zeros.real[zeros.imag == 0].max())
    return f"L for {name}", None, "<", bound
