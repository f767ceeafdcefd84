"""Experiments: a figure or table of a paper, typed and validated."""

from typing import Any, Self

from pydantic import Field, NonNegativeInt, PositiveInt, PrivateAttr, model_validator

from fedatlas.schema.claims import Claim
from fedatlas.schema.cost_names import declared_network, link_latencies
from fedatlas.schema.figures import Figure
from fedatlas.schema.graphs import Graphs
from fedatlas.schema.models import Model
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import AucObjective, Objective
from fedatlas.schema.partitions import Partition
from fedatlas.schema.selection import Selection
from fedatlas.schema.studies import BudgetStudy, Landscape, PrivacyAudit


class RunConfig(Model):
    """One method in an experiment; a grid makes it several points."""

    algorithm: str
    title: str | None = Field(default=None, description="in figures; the method's own by default")
    hyper_parameters: dict[str, Any] = Field(default={})
    grid: dict[str, list[Any]] = Field(
        default={}, description="hyper-parameter → values; all combinations are run"
    )
    tuned_in: str | None = Field(
        default=None,
        description="an experiment that chooses, for its run of the same name, what is not stated",
    )
    partition: Partition | None = Field(default=None, description="the experiment's by default")
    objective: Objective | None = Field(default=None, description="the experiment's by default")
    graphs: Graphs | None = Field(default=None, description="the experiment's by default")
    rounds: PositiveInt | None = Field(default=None, description="the experiment's by default")
    record_every: PositiveInt | None = Field(
        default=None, description="the experiment's by default"
    )

    @model_validator(mode="after")
    def _grid_is_sound(self) -> Self:
        for key, values in self.grid.items():
            if key in self.hyper_parameters:
                raise ValueError(f"'{key}' stands both in hyper_parameters and in grid")
            if not values:
                raise ValueError(f"grid '{key}' lists no value")
        if self.tuned_in is not None and self.grid:
            raise ValueError("'tuned_in' takes the place of a grid: remove one of the two")
        return self


