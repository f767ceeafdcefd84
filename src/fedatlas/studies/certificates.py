"""Exact worst cases of methods over all functions of a class, by performance estimation.

The method itself is run on vectors of coefficients (`studies.symbolic`). The worst Gram matrix of
these that a function of the class interpolates is a semidefinite program (Drori and Teboulle 2014;
Taylor, Hendrickx, Glineur 2017), which PEPit states and Clarabel solves: `pip install
fedatlas[theory]`.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.min_max import MinMaxAlgorithm
from fedatlas.schema.studies import Measure
from fedatlas.studies.symbolic import MOST, Asked, Coins, outcomes, play

#: Of the solver: what it finds is told by the gap between primal and dual.
_TOLERANCES = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-7)
#: Probabilities and the points of each outcome.
Paths = list[tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Setting:
    """A class of problems f = 1/N Σ_i f_i, how long a method runs, and what is certified.

    clients: N. rounds: R. smoothness, convexity: L and μ of every f_i; μ = −L asks for no
    convexity. Operators of min–max problems are L-Lipschitz and strongly monotone with μ.
    measure: `distance` is ‖x^R − x*‖², of agents its mean, where ‖x⁰ − x*‖ ≤ 1; `gradients` is the
    mean of ‖∇f(xʳ)‖² over rounds r < R, where f(x⁰) − f* ≤ 1. dissimilarity: ζ with
    1/N Σ_i ‖∇f_i‖² ≤ ζ², at x*, or of `gradients` at x⁰; None: no such bound.
    graphs: of agents, weights of states and trackers. dimension: in which compressors contract.
    longest: tosses in a round; what is expected is given that no round has more.
    """

    clients: int
    rounds: int
    smoothness: float
    convexity: float
    measure: Measure = "distance"
    dissimilarity: float | None = None
    graphs: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    dimension: int = 1
    longest: int = 3

    def paths(self, asked: Asked, method: Algorithm) -> Paths:
        """A method's points for every outcome of its coins, with the probability."""

        def run(coins: Coins) -> np.ndarray:
            return play(asked, method, self.rounds, coins, self.graphs, self.dimension)

        return list(outcomes(run, self.longest))


class Certificate(NamedTuple):
    """The result of a solver; NaN where it found nothing.

    worst: the dual's value, which no function of the class exceeds. attained: the primal's, which
    one attains if the class is `tight`, that is interpolated exactly. status: the solver's.
    kept: the probability of all outcomes of coins that were enumerated. gradients: how many
    different ones the method took. seconds: of the solver.
    """

    worst: float
    attained: float
    status: str
    tight: bool
    kept: float
    gradients: int
    seconds: float

    def __str__(self) -> str:
        told = [f"gap {self.worst - self.attained:.0e}"]
        if self.status != "optimal":
            told.append(f"the solver says {self.status}")
        if not self.tight:
            told.append("an upper bound, as the class is not interpolated exactly")
        if self.kept < 1 - 1e-9:
            told.append(f"given {100 * self.kept:.3g} % of the coins' outcomes")
        return f"{self.worst:.6g} ({', '.join(told)})"


def certify(method: Algorithm, setting: Setting) -> Certificate:
    """The worst case of a method, such as FedAvg(…), over a class of problems.

    FedatlasError if the method does more than add up gradients, if it takes too many, or if PEPit
    is not installed.
    """
    asked = Asked(setting.clients, optimum=setting.measure == "distance")
    paths = setting.paths(asked, method)
    _check_that_it_adds_up(asked, method, setting, paths)
    return _solve(asked, setting, paths, operators=isinstance(method, MinMaxAlgorithm))


def _check_that_it_adds_up(asked: Asked, method: Algorithm, setting: Setting, paths: Paths) -> None:
    """Run again on other vectors: all it asks and all its points must be the same sums of them."""
    drawn = np.random.default_rng(1).normal(size=(MOST, 12))
    rows = iter(drawn)
    other = Asked(setting.clients, asked.optimum, lambda client, point: next(rows), drawn.shape[1])
    again = setting.paths(other, method)
    own, found = (
        [points for _, points in run]
        + [point for _, point, _ in told.log]
        + [row for row, *_ in told.compressed]
        for run, told in ((paths, asked), (again, other))
    )
    same = len(own) == len(found) and all(
        np.allclose(each @ drawn, one, rtol=1e-6, atol=1e-6)
        for each, one in zip(own, found, strict=True)
    )
    if not same:
        raise FedatlasError(
            f"{method.title} does more than add up gradients, such as clip, round, divide by norms "
            "or add noise: its worst case is no semidefinite program"
        )


