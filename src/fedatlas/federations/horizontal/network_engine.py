"""Clients around a server that train a network, float32, on any device."""

import numpy as np
import torch

from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.federations.horizontal.problem import HorizontalProblem, Rows
from fedatlas.federations.parts import Predicted
from fedatlas.federations.shards import ClientSamples
from fedatlas.federations.torch_networks import PredictingNetwork
from fedatlas.schema.objectives import PredictionObjective

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

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape or self.dimension, dtype=self._dtype, device=self._device)

    def start(self, seed: int) -> torch.Tensor:
        """The network as it is initialised under a seed."""
        return self.network.initial(seed)

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
        offsets, samples, targets = self._offsets, self._train, self._targets
        if rows == "test":
            samples, targets = self._kept(self._test), self._test_targets
            offsets = np.array([0, len(samples)])
        outputs = self._outputs(x, samples)
        right = self._loss.right(outputs, targets)
        return Predicted(
            *(self.numpy(outputs), self.numpy(samples.label), self.numpy(right)), offsets
        )

    def measure(self, x: torch.Tensor) -> dict[str, float]:
        def slopes(outputs: torch.Tensor, part: slice) -> torch.Tensor:
            of_samples = self._loss.slopes(outputs, self._targets[part])
            return self._row_weights[part].unsqueeze(-1) * of_samples

        outputs, gradient = self.network.gradient(x, self._train.at, len(self._train), slopes)
        measured = self._measure_outputs(outputs)
        measured["gradient_norm"] = float(torch.linalg.vector_norm(gradient.double()))
        return measured | self._measure_test(x)
