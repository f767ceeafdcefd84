"""The numbers of docs/lower-bounds.md: the page's tables and its picture.

`python -m making.lower_bounds` makes them of results/experiments/lower-*.
"""

import sys
from collections.abc import Iterator, Sequence
from math import inf, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedatlas.data.catalogue import load_catalogue
from fedatlas.evaluation.levels import column as cost_column
from fedatlas.evaluation.levels import drawn_values
from fedatlas.figures.colours import looks
from fedatlas.figures.style import DASHED, draw, entry, finish, new_panels
from fedatlas.files import write_text
from fedatlas.markdown import table, text
from fedatlas.store.atlas import AtlasRun, atlas_runs, open_atlas
from making.regions import filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

ROOT = Path(__file__).parents[2]
PAGE, PICTURE = ROOT / "docs/lower-bounds.md", ROOT / "docs/images/lower-bounds.png"
MARK = "<!-- {} of python -m making.lower_bounds -->"
#: What is left of f(0) − f* on the chain, and the share of wells' clients who need not be done.
GAP, UNFINISHED = 1e-3, 0.25


class Column(NamedTuple):
    """An experiment: what no method can do sooner, and of what.

    unit: of the cost, how much of it is one of what is counted.
    """

    experiment: str
    heading: str
    measurement: str
    target: float
    cost: str
    unit: float
    least: float


def tables() -> dict[str, list[Column]]:
    """The columns of each table, by its name."""
    data = load_catalogue(ROOT / "config/datasets.yaml")
    found: dict[str, list[Column]] = {"server": [], "ring": [], "wells": []}
    for condition in (10, 100, 1000):
        of_gap = (f"κ = {condition}", "suboptimality", GAP, "sequential_messages")
        known = data[f"lower-chain-k{condition}"].chain.numbers_for(GAP)
        found["server"].append(Column(f"lower-server-k{condition}", *of_gap, 2, known))
        ring = data[f"lower-ring-k{condition}"].chain
        exchanges = ring.apart * (ring.numbers_for(GAP) - 1)
        found["ring"].append(Column(f"lower-ring-k{condition}", *of_gap, 1, exchanges))
    for size in ("n4-t10", "n4-t20", "n16-t10", "n16-t20"):
        wells = data[f"lower-wells-{size}"].wells
        rows, level = 2 * wells.length + 1, wells.level(UNFINISHED)
        of_norm = ("gradient_norm", level, "gradient_evaluations", rows)
        heading = f"N = {wells.clients}, T = {wells.length}"
        least = wells.gradients_for(UNFINISHED)
        found["wells"].append(Column(f"lower-wells-{size}", heading, *of_norm, least))
    return found


