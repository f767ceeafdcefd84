"""FedAsync: the server mixes in each model as it arrives, with less weight if it is older."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, NonNegativeFloat

from fedatlas.algorithms._staleness import ConstantStaleness, Staleness
from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal import AsynchronousAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.horizontal.timed_network import InFlight, TimedNetwork
from fedatlas.schema.runs import RunSpec


@dataclass(frozen=True)
class State:
    """The server's model x, (d,); who computes, and the model that each was sent, (P, d)."""

    x: Any
    flight: InFlight
    models: ClientRows


class FedAsync(AsynchronousAlgorithm):
    """FedAsync (Xie, Koyejo, Gupta 2019, arXiv:1903.03934, Algorithm 1); α = mixing.

    A round is one arrival: x ← (1 − α_t) x + α_t y, α_t = α s(τ), of a client that was sent the
    model τ rounds ago. Clients minimise f_i(y) + ρ/2 ‖y − x_τ‖² by K steps of SGD;
    ρ = proximal_weight.

    staleness: s, of kind constant, polynomial or hinge.
    """

    title: ClassVar[str] = "FedAsync"
    source: ClassVar[str] = (
        "Xie, Koyejo, Gupta 2019, Algorithm 1 with its three functions of staleness. Which client "
        "is sent a model next is uniform over those that do not compute, and staleness follows "
        "from the network that the run states: our choices; the paper draws it uniformly"
    )

    mixing: float = Field(gt=0, le=1)
    staleness: Staleness = ConstantStaleness()
    proximal_weight: NonNegativeFloat = 0.0

    @property
    def effective_step_size(self) -> float:
        """α K η_l."""
        return self.mixing * self.local_steps * self.local_step_size

    def start(self, problem: HorizontalProblem, network: TimedNetwork, x0: Any) -> State:
        """x = x⁰; nobody computes."""
        flight = network.in_flight(self.concurrency, 1)
        return State(x0, flight, ClientRows(problem.zeros(self.concurrency, problem.dimension)))

    def round(
        self, state: State, problem: HorizontalProblem, network: TimedNetwork, random: RoundRandom
    ) -> State:
        """Send x to those who are free, and mix in the next model that arrives."""
        load = self.local_load(problem)
        flight, started, arrived = network.next(state.flight, random, 1, load)
        (x,) = network.broadcast(state.x, to=started.clients)
        models = state.models.replace(started.places, problem.repeated(x, len(started.places)))
        batch = self.local_batches(problem, random, arrived.clients)
        (y,) = network.gather(
            problem.local_sgd(
                models[arrived.places],
                batch,
                self.local_step_at(random.round),
                proximal_weight=self.proximal_weight,
            )
        )
        alpha = self.mixing * float(self.staleness.factor(arrived.staleness)[0])
        return State((1 - alpha) * state.x + alpha * y.sum(0), flight, models)

    def check_run(self, spec: RunSpec) -> None:
        """Every answer counts as its age says."""
        super().check_run(spec)
        if getattr(spec.objective, "client_weights", "equal") != "equal":
            raise FedatlasError(
                f"key 'objective.client_weights': {self.title} weighs answers by their age alone: "
                "remove it"
            )
