"""Private gradient tracking: where an iteration's time goes, and what budgets cost.

Five agents, 55 samples each, the small CNN on made-up images of MNIST's size, one thread: DP-GT's
CPU scale. Printed are medians of interleaved repetitions, and what a run of 2000 iterations with
records every 100 takes by them. Ratios within one run of this program can be trusted, times depend
on the machine.
"""

import time
from pathlib import Path

import numpy as np
import torch
from interleaved import medians

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Clipping, Samples
from fedatlas.federations.decentralised.torch_engine import ClassifyingAgents
from fedatlas.federations.shards import ClientSamples
from fedatlas.plan.build import build_plan
from fedatlas.schema.objectives import ClassificationObjective
from fedatlas.studies.budgets import budgets_of_runs

AGENTS, SAMPLES, ITERATIONS, RECORDS = 5, 55, 2000, 21
TRAIN, TEST = 60_000, 10_000
REPETITIONS = 15


def images(rows: int, generator: np.random.Generator) -> Samples:
    pixels = generator.integers(0, 256, (rows, 784), dtype=np.uint8)
    return Samples(np.arange(rows), generator.integers(0, 10, rows).astype(float), pixels)


def engine(vectorised: bool) -> ClassifyingAgents:
    generator = np.random.default_rng(0)
    data = ClientSamples(
        images(TRAIN, generator),
        np.linspace(0, TRAIN, AGENTS + 1).astype(np.int64),
        {
            "dataset": "made up",
            "shape": [1, 28, 28],
            "normalisation": {"mean": [0.13], "deviation": [0.31]},
        },
        images(TEST, generator),
    )
    objective = ClassificationObjective(name="cross_entropy", model="cnn_28x28")
    return ClassifyingAgents(data, objective, "cpu", vectorised=vectorised)


def main() -> None:
    torch.set_num_threads(1)
    looped, vectorised = engine(False), engine(True)
    x = looped.start(0)
    random = RoundRandom(0).at(0)
    batch = looped.minibatches(random, SAMPLES)
    clipped = Clipping("l1", 0.5)
    found = medians(
        {
            "gradients, a loop over agents": lambda: looped.gradients(x, batch, None),
            "gradients, one call": lambda: vectorised.gradients(x, batch, None),
            "gradients, clipped (l1)": lambda: vectorised.gradients(x, batch, clipped),
            "noise of one release": lambda: looped.draws.laplace(random, x),
        },
        REPETITIONS,
        torch.device("cpu"),
    )
    began = time.perf_counter()
    looped.measure(x)
    found["one record: 60,000 + 6 × 10,000 images"] = time.perf_counter() - began
    for name, seconds in found.items():
        print(f"{name:45s} {1e3 * seconds:10.1f} ms")
    gradients, _, clipped_gradients, noise, record = found.values()
    for name, step in (("without clipping", gradients), ("with clipping", clipped_gradients)):
        total = ITERATIONS * (step + 2 * noise) + RECORDS * record
        print(f"{f'a run of {ITERATIONS} iterations {name}':45s} {total / 60:10.1f} min")
    plan = build_plan(Path(__file__).parent.parent / "config")
    study = plan.experiments["dpgt-fig6"].budgets
    assert study is not None
    began = time.perf_counter()
    budgets_of_runs(plan.runs_of("dpgt-fig6"), study)
    print(f"{'all budgets of Figure 6':45s} {time.perf_counter() - began:10.1f} s")


if __name__ == "__main__":
    main()