class Experiment(Model):
    """One figure or table of a paper."""

    paper: str = Field(description="its key in config/papers.yaml, or 'ours'")
    title: str
    source: str = Field(description="where it stands in the paper")
    notes: str = Field(default="", description="what was reconstructed or chosen here")
    runs_of: str | None = Field(
        default=None,
        description="an experiment whose runs are shown and judged here; there are none of its own",
    )
    only: tuple[str, ...] = Field(
        default=(), description="with runs_of: the runs that are shown; all by default"
    )
    trained: bool = Field(
        default=True, description="false: nothing is, only privacy budgets are computed and judged"
    )
    budgets: BudgetStudy | None = Field(
        default=None, description="tabulate what runs spend of privacy, which needs no training"
    )
    privacy_audit: PrivacyAudit | None = Field(
        default=None, description="attack what runs claim of privacy, on a tiny problem"
    )
    dataset: str
    split: str = "train"
    partition: Partition
    network: NetworkModel | None = Field(
        default=None, description="speeds of parties and links, of vertical partitions only"
    )
    graphs: Graphs | None = Field(
        default=None, description="who sends to whom, of runs without a server only"
    )
    objective: Objective
    rounds: PositiveInt
    record_every: PositiveInt
    seeds: tuple[NonNegativeInt, ...] = Field(min_length=1)
    runs: dict[str, RunConfig] = Field(min_length=1)
    selection: Selection = Selection()
    figure: Figure = Figure()
    claims: tuple[Claim, ...] = ()
    audit: bool = Field(
        default=False, description="tabulate what parties learn from each other's messages"
    )
    landscape: Landscape | None = Field(
        default=None, description="draw the loss surface of a network with two parameters"
    )

    _where: str = PrivateAttr(default="")

    @property
    def where(self) -> str:
        """The file that states it, as errors name it."""
        return self._where

    def stated_in(self, where: str) -> Self:
        """The same, with the file that states it."""
        self._where = where
        return self

    @property
    def measures_suboptimality(self) -> bool:
        """Whether anything here looks at it, so that f* is needed."""
        looked_at = {*self.figure.measurements, self.selection.measurement}
        return "suboptimality" in looked_at.union(*(claim.test.measured for claim in self.claims))

    def partition_of(self, run: str) -> Partition:
        """The partition that a run works on."""
        return self.runs[run].partition or self.partition

    def objective_of(self, run: str) -> Objective:
        """The objective that a run minimises."""
        return self.runs[run].objective or self.objective

    def rounds_of(self, run: str) -> int:
        """How many rounds a run takes."""
        return self.runs[run].rounds or self.rounds

    def record_every_of(self, run: str) -> int:
        """After how many rounds a run is measured again."""
        return self.runs[run].record_every or self.record_every

    @model_validator(mode="after")
    def _parties_have_what_is_theirs(self) -> Self:
        vertical = "vertical" in {self.partition_of(run).kind for run in self.runs}
        if self.network is not None and not vertical:
            raise ValueError("'network' belongs to vertical partitions; remove it")
        if self.audit and self.partition.kind != "vertical":
            raise ValueError("'audit' belongs to a vertical 'partition'; remove it")
        return self

    @model_validator(mode="after")
    def _untrained_ones_have_something(self) -> Self:
        computed = self.budgets or self.privacy_audit
        if not self.trained and (computed is None or self.runs_of is not None):
            raise ValueError(
                "'trained: false' needs 'budgets' or 'privacy_audit', and runs of its own"
            )
        return self

    @model_validator(mode="after")
    def _landscape_is_that_of_a_network(self) -> Self:
        if self.landscape is not None and not isinstance(self.objective, AucObjective):
            raise ValueError(
                f"'landscape' belongs to the objective auc_min_max, not {self.objective.name}; "
                "remove it"
            )
        return self

    @model_validator(mode="after")
    def _names_are_known_and_unique(self) -> Self:
        named = [(f"claim '{claim.id}'", claim.test.runs) for claim in self.claims]
        named.append(("the figure", self.figure.runs))
        shared = self.selection.shared
        named.append(("selection.shared", (*shared, *shared.values())))
        for what, runs in named:
            for run in runs:
                if run not in self.runs:
                    raise ValueError(
                        f"{what} names the run '{run}'; runs are {', '.join(self.runs)}"
                    )
        for claim in self.claims:
            self._check_claim(claim)
        self._check_measurements()
        self._check_costs()
        for run, other in shared.items():
            if self.runs[run].grid != self.runs[other].grid:
                raise ValueError(f"selection.shared: '{run}' and '{other}' must have the same grid")
        identifiers = [claim.id for claim in self.claims]
        if len(set(identifiers)) != len(identifiers):
            raise ValueError("two claims share an id")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError("a seed is listed twice")
        return self

    def _check_claim(self, claim: Claim) -> None:
        """What a claim is judged by is there before anything is trained."""
        for key in claim.test.needs:
            if not getattr(self, key):
                stated = "trained: true" if key == "trained" else key
                raise ValueError(f"claim '{claim.id}': kind {claim.test.kind} needs '{stated}'")
        try:
            claim.test.check(self)
        except ValueError as error:
            raise ValueError(f"claim '{claim.id}': {error}") from None

    def _check_measurements(self) -> None:
        """What is looked at must be measured, and on test rows only if there are any."""
        if not self.trained:
            return
        runs = tuple(self.runs)
        looked_at = [
            (f"claim '{claim.id}'", measurement, claim.test.runs)
            for claim in self.claims
            for measurement in claim.test.measured
        ]
        looked_at += [("the figure", shown, runs) for shown in self.figure.measurements]
        looked_at.append(("the selection", self.selection.measurement, runs))
        for what, measurement, named in looked_at:
            for run in named:
                known = self._measured(run)
                if measurement not in known:
                    raise ValueError(
                        f"{what} looks at {measurement}, which run '{run}' does not measure: name "
                        f"one of {', '.join(known)}"
                    )
                if measurement.startswith("test_") and self.partition_of(run).test is None:
                    raise ValueError(
                        f"{what} looks at {measurement}, but run '{run}' keeps no test rows: give "
                        "its partition a 'test'"
                    )

    def _measured(self, run: str) -> tuple[str, ...]:
        """What a run measures: only agents have accuracies of their own, and disagree."""
        known = self.objective_of(run).measurements
        if self.partition_of(run).kind != "tiered":
            return known
        return tuple(name for name in known if "agent" not in name and name != "disagreement")

    def _check_costs(self) -> None:
        """What is looked at must be counted."""
        looked_at = [
            (f"claim '{claim.id}'", cost, claim.test.runs)
            for claim in self.claims
            for cost in claim.test.counted
        ]
        if self.figure.kind == "convergence":
            looked_at += [("the figure", cost, tuple(self.runs)) for cost in self.figure.costs]
        for what, cost, named in looked_at:
            lacks = {run: self._lacks(run, cost) for run in named}
            missing = [run for run, reason in lacks.items() if reason]
            # A figure's column shows the runs that count its cost, if any does.
            if missing and (what != "the figure" or len(missing) == len(named)):
                raise ValueError(
                    f"{what} looks at {cost}, which run '{missing[0]}' does not count: "
                    f"{lacks[missing[0]]}"
                )

    def _lacks(self, run: str, cost: str) -> str:
        """Why a run does not count a cost; empty if it does."""
        kind = self.partition_of(run).kind
        on_graphs = self.graphs is not None or self.runs[run].graphs is not None
        network = declared_network(cost)
        if link_latencies(cost) is not None and kind != "tiered":
            return "it has no silos"
        if cost in ("simulated_time", "update_epoch") and kind != "vertical":
            return "it has no parties"
        if cost == "epsilon" and not (on_graphs and kind == "horizontal"):
            return "it is not private"
        if network is not None and kind == "vertical":
            own = (self.network or NetworkModel()).latency
            if own != network.latency:
                return f"its own clock has the latency {own:g} s; state 'network: {{latency: …}}'"
        return ""
