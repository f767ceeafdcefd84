"""Any torch module as a batched oracle: clients are the leading axis, parameters are flat.

Gradients are taken by a loop over clients, or by one call of `torch.func` for all; the numbers are
the same up to rounding. The one call is faster where single clients leave the device idle: on a GPU
unless one client's samples fill it; on a CPU for small networks on few numbers, where Python's
share of the loop counts (benchmarks/networks.py). Device and sizes decide, not clocks: a resumed
run goes on as it began. `torch.func` does not take recurrent layers and running statistics, so
networks with those are always looped over.

Clipping needs the gradients of single samples, see `sample_gradients`. How many samples are
computed on at once is declared here and in `torch_device`: a gradient is a sum over samples, so
larger batches are added up in blocks, which is the same up to rounding. BatchNorm normalises a
sample by all others of its minibatch, so networks with it take a minibatch as a whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.func import vmap

from fedatlas.architectures import running_statistics
from fedatlas.arithmetic import torch_device
from fedatlas.arithmetic.sample_gradients import (
    AllAtOnce,
    ByLayers,
    Chain,
    clipped_sum,
    forward_of,
    leaves,
    pulled_back,
)
from fedatlas.arithmetic.samples import Clipping
from fedatlas.arithmetic.torch_device import Minibatch, in_blocks

#: From outputs (C, b, k), and which clients and which of their samples these are, the gradient
#: (C, b, k) of what is minimised with respect to them; a sample's depends on its own outputs only.
Pullback = Callable[[torch.Tensor, slice, slice], torch.Tensor]

#: Samples (S, b, *shape).
Inputs: TypeAlias = torch.Tensor | Minibatch

_ALL = slice(None)

# Below both of these numbers one call is faster on a CPU: measured, 16 clients, three networks.
_FEW_INPUTS = 16_000  # of one client's minibatch
_FEW_PARAMETERS = 100_000

# Samples of one client that fill a GPU, by what they weigh (`_weight`): grouped convolutions of all
# clients are slower then. Measured for ResNet-18 on 28 × 28 between 16 and 55 samples.
_FULL = 2_000_000

# Numbers of one chunk of samples in passes over many.
_CHUNK = {"cpu": 200_000, "other": 50_000_000}

# Numbers of one chunk of samples and all their gradients, 96 MB and 1.6 GB in float32. Fewer give a
# CPU too many small calls, more leave its cache.
_HELD = {"cpu": 24_000_000, "other": 400_000_000}

# Numbers that layers make of a sample, for each of its own, at which memory goes by the layers:
# small networks make 7 to 15, ResNet-18 makes 560 to 1,720.
_PASSING = 20


class BatchedNetwork:
    """A module whose parameters are a flat vector (d,), or one per client, (S, d)."""

    def __init__(
        self,
        build: Callable[[], nn.Module],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        vectorised: bool | None = None,
    ) -> None:
        """vectorised: whether one call is for all clients; None lets device and sizes decide.

        build: makes a fresh module.
        """
        self._build = build
        self._device, self._dtype, self._vectorised = device, dtype, vectorised
        self._kind = "cpu" if device.type == "cpu" else "other"
        module = self._fresh(0)
        self._module, self._forward = module, forward_of(module)
        self._chain = self._forward if isinstance(self._forward, Chain) else None
        self._sample_gradients: Callable[..., AllAtOnce | ByLayers] = (
            partial(ByLayers, self._chain) if self._chain else partial(AllAtOnce, self._forward)
        )
        self._parameters = _Flat(dict(module.named_parameters()))
        self._statistics = _Flat(running_statistics(module))
        self.dimension = self._parameters.size
        self.statistics = self._statistics.size
        self._weights: dict[tuple[int, ...], int] = {}  # of samples, by shape
        if self.statistics or any(isinstance(part, nn.RNNBase) for part in module.modules()):
            self._vectorised = False

    def initial(self, seed: int) -> torch.Tensor:
        """The parameters (d,) that the module starts with; the same on every device."""
        return torch.cat([part.detach().reshape(-1) for part in self._fresh(seed).parameters()])

    def initial_statistics(self) -> torch.Tensor:
        """The running statistics (s,) that the module starts with: means 0, variances 1."""
        found = running_statistics(self._fresh(0)).values()
        none = torch.zeros(0, device=self._device, dtype=self._dtype)
        return torch.cat([none, *(part.reshape(-1) for part in found)])

    def state_dict(
        self, point: torch.Tensor, statistics: torch.Tensor | None = None
    ) -> dict[str, np.ndarray]:
        """The module's state_dict at parameters (d,) and running statistics (s,), if it has any."""
        module = self._fresh(0)
        module.load_state_dict(self._state(point, statistics), strict=False)
        return {name: part.cpu().numpy() for name, part in module.state_dict().items()}

    def outputs(
        self,
        point: torch.Tensor,
        inputs: Callable[[slice], torch.Tensor],
        samples: int,
        statistics: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Outputs (n, k) for n samples at one point (d,), without gradients, chunk by chunk.

        inputs: the samples of a slice, (…, *shape). statistics: running statistics (s,), if the
        network has any.
        """
        state = self._state(point, statistics)
        with torch.no_grad(), self._evaluating():
            parts = [self._forward(state, inputs(part)) for part in self._chunks(inputs, samples)]
        return torch.cat(parts)

    def gradient(
        self,
        point: torch.Tensor,
        inputs: Callable[[slice], torch.Tensor],
        samples: int,
        slopes: Callable[[torch.Tensor, slice], torch.Tensor],
        statistics: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (n, k) of many samples at one point, and the gradient (d,), chunk by chunk.

        inputs, statistics: as of `outputs`. slopes: from outputs of a slice of samples, the
        gradient of what is minimised with respect to them.
        """
        state = self._state(point, statistics)
        parameters = leaves(self._parameters.among(state))
        total, every = torch.zeros_like(point), []
        with self._evaluating():
            for part in self._chunks(inputs, samples):
                outputs = self._forward(state | parameters, inputs(part))
                every.append(outputs.detach())
                found = pulled_back(outputs, list(parameters.values()), slopes(every[-1], part))
                total += torch.cat([own.reshape(-1) for own in found])
        return torch.cat(every), total

    def training_outputs(self, point: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs (b, k) of one minibatch, normalised by its own statistics, without gradients."""
        # Updated in training, and thrown away.
        scratch = torch.zeros(self.statistics, device=self._device, dtype=self._dtype)
        with torch.no_grad():
            return self._forward(self._state(point, scratch), inputs)

    def gradients(
        self,
        points: torch.Tensor,
        inputs: Inputs,
        pullback: Pullback,
        statistics: torch.Tensor | None = None,
        together: bool | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (S, b, k) and gradients (S, d) at each client's point (S, d).

        statistics: running statistics (S, s), if the network has any; updated in place.
        together: whether one call is for all clients; None lets device and sizes decide.
        """
        if together is None:
            together = self.is_vectorised(inputs.shape[1], inputs.shape[2:])

        def of_clients(
            clients: slice, inputs: torch.Tensor, pullback: Pullback
        ) -> tuple[torch.Tensor, torch.Tensor]:
            if together:
                return self._all_at_once(points[clients], inputs, pullback)
            own = None if statistics is None else statistics[clients]
            return self._one_by_one(points[clients], inputs, pullback, own)

        def of_block(clients: slice, samples: slice) -> tuple[torch.Tensor, torch.Tensor]:
            given = inputs[clients, samples]
            return of_clients(clients, given, lambda found, *_: pullback(found, clients, samples))

        clients, samples, *shape = inputs.shape
        at_once = max(1, torch_device.AT_ONCE // self._weight(shape))
        if self.statistics or (clients if together else 1) * samples <= at_once:
            return of_clients(_ALL, inputs[...], pullback)
        return in_blocks(of_block, clients, samples, at_once, together)

    def clipped_gradients(
        self,
        points: torch.Tensor,
        inputs: Inputs,
        pullback: Pullback,
        clipping: Clipping,
        share: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (S, b, k) and Σ_j share_j · clip(∇loss_j), (S, d), at each client's point (S, d).

        pullback: of each sample's own loss, which is not divided by b. share: (S, b), the weights
        of clipped gradients, such as 1/b; samples of share 0 are not differentiated.
        """
        samples, *shape = inputs.shape[1:]
        at_once = min(samples, max(1, _HELD[self._kind] // (self.dimension + prod(shape))))
        given = inputs[...] if prod(inputs.shape) <= torch_device.AT_ONCE else inputs
        gradients = torch.zeros_like(points, memory_format=torch.contiguous_format)
        all_outputs = []
        for client, point in enumerate(points):

            def own(at: Any, client: int = client) -> torch.Tensor:
                return given[client, at]

            parameters, rows = self._parameters.parts(point), share[client].nonzero().squeeze(1)
            passed = None
            # A pullback takes the outputs of all samples, ahead of any gradient.
            if len(rows) == samples <= min(at_once, self._chunk(shape)) and self._chain:
                passed = ByLayers(self._chain, parameters, own(rows))
            outputs = passed.outputs if passed else self.outputs(point, own, samples)
            slopes = pullback(outputs[None], slice(client, client + 1), _ALL)[0]
            for part in rows.split(at_once):
                if len(part) == 0:  # of a client without any samples
                    continue
                found = passed or self._sample_gradients(parameters, own(part))
                kept = share[client, part]
                gradients[client] += clipped_sum(found.of(slopes[part]), clipping, kept)
            all_outputs.append(outputs)
        return torch.stack(all_outputs), gradients

    def is_vectorised(self, samples: float, shape: Sequence[int]) -> bool:
        """Whether gradients on so many samples per client are taken in one call; shape: of one."""
        if self._vectorised is not None:
            return self._vectorised
        if self._kind == "cpu":
            return samples * prod(shape) < _FEW_INPUTS and self.dimension < _FEW_PARAMETERS
        return samples * self._weight(shape) < _FULL

    def _all_at_once(
        self, points: torch.Tensor, inputs: torch.Tensor, pullback: Pullback
    ) -> tuple[torch.Tensor, torch.Tensor]:
        def forward(flat: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
            return self._forward(self._parameters.parts(flat), inputs)

        # torch.func's own vjp gives the same bits, but loads torch's compiler: seconds a job.
        points = points.detach().requires_grad_()
        outputs = vmap(forward)(points, inputs)
        slopes = pullback(outputs.detach(), slice(0, len(points)), _ALL)
        (gradients,) = pulled_back(outputs, [points], slopes)
        return outputs.detach(), gradients

    def _one_by_one(
        self,
        points: torch.Tensor,
        inputs: torch.Tensor,
        pullback: Pullback,
        statistics: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gradients = torch.empty_like(points, memory_format=torch.contiguous_format)
        all_outputs = []
        for client in range(len(points)):
            state = self._state(points[client], None if statistics is None else statistics[client])
            parameters = leaves(self._parameters.among(state))
            outputs = self._forward(state | parameters, inputs[client])
            if statistics is not None and self.statistics:
                updated = self._statistics.among(state).values()
                torch.cat([part.reshape(-1) for part in updated], out=statistics[client])
            slopes = pullback(outputs.detach()[None], slice(client, client + 1), _ALL)[0]
            parts = pulled_back(outputs, list(parameters.values()), slopes)
            torch.cat([part.reshape(-1) for part in parts], out=gradients[client])
            all_outputs.append(outputs.detach())
        return torch.stack(all_outputs), gradients

    def _state(
        self, point: torch.Tensor, statistics: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        """Parameters, and running statistics if they are given, by name."""
        if statistics is None or not self.statistics:
            return self._parameters.parts(point)
        return self._parameters.copies(point) | self._statistics.copies(statistics)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Normalise by running statistics, if there are any, and leave them unchanged."""
        if not self.statistics:
            yield
            return
        training = self._module.training
        self._module.eval()
        try:
            yield
        finally:
            self._module.train(training)

    def _chunks(self, inputs: Callable[[slice], torch.Tensor], samples: int) -> Iterator[slice]:
        """Slices of many samples, of those that pass at once."""
        step = self._chunk(inputs(slice(0, 1)).shape[1:])
        for first in range(0, samples, step):
            yield slice(first, min(first + step, samples))

    def _chunk(self, shape: Sequence[int]) -> int:
        """How many samples pass at once where there are many."""
        weight = prod(shape) if self._kind == "cpu" else self._weight(shape)
        return max(1, _CHUNK[self._kind] // weight)

    def _weight(self, shape: Sequence[int]) -> int:
        """Numbers that a sample counts for: its own, or by those that layers make of it."""
        shape = tuple(shape)
        if shape not in self._weights:
            sample = torch.zeros(1, *shape, device=self._device, dtype=self._dtype)
            made = _numbers_made(self._module, sample)
            self._weights[shape] = max(prod(shape), made // _PASSING)
        return self._weights[shape]

    def _fresh(self, seed: int) -> nn.Module:
        # Modules draw from the CPU's global generator, whose state is restored.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self._build().to(self._device, self._dtype)


def _numbers_made(module: nn.Module, inputs: torch.Tensor) -> int:
    """Numbers in the outputs of all layers; the module is left as it was."""
    made = 0

    def count(layer: nn.Module, _: Any, output: Any) -> None:
        nonlocal made
        made += (output[0] if isinstance(output, tuple) else output).numel()

    layers = [part for part in module.modules() if not list(part.children())]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    training = module.training
    try:
        with torch.no_grad():
            module.eval()(inputs)
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    return made


class _Flat:
    """Named tensors as one flat vector."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._shapes = {name: tensor.shape for name, tensor in tensors.items()}
        self._sizes = [prod(shape) for shape in self._shapes.values()]
        self.size = sum(self._sizes)

    def parts(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views into the vector, by name."""
        parts = flat.split(self._sizes)
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def among(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The parts that are the vector's, by name."""
        return {name: state[name] for name in self._shapes}

    def copies(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Copies of the vector's parts, by name; cuDNN's BatchNorm fails on views at odd places."""
        return {name: part.clone() for name, part in self.parts(flat).items()}
