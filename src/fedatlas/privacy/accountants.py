"""From sensitivities and noise to budgets (ε, δ), cumulative by release.

A sensitivity says by how much one changed sample moves what an agent releases, in units of the
gradient bound C, in the norm that the noise asks for: l1 for Laplace noise of scale σ on every
coordinate, l2 for Gaussian noise. Adjacent data differ in one sample of agent i0 (DP-GT,
Definition 3); what is sent is the same on either data, as the adversary sees it. Weights are what
agent i0 receives: R̄ = Σ_j R_{i0 j} and C̄ = Σ_j C_{i0 j}.

Only `lemma_2` with a smoothness allows for what the changed state does to later gradients. Others
take gradients at the same points on either data, as the papers do: true where points follow from
what was released, otherwise an assumption. An ε is a bound under that assumption. A
release without sensitivity costs nothing, one without noise everything (ε = ∞).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, log, sqrt
from typing import TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.privacy.schemes import TrackingSteps


@dataclass(frozen=True)
class PrivacyContext:
    """The circumstances in which clients release what they computed from their samples.

    samples: D, of the client that has the fewest. dimension: d, of a model.
    states, trackers: (n, n) weights R and C, [i, j] > 0 where i receives from j; trackers is None
        where there is no second graph, states is empty around a server.
    clients: N, around a server.
    """

    samples: int
    dimension: int
    states: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    trackers: np.ndarray | None = None
    clients: int = 1


@dataclass(frozen=True)
class Sensitivities:
    """‖Δx_k‖ and ‖Δy_k‖ of the state and the tracker of release k = 0 … K, (K + 1,) each."""

    state: np.ndarray
    tracker: np.ndarray


#: Steps, R̄, C̄ and the horizon K to the sensitivities of all releases.
Accounting: TypeAlias = Callable[[TrackingSteps, float, float, int], Sensitivities]


def lemma_2(
    steps: TrackingSteps,
    state_weight: float,
    tracker_weight: float,
    horizon: int,
    smoothness: float = 0.0,
) -> Sensitivities:
    """DP-GT, Lemma 2 as printed: every triangle inequality on its own.

    Δy_{k+1} = |1 − βC̄| Δy_k + 2/m, from 1/m; Δx_{k+1} = |1 − αR̄| Δx_k + γ Δy_k, from 0.

    smoothness: L of every sample's gradient, in the norm of C, adds the gradients' dependence on
    the state, which the paper's proof drops. Gradients at x_k and x'_k differ by L Δx_k besides, so
    that Δy_{k+1} has L(Δx_{k+1} + Δx_k) more. It explodes unless L < αR̄ βC̄/(2γ), couplings being
    below 1.
    """
    a = abs(1 - steps.state_coupling * state_weight)
    b = abs(1 - steps.tracker_coupling * tracker_weight)
    fresh, moved = 2 / steps.samples, steps.step_size
    dx, dy = 0.0, 1 / steps.samples
    state, tracker = [dx], [dy]
    for _ in range(horizon):
        before, dx = dx, a * dx + moved * dy
        dy = b * dy + fresh + smoothness * (dx + before)
        state.append(dx)
        tracker.append(dy)
    return Sensitivities(np.array(state), np.array(tracker))


def summation_by_parts(
    steps: TrackingSteps, state_weight: float, tracker_weight: float, horizon: int
) -> Sensitivities:
    """The literal updates (4) and (6) of DP-GT without Lemma 2's factor of about 1/β; ours.

    With b = 1 − βC̄, Δy_k = Δg_k − βC̄ Σ_{l<k} b^{k−1−l} Δg_l, as summing (6) by parts shows. So
    ‖Δy_k‖ ≤ (1 + βC̄ Σ_{l<k} |b|^l)/m, which is (2 − b^k)/m where 0 ≤ b ≤ 1.
    """
    received = steps.tracker_coupling * tracker_weight
    inputs = np.full(horizon + 1, received / steps.samples)
    inputs[0] = 0
    tracker = 1 / steps.samples + _recursion(abs(1 - received), inputs)
    moved = np.concatenate([[0.0], steps.step_size * tracker[:-1]])
    state = _recursion(abs(1 - steps.state_coupling * state_weight), moved)
    return Sensitivities(state, tracker)


def compact_form(
    steps: TrackingSteps, state_weight: float, tracker_weight: float, horizon: int
) -> Sensitivities:
    """The compact updates (7) and (8) of DP-GT, where agents use their own broadcast values; ours.

    What the weights multiply is then released, hence fixed: Δy_{k+1} − Δy_k = Δg_{k+1} − Δg_k and
    Δx_{k+1} = Δx_k − γ Δy_k, so ‖Δy_k‖ = ‖Δg_k‖ ≤ 1/m and ‖Δx_k‖ ≤ γk/m at any weights.
    """
    tracker = np.full(horizon + 1, 1 / steps.samples)
    return Sensitivities(steps.step_size / steps.samples * np.arange(horizon + 1), tracker)


def single_release(
    coupling: float,
    step_size: float,
    samples: int | np.ndarray,
    horizon: int,
    state_weight: float = 1.0,
    *,
    own_broadcast: bool = False,
) -> np.ndarray:
    """(K + 1,) sensitivities of the state in methods that release one variable.

    x_i ← x_i + κ Σ_j w_ij (x̆_j − x_i) − γ g_i with m samples in g_i gives Δ_0 = 0 and
    Δ_{k+1} = |1 − κ w̄| Δ_k + γ/m_k, w̄ = state_weight. With own_broadcast, x̆_i replaces x_i in
    the sum: Δ_{k+1} = Δ_k + γ/m_k.

    coupling, step_size: κ, γ. samples: m, a constant or an array over k = 0 … K.
    """
    inputs = np.zeros(horizon + 1)
    inputs[1:] = np.broadcast_to(step_size / np.asarray(samples), horizon + 1)[:-1]
    if own_broadcast:
        return np.cumsum(inputs)
    return _recursion(abs(1 - coupling * state_weight), inputs)


def _recursion(factor: float, inputs: np.ndarray) -> np.ndarray:
    """s_k = factor s_{k−1} + inputs_k from s_{−1} = 0, for all k."""
    # scipy's lfilter takes longer to load than this does for a million steps.
    sums = accumulate(inputs.tolist(), lambda total, received: received + factor * total)
    return np.fromiter(sums, float, len(inputs))


@dataclass(frozen=True)
class Budget:
    """(ε, δ) of the first k + 1 releases together, at place k; (releases,) each."""

    epsilon: np.ndarray
    delta: np.ndarray

    @property
    def final(self) -> tuple[float, float]:
        """(ε, δ) of all releases."""
        return float(self.epsilon[-1]), float(self.delta[-1])


def noise_ratio(sensitivity: float | np.ndarray, noise: float | np.ndarray) -> np.ndarray:
    """Δ/σ, broadcast; 0 where there is no sensitivity, ∞ where there is some and no noise."""
    deltas, scales = np.broadcast_arrays(np.asarray(sensitivity, float), np.asarray(noise, float))
    result = np.where(deltas > 0, inf, 0.0)
    return np.divide(deltas, scales, out=result, where=(deltas > 0) & (scales > 0))


def basic_composition(epsilon: np.ndarray, delta: float | np.ndarray = 0.0) -> Budget:
    """Sums of the ε and δ of single releases, (releases,) each; δ is at most 1."""
    deltas = np.cumsum(np.broadcast_to(delta, np.shape(epsilon)))
    return Budget(np.cumsum(epsilon), np.minimum(deltas, 1.0))


def worst_agent(
    budget: Callable[[float, float], Budget],
    state_weights: np.ndarray,
    tracker_weights: np.ndarray,
) -> Budget:
    """The largest ε and δ of any agent at every release.

    budget: of the weights R̄ and C̄ that an agent receives; (n,) of all agents.
    """
    kinds = sorted(set(zip(state_weights.tolist(), tracker_weights.tolist(), strict=True)))
    budgets = [budget(*weights) for weights in kinds]
    return Budget(
        np.max([each.epsilon for each in budgets], axis=0),
        np.max([each.delta for each in budgets], axis=0),
    )


def laplace_composition(
    sensitivities: Sensitivities,
    bound: float,
    state_noise: float | np.ndarray,
    tracker_noise: float | np.ndarray,
) -> Budget:
    """DP-GT, Lemma 3: ε = C Σ_k (Δx_k/σ_k^(ζ) + Δy_k/σ_k^(η)).

    bound: C in l1. Definition 3 of the paper states it in l2, a factor √d smaller.
    """
    states = noise_ratio(bound * sensitivities.state, state_noise)
    return basic_composition(states + noise_ratio(bound * sensitivities.tracker, tracker_noise))


def fresh_laplace(
    bound: float,
    samples: int | np.ndarray,
    noise: float | np.ndarray,
    releases: int,
    data_size: int | None = None,
) -> Budget:
    """ε = Σ_k C/(m_k σ_k) where a release depends on its own m_k samples and earlier releases only.

    bound: C in l1. samples, noise: constants or arrays (releases,).
    data_size: D, amplifies: nobody knows which m of the agent's D samples were drawn. Then
    ε_k = ln(1 + (m_k/D)(e^{C/(m_k σ_k)} − 1)): sampling without replacement, anew at every release,
    one sample replaced (Balle, Barthe, Gaboardi 2018). Does not cover releases that depend on
    samples of earlier iterations, such as states and trackers of DP-GT.
    """
    losses = np.broadcast_to(noise_ratio(bound / np.asarray(samples), noise), releases)
    if data_size is None:
        return basic_composition(losses)
    share = np.asarray(samples) / data_size
    if np.max(share) > 1:
        raise FedatlasError(
            f"privacy: {np.max(samples)} samples cannot be drawn without replacement from "
            f"{data_size}; lower the samples or the horizon"
        )
    # ln(1 + share (e^loss − 1)) without overflow.
    return basic_composition(losses + np.log1p((1 - share) * np.expm1(-losses)))


def gaussian_basic(ratios: np.ndarray, delta_per_release: float) -> Budget:
    """Σ_k √(2 ln(1.25/δ_0)) Δ_k/s_k at δ = Σ_k δ_0: a linear curve of cumulative ε.

    ratios: (releases,) Δ_k/s_k in l2. The formula is a theorem for ε_k < 1 and remains true for
    somewhat larger ε_k; ε is infinite from the first release on whose exact δ contradicts it.
    """
    epsilon = sqrt(2 * log(1.25 / delta_per_release)) * ratios
    true = _gaussian_profile(epsilon, ratios) <= delta_per_release
    return basic_composition(np.where(true, epsilon, inf), delta_per_release)


def gaussian_zcdp(ratios: np.ndarray, delta: float) -> Budget:
    """ε = ρ + 2√(ρ ln 1/δ) with ρ = Σ_k (Δ_k/s_k)²/2 (Bun, Steinke 2016), δ the same throughout."""
    rho = np.cumsum(np.square(ratios)) / 2
    return Budget(rho + 2 * np.sqrt(rho * log(1 / delta)), np.full(len(ratios), delta))


def gaussian_tight(ratios: np.ndarray, delta: float) -> Budget:
    """The smallest ε at δ, the same δ throughout.

    Gaussian releases together are worth one with (Δ/s)² = Σ_k (Δ_k/s_k)² (Dong, Roth, Su 2022),
    whose δ(ε) is known exactly (Balle, Wang 2018).
    """
    zcdp = gaussian_zcdp(ratios, delta)
    ratio = np.sqrt(np.cumsum(np.square(ratios)))
    high = np.where(np.isfinite(zcdp.epsilon), zcdp.epsilon, 0.0)
    low = np.zeros_like(high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        true = _gaussian_profile(middle, ratio) <= delta
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return Budget(np.where(np.isfinite(ratio), high, inf), zcdp.delta)


_BISECTIONS = 60  # more than float64 has digits


def _gaussian_profile(epsilon: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """δ(ε) of one Gaussian release: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), μ = Δ/s."""
    from scipy.special import log_ndtr

    mu = np.where((ratio > 0) & np.isfinite(ratio), ratio, 1.0)
    steps = np.where(np.isfinite(epsilon), epsilon, 0.0) / mu
    first = np.exp(log_ndtr(mu / 2 - steps))
    exact = first - np.exp(steps * mu + log_ndtr(-mu / 2 - steps))
    return np.where(np.isinf(ratio), 1.0, np.where(ratio > 0, exact, 0.0))


def ternary_delta(sensitivity: np.ndarray, value_range: float) -> Budget:
    """(0, δ) of ternary quantisation: δ_k = min(1, ‖Δ_k‖₁/r), summed.

    sensitivity: (releases,) in l1, C included. value_range: r. A coordinate x is sent as r sign(x)
    with probability |x|/r, else as 0: its distribution moves by |Δ|/r in total variation.
    """
    deltas = np.minimum(sensitivity / value_range, 1.0)
    return basic_composition(np.zeros(len(deltas)), deltas)


def binomial_step(
    l1: float, l2: float, linf: float, *, spacing: float, trials: int, dimension: int, delta: float
) -> float:
    """ε at δ of noise spacing (Bin(trials, ½) − trials/2) on d coordinates of such a lattice.

    l1, l2, linf: sensitivity in the three norms, of the lattice's points. Agarwal, Suresh, Yu,
    Kumar, McMahan 2018 (cpSGD), Theorem 1 at p = ½; infinite where its condition on the variance,
    trials/4 ≥ max(23 ln(10d/δ), 2 linf/spacing), does not hold.
    """
    v = trials / 4
    if v < max(23 * log(10 * dimension / delta), 2 * linf / spacing):
        return inf
    b, c, d = 1 / 3, sqrt(2) * 7 / 4, 2 / 3
    of_l2 = l2 * sqrt(2 * log(1.25 / delta)) / sqrt(v)
    of_l1 = (l2 * c * sqrt(log(10 / delta)) + l1 * b) / (v * (1 - delta / 10))
    of_linf = 2 / 3 * linf * log(1.25 / delta)
    of_linf += linf * d * log(20 * dimension / delta) * log(10 / delta)
    return (of_l2 + of_l1 + of_linf / v) / spacing
