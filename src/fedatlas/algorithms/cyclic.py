"""Cyclic training: one model goes from client to client; a control for federated averaging."""

from typing import Any, ClassVar

import numpy as np

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal import LocalWork, ServerAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork
from fedatlas.schema.runs import RunSpec


class Cyclic(LocalWork, ServerAlgorithm):
    """Cyclical weight transfer (Chang et al. 2018, J. Am. Med. Inform. Assoc. 25(8), 945–954).

    In round r, from 0, client r mod N alone gets x, takes K local steps y ← y − η_l ∇f_i,B(y) from
    y = x, and hands x ← y on. All are visited once in N rounds. With one client it is SGD. The
    model passes the server on its way, so that a hop counts as a message down and one up.
    """

    title: ClassVar[str] = "Cyclic"
    source: ClassVar[str] = (
        "Chang et al. 2018, quoted from memory; a fixed order, the number of local steps and plain "
        "SGD are our choices"
    )

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Local steps of the client whose turn it is; one that does not answer is left out."""
        turn = np.array([random.round % problem.clients])
        clients = network.arriving(random, turn, self.local_load(problem))
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        (y,) = network.gather(problem.local_sgd(x, batch, self.local_step_at(random.round)))
        return State(y[0])

    def check_run(self, spec: RunSpec) -> None:
        """Every client has its turn, whatever its weight."""
        if getattr(spec.objective, "client_weights", "equal") != "equal":
            raise FedatlasError(
                f"key 'objective.client_weights': {self.title} visits all clients equally often: "
                "remove it"
            )
