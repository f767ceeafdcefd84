"""A round of FedAvg on a9a as FedPAGE's experiments shape it: many clients with few samples."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from rows import SAMPLES_EACH, row_arrays
from task import Peer, Task, require_equal, write_job

from fedatlas.arithmetic.kernels.drawing import COMPILED
from fedatlas.arithmetic.minibatches import draw
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples

CLIENTS_PER_ROUND, LOCAL_STEPS, BATCH_SIZE, STEP_SIZE, SEED = 20, 10, 4, 0.01, 0
# Of float64 arithmetic in other orders; only pfl, which averages with float32 weights, is near it.
TOLERANCE = 1e-6

PEERS = (
    Peer("fedatlas", "fedavg_fedatlas.py", None, {"rounds": 30_000}),
    Peer("numpy, batched", "fedavg_numpy.py", None, {"rounds": 5000}),
    Peer("torch loop", "fedavg_torch.py", None, {"rounds": 100}),
    Peer("FedJAX", "fedavg_fedjax.py", "fedjax", {"rounds": 200}),
    Peer("pfl-research", "fedavg_pfl.py", "pfl", {"rounds": 60}),
    Peer("Flower", "fedavg_flower.py", "flower", {"rounds": 10}),
)


@dataclass(frozen=True)
class FedAvgTask(Task):
    """Robust regression from x = 0; all see the same clients and minibatches."""

    samples: Samples
    peers: tuple[Peer, ...]

    name: ClassVar[str] = "fedavg"
    title: ClassVar[str] = (
        "FedAvg, S = 20 clients a round, K = 10 steps, minibatches of 4; robust regression"
    )
    unit: ClassVar[str] = "rounds"

    def write(self, folder: Path) -> None:
        others = [peer.values["rounds"] for peer in self.peers[1:]]
        clients = len(self.samples) // SAMPLES_EACH
        values = {
            "clients": clients,
            "clients_per_round": CLIENTS_PER_ROUND,
            "local_steps": LOCAL_STEPS,
            "batch_size": BATCH_SIZE,
            "step_size": STEP_SIZE,
            "seed": SEED,
            "samples_each": SAMPLES_EACH,
            "features": self.samples.features.shape[1],
            "compared_after": sorted(set(others)),
        }
        draws = _draws(clients, max(others, default=0))
        write_job(folder, values, draws=draws, **row_arrays(self.samples))

    def check(self, peer: Peer, output: Path, ours: Path) -> str:
        with np.load(output / "result.npz") as result, np.load(ours / "result.npz") as own:
            if peer == self.peers[0]:
                losses = [self._loss(own[name]) for name in own]
                return f"loss {min(losses):.6f}"
            rounds = peer.values["rounds"]
            loss, expected = self._loss(result["x"]), self._loss(own[f"x{rounds}"])
        require_equal(peer.name, loss, expected, TOLERANCE)
        # The loss alone would not tell of a point that has not moved much.
        moved = expected - self._loss(np.zeros(self.samples.features.shape[1]))
        require_equal(f"{peer.name}, change of", moved + loss - expected, moved, 1e-3)
        return f"loss {loss:.6f} after {rounds} rounds, ours differs by {loss - expected:.0e}"

    def _loss(self, x: np.ndarray) -> float:
        """Of all samples; clients are of one size, so that their mean is that of samples."""
        residual = self.samples.features @ x - self.samples.label
        return float(np.log1p(0.5 * residual**2).mean())

    def scaled(self, factor: float) -> "FedAvgTask":
        """The same with fewer rounds."""
        peers = tuple(
            replace(peer, values={"rounds": max(2, round(factor * peer.values["rounds"]))})
            for peer in self.peers
        )
        return replace(self, peers=peers)


def _draws(clients: int, rounds: int) -> np.ndarray:
    """(rounds, S, K, b) row numbers: what fedatlas draws for itself under the seed."""
    random, offsets = RoundRandom(SEED), np.arange(clients + 1) * SAMPLES_EACH
    drawn = np.empty((rounds, CLIENTS_PER_ROUND, LOCAL_STEPS, BATCH_SIZE), np.int32)
    for number in range(rounds):
        chosen = random.at(number).sample(clients, CLIENTS_PER_ROUND)
        drawn[number] = draw(COMPILED, random, offsets, chosen, BATCH_SIZE, LOCAL_STEPS).rows
    return drawn
