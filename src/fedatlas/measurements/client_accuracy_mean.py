"""The mean accuracy over clients, with equal weights whatever their samples."""

from typing import Any

from fedatlas.measurements._clients import OfClients, accuracies


class ClientAccuracyMean(OfClients):
    """The mean over clients of the accuracy on each one's training samples."""

    title = "accuracy on a client's training samples, mean over clients"

    def measure(self, problem: Any, point: Any) -> float:
        return float(accuracies(problem, point).mean())
