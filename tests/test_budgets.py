"""Privacy budgets of whole experiments: what is computed, judged and drawn."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from fedatlas.claims import (
    BudgetFallsTest,
    BudgetOrderTest,
    BudgetStudy,
    DeltaReachesOneTest,
)
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.budgets import (
    compute_budgets,
    judge_budget,
    read_budgets,
    tabulate_conditions,
    write_budgets,
)
from fedatlas.figures.budgets import compose
from fedatlas.plan import build_plan
from fedatlas.specs import RunSpec

PLAN = build_plan(Path(__file__).parent.parent / "config")
SPECS = PLAN.runs_of("dpgt-fig6")
STUDY = BudgetStudy(samples=12000, dimension=11_172_810, last_horizon=60)
BUDGETS = compute_budgets(SPECS, STUDY)


def by_hand(iterations, alpha, beta, gamma, samples, noise):
    """Lemmas 2 and 3 with row sums 1 and C = 1, a line for each equation."""
    dx, dy, spent, cumulative = 0.0, 1 / samples, 0.0, []
    for k in range(iterations):
        spent += (dx + dy) / noise(k)
        cumulative.append(spent)
        dx, dy = (1 - alpha) * dx + gamma * dy, (1 - beta) * dy + 2 / samples
    return cumulative


def first(run, variable):
    case = int(np.flatnonzero(BUDGETS["run"].to_numpy() == run)[0])
    return BUDGETS[variable].isel(case=case).to_numpy()


def test_the_published_accounting_of_s2():
    expected = by_hand(2001, 0.1, 0.01, 0.1, 55, lambda k: 0.9996**2000)
    assert first("s2-0.9996", "epsilon") == pytest.approx(expected)
    assert expected[-1] == pytest.approx(30701.2, abs=0.05)


def test_the_published_accounting_of_s1():
    expected = by_hand(
        2001,
        72 / 2001**0.987,
        0.95 / 2001**0.69,
        98 / 2001**0.997,
        53,
        lambda k: (k + 1) ** 0.1,
    )
    assert first("s1-0.1", "epsilon") == pytest.approx(expected)


@pytest.mark.parametrize("horizon", [1, 7, 60])
def test_a_horizon_has_its_own_samples_and_noise(horizon):
    samples, noise = int(1.002**horizon) + 1, 0.9996**horizon
    expected = by_hand(horizon + 1, 0.1, 0.01, 0.1, samples, lambda k: noise)[-1]
    assert first("s2-0.9996", "final_epsilon")[horizon - 1] == pytest.approx(expected)


def test_methods_that_know_no_horizon_have_spent_what_a_longer_run_has_by_then():
    run = first("chen-wang-zhang-2024", "epsilon")
    assert first("chen-wang-zhang-2024", "final_epsilon") == pytest.approx(run[1:61])


@pytest.mark.parametrize(
    ("run", "published"),
    [
        ("kang-2021", 392.3),
        ("wang-zhang-2024", 80.6),
        ("wang-zhang-2024-growing", 857.9),
        ("chen-wang-zhang-2024", 80.6),
    ],
)
def test_compared_methods_under_the_shared_setting(run, published):
    assert first(run, "epsilon")[-1] == pytest.approx(published, rel=1e-3)


def test_amplification_by_hand():
    one = np.log1p(55 / 12000 * np.expm1(1 / (55 * 0.9996**2000)))
    assert first("provable", "epsilon")[-1] == pytest.approx(2001 * one)


def test_shorter_runs_end_in_nan_not_in_zeros():
    shorter = [
        spec.model_copy(update={"rounds": 100} if spec.run == "kang-2021" else {}) for spec in SPECS
    ]
    budgets = compute_budgets(shorter, STUDY)
    of_kang = budgets["epsilon"].isel(case=budgets["run"].to_numpy() == "kang-2021")
    assert np.isnan(of_kang[:, 100:]).all() and np.isfinite(of_kang[:, :100]).all()
    (finding,) = judge_budget(
        BudgetOrderTest(kind="budget_order", smaller="kang-2021", than=("s1-0.1",)), budgets
    )
    assert "kang-2021 19.6" in finding.evidence


def test_order_goes_by_the_first_accounting_and_names_the_others():
    test = BudgetOrderTest(
        kind="budget_order", smaller="s1-0.1", than=("s2-0.9996", "chen-wang-zhang-2024")
    )
    s2, quantised = judge_budget(test, BUDGETS)
    assert (s2.verdict, quantised.verdict) == ("reproduced", "not reproduced")
    assert s2.case == "[than s2-0.9996]"
    assert "82.5" in quantised.evidence and "summation by parts" in quantised.evidence


def test_equal_budgets_are_not_smaller():
    test = BudgetOrderTest(
        kind="budget_order", smaller="wang-zhang-2024", than=("chen-wang-zhang-2024",)
    )
    (finding,) = judge_budget(test, BUDGETS)
    assert finding.verdict == "not reproduced" and finding.case == ""


def test_delta_of_ternary_messages_reaches_one_at_808():
    kind, run = "delta_reaches_one", "wang-basar-2023"
    for after, tolerance, verdict in ((808, 0, "reproduced"), (800, 7, "not reproduced")):
        test = DeltaReachesOneTest(kind=kind, run=run, after=after, tolerance=tolerance)
        (finding,) = judge_budget(test, BUDGETS)
        assert finding.verdict == verdict and "808" in finding.evidence
    test = DeltaReachesOneTest(kind=kind, run="kang-2021", after=800, tolerance=10)
    (finding,) = judge_budget(test, BUDGETS)
    assert finding.verdict == "not reproduced" and "0.02" in finding.evidence


def test_a_single_rise_refutes_a_fall():
    test = BudgetFallsTest(kind="budget_falls", run="s1-0.1", from_horizon=30)
    falling = BUDGETS.copy(deep=True)
    case = int(np.flatnonzero(falling["run"].to_numpy() == "s1-0.1")[0])
    falling["final_epsilon"][case] = np.linspace(9, 1, 60)
    (finding,) = judge_budget(test, falling)
    assert finding.verdict == "reproduced" and "rises at 0 of 30" in finding.evidence
    falling["final_epsilon"][case, 10] = 0.5  # before the horizon that the claim begins at
    assert [f.verdict for f in judge_budget(test, falling)] == ["reproduced"]
    falling["final_epsilon"][case, 45] = 0.5  # so that the next one is a rise
    (finding,) = judge_budget(test, falling)
    assert finding.verdict == "not reproduced" and "last at K = 47" in finding.evidence


def test_a_run_without_a_budget_is_refused():
    test = BudgetFallsTest(kind="budget_falls", run="nobody", from_horizon=30)
    with pytest.raises(FedatlasError, match="'nobody' accounts for no privacy"):
        list(judge_budget(test, BUDGETS))


def test_more_samples_than_there_are_have_no_amplified_budget():
    study = BudgetStudy(samples=100, dimension=10, last_horizon=2400)
    budgets = compute_budgets([spec for spec in SPECS if spec.run == "provable"], study)
    final = budgets["final_epsilon"].to_numpy()
    # m_K = 100 up to K = 2304, beyond which 1.002^K passes 100.
    assert np.isfinite(final[:, :2304]).all() and np.isnan(final[:, 2304:]).all()


def test_budgets_survive_a_file_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "budgets.nc"
    write_budgets(BUDGETS, path)
    assert read_budgets(path).identical(BUDGETS)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(FedatlasError, match=r"budgets\.nc: not a readable"):
        read_budgets(path)
    BUDGETS.drop_attrs().to_netcdf(path)
    with pytest.raises(FedatlasError, match="holds no budgets"):
        read_budgets(path)


def test_conditions_are_listed_for_tracking_only():
    rows = tabulate_conditions(SPECS, STUDY)
    assert {row["run"] for row in rows} == {"s1-0.1", "s2-0.9996", "provable"}
    unmet = {(row["run"], row["name"]) for row in rows if row["holds"] is False}
    assert ("s1-0.1", "a1 < min_i 1/Σ_j R_ij") in unmet
    assert any(run == "s2-0.9996" and name.startswith("α < √(330n)") for run, name in unmet)


def test_figure_has_a_line_for_every_budget_that_is_spent():
    titles = PLAN.run_titles("dpgt-fig6")
    canvas = compose("title", titles, BUDGETS)
    by_iteration, by_horizon, delta = canvas.axes
    cases = BUDGETS.sizes["case"]
    spends_none = {"wang-basar-2023"}  # of ε
    of_none = sum(run in spends_none for run in BUDGETS["run"].to_numpy())
    assert len(by_iteration.lines) == len(by_horizon.lines) == cases - of_none
    with_delta = (BUDGETS["delta"].fillna(0) > 0).any("iteration").sum()
    assert len(delta.lines) == with_delta
    # No two runs look alike.
    first_cases = np.flatnonzero(BUDGETS["paper"].to_numpy())
    legend = canvas.legends[0].get_lines()[: len(first_cases)]
    assert len({(to_hex(line.get_color()), line.get_linestyle()) for line in legend}) == len(
        first_cases
    )


def test_specifications_survive_json():
    spec = SPECS[0]
    again = RunSpec.model_validate(json.loads(spec.model_dump_json()))
    assert again == spec and again.weights[0].tolist() == spec.weights[0].tolist()
