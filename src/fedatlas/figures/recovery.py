"""What histories of messages reveal, against their length."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, NullLocator

from fedatlas.evaluation.recovery_table import (
    KNOWN,
    LATE,
    MASKED,
    REPEATS,
    SHARES,
    SUMS,
    UNKNOWN,
    Row,
)
from fedatlas.figures.style import DASHED, colours, put_title

_Corner: TypeAlias = Literal["upper right", "lower left"]  # of a legend
_SNAPSHOTS = "snapshots of which all shares are seen"


def compose(title: str, rows: Sequence[Row]) -> Canvas:
    """Relative errors on logarithmic axes; 1 is what answers of zeros, or of the mean, give."""
    labels = [row for row in rows if row.sees == LATE]
    canvas = Canvas(figsize=(9.5, 7.0 if labels else 6.8), layout="constrained")
    (unmasked, sums), (masked, last) = canvas.subplots(2, 2)
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
    put_title(canvas, title, "errors are relative; 1: no better than answers of zeros, or the mean")
    return canvas


def _chosen(rows: Iterable[Row], sees: str, *orders: str) -> list[Row]:
    return [row for row in rows if row.sees == sees and row.order in orders]


def _without_equal(rows: Sequence[Row]) -> list[Row]:
    """Without those of a ring but one: of masked shares it tells nothing, however it rounds."""
    ring = [row for row in rows if row.masks.startswith("ring")]
    real = [row for row in rows if not row.masks.startswith("ring")]
    return real + [r for r in ring if (r.masks, r.features) == (ring[0].masks, ring[-1].features)]


def _by_features(place: Axes, rows: Sequence[Row]) -> None:
    """A colour for each number of features; full lines for real masks, broken in the ring.

    Of several that span as many dimensions the largest, as lines lie on each other.
    """
    widest = {row.rank: row.features for row in sorted(rows, key=lambda row: row.features)}
    rows = [row for row in rows if row.features == widest[row.rank]]
    names = list(dict.fromkeys(row.masks for row in rows))[:2]
    labels = {
        str(row.features): f"{row.features} feature{'s' * (row.features > 1)}, rank {row.rank}"
        for row in rows
    }
    colour_of = colours(labels, {})
    for name, style in zip(names, ("-", DASHED), strict=False):
        for features, label in labels.items():
            own = [row for row in rows if row.masks == name and str(row.features) == features]
            _line(place, own, colour_of[label], style, label if style == "-" else "")
    for name, style in zip(names, ("-", DASHED), strict=False):
        place.plot([], [], color="0.4", ls=style, label=f"masks: {name}")
    place.set_yscale("log")
    place.set_ylim(top=1e6)  # room for the legend
    _finish(place, "upper right", columns=2)


def _by_masks(place: Axes, rows: Sequence[Row], corner: _Corner = "lower left") -> None:
    """A line for each law of masks and what is known of the order of updates."""
    kinds = list(dict.fromkeys((row.masks, row.order, row.features) for row in rows))
    several = len({features for *_, features in kinds}) > 1
    labels = {}
    for masks, order, features in kinds:
        told = [] if masks == "any" else [masks]
        told += [f"{features} feature{'s' * (features > 1)}"] if several else []
        told += ["order of updates unknown"] if order == UNKNOWN else []
        labels[masks, order, features] = ", ".join(told) or "order of updates known"
    colour_of = colours({str(kind): label for kind, label in labels.items()}, {})
    for (masks, order, features), label in labels.items():
        own = [r for r in rows if (r.masks, r.order, r.features) == (masks, order, features)]
        style = DASHED if order == UNKNOWN else "-"
        _line(place, own, colour_of[label], style, label)
    _finish(place, corner)


def _line(place: Axes, rows: Sequence[Row], colour: str, style: object, label: str) -> None:
    place.plot(
        [row.observed for row in rows],
        [max(row.error, 1e-16) for row in rows],
        color=colour,
        ls=style,
        marker=".",
        ms=5,
        lw=1.3,
        label=label,
    )


def _finish(place: Axes, corner: _Corner, columns: int = 1) -> None:
    place.set(xscale="log", yscale="log")
    place.axhline(1.0, color="0.6", lw=0.8, zorder=0)
    if place.get_xlim()[1] < 1000:
        place.set_xticks([1, 2, 4, 8, 16, 32, 64])
        place.xaxis.set_minor_locator(NullLocator())
        place.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    place.legend(fontsize=7, frameon=False, loc=corner, ncols=columns)
