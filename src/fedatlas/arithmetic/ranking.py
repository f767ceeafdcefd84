"""How well scores rank positives above negatives."""

import numpy as np
import torch


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
