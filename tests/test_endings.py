"""Budgets and targets that end runs: which round, what traces say, what is judged of them."""

import json
import logging

import numpy as np
import pytest

from experiment_files import BASE, load
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.compared import ComparisonTest
from fedatlas.evaluation.levels import until
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import Choice, scores
from fedatlas.schema.endings import ending_of, spent
from fedatlas.schema.quantities import COSTS
from fedatlas.training.loop import train
from small_federations import small, small_shards
from trace_factory import make_trace


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    methods = ("fedpage", "fedasync", "vfb2_sgd", "gaussian_gradient_descent")
    return {method: small_shards(folder, method) for method in methods}


def trained(shards, tmp_path, method="fedpage", **changes):
    spec = small(method, **{"rounds": 25, "record_every": 10, **changes})
    return train(spec, shards[method], tmp_path / "trace.nc")


@pytest.mark.parametrize(
    ("method", "cost", "share"),
    [
        ("fedpage", "bytes", 0.5),
        ("fedpage", "gradient_evaluations", 0.33),
        ("fedpage", "epoch", 0.9),
        ("vfb2_sgd", "simulated_time", 0.6),
        ("fedasync", "simulated_time", 0.4),
        ("gaussian_gradient_descent", "iteration", 0.5),
    ],
)
def test_a_budget_ends_a_run_with_the_round_that_spends_it(shards, tmp_path, method, cost, share):
    timed = {"network": {"seconds_per_gradient": 1e-3, "spread": 1.0, "latency": 0.05}}
    changes = timed if method == "fedasync" else {}
    every = trained(shards, tmp_path, method, record_every=1, **changes)
    counted = {name: every[name].to_numpy() for name in COSTS if name in every}
    parts = [counted[name] for name in ("bytes_up", "bytes_down", "bytes_sent") if name in counted]
    costs = sum(parts) if cost == "bytes" else counted[cost]
    budget = share * float(costs[:, -1].min())
    ended = trained(shards, tmp_path, method, until={cost: budget}, **changes)
    assert set(json.loads(ended.attrs["ended_by"]).values()) == {cost}
    longest = 0
    for seed, of_rounds in enumerate(costs):
        last = int(np.argmax(of_rounds >= budget))
        records = [*range(0, last, 10), last]
        longest = max(longest, len(records))
        for name in set(every.variables) - {"wall_time", "seed", "record", "status"}:
            own = ended[name].to_numpy()[seed]
            whole = every[name].to_numpy()[seed]
            np.testing.assert_array_equal(own[: len(records)], whole[records])
            # A seed that ended before others stands still.
            np.testing.assert_array_equal(own[len(records) :], own[len(records) - 1])
    assert ended.sizes["record"] == longest


def test_a_target_ends_a_run_with_the_first_record_that_has_reached_it(shards, tmp_path):
    whole = trained(shards, tmp_path, rounds=40, record_every=5)
    target = float(whole["gradient_norm"][:, 3].max())
    ended = trained(shards, tmp_path, rounds=40, record_every=5, until={"gradient_norm": target})
    first = (whole["gradient_norm"].to_numpy() <= target).argmax(axis=1)
    np.testing.assert_array_equal(ended["round"][:, -1], 5 * first)
    assert set(json.loads(ended.attrs["ended_by"]).values()) == {"gradient_norm"}
    assert json.loads(ended.attrs["specification"])["until"] == {"gradient_norm": target}


def test_runs_without_either_are_told_apart_by_nothing(shards, tmp_path):
    spec = small("fedpage")
    assert "until" not in spec.model_dump() and "until" not in spec.computed(3)
    assert "ended_by" not in trained(shards, tmp_path).attrs


