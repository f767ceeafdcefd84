"""What an experiment's figure shows."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from fedatlas.schema.models import Model
from fedatlas.schema.quantities import LEVELS, Cost, Measurement, check_target

#: The step by which methods are compared, as a figure's `hyper_parameter` or `rows`.
EFFECTIVE_STEP_SIZE = "effective_step_size"

_KINDS_OF_KEY = {
    "also": ("convergence",),
    "costs": ("convergence",),
    "rows": ("convergence", "sensitivity"),
    "points": ("convergence",),
    "dashed": ("convergence", "scaling"),
    "groups": ("scaling",),
    "target": ("scaling", "region"),
    "cost": ("scaling",),
    "pairs": ("region",),
    "outlined": ("region",),
    "published": ("final",),
    "hyper_parameter": ("sensitivity",),
    "bounds": ("sensitivity",),
    "claims": ("slopes",),
}


class Figure(Model):
    """What an experiment's figure shows.

    kind:
        `convergence`: small panels, a column for each cost, a row for each measurement.
        `scaling`: speed-up against the number of parties or clients, a line for each group of runs.
        `region`: maps over networks of one run's time over another's, and of speed-up.
        `final`: where the seeds of each run's selected point ended.
        `sensitivity`: the levels by which points are chosen against a hyper-parameter of grids.
        `slopes`: what claims of slopes are judged by, against the size, beside what is claimed.
    also: further measurements, each in a row of its own.
    dashed: run drawn in dashes → the run whose colour it takes.
    groups: label → runs by rising number of parties or clients. target: value to which the cost is
        taken. cost: of which there is less by the speed-up.
    pairs: run → the run with which its time is compared, on the same network.
    outlined: where a sentence is given to hold, on maps of ratios and of exponents: first runs of
        pairs.
    published: run → the number that the paper prints.
    hyper_parameter: on the x axis; `effective_step_size` is each method's own.
    bounds: run → theorem → the largest value of the hyper-parameter that it covers.
    claims: ids of claims whose slopes are drawn, a panel each.
    measurement: on the y axis, or what is compared. costs: on the x axes, a column each.
    rows: what tells rows of panels apart. points: of grids, all or the selected ones.
    """

    kind: Literal["convergence", "scaling", "region", "final", "sensitivity", "slopes"] = (
        "convergence"
    )
    measurement: Measurement = "gradient_norm"
    also: tuple[Measurement, ...] = ()
    costs: tuple[Cost, ...] = Field(
        default=("round", "bytes", "gradient_evaluations"), min_length=1
    )
    rows: Literal["effective_step_size", "partition", "run", "none"] = "none"
    points: Literal["all", "selected"] = "all"
    dashed: dict[str, str] = Field(default={})
    groups: dict[str, tuple[str, ...]] = Field(default={})
    target: PositiveFloat = 1e-3
    cost: Cost = "simulated_time"
    pairs: dict[str, str] = Field(default={})
    outlined: dict[Literal["ratios", "exponents"], tuple[str, ...]] = Field(default={})
    published: dict[str, float] = Field(default={})
    hyper_parameter: str | None = None
    bounds: dict[str, dict[str, PositiveFloat]] = Field(default={})
    claims: tuple[str, ...] = ()

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All that the figure shows, besides what its claims look at."""
        return () if self.kind == "slopes" else (self.measurement, *self.also)

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the figure names."""
        grouped = (run for runs in self.groups.values() for run in runs)
        compared = (*self.dashed.items(), *self.pairs.items())
        named = (run for pair in compared for run in pair)
        return (*named, *grouped, *self.published, *self.bounds)

    @model_validator(mode="after")
    def _keys_belong_to_the_kind(self) -> Self:
        for key, kinds in _KINDS_OF_KEY.items():
            if (
                self.kind not in kinds
                and getattr(self, key) != type(self).model_fields[key].default
            ):
                raise ValueError(
                    f"'{key}' is for figures of kind {' and '.join(kinds)}, not {self.kind}"
                )
        if len(set(self.measurements)) != len(self.measurements):
            raise ValueError(f"also: a measurement stands twice in {', '.join(self.measurements)}")
        if self.rows == "effective_step_size" and self.points == "selected":
            raise ValueError("rows by effective_step_size need points: all")
        for run, other in self.dashed.items():
            if other in self.dashed:
                raise ValueError(f"dashed: '{run}' takes the colour of '{other}', dashed itself")
        if self.kind == "convergence" and self.dashed and self.points == "all":
            raise ValueError("dashed needs points: selected, as lines tell points apart otherwise")
        if self.kind == "scaling" and not self.groups:
            raise ValueError("kind scaling needs groups: a label and its runs by number of parties")
        if self.kind == "slopes" and not self.claims:
            raise ValueError("kind slopes needs claims: ids of those whose slopes it draws")
        if self.kind == "region" and not self.pairs:
            raise ValueError("kind region needs pairs: a run and the one that it is compared with")
        for runs in self.outlined.values():
            if unpaired := sorted({*runs} - {*self.pairs}):
                raise ValueError(f"outlined: '{unpaired[0]}' is not the first run of a pair")
        if self.kind == "sensitivity" and self.hyper_parameter in (None, self.rows):
            raise ValueError(
                "kind sensitivity needs a hyper_parameter, such as local_step_size, of which a row "
                "has several values"
            )
        if self.kind in ("scaling", "region", "sensitivity") and self.measurement not in LEVELS:
            raise ValueError(
                f"kind {self.kind} needs a measurement with a best value, not {self.measurement}: "
                f"{', '.join(LEVELS)}"
            )
        if self.kind in ("scaling", "region"):
            check_target(self, self.measurement, self.target)
        return self
