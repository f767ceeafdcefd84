"""TDCD: coordinate descent between silos, local SGD inside them."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm, StepBound
from fedatlas.federations.tiered import Tiered
from fedatlas.federations.tiered.hubs import (
    PerSilo,
    SharedMinibatch,
    SiloModels,
    TieredNetwork,
    TieredProblem,
    sums_of_others,
)
from fedatlas.schema.federation import Federation


@dataclass(frozen=True)
class State:
    """The hubs' models θ̃_j."""

    models: SiloModels


class Tdcd(Algorithm):
    """TDCD (Das, Castiglia, Wang and Patterson 2022, Algorithm 1).

    η = step_size, Q = local_steps, |ζ| = batch_size. A round is Q iterations t = t_0 … t_0 + Q − 1.

    Line 32 and its text average θ_{k,j}^t, without the last local step: with Q = 1 nothing would
    ever be learned. Equation 13 and the public code average θ_{k,j}^{t+1}, and so does this. Φ_{−j}
    sums Φ_l over l ≠ j (line 19; the text has Φ_j). The mean over clients is unweighted, as
    printed, however many samples of ζ they have; one without any sends back what it was sent.

    running_statistics: of BatchNorm, which the paper leaves open: the mean over clients, or those
        of the silo's first client, as in the public code.
    labels: `first_silo` is Remark 2: only clients of silo 0 have labels, and the others ask for the
        slopes of the loss at every local step. The models are the same, the messages are not.
    """

    title: ClassVar[str] = "TDCD"
    source: ClassVar[str] = (
        "Das, Castiglia, Wang and Patterson, ACM TIST 2022, Algorithm 1 with the average of "
        "equation 13 in place of line 32's; averaging BatchNorm's running statistics is our choice"
    )
    federation: ClassVar[type[Federation]] = Tiered

    step_size: PositiveFloat
    local_steps: PositiveInt
    batch_size: PositiveInt
    running_statistics: Literal["averaged", "first_client"] = "averaged"
    labels: Literal["every_client", "first_silo"] = "every_client"

    @property
    def effective_step_size(self) -> float:
        """η: runs with other Q make as many steps of it in the same number of iterations."""
        return self.step_size

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Theorem 1, (14); problem: has `smoothness`, max(L, L_max)."""
        bound = 1 / (8 * self.local_steps * problem.smoothness)
        return [StepBound("η", self.step_size, bound, "Theorem 1")]

    def check_samples(self, samples: int) -> None:
        """A minibatch has distinct samples."""
        if self.batch_size > samples:
            raise FedatlasError(
                f"batch_size is {self.batch_size}, but there are only "
                f"{samples} training samples; lower it"
            )

    def start(self, problem: TieredProblem, network: TieredNetwork, x0: SiloModels) -> State:
        """θ̃_j⁰, line 4."""
        return State(x0)

    def round(
        self, state: State, problem: TieredProblem, network: TieredNetwork, random: RoundRandom
    ) -> State:
        """Lines 7–34 with the Q iterations of lines 25–29."""
        batch = problem.minibatch(random, self.batch_size)  # line 9, by a seed that hubs share
        models = network.send_models(state.models, batch)  # lines 10–12
        embeddings = problem.embeddings(models, batch)  # line 13
        others = self._others(embeddings, batch, network)  # lines 16–23
        weights, statistics = problem.copies(models)
        for _ in range(self.local_steps):  # lines 25–29
            if self.labels == "first_silo":
                network.ask_label_holders(embeddings, batch)
            gradients, statistics = problem.partial_gradients(
                SiloModels(weights, statistics), others, batch
            )
            weights = tuple(
                theta - self.step_size * g for theta, g in zip(weights, gradients, strict=True)
            )
        if self.running_statistics == "first_client":
            statistics = tuple(part[:1] for part in statistics)
        models = network.collect_models(SiloModels(weights, statistics))
        return State(SiloModels(_means(models.weights), _means(models.statistics)))  # line 32

    def point(self, state: State, network: TieredNetwork) -> SiloModels:
        """θ̃."""
        return state.models

    def _others(
        self, embeddings: PerSilo, batch: SharedMinibatch, network: TieredNetwork
    ) -> PerSilo:
        if self.labels == "every_client":
            return network.exchange(embeddings, batch)
        return sums_of_others(embeddings)  # at the label holders, who were asked with them


def _means(of_clients: PerSilo) -> PerSilo:
    return tuple(part.mean(0) for part in of_clients)
