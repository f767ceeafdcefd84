"""FedBuff: the server steps whenever its buffer holds enough clients' updates."""

from typing import Any, ClassVar

from pydantic import PositiveInt

from fedatlas.algorithms._staleness import ConstantStaleness, Staleness
from fedatlas.algorithms.fedasync import State
from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import AsynchronousAlgorithm, ServerStep
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.horizontal.timed_network import TimedNetwork


class FedBuff(ServerStep, AsynchronousAlgorithm):
    """FedBuff (Nguyen et al. 2022, arXiv:2106.06639, Algorithm 1).

    A round is a full buffer: x ← x + η_g/B Σ s(τ_i) Δ_i over B = buffer_size updates
    Δ_i = y_i − x_{τ_i} of K local steps each, from models that were sent τ_i rounds ago.

    concurrency: M_c. staleness: s; the paper's experiments have 1/√(1 + τ), a polynomial of power
    0.5, Algorithm 1 has none.
    """

    title: ClassVar[str] = "FedBuff"
    source: ClassVar[str] = (
        "Nguyen et al. 2022, Algorithm 1 without secure aggregation. η_g = 1 where an experiment "
        "does not choose, and uniform choice among clients that do not compute: our choices"
    )

    buffer_size: PositiveInt
    staleness: Staleness = ConstantStaleness()

    def start(self, problem: HorizontalProblem, network: TimedNetwork, x0: Any) -> State:
        """x = x⁰; nobody computes."""
        flight = network.in_flight(self.concurrency, self.buffer_size)
        places = len(flight.clients)
        return State(x0, flight, ClientRows(problem.zeros(places, problem.dimension)))

    def round(
        self, state: State, problem: HorizontalProblem, network: TimedNetwork, random: RoundRandom
    ) -> State:
        """Send x to those who are free until the buffer is full, and step along its mean."""
        load = self.local_load(problem)
        flight, started, arrived = network.next(state.flight, random, self.buffer_size, load)
        (x,) = network.broadcast(state.x, to=started.clients)
        models = state.models.replace(started.places, problem.repeated(x, len(started.places)))
        sent = models[arrived.places]
        batch = self.local_batches(problem, random, arrived.clients)
        y = problem.local_sgd(sent, batch, self.local_step_at(random.round))
        (delta,) = network.gather(y - sent)
        factors = problem.array(self.staleness.factor(arrived.staleness))[:, None]
        mean = problem.mean(factors * delta, arrived.clients)
        return State(state.x + self.server_step_size * mean, flight, models)
