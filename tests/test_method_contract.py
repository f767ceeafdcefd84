"""What every method keeps to: runs go on where they were killed, seeds decide, rounds are pure."""

import sys
from dataclasses import asdict, replace

import numpy as np
import pytest

import fedatlas.federations
from fedatlas.algorithms import algorithm_names, build_algorithm
from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext
from fedatlas.schema.federation import federations
from fedatlas.schema.quantities import COSTS, MEASUREMENTS
from fedatlas.training.loop import train
from fedatlas.training.states import state_arrays
from resuming import killed_and_resumed, without_times
from small_federations import (
    AUC,
    CLASSES,
    CLIENTS,
    LINEAR,
    RING,
    SILOS,
    SMALL,
    small,
    small_shards,
)

pytestmark = pytest.mark.usefixtures("one_thread")

every_method = pytest.mark.parametrize("algorithm", SMALL)


def test_every_method_is_here():
    assert sorted(SMALL) == algorithm_names()


def test_two_federations_for_the_same_runs_are_refused(tmp_path, monkeypatch):
    (tmp_path / "relay").mkdir()
    (tmp_path / "relay" / "__init__.py").write_text(
        "from fedatlas.federations.horizontal import Horizontal\n\n\nclass Relay(Horizontal): ...\n"
    )
    package, folders = fedatlas.federations, [*fedatlas.federations.__path__, str(tmp_path)]
    monkeypatch.setattr(package, "__path__", folders)
    monkeypatch.setattr(package.__spec__, "submodule_search_locations", folders)
    federations.cache_clear()
    try:
        with pytest.raises(FedatlasError, match="'horizontal' and 'relay'"):
            federations()
    finally:
        federations.cache_clear()
        sys.modules.pop("fedatlas.federations.relay", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="module")
def whole(folder):
    """The trace of a method's small run, trained once."""
    traces = {}

    def trained(algorithm):
        if algorithm not in traces:
            shards = small_shards(folder, algorithm)
            traces[algorithm] = train(small(algorithm), shards, folder / f"{algorithm}.nc")
        return traces[algorithm]

    return trained


@every_method
def test_experiments_may_look_at_all_that_is_recorded_and_at_nothing_else(algorithm, whole):
    spec, recorded = small(algorithm), set(whole(algorithm).variables)
    counted = {cost for cost in COSTS if not spec.federation.why_not_counted(cost, spec.network)}
    private = {"epsilon", "delta"}  # of methods with budgets only
    if build_algorithm(spec).asynchronous:
        counted = {cost for cost in counted if not cost.startswith("sequential_")}
    assert counted - private == (recorded & set(COSTS)) - private
    measured = recorded & set(MEASUREMENTS)
    assert measured <= set(spec.federation.measures(spec.objective))


# A checkpoint is written at round 0, after each of seven rounds, and after a seed. Stages of CODA
# end after rounds 2 and 6, records are made after 3 and 6. Checkpoints before each kill:
KILLS = dict.fromkeys(SMALL, (3, 12)) | {
    "scaffold": (1, 2, 12),
    "vfb2_saga": (3, 1, 11),
    "codasca": (3, 4, 8),
    "dp_gradient_tracking": (3, 6, 6),
}
RESUMED_AT = [
    *(f"resuming seed 3 after round {number}" for number in range(8)),
    "1 of 2 seeds are to train",
]
RESUMED_AT += [f"resuming seed 8 after round {number}" for number in range(8)]


@every_method
def test_a_run_killed_again_and_again_ends_with_the_same_trace(
    algorithm, whole, folder, tmp_path, caplog
):
    expected, shards = whole(algorithm), small_shards(folder, algorithm)
    with caplog.at_level("INFO"):
        resumed = killed_and_resumed(KILLS[algorithm], small(algorithm), shards, tmp_path)
    for before in np.cumsum(KILLS[algorithm]):
        # What the checkpoint held is not done again.
        assert RESUMED_AT[before - 1] in caplog.text
    assert without_times(resumed).identical(without_times(expected))
    assert (np.diff(resumed["wall_time"], axis=1) > 0).all()  # time goes on as well


