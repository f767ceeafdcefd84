"""Pooled training: SGD on all samples in one place; a control that no federation can run."""

from typing import Any, ClassVar

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal import LocalSteps, ServerAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork
from fedatlas.schema.runs import RunSpec


class Pooled(LocalSteps, ServerAlgorithm):
    """SGD (Robbins, Monro 1951) on the samples of all clients, as if they lay in one place.

    A round is K steps x ← x − η_l ∇f_B(x), each over b distinct samples of all, drawn uniformly.
    With b = None it is gradient descent. Nothing is sent: bytes and messages stay 0, and what it
    took to bring the samples together is not counted. One node computes all gradients.

    local_steps: K. local_step_size: η_l. batch_size: b.
    """

    title: ClassVar[str] = "Pooled SGD"
    source: ClassVar[str] = "Robbins, Monro 1951, with minibatches; rounds of K steps are ours"
    federated: ClassVar[bool] = False

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """K steps on samples of anybody's."""
        batch = problem.pooled_minibatches(random, self.batch_size, self.local_steps)
        return State(problem.local_sgd(state.x, batch, self.local_step_size)[0])

    def check_run(self, spec: RunSpec) -> None:
        """f is the mean over samples, and nobody is waited for."""
        if (weights := getattr(spec.objective, "client_weights", "equal")) != "size":
            raise FedatlasError(
                f"key 'objective.client_weights', value '{weights}': {self.title} minimises the "
                "mean over all samples, whoever holds them: state 'size'"
            )
        if spec.network is not None:
            raise FedatlasError(
                f"key 'network': {self.title} sends nothing, so that no network decides its time: "
                "remove it"
            )
