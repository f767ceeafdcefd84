"""Constants of agents on two graphs, as theorems need them."""

from dataclasses import dataclass

import numpy as np

from fedatlas.arithmetic import objectives
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import ClientSamples
from fedatlas.privacy.conditions import Curvature
from fedatlas.schema.objectives import PolyakObjective


@dataclass(frozen=True)
class AgentConstants:
    """Constants of F = 1/n Σ_i f_i over agents on two graphs, all of whom start at x_0.

    states, trackers: R and C, (n, n). curvature: L of every f_i (Assumption 2 (i)) and μ of F
    (Assumption 3). variance: σ_g² (Assumption 2 (ii)), of the agent that has most.
    start_gradients: (n, d) ∇f_i(x_0). gap: F(x_0) − F*. optimum: F*.
    """

    states: np.ndarray
    trackers: np.ndarray
    curvature: Curvature
    variance: float
    start_gradients: np.ndarray
    gap: float
    optimum: float = 0.0

    @property
    def agents(self) -> int:
        """n."""
        return len(self.states)

    @property
    def dimension(self) -> int:
        """d."""
        return int(self.start_gradients.shape[1])


def constants_of_agents(
    data: ClientSamples,
    objective: PolyakObjective,
    states: np.ndarray,
    trackers: np.ndarray,
) -> AgentConstants:
    """Computed from agents' noise; FedatlasError where an f_i is not smooth."""
    noise = np.asarray(data.samples.features, dtype=np.float64).ravel()
    own = [noise[a:b] for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
    means = np.array([each.mean() for each in own])
    smoothness = max(objectives.polyak_smoothness(objective, mean) for mean in means)
    if not np.isfinite(smoothness):
        raise FedatlasError(
            f"{objective.name}: an agent's noise does not have the mean 0, so that its function "
            "has a kink; state means of 0 in the catalogue"
        )
    start = np.full((len(own), objective.dimension), objective.start)
    value = objectives.polyak_values(objective, start[:1], np.zeros(1))
    return AgentConstants(
        states=states,
        trackers=trackers,
        curvature=Curvature(smoothness, objectives.polyak_constant(objective)),
        variance=max(float(each.var()) for each in own)
        * objectives.largest_polyak_deviation(objective) ** 2,
        start_gradients=objectives.polyak_gradients(objective, start, means),
        gap=float(value[0]),
    )
