"""The interface of methods: frozen hyper-parameters with pure functions `start` and `round`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.schema.federation import Federation, federations
from fedatlas.schema.graphs import Graphs
from fedatlas.schema.models import Model
from fedatlas.schema.objectives import Objective
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import RunSpec

if TYPE_CHECKING:  # an edit there trains methods without budgets no more
    from fedatlas.privacy.accountants import Budget, PrivacyContext
    from fedatlas.privacy.conditions import Condition


@dataclass(frozen=True)
class StepBound:
    """A step size beside the largest one that a theorem covers."""

    step: str  # which hyper-parameter, or a product of them
    value: float
    bound: float
    theorem: str

    @property
    def factor(self) -> float:
        """The factor by which the step exceeds the bound; at most 1 where it is covered."""
        return self.value / self.bound

    @property
    def exceeded(self) -> bool:
        """Whether the theorem does not cover the step."""
        return self.value > self.bound

    def __str__(self) -> str:
        relation = "exceeds" if self.exceeded else "is within"
        return (
            f"{self.step} = {self.value:.4g} {relation} {self.bound:.3g}, bound of {self.theorem}"
        )


class Algorithm(Model, ABC):
    """Hyper-parameters of a method (validated, immutable) and its two functions.

    The problem and the network are those of the run's federation. A state is an immutable
    dataclass; its fields are arrays, ClientRows, numbers, None, or tuples and dataclasses of these.
    """

    title: ClassVar[str]  # in figures and tables
    source: ClassVar[str]  # paper, algorithm, and what was reconstructed or chosen
    federation: ClassVar[type[Federation]]  # in which it works
    #: Whether clients around a server do not wait for each other; None where that is plain to see.
    asynchronous: ClassVar[bool | None] = None
    #: Whether samples stay with their holders; not of controls, which need not send anything.
    federated: ClassVar[bool] = True
    #: Whether it takes a term ψ without a gradient, by problem.prox.
    composite: ClassVar[bool] = False

    @abstractmethod
    def start(self, problem: Any, network: Any, x0: Any) -> Any:
        """The state before round 0."""

    @abstractmethod
    def round(self, state: Any, problem: Any, network: Any, random: RoundRandom) -> Any:
        """The state after one communication round."""

    @abstractmethod
    def point(self, state: Any, network: Any) -> Any:
        """The point that is measured, shaped as x0: the model (d,), or a tuple of arrays."""

    @property
    @abstractmethod
    def effective_step_size(self) -> float:
        """The step by which methods of its paper are compared."""

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Theorems' step bounds, none by default.

        problem: an engine or constants, with the `smoothness` L of every sample's gradient and,
        over clients around a server, `clients` and `average_smoothness`, an L with
        1/N Σ_i ‖∇f_i(x) − ∇f_i(y)‖² ≤ L² ‖x − y‖² (FedPAGE, Assumption 2.2).
        """
        return []

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """Privacy spent by this number of iterations, by the name of the accounting.

        Of methods around a server and on graphs. The paper's own accounting comes first. Where it
        has none, the first one holds for the update that runs, under the assumptions of
        `privacy_statement`. Empty by default: such methods promise no privacy.
        """
        return {}

    def budgets_by_horizon(self, context: PrivacyContext, last: int) -> dict[str, Budget]:
        """Privacy spent by whole runs of k = 0 … K, for K = 1 … last; names as in `budgets`.

        Empty, by default, for methods whose steps, samples and noise do not follow the horizon.
        """
        return {}

    def conditions(self, context: PrivacyContext) -> tuple[Condition, ...]:
        """Conditions of theorems on hyper-parameters and graphs; none by default."""
        return ()

    def counted(self, counters: Any) -> dict[str, float]:
        """What traces record of the counters: no critical path of clients that do not wait."""
        totals = vars(counters).items()
        return {
            name: total
            for name, total in totals
            if not (name.startswith("_") or (self.asynchronous and name.startswith("sequential_")))
        }

    @classmethod
    def has_budgets(cls) -> bool:
        """Whether the method accounts for the privacy that it spends."""
        return cls.budgets is not Algorithm.budgets

    @property
    def privacy_statement(self) -> str:
        """The assumptions of its ε and δ, and whom they protect; empty without any."""
        return "as the method itself accounts for it" if self.has_budgets() else ""

    @classmethod
    def check_setting(
        cls, partition: Partition, objective: Objective, graphs: Graphs | None
    ) -> None:
        """Refuse, with a FedatlasError, a setting that is not this method's."""
        own = cls.federation
        if partition.kind != own.partition_kind:
            raise FedatlasError(
                f"{cls.title} works on a {own.partition_kind} partition, but its partition is "
                f"{partition.kind}"
            )
        if objective.min_max != own.min_max:
            raise FedatlasError(
                f"{cls.title} {'solves min–max problems' if own.min_max else 'minimises'}, but its "
                f"objective, {objective.name}, is {'' if objective.min_max else 'not '}min–max"
            )
        if cls.has_budgets() and not own.has_budgets:
            raise FedatlasError(
                f"{cls.title} defines 'budgets', which are recorded of methods around a server and "
                "on graphs that minimise: remove it"
            )
        if own.on_graphs and graphs is None:
            raise FedatlasError(f"{cls.title} works on graphs: say 'graphs'")
        if not own.on_graphs and graphs is not None:
            raise FedatlasError(f"{cls.title} does not work on graphs: remove 'graphs'")
        if not isinstance(objective, own.objectives):
            takers = {
                each.holders for each in federations() if isinstance(objective, each.objectives)
            }
            raise FedatlasError(
                f"{cls.title} does not take the objective {objective.name}: only "
                f"{' and '.join(sorted(takers))} do"
            )
        term = getattr(objective, "nonsmooth", None)
        if term is not None and not (cls.composite and own.has_prox):
            raise FedatlasError(
                f"key 'objective.nonsmooth', value '{term.name}': {cls.title} takes gradients, "
                "which this term does not have, and no proximal steps; use a method that does, "
                "such as fedmid, or remove it"
            )
        weights = getattr(objective, "client_weights", "equal")
        if weights != "equal" and not own.weighs_clients:
            raise FedatlasError(
                f"key 'objective.client_weights', value '{weights}': {cls.title} does not weigh "
                f"{own.holders}; only methods around a server do: remove it"
            )
        if isinstance(weights, tuple) and len(weights) != sum(partition.clients_by_silo):
            raise FedatlasError(
                f"key 'objective.client_weights': has {len(weights)} numbers, but the partition "
                f"has {sum(partition.clients_by_silo)} clients: give each of them one"
            )

    def check_run(self, spec: RunSpec) -> None:
        """Refuse, with a FedatlasError, a run that these hyper-parameters do not suit."""

    def check_samples(self, samples: int) -> None:
        """Refuse, with a FedatlasError, a number of training samples that does not suffice."""
