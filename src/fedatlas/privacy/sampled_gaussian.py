"""ε of Gaussian noise on the sum of sampled clients' vectors, by Google's dp-accounting.

A round releases Σ_i v_i + N(0, z² I), ‖v_i‖ ≤ 1, over the clients that take part. Under Poisson
sampling data differ by a client more or less. Under sampling of a fixed number without replacement
a client is replaced, so that the sum moves by 2 and the noise is z/2 of its sensitivity.

Losses compose over rounds as Rényi divergences (Mironov 2017; Mironov, Talwar, Zhang 2019; Wang,
Balle, Kasiviswanathan 2019 without replacement), turned into ε by Canonne, Kamath, Steinke 2020,
Proposition 12. Privacy loss distributions (Koskela, Jälkö, Honkela 2020) are tight, but take a
second for each number of rounds: a trace tells ε after every round, so it has the former.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np

from fedatlas.privacy.accountants import Budget


@dataclass(frozen=True)
class SampledGaussian:
    """One round's release, with clients that take part in secret.

    sampling: `poisson`, each with probability drawn/clients; `fixed_size`, exactly `drawn`.
    clients: N. drawn: how many take part, on average. noise_multiplier: z, over the clip bound.
    """

    sampling: Literal["poisson", "fixed_size"]
    clients: int
    drawn: int
    noise_multiplier: float

    @property
    def probability(self) -> float:
        """q, by which a client takes part."""
        return self.drawn / self.clients

    def renyi_budget(self, rounds: Sequence[int], delta: float) -> Budget:
        """(ε, δ) after these numbers of rounds, by Rényi divergences; ε without noise is ∞."""
        if self.noise_multiplier == 0:
            return Budget(np.full(len(rounds), inf), np.full(len(rounds), delta))
        with _without_warnings():  # orders whose series does not converge are left out
            from dp_accounting import rdp

            accountant = rdp.RdpAccountant(neighboring_relation=self._relation)
            accountant.compose(self._event)
            orders, spent = accountant.orders, accountant.rdp
            epsilon = [rdp.compute_epsilon(orders, k * spent, delta)[0] for k in rounds]
        return Budget(np.array(epsilon, float), np.full(len(rounds), delta))

    def client_pair_epsilon(self, rounds: int, delta: float, *, at_least: bool) -> float:
        """ε of the pair that has one client whose vector is (1, 0, …) and that has it as 0.

        All other vectors are 0, so that rounds are independent. Under Poisson sampling no pair
        loses more (Zhu, Dong, Wang 2022). Privacy loss distributions are rounded to a grid: up, or
        with `at_least` down, so that the pair's ε lies between the two.
        """
        if self.noise_multiplier == 0:
            return inf
        from dp_accounting.pld import privacy_loss_distribution as losses

        one = losses.from_gaussian_mechanism(
            self.noise_multiplier,
            sampling_prob=self.probability,
            pessimistic_estimate=not at_least,
            value_discretization_interval=_GRID,
        )
        return float(one.self_compose(rounds).get_epsilon_for_delta(delta))

    @property
    def _relation(self) -> Any:
        from dp_accounting import NeighboringRelation

        if self.sampling == "poisson":
            return NeighboringRelation.ADD_OR_REMOVE_ONE
        return NeighboringRelation.REPLACE_ONE

    @property
    def _event(self) -> Any:
        import dp_accounting as events

        if self.sampling == "poisson":
            gaussian = events.GaussianDpEvent(self.noise_multiplier)
            return events.PoissonSampledDpEvent(self.probability, gaussian)
        gaussian = events.GaussianDpEvent(self.noise_multiplier / 2)
        return events.SampledWithoutReplacementDpEvent(self.clients, self.drawn, gaussian)


_GRID = 1e-4  # of privacy losses, the library's own


@contextmanager
def _without_warnings() -> Iterator[None]:
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
