"""The images of an AUROC job as fedatlas holds them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.shards import ClientSamples


def client_images(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ClientSamples:
    """All workers' images, equally many consecutive ones each."""
    label = arrays["label"]
    metadata = {
        "dataset": "made-up images",
        "shape": (1, 28, 28),
        "positive_rate": values["positive_rate"],
        "normalisation": {"mean": [values["mean"]], "deviation": [values["deviation"]]},
    }
    offsets = np.linspace(0, len(label), values["workers"] + 1).astype(np.int64)
    samples = Samples(np.arange(len(label)), label, arrays["pixels"])
    return ClientSamples(samples, offsets, metadata)
