"""The noise that gathers in the agents' mean under a run's method, graphs and scheme."""

import numpy as np

from fedatlas.algorithms.binomial_gradient_descent import BinomialGradientDescent
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.algorithms.gaussian_gradient_descent import GaussianGradientDescent
from fedatlas.algorithms.growing_samples_descent import GrowingSamplesDescent
from fedatlas.algorithms.online_gradient_descent import OnlineGradientDescent
from fedatlas.algorithms.quantised_gradient_descent import QuantisedGradientDescent
from fedatlas.algorithms.ternary_gradient_descent import TernaryGradientDescent
from fedatlas.federations.decentralised.algorithm import DecentralisedAlgorithm
from fedatlas.privacy.drift import NoiseModel, Place, single_noise, tracking_noise


def noise_model(
    algorithm: DecentralisedAlgorithm,
    states: np.ndarray,
    trackers: np.ndarray | None,
    iterations: int,
) -> NoiseModel | None:
    """How noise enters the method's updates; None of methods that are not listed here.

    Methods do not say it themselves: their files are part of what traces depend on.
    """
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
    enters: Place
    match algorithm:
        case GaussianGradientDescent():
            enters, variance = "gradient", algorithm.noise**2
        case BinomialGradientDescent():
            enters, variance = "gradient", algorithm.spacing**2 * algorithm.trials / 4
        case OnlineGradientDescent():
            enters, variance = "sent", 2 * algorithm.noise**2
        case GrowingSamplesDescent():
            enters, variance = "received", 2 * algorithm.noise**2
        case QuantisedGradientDescent():
            # Rounding adds s² f (1 − f) on a number at the share f of the way, s²/6 on average.
            variance = 2 * algorithm.noise**2 + algorithm.spacing**2 / 6
            enters = "received"
        case TernaryGradientDescent():
            # |x| (r − |x|) at most; it lies on own values, too, and leaves the mean alone.
            enters, variance = "sent", algorithm.quantiser_range**2 / 4
        case _:
            return None
    return single_noise(
        states, algorithm.coupling, enters, np.full(iterations, variance), algorithm.step_size
    )
