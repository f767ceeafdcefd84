"""Draw who sends to whom: weighted directed graphs with roots, and trees of secure sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedatlas.federations.vertical.secure_sum import AggregationTree, two_trees
from fedatlas.figures.style import WIDEST, draw, entry, finish, new_canvas
from fedatlas.schema.graphs import Graphs, roots, weight_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_WHOSE = {"states": "roots reach everyone", "trackers": "everyone reaches roots"}
_ROOT, _ROOT_HERE, _NO_ROOT = "#0072B2", "#A6D3F0", "white"
_LINE = "#555555"
_CENTRED: Any = {"ha": "center", "va": "center"}
_BOX: Any = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
# Lengths are in points.
_NODE = 9.0  # radius
_MARGIN = 4.0  # around nodes
_ROOM = 42.0  # length of the circle for each agent
_SMALLEST = 78.0  # radius of the circle
_RADIUS_PER_WEIGHT = 7.0  # makes room for written weights
_BEND = 0.15  # of a chord, to the right
_FEW = 8  # agents on a circle whose chords pass no other agent closely
_LABELLED = 12  # most edges of a graph whose weights can be read
_CROWDED = 50  # with more edges arrows are thinner
_AT = 0.27  # of the way from the sender, where a weight stands: arrows cross further on
_MESSAGE, _KEPT = "#0072B2", "#999999"  # of trees; distinct with any colour vision
_NODE_RADIUS, _LEAF_ROOM = 8.5, 19.9  # of a tree's node; width for each leaf


class _Arrow(NamedTuple):
    """A quadratic Bézier curve from sender to receiver, or between two who both send."""

    start: np.ndarray
    end: np.ndarray
    bend: float  # to the right, like matplotlib's `rad`
    weight: float
    both_ways: bool

    @property
    def label_place(self) -> np.ndarray:
        """Where the weight stands, (2,)."""
        way = self.end - self.start
        control = (self.start + self.end) / 2 + self.bend * np.array([way[1], -way[0]])
        parts = (1 - _AT) ** 2 * self.start + 2 * _AT * (1 - _AT) * control + _AT**2 * self.end
        return np.asarray(parts)


def compose_graphs(title: str, graphs: Mapping[str, np.ndarray]) -> Canvas:
    """Graphs side by side, or below each other, agents on a circle.

    graphs: weights (n, n) of "states" and, if there are any, of "trackers"; [i, j] > 0 if and only
    if i receives from j.
    """
    nodes = _nodes(graphs)
    width, height = (np.ptp(nodes, axis=0) + 2 * (_NODE + _MARGIN)) / 72
    across = len(graphs) if (width + 0.5) * len(graphs) <= WIDEST else 1
    down = len(graphs) // across
    canvas = new_canvas(max((width + 0.5) * across, 5.5), (height + 0.5) * down + 0.4)
    canvas.set_layout_engine("constrained", h_pad=0.08, w_pad=0.12)
    # Trackers gather where states spread from, so their roots are those of the reversed graph.
    own = {name: set(roots(w.T if name == "trackers" else w)) for name, w in graphs.items()}
    everywhere = set.intersection(*own.values())
    axes = canvas.subplots(down, across, squeeze=False).ravel()
    shown: set[str] = set()
    plain = False
    for place, (name, weights) in zip(axes, graphs.items(), strict=True):
        colours = [
            _ROOT if agent in everywhere else _ROOT_HERE if agent in own[name] else _NO_ROOT
            for agent in range(len(nodes))
        ]
        shown |= set(colours)
        arrows = _arrows(weights, nodes)
        undirected = all(arrow.both_ways for arrow in arrows)
        plain |= undirected
        _draw_arrows(place, arrows, heads=not undirected)
        written, about = _weights_shown(weights)
        if written:
            for arrow in arrows:
                x, y = arrow.label_place
                place.text(x, y, f"{arrow.weight:.3g}", fontsize=8, bbox=_BOX, **_CENTRED)
        _draw_agents(place, nodes, colours)
        place.set_title(f"{name}: {_WHOSE[name]}\n{about}", fontsize=9)
    names = {
        _ROOT: "root of both graphs" if len(graphs) > 1 else "root",
        _ROOT_HERE: "root of this graph only",
        _NO_ROOT: "not a root",
    }
    look: Any = {"ls": "", "marker": "o", "ms": 9, "mec": "black", "mew": 0.8}
    handles = [entry(name, mfc=colour, **look) for colour, name in names.items() if colour in shown]
    note = "arrows lead from sender to receiver"
    finish(canvas, title, f"{note}, plain lines both ways" if plain else note, handles)
    return canvas


def draw_graphs(title: str, graphs: Graphs, agents: int, output: list[Path]) -> None:
    """Draw who sends to whom."""
    declared = {"states": graphs.states, "trackers": graphs.trackers}
    weights = {
        name: weight_matrix(graph, agents, name)
        for name, graph in declared.items()
        if graph is not None
    }
    draw(output, compose_graphs, title, weights)


def _nodes(graphs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Places (n, 2) of agents on a circle, clockwise from the top."""
    agents = len(graphs["states"])
    written = max(np.count_nonzero(w) if _weights_shown(w)[0] else 0 for w in graphs.values())
    radius = max(_SMALLEST, agents * _ROOM / (2 * np.pi), written * _RADIUS_PER_WEIGHT)
    angle = 2 * np.pi * np.arange(agents) / agents
    return np.asarray(radius * np.stack([np.sin(angle), np.cos(angle)], axis=1))


