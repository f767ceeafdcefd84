"""Accuracy on each client's own validation rows, of the client that a model serves worst."""

from typing import Any

from fedatlas.measurements._clients import OfClients, accuracies


class ValidationAccuracyWorst(OfClients):
    """The lowest of the clients' accuracies; of rows that no client has, their accuracy."""

    title = "accuracy on a client's validation samples, of the worst client"

    def measure(self, problem: Any, point: Any) -> float:
        return float(accuracies(problem, point, "validation").min())
