"""Noise of agents that accumulates in their mean x̄.

Updates are linear in states, trackers and noise. With gradients of 0 what is left is noise:
z_{k+1} = A z_k + Σ_s B_s n_{s,k}, z = (x, y), so that its covariance follows by
P_{k+1} = A P_k Aᵀ + Σ_s v_{s,k} B_s B_sᵀ from 0, exactly, for every number of the model alike.
Laplace noise of scale σ has the variance 2σ². Graphs enter as weights, see `schema.graphs`.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from fedatlas.privacy.schemes import TrackingSteps
from fedatlas.schema.graphs import in_laplacian, out_laplacian

#: DP-GT's update: by (4)/(6), by (7)/(8), or stepping along trackers as sent.
Form: TypeAlias = Literal["literal", "compact", "provable"]
#: Where noise lies: on what is sent, own value included; on what is received of others only; or on
#: gradients.
Place: TypeAlias = Literal["sent", "received", "gradient"]
_ROUNDING = 1e-13


def tracking_drift(
    form: Form,
    steps: TrackingSteps,
    states: np.ndarray,
    trackers: np.ndarray,
    state_noise: np.ndarray,
    tracker_noise: np.ndarray,
) -> np.ndarray:
    """(iterations,) standard deviation of a number of x̄ after each iteration of DP-GT.

    form: by (4)/(6), by (7)/(8), or stepping along trackers as sent. states, trackers: R and C,
    (n, n). state_noise, tracker_noise: scales σ_k, (iterations,).
    """
    n = len(states)
    none, step = np.zeros((n, n)), steps.step_size * np.eye(n)
    kept, of_states, of_trackers = _coupled(form, steps, states, trackers)
    transition = np.block(
        [[np.eye(n) - steps.state_coupling * in_laplacian(states), -step], [none, kept]]
    )
    if form == "provable":  # states are sent exactly
        sources = [(np.vstack([-step, of_trackers]), tracker_noise)]
    else:
        sources = [
            (np.vstack([of_states, none]), state_noise),
            (np.vstack([none, of_trackers]), tracker_noise),
        ]
    return _drift(transition, [(enters, 2 * np.square(sigma)) for enters, sigma in sources])


def form_gaps(steps: TrackingSteps, states: np.ndarray, trackers: np.ndarray) -> np.ndarray:
    """(3,) by how much an iteration of (4)/(6) and one of (7)/(8) differ, from equal x, y and g.

    The largest coefficients of the difference: that of trackers in trackers, of states' noise in
    states, and of trackers' noise in trackers. States and gradients enter both forms alike.
    """
    literal, compact = (_coupled(form, steps, states, trackers) for form in ("literal", "compact"))
    pairs = zip(literal, compact, strict=True)
    return np.array([np.abs(one - other).max() for one, other in pairs])


def _coupled(
    form: Form, steps: TrackingSteps, states: np.ndarray, trackers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What y_k is multiplied by in y_{k+1}, and ζ_k in x_{k+1}, and η_k in y_{k+1}; each (n, n)."""
    alpha, beta = steps.state_coupling, steps.tracker_coupling
    if form == "literal":  # agents count their exact value, and receive the noise of others only
        kept = np.eye(len(trackers)) - beta * in_laplacian(trackers)
        return kept, alpha * states, beta * trackers
    lost = beta * out_laplacian(trackers)
    return np.eye(len(trackers)) - lost, -alpha * in_laplacian(states), -lost


def single_drift(
    weights: np.ndarray,
    coupling: float,
    enters: Place,
    variance: np.ndarray,
    step_size: float,
) -> np.ndarray:
    """The same of methods that send models: x_i ← x_i + κ Σ_j w_ij (x_j − x_i) − γ g_i.

    variance: of a number of one agent's noise, (iterations,).
    """
    laplacian, n = in_laplacian(weights), len(weights)
    by: dict[Place, np.ndarray] = {
        "sent": -coupling * laplacian,
        "received": coupling * weights,
        "gradient": -step_size * np.eye(n),
    }
    return _drift(np.eye(n) - coupling * laplacian, [(by[enters], variance)])


def _drift(transition: np.ndarray, sources: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """(iterations,) of A, (rows, rows), and independent noises: B, (rows, n), and their variance.

    The first n rows of z are agents' states.
    """
    agents = sources[0][0].shape[1]
    mean = np.zeros(len(transition))
    mean[:agents] = 1 / agents
    covariance = np.zeros_like(transition)
    gathered = []
    entering = [enters @ enters.T for enters, _ in sources]
    for variances in zip(*(variance for _, variance in sources), strict=True):
        covariance = transition @ covariance @ transition.T
        for each, variance in zip(entering, variances, strict=True):
            covariance = covariance + variance * each
        of_mean = float(mean @ covariance @ mean)
        # Where noise cancels in the mean, rounding leaves a trace.
        gathered.append(of_mean if of_mean > _ROUNDING * np.trace(covariance) else 0.0)
    return np.sqrt(gathered)
