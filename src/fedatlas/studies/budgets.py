"""Privacy that runs spend, by iteration and in all by horizon."""

from collections.abc import Sequence
from dataclasses import asdict, fields

import numpy as np
import xarray as xr

from fedatlas.algorithms import build_algorithm
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.budgets import FORMAT
from fedatlas.federations.decentralised.algorithm import DecentralisedAlgorithm
from fedatlas.federations.decentralised.network import graph_weights
from fedatlas.privacy.accountants import Budget, Exposure
from fedatlas.privacy.conditions import Condition
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import BudgetStudy

CONDITION_COLUMNS = ["run", *(field.name for field in fields(Condition))]


def compute_budgets(specs: Sequence[RunSpec], study: BudgetStudy) -> xr.Dataset:
    """Budgets of the runs that account for privacy, a `case` for each run and accounting.

    Variables: epsilon, delta (case, iteration) after each iteration of the run as it is;
    final_epsilon, final_delta (case, horizon) of a whole run of k = 0 … K with the steps, samples
    and noise of the horizon K. These are NaN for methods that do not follow the horizon, and where
    it asks for more samples than there are. Coordinates of a case: run, accounting, statement (what
    the budget rests on), first (whether the accounting is the run's first, see
    `DecentralisedAlgorithm.budgets`).
    """
    rounds = max(spec.rounds for spec in specs)
    unknown = Budget(*np.full((2, study.last_horizon), np.nan))
    rows: list[tuple[str, str, bool, str, Budget, Budget]] = []
    for spec in specs:
        algorithm, exposure = _private(spec, study)
        by_iteration = algorithm.budgets(exposure, spec.rounds)
        by_horizon = algorithm.budgets_by_horizon(exposure, study.last_horizon)
        for place, (accounting, budget) in enumerate(by_iteration.items()):
            case = (spec.run, accounting, place == 0, algorithm.privacy_statement)
            rows.append((*case, budget, by_horizon.get(accounting, unknown)))
    if not rows:
        raise FedatlasError("budgets: no run of the experiment accounts for privacy")
    names, accountings, own, statements, budgets, finals = zip(*rows, strict=True)
    return xr.Dataset(
        {
            "epsilon": (("case", "iteration"), _padded([b.epsilon for b in budgets], rounds)),
            "delta": (("case", "iteration"), _padded([b.delta for b in budgets], rounds)),
            "final_epsilon": (("case", "horizon"), np.array([b.epsilon for b in finals])),
            "final_delta": (("case", "horizon"), np.array([b.delta for b in finals])),
        },
        coords={
            "run": ("case", list(names)),
            "accounting": ("case", list(accountings)),
            "first": ("case", list(own)),
            "statement": ("case", list(statements)),
            "iteration": np.arange(1, rounds + 1),
            "horizon": np.arange(1, study.last_horizon + 1),
        },
        attrs={"format": FORMAT, "samples": study.samples, "dimension": study.dimension},
    )


def tabulate_conditions(specs: Sequence[RunSpec], study: BudgetStudy) -> list[dict[str, object]]:
    """Conditions of theorems on the runs, a row for each; a missing value is unknown."""
    rows: list[dict[str, object]] = []
    for spec in specs:
        algorithm, exposure = _private(spec, study)
        rows += [{"run": spec.run, **asdict(found)} for found in algorithm.conditions(exposure)]
    return rows


def _private(spec: RunSpec, study: BudgetStudy) -> tuple[DecentralisedAlgorithm, Exposure]:
    """A run's method, and the sizes and graphs on which its budget depends."""
    algorithm = build_algorithm(spec)
    assert isinstance(algorithm, DecentralisedAlgorithm)  # as the run has graphs
    return algorithm, Exposure(study.samples, study.dimension, *graph_weights(spec))


def _padded(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    return np.array([np.pad(row, (0, length - len(row)), constant_values=np.nan) for row in rows])
