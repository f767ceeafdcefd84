"""The ε of DP-GT's Lemma 3 at horizons beyond all runs, by closed sums.

Lemma 2's recursions are linear, so that Δ_k is a sum of geometric sequences in k. Theorems 4 and 5
are about K → ∞, where m_K exceeds every data set and all numbers; sums are told by logarithms.
"""

from collections.abc import Iterable
from math import log10

import numpy as np

from fedatlas.privacy.accountants import Sensitivities
from fedatlas.privacy.schemes import S1, S2, TrackingSteps

_DIGITS = 15  # beyond which rounding down is below the accuracy of numbers


def closed_lemma_2(
    steps: TrackingSteps, state_weight: float, tracker_weight: float, horizon: int
) -> Sensitivities:
    """The values that `accountants.lemma_2` computes by recursion.

    With a = |1 − αR̄|, b = |1 − βC̄| and y = 2/(m (1 − b)): Δy_k = y + (1/m − y) b^k and
    Δx_k = γ y (1 − a^k)/(1 − a) + γ (1/m − y) (a^k − b^k)/(a − b). It needs a, b < 1.
    """
    k = np.arange(horizon + 1.0)
    a = abs(1 - steps.state_coupling * state_weight)
    b = abs(1 - steps.tracker_coupling * tracker_weight)
    limit = 2 / (steps.samples * (1 - b))
    passing = 1 / steps.samples - limit
    of_a, of_b = a**k, b**k
    both = (of_a - of_b) / (a - b) if a != b else k * a ** np.maximum(k - 1, 0)
    state = steps.step_size * (limit * (1 - of_a) / (1 - a) + passing * both)
    return Sensitivities(state, limit + passing * of_b)


def far_epsilon(scheme: S1 | S2, horizon: int, weights: Iterable[tuple[float, float]]) -> float:
    """log10 of Lemma 3's ε of a whole run of a horizon, in units of C, of the worst agent.

    weights: R̄ and C̄ of each agent.
    """
    if isinstance(scheme, S1):
        steps, noise = scheme.steps(horizon), scheme.noise(horizon)
        alone = TrackingSteps(steps.state_coupling, steps.tracker_coupling, steps.step_size, 1)
        samples, scales = log10(steps.samples), np.zeros(2)
    else:
        alone = TrackingSteps(scheme.alpha, scheme.beta, scheme.gamma, 1)
        samples, noise = horizon * log10(scheme.samples_base), np.ones((2, 1))
        if samples < _DIGITS:
            samples = log10(scheme.steps(horizon).samples)
        scales = horizon * np.log10([scheme.p_zeta, scheme.p_eta])
    worst = -np.inf
    for of_states, of_trackers in set(weights):
        moved = closed_lemma_2(alone, of_states, of_trackers, horizon)
        sums = [float((moved.state / noise[0]).sum()), float((moved.tracker / noise[1]).sum())]
        parts = np.log(sums) - np.log(10) * scales
        worst = max(worst, float(np.logaddexp(*parts) / np.log(10)))
    return worst - samples
