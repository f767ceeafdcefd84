"""How well scores rank positives above negatives."""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score


def auroc(scores: torch.Tensor, positive: torch.Tensor) -> float:
    """The area under the ROC curve, ties counting half; NaN if a score is not finite.

    scores, positive: (n,), with both classes among them.
    """
    values = scores.double().cpu().numpy()
    if not np.isfinite(values).all():
        return float("nan")
    return float(roc_auc_score(positive.cpu().numpy(), values))
