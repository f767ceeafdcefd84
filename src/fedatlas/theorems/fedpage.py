"""FedPAGE's theorems (Zhao, Li, Richtárik 2021).

Constants are those of the proofs. p = S/N; L is that of every sample, or with K = 1 that of
Assumption 2.2. FedPAGE's nonconvex theorems are given as printed and as their proofs need them: the
statements have 1/(2pS) where the descent needs 1/(pS), so their global steps are up to √2 too
large.
"""

from math import sqrt

from fedatlas.algorithms.fedpage import FedPage
from fedatlas.evaluation.bounds import SQUARED_GRADIENT, SUBOPTIMALITY, Bound
from fedatlas.federations.algorithm import StepBound
from fedatlas.theory.constants import Constants
from fedatlas.theory.theorems import Course, Theorem


def theorems(method: FedPage, constants: Constants, course: Course) -> list[Theorem]:
    """All that are about its number of local steps, and of convex objectives those of section 5."""
    lacks, rounds = _lacks(method, constants), course.rounds
    found = [
        _nonconvex(method, constants, rounds, lacks, printed=printed) for printed in (True, False)
    ]
    if constants.convex:
        found.append(_convex(method, constants, rounds, lacks))
    return found


def _lacks(method: FedPage, constants: Constants) -> str:
    """Conditions of all theorems besides steps that the run does not meet, in words."""
    share = method.clients_per_round / constants.clients
    wrong = []
    if method.full_round_probability not in (None, share):
        wrong.append(f"p = S/N = {share:.3g}")
    if constants.samples is None:
        wrong.append("clients that hold equally many samples")
    for symbol, size in (("b1", method.full_batch_size), ("b2", method.first_batch_size)):
        if size is not None and constants.samples is not None and size < constants.samples:
            # With smaller minibatches a bound of the variance is assumed, which is not known.
            wrong.append(f"{symbol} = M")
    return ", ".join(wrong)


def _nonconvex(
    method: FedPage, constants: Constants, rounds: int, lacks: str, *, printed: bool
) -> Theorem:
    """Theorems 4.1 (K = 1) and 4.2: the mean of ‖∇f(xʳ)‖² over R rounds is at most c Δ₀/(η_g R).

    c = 2 (Li et al. 2021, Theorem 1, which 4.1 quotes), and 4 by the proof of 4.2.
    """
    single = method.local_steps == 1
    steps = tuple(method.step_bounds(constants, printed=printed))
    bound = None
    if steps:
        step = min(method.global_step_size, steps[0].bound)
        bound = Bound(
            SQUARED_GRADIENT, "rounds", constant=(2 if single else 4) * constants.gap / step
        )
    return Theorem(
        "Theorem 4.1" if single else "Theorem 4.2",
        "as printed" if printed else "corrected",
        constants.average_smoothness if single else constants.smoothness,
        steps,
        lacks,
        bound,
        rounds,
    )


def _convex(method: FedPage, constants: Constants, rounds: int, lacks: str) -> Theorem:
    """Theorem 5.1 (K = 1): the mean of f(xʳ⁺¹) − f* is at most (D₀²/(2η_g) + δ Δ₀)/R.

    It has Θ(·) in place of a constant; its proof needs A + B + C + D ≤ 1/2 (section E.1), all of
    them proportional to η_g, with δ = S^(−1/4) p^(−3/4). Theorem 5.2 (K > 1) has O(·) only.
    """
    assert constants.distance is not None
    p = method.clients_per_round / constants.clients
    s = method.clients_per_round
    if method.local_steps > 1:
        missing = "constants of its O(·)"
        lacks = f"{lacks}, {missing}" if lacks else missing
        return Theorem("Theorem 5.2", "as printed", constants.smoothness, (), lacks)
    smoothness = constants.average_smoothness
    delta = s**-0.25 * p**-0.75
    a = (sqrt(1 / (s * p)) + 1) / 2
    b = (1 - p) / (2 * p**1.5 * sqrt(s) * (1 + delta))
    c = (1 - p) / (2 * sqrt(p * s))
    d = (1 - p) ** 2 / (2 * p * (1 + delta) * sqrt(p * s))
    largest = 0.5 / (smoothness * (a + b + c + d))
    step = min(method.global_step_size, largest)
    constant = constants.distance**2 / (2 * step) + delta * constants.gap
    return Theorem(
        "Theorem 5.1",
        "constants of its proof",
        smoothness,
        (StepBound("η_g", method.global_step_size, largest, "Theorem 5.1"),),
        lacks,
        Bound(SUBOPTIMALITY, "rounds", constant=constant),
        rounds,
    )
