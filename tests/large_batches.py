"""Engines with batches of some hundred megabytes, here and in a child process with little memory.

Run as a program it works under a limit of its address space, which is the kernel's: it writes what
came out of CASES and what was said of memory, then trains on shards until the first checkpoint.

    large_batches.py FOLDER
"""

import gc
import json
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.clipping import Clipping
from fedatlas.arithmetic.memory import Memory, Task
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.decentralised.network_engine import ClassifyingAgents
from fedatlas.federations.horizontal.torch_engine import TorchEngine
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.tiered.network import sums_of_others
from fedatlas.federations.tiered.network_engine import NetworkSilos
from fedatlas.federations.tiered.shards import TieredSamples
from fedatlas.schema.objectives import AucObjective, ClassificationObjective, LinearObjective
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.training import checkpoints
from fedatlas.training.loop import train
from fedatlas.training.seeds import SeedPolicy
from small_federations import share_out, specification

#: Who remembers what ran out of memory, and a computation to be made under the limit.
Case = tuple[Memory, Callable[[], torch.Tensor]]

CPU = torch.device("cpu")
UNEVEN = (3, 2)  # the second client has so much less


#: How series are cut, as configurations say it.
SERIES = {"kind": "tiered", "cut": {"features": 2}, "clients": 2}


