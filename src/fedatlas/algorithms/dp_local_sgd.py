"""DP local SGD: federated averaging whose local steps are private for every record."""

from typing import Any, ClassVar

from pydantic import Field, NonNegativeFloat, PositiveFloat

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal import LocalStepsAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork
from fedatlas.privacy.accountants import Budget, PrivacyContext
from fedatlas.privacy.sampled_gaussian import SampledGaussian


class DpLocalSgd(LocalStepsAlgorithm):
    """DP-SGD (Abadi et al. 2016, arXiv:1607.00133, Algorithm 1) in FedAvg's local steps.

    Clients take K steps from y = x,
    y ← y − η_l (1/b Σ_j clip(∇ℓ_j(y)) + σC/b ξ + ∇r(y) + μ (y − x)), over b samples j drawn without
    replacement, and the server averages, x ← x + η_g/S Σ_{i∈S} (y_i − x). clip scales the gradient
    of each sample's loss down to the l2 norm C where it is longer; r is the regulariser, which
    depends on no sample and is not clipped; ξ is N(0, I). A client that has fewer than b samples
    takes all, and b is then their number. Drawn are the participants, then the minibatches of all
    steps, then at each step ξ of all participants, (S, d), by rows ascending. Where clients have
    weights, N p_i/S stands for 1/S. With σ = 0 and no gradient clipped it is FedAvg, or FedProx.

    clip_bound: C, in l2, over all of the model together.
    noise_multiplier: σ, the noise on Σ_j clip(∇ℓ_j) over C; without noise (0) ε is infinite.
    proximal_weight: μ, by default 0; more is DP-FedProx.
    delta: δ at which ε is told; by default M^−1.1, M the samples of the smallest client.
    """

    title: ClassVar[str] = "DP local SGD"
    source: ClassVar[str] = (
        "Abadi et al. 2016, Algorithm 1, as the local steps of McMahan et al. 2017, quoted from "
        "memory. Minibatches have a fixed size, where the paper's are Poisson, so that ε is that "
        "of sampling without replacement, by Rényi divergences (Mironov 2017), which the paper's "
        "moments accountant became. The regulariser is not clipped, and μ is FedProx's: ours"
    )

    clip_bound: PositiveFloat
    noise_multiplier: NonNegativeFloat
    proximal_weight: NonNegativeFloat = 0.0
    delta: float | None = Field(default=None, gt=0, lt=1)

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the sampled clients' progress by noisy steps along clipped gradients."""
        clients = network.participants(random, self.clients_per_round, self.local_load(problem))
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        batch = problem.minibatches(random, clients, self.batch_size, self.local_steps)
        clipping, shape = Clipping("l2", self.clip_bound), (len(clients), problem.dimension)
        deviation = self.noise_multiplier * self.clip_bound / batch.sizes.clip(1)[:, None]
        y = x
        for step in range(batch.steps):
            noise = problem.array(deviation * random.generator.standard_normal(shape))
            direction = problem.gradient(y, batch.at(step), clipping) + noise
            y = y - self.local_step_size * (direction + self.proximal_weight * (y - x))
        (delta,) = network.gather(y - x)
        return State(state.x + self.server_step_size * problem.mean(delta, clients))

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """Budgets by Rényi divergences: the smallest client's samples, K steps in every round."""
        mechanism, delta = self.mechanism(context.samples), self.delta_of(context.samples)
        steps = range(self.local_steps, self.local_steps * iterations + 1, self.local_steps)
        return {f"Rényi, δ = {delta:.3g}": mechanism.renyi_budget(steps, delta)}

    def mechanism(self, samples: int) -> SampledGaussian:
        """The release of one local step of a client with so many samples."""
        drawn = min(self.batch_size or samples, samples)
        return SampledGaussian("fixed_size", samples, drawn, self.noise_multiplier)

    def delta_of(self, samples: int) -> float:
        """δ, where the smallest client has so many samples."""
        if self.delta is None and samples < 2:
            raise FedatlasError(
                f"key 'delta': without it δ of {self.title} is M^-1.1, and the smallest client has "
                f"M = {samples}: state δ, or give clients more samples"
            )
        return self.delta if self.delta is not None else samples**-1.1

    @property
    def privacy_statement(self) -> str:
        """The assumptions of ε and δ: one sample is protected."""
        delta = "M^-1.1" if self.delta is None else f"{self.delta:g}"
        return (
            "protects one sample of a client: data differ by one replaced sample, the clients' "
            "numbers of samples being public; which samples a step takes is secret, who takes part "
            "is not, and ε is of a client that takes part in every round, with the fewest samples, "
            "M; all that clients send may be seen; samples' gradients are clipped to "
            f"C = {self.clip_bound:g} in l2; δ = {delta}"
        )
