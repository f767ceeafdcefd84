"""Privacy budgets: ε by iteration and by horizon, and δ of methods that spend it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.figures.style import DASHED, colours, draw, legend_below, put_title

# Accountings that are not a run's first.
_OTHER: dict[str, Any] = {"ls": (0, (1, 1.2)), "lw": 1.0, "alpha": 0.9}


def draw_budgets(
    title: str, run_titles: Mapping[str, str], budgets: xr.Dataset, outputs: list[Path]
) -> None:
    """Draw the budgets of `studies.budgets` and write them to each output (.svg, .png)."""
    draw(outputs, compose, title, run_titles, budgets)


def compose(title: str, run_titles: Mapping[str, str], budgets: xr.Dataset) -> Canvas:
    """A panel by iteration and one by horizon; a third for δ where some run spends any."""
    spends_delta = bool((budgets["delta"].fillna(0) > 0).any())
    panels = 3 if spends_delta else 2
    canvas = Canvas(figsize=(3.6 * panels, 4.8), layout="constrained")
    places = canvas.subplots(1, panels)
    titles = {run: run_titles[run] for run in dict.fromkeys(budgets["run"].values.tolist())}
    colour_of = colours(titles, {})
    _draw(places[0], budgets, "epsilon", "iteration", titles, colour_of)
    _draw(places[1], budgets, "final_epsilon", "horizon", titles, colour_of)
    places[0].set(xlabel="iteration of the run", ylabel="privacy spent, ε")
    places[1].set(xlabel="horizon K of a whole run", ylabel="privacy spent in all, ε")
    for place in places[:2]:
        place.set_yscale("log")
    places[1].set_xscale("log")
    if spends_delta:
        _draw(places[2], budgets, "delta", "iteration", titles, colour_of)
        places[2].set(xlabel="iteration of the run", ylabel="privacy spent, δ")
        places[2].set_yscale("log")
    handles = [
        Line2D([], [], color=colour_of[name], ls=style, label=name)
        for name, style in _styles(titles, colour_of).items()
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
    """The titles of few runs; "the others" for half of all or more."""
    names = list(dict.fromkeys(titles[run] for run in runs))
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
    budgets: xr.Dataset,
    variable: str,
    axis: str,
    titles: Mapping[str, str],
    colour_of: Mapping[str, str],
) -> None:
    along = budgets[axis].to_numpy()
    style = _styles(titles, colour_of)
    for case in range(budgets.sizes["case"]):
        one = budgets.isel(case=case)
        values = one[variable].to_numpy()
        if not (values > 0).any():  # none is spent, or none is known
            continue
        title = titles[str(one["run"].item())]
        # Thin lines on wide ones: both are seen where they coincide.
        wide = list(titles.values()).index(title) % 2 == 0
        own = {"ls": style[title], "lw": 3.0 if wide else 1.3, "zorder": 2.0 if wide else 2.5}
        look = own if bool(one["first"]) else _OTHER
        place.plot(along, np.where(values > 0, values, np.nan), color=colour_of[title], **look)
