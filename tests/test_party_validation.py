"""The simulated network against processes: what is fitted, tabulated and drawn; and experiments."""

import json
from contextlib import nullcontext
from dataclasses import asdict

import numpy as np
import pytest
from matplotlib import pyplot as plt

from experiment_files import BASE, load
from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.messages import TIMED, RoundLog
from fedatlas.federations.parties.network import KEPT, Measured, Staleness, fitted_network
from fedatlas.figures.studies import draw_validation
from fedatlas.plan.checks import check_costs
from fedatlas.plan.jobs import cores
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.studies.validation import Pair, Run, read_pairs, tabulate
from small_federations import specification

NOTHING = np.zeros(0, np.int64)


def measured(*seconds):
    """A round of parties whose shares, updates and messages took these times."""
    logs = [
        RoundLog(
            np.zeros((0, 3)), np.zeros((0, 4)), np.zeros((0, 2)),
            {name: np.array(times) for name, times in zip(TIMED, of_party, strict=True)},
        )
        for of_party in seconds
    ]  # fmt: skip
    return Measured.nothing(len(logs)).with_round(logs, Staleness(*[NOTHING] * 5))


def test_a_network_is_fitted_to_what_was_measured():
    times = [([2.0, 4.0], [3.0], [0.5]), ([6.0], [], [0.7]), ([9.0], [9.0], [0.6])]
    model = fitted_network(measured(*times), np.array([3.0, 6.0, 6.0]), threads=2)
    assert model.seconds_per_feature == pytest.approx(1.0)
    assert model.straggler == pytest.approx(1.5)
    assert model.latency == pytest.approx(0.6)
    assert model.threads == 2
    # Over 3, 3, 6, 9 and 9, the means of a party's shares or updates.
    assert model.compute.times == pytest.approx((2 / 3, 1, 1, 1, 1, 4 / 3), rel=1e-5)
    with pytest.raises(FedatlasError, match="all of which took part"):
        fitted_network(Measured.nothing(2), np.ones(2), None)


def test_kept_times_are_bounded_and_drawn_from_all():
    found = Measured.nothing(1)
    for start in range(0, 20 * KEPT, 7 * KEPT):
        times = np.arange(start, min(start + 7 * KEPT, 20 * KEPT), dtype=float)
        log = RoundLog(NOTHING, NOTHING, NOTHING, dict.fromkeys(TIMED, times))
        found = found.with_round([log], Staleness(*[np.array([1, 400])] * 5))
    kept = found.seconds[0, 0]
    assert found.noted[0, 0] == 20 * KEPT and len(np.unique(kept)) == KEPT
    assert abs(kept.mean() / (10 * KEPT) - 1) < 0.2
    assert found.mean("read") == 200.5 and found.largest("tau_1") == 400
    assert found.delays[0].sum() == 6


def run(seconds, lacked):
    return Run((0.0, seconds, 2 * seconds), (1.0, 0.5, 0.2), lacked, 0.5, 0.4)


def pair(parties, synchronous, real, simulated):
    runs = run(real, (4, 0, 6)), run(simulated, (5, 5))
    return Pair(parties, synchronous, "tcp", {"latency": 1e-3}, {}, *runs)


PAIRS = [
    pair(2, False, 10.0, 9.0), pair(2, True, 12.0, 12.0),
    pair(4, False, 5.0, 4.5), pair(4, True, 8.0, 6.0),
]  # fmt: skip


def test_the_table_says_how_far_the_simulation_is_off():
    rows = {(row.quantity, row.parties, row.form): row for row in tabulate(PAIRS)}
    whole = rows["seconds of all rounds", 2, "asynchronous"]
    assert (whole.real, whole.simulated, whole.relative_error) == (20, 18, pytest.approx(-0.1))
    # The objective falls by 0.8; 0.36 is reached 0.14/0.3 of the way from 0.5 to 0.2.
    target = rows["seconds to the target", 4, "synchronous"]
    assert target.real == pytest.approx(8 * (1 + 0.14 / 0.3))
    assert rows["speed-up from 2 parties", 4, "asynchronous"].relative_error == pytest.approx(0)
    assert rows["speed-up from 2 parties", 4, "synchronous"].simulated == pytest.approx(2)
    assert rows["time asynchronous / synchronous", 4, "both"].real == pytest.approx(5 / 8)


def test_the_figure_is_drawn_from_the_file(tmp_path):
    curves = tmp_path / "validation.json"
    curves.write_text(json.dumps([asdict(one) for one in PAIRS]))
    assert read_pairs(curves)[3].times == PAIRS[3].times
    draw_validation("A title", curves, [tmp_path / "figure.png"])
    assert plt.imread(tmp_path / "figure.png").std() > 0
    curves.write_text('[{"parties": 2}]')
    with pytest.raises(FedatlasError, match="holds no curves of validate-parties"):
        read_pairs(curves)


def test_a_run_that_misses_the_target_has_no_time():
    assert np.isnan(run(1.0, (1,)).seconds_to(0.1))


PARTIES = {"kind": "vertical", "parties": 4, "active": 2}
REAL = {"algorithm": "vfb2_sgd", "backend": "processes", "hyper_parameters": {"step_size": 0.1}}
SIMULATED = REAL | {"backend": "simulated"}


def faster(cost):
    test = {"kind": "cost_to_target", "first": "one", "second": "two", "relation": "faster"}
    test |= {"cost": cost, "measurement": "objective", "target": 0.1}
    return [{"id": "time", "source": "a test", "statement": "one is faster", "test": test}]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"runs": {"one": REAL}}, "'backend: processes' belongs to vertical partitions"),
        (
            {"partition": PARTIES, "runs": {"one": REAL | {"backend": "imagined"}}},
            "'simulated' or 'processes'",
        ),
    ],
)
def test_what_backends_do_not_have_is_refused(tmp_path, contents, message):
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, refused=BASE | contents)


@pytest.mark.parametrize(
    ("run", "cost", "message"),
    [
        (REAL, "simulated_time", "its time is real: name elapsed_time"),
        (SIMULATED, "elapsed_time", "its time is simulated: name simulated_time"),
        (REAL, "elapsed_time", None),
    ],
)
def test_only_time_that_runs_count_is_claimed(tmp_path, run, cost, message):
    runs = {"partition": PARTIES, "runs": {"one": run, "two": run}}
    (experiment,) = load(tmp_path, timed=BASE | runs | {"claims": faster(cost)}).values()
    with pytest.raises(FedatlasError, match=message) if message else nullcontext():
        check_costs(experiment, "here")


def test_a_job_of_processes_asks_for_a_core_of_each():
    partition = VerticalPartition(parties=4, active=2)
    objective = {"name": "logistic_l2", "weight": 0.1}
    keys = {"partition": partition, "objective": objective, "hyper_parameters": {"step_size": 0.1}}
    real = specification("vfb2_sgd", backend="processes", **keys)
    simulated = specification("vfb2_sgd", **keys)
    assert (cores(real), cores(simulated), cores(simulated, real)) == (4, 1, 4)
    assert real.federation.name == "parties" and simulated.federation.name == "vertical"
    assert "fedatlas.federations.parties" in real.code
