"""Privacy that runs spend, by iteration and by horizon, and the noise that it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.tables import BUDGETS_FORMAT as FORMAT
from fedatlas.evaluation.tables import FORM_PARTS, to_csv
from fedatlas.federations.algorithm import Algorithm
from fedatlas.files import write_text
from fedatlas.privacy.accountants import Budget, PrivacyContext
from fedatlas.privacy.conditions import Condition
from fedatlas.privacy.drift import Place, form_gaps, single_drift, tracking_drift
from fedatlas.privacy.far_horizons import far_epsilon
from fedatlas.privacy.schemes import S1, S2
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import BudgetStudy
from fedatlas.store.netcdf import write_netcdf

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


def noise_drift(spec: RunSpec, iterations: int) -> np.ndarray:
    """(iterations,) noise in x̄, see `privacy.drift`; NaN of methods that are not listed here."""
    algorithm, (states, trackers) = build_algorithm(spec), spec.graph_weights
    if isinstance(algorithm, DpGradientTracking):
        assert trackers is not None
        scheme, horizon = algorithm.scheme, algorithm.horizon
        return tracking_drift(
            algorithm.form,
            scheme.steps(horizon),
            *(states, trackers),
            *scheme.noise(horizon)[:, :iterations],
        )
    if spec.algorithm not in _SINGLE:
        return np.full(iterations, np.nan)
    enters, variance = _SINGLE[spec.algorithm]
    method: Any = algorithm
    return single_drift(
        *(states, method.coupling, enters),
        np.full(iterations, variance(method)),
        method.step_size,
    )


CONDITION_COLUMNS = ["run", *(field.name for field in fields(Condition))]
_DRIFT = "noise gathered in x̄ by the end, standard deviation of a number"


def budgets_of_runs(specs: Sequence[RunSpec], study: BudgetStudy) -> xr.Dataset:
    """Budgets of the runs that account for privacy, a `case` for each run and accounting.

    Variables: epsilon, delta (case, iteration) after each iteration of the run as it is;
    final_epsilon, final_delta (case, horizon) of a whole run of k = 0 … K with the steps, samples
    and noise of the horizon K. These are NaN for methods that do not follow the horizon, and where
    it asks for more samples than there are. unfloored_epsilon (case, horizon) is final_epsilon with
    samples that are not rounded down, NaN of accountings that are not proportional to 1/m. drift
    (case, iteration) is the standard deviation of a number of x̄ that noise alone causes, NaN where
    it is not known. log_far_epsilon (case, far_horizon), where the study asks for it, is log10 of
    DP-GT's Lemma 3 over C by `privacy.far_horizons`, NaN of other accountings. form_gap (case,
    part) is by how much DP-GT's two forms differ, see `privacy.drift.form_gaps`. Coordinates of a
    case: run, accounting, statement (what the budget rests on),
    first (whether the accounting is the run's first that the study does not leave out, see
    `Algorithm.budgets`), finite_without (conditions of DP-GT's Theorem 4 or 5 that it
    does not meet).
    """
    horizons = np.arange(1, study.last_horizon + 1)
    unknown = Budget(*np.full((2, study.last_horizon), np.nan))
    cases = []
    for spec in specs:
        algorithm, context = _private(spec, study)
        kept = {
            name: budget
            for name, budget in algorithm.budgets(context, spec.rounds).items()
            if name not in study.without
        }
        by_horizon = algorithm.budgets_by_horizon(context, study.last_horizon)
        drift = noise_drift(spec, spec.rounds)
        far = _far(algorithm, context, study.far_horizon)
        for place, (accounting, budget) in enumerate(kept.items()):
            final = by_horizon.get(accounting, unknown)
            unfloored = final.epsilon * _floor(algorithm, accounting, study.last_horizon)
            cases.append(
                xr.Dataset(
                    {
                        "epsilon": ("iteration", budget.epsilon),
                        "delta": ("iteration", budget.delta),
                        "drift": ("iteration", drift),
                        "final_epsilon": ("horizon", final.epsilon),
                        "final_delta": ("horizon", final.delta),
                        "unfloored_epsilon": ("horizon", unfloored),
                        **(far if accounting == _OF_LEMMA_3 else {}),
                        **_gaps(algorithm, context),
                    },
                    coords={
                        "run": spec.run,
                        "accounting": accounting,
                        "first": place == 0,
                        "statement": algorithm.privacy_statement,
                        "finite_without": _finite_without(algorithm, context),
                        "iteration": np.arange(1, spec.rounds + 1),
                        "horizon": horizons,
                    },
                )
            )
    if not cases:
        raise FedatlasError("budgets: no run of the experiment accounts for privacy")
    budgets: xr.Dataset = xr.concat(cases, "case", coords="all", join="outer")
    return budgets.assign_attrs(format=FORMAT, samples=study.samples, dimension=study.dimension)


_OF_LEMMA_3 = "Lemmas 2 and 3"


def _far(algorithm: Algorithm, context: PrivacyContext, last: int | None) -> dict[str, Any]:
    """DP-GT's Lemma 3 up to the horizon `last`; nothing of other methods, or without one."""
    if last is None or not isinstance(algorithm, DpGradientTracking):
        return {}
    scheme = algorithm.scheme
    if not isinstance(scheme, S1 | S2):
        return {}
    assert context.trackers is not None
    count = round(10 * np.log10(last / 100)) + 1
    horizons = np.geomspace(100, last, count).round().astype(int)
    received = [weights.sum(axis=1).tolist() for weights in (context.states, context.trackers)]
    agents = list(zip(*received, strict=True))
    found = [far_epsilon(scheme, horizon, agents) for horizon in horizons.tolist()]
    return {"log_far_epsilon": xr.DataArray(found, {"far_horizon": horizons}, ["far_horizon"])}


