"""Theorem 1 of TDCD (Das, Castiglia, Wang and Patterson 2022)."""

from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.evaluation.bounds import SQUARED_GRADIENT, Bound
from fedatlas.theory.constants import TierConstants
from fedatlas.theory.theorems import AS_PRINTED, Course, Theorem

_NOTE = (
    "L(θ⁰) − L(θ^T) is at most L(θ⁰) − L*; σ_j² bounds the variance at all θ. The proof's sum ends "
    "at t_0 + Q − 1, but must reach t_0 + Q"
)


def theorems(method: Tdcd, constants: TierConstants, course: Course) -> list[Theorem]:
    """(15): the mean of ‖∇L‖² at the starts of R rounds, under (14).

    Clients keep their shards, so that a minibatch's samples at one of several are not drawn from
    all: (8) holds with one client in each silo only, however large the minibatch is.
    """
    q, (step,) = method.local_steps, method.step_bounds(constants)
    bound, variance = None, constants.variance(method.batch_size)
    if variance is not None:
        rate = min(step.value, step.bound) * q  # ηQ
        smoothness, partial = constants.loss_smoothness, constants.partial_smoothness
        error = rate * smoothness + 4 * (rate * partial) ** 2
        error += 8 * rate**3 * smoothness * partial**2
        bound = Bound(
            SQUARED_GRADIENT,
            "rounds",
            constant=4 * constants.gap / rate,
            floor=4 * error * variance,
        )
    return [
        Theorem(
            "Theorem 1",
            AS_PRINTED,
            constants.smoothness,
            (step,),
            "" if set(constants.clients) == {1} else "E g_kj = ∇_j L (8)",
            bound,
            course.rounds,
            _NOTE,
        )
    ]
