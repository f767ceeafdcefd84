"""Linear models by batched torch operations, float64, on any device."""

import math

import torch
from scipy import sparse

from fedatlas.arithmetic import torch_device
from fedatlas.arithmetic.kernels.formulas import (
    torch_loss,
    torch_penalty,
    torch_penalty_gradient,
    torch_slope,
)
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.samples import Clipping
from fedatlas.arithmetic.torch_device import TorchArrays, available, in_blocks
from fedatlas.federations.horizontal.linear_problem import LinearProblem
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import LinearObjective


class TorchEngine(TorchArrays, LinearProblem):
    """The engine of other devices; its arrays are float64 tensors, its rows dense."""

    def __init__(self, data: ClientSamples, objective: LinearObjective, device: str) -> None:
        super().__init__(data, objective)
        dense = sparse.csr_array(data.samples.features).toarray()
        self._device = available(device)
        self._features = torch.as_tensor(dense, dtype=torch.float64, device=self._device)
        self._labels = self.array(data.samples.label)
        self._weights = self.array(self._row_weights)

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape or self.dimension, dtype=torch.float64, device=self._device)

    def client_gradients(self, x: torch.Tensor, batch: Minibatches) -> torch.Tensor:
        return self._gradients(x, batch, None)

    def clipped_gradients(
        self, x: torch.Tensor, batch: Minibatches, clipping: Clipping
    ) -> torch.Tensor:
        return self._gradients(x, batch, clipping)

    def _gradients(
        self, x: torch.Tensor, batch: Minibatches, clipping: Clipping | None
    ) -> torch.Tensor:
        rows, share = (self.array(part) for part in batch.padded())
        clients, samples = rows.shape
        points = x.expand(clients, self.dimension)

        def of_samples(clients: slice, samples: slice) -> tuple[torch.Tensor, torch.Tensor]:
            """Margins and the loss's gradients."""
            here = clients, samples
            features = self._features[rows[here]]  # (S, b, d)
            margins = torch.matmul(features, points[clients].unsqueeze(-1)).squeeze(-1)
            labels = self._labels[rows[here]]
            slopes = torch_slope(self.objective.loss, margins, labels)
            if clipping is not None:
                norms = slopes.abs() * torch.linalg.vector_norm(features, clipping.order, dim=-1)
                slopes = slopes * (clipping.bound / norms.clamp(min=clipping.bound))
            slopes = share[here] * slopes
            return margins, torch.matmul(slopes.unsqueeze(1), features).squeeze(1)

        most = max(1, torch_device.AT_ONCE // self.dimension)
        gradients = in_blocks(of_samples, clients, samples, most, together=True)[1]
        weight = self.objective.regularisation_weight
        return gradients + weight * torch_penalty_gradient(self.objective.regulariser, points)

    def _client_losses(self, x: torch.Tensor, batch: Minibatches) -> torch.Tensor:
        means = []
        for start, size in zip(batch.starts, batch.sizes, strict=True):
            own = slice(start, start + size)
            margins = self._features[own] @ x
            losses = torch_loss(self.objective.loss, margins, self._labels[own])
            means.append(losses.sum() / max(size, 1))
        weight, kind = self.objective.regularisation_weight, self.objective.regulariser
        return torch.stack(means) + weight * torch_penalty(kind, x)

    def _measure_training(self, x: torch.Tensor) -> dict[str, float]:
        weight, kind = self.objective.regularisation_weight, self.objective.regulariser
        margins = self._features @ x
        loss = self._weights @ torch_loss(self.objective.loss, margins, self._labels)
        slopes = self._weights * torch_slope(self.objective.loss, margins, self._labels)
        gradient = slopes @ self._features + weight * torch_penalty_gradient(kind, x)
        correct = (margins > 0) == (self._labels > 0)
        return {
            "objective": float(loss + weight * torch_penalty(kind, x)),
            "gradient_norm": float(torch.linalg.vector_norm(gradient)),
            "train_accuracy": float(correct.double().mean()) if self.has_classes else math.nan,
        }