def images(rows: int, classes: int) -> ClientSamples:
    """Two clients' images of 28 × 28."""
    random = np.random.default_rng(0)
    sizes = [rows, rows * UNEVEN[1] // UNEVEN[0]]
    values = random.integers(0, 256, (sum(sizes), 784), dtype=np.uint8)
    label = np.arange(sum(sizes)) % classes
    if classes == 2:
        label = 2 * label - 1
    metadata = {
        "dataset": "random images",
        "shape": (1, 28, 28),
        "positive_rate": float((label > 0).mean()),
        "normalisation": {"mean": [127.0], "deviation": [74.0]},
    }
    samples = Samples(np.arange(sum(sizes)), label.astype(float), values)
    return ClientSamples(samples, np.cumsum([0, *sizes]), metadata)


def whole(data: ClientSamples) -> Minibatches:
    """Everything of every client."""
    return Minibatches.of_first_rows(data.offsets[:-1], np.diff(data.offsets))


def moved(point: torch.Tensor) -> torch.Tensor:
    """Another point for each of two clients."""
    noise = torch.randn(2, point.shape[-1], generator=torch.Generator().manual_seed(1))
    return point + 0.01 * noise.to(point.dtype)


def auc(
    rows: int = 400, dtype: torch.dtype = torch.float64, vectorised: bool | None = None
) -> Case:
    """θ, a, b and w of both workers."""
    data = images(rows, 2)
    objective = AucObjective(name="auc_min_max", model="cnn_28x28")
    engine = AucEngine(data, objective, "cpu", dtype, vectorised)
    theta = moved(engine.start(0).theta)
    w = theta[:, :1].clone()

    def compute() -> torch.Tensor:
        found = engine.gradients(theta, w, whole(data))
        return torch.cat([found.theta, found.w], dim=1)

    return engine.memory, compute


def agents(
    clipping: Clipping | None = None,
    rows: int = 400,
    dtype: torch.dtype = torch.float64,
    vectorised: bool | None = None,
) -> Case:
    """Gradients of both agents."""
    data = images(rows, 10)
    objective = ClassificationObjective(name="cross_entropy", model="cnn_28x28")
    engine = ClassifyingAgents(data, objective, "cpu", dtype, vectorised)
    points = moved(engine.start(0)[0])
    return engine.memory, lambda: engine.gradients(points, whole(data), clipping)


def series(samples: int) -> TieredSamples:
    """Of two silos with two clients each."""
    random = np.random.default_rng(0)
    label = np.arange(samples) % 3 * 1.0
    own, place = [], []
    shapes = [(48, 19), (48, 7)]
    cut = samples * UNEVEN[0] // sum(UNEVEN)
    for shape in shapes:
        order = random.permutation(samples)
        values = random.normal(size=(samples, *shape)).reshape(samples, -1)
        metadata = {"dataset": "random series", "shape": shape}
        offsets = np.array([0, cut, samples])
        own.append(ClientSamples(Samples(order, label[order], values[order]), offsets, metadata))
        place.append(np.argsort(order))
    return TieredSamples(tuple(own), np.stack(place))


def silos(
    samples: int = 800,
    dtype: torch.dtype = torch.float64,
    vectorised: bool | None = None,
    model: str = "lstm",
) -> Case:
    """Gradients of all clients of both silos, one after the other."""
    hidden = 16 if model == "lstm" else None
    objective = ClassificationObjective(name="cross_entropy", model=model, hidden=hidden)
    engine = NetworkSilos(series(samples), objective, "cpu", dtype, vectorised)
    batch = engine.minibatch_of(np.random.default_rng(1).permutation(samples))
    start = engine.start(0)
    models = type(start)(
        tuple(moved(weights) for weights in start.weights),
        engine.copies(start).statistics,
    )
    others = sums_of_others(engine.embeddings(start, batch))

    def compute() -> torch.Tensor:
        gradients, _ = engine.partial_gradients(models, others, batch)
        return torch.cat([part.reshape(-1) for part in gradients])

    return engine.memory, compute


def linear(rows: int = 20_000) -> Case:
    """Gradients of both clients of a linear model."""
    random = np.random.default_rng(0)
    features = sparse.csr_array(random.normal(size=(rows, 100)))
    label = np.where(np.arange(rows) % 3, 1.0, -1.0)
    offsets = np.array([0, 2 * rows // 3, rows])
    data = ClientSamples(Samples(np.arange(rows), label, features), offsets, {"dataset": "random"})
    objective = LinearObjective(name="logistic_nonconvex", weight=0.1)
    engine = TorchEngine(data, objective, "cpu")
    points = moved(engine.zeros(100))
    return engine.memory, lambda: engine.client_gradients(points, whole(data))


def evaluation() -> Case:
    """Outputs of a network whose layers hold 2000 numbers for each of four."""
    memory = Memory(CPU)
    network = BatchedNetwork(
        lambda: nn.Sequential(nn.Linear(4, 2000), nn.ReLU(), nn.Linear(2000, 1)),
        CPU,
        torch.float64,
        name="wide",
        memory=memory,
    )
    samples = torch.linspace(-1, 1, 60_000, dtype=torch.float64).reshape(-1, 4)
    point = network.initial(0)
    return memory, lambda: network.outputs(point, samples.__getitem__, len(samples))


def normalising() -> Case:
    """Of a network whose samples influence each other."""
    memory = Memory(CPU)
    network = BatchedNetwork(
        lambda: nn.Sequential(nn.Linear(4, 2000), nn.BatchNorm1d(2000), nn.Linear(2000, 1)),
        CPU,
        name="normalising",
        memory=memory,
    )
    inputs = torch.linspace(-1, 1, 4 * 20_000).reshape(1, -1, 4)
    statistics = network.initial_statistics()[None]
    return memory, lambda: network.gradients(
        network.initial(0)[None], inputs, lambda outputs, *_: outputs, statistics
    )[1]


def hopeless() -> Case:
    """Of which a sixteenth does not fit either."""
    memory = Memory(CPU)
    task = Task("gradient", "huge", 1, 2, 10, (3,), "lower batch_size")
    return memory, lambda: memory.fit(task, lambda _: torch.zeros(1 << 31))


def one_sample() -> Case:
    """Which cannot be computed in parts."""
    memory = Memory(CPU)
    task = Task("gradient", "huge", 1, 1, 1, (3,), "lower batch_size")
    return memory, lambda: memory.fit(task, lambda _: torch.zeros(1 << 31))


# A sixteenth has more than one: those that are alone do not go through oneDNN.
IMAGES = torch.linspace(-1, 1, 64 * 3 * 16 * 16).reshape(64, 3, 16, 16)


def convolving() -> Case:
    """In a process where oneDNN once found no room for code that it compiles: it is lost to it."""
    memory = Memory(CPU)
    layer = nn.Conv2d(3, 32, 3).requires_grad_(False)
    for parameter in layer.parameters():
        parameter.fill_(0.1)
    task = Task("gradient", "convolution", 896, 1, 64, (3, 16, 16), "lower batch_size")
    for eighths in range(1, 25):
        limit(eighths / 8)
        with suppress(RuntimeError):
            layer(IMAGES[:2])
        limit(None)
    return memory, lambda: memory.fit(
        task, lambda at_once: torch.cat([layer(part) for part in IMAGES.split(at_once or 64)])
    )


#: How to make each, and the megabytes that it may take, if they are limited.
CASES: dict[str, tuple[Callable[..., Case], dict[str, Any], float | None]] = {
    "auc": (auc, {}, 15),
    "auc float32": (auc, {"dtype": torch.float32}, 8),
    "agents": (agents, {}, 15),
    "clipped agents": (agents, {"clipping": Clipping("l2", 0.5)}, 30),
    "silos": (silos, {}, 8),
    "linear": (linear, {}, 10),
    "evaluation": (evaluation, {}, 75),
    "normalising": (normalising, {}, 100),
    "hopeless": (hopeless, {}, 100),
    "one sample": (one_sample, {}, 100),
    "convolving": (convolving, {}, None),
}


#: What was free within the process when it was limited.
HELD: list[bytearray] = []


def limit(megabytes: float | None) -> None:
    """Let the process take so much more memory than it has; None: whatever there is.

    Its allocators keep what was freed, in the heap and in what each thread reserved: that is taken
    away too, or a batch may find room there.
    """
    _, highest = resource.getrlimit(resource.RLIMIT_AS)
    HELD.clear()
    most = highest
    if megabytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        has = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has, highest))
        with suppress(MemoryError):
            while True:
                HELD.append(bytearray(1_000_000))
        most = has + int(megabytes * 1e6)
    resource.setrlimit(resource.RLIMIT_AS, (most, highest))


def write_cases(folder: Path) -> None:
    """Results, and what was said, of all cases."""
    said = {}
    for name, (make, options, megabytes) in CASES.items():
        memory, compute = make(**options)
        error = ""
        limit(megabytes)
        try:
            np.save(folder / f"{name}.npy", compute().numpy())
        except FedatlasError as raised:
            error = str(raised)
        limit(None)
        said[name] = {"state": memory.state, "error": error}
        del memory, compute
        gc.collect()
    (folder / "said.json").write_text(json.dumps(said))


SPEC = specification(
    "fedpage",
    partition=HorizontalPartition(clients=4),
    objective={"name": "logistic_nonconvex", "weight": 0.1},
    hyper_parameters={"clients_per_round": 2, "local_steps": 2, "global_step_size": 0.1},
    rounds=6,
    record_every=2,
    seeds=(3,),
)


def write_training_shards(folder: Path, rows: int = 20_000) -> None:
    """The data of SPEC."""
    features = np.random.default_rng(0).normal(size=(rows, 100))
    label = np.where(features[:, 0] > 0.3, 1.0, -1.0)
    samples = Samples(np.arange(rows), label, sparse.csr_array(features))
    share_out(folder, SPEC.partition, samples)


#: The name of a device that takes torch for linear models, too.
TORCH_ON_CPU = "cpu:0"


def training_policy(folder: Path) -> SeedPolicy:
    """One checkpoint for each record."""
    return SeedPolicy(folder / "seeds", every_seconds=-1.0)


def train_until_first_checkpoint(folder: Path) -> None:
    """SPEC in torch, whose full gradients do not fit; dies as if it was killed."""

    compute = TorchEngine.client_gradients

    # Nowhere else: numba, when it is loaded without memory, never comes back.
    def limited(engine: TorchEngine, x: torch.Tensor, batch: Minibatches) -> torch.Tensor:
        limit(10)
        try:
            return compute(engine, x, batch)
        finally:
            limit(None)

    def save_then_die(*arguments: Any) -> None:
        save(*arguments)
        os._exit(9)

    save, checkpoints.save = checkpoints.save, save_then_die
    TorchEngine.client_gradients = limited  # type: ignore[method-assign]
    policy = training_policy(folder)
    train(SPEC, folder, folder / "trace.nc", device=TORCH_ON_CPU, seeds=policy)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_cases(Path(sys.argv[1]))
    train_until_first_checkpoint(Path(sys.argv[1]))
