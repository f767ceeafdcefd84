"""Privacy budgets: ε by iteration and by horizon, δ of methods that spend it, and what noise does.

The last panel shows the noise that gathers in the agents' mean, whatever the gradients.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.evaluation.comparing import common_delta
from fedatlas.figures.style import DASHED, colours, legend_below, put_title

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
_OPTIONAL = ("delta", "drift")


def compose(title: str, run_titles: Mapping[str, str], budgets: xr.Dataset) -> Canvas:
    """A panel by iteration and one by horizon; one for δ if a run spends any, one for drift.

    budgets: as `studies.budgets.compute_budgets` returns them.
    """
    panels = [
        panel
        for panel in _PANELS
        if panel[0] not in _OPTIONAL or bool((budgets[panel[0]].fillna(0) > 0).any())
    ]
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
            if variable == "drift" and not case["first"]:  # the same by all accountings
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
    deltas = budgets["delta"].max("iteration").to_numpy().reshape(-1, 1)
    if common_delta(list(deltas)) is None:
        note += "\nat different δ, ε is not comparable; that at δ = 0 holds at every δ"
    still = [
        str(case["run"].item())
        for case in (budgets.isel(case=number) for number in range(budgets.sizes["case"]))
        if bool((case["drift"].dropna("iteration") == 0).all()) and bool(case["drift"].count())
    ]
    if bool(budgets["drift"].count()):
        note += (
            "\nnoise gathered in x̄: the standard deviation of each of its numbers at gradients of 0"
        )
    if still:
        note += f"; none with {', '.join(dict.fromkeys(titles[run] for run in still))}"
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
