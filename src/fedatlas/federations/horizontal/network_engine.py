"""Clients around a server that train a network, float32, on any device."""

import numpy as np
import torch

from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.samples import Clipping, Samples
from fedatlas.arithmetic.torch_device import DeviceSamples
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal.problem import HorizontalProblem, Rows, no_rows
from fedatlas.federations.parts import Predicted
from fedatlas.federations.shards import ClientSamples
from fedatlas.federations.torch_networks import PredictingNetwork
from fedatlas.schema.objectives import ClassificationObjective, PredictionObjective

# Minibatches are padded to the largest while that adds no more than a quarter.
_PADDED = 1.25


class NetworkEngine(PredictingNetwork, HorizontalProblem):
    """The engine of networks; its arrays are torch's, float32 unless told otherwise."""

    def __init__(
        self,
        data: ClientSamples,
        objective: PredictionObjective,
        device: str,
        dtype: torch.dtype = torch.float32,
        vectorised: bool | None = None,
    ) -> None:
        """Move all samples to the device; FedatlasError if labels do not suit the loss."""
        super().__init__(data, objective.client_weights)
        self._load_with_loss(data, objective, device, dtype, vectorised)
        self.itemsize = dtype.itemsize
        self._validation: tuple[DeviceSamples, np.ndarray] | None = None
        if data.validation is not None:
            if isinstance(objective, ClassificationObjective):
                _require_known_classes(data.validation, data.samples, data.test)
            kept = DeviceSamples(data.validation, data.metadata, self._device, dtype)
            self._validation = kept, data.validation_offsets

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape or self.dimension, dtype=self._dtype, device=self._device)

    def start(self, seed: int) -> torch.Tensor:
        """The network as it is initialised under a seed."""
        return self.network.initial(seed)

    def clipped_gradients(
        self, x: torch.Tensor, batch: Minibatches, clipping: Clipping
    ) -> torch.Tensor:
        points = x.expand(len(batch.starts), self.dimension)
        if not batch.samples:
            return torch.zeros_like(points, memory_format=torch.contiguous_format)
        return self._minibatch_gradients(points, batch, clipping)

    def _client_losses(self, x: torch.Tensor, batch: Minibatches) -> torch.Tensor:
        means = self.zeros(len(batch.starts))
        for client in np.flatnonzero(batch.sizes):
            start, size = int(batch.starts[client]), int(batch.sizes[client])

            def own(part: slice, start: int = start) -> torch.Tensor:
                return self._train.at(slice(start + part.start, start + part.stop))

            outputs = self.network.outputs(x, own, size)
            losses = self._loss.losses(outputs, self._targets[start : start + size])
            means[client] = losses.mean()
        return means

    def client_gradients(self, x: torch.Tensor, batch: Minibatches) -> torch.Tensor:
        points = x.expand(len(batch.starts), self.dimension)
        if batch.samples and batch.largest * len(batch.sizes) <= _PADDED * batch.samples:
            return self._minibatch_gradients(points, batch)
        gradients = torch.zeros_like(points, memory_format=torch.contiguous_format)
        for clients in self._together(batch.sizes) if batch.samples else ():
            own = batch.of_clients(clients)
            gradients[clients] = self._minibatch_gradients(points[clients], own)
        return gradients

    def predicted(self, x: torch.Tensor, rows: Rows = "train") -> Predicted:
        samples, targets, offsets = self._samples_of(rows)
        outputs = self._outputs(x, samples)
        right = self._loss.right(outputs, targets)
        return Predicted(
            *(self.numpy(outputs), self.numpy(samples.label), self.numpy(right)), offsets
        )

    def _samples_of(self, rows: Rows) -> tuple[DeviceSamples, torch.Tensor, np.ndarray]:
        """Samples of one kind with their targets and offsets; FedatlasError if there are none."""
        if rows == "train":
            return self._train, self._targets, self._offsets
        if rows == "test" and self._test is not None:
            return self._test, self._test_targets, np.array([0, len(self._test)])
        if rows == "test" or self._validation is None:
            raise FedatlasError(no_rows(rows))
        samples, offsets = self._validation
        return samples, self._loss.targets(samples.label), offsets

    def measure(self, x: torch.Tensor) -> dict[str, float]:
        def slopes(outputs: torch.Tensor, part: slice) -> torch.Tensor:
            of_samples = self._loss.slopes(outputs, self._targets[part])
            return self._row_weights[part].unsqueeze(-1) * of_samples

        outputs, gradient = self.network.gradient(x, self._train.at, len(self._train), slopes)
        measured = self._measure_outputs(outputs)
        measured["gradient_norm"] = float(torch.linalg.vector_norm(gradient.double()))
        return measured | self._measure_test(x)


def _require_known_classes(validation: Samples, train: Samples, test: Samples | None) -> None:
    """FedatlasError where validation rows have a class that no other row has."""
    known = [train.label, *([] if test is None else [test.label])]
    if new := sorted(set(validation.label.tolist()) - set(np.concatenate(known).tolist())):
        raise FedatlasError(
            f"partition: validation keeps all rows of the label {new[0]:g}: lower it, so that the "
            "network meets all classes in training"
        )
