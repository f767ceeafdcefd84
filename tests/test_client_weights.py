"""Clients that count by their samples or as declared: in f, f*, the server's mean and the runs."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.fedprox import FedProx
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.horizontal.network_engine import NetworkEngine
from fedatlas.federations.horizontal.torch_engine import TorchEngine
from fedatlas.federations.shards import ClientSamples, client_shares
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.training.loop import train
from fedatlas.training.solver import find_optimum
from prepared_files import make_samples
from reference import Problem, random_problem, shard_of
from small_federations import AGENTS, RING, share_out, small
from test_methods import Run

SIZES, N = (5, 3, 9, 1, 4, 6), 6
DECLARED = (0.5, 2.0, 1.0, 4.0, 0.1, 3.0)
WEIGHTS: dict[str, Any] = {"size": "size", "declared": DECLARED}
each_weights = pytest.mark.parametrize("weights", WEIGHTS)
each_engine = pytest.mark.parametrize("kind", ["compiled", "torch", "network"])


def shares(weights: str) -> np.ndarray:
    own = np.array(SIZES if weights == "size" else DECLARED, float)
    return own / own.sum()


def toy(sizes: tuple[int, ...] = SIZES) -> Problem:
    objective = LinearObjective(name="logistic_l2", weight=0.1)
    return random_problem(objective, sizes, 4, seed=1)


def engine_of(kind: str, weights: Any, problem: Problem | None = None) -> Any:
    data = shard_of(problem or toy())
    if kind == "network":
        model = {"name": "binary_cross_entropy", "model": "linear", "client_weights": weights}
        rows = Samples(data.samples.sample_id, data.samples.label, data.samples.features.toarray())
        told = {"dataset": "toy", "shape": None, "features": 4}
        data = ClientSamples(rows, data.offsets, told)
        return NetworkEngine(data, ClassificationObjective(**model), "cpu", torch.float64)
    objective = LinearObjective(name="logistic_l2", weight=0.1, client_weights=weights)
    if kind == "torch":
        return TorchEngine(data, objective, "cpu")
    return CompiledEngine(data, objective)


@each_engine
@each_weights
def test_the_mean_is_unbiased_and_of_all_clients_exact(kind: str, weights: str) -> None:
    """Over all sets of so many clients its mean is Σ p_i row_i; what clients change adds up."""
    engine, p = engine_of(kind, WEIGHTS[weights]), shares(weights)
    rows = np.random.default_rng(0).normal(size=(N, engine.dimension))
    for sampled in (1, 2, N):
        every = [np.array(chosen) for chosen in combinations(range(N), sampled)]
        found = [engine.numpy(engine.mean(engine.array(rows[own]), own)) for own in every]
        np.testing.assert_allclose(np.mean(found, axis=0), p @ rows, atol=1e-14)
    one, others = np.array([2]), np.array([0, 1, 3, 4, 5])
    parts = [engine.part_of_mean(engine.array(rows[own]), own) for own in (one, others)]
    np.testing.assert_allclose(engine.numpy(sum(parts)), p @ rows, atol=1e-14)


def test_clients_that_count_equally_are_divided_by_their_number() -> None:
    engine = engine_of("compiled", "equal")
    rows = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_array_equal(engine.mean(rows, np.arange(3)), rows.sum(0) / 3)
    np.testing.assert_array_equal(engine.mean(rows, np.arange(3)), rows.mean(0))
    np.testing.assert_array_equal(engine.part_of_mean(rows, np.arange(3)), rows.sum(0) / N)
    np.testing.assert_array_equal(client_shares(np.array(SIZES), "equal"), np.full(N, 1 / N))


@each_engine
@each_weights
def test_the_objective_is_the_weighted_mean(kind: str, weights: str) -> None:
    """Its value, and its gradient by differences; with sizes it is the mean over rows."""
    engine, p, problem = engine_of(kind, WEIGHTS[weights]), shares(weights), toy()
    x = np.random.default_rng(3).normal(size=engine.dimension)
    measured = engine.measure(engine.array(x))
    if kind == "network":  # with an intercept, and no regulariser
        losses = [np.log1p(np.exp(-b * (a @ x[:-1] + x[-1]))).mean() for a, b in problem.clients]
        assert measured["objective"] == pytest.approx(p @ losses, rel=1e-13)
        return
    value = sum(
        share * np.mean([problem.sample_value(i, j, x) for j in problem.rows(i)])
        for i, share in enumerate(p)
    )
    gradient = sum(share * problem.client_gradient(i, x) for i, share in enumerate(p))
    assert measured["objective"] == pytest.approx(value, rel=1e-13)
    assert measured["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-12)


STEPS = {"clients_per_round": N, "local_steps": 1}
DESCENTS = {
    "FedAvg": FedAvg(**STEPS, local_step_size=0.3),
    "FedProx": FedProx(**STEPS, local_step_size=0.3, proximal_weight=9.0),
    "SCAFFOLD": Scaffold(**STEPS, local_step_size=0.3),
    "FedPAGE": FedPage(**STEPS, global_step_size=0.3, local_batch_size=None),
}


@pytest.mark.parametrize("label", DESCENTS)
@each_weights
def test_one_step_of_everyone_is_gradient_descent_on_it(label: str, weights: str) -> None:
    """Each method's first local step of all clients, with whole gradients, is along −∇f."""
    p, problem = shares(weights), toy()
    run = Run(DESCENTS[label], engine_of("compiled", WEIGHTS[weights]))
    x = run.x0
    for _ in range(12):
        run.round()
        x = x - 0.3 * sum(share * problem.client_gradient(i, x) for i, share in enumerate(p))
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-12)


