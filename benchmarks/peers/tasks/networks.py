"""Networks around a server: FedAvg, SCAFFOLD and FedProx with a CNN on Fashion-MNIST."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from network_data import engine_of
from task import Peer, Task, require_equal, write_job

from fedatlas.arithmetic.kernels.drawing import COMPILED, CompiledRandom
from fedatlas.arithmetic.minibatches import draw
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.download import Fetching, download
from fedatlas.data.formats import read_raw
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.shards.assignment import share_out

CLIENTS, CLIENTS_PER_ROUND, LOCAL_STEPS, BATCH_SIZE, SEED = 100, 10, 30, 20, 0
# Of float32 arithmetic in other orders, over some thousand steps.
TOLERANCE = 2e-3
METHODS = {
    "fedavg": ("FedAvg", {}),
    "scaffold": ("SCAFFOLD, option II", {}),
    "fedprox": ("FedProx, μ = 0.1", {"proximal_weight": 0.1}),
}
_REPOSITORY = Path(__file__).parents[3]


def fashion_mnist(split: str) -> Samples:
    """All images of a split, from the mirror or downloaded into results/raw."""
    dataset = load_catalogue(_REPOSITORY / "config/datasets.yaml")["fashion-mnist"]
    mirror, raws = os.environ.get("FEDATLAS_MIRROR"), []
    for file in dataset.splits[split].files:
        raws.append(_REPOSITORY / "results/raw" / file.local_path)
        if not raws[-1].exists():
            lock = _REPOSITORY / "config/checksums.lock.json"
            folder = _REPOSITORY / "results/archives"
            download(file, raws[-1], Fetching(Path(mirror) if mirror else None, lock, folder))
    return read_raw(dataset, split, raws)


@dataclass(frozen=True)
class NetworkTask(Task):
    """The same start, clients and minibatches for all; timed and compared is float32."""

    method: str
    rounds: int

    unit: ClassVar[str] = "rounds"

    @property
    def name(self) -> str:
        return f"networks-{self.method}"

    @property
    def title(self) -> str:
        return (
            f"{METHODS[self.method][0]}: CNN 28 × 28 on Fashion-MNIST, {CLIENTS} clients, "
            f"Dirichlet(0.3), S = {CLIENTS_PER_ROUND}, K = {LOCAL_STEPS}, b = {BATCH_SIZE}"
        )

    @property
    def peers(self) -> tuple[Peer, ...]:
        peers = (Peer("fedatlas", "networks_fedatlas.py"), Peer("torch loop", "networks_torch.py"))
        others = (Peer("pfl-research", "networks_pfl.py", "pfl"),)
        return peers if self.method == "scaffold" else peers + others

    def write(self, folder: Path) -> None:
        train, test = fashion_mnist("train"), fashion_mnist("test")
        # So that every client fills a minibatch: peers are given rectangular draws.
        partition = HorizontalPartition(
            assignment="dirichlet", concentration=0.3, clients=CLIENTS, minimum=BATCH_SIZE
        )
        held = share_out(partition.of_seed(SEED), train.label).clients
        rows, offsets = np.concatenate(held), np.cumsum([0, *map(len, held)])
        values = {
            "method": self.method,
            "options": METHODS[self.method][1],
            "rounds": self.rounds,
            "clients": CLIENTS,
            "clients_per_round": CLIENTS_PER_ROUND,
            "local_steps": LOCAL_STEPS,
            "batch_size": BATCH_SIZE,
            "step_size": 0.05,
            "seed": SEED,
            "mean": float(train.features.mean()),
            "deviation": float(train.features.std()),
        }
        arrays = {
            "pixels": train.features[rows].reshape(len(rows), -1),
            "label": train.label[rows],
            "test_pixels": test.features.reshape(len(test), -1),
            "test_label": test.label,
            "offsets": offsets,
        }
        random = CompiledRandom(SEED)
        chosen, draws = [], []
        for number in range(self.rounds):
            clients = random.at(number).sample(CLIENTS, CLIENTS_PER_ROUND)
            batch = draw(COMPILED, random, offsets, clients, BATCH_SIZE, LOCAL_STEPS)
            chosen.append(clients)
            draws.append(batch.rows)
        start = engine_of(values, arrays).start(SEED).numpy()
        write_job(
            folder, values, **arrays, start=start, chosen=np.array(chosen),
            draws=np.array(draws, dtype=np.int32),
        )  # fmt: skip

    def check(self, peer: Peer, output: Path, ours: Path) -> str:
        values = json.loads((output.parent / "parameters.json").read_text())
        with np.load(output.parent / "arrays.npz") as arrays:
            engine = engine_of(values, dict(arrays))
        found, expected = (self._measured(engine, folder) for folder in (output, ours))
        require_equal(peer.name, found["objective"], expected["objective"], TOLERANCE)
        return (
            f"loss {found['objective']:.4f}, test accuracy {100 * found['test_accuracy']:.2f} % "
            f"after {self.rounds} rounds; the point is {found['apart']:.0e} of its way from ours"
        )

    @staticmethod
    def _measured(engine: Any, folder: Path) -> dict[str, float]:
        with (
            np.load(folder / "result.npz") as result,
            np.load(folder.parent / "peer0/result.npz") as own,
        ):
            x, ours = (torch.from_numpy(of["x"]) for of in (result, own))
        way = (ours - engine.start(SEED)).norm()
        return engine.measure(x) | {"apart": float((x - ours).norm() / way)}
