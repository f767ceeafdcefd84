"""How cost grows with clients, features, parties, seeds and runs; fits exponents, one thread.

Every point is a process of its own, which says its seconds and the most memory that it had. The
exponent is the slope of log(seconds) against log(size) by least squares over all points; the last
one is that between the two largest, where nothing that is fixed hides growth, but where numbers
may have left a cache for good: up to some 1.5 then is memory, not more work.

    clients   a FedAvg round in which all of them take part, 10 samples each, 123 features
    features  the same of 20 clients, rows of 14 non-zeros among so many features
    parties   an epoch of VFB²-SGD over 4,000 rows of 1,024 features: every party updates its block
    seeds     a whole training of demo-fedpage's FedPAGE by as many seeds
    runs      a dry run of the workflow with an experiment of as many grid points

    python benchmarks/growth.py [--only clients]
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse

ROOT = Path(__file__).parents[1]
COPIED = ("Snakefile", "rules", "config", "workflow", "profiles", "src", "pyproject.toml")


def made_up_rows(count: int, features: int, non_zeros: int) -> sparse.csr_array:
    generator = np.random.default_rng(0)
    if count * features > 10_000_000:  # too many to permute; a column that is drawn twice adds up
        columns = generator.integers(features, size=(count, non_zeros))
    else:
        columns = generator.permuted(np.tile(np.arange(features), (count, 1)), axis=1)
    chosen = np.sort(columns[:, :non_zeros], axis=1).ravel()
    starts = np.arange(0, count * non_zeros + 1, non_zeros)
    return sparse.csr_array((np.ones(len(chosen)), chosen, starts), shape=(count, features))


def rounds_of_fedavg(clients: int, features: int) -> float:
    """Seconds of a round of all clients, ten steps on four of ten samples each."""
    from fedatlas.algorithms.fedavg import FedAvg
    from fedatlas.arithmetic.randomness import RoundRandom
    from fedatlas.arithmetic.samples import Samples
    from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
    from fedatlas.federations.parts import Counters, StarNetwork
    from fedatlas.federations.shards import ClientSamples
    from fedatlas.schema.objectives import LinearObjective

    count = 10 * clients
    label = np.where(np.random.default_rng(1).random(count) < 0.5, 1.0, -1.0)
    samples = Samples(np.arange(count), label, made_up_rows(count, features, 14))
    data = ClientSamples(samples, np.arange(0, count + 1, 10), {})
    engine = CompiledEngine(data, LinearObjective(name="robust_regression"))
    algorithm = FedAvg(clients_per_round=clients, local_steps=10, batch_size=4, local_step_size=0.1)
    counters = Counters()
    problem, network = engine.counting(counters), StarNetwork(clients, counters)
    random, x = RoundRandom(0), np.zeros(features)
    state = algorithm.start(problem, network, x)

    def one_round(number: int) -> None:
        nonlocal state
        state = algorithm.round(state, problem, network, random.at(number))

    return seconds_of(one_round)


def epoch_of_parties(parties: int) -> float:
    """Seconds of an epoch of VFB²-SGD."""
    from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
    from fedatlas.arithmetic.randomness import RoundRandom
    from fedatlas.federations.vertical.network import PartyNetwork
    from fedatlas.federations.vertical.problem import PartyCounters, PartyProblem
    from fedatlas.federations.vertical.shards import PartyRows, PartySamples
    from fedatlas.schema.network_model import NetworkModel
    from fedatlas.schema.objectives import LinearObjective

    generator = np.random.default_rng(0)
    features = generator.normal(size=(4_000, 1_024))
    label = np.where(features @ generator.normal(size=1_024) > 0, 1.0, -1.0)
    rows = PartyRows(features, label, np.linspace(0, 1_024, parties + 1).astype(int))
    objective = LinearObjective(name="logistic_l2", weight=1e-4)
    algorithm = Vfb2Sgd(step_size=0.01)
    problem = PartyProblem(PartySamples(rows, None, {}), objective)
    network = PartyNetwork(rows, objective, parties, NetworkModel(), PartyCounters(), seed=0)
    random = RoundRandom(0)
    state = algorithm.start(problem, network, np.zeros(problem.dimension))

    def epoch(number: int) -> None:
        nonlocal state
        for part in range(10):
            state = algorithm.round(state, problem, network, random.at(10 * number + part))

    return seconds_of(epoch)


def training_of_seeds(seeds: int) -> float:
    """Seconds of a whole training, start-up included."""
    from fedatlas.data.catalogue import load_catalogue
    from fedatlas.data.prepare import prepare
    from fedatlas.plan.build import build_plan
    from fedatlas.shards.writing import write_shards
    from fedatlas.training.loop import train

    run = build_plan(ROOT / "config").runs_of("demo-fedpage")[0]
    run = run.model_copy(update={"seeds": tuple(range(seeds))})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        dataset = load_catalogue(ROOT / "config/datasets.yaml")[run.dataset]
        prepare(dataset, "train", [], folder / "p")
        own = folder / run.partition.slug
        write_shards(folder / "p", run.partition, [own / "silo-0.parquet"], own / "manifest.json")
        began = time.perf_counter()
        train(run, folder, folder / "trace.nc")
        return time.perf_counter() - began


def dry_run(runs: int) -> float:
    """Seconds of `snakemake --dry-run` for an experiment with so many grid points."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        folder.mkdir()
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, folder / name)
        (own,) = (folder / "config/experiments/demo").glob("fedpage.yaml")
        shutil.rmtree(folder / "config/experiments/ours", ignore_errors=True)
        steps = ", ".join(repr(0.1 * 1.001**number) for number in range(runs))
        own.with_name("grown.yaml").write_text(
            EXPERIMENT.format(steps=f"[{steps}]"), encoding="utf-8"
        )
        command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "--cores", "1"]
        began = time.perf_counter()
        subprocess.run(
            [*command, "--config", 'experiments=["demo-grown"]'],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder / "src")},
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - began


