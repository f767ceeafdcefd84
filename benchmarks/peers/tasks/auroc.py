"""Training steps of AUC maximisation: local SGDA on the CNN of FMGDA's experiments."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from image_data import client_images
from task import Peer, Task, require_equal, write_job

from fedatlas.arithmetic.kernels.drawing import COMPILED
from fedatlas.arithmetic.minibatches import draw
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max import PrimalDual
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.schema.objectives import AucObjective

IMAGES_EACH, BATCH_SIZE, LOCAL_STEPS, SEED = 500, 50, 10, 0
# Of float64 arithmetic; timed is float32, in which other orders of sums differ by some 1e-4.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class AurocTask(Task):
    """Made-up images; all see the same minibatches, and average every LOCAL_STEPS steps."""

    workers: int
    rounds: int = 0

    unit: ClassVar[str] = "steps"
    peers: ClassVar[tuple[Peer, ...]] = (
        Peer("fedatlas", "auroc_fedatlas.py"),
        Peer("LibAUC", "auroc_libauc.py", "libauc"),
    )

    @property
    def name(self) -> str:
        return f"auroc-{self.workers}"

    @property
    def title(self) -> str:
        workers = "a worker" if self.workers == 1 else f"{self.workers} workers"
        return f"AUROC: min–max steps of {workers} with {BATCH_SIZE} images each, CNN 28 × 28"

    def scaled(self, factor: float) -> "AurocTask":
        """With as many steps as take a few seconds, times a factor."""
        return replace(self, rounds=max(1, round(factor * (100 if self.workers == 1 else 15))))

    def write(self, folder: Path) -> None:
        generator = np.random.default_rng(SEED)
        images = self.workers * IMAGES_EACH
        label = np.where(generator.random(images) < 0.3, 1.0, -1.0)
        pixels = generator.integers(0, 200, (images, 784), dtype=np.uint8)
        # Positives are brighter in one corner: there is something to learn.
        corner = pixels.reshape(images, 28, 28)[:, :10, :10]
        corner[label > 0] += 20
        values = {
            "workers": self.workers,
            "rounds": self.rounds,
            "local_steps": LOCAL_STEPS,
            "batch_size": BATCH_SIZE,
            "primal_step_size": 0.05,
            "dual_step_size": 0.05,
            "seed": SEED,
            "positive_rate": float((label > 0).mean()),
            "mean": 100.0,
            "deviation": 60.0,
        }
        engine = self._engine(values, {"label": label, "pixels": pixels})
        # The network's own parameters, without a and b.
        start = engine.start(SEED).theta[:-2].float().numpy()
        offsets = np.arange(self.workers + 1) * IMAGES_EACH
        random = RoundRandom(SEED)
        everyone = np.arange(self.workers)
        draws = [
            draw(COMPILED, random.at(number), offsets, everyone, BATCH_SIZE, LOCAL_STEPS).rows
            for number in range(self.rounds)
        ]
        drawn = np.array(draws, dtype=np.int32)
        write_job(folder, values, label=label, pixels=pixels, start=start, draws=drawn)

    def check(self, peer: Peer, output: Path, ours: Path) -> str:
        values = json.loads((output.parent / "parameters.json").read_text())
        with np.load(output.parent / "arrays.npz") as arrays:
            engine = self._engine(values, dict(arrays))
        found, expected = (self._losses(engine, folder) for folder in (output, ours))
        start = engine.measure(engine.start(SEED))
        for name in ("objective", "min_max_objective"):
            require_equal(f"{peer.name}, {name}", found[name], expected[name], TOLERANCE)
        return (
            f"loss {start['objective']:.4f} → {found['objective']:.6f}, differs from ours by "
            f"{found['objective'] - expected['objective']:.0e}"
        )

    def _engine(self, values: dict, arrays: dict[str, np.ndarray]) -> AucEngine:
        objective = AucObjective(name="auc_min_max", model="cnn_28x28")
        return AucEngine(client_images(values, arrays), objective, "cpu", torch.float64)

    def _losses(self, engine: AucEngine, folder: Path) -> dict[str, float]:
        """Over all images, by fedatlas' measurements."""
        with np.load(folder / "result.npz") as result:
            theta, w = (torch.from_numpy(result[name]) for name in ("theta", "w"))
        return engine.measure(PrimalDual(theta, w))
