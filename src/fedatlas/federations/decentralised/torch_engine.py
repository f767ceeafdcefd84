"""Agents that train a network by cross-entropy: images on a device, gradients, accuracies."""

import numpy as np
import torch

from fedatlas.arithmetic.classification import classification
from fedatlas.arithmetic.minibatches import Minibatches, loop_for
from fedatlas.arithmetic.samples import Clipping
from fedatlas.arithmetic.torch_device import Minibatch, TorchDraws, available
from fedatlas.federations.decentralised.graph import GraphProblem
from fedatlas.federations.shards import ClientSamples
from fedatlas.federations.torch_networks import NetworkOnDevice
from fedatlas.schema.objectives import ClassificationObjective


class ClassifyingAgents(NetworkOnDevice, GraphProblem):
    """The engine of networks; its arrays are torch's, float32 unless told otherwise."""

    def __init__(
        self,
        data: ClientSamples,
        objective: ClassificationObjective,
        device: str,
        dtype: torch.dtype = torch.float32,
        vectorised: bool | None = None,
        rounds: int = 0,
    ) -> None:
        """Move all samples to the device; FedatlasError if labels are no classes.

        rounds: how many there will be, of all seeds.
        """
        super().__init__(data, loop_for(rounds * data.clients))
        self.draws, place = TorchDraws(), available(device)
        self._loss = classification(
            objective, data.metadata["dataset"], data.samples, data.test, place
        )
        self._load(
            data, objective.model, self._loss.outputs, place, dtype, vectorised,
            hidden=objective.hidden,
        )  # fmt: skip
        self.dimension = self.network.dimension
        self._train_class = self._loss.targets(self._train.label)
        self._row_weights = self.array(data.row_weights)

    def start(self, seed: int) -> torch.Tensor:
        """The network as it is initialised under a seed."""
        return self.network.initial(seed).repeat(self.agents, 1)

    def _gradients(
        self, points: torch.Tensor, batch: Minibatches, clipping: Clipping | None
    ) -> torch.Tensor:
        rows, shares = batch.padded()
        taken, share = torch.tensor(rows, device=self._device), self.array(shares)
        inputs, wanted = Minibatch(self._train, taken), self._train_class[taken]

        def slopes(outputs: torch.Tensor, agents: slice, samples: slice) -> torch.Tensor:
            """Of every sample's own loss."""
            return self._loss.slopes(outputs, wanted[agents, samples])

        def shared(outputs: torch.Tensor, agents: slice, samples: slice) -> torch.Tensor:
            """Of the mean loss."""
            return share[agents, samples].unsqueeze(-1) * slopes(outputs, agents, samples)

        if clipping is not None:
            _, gradients = self.network.clipped_gradients(points, inputs, slopes, clipping, share)
            return gradients
        _, gradients = self.network.gradients(points, inputs, shared)
        return gradients

    def measure(self, points: torch.Tensor) -> dict[str, float]:
        mean = points.mean(0)
        outputs = self._outputs(mean, self._train)
        losses = self._loss.losses(outputs, self._train_class)
        apart = torch.linalg.vector_norm(points - mean, dim=1)
        measured = {
            "objective": float(self._row_weights @ losses),
            "disagreement": float(apart.square().mean().sqrt()),
        }
        measured |= self._loss.qualities("train", outputs, self._train_class)
        if self._test is not None:
            classes = self._loss.targets(self._test.label)
            measured |= self._loss.qualities("test", self._outputs(mean, self._test), classes)
            own = [
                self._loss.accuracy(self._outputs(point, self._test), classes) for point in points
            ]
            measured["test_accuracy_of_agents"] = float(np.mean(own))
            measured["test_accuracy_of_worst_agent"] = min(own)
        return measured
