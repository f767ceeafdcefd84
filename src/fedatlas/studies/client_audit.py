"""Test claimed budgets of clients around a server on a pair of federations.

All clients have updates of 0, but for one whose update is ten times the clip bound in one of the
two federations. The ε of the pair follows by privacy loss distributions. A sampled attack checks
it, by the method's own code; the attacker sees every model and ranks runs by their likelihood
ratio.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedatlas.algorithms.dp_fedavg import DpFedAvg
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.evaluation.tables import ONE_CLIENT, REFUTED, PairRow
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.privacy.attacks import Attack, above, columns_of, lower_bound, random_of
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit


def rows_of_clients(spec: RunSpec, algorithm: DpFedAvg, study: PrivacyAudit) -> Iterator[PairRow]:
    """A run of clients around a server held against the pair of the module."""
    if not algorithm.noise_multiplier > 0:
        raise FedatlasError("privacy_audit: without noise there is nothing to attack: state some")
    assert isinstance(spec.partition, HorizontalPartition)  # as clients around a server have
    clients, rounds = spec.partition.clients, spec.rounds
    mechanism, delta = algorithm.mechanism(clients), algorithm.delta_of(clients)
    budgets = algorithm.budgets(PrivacyContext(1, 1, clients=clients), rounds)
    claimed = {name: budget.final[0] for name, budget in budgets.items()}
    if algorithm.sampling == "poisson":
        claimed[f"privacy loss distributions, δ = {delta:.3g}"] = mechanism.client_pair_epsilon(
            rounds, delta, at_least=False
        )
    spent = mechanism.client_pair_epsilon(rounds, delta, at_least=True)
    found = None
    if study.runs is not None:
        found = attack_clients(algorithm, clients, rounds, runs=study.runs, seed=study.seed)
    for accounting, epsilon in claimed.items():
        yield PairRow(
            run=spec.run,
            case=ONE_CLIENT,
            samples=clients,
            drawn=algorithm.clients_per_round,
            accounting=accounting,
            claimed_epsilon=epsilon,
            pair_epsilon=spent,
            known="at least",
            refuted_below=None,
            refuted_above=None,
            **columns_of(found, study.runs),
            verdict=REFUTED if spent > above(epsilon) else "not refuted",
        )


class TinyFederation:
    """Clients with one number each, and updates that are stated: the first one's, and all others'.

    Updates do not depend on the model, so that rounds are independent.
    """

    dimension = 1

    def __init__(self, clients: int, update: float, others: float = 0.0) -> None:
        self.clients, self._update, self._others = clients, update, others

    def minibatches(self, random: RoundRandom, clients: np.ndarray, *_: Any) -> np.ndarray:
        """The clients themselves: there are no samples to draw."""
        return clients

    epochs = minibatches

    def load(self, *_: Any, **__: Any) -> None:
        """Nobody asks how long it takes."""

    def local_sgd(self, x: np.ndarray, batch: np.ndarray, step_size: float) -> np.ndarray:
        """(S, 1)."""
        return x + np.where(batch == 0, self._update, self._others)[:, None]

    def array(self, values: np.ndarray) -> np.ndarray:
        """As they are."""
        return values


def attack_clients(
    algorithm: DpFedAvg,
    clients: int,
    rounds: int,
    *,
    runs: int,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Attack:
    """Attack a method on two federations that differ in one client, at the method's δ.

    rounds: of a run. runs: on each federation; half of them choose the attacker's threshold, the
    other half are judged by it. As rounds are independent, one training makes all runs. A round
    takes some 30 µs.
    """
    bound, q = algorithm.clip_bound, algorithm.clients_per_round / clients
    variance = algorithm.noise_multiplier**2
    scores = []
    for number, update in enumerate((10 * bound, 0.0)):  # clipping makes it the bound
        problem: Any = TinyFederation(clients, update)
        network = StarNetwork(clients, Counters())
        random = random_of(seed, number)
        state = algorithm.start(problem, network, np.zeros(1))
        points = [0.0]
        for k in range(runs * rounds):
            state = algorithm.round(state, problem, network, random.at(k))
            points.append(float(state.x[0]))
        unit = algorithm.server_step_size * bound / algorithm.clients_per_round
        released = np.diff(points) / unit  # N(0, z²), moved by 1 where the first client takes part
        with np.errstate(divide="ignore"):  # it always takes part
            parts = np.log1p(-q), np.log(q) + (released - 0.5) / variance
        scores.append(np.logaddexp(*parts).reshape(runs, rounds).sum(axis=1))
    first, second = scores
    return lower_bound(first, second, confidence, algorithm.delta_of(clients))
