"""What a comparison found, as data and as tables."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import xarray as xr

from fedatlas.atlas.cells import OF_DIFFERENT_DELTA, cost_cell, delta_suffix, differ
from fedatlas.atlas.measured import RunName, format_names
from fedatlas.evaluation.evidence import target_name
from fedatlas.evaluation.levels import log_target
from fedatlas.plain_text import printable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class AtlasComparison:
    """What runs spend until they reach a target; printed, a table of the runs and their costs.

    dataset: over run, seed and cost.

    - `cost_to_target` (run, seed, cost): cost at which the seed first reaches the target, between
      two records where a straight line of the level, a logarithm, over the cost meets it; +inf if
      it never does or diverged, NaN for seeds that the run does not have;
    - `reached` (run, seed): whether the seed did; `seeds`, `seeds_reached` (run,): how many;
    - `final_value` (run, seed): the measurement at the last record, NaN if the seed diverged;
      `final`, `final_low`, `final_high` (run,): the mean of the others and its 95 % t-interval, of
      logarithms where the measurement falls over orders of magnitude; `final_median`,
      `final_lowest`, `final_highest` (run,): their median and range;
    - `final_floor` (run,): below it the metric is not resolved, NaN if it always is: sub-optimality
      ends at 1e-10, since f* is known no better. A final value, a median and an end of a range that
      equals it is an upper bound, as are the mean and its lower bound if any seed is there;
      `seeds_at_floor` (run,): how many seeds end there;
    - `centre`, `low`, `high` (run, cost): geometric mean of the seeds that reached it and the 95 %
      t-interval of its logarithm. The upper bound is +inf if a seed never reached the target; a
      single seed has the bounds 0 and +inf. If none reached it, the centre is +inf, and so is the
      lower bound of several seeds.

    - `delta` (run, cost): of the cost "epsilon" the δ at which it holds for all of these seeds, NaN
      of other costs. ε at different δ are not comparable; that of δ = 0 holds at every δ.

    Coordinates along run are paper, experiment, run, point, title and algorithm; `clock` (run,
    cost) is "own" if a time under a network is that of the run's own simulation, otherwise
    "counted". The attribute `left_out` lists the costs that runs do not have, and why. Against
    published traces `origin` (run,) is "ours" or "published". The attribute `not_comparable` lists
    what does not stand beside ours, `notes` what is foreign about the rest, and runs that are
    stale.
    """

    dataset: xr.Dataset

    def to_dataframe(self) -> "pd.DataFrame":
        """One row per run and cost."""
        return self.dataset.drop_dims("seed").to_dataframe().reset_index()

    def table(self) -> "pd.DataFrame":
        """One row per run: the centre of each cost with its interval, and how many seeds got there.

        A dash stands where a run does not count a cost, "never" where no seed reached the target.
        """
        import pandas as pd

        found = self.dataset
        columns: dict[str, list[str]] = {"run": _row_names(found)}
        for cost in found["cost"].to_numpy():
            own = found.sel(cost=cost)
            cells = zip(
                *(own[name].to_numpy() for name in ("centre", "low", "high")),
                *(own[name].to_numpy() for name in ("seeds_reached", "seeds")),
                strict=True,
            )
            deltas = own["delta"].to_numpy()
            columns[str(cost)] = [
                f"{cost_cell(*cell)}{delta_suffix(delta, deltas)}"
                for cell, delta in zip(cells, deltas, strict=True)
            ]
        columns["seeds"] = [
            f"{reached} of {seeds}"
            for reached, seeds in zip(
                found["seeds_reached"].to_numpy(), found["seeds"].to_numpy(), strict=True
            )
        ]
        return pd.DataFrame(columns).set_index("run")

    def __repr__(self) -> str:
        lines = [self._heading(), self.table().to_string(), *self.remarks()]
        return printable("\n".join(lines))

    def remarks(self) -> list[str]:
        """Which runs are stale; what is foreign about published ones, or not comparable."""
        attributes = self.dataset.attrs
        apart = [OF_DIFFERENT_DELTA] * differ(self.dataset["delta"].to_numpy())
        refused = (f"not comparable: {one}" for one in attributes.get("not_comparable", ()))
        return [*apart, *(f"note: {one}" for one in attributes.get("notes", ())), *refused]

    def _repr_html_(self) -> str:
        told = "".join(f"<p>{escape(one)}</p>" for one in self.remarks())
        return f"<p>{escape(self._heading())}</p>{self.table().to_html()}{told}"

    def _heading(self) -> str:
        metric, target = self.dataset.attrs["metric"], self.dataset.attrs["target"]
        goal = target_name(metric, log_target(metric, target))
        return f"cost to {goal}: geometric mean (95 % interval)"


def _row_names(found: xr.Dataset) -> list[str]:
    """Names of runs, with their points where a run has several."""
    coordinates = [found[name].to_numpy() for name in ("experiment", "run", "title")]
    if "origin" in found.coords:
        coordinates.append(found["origin"].to_numpy())
    names = format_names([RunName(*map(str, own)) for own in zip(*coordinates, strict=True)])
    return [
        f"{name}, {point}" if names.count(name) > 1 else name
        for name, point in zip(names, found["point"].to_numpy(), strict=True)
    ]