class Tried(NamedTuple):
    """A run at one point, and what each seed needed to the target; infinite where it never was.

    lowest: what the lowest record of any seed measures.
    """

    run: AtlasRun
    needed: list[float]
    lowest: float

    @property
    def middle(self) -> float:
        """The median over seeds."""
        return sorted(self.needed)[len(self.needed) // 2]

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Lower is better: all seeds arrive, the one in the middle early, or they come near."""
        return inf in self.needed, self.middle, self.lowest if isinf(self.middle) else 0.0


def best_of(column: Column) -> dict[str, Tried]:
    """By run its best point."""
    found: dict[str, Tried] = {}
    atlas = open_atlas(ROOT / "results")
    for run in atlas_runs(atlas, experiments=[column.experiment], all_points=True):
        values = drawn_values(run.trace, column.measurement)  # (seeds, records)
        there = values <= column.target
        spent = cost_column(run.trace, column.cost) / column.unit
        first = np.take_along_axis(spent, there.argmax(1)[:, None], 1)[:, 0]
        tried = Tried(run, np.where(there.any(1), first, inf).tolist(), np.nanmin(values))
        if run.run not in found or tried.rank < found[run.run].rank:
            found[run.run] = tried
    return found


def rows_of(columns: Sequence[Column], found: Sequence[dict[str, Tried]]) -> Iterator[list[str]]:
    """A row for no method at all, and one for each run: seeds' range, over what none can beat."""
    yield ["*no method*", *(f"{column.least:g}" for column in columns)]
    for name, first in found[0].items():
        cells = []
        for column, by_run in zip(columns, found, strict=True):
            tried = by_run[name]
            low, high = min(tried.needed), max(tried.needed)
            if isinf(tried.middle):
                cells.append(f"never: {tried.lowest:.2g}")
                continue
            span = f"{low:,g}" if low == high else f"{low:,g}–{high:,g}"
            cells.append(f"{span} ({tried.middle / column.least:.1f})")
        yield [text(first.run.title), *cells]


def compose(title: str, server: Sequence[Column], wells: Column) -> "Canvas":
    """Curves around a server, what they are over the bound by κ, and wells' gradients."""
    canvas, (left, middle, right) = new_panels(3, 3.0)
    shown = {
        "gd": "gradient descent",
        "heavy-ball": "FedAvgM, K = 1 (heavy ball)",
        "scaffnew": "Scaffnew",
        "page": "PAGE",
        "scaffold": "SCAFFOLD",
        "fedavg": "FedAvg, K = 5",
        "fedpage": "FedPAGE, K = 5",
    }
    by_column, of_wells = [best_of(column) for column in server], best_of(wells)
    tried = of_wells | by_column[-1]
    methods = {label: tried[name].run.trace.attrs["algorithm"] for name, label in shown.items()}
    colour_of = {label: look.colour for label, look in looks(methods).items()}
    data = load_catalogue(ROOT / "config/datasets.yaml")
    chain = data[server[-1].experiment.replace("server", "chain")].chain
    exchanges = np.arange(1, 64)
    left.fill_between(exchanges, 1e-9, chain.least_gap(exchanges), color="0.88", lw=0)
    left.plot(exchanges, chain.least_gap(exchanges), color="k", lw=1.5)
    for name in [*shown][:6]:
        _draw_run(left, by_column[-1][name], server[-1], colour_of[shown[name]])
        over = [own[name].middle / one.least for own, one in zip(by_column, server, strict=True)]
        conditions = [10, 100, 1000]
        some = [place for place, each in enumerate(over) if each < inf]
        middle.plot(
            [conditions[place] for place in some], [over[place] for place in some],
            "o", ls=_dashes(name), ms=4, color=colour_of[shown[name]],
        )  # fmt: skip
    left.set(xscale="log", yscale="log", xlim=(1, 4000), ylim=(1e-5, 1.2))
    left.set(xlabel="exchanges with the server", ylabel="f − f*, from 1", title="Chain, κ = 1000")
    middle.axhline(1, color="k", lw=1.5)
    middle.plot([10, 1000], [1.5, 15], color="0.6", ls=DASHED, lw=1)
    middle.annotate("√κ", (300, 12), color="0.4")
    middle.set(xscale="log", yscale="log", xlabel="κ", ylabel="exchanges over the bound")
    middle.set_title("Chain, to 10⁻³")
    for name in ("gd", "page", "scaffold", "fedavg", "fedpage"):
        _draw_run(right, of_wells[name], wells, colour_of[shown[name]])
    right.fill_between([1, wells.least], 1e-9, wells.target, color="0.88", lw=0)
    right.plot([1, wells.least, wells.least], [wells.target, wells.target, 1e-9], color="k", lw=1.5)
    right.set(xscale="log", yscale="log", xlim=(10, 20000), ylim=(wells.target / 10, 0.3))
    right.set(xlabel="gradients of clients", ylabel="‖∇f‖", title=f"Wells, {wells.heading}")
    handles = [
        entry(label, color=colour_of[label], ls=_dashes(name)) for name, label in shown.items()
    ]
    handles.append(entry("no method gets into the grey", color="k"))
    finish(canvas, title, "", handles)
    return canvas


def _draw_run(place: "Axes", tried: Tried, column: Column, colour: str) -> None:
    """The seed in the middle."""
    own = int(np.argsort(tried.needed)[len(tried.needed) // 2])
    costs = cost_column(tried.run.trace, column.cost)[own] / column.unit
    values = drawn_values(tried.run.trace, column.measurement)[own]
    place.plot(costs, values, color=colour, ls=_dashes(tried.run.run))


def _dashes(name: str) -> Any:
    """PAGE lies on gradient descent."""
    return DASHED if name == "page" else "-"


def main() -> None:
    """Write tables and picture anew."""
    page, found = PAGE.read_text(encoding="utf-8"), tables()
    for name, columns in found.items():
        heads = ("method", *(one.heading for one in columns))
        made = table(heads, list(rows_of(columns, [best_of(one) for one in columns])))
        page = filled(page, MARK.format(f"{name}:"), MARK.format("end"), made)
    write_text(PAGE, page)
    title = "How near methods come to what no method can do sooner"
    draw([PICTURE], compose, title, found["server"], found["wells"][-1])


if __name__ == "__main__":
    sys.exit(main())
