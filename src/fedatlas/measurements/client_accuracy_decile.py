"""The accuracy that nine of ten clients reach or exceed."""

from typing import Any

import numpy as np

from fedatlas.measurements._clients import OfClients, accuracies


class ClientAccuracyDecile(OfClients):
    """The first decile of the clients' accuracies, interpolated, each on its training samples."""

    title = "accuracy on a client's training samples, first decile of clients"

    def measure(self, problem: Any, point: Any) -> float:
        return float(np.quantile(accuracies(problem, point), 0.1))
