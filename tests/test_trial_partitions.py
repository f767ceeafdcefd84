"""Trials with partitions of their own: a run is what its seeds are, each trained on its own."""

import json

import numpy as np
import pytest

from fedatlas.errors import FedatlasError
from fedatlas.federations.context import open_context
from fedatlas.federations.horizontal import Horizontal
from fedatlas.training.loop import train
from small_federations import small, small_shards

# One of each federation and kind of engine.
METHODS = [
    "fedavg",
    "vfb2_svrg",
    "fmgda",
    "dp_gradient_tracking",
    "growing_samples_descent",
    "tdcd",
]


def varied(algorithm, **changes):
    """The method's small run over partitions that differ by seed, where rows are thinned or cut."""
    spec = small(algorithm)
    partition = spec.partition.model_copy(update={"test": 0.2, "seed": None})
    return spec.model_copy(update={"partition": partition, **changes})


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")

    def made(algorithm, monkeypatch):
        import small_federations

        data, _, *rest = small_federations.SMALL[algorithm]
        changed = {**small_federations.SMALL, algorithm: (data, varied(algorithm).partition, *rest)}
        monkeypatch.setattr(small_federations, "SMALL", changed)
        return small_shards(folder, algorithm)

    return made


@pytest.mark.parametrize("algorithm", METHODS)
def test_every_seed_trains_as_it_does_alone_on_its_own_partition(
    algorithm, shards, monkeypatch, tmp_path
):
    folder = shards(algorithm, monkeypatch)
    together = train(varied(algorithm), folder, tmp_path / "both.nc")
    objectives = []
    for number, seed in enumerate(together["seed"].values):
        alone = varied(algorithm, seeds=(int(seed),))
        alone = alone.model_copy(update={"partition": alone.partition.of_seed(int(seed))})
        trace = train(alone, folder, tmp_path / f"{seed}.nc")
        for name in set(trace.variables) - {"wall_time", "seed", "record", "epsilon", "delta"}:
            values = np.asarray(together[name])
            np.testing.assert_array_equal(
                values[number : number + 1] if values.ndim else values, trace[name], err_msg=name
            )
        objectives.append(float(trace["objective"][0, 0]))
        digests = (json.loads(found.attrs["shard_digests"]) for found in (together, trace))
        assert len({digest[str(seed)] for digest in digests}) == 1
    kept = json.loads(together.attrs["shard_digests"])
    assert list(kept) == ["3", "8"] and kept["3"] != kept["8"]
    # Linear models start at 0, where the loss is that of any rows.
    assert len(set(objectives)) == (2 if spec_has_a_network(algorithm) else 1)


def spec_has_a_network(algorithm):
    return "model" in small(algorithm).objective.model_dump()


def test_a_stated_seed_is_that_of_all_trials(shards, monkeypatch):
    folder = shards("fedavg", monkeypatch)
    spec = varied("fedavg")
    shared = spec.model_copy(update={"partition": spec.partition.of_seed(3)})
    digests = open_context(shared, folder, "cpu").shard_digests
    assert digests[3] == digests[8] == open_context(spec, folder, "cpu").shard_digests[3]


def test_one_trials_shards_are_held_at_once_and_read_when_it_changes(shards, monkeypatch):
    folder, read = shards("fedavg", monkeypatch), []
    original = Horizontal.read
    monkeypatch.setattr(Horizontal, "read", lambda files: read.extend(files) or original(files))
    setting = open_context(varied("fedavg"), folder, "cpu")
    for seed in (3, 3, 8, 8, 3):
        setting.seed_run(seed)
    parts = [varied("fedavg").partition.of_seed(seed).slug for seed in (3, 8, 3)]
    assert [file.parent.name for file in read] == parts


def test_a_trial_without_shards_is_named(shards, monkeypatch):
    folder = shards("fedavg", monkeypatch)
    with pytest.raises(FedatlasError, match=r"seed77.*manifest\.json: no such file"):
        open_context(varied("fedavg", seeds=(3, 77)), folder, "cpu")
