"""Gradients of single samples, clipped and averaged: all at once, by layers.

5 agents, l1 norm. Either way makes the same gradients, which is checked first; times are medians
over interleaved repetitions, so that a busy machine slows both alike. "chosen" is the way that
the network takes by itself: by layers where it is a chain of known ones, all at once elsewhere.
"not clipped" is the gradient of the mean loss, for which no sample is told from the others: what
the arithmetic costs without clipping.

    python benchmarks/clipping.py [--device cuda] [--repetitions 20]
"""

import argparse
from functools import partial

import torch
from interleaved import medians
from torch import nn

from fedatlas.architectures import architecture
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.samples import Clipping

AGENTS, CLASSES = 5, 10
CASES = [
    ("cnn_8x8", (1, 8, 8), 20),
    ("cnn_28x28", (1, 28, 28), 55),
    ("cnn_32x32", (3, 32, 32), 55),
]
# A CPU would take minutes for a repetition with 55 samples, and two tell as much.
RESNET = {"cpu": ("resnet18", (1, 28, 28), 2), "other": ("resnet18", (1, 28, 28), 55)}


def measure(name: str, shape: tuple[int, ...], batch: int, device: str, repetitions: int) -> None:
    where = torch.device(device)
    torch.manual_seed(0)
    build = architecture(name)
    ways = {
        # A network inside another is not looked into.
        "all at once": BatchedNetwork(lambda: nn.Sequential(build(shape, CLASSES)), where),
        "chosen": BatchedNetwork(lambda: build(shape, CLASSES), where),
    }
    chosen = ways["chosen"]
    flat = torch.stack([chosen.initial(seed) for seed in range(AGENTS)])
    stored = torch.randn(AGENTS, batch, *shape[1:], shape[0], device=where)
    inputs = stored.movedim(-1, -3)  # channels last, as the engine stores them
    label = torch.randint(CLASSES, (AGENTS, batch), device=where)
    share = torch.full((AGENTS, batch), 1 / batch, device=where)

    def slopes(outputs: torch.Tensor, agents: slice, samples: slice) -> torch.Tensor:
        return torch.softmax(outputs, -1) - nn.functional.one_hot(label[agents, samples], CLASSES)

    def clipped(network: BatchedNetwork, bound: float) -> torch.Tensor:
        return network.clipped_gradients(flat, inputs, slopes, Clipping("l1", bound), share)[1]

    def plain() -> torch.Tensor:
        return chosen.gradients(flat, inputs, lambda *seen: slopes(*seen) / batch)[1]

    bound = float(plain().abs().sum(1).max())  # single gradients are larger, most of them
    reference = clipped(ways["all at once"], bound)
    apart = (clipped(chosen, bound) - reference).abs().max() / reference.abs().max()
    assert apart < 1e-3, apart
    calls = {way: partial(clipped, network, bound) for way, network in ways.items()}
    found = medians(calls | {"not clipped": plain}, repetitions, where)
    print(f"\n{name}, {AGENTS} agents, batch {batch}, {device}: {chosen.dimension:,} parameters")
    for way, seconds in found.items():
        print(f"  {way:12s} {1e3 * seconds:8.2f} ms  {seconds / found['chosen']:5.2f} × chosen")
    if where.type == "cuda":
        print(f"  memory       {torch.cuda.max_memory_allocated() / 2**30:8.2f} GiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    resnet = RESNET["cpu" if arguments.device == "cpu" else "other"]
    for name, shape, batch in [*CASES, resnet]:
        measure(name, shape, batch, arguments.device, arguments.repetitions)


if __name__ == "__main__":
    main()
