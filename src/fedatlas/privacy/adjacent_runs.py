"""The ε of one pair of adjacent data sets under DP-GT, summed instead of sampled.

Adversaries see what is sent, so what is sent is the same on either data set (Lemma 3 of the paper);
what agent i0 computed besides may differ, and agents that hold the same samples do not differ.
Let the minibatch gradients of i0 at one point differ by u_k in iteration k: C/m where the changed
sample was drawn, else 0. With curvature h between the two states, Δg_k = h Δx_k + u_k, and all
updates are linear in z_k = Δy_k − Δg_k:

    Δx_{k+1} = a Δx_k − γ Δy_k,  z_{k+1} = b z_k − (1 − b) Δg_k,  Δy_k = z_k + Δg_k

from 0, with a = 1 − αR̄ and b = 1 − βC̄ in the literal form (4)/(6). In the compact form (7)/(8),
where agents count what they sent, a = b = 1. In the provable form Δx = 0 besides.

Laplace noise gives a release that moved by Δ the density ratio e^{±Δ/σ} at most, and exactly that
wherever the noise is beyond both values, which has a positive probability. Where the sample is
drawn in every iteration, all Δ are known numbers, and the ε of the pair is the sum of all |Δ|/σ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, log1p
from typing import Literal, TypeAlias

import numpy as np

from fedatlas.privacy.schemes import TrackingSteps

Form: TypeAlias = Literal["literal", "compact", "provable"]


@dataclass(frozen=True)
class ChangedAgent:
    """The releases of agent i0: by which update, with how much noise.

    state_weight, tracker_weight: R̄ and C̄, what i0 receives. state_noise, tracker_noise: scales σ_k
    of Laplace noise, (releases,) each; the provable form sends states without any.
    """

    form: Form
    steps: TrackingSteps
    state_weight: float
    tracker_weight: float
    state_noise: np.ndarray
    tracker_noise: np.ndarray

    @property
    def kept(self) -> tuple[float, float]:
        """a and b, the shares of its own exact state and tracker that i0 keeps."""
        if self.form != "literal":
            return 1.0, 1.0
        return (
            1 - self.steps.state_coupling * self.state_weight,
            1 - self.steps.tracker_coupling * self.tracker_weight,
        )

    @property
    def step_size(self) -> float:
        """γ, by which what differs of trackers enters states."""
        return 0.0 if self.form == "provable" else self.steps.step_size


def differences(
    agent: ChangedAgent, moved: float, curvature: Callable[[float], float]
) -> tuple[np.ndarray, np.ndarray]:
    """Δx_k and Δy_k of all releases, (releases,) each, where every iteration draws the sample.

    moved: u, by how much minibatch gradients at one point differ. curvature: h between two states,
    by their difference Δx.
    """
    (a, b), gamma = agent.kept, agent.step_size
    states, trackers = [], []
    x = z = 0.0
    for _ in agent.tracker_noise:
        g = curvature(x) * x + moved
        y = z + g
        states.append(x)
        trackers.append(y)
        x, z = a * x - gamma * y, b * z - (1 - b) * g
    return np.array(states), np.array(trackers)


def pair_epsilon(
    agent: ChangedAgent, moved: float, curvature: float | Callable[[float], float]
) -> float:
    """The ε of the pair where every iteration draws the changed sample; ∞ beyond float64.

    curvature: h, a number of quadratic losses; of others as in `differences`.
    """
    at = curvature if callable(curvature) else lambda _: curvature
    with np.errstate(over="ignore", invalid="ignore"):
        states, trackers = differences(agent, moved, at)
        spent = _ratios(states, agent.state_noise) + _ratios(trackers, agent.tracker_noise)
        total = float(spent.sum())
    return total if isfinite(total) else inf


def sampled_pair_epsilon(
    agent: ChangedAgent, moved: float, curvature: float, share: float
) -> float:
    """A lower bound of the pair's ε where an iteration draws the changed sample with a probability.

    All samples but the changed one have the same quadratic loss. Releases differ by Σ_j b_j T_kj,
    b_j being 1 where iteration j draws the sample, independently. Where all noises are beyond both
    values, on sides s_k, the ratio of densities is E[exp Σ_j b_j w_j] with
    w_j = Σ_k s_k T_kj/σ_k, which is Π_j (1 + share (e^{w_j} − 1)).

    The sides are those of the differences of a run that draws the sample throughout: the best if
    no release can move both ways, as in the compact form at curvatures of 0 or below, and in the
    provable form. With share 1 this is `pair_epsilon`.

    share: m/D.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        states, trackers = differences(agent, moved, lambda _: curvature)
        of_states = _shares(np.sign(states), agent.state_noise)
        of_trackers = _shares(np.sign(trackers), agent.tracker_noise)
        weights = moved * _weights(agent, curvature, of_states, of_trackers)
    if not np.isfinite(weights).all():
        return inf
    return float(sum(_amplified(weight, share) for weight in weights.tolist()))


def refuted_from(spent: Callable[[float], float], claimed: float, far: float) -> float | None:
    """The curvature nearest to 0 on the side of `far` from which on a pair spends more.

    spent: the pair's ε by curvature. None if it is at most `claimed` at `far`, 0 if more at 0.
    """
    if not spent(far) > claimed:
        return None
    if spent(0.0) > claimed:
        return 0.0
    near = 0.0
    while abs(far - near) > _PRECISION * abs(far):
        middle = (near + far) / 2
        near, far = (near, middle) if spent(middle) > claimed else (middle, far)
    return far


_PRECISION = 1e-9


def lowest_curvature_of_remark_4(distance: float) -> float:
    """Between two points at this distance, wherever they are, of ℓ(x) = x² + 3 sin² x − c x.

    The second example of the paper's Remark 4: nonconvex, 8-smooth, Polyak-Łojasiewicz, bounded
    below. (ℓ'(x + Δ) − ℓ'(x))/Δ = 2 + 6 cos(2x + Δ) sin(Δ)/Δ, at its lowest 2 − 6 |sin(Δ)/Δ|.
    What neighbours send may put x there, so that it is the supremum over what is sent.
    """
    return 2 - 6 * abs(float(np.sinc(distance / np.pi)))


def _weights(
    agent: ChangedAgent, curvature: float, of_states: np.ndarray, of_trackers: np.ndarray
) -> np.ndarray:
    """(releases,) Σ_k of_states_k Δx_k + of_trackers_k Δy_k per unit of u_j, for all j."""
    (a, b), gamma = agent.kept, agent.step_size
    weights = np.empty(len(of_trackers))
    # What a unit of Δx and of z at the next iteration adds to the sum, from the last one backwards.
    x = z = 0.0
    for k in range(len(weights) - 1, -1, -1):
        tracker = float(of_trackers[k]) - gamma * x  # a unit of Δy
        gradient = tracker - (1 - b) * z
        weights[k] = gradient
        x, z = a * x + float(of_states[k]) + curvature * gradient, b * z + tracker
    return weights


def _amplified(weight: float, share: float) -> float:
    """ln(1 + share (e^weight − 1)) without overflow."""
    if weight > 0:
        return weight + log1p((1 - share) * float(np.expm1(-weight)))
    return log1p(share * float(np.expm1(weight)))


def _ratios(moved: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """|Δ|/σ; 0 where nothing moved, whatever the noise."""
    return np.abs(moved) * _shares(np.sign(np.abs(moved)), noise)


def _shares(sides: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """s/σ; 0 where s is 0."""
    return np.divide(sides, noise, out=np.zeros_like(sides), where=sides != 0)
