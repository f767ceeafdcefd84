"""Agents that train a network by cross-entropy: images on a device, gradients, accuracies."""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from fedatlas.architectures import checked_build
from fedatlas.errors import FedatlasError
from fedatlas.objectives import ClassificationObjective
from fedatlas.partition import MOST_CLASSES
from fedatlas.problems.agents import AgentEngine
from fedatlas.problems.batched_network import BatchedNetwork
from fedatlas.problems.clipping import Clipping
from fedatlas.problems.device_samples import DeviceSamples
from fedatlas.problems.minibatches import Minibatches
from fedatlas.problems.torch_device import available
from fedatlas.shards import ClientSamples
from fedatlas.simulation.torch_draws import TorchDraws


class ClassifyingAgents(AgentEngine):
    """The engine of networks; its arrays are torch's, float32 unless told otherwise."""

    def __init__(
        self,
        data: ClientSamples,
        objective: ClassificationObjective,
        device: str,
        dtype: torch.dtype = torch.float32,
        vectorised: bool | None = None,
    ) -> None:
        """Move all samples to the device; FedatlasError if labels are no classes."""
        super().__init__(data)
        self._device, self._dtype = available(device), dtype
        self.draws = TorchDraws()
        tested = [] if data.test is None else [data.test.label]
        classes = np.unique(np.concatenate([data.samples.label, *tested]))
        if not 2 <= len(classes) <= MOST_CLASSES:
            raise FedatlasError(
                f"objective '{objective.name}' needs 2 to {MOST_CLASSES} classes, but data set "
                f"'{data.metadata['dataset']}' has {len(classes)} distinct labels"
            )
        shape = tuple(data.metadata["shape"] or ())
        build = checked_build(objective.model, shape, len(classes))
        self.network = BatchedNetwork(build, self._device, dtype, vectorised)
        self.dimension = self.network.dimension
        self._classes = self.array(classes)
        self._train = DeviceSamples(data.samples, data.metadata, self._device, dtype)
        self._train_class = self._class_of(self._train)
        self._row_weights = self.array(data.row_weights)
        self._test = None
        if data.test is not None:
            self._test = DeviceSamples(data.test, data.metadata, self._device, dtype)
            self._test_class = self._class_of(self._test)

    def start(self, seed: int) -> torch.Tensor:
        """See AgentEngine: the network as it is initialised under a seed."""
        return self.network.initial(seed).repeat(self.agents, 1)

    def array(self, values: np.ndarray) -> torch.Tensor:
        """See AgentEngine; numbers in the type of the models, except where they count."""
        tensor = torch.tensor(values, device=self._device)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def numpy(self, array: torch.Tensor) -> np.ndarray:
        """See AgentEngine."""
        values: np.ndarray = array.cpu().numpy()
        return values

    def gradients(
        self, points: torch.Tensor, batch: Minibatches, clipping: Clipping | None
    ) -> torch.Tensor:
        """See DecentralisedProblem."""
        rows, shares = batch.padded()
        taken, share = torch.tensor(rows, device=self._device), self.array(shares)
        inputs, wanted = self._train.at(taken), self._train_class[taken]

        def slopes(outputs: torch.Tensor, agents: slice) -> torch.Tensor:
            """Of every sample's own loss."""
            softmax = torch.softmax(outputs, dim=-1)
            return softmax.scatter_add_(
                -1, wanted[agents].unsqueeze(-1), -torch.ones_like(softmax[..., :1])
            )

        if clipping is not None:
            _, gradients = self.network.clipped_gradients(points, inputs, slopes, clipping, share)
            return gradients
        _, gradients = self.network.gradients(
            points,
            inputs,
            lambda outputs, agents: share[agents].unsqueeze(-1) * slopes(outputs, agents),
        )
        return gradients

    def measure(self, points: torch.Tensor) -> dict[str, float]:
        """See DecentralisedProblem."""
        mean = points.mean(0)
        outputs = self._outputs(mean, self._train)
        losses = cross_entropy(outputs, self._train_class, reduction="none")
        apart = torch.linalg.vector_norm(points - mean, dim=1)
        measured = {
            "objective": float(self._row_weights @ losses),
            "train_accuracy": _accuracy(outputs, self._train_class),
            "disagreement": float(apart.square().mean().sqrt()),
        }
        if self._test is not None:
            of_mean, *own = (
                _accuracy(self._outputs(point, self._test), self._test_class)
                for point in (mean, *points)
            )
            measured["test_accuracy"] = of_mean
            measured["test_accuracy_of_agents"] = float(np.mean(own))
            measured["test_accuracy_of_worst_agent"] = min(own)
        return measured

    def _outputs(self, point: torch.Tensor, samples: DeviceSamples) -> torch.Tensor:
        return self.network.outputs(point, samples.at, len(samples))

    def _class_of(self, samples: DeviceSamples) -> torch.Tensor:
        """Place of each label among the classes, (n,) int64."""
        return torch.searchsorted(self._classes, samples.label.to(self._dtype))


def _accuracy(outputs: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((outputs.argmax(-1) == wanted).double().mean())
