"""Aggregation trees side by side: who adds up what, in which order."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.federations.vertical.secure_sum import AggregationTree
from fedatlas.figures.style import legend_below

_MESSAGE, _KEPT = "#0072B2", "#999999"  # distinct with any colour vision
# In points.
_RADIUS = 8.5  # of a node
_ROOM = 21.0  # width for each leaf


class _Node(NamedTuple):
    """Where a sum is drawn and which party holds it; a leaf is one party's own number."""

    x: float
    y: int
    party: int
    leaf: bool


def compose(trees: Sequence[AggregationTree], titles: Sequence[str]) -> Canvas:
    """Trees side by side, parties below and the root on top."""
    width = sum(max(tree.parties, 6) * _ROOM / 72 + 0.5 for tree in trees)
    height = 1.3 + 0.75 * max(tree.depth for tree in trees)
    canvas = Canvas(figsize=(max(width, 6.5), height), layout="constrained")
    (axes,) = canvas.subplots(1, len(trees), squeeze=False)
    for place, tree, title in zip(axes, trees, titles, strict=True):
        _draw_tree(place, tree)
        place.set_title(title, fontsize=9)
    handles = [
        Line2D([], [], color=_MESSAGE, label="a message"),
        Line2D([], [], color=_KEPT, ls=":", label="a party's own sum so far, not sent"),
    ]
    legend_below(canvas, handles, columns=2)
    return canvas


def _draw_tree(place: Axes, tree: AggregationTree) -> None:
    order = _leaf_order(tree)
    held = {party: _Node(order.index(party), 0, party, True) for party in order}
    nodes = list(held.values())
    for level, steps in enumerate(tree.levels, start=1):
        for receiver, sender in steps:
            own, other = held[receiver], held[sender]
            node = _Node((own.x + other.x) / 2, level, receiver, False)
            place.plot([own.x, node.x], [own.y, node.y], color=_KEPT, ls=":", lw=1.2, zorder=1)
            arrow = {"arrowstyle": "-|>", "color": _MESSAGE, "lw": 1.2}
            ends = {"shrinkA": _RADIUS, "shrinkB": _RADIUS}
            place.annotate("", node[:2], other[:2], arrowprops=arrow | ends)
            held[receiver] = node
            nodes.append(node)
    for node in nodes:
        shape = "circle,pad=0.25" if node.leaf else "square,pad=0.35"
        place.annotate(
            str(node.party),
            node[:2],
            ha="center",
            va="center",
            fontsize=8,
            bbox={"boxstyle": shape, "fc": "white", "ec": "black", "lw": 0.8},
            zorder=3,
        )
    place.set_xlim(-0.7, tree.parties - 0.3)
    place.set_ylim(-0.4, tree.depth + 0.4)
    levels = [f"level {y + 1}" for y in range(tree.depth)]
    place.set_yticks(range(tree.depth + 1), ["parties", *levels])
    place.tick_params(length=0)
    place.set_xticks([])
    place.spines[:].set_visible(False)
    place.grid(False)


def _leaf_order(tree: AggregationTree) -> list[int]:
    """Parties from left to right such that no two lines cross."""
    held = {party: [party] for party in range(tree.parties)}
    for receiver, sender in tree.steps:
        held[receiver] += held.pop(sender)
    return held[tree.root]
