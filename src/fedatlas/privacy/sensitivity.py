"""By how much one changed sample moves what an agent releases, by several accountings.

All are in units of the gradient bound C, in the norm that the noise asks for. Adjacent data differ
in one sample of agent i0 (DP-GT, Definition 3); what is sent is the same on either data, as the
adversary sees it. Weights are what agent i0 receives: R̄ = Σ_j R_{i0 j} and C̄ = Σ_j C_{i0 j}.

Only `smooth_lemma_2` allows for what the changed state does to later gradients. The others take
gradients at the same points on either data, as the papers do: true where points follow from what
was released, otherwise an assumption.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from fedatlas.privacy.schemes import TrackingSteps


@dataclass(frozen=True)
class Sensitivities:
    """‖Δx_k‖ and ‖Δy_k‖ of the state and the tracker of release k = 0 … K, (K + 1,) each."""

    state: np.ndarray
    tracker: np.ndarray


#: Steps, R̄, C̄ and the horizon K to the sensitivities of all releases.
Accounting: TypeAlias = Callable[[TrackingSteps, float, float, int], Sensitivities]


def lemma_2(
    steps: TrackingSteps, state_weight: float, tracker_weight: float, horizon: int
) -> Sensitivities:
    """DP-GT, Lemma 2 as printed: every triangle inequality on its own.

    Δy_{k+1} = |1 − βC̄| Δy_k + 2/m, from 1/m; Δx_{k+1} = |1 − αR̄| Δx_k + γ Δy_k, from 0.
    """
    inputs = np.full(horizon + 1, 2 / steps.samples)
    inputs[0] = 1 / steps.samples
    tracker = _recursion(abs(1 - steps.tracker_coupling * tracker_weight), inputs)
    return Sensitivities(_state_of_literal_form(steps, state_weight, tracker), tracker)


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
    return Sensitivities(_state_of_literal_form(steps, state_weight, tracker), tracker)


def compact_form(
    steps: TrackingSteps, state_weight: float, tracker_weight: float, horizon: int
) -> Sensitivities:
    """The compact updates (7) and (8) of DP-GT, where agents use their own broadcast values; ours.

    What the weights multiply is then released, hence fixed: Δy_{k+1} − Δy_k = Δg_{k+1} − Δg_k and
    Δx_{k+1} = Δx_k − γ Δy_k, so ‖Δy_k‖ = ‖Δg_k‖ ≤ 1/m and ‖Δx_k‖ ≤ γk/m at any weights.
    """
    tracker = np.full(horizon + 1, 1 / steps.samples)
    return Sensitivities(steps.step_size / steps.samples * np.arange(horizon + 1), tracker)


def smooth_lemma_2(
    steps: TrackingSteps,
    state_weight: float,
    tracker_weight: float,
    horizon: int,
    smoothness: float,
) -> Sensitivities:
    """Lemma 2 with the gradients' dependence on the state, which its proof drops.

    smoothness: L of every sample's gradient, in the norm of C. Gradients at x_k and x'_k differ by
    L Δx_k besides, so Δy_{k+1} = |1 − βC̄| Δy_k + 2/m + L(Δx_{k+1} + Δx_k). It explodes unless
    L < αR̄ βC̄/(2γ), couplings being below 1.
    """
    a = abs(1 - steps.state_coupling * state_weight)
    b = abs(1 - steps.tracker_coupling * tracker_weight)
    state, tracker = np.empty(horizon + 1), np.empty(horizon + 1)
    dx, dy = 0.0, 1 / steps.samples
    for k in range(horizon + 1):
        state[k], tracker[k] = dx, dy
        dx_next = a * dx + steps.step_size * dy
        dy = b * dy + 2 / steps.samples + smoothness * (dx_next + dx)
        dx = dx_next
    return Sensitivities(state, tracker)


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


def _state_of_literal_form(
    steps: TrackingSteps, state_weight: float, tracker: np.ndarray
) -> np.ndarray:
    """Δx_{k+1} = |1 − αR̄| Δx_k + γ Δy_k, from 0."""
    inputs = np.concatenate([[0.0], steps.step_size * tracker[:-1]])
    return _recursion(abs(1 - steps.state_coupling * state_weight), inputs)


def _recursion(factor: float, inputs: np.ndarray) -> np.ndarray:
    """s_k = factor s_{k−1} + inputs_k from s_{−1} = 0, for all k."""
    # scipy's lfilter takes longer to load than this does for a million steps.
    sums = accumulate(inputs.tolist(), lambda total, received: received + factor * total)
    return np.fromiter(sums, float, len(inputs))
