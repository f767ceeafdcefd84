"""Power-of-Choice: the candidates with the largest loss take part in a round."""

from typing import Any, ClassVar, Self

import numpy as np
from pydantic import PositiveInt, model_validator

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class PowerOfChoice(LocalWorkAlgorithm):
    """Power-of-Choice, π_pow-d (Cho, Wang, Joshi 2020, arXiv:2010.01243, Algorithm 1).

    d candidates are drawn, uniformly without replacement, and sent x; each answers with f_i(x), its
    objective over all its samples. The S candidates with the greatest f_i(x), of equal ones those
    with the lower number, take FedAvg's K local steps from y = x, and the server averages,
    x ← x + η_g/S Σ_{i∈S} (y_i − x). Candidates are drawn first, then minibatches of those who take
    part, ascending. Where clients have weights, N p_i/S stands for 1/S. Where no more than S
    candidates answer, all take part. With d = S it is FedAvg. The choice is biased towards clients
    that f fits badly, so that x may converge elsewhere than to the minimum of f.

    An evaluation of f_i(x) counts as a full local gradient, though it takes less. It costs every
    candidate a message each way, of a model and of a number; that a candidate takes part is another
    message, of one bit, as it has x. On a declared network all candidates are waited for as if all
    trained.

    candidates: d, at least S = clients_per_round.
    """

    title: ClassVar[str] = "Power-of-Choice"
    source: ClassVar[str] = (
        "Cho, Wang, Joshi 2020, Algorithm 1 and its π_pow-d, quoted from memory, where η_g = 1 and "
        "a client is a candidate with a chance by its samples, and those chosen count equally; "
        "ours are drawn uniformly, and count as in f"
    )
    together: ClassVar[str] = "candidates"

    candidates: PositiveInt

    @model_validator(mode="after")
    def _enough_candidates(self) -> Self:
        if self.candidates < self.clients_per_round:
            raise ValueError(
                f"candidates is {self.candidates}, but {self.clients_per_round} of them are to "
                "take part (clients_per_round): state at least as many"
            )
        return self

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Ask for losses, and average the local progress of those whose loss is greatest."""
        number = 1 / problem.dimension  # of a model
        down = 1 + number / (8 * problem.itemsize)
        load = self.local_load(problem, (None, 1), down=down, up=1 + number, trips=2)
        asked = network.participants(random, self.candidates, load)
        if len(asked) == 0:
            return state
        (x,) = network.broadcast(state.x, to=asked)
        (losses,) = network.gather(problem.losses(x, asked))
        order = np.argsort(-problem.numpy(losses)[:, 0], kind="stable")
        clients = np.sort(asked[order[: self.clients_per_round]])
        (x,) = network.broadcast(x, to=clients, bits=1)  # they have x, and learn that they train
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round))
        (delta,) = network.gather(y - x)
        return State(state.x + self.server_step_size * problem.mean(delta, clients))
