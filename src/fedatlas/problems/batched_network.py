"""Any torch module as a batched oracle: clients are the leading axis, parameters are flat.

Two ways with the same numbers, up to rounding: a loop over clients, or one call for all of them by
`torch.func`. On a GPU the one call is faster; on a CPU it is so for small networks on few numbers,
where Python's share of the loop counts (benchmarks/networks.py). Device and sizes decide, not
clocks: a resumed run goes on as it began.
"""

from collections.abc import Callable
from math import prod

import torch
from torch import nn
from torch.func import functional_call, vjp, vmap

from fedatlas.errors import FedatlasError

#: From a module's outputs (C, b, k) and which clients they belong to: the gradient of what is
#: minimised with respect to them, (C, b, k).
Pullback = Callable[[torch.Tensor, slice], torch.Tensor]

# Below both of these numbers one call is faster on a CPU: measured, 16 clients, three networks.
_FEW_INPUTS = 16_000  # of one client's minibatch
_FEW_PARAMETERS = 100_000

# Numbers of one chunk of samples in passes over many: a CPU's cache, a GPU's appetite.
_CHUNK = {"cpu": 200_000, "other": 50_000_000}


class BatchedNetwork:
    """A module whose parameters are a flat vector (d,), or one per client, (S, d)."""

    def __init__(
        self,
        build: Callable[[], nn.Module],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        vectorised: bool | None = None,
    ) -> None:
        """build: makes a fresh module; vectorised: None lets device and sizes decide."""
        self._build = build
        self._device, self._dtype, self._vectorised = device, dtype, vectorised
        module = self._fresh(0)
        if any(True for _ in module.buffers()):
            raise FedatlasError(
                "a network has buffers (such as BatchNorm's running statistics), which are a state "
                "beside its parameters; use GroupNorm or LayerNorm"
            )
        self._module = module
        self._names = [name for name, _ in module.named_parameters()]
        self._shapes = [parameter.shape for parameter in module.parameters()]
        self._sizes = [prod(shape) for shape in self._shapes]
        self.dimension = sum(self._sizes)

    def initial(self, seed: int) -> torch.Tensor:
        """The parameters (d,) that the module starts with; the same on every device."""
        parameters = self._fresh(seed).parameters()
        return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])

    def outputs(
        self, point: torch.Tensor, inputs: Callable[[slice], torch.Tensor], samples: int
    ) -> torch.Tensor:
        """Outputs (n, k) for n samples at one point (d,), without gradients, chunk by chunk.

        inputs: the samples of a slice, (…, *shape).
        """
        parameters = self._parameters(point)
        numbers = _CHUNK["cpu" if self._device.type == "cpu" else "other"]
        chunk = max(1, numbers // prod(inputs(slice(0, 1)).shape))
        with torch.no_grad():
            parts = [
                functional_call(
                    self._module, parameters, (inputs(slice(start, min(start + chunk, samples))),)
                )
                for start in range(0, samples, chunk)
            ]
        return torch.cat(parts)

    def gradients(
        self, points: torch.Tensor, inputs: torch.Tensor, pullback: Pullback
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (S, b, k) and gradients (S, d) at each client's point (S, d).

        inputs: (S, b, *shape). pullback: says how outputs matter, see `Pullback`.
        """
        if self.is_vectorised(inputs[0].numel()):
            return self._all_at_once(points, inputs, pullback)
        return self._one_by_one(points, inputs, pullback)

    def is_vectorised(self, inputs: int) -> bool:
        """Whether gradients on so many input numbers per client are taken in one call."""
        if self._vectorised is not None:
            return self._vectorised
        few = inputs < _FEW_INPUTS and self.dimension < _FEW_PARAMETERS
        return self._device.type != "cpu" or few

    def _all_at_once(
        self, points: torch.Tensor, inputs: torch.Tensor, pullback: Pullback
    ) -> tuple[torch.Tensor, torch.Tensor]:
        def forward(flat: torch.Tensor) -> torch.Tensor:
            return vmap(self._forward)(flat, inputs)

        outputs, backward, *_ = vjp(forward, points)
        (gradients,) = backward(pullback(outputs.detach(), slice(0, len(points))))
        return outputs.detach(), gradients

    def _one_by_one(
        self, points: torch.Tensor, inputs: torch.Tensor, pullback: Pullback
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gradients = torch.empty_like(points, memory_format=torch.contiguous_format)
        all_outputs = []
        for client in range(len(points)):
            # Leaves of their own: through views of the flat vector autograd would add zeros.
            parameters = {
                name: part.detach().requires_grad_()
                for name, part in self._parameters(points[client]).items()
            }
            outputs = functional_call(self._module, parameters, (inputs[client],))
            slopes = pullback(outputs.detach()[None], slice(client, client + 1))[0]
            parts = torch.autograd.grad(outputs, list(parameters.values()), slopes)
            torch.cat([part.reshape(-1) for part in parts], out=gradients[client])
            all_outputs.append(outputs.detach())
        return torch.stack(all_outputs), gradients

    def _forward(self, flat: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = functional_call(self._module, self._parameters(flat), (inputs,))
        return outputs

    def _parameters(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        parts = flat.split(self._sizes)
        return {
            name: part.view(shape)
            for name, part, shape in zip(self._names, parts, self._shapes, strict=True)
        }

    def _fresh(self, seed: int) -> nn.Module:
        # On the CPU and under its global generator, which is put back: modules draw from it.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self._build().to(self._device, self._dtype)
