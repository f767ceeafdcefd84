"""Accuracy on a client's own validation rows, for the client where it is lowest."""

from typing import Any

from fedatlas.measurements._clients import OfClients, accuracies


class ValidationAccuracyWorst(OfClients):
    """The lowest of the clients' accuracies; of rows that no client has, their accuracy."""

    title = "accuracy on a client's validation samples, of the worst client"

    def measure(self, problem: Any, point: Any) -> float:
        return float(accuracies(problem, point, "validation").min())
