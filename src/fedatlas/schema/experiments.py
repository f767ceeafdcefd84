"""Experiments: a figure or table of a paper, typed and validated."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, ClassVar, Self

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    SerializeAsAny,
    field_validator,
    model_validator,
)

from fedatlas.schema.claims import Claim
from fedatlas.schema.declared import Declared
from fedatlas.schema.endings import Ending, Until, ending_of
from fedatlas.schema.federation import Federation, federation_of
from fedatlas.schema.figures import Figure
from fedatlas.schema.graphs import Graphs
from fedatlas.schema.models import find_repeated, in_full
from fedatlas.schema.network_model import AnyNetworkModel, NetworkModel, StarNetworkModel
from fedatlas.schema.objectives import Objective, PolyakObjective
from fedatlas.schema.partitions import Partition, VerticalPartition
from fedatlas.schema.quantities import MEASUREMENTS, DeclaredName, declared_as
from fedatlas.schema.runs import RecordEvery, RunConfig, Selection
from fedatlas.schema.studies import OF_PREDICTORS, Studies


class Experiment(Studies):
    """One figure or table of a paper.

    paper: its key in config/papers.yaml, or `ours`. source: where it stands in the paper.
    notes: what was reconstructed or chosen here.
    runs_of: an experiment whose runs are shown and judged here, instead of own runs.
    only: with runs_of, the runs that are shown; by default all.
    trained: `false` trains nothing; only privacy budgets or worst cases are computed.
    network: speeds, links and availability of parties, or of clients around a server.
    graphs: who sends to whom; for runs without a server only.
    seeds: a list, or {from: 0, to: 69}.
    seeds_added: whether seeds were added after verdicts were seen; if so, all intervals are wider.
    tuning_seeds: seeds that choose among the points of a run's grid. Verdicts, tables and figures
        show `seeds` only.
    point_seconds: about how many seconds a point with all its seeds trains on one core; short
        points share jobs. Without this key every point has its own job.
    title: the heading of figures and pages.
    dataset: its name in config/datasets.yaml. split: the split of the data set that gives the rows.
    partition, objective, rounds, record_every: for all runs that do not declare their own.
    until: what ends a run before `rounds`, which then is the maximum; also a default for all runs.
        With a budget of a cost, such as {bytes: 5e7}, a run ends with the round that has spent it.
        With a target, such as {test_accuracy: 0.9}, it ends with the record that has reached it.
        Both may be declared.
    measurements: names of files in `measurements`, which are recorded besides the usual numbers.
        Measurements that claims, figure, selection or `until` need are recorded anyway.
    runs: by name; verdicts, figures and targets use these names.
    selection: how points of grids are chosen. figure: what is drawn. claims: what is judged.
    """

    paper: str
    title: str
    source: str
    notes: str = ""
    runs_of: str | None = None
    only: tuple[str, ...] = ()
    trained: bool = True
    dataset: str
    split: str = "train"
    partition: Partition
    network: AnyNetworkModel | None = None
    graphs: Graphs | None = None
    objective: Objective
    rounds: PositiveInt
    record_every: RecordEvery
    until: Until = Field(default={})
    measurements: tuple[DeclaredName, ...] = ()
    seeds: tuple[NonNegativeInt, ...] = Field(min_length=1)
    tuning_seeds: tuple[NonNegativeInt, ...] = ()
    point_seconds: PositiveFloat | None = None
    runs: dict[str, RunConfig] = Field(min_length=1)
    selection: Selection = Selection()
    figure: SerializeAsAny[Figure] = Field(default_factory=lambda: Figure.model_validate({}))
    claims: tuple[Claim, ...] = ()
    seeds_added: bool = False

    #: See `fedatlas.schema.experiment_files`.
    resolved_before: ClassVar[tuple[str, ...]] = ("extends", "like", "lists", "name")

    _where: str = PrivateAttr(default="")
    _inherited: Mapping[str, str] = PrivateAttr(default={})

    def model_post_init(self, context: Any) -> None:
        """Keep where it is declared and which keys are another's, which no file says."""
        if context:
            self._where, self._inherited = context["where"], context["inherited"]

    @classmethod
    def what_to_state(cls, key: str, given: Mapping[str, Any]) -> str:
        rounds = given.get("rounds")
        if key != "record_every" or not isinstance(rounds, int) or rounds < 1:
            return ""
        every = max(1, rounds // 100)
        return f"state after how many rounds runs are measured, such as {every} of {rounds} rounds"

    @property
    def where(self) -> str:
        """The file that states it, as errors name it."""
        return self._where

    @field_validator("seeds", mode="before")
    @classmethod
    def _range(cls, seeds: Any) -> Any:
        return in_full(seeds, "seeds")

    @property
    def own_graphs(self) -> bool:
        """Whether runs are on graphs that no other experiment draws."""
        return self.graphs is not None and not self.runs_of

    def remedy(self, key: str) -> str:
        """How to be rid of a key: another experiment's, by `extends`, cannot be removed here."""
        other = self._inherited.get(key)
        value = getattr(self, key)
        empty = {bool: "false", tuple: "[]"}.get(type(value), "null")
        return f"inherited from {other}: write `{key}: {empty}`" if other else "remove it"

    @property
    def measures_suboptimality(self) -> bool:
        """Whether claims, figure or selection look at it, so that f* is needed."""
        return any("suboptimality" in measured for _, _, measured, _ in self.looked_at())

    @property
    def predicts(self) -> bool:
        """Whether claims look at what predictors have, beside which the best constant is put."""
        measured = {name for claim in self.claims for name in claim.test.measured}
        functions = all(isinstance(self.objective_of(run), PolyakObjective) for run in self.runs)
        return self.trained and not functions and not measured.isdisjoint(OF_PREDICTORS)

    @property
    def drawn_claims(self) -> tuple[Claim, ...]:
        """Claims of which the figure draws something."""
        return tuple(claim for claim in self.claims if self.figure.draws(claim))

    def partition_of(self, run: str) -> Partition:
        """The partition that a run works on."""
        return self.runs[run].partition or self.partition

    def network_of(self, run: str, on_graphs: bool | None = None) -> AnyNetworkModel | None:
        """Speeds and links of a run whose federation has such a network; None of any other run.

        None, too, of clients around a server and of parties that are processes, if nothing is
        declared: then no time is simulated, or nothing is added to those that processes need.
        """
        federation = self.federation_of(run, on_graphs)
        declared = self.runs[run].network or self.network
        if declared is not None and federation.network_model is type(declared):
            return declared
        simulated = federation.own_clock and federation.backend == "simulated"
        return NetworkModel() if simulated else None

    def federation_of(self, run: str, on_graphs: bool | None = None) -> type[Federation]:
        """The federation in which a run takes place; on_graphs: by default if it has graphs."""
        declared = self.runs[run]
        graphs = self.graphs is not None or declared.graphs is not None
        return federation_of(
            self.partition_of(run).kind,
            on_graphs=graphs if on_graphs is None else on_graphs,
            min_max=self.objective_of(run).min_max,
            backend=declared.backend,
        )

    def objective_of(self, run: str) -> Objective:
        """The objective that a run minimises."""
        return self.runs[run].objective or self.objective

    def rounds_of(self, run: str) -> int:
        """How many rounds a run takes."""
        return self.runs[run].rounds or self.rounds

    def record_every_of(self, run: str) -> RecordEvery:
        """After how many rounds a run is measured again."""
        return self.runs[run].record_every or self.record_every

    def ending_of(self, run: str) -> Ending:
        """What ends a run before its last round."""
        declared = self.runs[run].until
        return ending_of(self.until if declared is None else declared)

    def measurements_of(self, run: str) -> tuple[str, ...]:
        """What files declare and a run records, costs among them, sorted."""
        looked_at = set(self.measurements)
        for _, named, measured, counted in self.looked_at():
            looked_at |= {*measured, *counted} if run in named else set()
        return tuple(
            sorted(
                name
                for name in looked_at
                if (one := declared_as(name)) and not self.why_not(one, run)
            )
        )

    def why_not(self, declared: Declared, run: str) -> str:
        """Why a run has not what a file declares; empty if it has."""
        return declared.why_not(self.federation_of(run).name, self.runs[run].algorithm)

    def chooses(self, run: str) -> bool:
        """Whether a run has several points, of which one is chosen here."""
        declared = self.runs[run]
        return declared.tuned_in is None and any(
            len(values) > 1 for values in declared.grid.values()
        )

    @field_validator("partition", mode="before")
    @classmethod
    def _parties_have_no_names(cls, partition: Any) -> Any:
        columns = partition.get("columns") if isinstance(partition, dict) else None
        for own in columns if isinstance(columns, list) else ():
            if isinstance(own, dict) and {"from", "to"}.isdisjoint(own):
                raise ValueError(
                    f"columns: '{next(iter(own), '')}': parties have no names: list the columns "
                    "of each, as in [[age, income], [calls]]"
                )
        return partition

    @model_validator(mode="after")
    def _keys_suit_each_other(self) -> Self:
        for run in self.runs:
            self._check_network(run)
            if self._keeps_validation(run) and not self.federation_of(run).validates:
                raise ValueError(
                    f"runs.{run}: only partitions among clients around a server keep 'validation' "
                    "rows; remove it"
                )
        asks = self.budgets or self.privacy_audit or self.worst_cases
        if not self.trained and not (asks and not self.runs_of):
            raise ValueError(
                "'trained: false' needs 'budgets', 'privacy_audit' or 'worst_cases', and runs of "
                "its own"
            )
        suited = {each for run in self.runs for each in self._networks(run)}
        for key, suits, owner in (
            ("network", type(self.network) in suited, _owner(self.network)),
            *self.belongings(self),
        ):
            if getattr(self, key) and not suits:
                raise ValueError(f"'{key}' belongs to {owner}; {self.remedy(key)}")
        return self

    def _networks(self, run: str) -> set[type[Any] | None]:
        """What networks a run may declare; its method decides whether it is on graphs."""
        return {self.federation_of(run, on_graphs).network_model for on_graphs in (False, True)}

    def _keeps_validation(self, run: str) -> bool:
        return getattr(self.partition_of(run), "validation", None) is not None

    def _check_network(self, run: str) -> None:
        """A run has a network of its federation's kind, which must suit who takes part."""
        declared, partition = self.runs[run], self.partition_of(run)
        processes, own = declared.backend == "processes", declared.network
        if processes and not isinstance(partition, VerticalPartition):
            raise ValueError(
                f"runs.{run}: 'backend: processes' belongs to vertical partitions; remove it"
            )
        if own is not None and type(own) not in self._networks(run):
            raise ValueError(f"runs.{run}: 'network' belongs to {_owner(own)}; remove it")
        network = self.network_of(run, on_graphs=False)
        if isinstance(network, StarNetworkModel):
            most = max((spell[0] for spell in network.spells), default=0)
            if most >= (clients := partition.clients_by_silo[0]):
                raise ValueError(
                    f"runs.{run}: availability: names client {most}, but there are {clients}, "
                    "counted from 0"
                )
        if not isinstance(partition, VerticalPartition):
            return
        network = network if isinstance(network, NetworkModel) else NetworkModel()
        if (place := network.straggler_party or 0) >= partition.parties:
            raise ValueError(
                f"runs.{run}: straggler_party: {place} is none of its {partition.parties} "
                "parties, counted from 0"
            )
        if processes and network.varies:
            raise ValueError(
                f"runs.{run}: 'backend: processes' adds times that are constant: its network "
                "states no 'compute', 'drift' or 'cores'"
            )

    @model_validator(mode="after")
    def _runs_record_and_vary_as_meant(self) -> Self:
        longest: dict[str, tuple[int, str]] = {}
        for run, declared in self.runs.items():
            spacing, rounds = self.record_every_of(run), self.rounds_of(run)
            every = min(spacing.values()) if isinstance(spacing, dict) else spacing
            if every > rounds:
                own = declared.record_every is not None or declared.rounds is not None
                raise ValueError(
                    f"{f'runs.{run}.' if own else ''}record_every: {every} is more than the "
                    f"{rounds} rounds, so that only the start and the end would be recorded; lower "
                    f"it, or state {rounds} if that is meant"
                )
            for key, values in declared.grid.items():
                longest[key] = max(longest.get(key, (0, "")), (len(values), run))
        for run, declared in self.runs.items():
            for key, values in declared.grid.items():
                most, other = longest[key]
                if len(values) == 1 < most:
                    raise ValueError(
                        f"runs.{run}.grid.{key}: lists one value, {values[0]}, where run '{other}' "
                        f"lists {most}: list as many, or state '{key}: {values[0]}' in "
                        "hyper_parameters if it is not to be tuned"
                    )
        return self

    @model_validator(mode="after")
    def _names_are_known_and_unique(self) -> Self:
        shared = self.selection.shared
        named = [
            *((f"claim '{claim.id}'", claim.test.runs, "claims") for claim in self.claims),
            ("the figure", self.figure.runs, "figure"),
            ("selection.shared", (*shared, *shared.values()), "selection"),
        ]
        for what, runs, key in named:
            for run in runs:
                if run not in self.runs:
                    other = self._inherited.get(key)
                    own = f"; '{key}' is inherited from {other}: state your own" if other else ""
                    raise ValueError(
                        f"{what} names the run '{run}'; runs are {', '.join(self.runs)}{own}"
                    )
        for name in self.measurements:
            declared = declared_as(name)
            assert declared is not None  # as a `DeclaredName`
            reasons = [self.why_not(declared, run) for run in self.runs]
            if all(reasons):
                raise ValueError(f"measurements: no run here has '{name}': {reasons[0]}")
        for run in self.runs:
            self._check_ending(run)
        for claim in self.claims:
            self._check_claim(claim)
        self.figure.check(self)
        self._check_what_is_looked_at()
        for run, other in shared.items():
            if self.runs[run].grid != self.runs[other].grid:
                raise ValueError(f"selection.shared: '{run}' and '{other}' must have the same grid")
        if identifier := find_repeated(claim.id for claim in self.claims):
            raise ValueError(f"two claims have the id '{identifier}'")
        self._check_seeds()
        return self

    def _check_seeds(self) -> None:
        for key, seeds in (("seeds", self.seeds), ("tuning_seeds", self.tuning_seeds)):
            if find_repeated(seeds) is not None:
                raise ValueError(f"{key}: a seed is listed twice")
        both = sorted({*self.seeds} & {*self.tuning_seeds})
        if both:
            raise ValueError(
                f"tuning_seeds: {both} are in 'seeds', too: what was tuned on a seed must not be "
                "judged by it; name others"
            )
        # Of another experiment's runs, those that choose may be left out.
        if self.tuning_seeds and not self.runs_of and not any(map(self.chooses, self.runs)):
            remedy = self.remedy("tuning_seeds")
            raise ValueError(f"tuning_seeds: no run has a grid of several points; {remedy}")

    def _check_ending(self, run: str) -> None:
        """What a run's end depends on must not decide what is judged, or chosen, of it."""
        ending = self.ending_of(run)
        if ending.measurement and self.chooses(run):
            raise ValueError(
                f"runs.{run}: 'until' ends it at {ending.in_words}, but its point is chosen by "
                "where runs end: state a budget for the grid, and the target for a run that is "
                "'tuned_in' this experiment"
            )
        if not ending.repeatable:
            claims = [claim.id for claim in self.claims if run in claim.test.runs]
            looks = f"claim '{claims[0]}' judges it" if claims else ""
            looks = looks or ("its point is chosen here" if self.chooses(run) else "")
            if looks:
                raise ValueError(
                    f"runs.{run}: 'until' is a budget of {ending.cost}, which machines measure, so "
                    f"that no two trainings end alike, but {looks}: state a budget of rounds, "
                    "bytes, gradient_evaluations or simulated_time"
                )

    def _check_claim(self, claim: Claim) -> None:
        """The experiment must have what the claim is judged by."""
        for key in claim.test.needs:
            if not getattr(self, key):
                declared = "trained: true" if key == "trained" else key
                raise ValueError(f"claim '{claim.id}': kind {claim.test.kind} needs '{declared}'")
        if claim.covered_by is not None and not (self.theory and claim.test.runs):
            raise ValueError(
                f"claim '{claim.id}': covered_by needs 'theory: true', which tabulates theorems, "
                "and a test of runs; without them state 'kind: not_covered' and a reason"
            )
        for run in claim.test.runs if "trained" in claim.test.needs else ():
            ending = self.ending_of(run)
            if ending.measurement and not all(
                ending.suffices(*target) for target in claim.test.stops_at or [("", 0.0)]
            ):
                raise ValueError(
                    f"claim '{claim.id}': needs more of run '{run}' than its records until "
                    f"{ending.in_words}, where 'until' ends it: claim the cost to that target or "
                    "an easier one, or raise it"
                )
        try:
            claim.test.check(self)
        except ValueError as error:
            raise ValueError(f"claim '{claim.id}': {error}") from None

    def _check_what_is_looked_at(self) -> None:
        """Runs must measure what claims, figure and selection look at."""
        for what, named, measured, _ in self.looked_at():
            for measurement, run in product(measured if self.trained else (), named):
                self._check_measured(what, measurement, run)

    def looked_at(
        self,
    ) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
        """What looks, at which runs, at which measurements and costs of theirs."""
        runs, figure = tuple(self.runs), self.figure
        for claim in self.claims:
            test = claim.test
            yield f"claim '{claim.id}'", test.runs, test.measured, test.counted
        yield "the figure", runs, figure.measurements, figure.counted
        yield "the selection", runs, (self.selection.measurement,), ()
        for run in self.runs:
            ending = self.ending_of(run)
            named = [tuple(filter(None, [name])) for name in (ending.measurement, ending.cost)]
            yield "'until'", (run,), named[0], named[1]

    def _check_measured(self, what: str, measurement: str, run: str) -> None:
        """The run must measure it, and must have test rows if it is measured on them."""
        objective = self.objective_of(run)
        known = self.federation_of(run).measures(objective)
        if declared := declared_as(measurement):
            if why := self.why_not(declared, run):
                raise ValueError(f"{what} looks at {measurement} of run '{run}': {why}")
        elif measurement not in known:
            if "regression" not in objective.tasks:
                known = tuple(name for name in known if not name.endswith("_rmse"))
            own = [
                name
                for name, one in MEASUREMENTS.items()
                if one.declared and not self.why_not(one.declared, run)
            ]
            raise ValueError(
                f"{what} looks at {measurement}, which run '{run}' does not measure: name one of "
                f"{', '.join([*known, *own])}"
            )
        if measurement.startswith("validation_") and not self._keeps_validation(run):
            raise ValueError(
                f"{what} looks at {measurement}, but run '{run}' keeps no validation rows: give "
                "its partition a 'validation', such as 0.1"
            )
        if measurement.startswith("test_") and self.partition_of(run).test is None:
            raise ValueError(
                f"{what} looks at {measurement}, but run '{run}' keeps no test rows: give its "
                "partition a 'test'"
            )


def _owner(network: AnyNetworkModel | None) -> str:
    """Whose network a declared one is, as errors name it."""
    if isinstance(network, StarNetworkModel):
        return "clients, agents and silos; vertical partitions state 'seconds_per_feature'"
    return "vertical partitions; clients, agents and silos state 'seconds_per_gradient'"
