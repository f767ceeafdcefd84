"""Agents that train a network by cross-entropy: images on a device, gradients, accuracies."""

import numpy as np
import torch

from fedatlas.arithmetic.minibatches import Minibatches, loop_for
from fedatlas.arithmetic.samples import Clipping
from fedatlas.arithmetic.torch_device import TorchDraws
from fedatlas.federations.decentralised.graph import GraphProblem
from fedatlas.federations.shards import ClientSamples
from fedatlas.federations.torch_networks import PredictingNetwork
from fedatlas.schema.objectives import ClassificationObjective


class ClassifyingAgents(PredictingNetwork, GraphProblem):
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
        self.draws = TorchDraws()
        self._load_with_loss(data, objective, device, dtype, vectorised)

    def start(self, seed: int) -> torch.Tensor:
        """The network as it is initialised under a seed."""
        return self.network.initial(seed).repeat(self.agents, 1)

    def _gradients(
        self, points: torch.Tensor, batch: Minibatches, clipping: Clipping | None
    ) -> torch.Tensor:
        return self._minibatch_gradients(points, batch, clipping)

    def measure(self, points: torch.Tensor) -> dict[str, float]:
        mean = points.mean(0)
        apart = torch.linalg.vector_norm(points - mean, dim=1)
        measured = self._measure_outputs(self._outputs(mean, self._train))
        measured["disagreement"] = float(apart.square().mean().sqrt())
        measured |= self._measure_test(mean)
        if self._test is not None:
            own = [self._measure_test(point)["test_accuracy"] for point in points]
            measured["test_accuracy_of_agents"] = float(np.mean(own))
            measured["test_accuracy_of_worst_agent"] = min(own)
        return measured