@each_weights
@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffolds_control_is_the_weighted_mean_of_the_clients(weights: str, option: str) -> None:
    engine = engine_of("compiled", WEIGHTS[weights])
    method = Scaffold(
        clients_per_round=2, local_steps=3, local_step_size=0.1, batch_size=2, option=option
    )
    run = Run(method, engine)
    for _ in range(10):
        run.round()
        mean = shares(weights) @ run.state.client_c.table
        np.testing.assert_allclose(run.state.c, mean, rtol=0, atol=1e-14)


# ------------------------------------------------------------------------------- as runs

PARTITION = HorizontalPartition(
    assignment="dirichlet", concentration=0.5, clients=6, minimum=2, test=0.2
)


@pytest.mark.parametrize("weights", ["equal", "size", DECLARED], ids=str)
def test_suboptimality_of_unequal_clients_ends_at_zero(weights: Any, tmp_path: Path) -> None:
    """Gradient descent by FedAvg reaches the optimum that the solver found on these shards."""
    objective = {"name": "logistic_l2", "weight": 0.3, "client_weights": weights}
    hyper = {
        "clients_per_round": 6, "local_steps": 1, "batch_size": None, "local_step_size": 1.0,
    }  # fmt: skip
    spec = small(
        "fedavg", hyper, objective=objective, partition=PARTITION, optimum="of_clients",
        rounds=150, record_every=75,
    )  # fmt: skip
    samples = make_samples(120, 7, density=0.8)
    shards = share_out(tmp_path / "", PARTITION, samples, task="binary")
    for seed in spec.seeds:
        file = spec.optimum_file(tmp_path / "optima", seed)
        assert file is not None
        file.parent.mkdir(parents=True)
        rows = [shards / PARTITION.of_seed(seed).slug / "silo-0.parquet"]
        find_optimum(rows, spec.objective, file)
    trace = train(spec, shards, tmp_path / "trace.nc", optima=tmp_path / "optima")
    assert (trace["suboptimality"] > -1e-12).all()
    assert (trace["suboptimality"][:, 0] > 1e-3).all()
    assert (trace["suboptimality"][:, -1] < 1e-10).all()


def test_weights_are_refused_where_nobody_weighs(tmp_path: Path) -> None:
    objective = {"name": "logistic_l2", "weight": 0.1, "client_weights": (1.0, 2.0)}
    with pytest.raises(FedatlasError, match=r"client_weights': has 2 numbers.*has 12 clients"):
        build_algorithm(small("fedavg", objective=objective))
    objective["client_weights"] = "size"
    with pytest.raises(FedatlasError, match=r"'size': .* does not weigh agents"):
        build_algorithm(
            small("online_gradient_descent", objective=objective, partition=AGENTS, graphs=RING)
        )
    plain = LinearObjective(name="logistic_l2", weight=0.1)
    assert "client_weights" not in plain.model_dump()
    names = {
        plain.model_copy(update={"client_weights": own}).slug
        for own in ("equal", "size", DECLARED, DECLARED[::-1])
    }
    assert len(names) == 4 and plain.slug in names
