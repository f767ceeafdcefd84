"""Networks with their samples on a device, which engines share."""

from typing import Any

import numpy as np
import torch

from fedatlas.architectures import checked_build
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.network_losses import network_loss
from fedatlas.arithmetic.samples import Clipping
from fedatlas.arithmetic.torch_device import (
    DeviceSamples,
    Minibatch,
    TorchArrays,
    available,
    shape_of,
)
from fedatlas.federations.shards import ClientSamples, row_weights
from fedatlas.schema.objectives import PredictionObjective

# Where a network takes many clients in one call, those of about equal minibatches share one, padded
# to the largest of theirs: of 50 clients with some 40 samples each, three calls instead of one cost
# two thirds of the time, and more calls save nothing (benchmarks/tiers.py).
_CALLS = 3


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
        build = checked_build(model, shape_of(data.metadata), outputs, **options)
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

    def _together(self, sizes: np.ndarray) -> list[np.ndarray]:
        """Clients whose gradients are taken together, all that have samples; sizes: (S,)."""
        present = np.flatnonzero(sizes)
        if not self.network.is_vectorised(sizes[present].mean(), self._train.shape):
            return np.split(present, len(present))
        by_size = present[np.argsort(-sizes[present], kind="stable")]
        return np.array_split(by_size, min(_CALLS, len(by_size)))

    def _outputs(
        self, point: torch.Tensor, samples: DeviceSamples, statistics: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The network's outputs (n, E) for all of the samples, at weights (d,)."""
        return self.network.outputs(point, samples.at, len(samples), statistics)


class PredictingNetwork(NetworkOnDevice):
    """A network of clients that hold whole samples, and the loss of what it predicts."""

    def _load_with_loss(
        self,
        data: ClientSamples,
        objective: PredictionObjective,
        device: str,
        dtype: torch.dtype,
        vectorised: bool | None,
    ) -> None:
        """As `_load`; FedatlasError also if labels do not suit the loss."""
        place = available(device)
        self._loss = network_loss(
            objective, data.metadata["dataset"], data.samples, data.test, place
        )
        self._load(
            data, objective.model, self._loss.outputs, place, dtype, vectorised,
            hidden=objective.hidden,
        )  # fmt: skip
        self.dimension = self.network.dimension
        self._targets = self._loss.targets(self._train.label)
        if self._test is not None:
            self._test_targets = self._loss.targets(self._test.label)
        sizes = np.diff(data.offsets)
        self._row_weights = self.array(row_weights(sizes, objective.client_weights))

    def _minibatch_gradients(
        self, points: torch.Tensor, batch: Minibatches, clipping: Clipping | None = None
    ) -> torch.Tensor:
        """Of the mean loss of each client's minibatch of one step, at its point, (S, d).

        clipping: of every sample's gradient, before the mean is taken.
        """
        rows, shares = batch.padded()
        taken, share = torch.tensor(rows, device=self._device), self.array(shares)
        inputs, wanted = Minibatch(self._train, taken), self._targets[taken]

        def slopes(outputs: torch.Tensor, clients: slice, samples: slice) -> torch.Tensor:
            """Of every sample's own loss."""
            return self._loss.slopes(outputs, wanted[clients, samples])

        def shared(outputs: torch.Tensor, clients: slice, samples: slice) -> torch.Tensor:
            """Of the mean loss."""
            return share[clients, samples].unsqueeze(-1) * slopes(outputs, clients, samples)

        if clipping is not None:
            _, gradients = self.network.clipped_gradients(points, inputs, slopes, clipping, share)
            return gradients
        _, gradients = self.network.gradients(points, inputs, shared)
        return gradients

    def _measure_outputs(self, outputs: torch.Tensor) -> dict[str, float]:
        """Objective and qualities, from outputs (n, k) of all training samples."""
        losses = self._loss.losses(outputs, self._targets)
        measured = {"objective": float(self._row_weights @ losses)}
        return measured | self._loss.qualities("train", outputs, self._targets)

    def _measure_test(self, point: torch.Tensor) -> dict[str, float]:
        """Qualities on the test samples at weights (d,), if there are any."""
        if self._test is None:
            return {}
        outputs = self._outputs(point, self._test)
        return self._loss.qualities("test", outputs, self._test_targets)
