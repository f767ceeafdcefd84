"""Figures of privacy: what runs spend of it, and what histories of messages reveal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from fedatlas.evaluation.quantities import common_delta
from fedatlas.evaluation.tables import (
    KNOWN,
    LATE,
    MASKED,
    REPEATS,
    SHARES,
    SUMS,
    UNKNOWN,
    RecoveryRow,
    read_budgets,
    read_recovery,
)
from fedatlas.figures.colours import colours, looks
from fedatlas.figures.style import (
    DASHED,
    MOST_CURVES,
    draw,
    entry,
    finish,
    new_panels,
    tick_plainly,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# The look of accountings that are not the first of their run.
_OTHER: dict[str, Any] = {"ls": (0, (1, 1.2)), "lw": 1.0, "alpha": 0.9}
# Variable, its axis, and the labels of its panel.
_PANELS = (
    ("epsilon", "iteration", "iteration of the run", "privacy spent, ε"),
    ("final_epsilon", "horizon", "horizon K of a whole run", "privacy spent in all, ε"),
    ("delta", "iteration", "iteration of the run", "privacy spent, δ"),
    ("drift", "iteration", "iteration of the run", "noise gathered in x̄"),
)
#: Panels that are drawn only where there is something to draw.
_OPTIONAL = ("final_epsilon", "delta", "drift")
_LINE: dict[str, Any] = {"marker": ".", "ms": 5, "lw": 1.3}
_Corner: TypeAlias = Literal["upper right", "lower left"]  # of a legend
_SNAPSHOTS = "snapshots of which all shares are seen"


def compose_budgets(
    title: str, run_titles: Mapping[str, str], budgets: xr.Dataset, methods: Mapping[str, str] = {}
) -> Canvas:
    """A panel by iteration; one by horizon, for δ and for drift where a run has any.

    Many runs are spread over several columns, which share their axes. The last panel shows the
    noise that gathers in the agents' mean, whatever the gradients.
    budgets: as `studies.budgets.budgets_of_runs` returns them.
    """
    panels = [
        panel
        for panel in _PANELS
        if panel[0] not in _OPTIONAL or bool((budgets[panel[0]].fillna(0) > 0).any())
    ]
    titles = {run: run_titles[run] for run in dict.fromkeys(budgets["run"].values.tolist())}
    drawn = _looks(titles, methods)
    cases = [budgets.isel(case=number) for number in range(budgets.sizes["case"])]
    columns = -(-len(drawn) // MOST_CURVES)
    column_of = {name: place * columns // len(drawn) for place, name in enumerate(drawn)}
    canvas, places = new_panels(len(panels) * columns, 2.6, columns if columns > 1 else 0)
    for number, place in enumerate(places):
        variable, axis, xlabel, ylabel = panels[number // columns]
        if first := number % columns:
            place.sharex(places[number - first])
            place.sharey(places[number - first])
        for case in cases:
            if column_of[titles[str(case["run"].item())]] != number % columns:
                continue
            spent = case[variable].where(case[variable] > 0).to_numpy()
            if np.isnan(spent).all():  # nothing is spent, or nothing is known
                continue
            if variable == "drift" and not case["first"]:  # the same by all accountings
                continue
            look = drawn[titles[str(case["run"].item())]]
            if not case["first"]:
                look = {"color": look["color"], **_OTHER}
            place.plot(case[axis].to_numpy(), spent, **look)
        place.set(xlabel=xlabel, ylabel="" if first else ylabel, yscale="log")
        if axis == "horizon":
            place.set_xscale("log")
        if not place.lines:
            place.set_axis_off()
    handles = [entry(name, color=look["color"], ls=look["ls"]) for name, look in drawn.items()]
    handles.append(entry("first accounting", color="grey"))
    if not budgets["first"].all():
        handles.append(entry("other accountings", color="grey", **_OTHER))
    finish(canvas, title, _budgets_note(budgets, cases, titles), handles)
    return canvas


def draw_budgets(
    title: str, runs: dict[str, str], methods: dict[str, str], budgets: Path, output: list[Path]
) -> None:
    """Draw privacy budgets by iteration and by horizon. runs: with titles. methods: of runs."""
    draw(output, compose_budgets, title, runs, read_budgets(budgets), methods)


def _budgets_note(
    budgets: xr.Dataset, cases: Sequence[xr.Dataset], titles: Mapping[str, str]
) -> str:
    note = f"D = {budgets.attrs['samples']:,} samples per agent, d = "
    note += f"{budgets.attrs['dimension']:,} parameters"
    for statement in dict.fromkeys(budgets["statement"].values.tolist()):
        runs = budgets["run"].values[budgets["statement"].values == statement].tolist()
        names = dict.fromkeys(titles[run] for run in runs)
        whose = ", ".join(names) if len(names) < len(titles) / 2 else "the others"
        note += f"\n{'ε and δ' if len(set(runs)) == len(titles) else whose}: {statement}"
    deltas = budgets["delta"].max("iteration").to_numpy().reshape(-1, 1)
    if common_delta(list(deltas)) is None:
        note += "\nat different δ, ε is not comparable; that at δ = 0 holds at every δ"
    if bool(budgets["drift"].count()):
        note += (
            "\nnoise gathered in x̄: the standard deviation of each of its numbers at gradients of 0"
        )
    still = [
        titles[str(case["run"].item())]
        for case in cases
        if bool((case["drift"].dropna("iteration") == 0).all()) and bool(case["drift"].count())
    ]
    return f"{note}; none with {', '.join(dict.fromkeys(still))}" if still else note


def _looks(titles: Mapping[str, str], methods: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Title → look of its lines, dashed if another title has the colour."""
    look_of = looks({title: methods.get(run, run) for run, title in titles.items()})
    found: dict[str, dict[str, Any]] = {}
    for place, title in enumerate(titles.values()):
        taken = any(look["color"] == look_of[title].colour for look in found.values())
        # Thin lines lie on wide ones, so that coinciding lines are both seen.
        width, order = (3.0, 2.0) if place % 2 == 0 else (1.3, 2.5)
        look = {"color": look_of[title].colour, "ls": DASHED if taken else "-"}
        found.setdefault(title, look | {"lw": width, "zorder": order})
    return found


