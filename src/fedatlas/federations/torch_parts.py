"""Parts that engines share which compute by torch: arrays, and networks with their samples."""

from typing import Any

import numpy as np
import torch

from fedatlas.architectures import checked_build
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.torch_device import DeviceSamples
from fedatlas.federations.shards import ClientSamples


class TorchArrays:
    """Engines whose arrays are tensors on their device."""

    _device: torch.device

    def array(self, values: np.ndarray) -> torch.Tensor:
        """The values on the device."""
        return torch.tensor(values, device=self._device)

    def numpy(self, array: torch.Tensor) -> np.ndarray:
        """The values as numpy; waits for the device."""
        values: np.ndarray = array.cpu().numpy()
        return values

    def repeated(self, array: torch.Tensor, times: int) -> torch.Tensor:
        """The array (…) repeated, (times, …), as a view."""
        return array.expand(times, *array.shape)


class NetworkOnDevice(TorchArrays):
    """A network with its training samples and, if there are any, its test samples."""

    def _load(
        self,
        data: ClientSamples,
        model: str,
        outputs: int,
        device: torch.device,
        dtype: torch.dtype,
        vectorised: bool | None,
        **options: Any,
    ) -> None:
        """Check and build the network, and move all samples to the device.

        vectorised: whether calls are for many clients; None lets device and sizes decide.
        options: see `checked_build`.
        """
        build = checked_build(model, tuple(data.metadata["shape"] or ()), outputs, **options)
        self._device, self._dtype = device, dtype
        self.network = BatchedNetwork(build, device, dtype, vectorised)
        self._train = DeviceSamples(data.samples, data.metadata, device, dtype)
        self._test: DeviceSamples | None = None
        if data.test is not None:
            self._test = DeviceSamples(data.test, data.metadata, device, dtype)

    def array(self, values: np.ndarray) -> torch.Tensor:
        """Numbers in the type of the models, except where they count."""
        tensor = super().array(values)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _outputs(
        self, point: torch.Tensor, samples: DeviceSamples, statistics: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The network's outputs (n, E) for all of the samples, at weights (d,)."""
        return self.network.outputs(point, samples.at, len(samples), statistics)
