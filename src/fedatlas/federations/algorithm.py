"""What a method is: frozen hyper-parameters with two pure functions, `start` and `round`.

A method's file in `fedatlas.algorithms` is named as the method; adding a file adds a method.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedatlas import algorithms
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.schema.graphs import Graphs
from fedatlas.schema.models import Model
from fedatlas.schema.objectives import ClassificationObjective, Objective
from fedatlas.schema.partitions import Partition

if TYPE_CHECKING:  # methods that promise no privacy do not depend on how it is accounted for
    from fedatlas.privacy.accountants import Budget
    from fedatlas.privacy.conditions import Condition
    from fedatlas.privacy.exposure import Exposure


@dataclass(frozen=True)
class StepBound:
    """A step size beside the largest one that a theorem covers."""

    step: str  # which hyper-parameter, or a product of them
    value: float
    bound: float
    theorem: str

    @property
    def exceeded(self) -> bool:
        """Whether the theorem does not cover the step."""
        return self.value > self.bound

    def __str__(self) -> str:
        """One line for logs, traces and reports."""
        relation = "exceeds" if self.exceeded else "is within"
        return (
            f"{self.step} = {self.value:.4g} {relation} {self.bound:.3g}, bound of {self.theorem}"
        )


class Algorithm(Model, ABC):
    """Hyper-parameters of a method (validated, immutable) and its two functions.

    The problem and the network are those of the run's federation. A state is an immutable
    dataclass; its fields are arrays, ClientRows, numbers, None, or tuples and dataclasses of these.
    """

    title: ClassVar[str]  # as figures and tables print it
    source: ClassVar[str]  # paper, algorithm, and what was reconstructed or chosen
    partition_kind: ClassVar[str]  # of the partitions that it works on
    min_max: ClassVar[bool] = False  # whether it solves min–max problems, or minimises
    on_graphs: ClassVar[bool] = False  # whether clients are agents on graphs, without a server

    @abstractmethod
    def start(self, problem: Any, network: Any, x0: Any) -> Any:
        """The state before round 0."""

    @abstractmethod
    def round(self, state: Any, problem: Any, network: Any, random: RoundRandom) -> Any:
        """The state after one communication round."""

    @abstractmethod
    def point(self, state: Any, network: Any) -> Any:
        """What is measured, shaped as x0: the model (d,), or a tuple of arrays."""

    @property
    @abstractmethod
    def effective_step_size(self) -> float:
        """The step by which methods of its paper are compared."""

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Theorems' step bounds at this problem's smoothness; none by default."""
        return []

    def budgets(self, exposure: Exposure, iterations: int) -> dict[str, Budget]:
        """What so many iterations spend of privacy, by accounting.

        First the paper's own where it has one, or what holds for the update that runs under the
        assumptions of `privacy_statement`. Empty, by default, for methods that promise none.
        """
        return {}

    def budgets_by_horizon(self, exposure: Exposure, last: int) -> dict[str, Budget]:
        """What whole runs of k = 0 … K spend, for K = 1 … last, by accounting as `budgets`.

        Empty, by default, for methods whose steps, samples and noise do not follow the horizon.
        """
        return {}

    @property
    def privacy_statement(self) -> str:
        """What its budgets rest on; empty for methods that have none."""
        return ""

    def conditions(self, exposure: Exposure) -> tuple[Condition, ...]:
        """What theorems ask of hyper-parameters and graphs, whether it holds; none by default."""
        return ()

    @classmethod
    def check_setting(
        cls, partition: Partition, objective: Objective, graphs: Graphs | None
    ) -> None:
        """Refuse, with a FedatlasError, a setting that is not this method's."""
        if partition.kind != cls.partition_kind:
            raise FedatlasError(
                f"{cls.title} works on a {cls.partition_kind} partition, but its partition is "
                f"{partition.kind}"
            )
        if objective.min_max != cls.min_max:
            raise FedatlasError(
                f"{cls.title} {'solves min–max problems' if cls.min_max else 'minimises'}, but its "
                f"objective, {objective.name}, is {'' if objective.min_max else 'not '}min–max"
            )

        if cls.on_graphs and graphs is None:
            raise FedatlasError(f"{cls.title} works on graphs: say 'graphs'")
        if not cls.on_graphs and graphs is not None:
            raise FedatlasError(f"{cls.title} does not work on graphs: remove 'graphs'")
        takes_classes = cls.on_graphs or partition.kind == "tiered"
        if isinstance(objective, ClassificationObjective) and not takes_classes:
            raise FedatlasError(f"{cls.title} does not take the objective {objective.name} here")

    def check_graphs(self, states: np.ndarray, trackers: np.ndarray | None) -> None:
        """Refuse, with a FedatlasError, weights (n, n) on which the method cannot run."""

    def check_rounds(self, rounds: int) -> None:
        """Refuse, with a FedatlasError, a number of rounds that does not suit the method."""

    def check_samples(self, samples: int) -> None:
        """Refuse, with a FedatlasError, a number of training samples that does not suffice."""

    def check_partition(self, partition: Partition) -> None:
        """Refuse, with a FedatlasError, a partition on which these hyper-parameters cannot run."""


def algorithm_names() -> list[str]:
    """Every method there is: the files of `fedatlas.algorithms`, but for `_shared` ones."""
    return _names(tuple(algorithms.__path__))


@cache
def _names(folders: tuple[str, ...]) -> list[str]:
    names = (module.name for module in pkgutil.iter_modules(folders))
    return sorted(name for name in names if not name.startswith("_"))


def algorithm_class(name: str) -> type[Algorithm]:
    """The class in the method's file; FedatlasError names the methods that exist."""
    if name not in algorithm_names():
        raise FedatlasError(
            f"unknown algorithm '{name}'; there are: {', '.join(algorithm_names())}"
        )
    return _class_in(importlib.import_module(f"{algorithms.__name__}.{name}"))


@cache  # a plan asks for some thousand times
def _class_in(module: ModuleType) -> type[Algorithm]:
    classes = [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, Algorithm)
        and member.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise FedatlasError(
            f"{module.__file__}: must define one subclass of Algorithm, found {len(classes)}"
        )
    (method,) = classes
    missing = sorted(method.__abstractmethods__)
    missing += [name for name in ("title", "source") if not hasattr(method, name)]
    if missing:
        raise FedatlasError(
            f"{module.__file__}: {method.__name__} must define {', '.join(missing)}"
        )
    return method
