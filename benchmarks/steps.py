"""Training rounds of FMGDA, DP-GT and TDCD, beside plain torch loops of the same work.

A plain loop is what one writes without this package: a module for each client, forward and backward
for one client after the other (DP-GT's clipped gradients: for one sample after the other), images
normalised once beforehand. Draws alone are the package's: both ways must reach the same points,
which is checked first. They take turns; medians of processor time, on a GPU of time, with the most
memory that either takes. The goal for ours over plain is our choice. On a GPU also ResNet-18, at
the sizes of the papers' runs; TDCD's has BatchNorm, whose running statistics the plain loop does
not average.

Where the demo was run, its logs also say which share of its networks' training is measuring.

    python benchmarks/steps.py [--device cuda] [--repetitions 20] [--only FMGDA|DP-GT|TDCD]
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from interleaved import times
from shares import trained
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.algorithms.fmgda import Fmgda
from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.architectures import architecture
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.decentralised.graph import GraphCounters, GraphNetwork
from fedatlas.federations.decentralised.torch_engine import ClassifyingAgents
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.shards import ClientSamples, TieredSamples
from fedatlas.federations.tiered.hubs import TieredCounters, TieredNetwork
from fedatlas.federations.tiered.torch_engine import NetworkSilos
from fedatlas.privacy.schemes import S1
from fedatlas.schema.objectives import AucObjective, ClassificationObjective

GOAL, MEASURING_GOAL = 1.5, 0.1
CLASSES = 10
#: All points that a way reaches, one after the other, each as one vector.
Points = Iterator[torch.Tensor]


class Images(NamedTuple):
    """Made up: uint8 for us, and as the plain loops take them."""

    shards: ClientSamples
    normalised: torch.Tensor  # (n, *shape)
    labels: torch.Tensor  # (n,)


def images(
    shape: tuple[int, ...], clients: int, each: int, labels: Sequence[float], device: str
) -> Images:
    """The labels repeat."""
    n, generator = clients * each, np.random.default_rng(0)
    pixels = generator.integers(0, 256, (n, int(np.prod(shape))), dtype=np.uint8)
    label = np.resize(labels, n)
    metadata = {
        "dataset": "made up",
        "shape": shape,
        "positive_rate": float((label > 0).mean()),
        "normalisation": {"mean": [128.0] * shape[0], "deviation": [74.0] * shape[0]},
    }
    shards = ClientSamples(
        Samples(np.arange(n), label, pixels), each * np.arange(clients + 1), metadata
    )
    normalised = (torch.from_numpy(pixels).to(device).float() - 128) / 74
    return Images(shards, normalised.view(n, *shape), torch.from_numpy(label).to(device).long())


def gradient_of(module: nn.Module) -> torch.Tensor:
    return torch.cat([slope(part).flatten() for part in module.parameters()])


def slope(part: torch.Tensor) -> torch.Tensor:
    """What backward left."""
    assert part.grad is not None
    return part.grad


def rounds_of(method: Any, problem: Any, network: Any, x0: Any) -> Points:
    """Ours."""
    state, number = method.start(problem, network, x0), 0
    while True:
        state = method.round(state, problem, network, RoundRandom(0).at(number))
        point = method.point(state, network)
        parts = point.weights if isinstance(method, Tdcd) else point
        yield torch.cat([part.flatten() for part in parts])
        number += 1


def fmgda(
    device: str, name: str, shape: tuple[int, ...], batch: int, steps: int
) -> tuple[Points, Points]:
    """16 workers."""
    workers = 16
    data = images(shape, workers, 20 * batch, [1.0, *5 * [-1.0]], device)
    engine = AucEngine(data.shards, AucObjective(name="auc_min_max", model=name), device)
    method = Fmgda(
        local_steps=steps,
        batch_size=batch,
        primal_step_size=0.01,
        dual_step_size=0.01,
        primal_momentum=0.1,
        dual_momentum=0.9,
    )
    counters = Counters()
    problem, network = engine.counting(counters), StarNetwork(workers, counters)
    start, p = engine.start(0), data.shards.metadata["positive_rate"]

    def gradients(
        module: nn.Module, theta: torch.Tensor, w: torch.Tensor, rows: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        vector_to_parameters(theta[:-2], module.parameters())
        module.zero_grad()
        a, b, w = (part.clone().requires_grad_() for part in (theta[-2:-1], theta[-1:], w))
        h = torch.sigmoid(module(data.normalised[rows])).squeeze(-1)
        linear = 2 * (1 + w) * h
        of_positive = (1 - p) * ((h - a) ** 2 - linear)
        of_negative = p * ((h - b) ** 2 + linear)
        loss = torch.where(data.labels[rows] > 0, of_positive, of_negative) - p * (1 - p) * w**2
        loss.mean().backward()
        return torch.cat([gradient_of(module), slope(a), slope(b)]), slope(w)

    def plain() -> Points:
        modules = [architecture(name)(shape, 1).to(device) for _ in range(workers)]
        thetas, ws = [start.theta] * workers, [start.w] * workers
        us: list[torch.Tensor] = []
        vs: list[torch.Tensor] = []
        number = 0
        while True:
            random = RoundRandom(0).at(number)
            if number == 0:
                first = problem.minibatches(random, batch * steps).rows[:, 0]
                for module, rows in zip(modules, first, strict=True):
                    u, v = gradients(module, start.theta, start.w, rows)
                    us, vs = [*us, u], [*vs, v]
            drawn = problem.minibatches(random, batch, steps).rows
            for step in range(steps):
                before = thetas, ws
                if step == steps - 1:
                    us, vs = ([torch.stack(part).mean(0)] * workers for part in (us, vs))
                thetas = [theta - 0.01 * u for theta, u in zip(thetas, us, strict=True)]
                ws = [w + 0.01 * v for w, v in zip(ws, vs, strict=True)]
                if step == steps - 1:
                    thetas, ws = ([torch.stack(part).mean(0)] * workers for part in (thetas, ws))
                for k, module in enumerate(modules):
                    new = gradients(module, thetas[k], ws[k], drawn[k, step])
                    old = gradients(module, before[0][k], before[1][k], drawn[k, step])
                    us[k] = new[0] + 0.9 * (us[k] - old[0])
                    vs[k] = new[1] + 0.1 * (vs[k] - old[1])
            yield torch.cat([thetas[0], ws[0]])
            number += 1

    return rounds_of(method, problem, network, start), plain()


def dp_gt(
    device: str, name: str, shape: tuple[int, ...], batch: int, clipped: bool
) -> tuple[Points, Points]:
    """Five agents on a ring; clipped: the provable form, cut in the l1 norm."""
    agents, horizon, bound = 5, 1000, 20.0
    data = images(shape, agents, 10 * batch, range(CLASSES), device)
    objective = ClassificationObjective(name="cross_entropy", model=name)
    engine = ClassifyingAgents(data.shards, objective, device)
    method = DpGradientTracking(
        clipping="l1" if clipped else "none",
        form="provable" if clipped else "compact",
        gradient_bound=bound,
        horizon=horizon,
        scheme=S1(
            alpha_factor=1, beta_factor=1, gamma_factor=1, samples_factor=batch - 1,
            p_alpha=0.5, p_beta=0.5, p_gamma=0.5, p_m=0, p_zeta=-1, p_eta=-1,
        ),
    )  # fmt: skip
    counters, ring = GraphCounters(), np.roll(np.eye(agents), 1, axis=0)
    network = GraphNetwork(ring, ring.T, engine.array, engine.draws, counters)
    problem, start = engine.counting(counters), engine.start(0)
    steps, noise = method.scheme.steps(horizon), method.scheme.noise(horizon)[1]
    assert network.trackers is not None
    into, out_of = network.states.in_laplacian, network.trackers.out_laplacian

    def gradient(module: nn.Module, x: torch.Tensor, rows: Any) -> torch.Tensor:
        vector_to_parameters(x, module.parameters())
        inputs, labels = data.normalised[rows], data.labels[rows]
        if not clipped:
            module.zero_grad()
            cross_entropy(module(inputs), labels).backward()
            return gradient_of(module)
        total = torch.zeros_like(x)
        for j in range(batch):
            module.zero_grad()
            cross_entropy(module(inputs[j : j + 1]), labels[j : j + 1]).backward()
            own = gradient_of(module)
            total += own * min(1.0, bound / 2 / float(own.abs().sum())) / batch
        return total

    def plain() -> Points:
        modules = [architecture(name)(shape, CLASSES).to(device) for _ in range(agents)]

        def gradients(x: torch.Tensor, random: RoundRandom) -> torch.Tensor:
            drawn = problem.minibatches(random, batch).rows[:, 0]
            return torch.stack([gradient(*own) for own in zip(modules, x, drawn, strict=True)])

        x, number = start, 0
        while True:
            random = RoundRandom(0).at(number)
            if number == 0:
                y = g = gradients(x, random)
            y_sent = y + noise[number] * engine.draws.laplace(random, y)
            x_sent, y_stepped = x, y_sent
            if not clipped:
                x_sent = x + noise[number] * engine.draws.laplace(random, x)
                y_stepped = y
            x = x - steps.state_coupling * (into @ x_sent) - steps.step_size * y_stepped
            g_next = gradients(x, random)
            y = y - steps.tracker_coupling * (out_of @ y_sent) + g_next - g
            g = g_next
            yield x.flatten()
            number += 1

    return rounds_of(method, problem, network, start), plain()


def tdcd(
    device: str, name: str, shape: tuple[int, ...], clients: int, batch: int, steps: int
) -> tuple[Points, Points]:
    """Two silos with a network each."""
    each = 20 * batch // clients
    silos = [images(shape, clients, each, range(CLASSES), device) for _ in range(2)]
    place = np.stack([np.arange(clients * each)] * 2)
    data = TieredSamples(tuple(silo.shards for silo in silos), place)
    engine = NetworkSilos(data, ClassificationObjective(name="cross_entropy", model=name), device)
    method = Tdcd(step_size=0.3, local_steps=steps, batch_size=batch)
    counters = TieredCounters()
    problem, network = engine.counting(counters), TieredNetwork(engine.clients, counters)
    start, labels = engine.start(0), silos[0].labels

    def plain() -> Points:
        build = architecture(name)
        modules = [[build(shape, CLASSES).to(device) for _ in range(clients)] for _ in silos]
        hubs, number = list(start.weights), 0
        while True:
            drawn = np.sort(RoundRandom(0).at(number).sample(clients * each, batch))
            rows = [drawn[drawn // each == k] for k in range(clients)]
            embeddings = []
            for silo, hub, own in zip(silos, hubs, modules, strict=True):
                for module in own:
                    vector_to_parameters(hub.clone(), module.parameters())
                with torch.no_grad():
                    sent = zip(own, rows, strict=True)
                    embeddings.append([module(silo.normalised[held]) for module, held in sent])
            for silo, own, others in zip(silos, modules, reversed(embeddings), strict=True):
                for module, held, stale in zip(own, rows, others, strict=True):
                    inputs, wanted = silo.normalised[held], labels[held]
                    for _ in range(steps if len(held) else 0):
                        module.zero_grad()
                        cross_entropy(module(inputs) + stale, wanted).backward()
                        with torch.no_grad():
                            for part in module.parameters():
                                part.sub_(0.3 * slope(part))
            hubs = [
                torch.stack([nn.utils.parameters_to_vector(m.parameters()) for m in own]).mean(0)
                for own in modules
            ]
            hubs = [hub.detach() for hub in hubs]
            yield torch.cat(hubs)
            number += 1

    return rounds_of(method, problem, network, start), plain()


DIGIT, IMAGE = (1, 8, 8), (1, 28, 28)
CASES: dict[str, Callable[[str], tuple[Points, Points]]] = {
    "FMGDA, demo": lambda on: fmgda(on, "cnn_8x8", DIGIT, 10, 5),
    "FMGDA, 28 × 28": lambda on: fmgda(on, "cnn_28x28", IMAGE, 50, 5),
    "DP-GT, demo": lambda on: dp_gt(on, "cnn_8x8", DIGIT, 20, clipped=False),
    "DP-GT, 28 × 28": lambda on: dp_gt(on, "cnn_28x28", IMAGE, 55, clipped=False),
    "DP-GT provable, demo": lambda on: dp_gt(on, "cnn_8x8", DIGIT, 20, clipped=True),
    "DP-GT provable, 28 × 28": lambda on: dp_gt(on, "cnn_28x28", IMAGE, 55, clipped=True),
    "TDCD, demo": lambda on: tdcd(on, "cnn_strided", (1, 8, 4), 10, 100, 10),
    "TDCD, 28 × 28": lambda on: tdcd(on, "cnn_strided", (1, 28, 14), 50, 2000, 10),
}
# Sizes of the papers' runs: Tiny-ImageNet, MNIST, halves of CIFAR-10.
RESNETS: dict[str, Callable[[str], tuple[Points, Points]]] = {
    "FMGDA, ResNet-18": lambda on: fmgda(on, "resnet18", (3, 64, 64), 50, 5),
    "DP-GT, ResNet-18": lambda on: dp_gt(on, "resnet18", IMAGE, 55, clipped=False),
    "TDCD, ResNet-18": lambda on: tdcd(on, "resnet18_halves", (3, 32, 16), 50, 2000, 10),
}


def measure(name: str, device: str, repetitions: int) -> None:
    ours, plain = (CASES | RESNETS)[name](device)
    calls = {"ours": lambda: next(ours), "plain": lambda: next(plain)}
    if name == "TDCD, ResNet-18":
        del calls["plain"]
    for _ in range(2):
        reached = [call() for call in calls.values()]
        # By rounding alone, which kinks of ReLU and pooling make larger.
        apart = float((reached[0] - reached[-1]).norm() / reached[-1].norm())
        assert apart < 1e-3, (name, apart)
    found = times(calls, repetitions, torch.device(device))
    line = "".join(f"{1e3 * statistics.median(found[way]):>10.1f} ms" for way in calls)
    if "plain" in found:
        ratio = statistics.median(np.divide(found["ours"], found["plain"]))
        line += f"{ratio:>8.2f}   goal {GOAL}"
    if device != "cpu":
        line += f"   {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        torch.cuda.reset_peak_memory_stats()
    print(f"{name:<26}{line}", flush=True)


def shares_of_measuring(folder: Path) -> None:
    """Of the demo's networks, from the logs of their training."""
    science = trained(folder) if (folder / "logs/train").is_dir() else {}
    for name in ("demo-fmgda", "demo-dpgt", "demo-tdcd"):
        rounds, measuring = science.get(name, (0.0, 0.0))
        if rounds == 0:
            print(f"{name}: no logs say how long it trained and measured; run the demo")
        else:
            share = measuring / (rounds + measuring)
            print(f"{name}: {share:.2f} of a run is measuring   goal {MEASURING_GOAL}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'a round':<26}{'ours':>13}{'plain':>13}{'ratio':>8}")
    for name in CASES if arguments.device == "cpu" else CASES | RESNETS:
        if name.startswith(arguments.only):
            measure(name, arguments.device, arguments.repetitions)
    shares_of_measuring(Path())


if __name__ == "__main__":
    main()
