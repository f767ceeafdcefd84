"""Losses of a network's outputs: slopes, values, qualities of what is predicted.

Losses of `fedatlas.objectives` come in their place: loss(outputs, targets) of outputs (n, k) and
places among the classes, or of outputs (n,) beside numbers or ±1, gives each sample's own, (n,).

Of classes: one output z is the logit of label +1, with the loss log(1 + exp(−y z)); the loss of k
outputs is minus the logarithm of the softmax at the label's class. Of numbers y: (z − y)².
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.extensions import relative_path
from fedatlas.objectives import OwnLoss, own_losses, own_module
from fedatlas.schema.objectives import TOP, ClassificationObjective, PredictionObjective
from fedatlas.schema.partitions import MOST_CLASSES


class NetworkLoss(ABC):
    """The loss of outputs (…, k) for targets (…), sample by sample.

    outputs: k, of the network.
    """

    outputs: int

    @abstractmethod
    def targets(self, labels: torch.Tensor) -> torch.Tensor:
        """Labels (n,) float64 as losses take them."""

    @abstractmethod
    def slopes(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Gradient of each sample's own loss with respect to its outputs, (…, k)."""

    @abstractmethod
    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Each sample's loss, (n,)."""

    def right(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Whether each sample's class is predicted, (n,) bool; False where there are no classes."""
        return torch.zeros(len(outputs), dtype=torch.bool)

    @abstractmethod
    def qualities(
        self, rows: str, outputs: torch.Tensor, targets: torch.Tensor
    ) -> dict[str, float]:
        """How good predictions are; rows: "train" or "test", as measurements are named."""


class SquaredError(NetworkLoss):
    """(z − y)² of one output z beside a number y; targets are labels."""

    outputs = 1

    def targets(self, labels: torch.Tensor) -> torch.Tensor:
        return labels

    def slopes(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * (outputs - targets.unsqueeze(-1).to(outputs.dtype))

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs.squeeze(-1) - targets.to(outputs.dtype)).square()

    def qualities(
        self, rows: str, outputs: torch.Tensor, targets: torch.Tensor
    ) -> dict[str, float]:
        """The root of the mean over samples, whoever holds them."""
        squares = (outputs.squeeze(-1) - targets.to(outputs.dtype)).square()
        return {f"{rows}_rmse": float(squares.double().mean().sqrt())}


class Classification(NetworkLoss):
    """Cross-entropy of outputs (…, k) against targets (…), places among the k classes."""

    def __init__(self, classes: np.ndarray, device: torch.device) -> None:
        """classes: (k,) labels, ascending."""
        self._classes = torch.tensor(classes, device=device)
        self.outputs = len(classes)

    def targets(self, labels: torch.Tensor) -> torch.Tensor:
        """Places (n,) int64 of labels (n,) float64."""
        return torch.searchsorted(self._classes, labels)

    def slopes(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        softmax = torch.softmax(outputs, dim=-1)
        return softmax.scatter_add_(-1, targets.unsqueeze(-1), -torch.ones_like(softmax[..., :1]))

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs, targets, reduction="none")

    def predictions(self, outputs: torch.Tensor) -> torch.Tensor:
        """The target that outputs predict, (n,)."""
        return outputs.argmax(-1)

    def right(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.predictions(outputs) == targets

    def accuracy(self, outputs: torch.Tensor, targets: torch.Tensor) -> float:
        """The share of samples that are predicted right."""
        return float(self.right(outputs, targets).double().mean())

    def qualities(
        self, rows: str, outputs: torch.Tensor, targets: torch.Tensor
    ) -> dict[str, float]:
        """Accuracy, and what else suits the number of classes."""
        found = {f"{rows}_accuracy": self.accuracy(outputs, targets)}
        if self.outputs > TOP:
            best = outputs.topk(TOP, dim=-1).indices
            among = (best == targets.unsqueeze(-1)).any(-1)
            found[f"{rows}_top5_accuracy"] = float(among.double().mean())
        return found


class _Binary(Classification):
    """Cross-entropy of one output against labels ±1; targets are 0 and 1."""

    def __init__(self) -> None:
        self.outputs = 1

    def targets(self, labels: torch.Tensor) -> torch.Tensor:
        return (labels > 0).long()

    def slopes(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(outputs) - targets.unsqueeze(-1).to(outputs.dtype)

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(
            outputs.squeeze(-1), targets.to(outputs.dtype), reduction="none"
        )

    def predictions(self, outputs: torch.Tensor) -> torch.Tensor:
        return (outputs.squeeze(-1) > 0).long()

    def qualities(
        self, rows: str, outputs: torch.Tensor, targets: torch.Tensor
    ) -> dict[str, float]:
        predicted = self.predictions(outputs)
        # F1 = 2 · hits / (positives + predicted ones), 0 where there are neither.
        both = int(targets.sum() + predicted.sum())
        f1 = 2 * int((targets * predicted).sum()) / both if both else 0.0
        found = {f"{rows}_accuracy": self.accuracy(outputs, targets), f"{rows}_f1": f1}
        if 0 < int(targets.sum()) < len(targets):  # of one class alone there is nothing to rank
            found[f"{rows}_auroc"] = auroc(outputs.squeeze(-1), targets)
        return found


class _Own(NetworkLoss):
    """A loss that users add, in place of that of its base; slopes are found by torch."""

    def __init__(self, own: OwnLoss, *arguments: Any) -> None:
        """FedatlasError if it is not a number for each sample, with a gradient."""
        super().__init__(*arguments)
        self._own = own
        self._function: Callable[..., torch.Tensor] = own_module(own.name).loss
        self._check()

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self._own.labels == "classes":
            return self._function(outputs, targets)
        wanted = targets.to(outputs.dtype)
        wanted = 2 * wanted - 1 if self._own.labels == "signs" else wanted
        return self._function(outputs.squeeze(-1), wanted)

    def slopes(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            flat = outputs.detach().reshape(-1, self.outputs).requires_grad_()
            losses = self.losses(flat, targets.reshape(-1))
            (found,) = torch.autograd.grad(losses.sum(), flat)
        return found.reshape(outputs.shape)

    def _check(self) -> None:
        """On made-up outputs, some of them alone."""
        random = torch.Generator().manual_seed(0)
        outputs = 3 * torch.randn(6, self.outputs, generator=random, dtype=torch.float64)
        targets = torch.arange(6) % (2 if self._own.labels == "signs" else self.outputs)
        where = f"{relative_path(self._own.file)}: loss(outputs, targets)"
        try:
            losses, slopes = self.losses(outputs, targets), self.slopes(outputs, targets)
            alone, own = (
                self.losses(outputs[:2], targets[:2]),
                self.slopes(outputs[:2], targets[:2]),
            )
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise FedatlasError(f"{where} fails: {type(error).__name__}: {error}") from error
        if losses.shape != (6,):
            raise FedatlasError(
                f"{where} has the shape {tuple(losses.shape)} for 6 samples, expected (6,): give "
                "each sample's own loss, not their mean"
            )
        if not (losses.isfinite().all() and slopes.isfinite().all()):
            raise FedatlasError(f"{where} or its gradient is not finite at outputs of a few units")
        if not (torch.allclose(losses[:2], alone) and torch.allclose(slopes[:2], own)):
            raise FedatlasError(f"{where}: a sample's loss depends on other samples")


class _OwnOfClasses(_Own, Classification):
    pass


class _OwnOfSigns(_Own, _Binary):
    pass


class _OwnOfNumbers(_Own, SquaredError):
    pass


def classification(
    objective: ClassificationObjective,
    dataset: str,
    train: Samples,
    test: Samples | None,
    device: torch.device,
) -> Classification:
    """The loss of the samples' classes; FedatlasError if labels do not suit it."""
    tested = [] if test is None else [test.label]
    classes = np.unique(np.concatenate([train.label, *tested]))
    where, own = f"objective '{objective.name}' needs", own_losses().get(objective.name)
    if objective.is_binary:
        if not np.isin(classes, (-1.0, 1.0)).all():
            raise FedatlasError(f"{where} labels ±1, but data set '{dataset}' has others")
        return _OwnOfSigns(own) if own else _Binary()
    if not 2 <= len(classes) <= MOST_CLASSES:
        raise FedatlasError(
            f"{where} 2 to {MOST_CLASSES} classes, but data set '{dataset}' has {len(classes)} "
            "distinct labels"
        )
    return _OwnOfClasses(own, classes, device) if own else Classification(classes, device)


def network_loss(
    objective: PredictionObjective,
    dataset: str,
    train: Samples,
    test: Samples | None,
    device: torch.device,
) -> NetworkLoss:
    """The objective's loss; FedatlasError if labels do not suit it."""
    if isinstance(objective, ClassificationObjective):
        return classification(objective, dataset, train, test, device)
    own = own_losses().get(objective.name)
    return _OwnOfNumbers(own) if own else SquaredError()


def auroc(scores: torch.Tensor, positive: torch.Tensor) -> float:
    """The area under the ROC curve, ties counting half; NaN if a score is not finite.

    scores, positive: (n,), with both classes among them.
    """
    values = scores.double().cpu().numpy()
    if not np.isfinite(values).all():
        return float("nan")
    # A library's own would load for a second in every job.
    is_positive = positive.cpu().numpy().astype(bool)
    above, negatives = values[is_positive], np.sort(values[~is_positive])
    below = np.searchsorted(negatives, above, "left").sum()
    not_above = np.searchsorted(negatives, above, "right").sum()
    return float((below + not_above) / (2 * len(above) * len(negatives)))
