"""Claims about privacy budgets: numbers without spread, as `evaluation.budgets` computes them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import Finding
from fedatlas.schema.claims import BudgetFallsTest, BudgetOrderTest, BudgetTest, DeltaReachesOneTest
from fedatlas.traces.netcdf import read_netcdf

FORMAT = "fedatlas budgets 1"


def read_budgets(path: Path) -> xr.Dataset:
    """Read it back; a damaged or foreign file is refused by name."""
    return read_netcdf(path, FORMAT, "a file of budgets")


def judge_budget(test: BudgetTest, budgets: xr.Dataset) -> Iterator[Finding]:
    """Findings of a claim about budgets, which are numbers without spread."""
    match test:
        case BudgetOrderTest():
            yield from _judge_order(test, budgets)
        case BudgetFallsTest():
            yield _judge_falls(test, budgets)
        case DeltaReachesOneTest():
            yield _judge_delta(test, budgets)


def _judge_order(test: BudgetOrderTest, budgets: xr.Dataset) -> Iterator[Finding]:
    """A case per rival, by each run's first accounting; other accountings are evidence."""
    ours = _totals(budgets, test.smaller)
    for rival in test.than:
        theirs = _totals(budgets, rival)
        (own, mine), (other, its) = next(iter(ours.items())), next(iter(theirs.items()))
        evidence = (
            f"ε in all: {test.smaller} {mine:.5g} ({own}), {rival} {its:.5g} ({other})"
            f"{_others(test.smaller, ours)}{_others(rival, theirs)}"
            f"{_resting_on(budgets, test.smaller, rival)}"
        )
        verdict = "reproduced" if mine < its else "not reproduced"
        yield Finding(f"[than {rival}]" if len(test.than) > 1 else "", verdict, evidence)


def _totals(budgets: xr.Dataset, run: str) -> dict[str, float]:
    """ε of all iterations by accounting."""
    cases = _cases(budgets, run)
    return {
        str(case["accounting"].item()): float(case["epsilon"].dropna("iteration")[-1])
        for case in cases
    }


def _cases(budgets: xr.Dataset, run: str) -> list[xr.Dataset]:
    cases = [budgets.isel(case=place) for place in np.flatnonzero(budgets["run"] == run)]
    if not cases:
        raise FedatlasError(f"claims: run '{run}' accounts for no privacy")
    return cases


def _others(run: str, totals: Mapping[str, float]) -> str:
    further = [f"{value:.5g} ({name})" for name, value in list(totals.items())[1:]]
    return f"; {run} {', '.join(further)}" if further else ""


def _resting_on(budgets: xr.Dataset, *runs: str) -> str:
    """What the budgets of runs rest on, once if it is the same."""
    stated = {run: str(_cases(budgets, run)[0]["statement"].item()) for run in runs}
    if len(set(stated.values())) == 1:
        return f"; each {stated[runs[0]]}"
    return "".join(f"; {run} {statement}" for run, statement in stated.items())


def _judge_falls(test: BudgetFallsTest, budgets: xr.Dataset) -> Finding:
    """Every horizon from the stated one on has a smaller ε than the one before."""
    case = _cases(budgets, test.run)[0]
    horizons, epsilon = case["horizon"].to_numpy(), case["final_epsilon"].to_numpy()
    late = (horizons >= test.from_horizon) & np.isfinite(epsilon)
    if late.sum() < 2:
        raise FedatlasError(f"claims: run '{test.run}' has no budgets of such horizons")
    rises = horizons[late][1:][np.diff(epsilon[late]) >= 0]
    highest = horizons[late][epsilon[late].argmax()]
    evidence = (
        f"{test.run}, horizons {test.from_horizon} to {horizons[late][-1]}: ε is largest at K = "
        f"{highest} ({epsilon[late].max():.5g}), {epsilon[late][0]:.5g} at the first and "
        f"{epsilon[late][-1]:.5g} at the last; it rises at {len(rises)} of {late.sum() - 1} steps"
    )
    if len(rises):
        evidence += f", last at K = {rises[-1]}"
    return Finding("", "not reproduced" if len(rises) else "reproduced", evidence)


def _judge_delta(test: DeltaReachesOneTest, budgets: xr.Dataset) -> Finding:
    """The first iteration at which δ is 1."""
    found, agrees = [], []
    for case in _cases(budgets, test.run):
        delta = case["delta"].dropna("iteration").to_numpy()
        reached = case["iteration"].to_numpy()[: len(delta)][delta >= 1]
        agrees.append(len(reached) > 0 and abs(int(reached[0]) - test.after) <= test.tolerance)
        end = f"after {reached[0]} iterations" if len(reached) else f"never ({delta[-1]:.3g})"
        found.append(f"{end} ({case['accounting'].item()})")
    evidence = f"{test.run}: δ = 1 {', '.join(found)}; claimed {test.after}"
    if test.fitted:
        return Finding("", "inconclusive", f"{evidence}; {test.fitted}")
    return Finding("", "reproduced" if agrees[0] else "not reproduced", evidence)
