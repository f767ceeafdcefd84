"""The simulated network beside processes: objective by time, staleness, speed-up."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from fedatlas.figures.style import DASHED, colours, legend_below, put_title
from fedatlas.studies.validation import Pair

_FORMS = {False: "asynchronous", True: "synchronous"}


def compose(title: str, pairs: Sequence[Pair]) -> Canvas:
    """Three panels; processes are solid lines and bars, the simulation dashed lines and points."""
    canvas = Canvas(figsize=(10.5, 3.9), layout="constrained")
    by_time, delays, speed_up = canvas.subplots(1, 3)
    colour_of = colours({form: form for form in _FORMS.values()}, {})
    most = max(pair.parties for pair in pairs)
    for pair in pairs:
        if pair.parties == most:
            colour = colour_of[_FORMS[pair.synchronous]]
            by_time.plot(pair.real.seconds, pair.real.objective, color=colour)
            by_time.plot(pair.simulated.seconds, pair.simulated.objective, color=colour, ls=DASHED)
    by_time.set(xlabel="seconds, real or simulated", ylabel="objective f(w)")
    by_time.set_title(f"{most} parties", fontsize=9)
    chosen = next(pair for pair in pairs if pair.parties == most and not pair.synchronous)
    _draw_delays(delays, chosen, colour_of["asynchronous"])
    delays.set_title(f"{most} parties, asynchronous", fontsize=9)
    for synchronous, form in _FORMS.items():
        series = sorted(
            (pair for pair in pairs if pair.synchronous == synchronous),
            key=lambda pair: pair.parties,
        )
        counts = [pair.parties for pair in series]
        times = np.array([pair.times for pair in series]).T
        for spent, look, marker in zip(times, ("-", DASHED), ("o", "s"), strict=True):
            speed_up.plot(
                *(counts, spent[0] / spent), color=colour_of[form], ls=look, marker=marker, ms=4
            )
        speed_up.set_xticks(counts)
    counts_of_all = sorted({pair.parties for pair in pairs})
    ideal = np.array(counts_of_all) / counts_of_all[0]
    speed_up.plot(counts_of_all, ideal, color="grey", ls=":", lw=1.0)
    speed_up.set_xscale("log", base=2)
    speed_up.set_yscale("log", base=2)
    for axis, ticks in ((speed_up.xaxis, counts_of_all), (speed_up.yaxis, ideal.tolist())):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(ScalarFormatter())
    speed_up.set(xlabel="parties q", ylabel=f"speed-up from {counts_of_all[0]} parties")
    handles = [Line2D([], [], color=colour_of[form], label=form) for form in _FORMS.values()]
    handles += [
        Line2D([], [], color="black", label="processes"),
        Line2D([], [], color="black", ls=DASHED, label="simulated, fitted to them"),
        Line2D([], [], color="grey", ls=":", lw=1.0, label="ideal"),
    ]
    legend_below(canvas, handles, len(handles))
    put_title(canvas, title, "")
    return canvas


def _draw_delays(place: Axes, pair: Pair, colour: str) -> None:
    """Shares of sums by the updates that they lacked."""
    longest = max(len(pair.real.sum_delays), len(pair.simulated.sum_delays))
    found = [
        np.pad(np.array(run.sum_delays, float), (0, longest - len(run.sum_delays)))
        for run in (pair.real, pair.simulated)
    ]
    real, simulated = (counts / counts.sum() for counts in found)
    place.bar(np.arange(longest), real, color=colour, alpha=0.45, width=0.9, label="processes")
    place.plot(
        np.arange(longest), simulated, color=colour, ls="", marker="s", ms=4, label="simulated"
    )
    place.legend(fontsize=8, frameon=False)
    place.set(xlabel="updates that the reads of a sum lacked", ylabel="share of sums")
