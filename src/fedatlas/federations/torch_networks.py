"""Networks with their samples on a device, which engines share."""

from typing import Any

import numpy as np
import torch

from fedatlas.architectures import checked_build
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.torch_device import DeviceSamples, TorchArrays
from fedatlas.federations.shards import ClientSamples


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
