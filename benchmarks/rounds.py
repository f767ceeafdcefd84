"""Rounds per second of every method on an a9a-shaped problem, one thread; prints ratios.

The data are made up with a9a's shape (32,500 rows, 123 binary features, 14 per row), so that the
benchmark runs anywhere; nothing is downloaded. Methods take turns, so that a machine whose speed
drifts slows all of them alike.

    python benchmarks/rounds.py [--rounds 3000] [--repeats 5]
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse

from fedatlas.algorithm import Algorithm, algorithm_class
from fedatlas.counters import Counters
from fedatlas.data.samples import Samples
from fedatlas.objectives import LinearObjective
from fedatlas.problems.engine import Engine, build_engine
from fedatlas.problems.horizontal import HorizontalProblem
from fedatlas.randomness import RoundRandom
from fedatlas.shards import ClientSamples
from fedatlas.simulation.network import StarNetwork

CLIENTS, SAMPLES_EACH, FEATURES, NON_ZEROS = 3250, 10, 123, 14
LOCAL = {"clients_per_round": 20, "local_steps": 10, "batch_size": 4, "local_step_size": 0.01}
METHODS = {
    "fedavg": LOCAL,
    "scaffold": LOCAL,
    "fedpage": {"clients_per_round": 10, "local_steps": 10, "global_step_size": 0.1},
}


def made_up_data() -> ClientSamples:
    generator = np.random.default_rng(0)
    n = CLIENTS * SAMPLES_EACH
    columns = generator.permuted(np.tile(np.arange(FEATURES), (n, 1)), axis=1)[:, :NON_ZEROS]
    indptr = np.arange(0, n * NON_ZEROS + 1, NON_ZEROS)
    rows = sparse.csr_array(
        (np.ones(n * NON_ZEROS), np.sort(columns, axis=1).ravel(), indptr), shape=(n, FEATURES)
    )
    label = np.where(generator.random(n) < 0.24, 1.0, -1.0)
    offsets = np.arange(0, n + 1, SAMPLES_EACH)
    return ClientSamples(Samples(np.arange(n), label, rows), offsets, {})


def rounds_per_second(algorithm: Algorithm, engine: Engine, rounds: int, seed: int) -> float:
    counters = Counters()
    problem = HorizontalProblem(engine, counters)
    network = StarNetwork(problem.clients, counters)
    random = RoundRandom(seed)
    state = algorithm.start(problem, network, problem.zeros())
    began = time.perf_counter()
    for number in range(rounds):
        state = algorithm.round(state, problem, network, random.at(number))
    return rounds / (time.perf_counter() - began)


def matmul_rounds_per_second(data: ClientSamples, rounds: int, seed: int) -> float:
    """The yardstick: FedAvg by plain batched matmul on dense rows, a round's indices at once."""
    generator = np.random.default_rng(seed)
    features, labels = data.samples.features.toarray(), data.samples.label
    clients, steps = LOCAL["clients_per_round"], LOCAL["local_steps"]
    x = np.zeros(FEATURES)
    began = time.perf_counter()
    for _ in range(rounds):
        starts = data.offsets[generator.choice(CLIENTS, clients, replace=False)]
        ranks = generator.random((clients, steps, SAMPLES_EACH))
        picked = starts[:, None, None] + ranks.argpartition(4, axis=2)[:, :, : LOCAL["batch_size"]]
        a, b = features[picked], labels[picked]
        y = np.tile(x, (clients, 1))
        for k in range(steps):
            t = (a[:, k] @ y[:, :, None])[..., 0] - b[:, k]
            slope = t / (1 + 0.5 * t * t) / LOCAL["batch_size"]
            y -= LOCAL["local_step_size"] * (slope[:, None, :] @ a[:, k])[:, 0]
        x = y.mean(0)
    return rounds / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    data = made_up_data()
    for objective in (
        LinearObjective(name="robust_regression"),
        LinearObjective(name="logistic_nonconvex", weight=0.1),
    ):
        engine = build_engine(data, objective, "cpu")
        methods = {name: algorithm_class(name)(**values) for name, values in METHODS.items()}
        for algorithm in methods.values():
            rounds_per_second(algorithm, engine, 100, 0)  # compile, or load the compiled code
        speeds: dict[str, list[float]] = {name: [] for name in (*methods, "plain matmul")}
        for seed in range(arguments.repeats):
            for name, algorithm in methods.items():
                speeds[name].append(rounds_per_second(algorithm, engine, arguments.rounds, seed))
            # Robust regression only: the yardstick has one loss.
            if objective.name == "robust_regression":
                speeds["plain matmul"].append(
                    matmul_rounds_per_second(data, arguments.rounds // 5, seed)
                )
        fedavg = statistics.median(speeds["fedavg"])
        print(f"{objective.name}: rounds/s, median (lowest to highest) of {arguments.repeats}")
        for name, values in speeds.items():
            if values:
                middle = statistics.median(values)
                print(
                    f"  {name:<14}{middle:>9,.0f}  ({min(values):,.0f} to {max(values):,.0f})"
                    f"   {middle / fedavg:.2f} × FedAvg"
                )


if __name__ == "__main__":
    main()
