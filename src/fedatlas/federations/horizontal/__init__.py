"""Clients with whole samples around a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import ClientFederation
from fedatlas.federations.horizontal.timed_network import LossyCounters
from fedatlas.federations.parts import Counters, Load, StarNetwork, linear_model
from fedatlas.schema.federation import Assembled, Federation, Sizes, Tiny
from fedatlas.schema.models import Model
from fedatlas.schema.network_model import StarNetworkModel
from fedatlas.schema.objectives import LinearObjective, PredictionObjective
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import RunSpec

if TYPE_CHECKING:  # the workflow imports federations when it is parsed: keep libraries out of that
    from fedatlas.federations.horizontal.problem import HorizontalProblem

_CLIENTS = 30  # in a rehearsal, if no more take part in a round


class Horizontal(ClientFederation):
    """Some clients take part in every round."""

    objectives = (LinearObjective, PredictionObjective)
    holders = "clients"
    counters = Counters
    network_model, timed_counters, may_miss = StarNetworkModel, LossyCounters, True
    weighs_clients = True
    has_prox = validates = True
    has_budgets = True
    inwards, outwards = ("gather",), ("broadcast",)
    needed = ("gather",)
    silent = "the server is sent nothing: call network.gather with the clients' rows"
    rehearsal = ("inwards", "rows", "outwards", "clocks")
    linear_on_gpus = True
    compiled_draws = True

    @classmethod
    def tiny(cls, partition: Any, hyper_parameters: Mapping[str, Any], sizes: Sizes) -> Tiny:
        """With fewer clients: to write a hundred thousand would take seconds."""
        together = (hyper_parameters.get(key, 1) for key in ("clients_per_round", "concurrency"))
        most = max(_CLIENTS, 2 * max(map(int, together)))
        tiny = super().tiny(partition, hyper_parameters, sizes)
        clients = min(tiny.clients, most)
        each = tiny.rows // tiny.clients
        changes = tiny.changes | {"clients": clients}
        return tiny._replace(changes=changes, clients=clients, rows=clients * each)

    @classmethod
    def engine(cls, spec: Any, files: Sequence[Path], device: str) -> HorizontalProblem:
        """Of linear models on "auto" the CPU's: compiled loops beat a GPU's launch times."""
        if isinstance(spec.objective, PredictionObjective):
            from fedatlas.federations.horizontal.network_engine import NetworkEngine

            return NetworkEngine(cls.read(files), spec.objective, device)
        if device == "cpu":
            from fedatlas.federations.horizontal.cpu_engine import CompiledEngine

            return CompiledEngine(cls.read(files), spec.objective)
        from fedatlas.federations.horizontal.torch_engine import TorchEngine

        return TorchEngine(cls.read(files), spec.objective, device)

    @classmethod
    def assembled(
        cls, spec: Any, engine: Any, point: Any, shards: Sequence[Any], shape: tuple[int, ...]
    ) -> Assembled:
        """The server's x."""
        if isinstance(spec.objective, PredictionObjective):
            return Assembled(engine.network.state_dict(point), {})
        return linear_model(spec, engine.numpy(point))

    @classmethod
    def network(cls, spec: Any, engine: Any, counters: Any, seed: int) -> StarNetwork:
        if spec.network is None:
            return StarNetwork(engine.clients, counters)
        from fedatlas.federations.horizontal.timed_network import TimedNetwork
        from fedatlas.federations.times import ClientTimes

        times = ClientTimes(spec.network, engine.clients, seed)
        return TimedNetwork(engine.clients, counters, times)


class ServerAlgorithm(Algorithm):
    """A server and clients.

    The problem is a HorizontalProblem, the network a StarNetwork, or a TimedNetwork where the run
    states a `network`; a state has a field `x`, the server's model (d,).

    together: the hyper-parameter that says how many clients compute at a time.
    """

    federation: ClassVar[type[Federation]] = Horizontal
    together: ClassVar[str]

    def point(self, state: Any, network: Any) -> Any:
        """The server's model."""
        return state.x

    def check_run(self, spec: RunSpec) -> None:
        """There must be enough clients."""
        partition, size = spec.partition, getattr(self, self.together)
        assert isinstance(partition, HorizontalPartition)
        if size > partition.clients:
            raise FedatlasError(
                f"'{self.together}' is {size}, but the partition has only "
                f"{partition.clients} clients"
            )


class HorizontalAlgorithm(ServerAlgorithm):
    """A server and clients, of which some take part in every round.

    clients_per_round: S, how many take part.
    """

    together: ClassVar[str] = "clients_per_round"

    clients_per_round: PositiveInt


