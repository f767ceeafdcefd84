"""Gradients of 16 workers' networks: one by one, all at once, by grouped layers, as one step.

Every way makes the same gradients, which is checked first; times are medians over interleaved
repetitions, so that a busy machine slows all ways alike. "grouped" is written by hand for the
convolutions and dense layers of each network: convolutions with a group for each worker, products
of batched matrices. "joint" is one gradient of one network on all samples: what the arithmetic
costs without any clients. "FMGDA step" is a whole iteration of the method, with its two gradients,
the taking of samples and the updates, beside two of the fastest gradients.

    python benchmarks/networks.py [--device cuda] [--repetitions 20]
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from interleaved import medians
from torch import nn

from fedatlas.algorithms.fmgda import Fmgda
from fedatlas.architectures import architecture
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import AucObjective

WORKERS = 16
CASES = [("cnn_8x8", (1, 8, 8), 10), ("cnn_28x28", (1, 28, 28), 50), ("cnn_32x32", (3, 32, 32), 50)]


def grouped(module: nn.Sequential, flat: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """Gradients (S, d) of the summed outputs, layer by layer for all workers."""
    workers, size = inputs.shape[:2]
    leaves, at = [], 0
    x, images = inputs, True
    x = inputs.transpose(0, 1).reshape(size, -1, *inputs.shape[3:])  # (b, S·c, h, w)
    for layer in module:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            parts = []
            for own in layer.parameters():  # weight and bias
                numbers = own.numel()
                part = flat[:, at : at + numbers].reshape(workers, *own.shape).detach()
                parts.append(part.requires_grad_())
                at += numbers
            leaves += parts
            weight, bias = parts
            if isinstance(layer, nn.Conv2d):
                x = nn.functional.conv2d(
                    x, weight.flatten(0, 1), bias.flatten(), padding=layer.padding, groups=workers
                )
            else:
                x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
        elif isinstance(layer, nn.Flatten):
            x = x.reshape(size, workers, -1).transpose(0, 1)  # (S, b, k)
            images = False
        else:
            x = layer(x)
    assert not images
    gradients = torch.autograd.grad(x, leaves, torch.ones_like(x))
    return torch.cat([gradient.flatten(1) for gradient in gradients], dim=1)


STEPS = 10


def fmgda_round(name: str, shape: tuple[int, ...], batch: int, device: str) -> Callable[[], object]:
    """A round of FMGDA with STEPS iterations, on random images."""
    rows, numbers = 20 * batch, np.prod(shape)
    images = np.random.default_rng(0).integers(0, 256, (WORKERS * rows, numbers), dtype=np.uint8)
    label = np.where(np.arange(WORKERS * rows) % 6, 1.0, -1.0)
    channels = shape[0]
    metadata = {
        "dataset": "random images",
        "shape": shape,
        "positive_rate": float((label > 0).mean()),
        "normalisation": {"mean": [127.0] * channels, "deviation": [74.0] * channels},
    }
    samples = Samples(np.arange(len(label)), label, images)
    data = ClientSamples(samples, rows * np.arange(WORKERS + 1), metadata)
    engine = AucEngine(data, AucObjective(name="auc_min_max", model=name), device)
    counters = Counters()
    problem, network = engine.counting(counters), StarNetwork(WORKERS, counters)
    method = Fmgda(
        local_steps=STEPS,
        batch_size=batch,
        primal_step_size=0.01,
        dual_step_size=0.01,
        primal_momentum=0.1,
        dual_momentum=0.1,
    )
    random = RoundRandom(0)
    state = method.start(problem, network, engine.start(0))
    state = method.round(state, problem, network, random.at(0))  # with the large first batch
    return lambda: method.round(state, problem, network, random.at(1))


def measure(name: str, shape: tuple[int, ...], batch: int, device: str, repetitions: int) -> None:
    where = torch.device(device)
    torch.manual_seed(0)
    build = architecture(name)
    ways = {
        way: BatchedNetwork(lambda: build(shape, 1), where, vectorised=vectorised)
        for way, vectorised in (("one by one", False), ("all at once", True))
    }
    chosen = BatchedNetwork(lambda: build(shape, 1), where)
    module = build(shape, 1).to(where)
    assert isinstance(module, nn.Sequential)
    flat = torch.stack([chosen.initial(seed) for seed in range(WORKERS)])
    stored = torch.randn(WORKERS, batch, *shape[1:], shape[0], device=where)
    inputs = stored.movedim(-1, -3)  # channels last, as the engine stores them

    def pull(outputs: torch.Tensor, *_: slice) -> torch.Tensor:
        return torch.ones_like(outputs)

    def joint() -> torch.Tensor:
        outputs = module(inputs.flatten(0, 1))
        parts = torch.autograd.grad(outputs, list(module.parameters()), torch.ones_like(outputs))
        return torch.cat([part.flatten() for part in parts])

    calls: dict[str, Callable[[], torch.Tensor]] = {
        "one by one": lambda: ways["one by one"].gradients(flat, inputs, pull)[1],
        "all at once": lambda: ways["all at once"].gradients(flat, inputs, pull)[1],
        "grouped": lambda: grouped(module, flat, inputs),
        "chosen": lambda: chosen.gradients(flat, inputs, pull)[1],
        "joint": joint,
    }
    reference = calls["one by one"]()
    for way in ("all at once", "grouped"):
        # By worker, not by entry: where rounding turns the sign of what enters a ReLU, or changes
        # which number is pooled, entries differ by much: found were 1e-7, once 1e-3 of a worker.
        apart = (calls[way]() - reference).norm(dim=1) / reference.norm(dim=1)
        assert apart.max() < 1e-2 and apart.median() < 1e-4, (way, apart)
    step = {"FMGDA step": fmgda_round(name, shape, batch, device)}
    found = medians(calls | step, repetitions, where)
    found["FMGDA step"] /= 2 * STEPS
    fastest = min(found[way] for way in ("one by one", "all at once", "grouped"))
    print(f"\n{name}, {WORKERS} workers, batch {batch}, {device}: {chosen.dimension:,} parameters")
    for way, seconds in found.items():
        print(
            f"  {way:12s} {1e3 * seconds:8.2f} ms  {seconds / fastest:5.2f} × the fastest of three"
        )
    way = "all at once" if chosen.is_vectorised(batch, shape) else "one by one"
    print(f"  chosen: {way}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, shape, batch in CASES:
        measure(name, shape, batch, arguments.device, arguments.repetitions)


if __name__ == "__main__":
    main()
