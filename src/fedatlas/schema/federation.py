"""Federations: the properties that each declares, and which federation a run belongs to.

Each folder of `fedatlas.federations` has one subclass of Federation in its `__init__`. Checks,
sharding, costs, rehearsals, scope and comparability ask this class. No other code depends on which
federation a run has.
"""

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import only_subclass
from fedatlas.schema.network_model import AnyNetworkModel, Backend, NetworkModel, StarNetworkModel
from fedatlas.schema.objectives import Objective
from fedatlas.schema.quantities import COSTS, declared_as, declared_network, link_latencies

#: Gives the samples of each client of a partition's first silo, (clients,).
Sizes: TypeAlias = Callable[[], np.ndarray]

_FOLDER = "fedatlas.federations"
#: Samples of a client that may have any number, and features, in a rehearsal.
FEW = 6
# Every run counts these, besides its federation's counters.
_ALWAYS = ("round", "epoch", "wall_time")
_PRIVACY = ("epsilon", "delta")
#: Measurements that only agents make, each of which has a model.
OF_AGENTS = ("test_accuracy_of_agents", "test_accuracy_of_worst_agent", "disagreement")


class Tiny(NamedTuple):
    """A partition of generated samples on which a method is rehearsed.

    changes: keys that replace those of the run's partition. clients, rows: how many there are.
    columns: how many columns rows without a shape have. cut: the axes of a sample that are cut, and
    into how many blocks.
    """

    changes: dict[str, Any]
    clients: int
    rows: int
    columns: int = FEW
    cut: Mapping[str, int] = {"width": 1}


class Assembled(NamedTuple):
    """A model in the form in which others load it.

    arrays: by name, as in torch's state_dict. about: what scoring needs besides, as JSON data.
    """

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]


class Federation(ABC):
    """A federation: who holds what, and who sends to whom. Its folder declares it.

    partition_kind, on_graphs, min_max, backend: these decide which runs belong to it.
    objectives: what its methods minimise.
    sharding: the function that shares out the rows of its kind of partition, as "module:name".
    holders: the word for those who hold data.
    counters: the dataclass in which its problems and networks count; fields are named as costs or
        measurements.
    mean_of_clients: whether the objective is a mean over clients, by default with equal weights.
    weighs_clients: whether clients may be weighted by their sizes or by declared weights.
    has_prox: whether its problems have `prox`, for objectives with a term without a gradient.
    validates: whether its partitions may keep validation rows.
    has_budgets: whether methods may account for the privacy that they spend.
    own_clock: whether all runs simulate time, event by event.
    network_model: the model of a run's `network`, where runs have one.
    may_miss: whether holders may be absent, late or lost.
    timed_counters: like counters, for runs that simulate time only if they declare a network.
    draws_by_seed: whether its networks draw random numbers of their own from the seed.
    linear_on_gpus: whether linear models run on a GPU if `device` names one.
    compiled_draws: whether compiled loops draw methods' random numbers.
    instead: a cost that it lacks → the cost to name in its place.
    inwards, outwards: the network's calls that carry arrays to the server, neighbours or hubs
        (inwards), and from there back (outwards).
    moves: calls that move what holders keep to themselves; their network carries what these need.
    needed: calls of which a method must make at least one; silent: the error if it makes none.
    rehearsal: the promises that are rehearsed, see `training.rehearsal`; rounds: how many it takes.
    model, inward_call: the words for the model, and for the call that carries to it, in errors that
        a rehearsal finds.
    """

    name: ClassVar[str]  # of its folder
    partition_kind: ClassVar[str]
    on_graphs: ClassVar[bool] = False
    min_max: ClassVar[bool] = False
    backend: ClassVar[Backend] = "simulated"
    objectives: ClassVar[tuple[type[Any], ...]]
    sharding: ClassVar[str]
    holders: ClassVar[str]
    counters: ClassVar[type[Any]]
    mean_of_clients: ClassVar[bool] = False
    weighs_clients: ClassVar[bool] = False
    has_prox: ClassVar[bool] = False
    validates: ClassVar[bool] = False
    has_budgets: ClassVar[bool] = False
    own_clock: ClassVar[bool] = False
    network_model: ClassVar[type[Any] | None] = None
    may_miss: ClassVar[bool] = False
    timed_counters: ClassVar[type[Any] | None] = None
    draws_by_seed: ClassVar[bool] = False
    linear_on_gpus: ClassVar[bool] = False
    compiled_draws: ClassVar[bool] = False
    instead: ClassVar[Mapping[str, str]] = {}
    inwards: ClassVar[tuple[str, ...]] = ()
    outwards: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[tuple[str, ...]] = ()
    needed: ClassVar[tuple[str, ...]]
    silent: ClassVar[str]
    rehearsal: ClassVar[tuple[str, ...]] = ()
    rounds: ClassVar[int] = 3
    model: ClassVar[str] = "the server's model"
    inward_call: ClassVar[str] = "network.gather"

    def __init_subclass__(cls) -> None:
        cls.name = cls.__module__.rpartition(".")[2]

    @classmethod
    def check_network(cls, network: AnyNetworkModel | None) -> None:
        """Refuse, with a FedatlasError, a network whose nodes may miss what others wait for."""
        if isinstance(network, StarNetworkModel) and network.misses and not cls.may_miss:
            raise FedatlasError(
                f"key 'network': all {cls.holders} take part in every exchange; only clients that "
                "a server chooses and agents on graphs may be away, late or lost: remove "
                "'availability', 'loss' and 'deadline'"
            )

    @classmethod
    def counters_of(cls, network: AnyNetworkModel | None) -> type[Any]:
        """The counters of runs with this network."""
        return cls.counters if network is None else cls.timed_counters or cls.counters

    @classmethod
    @cache  # a plan asks a hundred thousand times
    def counts(cls, timed: bool = False) -> tuple[str, ...]:
        """The costs that its runs count; timed: that have `timed_counters`."""
        counters = (timed and cls.timed_counters) or cls.counters
        counted = tuple(field.name for field in fields(counters) if field.name in COSTS)
        return (*_ALWAYS, *counted, *(_PRIVACY if cls.has_budgets else ()))

    @classmethod
    def why_not_counted(cls, cost: str, network: AnyNetworkModel | None) -> str:
        """Why its runs do not count a cost; empty if they do.

        network: that of the run.
        """
        if by_file := declared_as(cost):
            return by_file.why_not(cls.name)
        counter = "hub_client_trips" if link_latencies(cost) is not None else cost
        if counter in cls.instead:
            return cls.instead[counter]
        timed = network is not None
        if counter in COSTS and counter not in cls.counts(timed):
            if counter in cls.counts(True):
                return "it states no 'network' (docs/adding/clocks.md)"
            if counter == "epsilon":
                return "it is not private"
            others = {each.holders: each for each in federations() if counter in each.counts()}
            kinds = {each.partition_kind for each in others.values()}
            if len(others) == 1 and cls.partition_kind not in kinds:
                return f"it has no {next(iter(others))}"
            return f"it counts {', '.join(name for name in COSTS if name in cls.counts(timed))}"
        declared = declared_network(cost)
        if declared is not None and cls.own_clock:
            own = network.latency if isinstance(network, NetworkModel) else declared.latency
            if own != declared.latency:
                return f"its own clock has the latency {own:g} s; state 'network: {{latency: …}}'"
        return ""

    @classmethod
    def measures(cls, objective: Objective) -> tuple[str, ...]:
        """What its runs measure: by the objective, and the counters that are no costs."""
        known = [name for name in objective.measurements if name not in OF_AGENTS]
        return (*known, *(field.name for field in fields(cls.counters) if field.name not in COSTS))

    @classmethod  # noqa: B027 most federations take samples of any shape
    def check_columns(cls, partition: Any, shape: tuple[int, ...]) -> None:
        """Refuse, with a FedatlasError, a partition that samples of this shape do not suit."""

    @classmethod
    @abstractmethod
    def describe(cls, partitions: Sequence[Any]) -> str:
        """Who holds the rows, over partitions of its kind that may differ."""

    @classmethod
    @abstractmethod
    def read(cls, files: Sequence[Path]) -> Any:
        """The samples in the shards of a partition, in the order of its silos."""

    @classmethod
    @abstractmethod
    def engine(cls, spec: Any, files: Sequence[Path], device: str) -> Any:
        """The arithmetic of a run over the shards in these files, in the order of their silos."""

    @classmethod
    @abstractmethod
    def network(cls, spec: Any, engine: Any, counters: Any, seed: int) -> Any:
        """The network of one seed of a run, which counts in these."""

    @classmethod
    @abstractmethod
    def assembled(
        cls, spec: Any, engine: Any, point: Any, shards: Sequence[Any], shape: tuple[int, ...]
    ) -> Assembled:
        """The whole model at a point that was measured, put together from its holders' parts.

        shards: metadata of the seed's, in the order of their silos. shape: of a prepared sample.
        """

    @classmethod
    @abstractmethod
    def tiny(cls, partition: Any, hyper_parameters: Mapping[str, Any], sizes: Sizes) -> Tiny:
        """What a method is rehearsed on; sizes: asked for those of the run's clients."""


