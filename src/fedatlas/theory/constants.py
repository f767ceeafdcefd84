"""The constants of a federated problem that theorems are stated in."""

from dataclasses import dataclass

import numpy as np

from fedatlas.arithmetic.linear import LinearModel
from fedatlas.arithmetic.smoothness import average_smoothness
from fedatlas.errors import FedatlasError
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective, Regulariser


@dataclass(frozen=True)
class Constants:
    """Of f = 1/N Σ_i f_i over clients that hold equally many samples, and the start x⁰ = 0.

    clients: N. samples: M of each client. smoothness: L of every f_ij (FedPAGE, Assumption 2.1).
    average_smoothness: an L of Assumption 2.2. gap: f(x⁰) − f*, or an upper bound of it: f* is 0 at
    least. distance: ‖x⁰ − x*‖ of a convex objective, None of others. optimum: f* of a convex one.
    """

    clients: int
    samples: int
    smoothness: float
    average_smoothness: float
    gap: float
    distance: float | None
    optimum: float | None

    @property
    def convex(self) -> bool:
        """Whether f is convex."""
        return self.distance is not None


def constants_of(data: ClientSamples, objective: LinearObjective) -> Constants:
    """Computed from the clients' samples; FedatlasError where clients hold unequally many."""
    sizes = np.unique(np.diff(data.offsets))
    if len(sizes) > 1:
        raise FedatlasError(
            f"clients hold {sizes[0]} to {sizes[-1]} samples: FedPAGE's theorems are about clients "
            "that hold equally many"
        )
    features = data.samples.features
    model = LinearModel(features, data.samples.label, objective)
    gap = model.value_and_gradient(np.zeros(model.dimension))[0]
    distance = optimum = None
    if objective.regulariser is Regulariser.L2:
        from fedatlas.training.solver import solve

        rows = PartyRows(features, data.samples.label, np.array([0, model.dimension]))
        best, found = solve(rows, objective)
        distance, optimum = float(np.linalg.norm(best)), found.objective
        gap -= optimum
    return Constants(
        clients=data.clients,
        samples=int(sizes[0]),
        smoothness=model.smoothness,
        average_smoothness=average_smoothness(features, data.offsets, objective),
        gap=gap,
        distance=distance,
        optimum=optimum,
    )