def _solve(asked: Asked, setting: Setting, paths: Paths, *, operators: bool) -> Certificate:
    """State the program in PEPit's words, and solve it."""
    pepit, clients = _pepit(), range(asked.clients)
    of_gradients = setting.measure == "gradients"
    if of_gradients:
        if setting.graphs[0] is not None:
            raise FedatlasError("agents have no common point: measure 'distance'")
        for _, points in paths:  # every client is asked for what is measured
            for point in points[:-1]:
                asked.gradients(point, clients)
    pep = pepit.PEP()
    constants = {"mu": setting.convexity, "L": setting.smoothness}
    of_class = (
        pepit.operators.LipschitzStronglyMonotoneOperatorCheap
        if operators
        else pepit.functions.SmoothStronglyConvexFunction
    )
    functions = [pep.declare_function(of_class, **constants) for _ in clients]
    basis = [pepit.Point() for _ in range(asked.used)]
    values = [pepit.Expression() for _ in asked.log]

    def vector(coefficients: np.ndarray) -> Any:
        some = np.flatnonzero(np.abs(coefficients) > 1e-14)
        parts = {basis[k]: float(coefficients[k]) for k in some.tolist()}
        return pepit.Point(is_leaf=False, decomposition_dict=parts)

    def mean(point: np.ndarray) -> tuple[Any, Any]:
        """∇f and f."""
        places = [asked.place(client, point) for client in clients]
        gradient = np.mean([asked.log[place][2] for place in places], axis=0)
        return vector(gradient), sum(values[place] for place in places) / len(places)

    for (client, point, gradient), value in zip(asked.log, values, strict=True):
        functions[client].add_point((vector(point), vector(gradient), value))
    for row, sent, lost in asked.compressed:
        pep.add_constraint(vector(row - sent) ** 2 <= lost * vector(row) ** 2)
    if setting.dissimilarity is not None:
        own = asked.gradients(asked.x0 if of_gradients else np.zeros(asked.width), clients)
        spread = sum(vector(each) ** 2 for each in own) / asked.clients
        pep.set_initial_condition(spread <= setting.dissimilarity**2)
    if of_gradients:
        least = pepit.Expression()  # f*
        for point in {tuple(each) for _, points in paths for each in points[:-1]}:
            slope, value = mean(np.array(point))
            pep.add_constraint(value - slope**2 / (2 * setting.smoothness) >= least)
        pep.set_initial_condition(mean(asked.x0)[1] - least <= 1)
    else:
        pep.set_initial_condition(vector(asked.x0) ** 2 <= 1)

    def measured(points: np.ndarray) -> Any:
        if of_gradients:
            return sum(mean(point)[0] ** 2 for point in points[:-1]) / setting.rounds
        rows = np.atleast_2d(points[-1])
        return sum(vector(row) ** 2 for row in rows) / len(rows)

    kept = sum(likely for likely, _ in paths)
    pep.set_performance_metric(sum(likely / kept * measured(own) for likely, own in paths))
    begun = time.perf_counter()
    worst, attained, status = _values(pep)
    seconds = time.perf_counter() - begun
    tight = not operators and (not of_gradients or asked.clients == 1)
    return Certificate(worst, attained, status, tight, kept, len(asked.log), seconds)


def _values(pep: Any) -> tuple[float, float, str]:
    """The dual's value, the primal's and the solver's status."""
    from cvxpy.error import SolverError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they say what the status does
        try:
            worst = pep.solve(solver="CLARABEL", verbose=0, max_threads=1, **_TOLERANCES)
        except (SolverError, AssertionError) as error:
            return nan, nan, f"failed: {error}"[:80]
    status = pep.wrapper.prob.status
    if worst is None:
        return nan, nan, status
    return float(worst), float(pep.wrapper.objective.value), status


def _pepit() -> Any:
    try:
        import clarabel  # noqa: F401
        import PEPit
        import PEPit.functions
        import PEPit.operators
    except ImportError as error:
        raise FedatlasError(
            f"{error.name} is not installed, by which certificates are computed: "
            "pip install fedatlas[theory]"
        ) from error
    return PEPit
