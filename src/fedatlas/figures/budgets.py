"""Privacy budgets: ε by iteration and by horizon, and δ of methods that spend it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.figures.style import DASHED, colours, legend_below, put_title

# The look of accountings that are not the first of their run.
_OTHER: dict[str, Any] = {"ls": (0, (1, 1.2)), "lw": 1.0, "alpha": 0.9}
# Variable, its axis, and the labels of its panel.
_PANELS = (
    ("epsilon", "iteration", "iteration of the run", "privacy spent, ε"),
    ("final_epsilon", "horizon", "horizon K of a whole run", "privacy spent in all, ε"),
    ("delta", "iteration", "iteration of the run", "privacy spent, δ"),
)


def compose(title: str, run_titles: Mapping[str, str], budgets: xr.Dataset) -> Canvas:
    """A panel by iteration and one by horizon; a third for δ if a run spends any.

    budgets: as `studies.budgets.compute_budgets` returns them.
    """
    spends_delta = bool((budgets["delta"].fillna(0) > 0).any())
    panels = _PANELS if spends_delta else _PANELS[:2]
    canvas = Canvas(figsize=(3.6 * len(panels), 4.8), layout="constrained")
    places = canvas.subplots(1, len(panels))
    titles = {run: run_titles[run] for run in dict.fromkeys(budgets["run"].values.tolist())}
    colour_of = colours(titles, {})
    styles = _styles(titles, colour_of)
    for place, (variable, axis, xlabel, ylabel) in zip(places, panels, strict=True):
        for case in range(budgets.sizes["case"]):
            _draw(place, budgets.isel(case=case), variable, axis, titles, colour_of, styles)
        place.set(xlabel=xlabel, ylabel=ylabel, yscale="log")
    places[1].set_xscale("log")
    handles = [
        Line2D([], [], color=colour_of[name], ls=style, label=name)
        for name, style in styles.items()
    ]
    handles.append(Line2D([], [], color="grey", label="first accounting"))
    if not budgets["first"].all():
        handles.append(Line2D([], [], color="grey", label="other accountings", **_OTHER))
    legend_below(canvas, handles, columns=4)
    note = f"D = {budgets.attrs['samples']:,} samples per agent, d = "
    note += f"{budgets.attrs['dimension']:,} parameters"
    for statement in dict.fromkeys(budgets["statement"].values.tolist()):
        of = budgets["run"].values[budgets["statement"].values == statement].tolist()
        whose = "ε and δ" if len(set(of)) == len(titles) else _listed(of, titles)
        note += f"\n{whose}: {statement}"
    put_title(canvas, title, note)
    return canvas


def _listed(runs: list[str], titles: Mapping[str, str]) -> str:
    """The titles of the runs, or "the others" if they are half of all or more."""
    names = dict.fromkeys(titles[run] for run in runs)
    return ", ".join(names) if len(names) < len(titles) / 2 else "the others"


def _styles(titles: Mapping[str, str], colour_of: Mapping[str, str]) -> dict[str, Any]:
    """Title → line style: dashed for the second run of a colour."""
    seen: set[str] = set()
    styles: dict[str, Any] = {}
    for title in dict.fromkeys(titles.values()):
        styles[title] = DASHED if colour_of[title] in seen else "-"
        seen.add(colour_of[title])
    return styles


def _draw(
    place: Axes,
    case: xr.Dataset,
    variable: str,
    axis: str,
    titles: Mapping[str, str],
    colour_of: Mapping[str, str],
    styles: Mapping[str, Any],
) -> None:
    values = case[variable].to_numpy()
    if not (values > 0).any():  # nothing is spent, or nothing is known
        return
    title = titles[str(case["run"].item())]
    # Thin lines lie on wide ones, so that coinciding lines are both seen.
    wide = list(titles.values()).index(title) % 2 == 0
    own = {"ls": styles[title], "lw": 3.0 if wide else 1.3, "zorder": 2.0 if wide else 2.5}
    look = own if bool(case["first"]) else _OTHER
    spent = np.where(values > 0, values, np.nan)
    place.plot(case[axis].to_numpy(), spent, color=colour_of[title], **look)
