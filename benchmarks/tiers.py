"""Silos by features, clients by samples: a local step of all clients, looped and in few calls.

Two silos with halves of made-up images of Fashion-MNIST's size, minibatches of 2000, the small CNN:
TDCD's CPU scale. `joint` is one step of both networks on the same 2 × 2000 half-images, as if there
were no clients. Printed are medians of interleaved repetitions, ratios, and what a run of 2000
iterations with a record every 20 takes by them. Ratios within one run of this program can be
trusted, times depend on the machine. Option: --device cuda.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from interleaved import medians

from fedatlas.architectures import checked_build
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.shards import ClientSamples, TieredSamples
from fedatlas.federations.tiered.hubs import TieredCounters, TieredProblem, sums_of_others
from fedatlas.federations.tiered.torch_engine import NetworkSilos
from fedatlas.schema.objectives import ClassificationObjective

SILOS, HALF, CLASSES = 2, (1, 28, 14), 10
BATCH, ITERATIONS, LOCAL_STEPS, RECORD_EVERY = 2000, 2000, 10, 20
TRAIN, TEST = 60_000, 10_000
REPETITIONS = 9
MODEL = "cnn_strided"


def images(rows: int, generator: np.random.Generator, labels: np.ndarray) -> Samples:
    pixels = generator.integers(0, 256, (rows, 28 * 14), dtype=np.uint8)
    return Samples(np.arange(rows), labels, pixels)


def tiers(clients: int) -> TieredSamples:
    """Both silos share out the same permutation: who holds what costs nothing."""
    generator = np.random.default_rng(0)
    labels, tested = (generator.integers(0, CLASSES, n).astype(float) for n in (TRAIN, TEST))
    metadata = {
        "dataset": "made up",
        "shape": HALF,
        "normalisation": {"mean": [128.0], "deviation": [74.0]},
    }
    silos = tuple(
        ClientSamples(
            images(TRAIN, generator, labels),
            np.linspace(0, TRAIN, clients + 1).astype(np.int64),
            metadata,
            images(TEST, generator, tested),
        )
        for _ in range(SILOS)
    )
    return TieredSamples(silos, np.stack([np.arange(TRAIN)] * SILOS))


def joint_step(device: torch.device) -> Callable[[], object]:
    """One step of every silo's network on all its half-images, without clients."""
    build = checked_build(MODEL, HALF, CLASSES)
    networks = [BatchedNetwork(build, device) for _ in range(SILOS)]
    points = [network.initial(0)[None] for network in networks]
    inputs = torch.randn(1, BATCH, *HALF, device=device)
    stale = torch.zeros(1, BATCH, CLASSES, device=device)

    def step() -> None:
        for network, point in zip(networks, points, strict=True):
            network.gradients(point, inputs, lambda z, *_: torch.softmax(z + stale, dim=-1) / BATCH)

    return step


def local_step(problem: TieredProblem, engine: NetworkSilos) -> Callable[[], object]:
    start, batch = engine.start(0), problem.minibatch(RoundRandom(0).at(0), BATCH)
    models, others = problem.copies(start), sums_of_others(problem.embeddings(start, batch))
    return lambda: problem.partial_gradients(models, others, batch)


def exchange(problem: TieredProblem, engine: NetworkSilos) -> Callable[[], object]:
    start, random = engine.start(0), RoundRandom(0).at(0)
    return lambda: problem.embeddings(start, problem.minibatch(random, BATCH))


def report(clients: int, device: torch.device) -> None:
    data = tiers(clients)
    objective = ClassificationObjective(name="cross_entropy", model=MODEL)
    calls = {"joint step, no clients": joint_step(device)}
    for name, vectorised in (("loop", False), ("few calls", True), ("as chosen", None)):
        engine = NetworkSilos(data, objective, str(device), vectorised=vectorised)
        problem = engine.counting(TieredCounters())
        calls[f"step of all clients, {name}"] = local_step(problem, engine)
    calls["minibatch and its exchange"] = exchange(problem, engine)
    found = medians(calls, REPETITIONS, device)
    began = time.perf_counter()
    problem.measure(engine.start(0))
    record = time.perf_counter() - began
    print(f"\nN = {SILOS}, K = {clients}, minibatch {BATCH}, {device}")
    for name, seconds in found.items():
        print(f"  {name:40s} {1e3 * seconds:10.1f} ms")
    print(f"  {'one record: 2 × 70,000 half-images':40s} {1e3 * record:10.1f} ms")
    joint, loop, few, chosen, exchanged = found.values()
    print(
        f"  chosen / faster of both {chosen / min(loop, few):.2f}, chosen / joint "
        f"{chosen / joint:.2f}, loop / few calls {loop / few:.2f}"
    )
    total = ITERATIONS * (chosen + exchanged / LOCAL_STEPS + record / RECORD_EVERY)
    print(
        f"  a run of {ITERATIONS} iterations, Q = {LOCAL_STEPS}, a record every {RECORD_EVERY}: "
        f"{total / 60:.1f} min"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="See the docstring of this file.")
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    torch.set_num_threads(1)
    for clients in (50, 100):
        report(clients, device)


if __name__ == "__main__":
    main()