@cache
def federations() -> tuple[type[Federation], ...]:
    """All of them, by the names of their folders."""
    package = find_spec(_FOLDER)
    assert package is not None
    folders = package.submodule_search_locations
    found = (module.name for module in pkgutil.iter_modules(folders) if module.ispkg)
    every = tuple(_federation(name) for name in sorted(found))
    by_runs: dict[tuple[Any, ...], type[Federation]] = {}
    for each in every:
        runs = each.partition_kind, each.on_graphs, each.min_max, each.backend
        if (other := by_runs.setdefault(runs, each)) is not each:
            raise FedatlasError(
                f"{_FOLDER}: '{other.name}' and '{each.name}' declare the same runs; give one a "
                "partition_kind of its own (docs/adding/package.md)"
            )
    return every


def _federation(name: str) -> type[Federation]:
    module: Any = import_module(f"{_FOLDER}.{name}")
    found: Any = only_subclass(module, Federation)
    return found


@cache
def federation_of(
    kind: str, *, on_graphs: bool = False, min_max: bool = False, backend: Backend = "simulated"
) -> type[Federation]:
    """The federation of runs on a kind of partition; graphs and objective decide among several."""
    found = [each for each in federations() if each.partition_kind == kind]
    for key, value in (("on_graphs", on_graphs), ("backend", backend), ("min_max", min_max)):
        found = [each for each in found if getattr(each, key) == value] or found
    return found[0]


def format_span(values: Iterable[int], unit: str = "", units: str = "") -> str:
    """One number, two, or the smallest to the largest of many, with their unit if there is one."""
    distinct = sorted(set(values))
    separator = " or " if len(distinct) == 2 else " to "
    ends = dict.fromkeys([distinct[0], distinct[-1]])
    numbers = separator.join(f"{number:,}" for number in ends)
    if not unit:
        return numbers
    return f"{numbers} {unit if distinct == [1] else units or f'{unit}s'}"