def test_how_many_rounds_a_budget_pays_for_is_told_before_they_are_trained(
    shards, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    trace = trained(shards, tmp_path, until={"bytes": 1e7})
    told = "bytes: 1e+07, which pays for about 9921 rounds of seed 3, by its first two; 'rounds'"
    assert f"{told} allows 25" in caplog.text
    (warning,) = (one for one in json.loads(trace.attrs["warnings"]) if "bytes" in one)
    assert warning.startswith("all 25 rounds end before bytes: 1e+07 is spent, of the seeds 3, 8")
    with pytest.raises(FedatlasError, match="the start and the first round spend"):
        trained(shards, tmp_path, until={"bytes": 10})


def test_a_time_that_the_machine_measures_is_no_equal_budget(shards, tmp_path):
    trace = trained(shards, tmp_path, until={"wall_time": 1e-9})
    assert trace["round"].to_numpy().tolist() == [[0, 1]] * 2
    assert "another training ends elsewhere" in trace.attrs["warnings"]


def claim(test):
    return {"id": "c", "source": "ours", "statement": "s", "test": test}


TO_TARGET = {
    "kind": "cost_to_target", "first": "one", "second": "two", "relation": "faster",
    "measurement": "train_accuracy", "target": 0.8,
}  # fmt: skip
ORDER = {"kind": "order", "first": "one", "second": "two", "relation": "faster"}
GRID = {"one": {"algorithm": "fedavg", "grid": {"local_step_size": [1, 2]}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"until": {"round": 5}}, "'round' is no budget"),
        ({"until": {"epsilon": 1}}, "'epsilon' is no budget"),
        ({"until": {"bites": 5}}, "'bites' is neither a cost .bytes, "),
        ({"until": {"bytes": 5, "epoch": 1}}, "one budget and one target at most"),
        ({"until": {"train_accuracy": 1.5}}, "must lie below 1"),
        ({"until": {"test_accuracy": 0.9}}, "'until' looks at test_accuracy, but run 'one' keeps"),
        ({"until": {"train_accuracy": 0.7}, "claims": [claim(TO_TARGET)]}, "claim 'c': needs more"),
        ({"until": {"train_accuracy": 0.9}, "claims": [claim(ORDER)]}, "claim 'c': needs more"),
        ({"until": {"train_accuracy": 0.9}, "runs": GRID}, "its point is chosen by where runs end"),
        ({"until": {"wall_time": 9}, "runs": GRID}, "its point is chosen here"),
        ({"until": {"wall_time": 9}, "claims": [claim(ORDER)]}, "claim 'c' judges it"),
    ],
)
def test_what_an_end_does_not_suit_is_refused_before_anything_runs(tmp_path, changes, message):
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, one=BASE | changes)


def test_claims_that_a_target_suffices_for_are_taken(tmp_path):
    suits = BASE | {"until": {"train_accuracy": 0.8}, "claims": [claim(TO_TARGET)]}
    suits["runs"] = BASE["runs"] | {"two": {**BASE["runs"]["two"], "until": {"bytes": 1e9}}}
    (experiment,) = load(tmp_path, one=suits).values()
    assert experiment.ending_of("one") == ending_of({"train_accuracy": 0.8})
    assert experiment.ending_of("two").cost == "bytes"


def ended_trace(norms, run, target):
    trace = make_trace(norms, run=run)
    spec = json.loads(trace.attrs["specification"]) | {"until": {"gradient_norm": target}}
    return trace.assign_attrs(specification=json.dumps(spec))


def test_a_verdict_does_not_look_behind_a_target(tmp_path):
    values = np.array([[1, 0.1, 0.01], [1, 0.11, 0.009], [1, 0.09, 0.01]])
    traces = {
        "one": {"only": ended_trace(values, "one", 0.01)},
        "two": {"only": ended_trace(values**0.5, "two", 0.1)},
    }
    test = ComparisonTest.model_validate(
        {"kind": "cost_to_target", "first": "one", "second": "two", "relation": "faster",
         "measurement": "gradient_norm", "target": 0.1}
    )  # fmt: skip
    choices = {run: Choice("only", {}) for run in traces}
    (case,) = test.judge(Results(traces, choices))
    assert "(a target ends one, two)" in case.evidence
    outcomes = {scale: cell.outcome for scale, cell in case.horizon.cells}
    harder = [outcome for scale, outcome in outcomes.items() if scale < 1]
    assert set(harder) == {"not testable"} and outcomes[1.0] != "not testable"
    beyond = next(cell for scale, cell in case.horizon.cells if scale < 1)
    assert "run 'two' was ended at gradient_norm ≤ 0.1" in beyond.evidence


def test_shares_of_a_run_and_scores_follow_the_budget():
    trace = make_trace(np.array([[1, 0.1, 0.01, 0.001, 0.001], [1, 0.2, 0.02, 0.02, 0.02]]))
    costs = {"bytes_up": 0.25, "bytes_down": 0.75}
    for name, share in costs.items():
        trace[name][:] = share * np.array([[0, 10, 20, 30, 30], [0, 20, 40, 40, 40]])
    trace["round"][:] = [[0, 10, 20, 30, 30], [0, 10, 20, 20, 20]]
    spec = json.loads(trace.attrs["specification"]) | {"until": {"bytes": 30}, "rounds": 1000}
    trace.attrs["specification"] = json.dumps(spec)
    assert until(trace, 0.5).sizes["record"] == 2
    # Means of straight lines of log10 over the last tenth of 30 bytes.
    assert scores(trace, "gradient_norm", 0.1) == pytest.approx([-2.85, np.log10(0.2) - 0.425])


def test_bytes_are_those_of_all_directions():
    assert spent("bytes", {"bytes_up": 1, "bytes_down": 2, "messages": 9}) == 3
    assert spent("messages", {"bytes_up": 1, "messages": 9}) == 9
