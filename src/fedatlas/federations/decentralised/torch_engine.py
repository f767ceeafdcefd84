"""Agents that train a network by cross-entropy: images on a device, gradients, accuracies."""

import numpy as np
import torch

from fedatlas.architectures import checked_build
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.classification import classification
from fedatlas.arithmetic.minibatches import Minibatches, loop_for
from fedatlas.arithmetic.samples import Clipping
from fedatlas.arithmetic.torch_device import DeviceSamples, Minibatch, TorchDraws, available
from fedatlas.federations.decentralised.graph import GraphProblem
from fedatlas.federations.parts import TorchArrays
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import ClassificationObjective


class ClassifyingAgents(TorchArrays, GraphProblem):
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
        self._device, self._dtype = available(device), dtype
        self.draws = TorchDraws()
        self._loss = classification(
            objective, data.metadata["dataset"], data.samples, data.test, self._device
        )
        shape = tuple(data.metadata["shape"] or ())
        build = checked_build(objective.model, shape, self._loss.outputs, hidden=objective.hidden)
        self.network = BatchedNetwork(build, self._device, dtype, vectorised)
        self.dimension = self.network.dimension
        self._train = DeviceSamples(data.samples, data.metadata, self._device, dtype)
        self._train_class = self._loss.targets(self._train.label)
        self._row_weights = self.array(data.row_weights)
        self._test = None
        if data.test is not None:
            self._test = DeviceSamples(data.test, data.metadata, self._device, dtype)
            self._test_class = self._loss.targets(self._test.label)

    def start(self, seed: int) -> torch.Tensor:
        """The network as it is initialised under a seed."""
        return self.network.initial(seed).repeat(self.agents, 1)

    def array(self, values: np.ndarray) -> torch.Tensor:
        """Numbers in the type of the models, except where they count."""
        tensor = super().array(values)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

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
        found = self._loss.qualities(outputs, self._train_class)
        measured |= {f"train_{name}": value for name, value in found.items()}
        if self._test is not None:
            found = self._loss.qualities(self._outputs(mean, self._test), self._test_class)
            measured |= {f"test_{name}": value for name, value in found.items()}
            own = [
                self._loss.accuracy(self._outputs(point, self._test), self._test_class)
                for point in points
            ]
            measured["test_accuracy_of_agents"] = float(np.mean(own))
            measured["test_accuracy_of_worst_agent"] = min(own)
        return measured

    def _outputs(self, point: torch.Tensor, samples: DeviceSamples) -> torch.Tensor:
        return self.network.outputs(point, samples.at, len(samples))
