"""AUC maximisation with the squared surrogate, as a min–max problem (FMGDA eq. 2–4).

For a sample with score h, label y = ±1 and p = Pr(y = 1):

f = (1−p)(h−a)² 1[y=1] + p(h−b)² 1[y=−1] + 2(1+w)(p h 1[y=−1] − (1−p) h 1[y=1]) − p(1−p) w²,

minimised over the scorer, a and b, maximised over w. At the optimum a and b are the mean scores of
positives and negatives, and w = b − a, which of any θ is the best w*(θ) if a and b are read as
those means. The value is p(1−p)(P − 1), where P is the pairwise squared loss E[(1 − h₊ + h₋)²] of
eq. (2) that is to be minimised. That is so where p is the share of positives under the weights of
the mean; with workers of unequal sizes, which F weighs equally, it is near.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.network_losses import auroc
from fedatlas.arithmetic.torch_device import Minibatch, available
from fedatlas.errors import FedatlasError
from fedatlas.federations.min_max.problem import MinMaxProblem, PrimalDual
from fedatlas.federations.shards import ClientSamples
from fedatlas.federations.torch_networks import NetworkOnDevice
from fedatlas.schema.objectives import AucObjective


class Auxiliary(NamedTuple):
    """The variables beside the scorer's, one number each or one per client, (…, 1)."""

    a: torch.Tensor
    b: torch.Tensor
    w: torch.Tensor


@dataclass(frozen=True)
class AucLoss:
    """f and its derivatives; p: the share of positives among all clients' samples, in (0, 1)."""

    p: float

    def value(self, h: torch.Tensor, positive: torch.Tensor, at: Auxiliary) -> torch.Tensor:
        """f of each sample, shaped as h (…, n); positive: h's shape, truth values."""
        p = self.p
        linear = 2 * (1 + at.w) * h
        of_positive = (1 - p) * ((h - at.a) ** 2 - linear)
        of_negative = p * ((h - at.b) ** 2 + linear)
        return torch.where(positive, of_positive, of_negative) - p * (1 - p) * at.w**2

    def score_slopes(self, h: torch.Tensor, positive: torch.Tensor, at: Auxiliary) -> torch.Tensor:
        """∂f/∂h of each sample, shaped as h."""
        p = self.p
        of_positive = 2 * (1 - p) * (h - at.a - 1 - at.w)
        of_negative = 2 * p * (h - at.b + 1 + at.w)
        return torch.where(positive, of_positive, of_negative)

    def auxiliary_gradient(
        self, h: torch.Tensor, positive: torch.Tensor, share: torch.Tensor, at: Auxiliary
    ) -> Auxiliary:
        """∂/∂a, ∂/∂b, ∂/∂w of Σ share · f, (…, 1); share: each sample's weight, summing to 1."""
        p = self.p
        of_positive, of_negative = share * positive, share * ~positive
        a = -2 * (1 - p) * (of_positive * (h - at.a)).sum(-1, keepdim=True)
        b = -2 * p * (of_negative * (h - at.b)).sum(-1, keepdim=True)
        spread = ((p * of_negative - (1 - p) * of_positive) * h).sum(-1, keepdim=True)
        return Auxiliary(a, b, 2 * spread - 2 * p * (1 - p) * at.w)

    def best_dual(
        self, h: torch.Tensor, positive: torch.Tensor, share: torch.Tensor
    ) -> torch.Tensor:
        """w*, (…, 1), at which ∂/∂w of Σ share · f vanishes; the mean of f is concave in w."""
        at_zero = torch.zeros_like(h[..., :1])
        slope = self.auxiliary_gradient(h, positive, share, Auxiliary(at_zero, at_zero, at_zero)).w
        return slope / (2 * self.p * (1 - self.p))


def pairwise_squared_loss(h: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
    """P = mean over pairs of (1 − h₊ + h₋)² of scores (n,), from means and variances."""
    above, below = h[positive], h[~positive]
    gap = 1 - above.mean() + below.mean()
    return gap**2 + above.var(correction=0) + below.var(correction=0)


def accuracy(h: torch.Tensor, positive: torch.Tensor, at: Auxiliary) -> float:
    """The share of scores (n,) on their label's side of (a + b)/2; on it they count as negative.

    A scorer has no threshold, and this one is ours: the midpoint of the mean scores of positives
    and of negatives as the model itself carries them, so that no labels are looked at to find it.
    At the start a = b = 0.
    """
    return float(((h > (at.a + at.b) / 2) == positive).double().mean())


def positive_rate(data: ClientSamples) -> float:
    """p of all clients' samples; FedatlasError if there are not both positives and negatives."""
    rate = data.metadata["positive_rate"]
    if rate is None or not 0 < rate < 1:
        found = "labels that are not ±1" if rate is None else f"a share of positives of {rate:g}"
        raise FedatlasError(
            f"objective 'auc_min_max' ranks positives above negatives, but the training samples of "
            f"data set '{data.metadata['dataset']}' have {found}; the partition's 'binary' says "
            "which labels are positive"
        )
    return float(rate)


#: Of a pass back over all rows: some 100 MB of the activations of the networks here.
_ROWS = 2_000


class AucEngine(NetworkOnDevice, MinMaxProblem):
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
        self._sigmoid, self._stationarity = objective.scores == "sigmoid", objective.stationarity
        self._load(data, objective.model, 1, available(device), dtype, vectorised)
        _check_test_rows(data)
        self._loss = AucLoss(positive_rate(data))
        self._positive = self._train.label > 0
        self._row_weights = self.array(data.row_weights)
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
                self._scores(self._outputs_of(own, of_worker))
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
        outputs, positive = self._outputs(point.theta[:-2], self._train), self._positive
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
            outputs = self._outputs(point.theta[:-2], self._test)
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

    def _outputs_of(self, theta: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """The network's outputs (n, 1) for these training rows (n,)."""
        return self.network.outputs(theta[:-2], lambda part: self._train.at(rows[part]), len(rows))

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
        return array.expand(self.clients, array.shape[-1])

    def _inputs(self, batch: Minibatches) -> tuple[Minibatch, torch.Tensor, torch.Tensor]:
        """Images (N, b, *shape), whether they are positive and their shares, (N, b).

        Those of the last minibatch are kept: some methods ask for it at two points.
        """
        if self._last_inputs is None or self._last_inputs[0] is not batch:
            rows, share = (self.array(part) for part in batch.padded())
            images = Minibatch(self._train, rows)
            self._last_inputs = batch, (images, self._positive[rows], share)
        inputs: tuple[Minibatch, torch.Tensor, torch.Tensor] = self._last_inputs[1]
        return inputs


def _check_test_rows(data: ClientSamples) -> None:
    if data.test is not None and len(np.unique(data.test.label)) < 2:
        raise FedatlasError(
            f"the test samples of data set '{data.metadata['dataset']}' are all of one class: the "
            "area under their ROC curve is not defined"
        )
