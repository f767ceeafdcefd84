"""More rounds: a longer run goes on from the last state of a shorter one, bit for bit."""

import logging
from unittest.mock import patch

import numpy as np
import pytest

from fedatlas.training import last_states
from fedatlas.training.loop import train
from fedatlas.training.seeds import SeedPolicy
from resuming import without_times
from small_federations import small, small_shards


@pytest.fixture
def policy(tmp_path, monkeypatch):
    """Keeps states of runs that take no time, too."""
    monkeypatch.setattr(last_states, "WORTH_SECONDS", 0.0)
    return SeedPolicy(tmp_path / "seeds", every_seconds=1e9)


def states(policy):
    return sorted((policy.folder / "last").glob("*/*.npz"))


def trained(method, shards, tmp_path, policy, **changes):
    spec = small(method, **{"rounds": 25, "record_every": 10, **changes})
    return train(spec, shards, tmp_path / "trace.nc", seeds=policy)


def continued(caplog):
    """After how many rounds seeds of the latest run went on."""
    told = [line.rsplit(" ", 1)[1] for line in caplog.messages if "resuming seed" in line]
    caplog.clear()
    return [int(number) for number in told]


TIMES = {
    "seconds_per_gradient": 1e-3, "compute": {"kind": "lognormal", "spread": 0.5}, "spread": 1.0,
    "latency": 0.05, "availability": 0.8, "loss": {"probability": 0.1, "burst": 3},
    "deadline": 2.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("scaffold", {}),
        ("scaffold", {"network": TIMES}),
        ("fedasync", {"network": TIMES}),
        ("vfb2_saga", {}),
        ("gaussian_gradient_descent", {}),
    ],
)
def test_a_longer_run_is_the_one_that_was_never_interrupted(
    tmp_path, policy, caplog, method, changes
):
    caplog.set_level(logging.INFO)
    shards = small_shards(tmp_path, method)
    short = trained(method, shards, tmp_path, policy, **changes)
    assert continued(caplog) == []
    longer = trained(method, shards, tmp_path, policy, rounds=60, **changes)
    assert continued(caplog) == [25, 25]
    whole = trained(method, shards, tmp_path, None, rounds=60, **changes)
    assert continued(caplog) == []
    assert without_times(longer).identical(without_times(whole))
    np.testing.assert_array_equal(longer["objective"][:, :3], short["objective"][:, :3])
    assert len(states(policy)) == 2  # one of each seed, of the longer run
    longest = trained(method, shards, tmp_path, policy, rounds=90, **changes)
    assert continued(caplog) == [60, 60] and longest["round"][0, -1] == 90


def test_a_larger_budget_goes_on_where_the_smaller_was_spent(tmp_path, policy, caplog):
    caplog.set_level(logging.INFO)
    shards, many = small_shards(tmp_path, "fedpage"), {"rounds": 200}
    small_one = {"gradient_evaluations": 1000}
    trained("fedpage", shards, tmp_path, policy, until=small_one, **many)
    larger = {"gradient_evaluations": 3000}
    found = trained("fedpage", shards, tmp_path, policy, until=larger, **many)
    assert all(0 < after < 30 for after in continued(caplog))
    whole = trained("fedpage", shards, tmp_path, None, until=larger, **many)
    assert without_times(found).identical(without_times(whole))
    # Back to the smaller one: its results lie there.
    trained("fedpage", shards, tmp_path, policy, until=small_one, **many)
    assert "0 of 2 seeds are to train" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 60, "record_every": 5},  # records that the shorter run lacks
        {"rounds": 60, "until": {"gradient_evaluations": 1000}},  # which it had spent before
        {"rounds": 60, "until": {"objective": 0.65}},  # which it had reached before
        {"rounds": 20},
        {"rounds": 60, "hyper_parameters": {"local_steps": 2}},
        {"rounds": 60, "seeds": (4, 9)},
    ],
)
def test_what_is_no_part_of_the_longer_run_is_left_alone(tmp_path, policy, caplog, changes):
    caplog.set_level(logging.INFO)
    shards = small_shards(tmp_path, "fedpage")
    trained("fedpage", shards, tmp_path, policy)
    own = small("fedpage").hyper_parameters | changes.pop("hyper_parameters", {})
    found = trained("fedpage", shards, tmp_path, policy, hyper_parameters=own, **changes)
    assert continued(caplog) == []
    whole = trained("fedpage", shards, tmp_path, None, hyper_parameters=own, **changes)
    assert without_times(found).identical(without_times(whole))


def test_rarer_records_are_a_part_of_frequent_ones(tmp_path, policy, caplog):
    caplog.set_level(logging.INFO)
    shards = small_shards(tmp_path, "fedpage")
    trained("fedpage", shards, tmp_path, policy, record_every=5)
    found = trained("fedpage", shards, tmp_path, policy, rounds=60, record_every=10)
    assert continued(caplog) == [25, 25]
    whole = trained("fedpage", shards, tmp_path, None, rounds=60, record_every=10)
    assert without_times(found).identical(without_times(whole))


def test_states_do_not_outgrow_their_folder(tmp_path, policy, monkeypatch):
    shards = small_shards(tmp_path, "fedpage")
    trained("fedpage", shards, tmp_path, policy)
    most = 3 * max(file.stat().st_size for file in states(policy))
    monkeypatch.setattr(last_states, "MOST_BYTES", most)
    for number in range(3):
        trained("fedpage", shards, tmp_path, policy, seeds=(10 + 2 * number, 11 + 2 * number))
        assert 0 < sum(file.stat().st_size for file in states(policy)) <= most
    monkeypatch.setattr(last_states, "MOST_BYTES", 100)
    before = states(policy)
    trained("fedpage", shards, tmp_path, policy, seeds=(20, 21))
    assert states(policy) == before  # too large by itself


def test_a_state_of_another_environment_or_of_short_rounds_is_not_used(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    shards = small_shards(tmp_path, "fedpage")
    policy = SeedPolicy(tmp_path / "seeds", every_seconds=1e9)
    trained("fedpage", shards, tmp_path, policy)
    assert not states(policy)  # trained within a second
    with patch.object(last_states, "WORTH_SECONDS", 0.0):
        trained("fedpage", shards, tmp_path, policy, rounds=30)
    assert states(policy)
    with patch("fedatlas.training.seeds.versions", lambda context: {"numpy": "1.0"}):
        trained("fedpage", shards, tmp_path, policy, rounds=60)
    assert continued(caplog) == []
