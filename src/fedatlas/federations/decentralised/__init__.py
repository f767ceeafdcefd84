"""Agents with whole samples on directed graphs, without a server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import PositiveFloat, PositiveInt, model_validator

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import ClientFederation
from fedatlas.federations.decentralised.graph import (
    GraphCounters,
    GraphNetwork,
    GraphProblem,
    TimedAgents,
)
from fedatlas.federations.parts import linear_model
from fedatlas.privacy.accountants import (
    Budget,
    PrivacyContext,
    basic_composition,
    noise_ratio,
    single_release,
    worst_agent,
)
from fedatlas.schema.federation import OF_AGENTS, Assembled, Federation, Sizes, Tiny
from fedatlas.schema.graphs import check_connected_and_balanced
from fedatlas.schema.network_model import StarNetworkModel
from fedatlas.schema.objectives import (
    ClassificationObjective,
    LinearObjective,
    Objective,
    PolyakObjective,
)
from fedatlas.schema.runs import RunSpec


class Decentralised(ClientFederation):
    """Each agent has a model of its own."""

    on_graphs = True
    objectives = (LinearObjective, ClassificationObjective, PolyakObjective)
    holders = "agents"
    counters = GraphCounters
    network_model, timed_counters, may_miss = StarNetworkModel, TimedAgents, True
    has_budgets = True
    inwards = ("send", "release")
    needed = ("send", "release")
    silent = "agents are sent nothing: call network.states.send or .release"
    rehearsal = ("edges", "inwards")
    model, inward_call = "an agent's model", "network.states.send"

    @classmethod
    def measures(cls, objective: Objective) -> tuple[str, ...]:
        known = super().measures(objective)
        if isinstance(objective, ClassificationObjective):
            known = tuple(name for name in known if name != "gradient_norm")
        return (*known, *(OF_AGENTS if "test_accuracy" in known else ("disagreement",)))

    @classmethod
    def tiny(cls, partition: Any, hyper_parameters: Mapping[str, Any], sizes: Sizes) -> Tiny:
        """With as many samples as agents have: methods refuse fewer than they draw."""
        tiny = super().tiny(partition, hyper_parameters, sizes)
        return tiny._replace(rows=tiny.clients * max(1, int(sizes().min())))

    @classmethod
    def engine(cls, spec: Any, files: Sequence[Path], device: str) -> GraphProblem:
        data, objective = cls.read(files), spec.objective
        if isinstance(objective, ClassificationObjective):
            from fedatlas.federations.decentralised.torch_engine import ClassifyingAgents

            return ClassifyingAgents(data, objective, device, rounds=spec.rounds_of_all_seeds)
        from fedatlas.federations.decentralised.numpy_engines import FunctionAgents, LinearAgents

        if isinstance(objective, LinearObjective):
            return LinearAgents(data, objective)
        return FunctionAgents(data, objective)

    @classmethod
    def assembled(
        cls, spec: Any, engine: Any, point: Any, shards: Sequence[Any], shape: tuple[int, ...]
    ) -> Assembled:
        """The agents' mean."""
        mean, objective = point.mean(0), spec.objective
        if isinstance(objective, ClassificationObjective):
            return Assembled(engine.network.state_dict(mean), {})
        if isinstance(objective, PolyakObjective):
            return Assembled({"x": mean}, {})
        return linear_model(spec, mean)

    @classmethod
    def network(cls, spec: Any, engine: Any, counters: Any, seed: int) -> Any:
        """The same graphs for all seeds."""
        states, trackers = spec.graph_weights
        array, draws = engine.array, engine.draws
        if spec.network is None:
            return GraphNetwork(states, trackers, array, draws, counters)
        from fedatlas.federations.decentralised.timed_graph import TimedGraphNetwork

        return TimedGraphNetwork(states, trackers, array, draws, counters, spec.network, seed)


