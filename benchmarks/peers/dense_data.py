"""The rows of a FedAvg job as peers take them: dense, with a round's minibatches drawn before."""

import numpy as np
from measuring import Job


def dense_rows(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d) and labels (n,), float64."""
    arrays = job.arrays
    features = np.zeros((len(arrays["label"]), job.values["features"]))
    row = np.repeat(np.arange(len(features)), np.diff(arrays["indptr"]))
    features[row, arrays["indices"]] = arrays["non_zeros"]
    return features, arrays["label"]