@every_method
def test_a_seed_decides_its_part_of_the_trace(algorithm, whole, folder, tmp_path):
    both = without_times(whole(algorithm))
    assert both["status"].values.tolist() == ["ok", "ok"]
    alone = train(small(algorithm, seeds=(8,)), small_shards(folder, algorithm), tmp_path / "8.nc")
    for name, values in both.sel(seed=[8]).variables.items():
        np.testing.assert_array_equal(alone[name], values, err_msg=name)
    assert (both["objective"][0, 1:] != both["objective"][1, 1:]).all()


@every_method
def test_a_round_leaves_start_state_and_measurements_alone(algorithm, folder):
    spec = small(algorithm)
    setting = FederationContext(spec, small_shards(folder, algorithm), "cpu")
    method, trial, random = build_algorithm(spec), setting.seed_run(3), RoundRandom(3)
    problem, network = trial.problem, trial.network

    def frozen(state):
        return {k: array.copy() for k, array in state_arrays(state, setting.engine.numpy).items()}

    x0 = method.start(problem, network, trial.x0)
    start, state = frozen(x0), x0
    for number in range(6):
        before, old = frozen(state), state
        point = method.point(state, network)
        counted = asdict(trial.counters)
        measured = problem.measure(point)
        assert problem.measure(point) == pytest.approx(measured, rel=0, nan_ok=True)
        assert asdict(trial.counters) == counted
        state = method.round(old, problem, network, random.at(number))
        assert state is not old
        for name in getattr(old, "__dataclass_fields__", ()):
            table = getattr(old, name)
            if isinstance(table, ClientRows):  # is handed on
                with pytest.raises(RuntimeError, match="was replaced"):
                    _ = table.table
                with pytest.raises(RuntimeError, match="was replaced"):
                    table.replace(np.array([0]), None)
                old, _ = replace(old, **{name: None}), before.pop(name)
        after = frozen(old)
        assert after.keys() == before.keys()
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array, err_msg=name)
    again = frozen(method.start(problem, network, trial.x0))
    for name, array in start.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


MIN_MAX = ("local_sgda", "momentum_local_sgda", "fmgda", "coda", "coda_plus", "codasca")
OF_OTHERS = [
    ("tdcd", {"objective": AUC}, "TDCD minimises, but its objective, auc_min_max, is min–max$"),
    ("tdcd", {"partition": CLIENTS}, "works on a tiered partition, but its .* is horizontal$"),
    ("tdcd", {"graphs": RING}, "TDCD does not work on graphs: remove 'graphs'$"),
    ("tdcd", {"hyper": {"labels": "nobody"}}, "labels.*'every_client' or 'first_silo'"),
    ("tdcd", {"hyper": {"momentum": 0.9}}, "momentum"),
    ("fedavg", {"partition": SILOS}, "works on a horizontal partition, but its .* is tiered$"),
    ("fedavg", {"graphs": RING}, "FedAvg.*: remove 'graphs'"),
    ("vfb2_sgd", {"objective": CLASSES}, "VFB.* the objective cross_entropy: only agents and cl"),
    ("tdcd", {"objective": CLASSES | {"name": "squared_error"}}, "squared_error: only clients do$"),
    ("fmgda", {"objective": CLASSES}, "FMGDA solves min–max .* cross_entropy, is not min–max"),
    *((name, {"objective": LINEAR}, "solves min–max problems, but") for name in MIN_MAX),
]


@pytest.mark.parametrize(("algorithm", "changes", "message"), OF_OTHERS)
def test_what_is_for_other_methods_is_refused(algorithm, changes, message):
    with pytest.raises(FedatlasError, match=message):
        build_algorithm(small(algorithm, **changes))
