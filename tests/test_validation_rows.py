"""Rows kept for validation: who has them, what is measured on them, what they leave alone."""

import json

import numpy as np
import pytest

import fedatlas
from experiment_files import BASE, load
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import select
from fedatlas.federations.context import FederationContext, shard_files
from fedatlas.federations.shards import read_shard
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import Selection
from fedatlas.shards.assignment import share_out
from fedatlas.training.loop import train
from small_federations import NORMALISATION, images, small
from small_federations import share_out as share_out_images

RNG = np.random.default_rng(0)
LABELS = RNG.integers(5, size=400).astype(float)
USUAL = {"clients": 9, "assignment": "dirichlet", "concentration": 0.5, "seed": 3, "test": 0.25}


def shared(**changes):
    return share_out(HorizontalPartition(**USUAL | changes), LABELS)


@pytest.mark.parametrize("test", [0.25, 50, None])
def test_every_client_keeps_its_share_out_of_its_own_rows(test):
    without, found = shared(test=test), shared(test=test, validation={"by_client": 0.3})
    np.testing.assert_array_equal(found.test, without.test)
    for whole, own, kept in zip(without.clients, found.clients, found.validation, strict=True):
        assert len(kept) == min(round(0.3 * len(whole)), len(whole) - 1)
        np.testing.assert_array_equal(np.sort([*own, *kept]), whole)
        assert (np.diff(kept) > 0).all() and (np.diff(own) > 0).all()


@pytest.mark.parametrize("test", [0.25, 50, None])
def test_a_share_of_all_is_kept_before_rows_are_shared_out(test):
    without, found = shared(test=test), shared(test=test, validation=0.1)
    (kept,) = found.validation
    np.testing.assert_array_equal(found.test, without.test)
    everything = np.concatenate([*found.clients, kept, found.test])
    np.testing.assert_array_equal(np.sort(everything), np.arange(400))
    assert len(kept) == round(0.1 * (400 - len(found.test)))
    other = shared(test=test, validation=0.1, seed=4).validation[0]
    assert not np.array_equal(kept, other)
    (again,) = shared(test=test, validation=0.1, clients=4).validation
    np.testing.assert_array_equal(kept, again)  # whoever holds the others


def test_partitions_without_the_key_are_told_apart_by_nothing():
    plain = HorizontalPartition(**USUAL)
    assert "validation" not in plain.model_dump()
    slugs = {
        HorizontalPartition(**USUAL | {"validation": one}).slug
        for one in (None, 0.1, 0.25, {"by_client": 0.1}, {"by_client": 0.25})
    }
    assert len(slugs) == 5 and plain.slug in slugs
    with pytest.raises(FedatlasError, match="keeps no row"):
        shared(clients=200, test=None, assignment="shuffled", concentration=None,
               validation={"by_client": 0.01})  # fmt: skip


STAR = {
    "objective": {"name": "logistic_l2", "weight": 1e-3},
    "rounds": 20, "record_every": 10, "seeds": 2,
    "clients_per_round": 5, "local_steps": 5, "batch_size": 4,
}  # fmt: skip
KEPT = {"kind": "horizontal", "clients": 20, "samples": 560, "test": 0.1, "assignment": "shuffled"}
MEASURED = ["validation_accuracy", "validation_accuracy_worst"]


def test_what_is_measured_on_them_is_the_models_accuracy_there(tmp_path):
    by_client = {"by_client": 0.25}
    partition = HorizontalPartition(
        clients=6, test=0.2, assignment="shuffled", validation=by_client, seed=1
    )
    objective = {"name": "cross_entropy", "model": "linear"}
    shards = share_out_images(tmp_path, partition, images(), (1, 8, 8), normalisation=NORMALISATION)
    data = read_shard(*shard_files(shards / partition.slug, 1))
    ids = [part.sample_id for part in (data.samples, data.test, data.validation)]
    np.testing.assert_array_equal(np.sort(np.concatenate(ids)), np.arange(90))
    assert data.offsets[-1] == 54 and data.validation_offsets.tolist() == [0, 3, 6, 9, 12, 15, 18]
    points = []
    spec = small("fedavg", partition=partition, objective=objective, measurements=MEASURED)
    trace = train(spec, shards, tmp_path / "trace.nc", keep=points.append)
    problem = FederationContext(spec, shards, "cpu").seed_run(spec.seeds[0]).problem
    weight = points[0].numpy()
    pixels = (data.validation.features - 4.0) / 4.0
    logits = pixels @ weight[:640].reshape(10, 64).T + weight[640:]
    right = logits.argmax(1) == data.validation.label
    assert problem.predicted(points[0], "validation").right.tolist() == right.tolist()
    assert float(trace["validation_accuracy"][0, -1]) == pytest.approx(right.mean())
    worst = right.reshape(6, 3).mean(axis=1).min()
    assert float(trace["validation_accuracy_worst"][0, -1]) == pytest.approx(worst)


def test_points_are_chosen_by_them():
    traces = {
        f"step-{step:g}": fedatlas.train(
            "fedavg", "breast-cancer", partition=KEPT | {"validation": 0.2},
            measurements=["validation_accuracy"], local_step_size=step, **STAR,
        ).assign_attrs(run="r", point=f"step-{step:g}")
        for step in (0.001, 0.1)
    }  # fmt: skip
    rule = Selection(measurement="validation_accuracy")
    record = select({"r": traces}, rule)["runs"]["r"]
    ends = [float(trace["validation_accuracy"][:, -1].median()) for trace in traces.values()]
    assert record["selected"] == "step-0.1" and ends[1] > ends[0]
    spec = json.loads(traces["step-0.1"].attrs["specification"])
    assert spec["partition"]["validation"] == 0.2


AGENTS = {"graphs": {"states": {"kind": "ring", "weights": "metropolis"}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"selection": {"measurement": "validation_accuracy"}}, "keeps no validation rows"),
        (AGENTS | {"partition": BASE["partition"] | {"validation": 0.1}}, "around a server keep"),
        ({"partition": BASE["partition"] | {"validation": 1.5}}, "partition.*validation"),
    ],
)
def test_what_has_none_is_refused(tmp_path, changes, message):
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, one=BASE | changes)
