"""Workers with whole samples around a server, solving a min–max problem with a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import ClientFederation, timed
from fedatlas.federations.min_max.problem import MinMaxProblem, PrimalDual
from fedatlas.federations.parts import Counters, StarNetwork, TimedCounters
from fedatlas.schema.federation import Assembled, Federation
from fedatlas.schema.network_model import StarNetworkModel
from fedatlas.schema.objectives import AucObjective
from fedatlas.schema.runs import RunSpec


@dataclass
class TimedWorkers(TimedCounters, Counters):
    """Counters of runs that state a network."""


class MinMax(ClientFederation):
    """All workers take part in every round."""

    min_max = True
    objectives = (AucObjective,)
    holders = "clients"
    counters = Counters
    network_model, timed_counters = StarNetworkModel, TimedWorkers
    inwards, outwards = ("gather",), ("broadcast",)
    needed = ("gather",)
    silent = "the server is sent nothing: call network.gather"
    rehearsal = ("inwards", "rows")

    @classmethod
    def engine(cls, spec: Any, files: Sequence[Path], device: str) -> MinMaxProblem:
        from fedatlas.federations.min_max.engine import AucEngine

        return AucEngine(cls.read(files), spec.objective, device, rounds=spec.rounds_of_all_seeds)

    @classmethod
    def assembled(
        cls, spec: Any, engine: Any, point: Any, shards: Sequence[Any], shape: tuple[int, ...]
    ) -> Assembled:
        """The scorer's parameters, a and b, which are θ, and w."""
        network = engine.network.state_dict(point.theta[:-2])
        arrays = {f"network.{name}": part for name, part in network.items()}
        a, b = engine.numpy(point.theta[-2:])[:, None]
        return Assembled(arrays | {"a": a, "b": b, "w": engine.numpy(point.w)}, {})

    @classmethod
    def network(cls, spec: Any, engine: Any, counters: Any, seed: int) -> Any:
        workers = engine.clients
        network = StarNetwork(workers, counters)
        # Each worker has a link of its own.
        return timed(network, counters, spec, seed, workers, down=cls.outwards, share=1 / workers)


class MinMaxAlgorithm(Algorithm):
    """A server and N workers, all of which take part in every round: q local steps, then averages.

    The problem is a MinMaxProblem, the network a StarNetwork; a state has the fields `theta` and
    `w`, the averages that all workers hold after a round.

    local_steps: q. batch_size: b (None: full local batches). primal_step_size, dual_step_size: of
    θ = (m, a, b), which descends, and of w, which ascends.
    """

    federation: ClassVar[type[Federation]] = MinMax

    local_steps: PositiveInt
    batch_size: PositiveInt | None = None
    primal_step_size: PositiveFloat
    dual_step_size: PositiveFloat

    def point(self, state: Any, network: StarNetwork) -> PrimalDual:
        """The averaged θ and w."""
        return PrimalDual(state.theta, state.w)

    @property
    def effective_step_size(self) -> float:
        """The step of θ."""
        return self.primal_step_size


@dataclass(frozen=True)
class Stage:
    """Where a schedule stands: finished stages, rounds left in this one, and its step factor.

    begins: whether no round of the stage is done yet.
    """

    finished: int
    rounds_left: int
    step_factor: float
    begins: bool


class StagedMinMaxAlgorithm(MinMaxAlgorithm):
    """Stages of regularised descent and ascent on F(θ, w) + proximal_weight/2 · ‖θ − θ_ref‖².

    first_stage_rounds: R_1, fewer than a run has (None: one stage, whose end is never reached).
    stage_growth: R_{s+1} = stage_growth · R_s. step_decay: every stage divides the steps by it.
    proximal_weight: 1/γ, by default as in CODASCA's public code.
    proximal_step: `explicit` adds the pull 1/γ (θ − θ_ref) to the gradient, as public code does;
        `implicit` takes it at the new point, θ ← (θ − η (g − θ_ref/γ))/(1 + η/γ), which is the
        proximal step of Guo et al. 2020. With 1/γ = 1/500 and η = 0.1 both pull alike up to a
        factor of 1.0002.
    """

    first_stage_rounds: PositiveInt | None = None
    stage_growth: float = Field(default=3.0, ge=1)
    step_decay: float = Field(default=3.0, ge=1)
    proximal_weight: NonNegativeFloat = 1 / 500
    proximal_step: Literal["explicit", "implicit"] = "explicit"

    def check_run(self, spec: RunSpec) -> None:
        """If stages are asked for, there must be rounds for a second one."""
        if self.first_stage_rounds is not None and self.first_stage_rounds >= spec.rounds:
            raise FedatlasError(
                f"'first_stage_rounds' is {self.first_stage_rounds}, but a run has "
                f"{spec.rounds} "
                "rounds: no second stage would begin; lower it, or leave it out for a single stage"
            )

    @property
    def first_stage(self) -> Stage:
        """The schedule before round 0; 0 rounds are left of a stage without an end."""
        return Stage(0, self.first_stage_rounds or 0, 1.0, begins=True)

    def after_round(self, stage: Stage) -> Stage:
        """The schedule after one more round."""
        if self.first_stage_rounds is None:
            return replace(stage, begins=False)
        if stage.rounds_left > 1:
            return replace(stage, rounds_left=stage.rounds_left - 1, begins=False)
        finished = stage.finished + 1
        rounds = round(self.first_stage_rounds * self.stage_growth**finished)
        return Stage(finished, rounds, self.step_decay**-finished, begins=True)

    def step_sizes(self, stage: Stage) -> tuple[float, float]:
        """The steps of θ and of w in a stage."""
        return stage.step_factor * self.primal_step_size, stage.step_factor * self.dual_step_size

    def descended(self, theta: Any, direction: Any, theta_ref: Any, step: float) -> Any:
        """θ, (N, d), after a step along a direction that lacks the pull towards θ_ref, (d,)."""
        moved = theta - step * (direction + self.proximal_weight * (theta - theta_ref))
        if self.proximal_step == "explicit":
            return moved
        # θ⁺ = θ − η (g + (θ⁺ − θ_ref)/γ): all of the explicit move, shortened.
        return theta + (moved - theta) / (1 + step * self.proximal_weight)
