"""Agents with whole samples on directed graphs, without a server."""

from collections.abc import Sequence
from pathlib import Path

from fedatlas.federations.client_shards import ClientSamples, fewest_samples, read_shard
from fedatlas.federations.decentralised.network import GraphCounters, GraphNetwork, graph_weights
from fedatlas.federations.decentralised.problem import GraphProblem
from fedatlas.federations.setting import FederationContext, SeedRun
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective, PolyakObjective
from fedatlas.schema.runs import RunSpec


class DecentralisedSetting(FederationContext):
    """The same graphs for all seeds; "auto" is a GPU for networks where there is one."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        super().__init__(spec, shards, device)
        self._graphs = graph_weights(spec)
        # What is promised holds for every trial.
        fewest = fewest_samples(self._files.values())
        self._privacy_context = PrivacyContext(fewest, self.engine.dimension, *self._graphs)

    def _engine(self, files: Sequence[Path]) -> GraphProblem:
        (file,) = files
        return _engine(self._spec, read_shard(file), self.device)

    def _seed_run(self, seed: int) -> SeedRun:
        engine, counters = self.engine, GraphCounters()
        network = GraphNetwork(*self._graphs, engine.array, engine.draws, counters)
        return SeedRun(engine.counting(counters), network, counters, engine.start(seed))


def _engine(spec: RunSpec, data: ClientSamples, device: str) -> GraphProblem:
    """The engine of the objective; torch is imported only if it computes."""
    if isinstance(spec.objective, LinearObjective):
        from fedatlas.federations.decentralised.linear_engine import LinearAgents

        return LinearAgents(data, spec.objective)
    if isinstance(spec.objective, PolyakObjective):
        from fedatlas.federations.decentralised.function_engine import FunctionAgents

        return FunctionAgents(data, spec.objective)
    from fedatlas.federations.decentralised.network_engine import ClassifyingAgents

    assert isinstance(spec.objective, ClassificationObjective)
    return ClassifyingAgents(data, spec.objective, device, rounds=spec.rounds_of_all_seeds)
