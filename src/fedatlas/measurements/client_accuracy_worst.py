"""The accuracy of the client for whom the model is worst."""

from typing import Any

from fedatlas.measurements._clients import OfClients, accuracies


class ClientAccuracyWorst(OfClients):
    """The lowest of the clients' accuracies, each on its own training samples."""

    title = "accuracy on a client's training samples, of the worst client"

    def measure(self, problem: Any, point: Any) -> float:
        return float(accuracies(problem, point).min())
