"""Agents with whole samples on directed graphs, without a server."""

from pathlib import Path

import numpy as np

from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.decentralised.algorithm import DecentralisedAlgorithm
from fedatlas.federations.decentralised.counters import GraphCounters
from fedatlas.federations.decentralised.engine import AgentEngine
from fedatlas.federations.decentralised.graphs import graph_weights
from fedatlas.federations.decentralised.network import GraphNetwork
from fedatlas.federations.decentralised.problem import DecentralisedProblem
from fedatlas.federations.engine_setting import EngineSetting, claimed_for_networks
from fedatlas.federations.setting import Privacy, Trial, read_clients
from fedatlas.privacy.exposure import Exposure
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective
from fedatlas.schema.runs import RunSpec


class DecentralisedSetting(EngineSetting):
    """The same data and graphs for all seeds; "auto" is a GPU for networks where there is one."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        data, self.data_digest = read_clients(spec, shards)
        device = claimed_for_networks(spec, device)
        super().__init__(spec, _engine(spec, data, device), device)
        self._states, self._trackers = graph_weights(spec)
        self._exposure = Exposure(
            self._engine.fewest_samples, self._engine.dimension, self._states, self._trackers
        )

    def trial(self, seed: int) -> Trial:
        engine, counters = self._engine, GraphCounters()
        problem = DecentralisedProblem(engine, counters)
        network = GraphNetwork(self._states, self._trackers, engine.array, engine.draws, counters)
        return Trial(problem, network, counters, engine.start(seed), engine.samples)

    def privacy(self, algorithm: Algorithm, rounds: int) -> Privacy:
        """By the method's first accounting; a round is an iteration."""
        assert isinstance(algorithm, DecentralisedAlgorithm)
        conditions = algorithm.conditions(self._exposure)
        budget = next(iter(algorithm.budgets(self._exposure, rounds).values()), None)
        return Privacy(
            algorithm.privacy_statement,
            tuple(str(condition) for condition in conditions if condition.holds is False),
            {}
            if budget is None
            else {
                "epsilon": np.append(0.0, budget.epsilon),
                "delta": np.append(0.0, budget.delta),
            },
        )


def _engine(spec: RunSpec, data: ClientSamples, device: str) -> AgentEngine:
    """The engine of the objective; torch is imported only if it computes."""
    if isinstance(spec.objective, LinearObjective):
        from fedatlas.federations.decentralised.linear_engine import LinearAgents

        return LinearAgents(data, spec.objective)
    from fedatlas.federations.decentralised.network_engine import ClassifyingAgents

    assert isinstance(spec.objective, ClassificationObjective)
    return ClassifyingAgents(data, spec.objective, device, rounds=spec.rounds_of_all_seeds)
