"""The noise that gathers in the agents' mean under a run's method, graphs and scheme."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.federations.decentralised.network import graph_weights
from fedatlas.privacy.drift import NoiseModel, Place, single_noise, tracking_noise
from fedatlas.schema.runs import RunSpec

#: Name of a method that sends models → where its noise lies, and the variance of a number's.
#: Methods do not say it themselves: their files are part of what traces depend on. They are not
#: imported either: budgets depend on the methods of their own runs only.
_SINGLE: Mapping[str, tuple[Place, Callable[[Any], float]]] = {
    "gaussian_gradient_descent": ("gradient", lambda method: method.noise**2),
    "binomial_gradient_descent": (
        "gradient",
        lambda method: method.spacing**2 * method.trials / 4,
    ),
    "online_gradient_descent": ("sent", lambda method: 2 * method.noise**2),
    "growing_samples_descent": ("received", lambda method: 2 * method.noise**2),
    # Rounding adds s² f (1 − f) on a number at the share f of the way, s²/6 on average.
    "quantised_gradient_descent": (
        "received",
        lambda method: 2 * method.noise**2 + method.spacing**2 / 6,
    ),
    # |x| (r − |x|) at most; it lies on own values, too, and leaves the mean alone.
    "ternary_gradient_descent": ("sent", lambda method: method.quantiser_range**2 / 4),
}


def noise_model(spec: RunSpec, iterations: int) -> NoiseModel | None:
    """How noise enters the updates of a run's method; None of methods that are not listed here."""
    algorithm, (states, trackers) = build_algorithm(spec), graph_weights(spec)
    if isinstance(algorithm, DpGradientTracking):
        assert trackers is not None
        scheme, horizon = algorithm.scheme, algorithm.horizon
        return tracking_noise(
            algorithm.form,
            scheme.steps(horizon),
            *(states, trackers),
            scheme.state_noise(horizon)[:iterations],
            scheme.tracker_noise(horizon)[:iterations],
        )
    if spec.algorithm not in _SINGLE:
        return None
    enters, variance = _SINGLE[spec.algorithm]
    method: Any = algorithm
    return single_noise(
        *(states, method.coupling, enters),
        np.full(iterations, variance(method)),
        method.step_size,
    )