def compose_recovery(title: str, rows: Sequence[RecoveryRow]) -> Canvas:
    """Draw how much histories of messages reveal, by their length.

    Errors are relative, on logarithmic axes; 1 is what answers of zeros, or of the mean, give.
    """
    labels = [row for row in rows if row.sees == LATE]
    canvas, (unmasked, sums, masked, last) = new_panels(4, 3.3, columns=2)
    _by_features(unmasked, _chosen(rows, SHARES, KNOWN))
    _by_masks(sums, _chosen(rows, SUMS, KNOWN, UNKNOWN))
    _by_masks(masked, _without_equal(_chosen(rows, MASKED, KNOWN)), "upper right")
    if labels:
        # Beside the labels there is no room for shares at rest, whose law is plain.
        _by_masks(last, labels)
        last.set(xlabel="snapshots of which all ϑ are seen", ylabel="error of labels")
        last.set_title("ϑ from the fourth snapshot on: labels")
    else:
        _by_masks(last, _without_equal(_chosen(rows, REPEATS, KNOWN)))
        last.set(xlabel="sums over the same sample", ylabel="error of shares")
        last.set_title("masked shares, the model at rest:\nwhat one party learns of a share")
    unmasked.set_title("unmasked shares of a party:\nwhat colluders learn of its features")
    sums.set_title("sums less its own share: what one party\nlearns of all others' features")
    masked.set_title("masked shares of a party:\nwhat one party learns of its features")
    for place in (unmasked, sums, masked):
        place.set(xlabel=_SNAPSHOTS, ylabel="error of the Gram matrix")
    masked.set_ylim(bottom=min(0.1, masked.get_ylim()[0]), top=max(4.0, masked.get_ylim()[1]))
    finish(canvas, title, "errors are relative; 1: no better than answers of zeros, or the mean")
    return canvas