def _gaps(algorithm: Algorithm, context: PrivacyContext) -> dict[str, Any]:
    """By how much DP-GT's forms differ at the run's steps, over its graphs; nothing of others."""
    if not isinstance(algorithm, DpGradientTracking):
        return {}
    assert context.trackers is not None
    steps = algorithm.scheme.steps(algorithm.horizon)
    found = form_gaps(steps, context.states, context.trackers)
    return {"form_gap": xr.DataArray(found, {"part": list(FORM_PARTS)}, ["part"])}


def _finite_without(algorithm: Algorithm, context: PrivacyContext) -> str:
    """Conditions of Theorem 4 or 5, of a finite ε, that are not met."""
    return "; ".join(
        str(condition)
        for condition in algorithm.conditions(context)
        if condition.source in ("Theorem 4", "Theorem 5") and condition.holds is False
    )


def tabulate_conditions(specs: Sequence[RunSpec], study: BudgetStudy) -> list[dict[str, object]]:
    """Conditions of theorems on the runs, a row for each; a missing value is unknown.

    The last row of a run is no condition: what its graphs, steps and noise leave in x̄.
    """
    rows: list[dict[str, object]] = []
    for spec in specs:
        algorithm, context = _private(spec, study)
        rows += [{"run": spec.run, **asdict(found)} for found in algorithm.conditions(context)]
        drift = noise_drift(spec, spec.rounds)[-1]
        if np.isfinite(drift):
            known = {"run": spec.run, "name": _DRIFT, "value": drift, "source": "ours"}
            rows.append(dict.fromkeys(CONDITION_COLUMNS) | known)
    return rows


def _floor(algorithm: Algorithm, accounting: str, last: int) -> np.ndarray:
    """(last,) m_K over what it would be if it were not rounded down, for K = 1 … last.

    NaN unless the accounting's ε is proportional to 1/m, and the scheme rounds.
    """
    if (
        not isinstance(algorithm, DpGradientTracking)
        or algorithm.form == "provable"
        or accounting.endswith("at any points")  # C/m of every one of m samples
    ):
        return np.full(last, np.nan)
    scheme, horizons = algorithm.scheme, np.arange(1, last + 1)
    if isinstance(scheme, S1):
        whole = scheme.samples_factor * horizons**scheme.p_m
    elif isinstance(scheme, S2):
        whole = scheme.samples_base**horizons
    else:
        return np.full(last, np.nan)
    drawn = np.array([scheme.steps(horizon).samples for horizon in horizons.tolist()])
    return np.asarray(drawn / (whole + 1))


def _private(spec: RunSpec, study: BudgetStudy) -> tuple[Algorithm, PrivacyContext]:
    """A run's method, and the sizes and graphs on which its budget depends."""
    algorithm = build_algorithm(spec)
    clients = sum(spec.partition.clients_by_silo)
    sizes = study.samples, study.dimension
    return algorithm, PrivacyContext(*sizes, *spec.graph_weights, clients)


def compute_budgets(
    budgets: BudgetStudy, runs: list[RunSpec], output: Path, conditions: Path
) -> None:
    """Compute what runs spend of privacy, and list theorems' conditions; nothing is trained."""
    write_netcdf(budgets_of_runs(runs, budgets), output)
    write_text(conditions, to_csv(tabulate_conditions(runs, budgets), CONDITION_COLUMNS))
