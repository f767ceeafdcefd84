"""What runs spend of privacy: an ε is compared with others at the same δ only."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedatlas
from atlas_factory import write_atlas
from fedatlas.evaluation.quantities import common_delta
from judging import verdict
from trace_factory import falling_trace

RATES = [0.5, 0.51, 0.52, 0.53, 0.54, 0.55]
ROUNDS = np.arange(21.0)


def spending(epsilon: float, delta: float, rates: Any = RATES, **options: Any) -> Any:
    """A run that spends these by each record."""
    each = np.ones((len(rates), 1))
    return falling_trace(
        rates, epsilon=each * epsilon * ROUNDS, delta=each * delta * ROUNDS, **options
    )


def to_target(**more: Any) -> dict[str, Any]:
    return {
        "kind": "cost_to_target", "first": "a", "second": "b", "relation": "faster",
        "measurement": "gradient_norm", "target": 0.01, "cost": "epsilon", **more,
    }  # fmt: skip


ORDER = {key: value for key, value in to_target(kind="order").items() if key != "target"}


@pytest.mark.parametrize(
    ("a", "b", "outcome", "told"),
    [
        ((0.1, 0.0), (0.3, 0.0), "reproduced", "of ε to gradient_norm ≤ 0.01: a"),
        # What holds at δ = 0 holds at every δ.
        ((0.1, 0.0), (0.3, 1e-6), "reproduced", "0.01 at δ = 7.7e-06: a"),
        ((0.1, 1e-6), (0.3, 1e-6), "reproduced", "0.01 at δ = 7.7e-06: a"),
        ((0.1, 1e-6), (0.3, 1e-5), "not testable", "for a at δ = 7.7e-06, b at δ = 7.7e-05"),
        ((0.0, 1e-2), (0.3, 1e-5), "not testable", "for a at δ = 0.077, b at δ = 7.7e-05"),
        ((0.0, 0.0), (0.3, 0.0), "not testable", "a gets there at a cost of 0"),
    ],
)
def test_costs_to_a_target_are_of_one_delta(a, b, outcome, told):
    found = verdict(to_target(), a=spending(*a), b=spending(*b, run="b"))
    assert found.outcome == outcome and told in found.evidence


@pytest.mark.parametrize(
    ("a", "b", "outcome", "told"),
    [
        ((0.1, 0.0), (0.3, 0.0), "reproduced", "gradient_norm from 1.8 to 2 of ε: a"),
        ((0.1, 1e-6), (0.3, 3e-6), "reproduced", "1.8 to 2 of ε at δ = 2e-05: a"),
        ((0.1, 1e-6), (0.3, 1e-5), "not testable", "a at δ = 2e-05, b at δ = 6.67e-05"),
        ((0.0, 1e-2), (0.3, 1e-5), "not testable", "no cost that all spent: a spent 0 of ε"),
        ((np.inf, 0.0), (np.inf, 0.0), "not testable", "what all spent of ε has no bound"),
    ],
)
def test_runs_are_compared_at_one_epsilon_of_one_delta(a, b, outcome, told):
    with np.errstate(invalid="ignore"):
        traces = {name: spending(*own, run=name) for name, own in (("a", a), ("b", b))}
    found = verdict(ORDER, **traces)
    assert found.outcome == outcome and told in found.evidence
    assert "diverged" not in found.evidence


@pytest.mark.parametrize(("delta", "outcome"), [(0.0, "reproduced"), (1e-6, "not testable")])
def test_a_slope_of_epsilon_is_of_one_delta(delta, outcome):
    rate = {"kind": "rate", "run": "a", "targets": [0.1, 0.01, 0.001], "power": 1.0}
    found = verdict(rate | {"cost": "epsilon"}, a=spending(0.1, delta))
    assert found.outcome == outcome


@given(
    deltas=st.lists(st.lists(st.sampled_from([0.0, 1e-6, 1e-3]), min_size=1, max_size=3)),
)
def test_a_common_delta_is_one_at_which_every_epsilon_holds(deltas):
    found = common_delta([np.array(own) for own in deltas])
    spent = [own for own in deltas if max(own) > 0]
    if found is None:
        assert any(own != spent[0] for own in spent)
    else:
        assert found == max((max(own) for own in deltas), default=0.0)
        assert all(own == spent[0] for own in spent)


def test_a_table_says_at_which_delta_each_epsilon_holds(tmp_path):
    own = {"gaussian": (0.1, 1e-6), "laplace": (0.3, 0.0), "ternary": (0.0, 1e-2)}
    runs = {run: (run, {"only": spending(*spent)}) for run, spent in own.items()}
    path = write_atlas(tmp_path / "atlas", {"paper": {"paper-figure": ({}, runs)}})
    asked = ("gradient_norm", ["epsilon", "round"], 0.01)
    cells = fedatlas.compare(path, *asked).table()["epsilon"].tolist()
    assert [cell.rpartition(" at δ = ")[2] for cell in cells] == ["7.7e-06", "0", "0.077"]
    assert fedatlas.compare(path, *asked).remarks()[0].startswith("not comparable: ε at different")
    alone = fedatlas.compare(path, *asked, runs=["gaussian", "laplace"])
    assert not any("δ" in remark for remark in alone.remarks())
    pure = fedatlas.compare(path, *asked, runs=["laplace"])
    assert "δ" not in pure.table()["epsilon"].iloc[0]


def test_a_run_without_noise_spends_more_than_any_epsilon(tmp_path):
    with np.errstate(invalid="ignore"):
        runs = {"exact": ("exact", {"only": spending(np.inf, 0.0)})}
    path = write_atlas(tmp_path / "atlas", {"paper": {"paper-figure": ({}, runs)}})
    found = fedatlas.compare(path, "gradient_norm", "epsilon", 0.01)
    assert np.isposinf(found.dataset["cost_to_target"]).all()
    assert found.table().iloc[0].tolist() == ["∞", "6 of 6"]