EXPERIMENT = """
paper: fedpage
title: "Many runs"
source: "a benchmark"
dataset: breast-cancer
partition: {{kind: horizontal, assignment: consecutive, clients: 56, samples: 560}}
objective: {{name: robust_regression}}
rounds: 10
record_every: 5
seeds: [0]
runs:
  fedavg:
    algorithm: fedavg
    hyper_parameters: {{clients_per_round: 8, local_steps: 5, batch_size: 4}}
    grid: {{local_step_size: {steps}}}
"""


def seconds_of(call: Callable[[int], None]) -> float:
    """Of one call, the median of at least three and of what a second holds."""
    call(0)  # compiles, or loads what is compiled
    times: list[float] = []
    while len(times) < 3 or sum(times) < 1:
        began = time.perf_counter()
        call(len(times) + 1)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


@dataclass(frozen=True)
class Growth:
    """measure: seconds at a size. repeats: of which the median counts."""

    measure: Callable[[int], float]
    sizes: tuple[int, ...]


GROWTHS = {
    "clients": Growth(lambda n: rounds_of_fedavg(n, 123), (10, 100, 1_000, 10_000, 100_000)),
    "features": Growth(lambda d: rounds_of_fedavg(20, d), (100, 1_000, 10_000, 100_000, 1_000_000)),
    "parties": Growth(epoch_of_parties, (2, 4, 8, 16, 32, 64)),
    "seeds": Growth(training_of_seeds, (1, 4, 16, 64)),
    "runs": Growth(dry_run, (10, 100, 1_000, 5_000)),
}


def point(name: str, size: int) -> tuple[float, float]:
    """Seconds and MiB of a process of its own."""
    command = [sys.executable, __file__, "--point", name, str(size)]
    outcome = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, mebibytes = json.loads(outcome.stdout.splitlines()[-1])
    return seconds, mebibytes


def exponents(sizes: tuple[int, ...], seconds: list[float]) -> tuple[float, float]:
    """Of all points, and between the two largest."""
    x, y = np.log(sizes), np.log(seconds)
    return float(np.polyfit(x, y, 1)[0]), float((y[-1] - y[-2]) / (x[-1] - x[-2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=GROWTHS)
    parser.add_argument("--point", nargs=2, metavar=("GROWTH", "SIZE"), help="this point alone")
    arguments = parser.parse_args()
    if arguments.point:
        name, size = arguments.point
        seconds = GROWTHS[name].measure(int(size))
        who = resource.RUSAGE_CHILDREN if name == "runs" else resource.RUSAGE_SELF
        print(json.dumps([seconds, resource.getrusage(who).ru_maxrss / 1024]))
        return
    for name, growth in GROWTHS.items():
        if arguments.only not in (None, name):
            continue
        measured = []
        point(name, growth.sizes[0])  # compiles
        for size in growth.sizes:
            seconds, mebibytes = point(name, size)
            measured.append(seconds)
            print(f"{name:<9}{size:>10,}{seconds:>12.4g} s{mebibytes:>9,.0f} MiB", flush=True)
        slope, last = exponents(growth.sizes, measured)
        print(f"{name:<9} exponent {slope:.2f}, of the two largest {last:.2f}\n", flush=True)


if __name__ == "__main__":
    main()
