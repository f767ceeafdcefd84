"""Rounds per second of every method on an a9a-shaped problem, one thread; prints ratios.

The data are made up with a9a's shape (32,500 rows, 123 binary features, 14 per row), so that the
benchmark runs anywhere; nothing is downloaded. Methods take turns, so that a machine whose speed
drifts slows all of them alike. Beside them the two other ways of computing FedAvg's round, which
loops over sparse rows were chosen over: batched arrays, and what torch.compile makes of them.

    python benchmarks/rounds.py [--rounds 500] [--repeats 31]
"""

import argparse
import os
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from operator import truediv
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy import sparse

from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.arithmetic.kernels.drawing import CompiledRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import LinearObjective

CLIENTS, SAMPLES_EACH, FEATURES, NON_ZEROS = 3250, 10, 123, 14
CHOSEN, STEPS, BATCH, STEP_SIZE = 20, 10, 4, 0.01
METHODS: dict[str, Algorithm] = {
    "fedavg": FedAvg(
        clients_per_round=CHOSEN, local_steps=STEPS, batch_size=BATCH, local_step_size=STEP_SIZE
    ),
    "scaffold": Scaffold(
        clients_per_round=CHOSEN, local_steps=STEPS, batch_size=BATCH, local_step_size=STEP_SIZE
    ),
    "fedpage": FedPage(clients_per_round=10, local_steps=10, global_step_size=0.1),
}
# Rounds per second over those of FedAvg by batched numpy.
GOALS = {"fedavg": 4.5, "scaffold": 3.4}


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


def rounds_per_second(
    algorithm: Algorithm, engine: HorizontalProblem, rounds: int, seed: int
) -> float:
    counters = Counters()
    problem = engine.counting(counters)
    network = StarNetwork(problem.clients, counters)
    random = CompiledRandom(seed)
    state = algorithm.start(problem, network, problem.zeros())
    began = time.perf_counter()
    for number in range(rounds):
        state = algorithm.round(state, problem, network, random.at(number))
    return rounds / (time.perf_counter() - began)


def batched_round(x: Any, features: Any, labels: Any, picked: Any) -> Any:
    """FedAvg's round on robust regression by batched products of dense rows, of numpy or torch.

    x: (d,); picked: (S, K, b) rows of every client at every step.
    """
    a, b = features[picked], labels[picked]
    y = x + 0.0 * a[:, 0, 0]  # a row for each client, in numpy and in torch
    for k in range(STEPS):
        t = (a[:, k] @ y[:, :, None])[..., 0] - b[:, k]
        slope = t / (1 + 0.5 * t * t) / BATCH
        y = y - STEP_SIZE * (slope[:, None, :] @ a[:, k])[:, 0]
    return y.mean(0)


def batched_rounds_per_second(
    one_round: Callable[..., Any], array: Callable[[np.ndarray], Any], data: ClientSamples,
    rounds: int, seed: int,
) -> float:  # fmt: skip
    """Of FedAvg by batched_round, or what was made of it; array: makes its arrays of numpy's."""
    generator, dense = np.random.default_rng(seed), sparse.csr_array(data.samples.features)
    features, labels = array(dense.toarray()), array(data.samples.label)
    x = array(np.zeros(FEATURES))
    began = time.perf_counter()
    for _ in range(rounds):
        starts = data.offsets[generator.choice(CLIENTS, CHOSEN, replace=False)]
        ranks = generator.random((CHOSEN, STEPS, SAMPLES_EACH))
        picked = starts[:, None, None] + ranks.argpartition(BATCH, axis=2)[:, :, :BATCH]
        x = one_round(x, features, labels, array(picked))
    return rounds / (time.perf_counter() - began)


def other_ways(data: ClientSamples) -> dict[str, Callable[[int, int], float]]:
    """Rounds per second, of rounds and a seed, of FedAvg on robust regression."""
    torch.set_num_threads(1)
    ways: dict[str, Callable[[int, int], float]] = {
        "batched numpy": partial(batched_rounds_per_second, batched_round, np.asarray, data)
    }
    if shutil.which("c++"):
        compiled = torch.compile(batched_round)
        began = time.perf_counter()
        batched_rounds_per_second(compiled, torch.from_numpy, data, 3, 0)
        print(f"torch.compile took {time.perf_counter() - began:.0f} s to compile")
        ways["torch.compile"] = partial(batched_rounds_per_second, compiled, torch.from_numpy, data)
    else:
        print("no C++ compiler: torch.compile is left out")
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=31)
    arguments = parser.parse_args()
    data = made_up_data()
    for objective in (
        LinearObjective(name="robust_regression"),
        LinearObjective(name="logistic_nonconvex", weight=0.1),
    ):
        engine = CompiledEngine(data, objective)
        for algorithm in METHODS.values():
            rounds_per_second(algorithm, engine, 100, 0)  # compile, or load the compiled code
        # The other ways have one loss.
        others = other_ways(data) if objective.name == "robust_regression" else {}
        speeds: dict[str, list[float]] = {name: [] for name in (*METHODS, *others)}
        for seed in range(arguments.repeats):
            for name, algorithm in METHODS.items():
                speeds[name].append(rounds_per_second(algorithm, engine, arguments.rounds, seed))
            for name, way in others.items():
                speeds[name].append(way(arguments.rounds // 5, seed))
        print(f"{objective.name}: rounds/s, median (lowest to highest) of {arguments.repeats}")
        compared = "batched numpy" if others else "fedavg"
        for name, values in speeds.items():
            # Within each repeat, as machines drift.
            ratio = statistics.median(map(truediv, values, speeds[compared]))
            goal = f"  (goal {GOALS[name]})" if others and name in GOALS else ""
            print(
                f"  {name:<14}{statistics.median(values):>9,.0f}"
                f"  ({min(values):,.0f} to {max(values):,.0f})   {ratio:.2f} × {compared}{goal}"
            )


if __name__ == "__main__":
    main()
