"""The arithmetic behind AUC maximisation: images on a device, networks, scores, gradients."""

from functools import partial
from typing import Any

import numpy as np
import torch

from fedatlas.architectures import checked_build
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.classification import auroc
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.torch_device import DeviceSamples, Minibatch, available
from fedatlas.errors import FedatlasError
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.min_max.auc import (
    AucLoss,
    Auxiliary,
    accuracy,
    pairwise_squared_loss,
    positive_rate,
)
from fedatlas.federations.min_max.problem import MinMaxProblem, PrimalDual
from fedatlas.federations.torch_arrays import TorchArrays
from fedatlas.schema.objectives import AucObjective

#: Of a pass back over all rows: some 100 MB of the activations of the networks here.
_ROWS = 2_000


class AucEngine(TorchArrays, MinMaxProblem):
    """Scores and gradients of all workers' minibatches at once."""

    def __init__(
        self,
        data: ClientSamples,
        objective: AucObjective,
        device: str,
        dtype: torch.dtype = torch.float32,
        vectorised: bool | None = None,
        rounds: int = 0,
    ) -> None:
        """Move all samples to the device; FedatlasError if there is nothing to rank.

        rounds: how many there will be, of all seeds.
        """
        super().__init__(data, rounds)
        self._device, self._dtype = available(device), dtype
        self._sigmoid, self._stationarity = objective.scores == "sigmoid", objective.stationarity
        shape = tuple(data.metadata["shape"] or ())
        build = checked_build(objective.model, shape, 1)
        self.network = BatchedNetwork(build, self._device, dtype, vectorised)
        _check_test_rows(data)
        self._loss = AucLoss(positive_rate(data))
        self._train = DeviceSamples(data.samples, data.metadata, self._device, dtype)
        self._positive = self._train.label > 0
        self._test = None
        if data.test is not None:
            self._test = DeviceSamples(data.test, data.metadata, self._device, dtype)
        self._row_weights = self.array(data.row_weights).to(dtype)
        self._last_inputs: tuple[Minibatches, Any] | None = None

    def start(self, seed: int) -> PrimalDual:
        """The network as it is initialised under a seed, a = b = 0, w = 0."""
        m = self.network.initial(seed)
        return PrimalDual(torch.cat([m, m.new_zeros(2)]), m.new_zeros(1))

    def _gradients(self, theta: torch.Tensor, w: torch.Tensor, batch: Minibatches) -> PrimalDual:
        theta, w = self._per_worker(theta), self._per_worker(w)
        inputs, positive, share = self._inputs(batch)
        at = Auxiliary(theta[:, -2:-1], theta[:, -1:], w)
        pullback = partial(self._pulled_back, positive, share, at)
        outputs, of_network = self.network.gradients(theta[:, :-2], inputs, pullback)
        others = self._loss.auxiliary_gradient(self._scores(outputs), positive, share, at)
        return PrimalDual(torch.cat([of_network, others.a, others.b], dim=1), others.w)

    def class_means(
        self, theta: torch.Tensor, batch: Minibatches
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch.require_one_step("problem.class_means")
        rows, share = (self.array(part) for part in batch.padded())
        positive, drawn = self._positive[rows], share > 0
        # Worker by worker: all local samples at once may be most of the memory.
        h = torch.stack(
            [
                self._scores(self._outputs(own, of_worker))
                for own, of_worker in zip(self._per_worker(theta), rows, strict=True)
            ]
        )
        below, above = (
            (h * members).sum(-1, keepdim=True) / members.sum(-1, keepdim=True)
            for members in (drawn & ~positive, drawn & positive)
        )
        return below, above

    def measure(self, point: PrimalDual) -> dict[str, float]:
        at = Auxiliary(point.theta[-2:-1], point.theta[-1:], point.w)
        outputs, positive = self._all_outputs(point.theta, self._train), self._positive
        h = self._scores(outputs)
        weights = self._row_weights.double()
        best = self._loss.best_dual(h.double(), positive, weights)
        measured = {
            "objective": float(pairwise_squared_loss(h.double(), positive)),
            "min_max_objective": float(self._row_weights @ self._loss.value(h, positive, at)),
            "dual_variable": float(point.w),
            "dual_optimum": float(best),
            "dual_distance": abs(float(point.w) - float(best)),
            **self._qualities("train", outputs, positive, at),
        }
        if self._stationarity:
            gradient = self.primal_gradient(point.theta, best.to(self._dtype))
            measured["primal_gradient_norm"] = float(gradient.norm())
        if self._test is not None:
            outputs = self._all_outputs(point.theta, self._test)
            measured |= self._qualities("test", outputs, self._test.label > 0, at)
        return measured

    def primal_gradient(self, theta: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """∇_θ F(θ, w), (d,) float64, over all training rows, not counted; at w*(θ) it is ∇Φ(θ)."""
        at = Auxiliary(theta[-2:-1], theta[-1:], w)
        total = torch.zeros(len(theta), dtype=torch.float64, device=self._device)
        for first in range(0, len(self._train), _ROWS):
            of_rows = slice(first, first + _ROWS)
            positive, share = self._positive[of_rows], self._row_weights[of_rows]
            pullback = partial(self._pulled_back, positive[None], share[None], at)
            inputs = self._train.at(of_rows)[None]
            outputs, of_network = self.network.gradients(theta[None, :-2], inputs, pullback)
            others = self._loss.auxiliary_gradient(self._scores(outputs[0]), positive, share, at)
            total += torch.cat([of_network[0], others.a, others.b])
        return total

    def _pulled_back(
        self,
        positive: torch.Tensor,
        share: torch.Tensor,
        at: Auxiliary,
        outputs: torch.Tensor,
        workers: slice,
        samples: slice,
    ) -> torch.Tensor:
        """∂/∂outputs (S, b, 1) of Σ share · f, for a part of workers and samples.

        positive, share: (N, b), of all. at: the variables of each worker, (N, 1), or of all, (1,).
        """
        h, here = self._scores(outputs), (workers, samples)
        part = Auxiliary(*(of[workers] if of.ndim > 1 else of for of in at))
        slopes = share[here] * self._loss.score_slopes(h, positive[here], part)
        if self._sigmoid:
            slopes = slopes * h * (1 - h)
        return slopes.unsqueeze(-1)

    def _outputs(self, theta: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """The network's outputs (n, 1) for these training rows (n,)."""
        return self.network.outputs(theta[:-2], lambda part: self._train.at(rows[part]), len(rows))

    def _all_outputs(self, theta: torch.Tensor, samples: DeviceSamples) -> torch.Tensor:
        return self.network.outputs(theta[:-2], samples.at, len(samples))

    def _qualities(
        self, rows: str, outputs: torch.Tensor, positive: torch.Tensor, at: Auxiliary
    ) -> dict[str, float]:
        """rows: "train" or "test", as measurements are named; outputs: (n, 1)."""
        return {
            # By outputs, which rank as scores do: a sigmoid near 1 would make ties.
            f"{rows}_auroc": auroc(outputs.squeeze(-1), positive),
            f"{rows}_accuracy": accuracy(self._scores(outputs), positive, at),
        }

    def _scores(self, outputs: torch.Tensor) -> torch.Tensor:
        """(…, n, 1) → (…, n)."""
        return torch.sigmoid(outputs.squeeze(-1)) if self._sigmoid else outputs.squeeze(-1)

    def _per_worker(self, array: torch.Tensor) -> torch.Tensor:
        return array.expand(len(self.workers), array.shape[-1])

    def _inputs(self, batch: Minibatches) -> tuple[Minibatch, torch.Tensor, torch.Tensor]:
        """Images (N, b, *shape), whether they are positive and their shares, (N, b).

        Those of the last minibatch are kept: some methods ask for it at two points.
        """
        if self._last_inputs is None or self._last_inputs[0] is not batch:
            rows, share = (self.array(part) for part in batch.padded())
            images = Minibatch(self._train, rows)
            self._last_inputs = batch, (images, self._positive[rows], share.to(self._dtype))
        inputs: tuple[Minibatch, torch.Tensor, torch.Tensor] = self._last_inputs[1]
        return inputs


def _check_test_rows(data: ClientSamples) -> None:
    if data.test is not None and len(np.unique(data.test.label)) < 2:
        raise FedatlasError(
            f"the test samples of data set '{data.metadata['dataset']}' are all of one class: the "
            "area under their ROC curve is not defined"
        )
