"""Privacy budgets: ε by iteration and by horizon, and δ of methods that spend it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
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
    looks = _looks(titles)
    for place, (variable, axis, xlabel, ylabel) in zip(places, panels, strict=True):
        for number in range(budgets.sizes["case"]):
            case = budgets.isel(case=number)
            spent = case[variable].where(case[variable] > 0).to_numpy()
            if np.isnan(spent).all():  # nothing is spent, or nothing is known
                continue
            look = looks[titles[str(case["run"].item())]]
            if not case["first"]:
                look = {"color": look["color"], **_OTHER}
            place.plot(case[axis].to_numpy(), spent, **look)
        place.set(xlabel=xlabel, ylabel=ylabel, yscale="log")
    places[1].set_xscale("log")
    handles = [
        Line2D([], [], color=look["color"], ls=look["ls"], label=name)
        for name, look in looks.items()
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


def _looks(titles: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Title → look of its lines, dashed if another title has the colour."""
    colour_of = colours(titles, {})
    looks: dict[str, dict[str, Any]] = {}
    for place, title in enumerate(titles.values()):
        taken = any(look["color"] == colour_of[title] for look in looks.values())
        # Thin lines lie on wide ones, so that coinciding lines are both seen.
        width, order = (3.0, 2.0) if place % 2 == 0 else (1.3, 2.5)
        look = {"color": colour_of[title], "ls": DASHED if taken else "-"}
        looks.setdefault(title, look | {"lw": width, "zorder": order})
    return looks