def _draw_agents(place: Axes, nodes: np.ndarray, colours: list[str]) -> None:
    x, y = nodes.T
    place.scatter(x, y, s=(2 * _NODE) ** 2, c=colours, edgecolors="black", lw=0.8, zorder=3)
    for agent, colour in enumerate(colours):
        ink = "white" if colour == _ROOT else "black"
        place.text(x[agent], y[agent], str(agent), color=ink, fontsize=8.5, **_CENTRED, zorder=4)
    around = _NODE + _MARGIN
    place.set(
        xlim=(x.min() - around, x.max() + around),
        ylim=(y.min() - around, y.max() + around),
        aspect="equal",
    )
    place.set_axis_off()


def _draw_arrows(place: Axes, arrows: list[_Arrow], heads: bool) -> None:
    from matplotlib.patches import FancyArrowPatch

    size, width = (7, 0.7) if len(arrows) > _CROWDED else (9, 1.1)
    for arrow in arrows:
        head = "<|-|>" if arrow.both_ways else "-|>"
        patch = FancyArrowPatch(
            tuple(arrow.start),
            tuple(arrow.end),
            connectionstyle=f"arc3,rad={arrow.bend}",
            arrowstyle=head if heads else "-",
            mutation_scale=size,
            shrinkA=_NODE,
            shrinkB=_NODE,
            color=_LINE,
            lw=width,
        )
        place.add_patch(patch)


def _arrows(weights: np.ndarray, nodes: np.ndarray) -> list[_Arrow]:
    """One for each edge, or for two opposite edges whose weights are equal or not written."""
    arrows = []
    written, _ = _weights_shown(weights)
    for one, other in combinations(range(len(weights)), 2):
        there, back = float(weights[other, one]), float(weights[one, other])
        both_ways = there > 0 and back > 0 and (there == back or not written)
        apart = there > 0 and back > 0 and not both_ways
        # On a wide circle a straight arrow would pass over the agents between. Clockwise, the
        # middle of the circle is to the right.
        inwards = _BEND if 2 * (other - one) <= len(nodes) else -_BEND
        bend = inwards if len(nodes) > _FEW and 1 < other - one < len(nodes) - 1 else 0.0
        if there > 0:
            way = nodes[one], nodes[other]
            arrows.append(_Arrow(*way, bend or _BEND * apart, there, both_ways))
        if back > 0 and not both_ways:
            # Opposite arrows bend apart, or one of them more.
            own = -3 * bend if bend and apart else -bend or _BEND * apart
            arrows.append(_Arrow(nodes[other], nodes[one], own, back, False))
    return arrows


def _weights_shown(weights: np.ndarray) -> tuple[bool, str]:
    """Whether weights stand on their arrows, and what the title says of them."""
    positive = weights[weights > 0]
    if np.ptp(positive) <= 1e-9 * positive.max():
        return False, f"every weight is {positive[0]:.3g}"
    if len(positive) <= _LABELLED:
        return True, "weights on the arrows"
    return False, f"weights from {positive.min():.3g} to {positive.max():.3g}"


class _Node(NamedTuple):
    """Where a sum is drawn and which party holds it; a leaf is one party's own number."""

    x: float
    y: int
    party: int
    leaf: bool


def compose_trees(trees: Sequence[AggregationTree], titles: Sequence[str]) -> Canvas:
    """Trees side by side, or below each other, with the root on top."""
    width = max(max(tree.parties, 6) * _LEAF_ROOM / 72 + 0.5 for tree in trees)
    height = 0.4 + 0.75 * max(tree.depth for tree in trees)
    across = len(trees) if width * len(trees) <= WIDEST else 1
    down = len(trees) // across
    canvas = new_canvas(max(width * across, 6.5), height * down + 0.3)
    axes = canvas.subplots(down, across, squeeze=False).ravel()
    for place, tree, title in zip(axes, trees, titles, strict=True):
        _draw_tree(place, tree)
        place.set_title(title, fontsize=9)
    handles = [
        entry("a message", color=_MESSAGE),
        entry("a party's own sum so far, not sent", color=_KEPT, ls=":"),
    ]
    finish(canvas, "", "", handles)
    return canvas


def draw_trees(parties: int, output: list[Path]) -> None:
    """Draw the two trees along which parties sum."""
    titles = ("masked shares, to party 0", "masks, to party 0")
    draw(output, compose_trees, two_trees(parties), titles)


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
            ends = {"shrinkA": _NODE_RADIUS, "shrinkB": _NODE_RADIUS}
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
            fontsize=8.5,
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
