"""The images of a job with networks as fedatlas holds them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.horizontal.network_engine import NetworkEngine
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import ClassificationObjective


def engine_of(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> NetworkEngine:
    """The engine of experiments, on the CPU."""
    metadata = {
        "dataset": "fashion-mnist",
        "shape": (1, 28, 28),
        "normalisation": {"mean": [values["mean"]], "deviation": [values["deviation"]]},
    }
    samples, test = (
        Samples(np.arange(len(arrays[f"{of}label"])), arrays[f"{of}label"], arrays[f"{of}pixels"])
        for of in ("", "test_")
    )
    data = ClientSamples(samples, arrays["offsets"], metadata, test)
    return NetworkEngine(
        data, ClassificationObjective(name="cross_entropy", model="cnn_28x28"), "cpu"
    )
