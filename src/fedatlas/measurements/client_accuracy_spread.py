"""How unequally a model serves clients: Definition 1 of q-FFL (Li et al., ICLR 2020), its root."""

from typing import Any, ClassVar

from fedatlas.measurements._clients import OfClients, accuracies


class ClientAccuracySpread(OfClients):
    """The standard deviation over clients of the accuracy on each one's training samples."""

    title = "accuracy on a client's training samples, standard deviation over clients"
    best: ClassVar[int | None] = 0

    def measure(self, problem: Any, point: Any) -> float:
        return float(accuracies(problem, point).std())
