"""DP-FedAvg: federated averaging that is differentially private for each client."""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.client_rows import clipped
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork
from fedatlas.privacy.accountants import Budget, PrivacyContext
from fedatlas.privacy.sampled_gaussian import SampledGaussian
from fedatlas.schema.runs import RunSpec


class DpFedAvg(LocalWorkAlgorithm):
    """DP-FedAvg (McMahan, Ramage, Talwar, Zhang 2018, arXiv:1710.06963, Algorithm 1).

    A client takes part with probability q = clients_per_round/N; its update Δ_i is scaled down to
    the norm S = clip_bound where it is longer. The server moves x by η_g times
    f̃_f = Σ_i Δ_i/(qN), whose denominator is fixed, plus N(0, σ² I) with σ = zS/(qN),
    z = noise_multiplier. With z = 0, no client clipped and a fixed size it is FedAvg, bit for bit.

    clients_per_round: qN, how many take part in a round, on average.
    sampling: poisson, a coin of its own for each client, so that a round may have any number of
        them, none included; fixed_size, so many distinct ones.
    clip_bound: S, in l2, over all of the model together.
    noise_multiplier: z, the noise on Σ_i Δ_i over S; without noise (0) ε is infinite.
    delta: δ at which ε is told; by default N^−1.1, the paper's choice.
    """

    title: ClassVar[str] = "DP-FedAvg"
    source: ClassVar[str] = (
        "McMahan et al. 2018, Algorithm 1 with FedAvg's user update, flat clipping and the "
        "estimator f̃_f. Clients have equal weights. Updates are clipped once, after all local "
        "steps, as by later work (Andrew et al. 2021) and libraries; the paper also clips after "
        "each step, with the same sensitivity. local_unit: epochs is the paper's E; steps, "
        "sampling: fixed_size and η_g are not. ε is by Rényi divergences (Mironov 2017), which "
        "the paper's moments accountant became"
    )

    sampling: Literal["poisson", "fixed_size"] = "poisson"
    clip_bound: PositiveFloat
    noise_multiplier: NonNegativeFloat
    delta: float | None = Field(default=None, gt=0, lt=1)

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Add the sum of the sampled clients' clipped updates, with noise, over qN."""
        if self.sampling == "poisson":
            q = self.clients_per_round / problem.clients
            clients = np.flatnonzero(random.uniform(problem.clients) < q)
        else:
            clients = random.sample(problem.clients, self.clients_per_round)
        clients = network.arriving(random, clients, self.local_load(problem))
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round))
        (delta,) = network.gather(clipped(y - x, self.clip_bound))
        noise = problem.array(random.generator.standard_normal(problem.dimension))
        total = delta.sum(0) + self.noise_multiplier * self.clip_bound * noise
        return State(state.x + self.server_step_size * (total / self.clients_per_round))

    def check_run(self, spec: RunSpec) -> None:
        """Refuse weighted clients: weights would reveal their samples, and change S.

        Who else takes part must not depend on a client's samples, as it does by a trace of
        availability, since rounds take longer where it has many. Clients that are away by chance,
        late or lost are dropped after coins are tossed: each then takes part with no more than q.
        """
        super().check_run(spec)
        if getattr(spec.objective, "client_weights", "equal") != "equal":
            raise FedatlasError(
                f"key 'objective.client_weights': {self.title} bounds what each client adds only "
                "where all count equally: remove it"
            )

        if getattr(spec.network, "spells", ()):
            raise FedatlasError(
                f"key 'network.availability': by a trace, who takes part in {self.title} depends "
                "on how long rounds take, and so on samples, which its ε does not cover: state a "
                "probability"
            )

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """Budgets by Rényi divergences of the sampled Gaussian mechanism in every round."""
        mechanism, delta = self.mechanism(context.clients), self.delta_of(context.clients)
        spent = mechanism.renyi_budget(range(1, iterations + 1), delta)
        return {f"Rényi, δ = {delta:.3g}": spent}

    def mechanism(self, clients: int) -> SampledGaussian:
        """The release of a round with N clients."""
        return SampledGaussian(
            self.sampling, clients, self.clients_per_round, self.noise_multiplier
        )

    def delta_of(self, clients: int) -> float:
        """δ, for N clients."""
        return self.delta if self.delta is not None else clients**-1.1

    @property
    def privacy_statement(self) -> str:
        """The assumptions of ε and δ: all data of a client are protected."""
        delta = "N^-1.1" if self.delta is None else f"{self.delta:g}"
        if self.sampling == "poisson":
            adjacent = (
                "data differ by one client more or less (a replaced client counts twice), q and "
                "the denominator qN being public; clients take part by independent secret coins"
            )
        else:
            adjacent = (
                "data differ by one replaced client, N being public; which clients take part is "
                "secret"
            )
        return (
            f"protects all that a client holds: {adjacent}; all models may be seen; updates are "
            f"clipped to S = {self.clip_bound:g} in l2; δ = {delta}"
        )