class DecentralisedAlgorithm(Algorithm):
    """Agents on graphs; a state has the field `x`, (n, d), each agent's model.

    The problem is a GraphProblem, the network a GraphNetwork. A round is one iteration.

    gradient_bound: C, by which the gradients of two samples at one point differ at most.
    clipping: the norm in which every sample's gradient is cut to C/2, which makes C true; with
        "none" C is assumed, as in the papers, and so is every ε that it enters. Methods that have
        an ε, by `budgets`, must be told; others do not clip unless they are.
    """

    federation: ClassVar[type[Federation]] = Decentralised
    #: Why links of the method must not fail; empty if an agent may give itself the weight of
    #: neighbours that it does not hear from.
    needs_every_message: ClassVar[str] = ""

    gradient_bound: PositiveFloat = 1.0
    clipping: Literal["l1", "l2", "none"] = "none"

    @model_validator(mode="after")
    def _clipping_is_stated_where_privacy_rests_on_it(self) -> Self:
        if self.has_budgets() and "clipping" not in self.model_fields_set:
            raise ValueError(
                "'clipping' is not declared, on which every ε of this method rests: say 'clipping: "
                "l1' or 'l2', which cuts every sample's gradient to gradient_bound/2 in that norm, "
                "or 'clipping: none', which only assumes the bound"
            )
        return self

    def point(self, state: Any, network: GraphNetwork) -> Any:
        """Every agent's model, (n, d)."""
        return state.x

    def check_run(self, spec: RunSpec) -> None:
        """The graphs, and links that fail, must suit the method."""
        self.check_graphs(*spec.graph_weights)
        network, (_, trackers) = spec.network, spec.graph_weights
        if not (isinstance(network, StarNetworkModel) and network.misses):
            return
        why = self.needs_every_message
        if not why and self.has_budgets():
            why = "its ε is that of agents who hear from the same neighbours in every round"
        if not why and trackers is not None:
            why = "what travels over two graphs in one message cannot fail on one of them"
        if why:
            raise FedatlasError(
                f"key 'network': {self.title} needs every message: {why}; remove 'availability', "
                "'loss' and 'deadline'"
            )

    def check_graphs(self, states: np.ndarray, trackers: np.ndarray | None) -> None:
        """Refuse, with a FedatlasError, weights (n, n) on which the method cannot run."""

    @property
    def privacy_statement(self) -> str:
        """The assumptions of its ε and δ; empty without any."""
        if not self.has_budgets():
            return ""
        bound = f"C = {self.gradient_bound:g}"
        if self.clipping == "none":
            declared = f"assumes {bound}, though nothing bounds the gradients"
        else:
            declared = f"has {bound} in {self.clipping}, every sample's gradient being cut to C/2"
        if self._points_are_released:
            return declared
        joint = ", and" if self.clipping == "none" else "; assumes"
        return f"{declared}{joint} that gradients are taken at the same points on either data set"

    @property
    def _points_are_released(self) -> bool:
        """Whether models are functions of what was released."""
        return False

    @property
    def clipping_rule(self) -> Clipping | None:
        """How every sample's gradient is cut; None if it is not."""
        if self.clipping == "none":
            return None
        return Clipping(self.clipping, self.gradient_bound / 2)

    def _l1_bound(self, dimension: int) -> float:
        """C in l1, the norm of Laplace noise: √d times C in l2."""
        return self.gradient_bound * (sqrt(dimension) if self.clipping == "l2" else 1.0)


@dataclass(frozen=True)
class Iterate:
    """Iteration k and each agent's model x, (n, d)."""

    k: int
    x: Any


class UndirectedAlgorithm(DecentralisedAlgorithm):
    """Methods over one undirected graph with symmetric weights w_ij; states are Iterates.

    coupling: κ, of neighbours. step_size: γ, of gradients. samples: m, drawn at every iteration.
    """

    coupling: PositiveFloat
    step_size: PositiveFloat
    samples: PositiveInt

    def check_graphs(self, states: np.ndarray, trackers: np.ndarray | None) -> None:
        """Connected, symmetric weights, and no second graph."""
        if trackers is not None:
            raise FedatlasError(f"{self.title} sends states only: remove 'graphs.trackers'")
        check_connected_and_balanced(states)

    @property
    def effective_step_size(self) -> float:
        """γ."""
        return self.step_size

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> Iterate:
        """One model for all agents."""
        return Iterate(0, x0)

    def _releases(
        self,
        spent: Callable[[np.ndarray], Budget],
        context: PrivacyContext,
        samples: int | np.ndarray,
        iterations: int,
        own_broadcast: bool = False,
    ) -> Budget:
        """Of models that are sent, the budget of the worst agent.

        spent: by how far one sample moves an agent's model in l1, (iterations,). samples: m,
        constant or (iterations,). own_broadcast: whether neighbours are compared with what the
        agent sent, or with its exact value.
        """
        steps = self.coupling, self.step_size, samples, iterations - 1
        bound, weights = (
            self._l1_bound(context.dimension),
            context.states.sum(axis=1),
        )

        def of_agent(weight: float, _: float) -> Budget:
            return spent(bound * single_release(*steps, weight, own_broadcast=own_broadcast))

        return worst_agent(of_agent, weights, np.zeros_like(weights))

    def _gradients(
        self, x: Any, problem: GraphProblem, random: RoundRandom, samples: int | None = None
    ) -> Any:
        """g_i of fresh samples at each agent's own point, (n, d)."""
        batch = problem.minibatches(random, self.samples if samples is None else samples)
        return problem.gradients(x, batch, self.clipping_rule)


def output_perturbation(noise: float) -> Callable[[np.ndarray], Budget]:
    """The budget of moved models that are sent with Laplace noise of this scale."""
    return lambda moved: basic_composition(noise_ratio(moved, noise))


def on_lattice(values: Any, spacing: float, uniform: Any) -> Any:
    """Multiples of `spacing` next to the values, the upper as likely as the value is near it.

    uniform: in (0, 1), shaped as the values; the result is unbiased.
    """
    places = values / spacing
    below = places // 1
    return spacing * (below + (uniform < places - below))


def packed_bits(values: int, levels: float) -> float:
    """Bits of this number of values, each with this number of levels."""
    return values * log2(levels)