def draw_recovery(title: str, recovery: Path, output: list[Path]) -> None:
    """Draw how much histories of shares reveal against their length."""
    draw(output, compose_recovery, title, read_recovery(recovery))


def _chosen(rows: Iterable[RecoveryRow], sees: str, *orders: str) -> list[RecoveryRow]:
    return [row for row in rows if row.sees == sees and row.order in orders]


def _without_equal(rows: Sequence[RecoveryRow]) -> list[RecoveryRow]:
    """Without those of a ring but one: of masked shares it tells nothing, however it rounds."""
    ring = [row for row in rows if row.masks.startswith("ring")]
    real = [row for row in rows if not row.masks.startswith("ring")]
    return real + [r for r in ring if (r.masks, r.features) == (ring[0].masks, ring[-1].features)]


def _by_features(place: Axes, rows: Sequence[RecoveryRow]) -> None:
    """A colour for each number of features; full lines for real masks, broken in the ring.

    Of several that span as many dimensions the largest, as lines lie on each other.
    """
    widest = {row.rank: row.features for row in sorted(rows, key=lambda row: row.features)}
    masks = list(dict.fromkeys(row.masks for row in rows))[:2]
    rows = [row for row in rows if row.features == widest[row.rank] and row.masks in masks]
    _draw_lines(
        *(place, rows),
        lambda row: f"{_features(row)}, rank {row.rank}",
        lambda row: row.masks != masks[0],
    )
    for name, style in zip(masks, ("-", DASHED), strict=False):
        place.plot([], [], color="0.4", ls=style, label=f"masks: {name}")
    place.set_yscale("log")
    place.set_ylim(top=1e6)  # room for the legend
    _finish(place, "upper right", columns=2)


def _by_masks(place: Axes, rows: Sequence[RecoveryRow], corner: _Corner = "lower left") -> None:
    """A line for each law of masks and what is known of the order of updates."""
    several = len({row.features for row in rows}) > 1

    def label(row: RecoveryRow) -> str:
        told = [] if row.masks == "any" else [row.masks]
        told += [_features(row)] * several
        told += ["order of updates unknown"] * (row.order == UNKNOWN)
        return ", ".join(told) or "order of updates known"

    _draw_lines(place, rows, label, lambda row: row.order == UNKNOWN)
    _finish(place, corner)


def _features(row: RecoveryRow) -> str:
    return f"{row.features} feature{'s' * (row.features > 1)}"


def _draw_lines(
    place: Axes,
    rows: Sequence[RecoveryRow],
    label: Callable[[RecoveryRow], str],
    is_dashed: Callable[[RecoveryRow], bool],
) -> None:
    """A colour for each label, which stands in the legend once."""
    lines: dict[tuple[str, bool], list[RecoveryRow]] = {}
    for row in rows:
        lines.setdefault((label(row), is_dashed(row)), []).append(row)
    colour_of = colours(label for label, _ in lines)
    for (name, dashed), own in lines.items():
        place.plot(
            [row.observed for row in own],
            [max(row.error, 1e-16) for row in own],
            color=colour_of[name],
            ls=DASHED if dashed else "-",
            label="" if dashed and (name, False) in lines else name,
            **_LINE,
        )


def _finish(place: Axes, corner: _Corner, columns: int = 1) -> None:
    place.set(xscale="log", yscale="log")
    place.axhline(1.0, color="0.6", lw=0.8, zorder=0)
    if place.get_xlim()[1] < 1000:
        place.set_xticks(ticks := [1, 2, 4, 8, 16, 32, 64])
        tick_plainly(place.xaxis, ticks)
    place.legend(fontsize=8.5, frameon=False, loc=corner, ncols=columns)
