"""What runs spend of privacy, by iteration and in all as a function of the horizon."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import xarray as xr

from fedatlas.algorithms import build_algorithm
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.budgets import FORMAT
from fedatlas.federations.decentralised.algorithm import DecentralisedAlgorithm
from fedatlas.federations.decentralised.network import graph_weights
from fedatlas.privacy.accountants import Budget
from fedatlas.privacy.conditions import Condition
from fedatlas.privacy.exposure import Exposure
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import BudgetStudy
from fedatlas.traces.netcdf import write_netcdf

CONDITION_COLUMNS = ["run", *(field.name for field in fields(Condition))]


def exposure_of(spec: RunSpec, study: BudgetStudy) -> Exposure:
    """What a run's budget depends on, from its graphs and the study's sizes."""
    states, trackers = graph_weights(spec)
    return Exposure(study.samples, study.dimension, states, trackers)


def compute_budgets(specs: Sequence[RunSpec], study: BudgetStudy) -> xr.Dataset:
    """Budgets of the runs that account for any, a `case` for each run and accounting.

    Variables: epsilon, delta (case, iteration) after so many iterations of the run as it is;
    final_epsilon, final_delta (case, horizon) of a whole run of k = 0 … K, whose steps, samples and
    noise are those of the horizon K; NaN for methods that do not follow it, and where it asks for
    more samples than there are. Coordinates: run, accounting, statement (what it rests on) and
    first (whether it is the run's first accounting, see Algorithm.budgets) of each case.
    """
    rounds = max(spec.rounds for spec in specs)
    horizons = np.arange(1, study.last_horizon + 1)
    unknown = Budget(*np.full((2, study.last_horizon), np.nan))
    rows: list[tuple[str, str, bool, str, Budget, Budget]] = []
    for spec in specs:
        algorithm, exposure = _private(spec), exposure_of(spec, study)
        by_iteration = algorithm.budgets(exposure, spec.rounds)
        by_horizon = algorithm.budgets_by_horizon(exposure, study.last_horizon)
        for place, (accounting, budget) in enumerate(by_iteration.items()):
            statement = algorithm.privacy_statement
            final = by_horizon.get(accounting, unknown)
            rows.append((spec.run, accounting, place == 0, statement, budget, final))
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
            "horizon": horizons,
        },
        attrs={
            "format": FORMAT,
            "samples": study.samples,
            "dimension": study.dimension,
        },
    )


def tabulate_conditions(specs: Sequence[RunSpec], study: BudgetStudy) -> list[dict[str, object]]:
    """What theorems ask of the runs, a row for each run and condition; no value is not known."""
    return [
        {"run": spec.run, **asdict(condition)}
        for spec in specs
        for condition in _private(spec).conditions(exposure_of(spec, study))
    ]


def _private(spec: RunSpec) -> DecentralisedAlgorithm:
    algorithm = build_algorithm(spec)
    assert isinstance(algorithm, DecentralisedAlgorithm)  # as the run has graphs
    return algorithm


def _padded(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    return np.array([np.pad(row, (0, length - len(row)), constant_values=np.nan) for row in rows])


def write_budgets(budgets: xr.Dataset, path: Path) -> None:
    """Write the file whole or not at all."""
    write_netcdf(budgets, path)
