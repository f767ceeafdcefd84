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
from typing import NamedTuple

import torch

from fedatlas.errors import FedatlasError
from fedatlas.federations.client_shards import ClientSamples


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
