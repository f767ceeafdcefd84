"""Studies that experiments compute besides training: loss surfaces, privacy budgets, attacks.

A new study needs a key in `Studies`, a step in `fedatlas.steps`, a rule in
`rules/experiments.smk`, and a module in `fedatlas.studies` that computes it.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from fedatlas.schema.models import Model
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import AucObjective, LinearObjective
from fedatlas.schema.partitions import VerticalPartition


class Landscape(Model):
    """The range over which the loss surface of a network with two parameters is drawn.

    first, second: lowest and highest value of m_1 and of m_2. points: how many on either axis.
    """

    first: tuple[float, float]
    second: tuple[float, float]
    points: int = Field(default=121, ge=2, le=2001)

    @model_validator(mode="after")
    def _ranges_ascend(self) -> Self:
        for key in ("first", "second"):
            low, high = getattr(self, key)
            if not low < high:
                raise ValueError(f"{key}: {low:g} to {high:g} must ascend")
        return self


class BudgetStudy(Model):
    """Quantities that privacy budgets depend on besides hyper-parameters and graphs.

    samples: D, the samples of each agent. dimension: d, the model's. last_horizon: budgets of whole
    runs are computed for every horizon up to this one. far_horizon: DP-GT's Lemma 3 is evaluated up
    to this horizon, by closed sums at ten horizons of each decade from 100 on, for any D.
    without: accountings that are left out, by name. Claims and figures use the first accounting of
    a run that remains.
    """

    samples: PositiveInt
    dimension: PositiveInt
    last_horizon: PositiveInt
    far_horizon: int | None = Field(default=None, ge=10_000, le=1_000_000)
    without: tuple[str, ...] = ()


#: Measurements of which a constant predictor has a value.
OF_PREDICTORS = frozenset(
    ("objective", "suboptimality", "test_accuracy_of_agents", "test_accuracy_of_worst_agent")
).union(
    f"{rows}_{quality}"
    for rows in ("train", "test")
    for quality in ("accuracy", "auroc", "f1", "top5_accuracy", "rmse")
)


class ComparedRuns(Model):
    """The runs of VFB²-SGD that processes and the simulated network are compared on.

    step_size: γ. rounds: how often models are measured. updates: number of dominated updates
    between two measurements. seed: the seed that draws samples.
    """

    step_size: PositiveFloat
    rounds: PositiveInt
    updates: PositiveInt
    seed: NonNegativeInt = 0


class BackendComparison(ComparedRuns):
    """How an experiment compares the simulated network with processes.

    The data and the objective are the experiment's. parties: the numbers q of parties. active: the
    number m of active parties, for each q. network: the delays that processes add; by default the
    experiment's.
    """

    parties: tuple[Annotated[int, Field(ge=2)], ...] = Field(min_length=2)
    active: PositiveInt = 2
    network: NetworkModel | None = None

    @field_validator("parties")
    @classmethod
    def _rise(cls, parties: tuple[int, ...]) -> tuple[int, ...]:
        if list(parties) != sorted(set(parties)):
            raise ValueError("numbers of parties must rise")
        return parties

    @model_validator(mode="after")
    def _active_parties_are_parties(self) -> Self:
        if self.active > self.parties[0]:
            raise ValueError(f"'active' is {self.active}, more than {self.parties[0]} parties")
        return self


class PartyValidation(ComparedRuns):
    """The whole comparison, see `studies.validation`. network: the delays that processes add."""

    objective: LinearObjective
    network: NetworkModel


class PrivacyAudit(Model):
    """Adjacent data sets that test claimed budgets, see `fedatlas.studies.privacy_audit`.

    samples: D of every agent of the tiny problem; by default as many as an iteration draws.
    curvatures: h of quadratic losses; each gives a pair of adjacent data sets. Agents need at least
        one; clients around a server have none.
    remark_4: also test the nonconvex loss of the paper's Remark 4, x² + 3 sin² x, tilted.
    runs: number of runs on either data set for an attack that ranks sampled runs; by default the
        attack is left out.
    seed: the seed of these runs.
    delta: δ at which one tight accountant computes ε, see `fedatlas.studies.equal_privacy`;
        `samples` are then those of the smallest agent.
    dimension: with `delta`, the number of the model's parameters.
    """

    samples: PositiveInt | None = None
    dimension: PositiveInt | None = None
    delta: float | None = Field(default=None, gt=0, lt=1)
    curvatures: tuple[float, ...] = ()
    remark_4: bool = False
    runs: int | None = Field(default=None, ge=100)
    seed: NonNegativeInt = 0


#: What certificates bound, see `fedatlas.studies.certificates.Setting`.
Measure: TypeAlias = Literal["distance", "gradients"]


class WorstCases(Model):
    """The class of functions over which worst cases of runs are computed exactly.

    N is a run's number of clients, agents or workers (for parties, the number of samples), R its
    number of rounds, and its `grid` has the steps.

    smoothness, convexity: L and μ of every f_i; μ = −L requires no convexity.
    measure: what is bounded. `distance`: ‖x^R − x*‖² starting at ‖x⁰ − x*‖ = 1; for agents the mean
        over them. `gradients`: the mean of ‖∇f(xʳ)‖² over rounds r < R, from f(x⁰) − f* = 1.
    dissimilarity: ζ. The mean over clients of ‖∇f_i‖² is at most ζ², at x*, or with `gradients` at
        x⁰; null sets no bound.
    dimension: d, in which compressors have their contraction.
    longest: the most coin tosses of a round; expectations are conditional on no more tosses.
    functions: the number of the suite's quadratics of the class on which each point is run, with
        successive seeds from the experiment's first.
    """

    smoothness: PositiveFloat = 1.0
    convexity: float
    measure: Measure
    dissimilarity: NonNegativeFloat | None = None
    dimension: PositiveInt = 4
    longest: PositiveInt = 3
    functions: PositiveInt = 20

    @model_validator(mode="after")
    def _is_a_class(self) -> Self:
        if not -self.smoothness <= self.convexity < self.smoothness:
            raise ValueError("'convexity' must be from −L to below L, L being 'smoothness'")
        least = sqrt(2 * self.smoothness)
        bounds = self.measure == "gradients" and self.dissimilarity is not None
        if bounds and self.dissimilarity < least:  # type: ignore[operator]
            raise ValueError(
                f"'dissimilarity' must be at least √(2L) = {least:.3g} of 'gradients': so large is "
                "‖∇f(x⁰)‖ where f(x⁰) − f* = 1"
            )
        return self


class Studies(Model):
    """The keys by which an experiment asks for studies.

    budgets: tabulate the privacy that runs spend, which needs no training.
    privacy_audit: attack the privacy that runs claim, on a tiny problem.
    audit: tabulate what parties learn from each other's messages.
    validation: compare the simulated network with parties that are processes.
    theory: tabulate and draw theorems beside runs of linear models and scorers, or of agents on
        functions with known constants.
    landscape: draw the loss surface of a network with two parameters.
    worst_cases: certify runs over all functions of a class, which needs no training.
    """

    budgets: BudgetStudy | None = None
    privacy_audit: PrivacyAudit | None = None
    audit: bool = False
    validation: BackendComparison | None = None
    theory: bool = False
    landscape: Landscape | None = None
    worst_cases: WorstCases | None = None

    def belongings(self, experiment: Any) -> Iterator[tuple[str, Any, str]]:
        """Keys of studies that do not suit every `Experiment`, whether this one, and which ones."""
        objective, vertical = (
            experiment.objective,
            isinstance(experiment.partition, VerticalPartition),
        )
        yield "audit", vertical, "a vertical 'partition'"
        own_runs = isinstance(objective, LinearObjective) and not experiment.runs_of
        network = experiment.network or (self.validation and self.validation.network)
        yield (
            "validation",
            vertical and own_runs and network,
            "vertical partitions with a 'network' and runs of their own",
        )
        kinds = {experiment.partition_of(run).kind for run in experiment.runs}
        yield (
            "theory",
            len(kinds) == 1 and objective.has_constants,
            "linear models over partitions of one kind, to functions whose constants are known, "
            "and to auc_min_max with 'model: linear', 'scores: linear' and 'stationarity: true'",
        )
        yield (
            "worst_cases",
            all(run.grid for run in experiment.runs.values()) and not experiment.runs_of,
            "runs of their own with a 'grid' of steps",
        )
        suits = isinstance(objective, AucObjective)
        yield "landscape", suits, f"the objective auc_min_max, not {objective.name}"