class LocalSteps(Model):
    """Local work of clients: K = local_steps steps of η_l = local_step_size.

    b = batch_size (None: full local gradients).
    """

    local_steps: PositiveInt
    local_step_size: PositiveFloat
    batch_size: PositiveInt | None = None

    @property
    def effective_step_size(self) -> float:
        """K η_l."""
        return self.local_steps * self.local_step_size

    def local_load(
        self, problem: HorizontalProblem, *more: tuple[int | None, int], **models: Any
    ) -> Load:
        """What a client does for an answer, see `problem.load`; more: gradients besides.

        models: what is carried, as of it.
        """
        return problem.load(self.load_of_steps(), *more, **models)

    def load_of_steps(self) -> tuple[int | None, int]:
        """The size of minibatches, None for all samples, and how many gradients are taken."""
        return self.batch_size, self.local_steps


class ServerStep(LocalSteps):
    """The same, and a step of the server along their mean.

    η_g = global_step_size, η̃ = effective_step. Where η̃ is declared, η_g is η̃/(K η_l); otherwise
    η_g is 1 by default.
    """

    global_step_size: PositiveFloat | None = None
    effective_step: PositiveFloat | None = None

    @property
    def effective_step_size(self) -> float:
        """η̃ = K η_g η_l."""
        if self.effective_step is not None:
            return self.effective_step
        return self.local_steps * (self.global_step_size or 1.0) * self.local_step_size

    @property
    def server_step_size(self) -> float:
        """η_g."""
        if self.effective_step is not None:
            return self.effective_step / (self.local_steps * self.local_step_size)
        return self.global_step_size or 1.0

    @model_validator(mode="after")
    def _one_of_them_is_stated(self) -> Self:
        if self.effective_step is not None and self.global_step_size is not None:
            raise ValueError(
                "effective_step and global_step_size are both declared, and one gives the other: "
                "remove one of them"
            )
        return self


class LocalWork(LocalSteps):
    """Local steps that may be counted in epochs, and whose size may change.

    local_unit: what K = local_steps counts: steps, each with a fresh minibatch, or epochs, passes
        over a client's samples that are shuffled anew in each, so that clients take as many steps
        as their samples fill.
    step_factors: first round → factor of η_l from there on; before the first it is 1.
    """

    local_unit: Literal["steps", "epochs"] = Field(
        default="steps", exclude_if=lambda unit: unit == "steps"
    )
    step_factors: dict[NonNegativeInt, PositiveFloat] = Field(
        default={}, exclude_if=lambda factors: not factors
    )

    def load_of_steps(self) -> tuple[int | None, int]:
        """An epoch is a gradient over all that a client has."""
        size = self.batch_size if self.local_unit == "steps" else None
        return size, self.local_steps

    def local_batches(
        self, problem: HorizontalProblem, random: RoundRandom, clients: np.ndarray
    ) -> Minibatches:
        """The samples of all local steps of a round."""
        draw = problem.epochs if self.local_unit == "epochs" else problem.minibatches
        return draw(random, clients, self.batch_size, self.local_steps)

    def local_step_at(self, number: int) -> float:
        """η_l of a round, from 0."""
        begun = [first for first in self.step_factors if first <= number]
        factor = self.step_factors[max(begun)] if begun else 1.0
        return factor * self.local_step_size


class LocalStepsAlgorithm(ServerStep, HorizontalAlgorithm):
    """Methods whose rounds are K local steps and one of the server along their mean.

    S = clients_per_round.
    """


class LocalWorkAlgorithm(LocalWork, LocalStepsAlgorithm):
    """The same, whose local work may be counted in epochs, and whose local step may change."""

    @model_validator(mode="after")
    def _a_round_has_one_length(self) -> Self:
        if self.local_unit == "epochs" and self.effective_step is not None:
            raise ValueError(
                "effective_step: K η_g η_l is the length of a round where all take K steps; with "
                "'local_unit: epochs' a client takes as many as its samples fill, and there is no "
                "such length: state global_step_size, which is η_g, in its place"
            )
        return self


class AsynchronousAlgorithm(LocalWork, ServerAlgorithm):
    """Methods whose server takes answers as they arrive, on the network that the run states.

    concurrency: how many clients compute at a time.
    """

    asynchronous: ClassVar[bool | None] = True
    together: ClassVar[str] = "concurrency"

    concurrency: PositiveInt

    def check_run(self, spec: RunSpec) -> None:
        """Who answers when follows from a network."""
        super().check_run(spec)
        if spec.network is None:
            raise FedatlasError(
                f"key 'network': {self.title} takes answers as they arrive, which a network "
                "decides: state one with 'seconds_per_gradient' (docs/adding/clocks.md)"
            )
