"""Graphs as data: families, Laplacians, Assumption 1 of DP-GT, and drawings of them."""

import itertools
from functools import cache
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch
from pydantic import TypeAdapter
from scipy.linalg import null_space
from scipy.sparse import csgraph, csr_array

from fedatlas.errors import FedatlasError
from fedatlas.figures.graphs import compose_graphs
from fedatlas.figures.style import draw
from fedatlas.schema.graphs import (
    Graph,
    Graphs,
    check_common_root,
    check_connected_and_balanced,
    in_laplacian,
    out_laplacian,
    roots,
    weight_matrix,
)
from fedatlas.schema.models import validated
from figure_factory import caption

# Two graphs that are neither strongly connected nor balanced and share two of their roots.
STATES = {(0, 1): 1, (1, 2): 1, (2, 0): 1, (0, 3): 0.5, (2, 3): 0.5, (1, 4): 0.5, (3, 4): 0.5}
TRACKERS = {(4, 0): 1, (0, 4): 1, (1, 2): 0.5, (0, 2): 0.5, (2, 3): 1, (3, 1): 0.5, (4, 1): 0.5}
UNDIRECTED = ["ring", "star", "complete"]
DIRECTED = ["directed_ring", "directed_path", "exponential"]
AGENTS = [2, 3, 4, 5, 8, 9, 20]


def graph(kind: str, weights: str = "received") -> Graph:
    return TypeAdapter(Graph).validate_python({"kind": kind, "weights": weights})


def edge_list(edges: dict[tuple[int, int], float]) -> Graph:
    listed = [(sender, receiver, weight) for (sender, receiver), weight in edges.items()]
    return TypeAdapter(Graph).validate_python({"kind": "edges", "edges": listed})


def matrix(edges: dict[tuple[int, int], float], agents: int = 5) -> np.ndarray:
    """By hand: row of the receiver, column of the sender."""
    weights = np.zeros((agents, agents))
    for (sender, receiver), weight in edges.items():
        weights[receiver][sender] = weight
    return weights


def edges_of(weights: np.ndarray) -> set[tuple[int, int]]:
    return {(int(j), int(i)) for i, j in zip(*np.nonzero(weights), strict=True)}


def roots_by_distance(weights: np.ndarray) -> list[int]:
    """Whose farthest agent is at a finite distance, by scipy's search along edges."""
    distance = csgraph.shortest_path(csr_array(weights.T), unweighted=True)
    return [agent for agent in range(len(weights)) if np.isfinite(distance[agent]).all()]


@st.composite
def matrices(draw: st.DrawFn, agents: int | None = None) -> np.ndarray:
    """Weights of few edges, so that some graphs have roots and some have none."""
    n = agents or draw(st.integers(2, 6))
    pairs = list(itertools.permutations(range(n), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2 * n))
    weights = draw(st.lists(st.sampled_from([0.25, 0.5, 1, 2]), min_size=len(edges)))
    return matrix(dict(zip(edges, weights, strict=False)), n)


# Specifications and weights


def test_an_edge_is_in_the_row_of_its_receiver():
    weights = weight_matrix(edge_list({(0, 2): 0.25, (2, 1): 3}), 4)
    assert weights.dtype == np.float64
    assert weights.tolist() == [[0, 0, 0, 0], [0, 0, 3, 0], [0.25, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("agents", AGENTS)
def test_families_have_the_edges_of_their_definition(agents: int):
    everyone = range(agents)
    expected: dict[str, set[tuple[int, int]]] = {
        "directed_ring": {(i, (i + 1) % agents) for i in everyone},
        "directed_path": {(i, i + 1) for i in range(agents - 1)},
        "star": {(0, i) for i in everyone if i} | {(i, 0) for i in everyone if i},
        "complete": set(itertools.permutations(everyone, 2)),
    }
    expected["ring"] = {e for i, j in expected["directed_ring"] for e in ((i, j), (j, i))}
    expected["exponential"], step = set(), 1
    while step < agents:
        expected["exponential"] |= {((i - step) % agents, i) for i in everyone}
        step *= 2
    for kind, edges in expected.items():
        assert edges_of(weight_matrix(graph(kind), agents)) == edges, kind


@pytest.mark.parametrize("kind", [*UNDIRECTED, *DIRECTED])
@pytest.mark.parametrize("agents", AGENTS)
def test_sums_of_weights(kind: str, agents: int):
    received = weight_matrix(graph(kind, "received"), agents)
    sent = weight_matrix(graph(kind, "sent"), agents)
    assert edges_of(received) == edges_of(sent)
    np.testing.assert_allclose(received.sum(1), received.any(1), rtol=1e-15)
    np.testing.assert_allclose(sent.sum(0), sent.any(0), rtol=1e-15)
    for row, column in zip(received, sent.T, strict=True):
        assert len(set(row[row > 0])) <= 1
        assert len(set(column[column > 0])) <= 1
    assert received[0].any() == (kind != "directed_path")


@pytest.mark.parametrize("agents", AGENTS)
@pytest.mark.parametrize("kind", UNDIRECTED)
def test_metropolis_weights_are_doubly_stochastic_with_self_weights(kind: str, agents: int):
    weights = weight_matrix(graph(kind, "metropolis"), agents)
    degree = [len([edge for edge in edges_of(weights) if edge[1] == i]) for i in range(agents)]
    for i, j in itertools.product(range(agents), repeat=2):
        expected = 1 / (1 + max(degree[i], degree[j])) if (j, i) in edges_of(weights) else 0
        assert weights[i, j] == expected
    whole = weights + np.diag(1 - weights.sum(1))
    assert whole.min() >= 0
    np.testing.assert_allclose([whole.sum(0), whole.sum(1)], 1, rtol=1e-14)
    check_connected_and_balanced(weights)


RING = {"kind": "ring", "weights": "received"}


@pytest.mark.parametrize("key", ["states", "trackers"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": "edges", "edges": [[0, 1, 1], [2, 2, 1]]}, "edges': agent 2 sends to itself"),
        (
            {"kind": "edges", "edges": [[3, 1, 1], [0, 1, 1], [3, 1, 2]]},
            "edges': the edge from 3 to 1 stands twice; keep one",
        ),
        ({"kind": "edges", "edges": []}, "edges': lists no edge; state [sender, receiver, weight]"),
        ({"kind": "edges", "edges": [[0, 1, 0]]}, "edges.0.2', value 0: must be greater"),
        ({"kind": "edges", "edges": [[0, 1]]}, "edges.0.2'"),
        (
            {"kind": "exponential", "weights": "metropolis"},
            "weights', value 'metropolis': must be 'received' or 'sent'",
        ),
        ({"kind": "ring", "weights": "sent", "seed": 1}, "seed'; allowed keys: kind, weights"),
        ({"kind": "torus", "weights": "sent"}, "kind', value 'torus': must be one of 'edges', "),
    ],
)
def test_a_wrong_graph_is_explained(key: str, value, message: str):
    with pytest.raises(FedatlasError) as error:
        validated(Graphs, {"states": RING, key: value}, "some.yaml: graphs")
    (line,) = str(error.value).splitlines()
    assert line.startswith("some.yaml: graphs: ")
    assert f"key '{key}.{message}" in line


def test_agents_that_are_not_there_are_named():
    with pytest.raises(
        FedatlasError, match=r"^graphs\.trackers: the edge \[1, 5, 0\.5\] is beyond"
    ):
        weight_matrix(edge_list({(0, 1): 1, (1, 5): 0.5}), 5, "graphs.trackers")
    weight_matrix(edge_list({(0, 1): 1, (1, 5): 0.5}), 6)
    with pytest.raises(FedatlasError, match=r"^graph: the edge \[7, 1, 1\] is beyond the 7 agents"):
        weight_matrix(edge_list({(7, 1): 1}), 7)


@pytest.mark.parametrize("spec", [graph("ring"), edge_list({(0, 1): 1})])
def test_one_agent_is_too_few(spec: Graph):
    with pytest.raises(FedatlasError, match=r"^graphs.states: among 1 agents; state 2 agents"):
        weight_matrix(spec, 1, "graphs.states")


# Laplacians


@given(matrices(), st.integers(0, 99))
def test_laplacians_are_sums_over_edges(weights: np.ndarray, seed: int):
    n = len(weights)
    values = np.random.Generator(np.random.PCG64(seed)).normal(size=n)
    towards = np.zeros(n)  # −L1 x: what consensus moves
    moved = np.zeros(n)  # −L2 y: what a transport moves from senders to receivers
    for i, j in itertools.product(range(n), repeat=2):
        towards[i] += weights[i, j] * (values[j] - values[i])
        moved[i] += weights[i, j] * values[j]
        moved[j] -= weights[i, j] * values[j]
    np.testing.assert_allclose(-in_laplacian(weights) @ values, towards, atol=1e-12)
    np.testing.assert_allclose(-out_laplacian(weights) @ values, moved, atol=1e-12)
    np.testing.assert_array_equal(in_laplacian(weights).sum(1), 0)
    np.testing.assert_array_equal(out_laplacian(weights).sum(0), 0)


# Assumption 1


@given(matrices())
def test_roots_reach_everyone(weights: np.ndarray):
    assert list(roots(weights)) == roots_by_distance(weights)


@given(matrices())
def test_roots_exist_iff_zero_is_a_simple_eigenvalue_and_carry_its_vector(weights: np.ndarray):
    """The algebra behind Lemma 1 of DP-GT, without any search along edges."""
    kernel = null_space(in_laplacian(weights).T, rcond=1e-9)
    assert bool(roots(weights)) == (kernel.shape[1] == 1)
    if roots(weights):
        shares = kernel[:, 0] / kernel.sum()
        assert tuple(np.flatnonzero(shares > 1e-6)) == roots(weights)


@given(st.integers(2, 5).flatmap(lambda n: st.tuples(matrices(n), matrices(n))))
def test_assumption_1_holds_iff_one_agent_is_reached_and_reaches(pair):
    states, trackers = pair
    spreads = roots_by_distance(states)
    gathers = roots_by_distance(trackers.T)
    if set(spreads) & set(gathers):
        check_common_root(states, trackers)
        v1 = null_space(in_laplacian(states).T, rcond=1e-9)[:, 0]
        v2 = null_space(out_laplacian(trackers), rcond=1e-9)[:, 0]
        assert (v1 / v1.sum()) @ (v2 / v2.sum()) > 1e-6
        return
    with pytest.raises(FedatlasError) as error:
        check_common_root(states, trackers)
    where = "graphs.states" if not spreads else "graphs.trackers" if not gathers else "graphs"
    assert str(error.value).startswith(f"{where}: ")


def refusal(states: np.ndarray, trackers: np.ndarray) -> str:
    with pytest.raises(FedatlasError) as error:
        check_common_root(states, trackers)
    return str(error.value)


# Two groups that nobody enters, while agent 4 hears of both; transposed, two that nobody leaves.
APART = matrix({(0, 1): 1, (1, 0): 1, (2, 3): 1, (1, 4): 0.5, (3, 4): 0.5})


@pytest.mark.parametrize(
    ("states", "trackers", "problem", "groups"),
    [
        (APART, matrix(TRACKERS), "states: no agent's state reaches", "into {0, 1}, {2} from outs"),
        (
            matrix(STATES),
            APART.T,
            "trackers: no agent is reached by",
            "out of {0, 1}, {2}; add edg",
        ),
    ],
)
def test_groups_that_nobody_enters_or_leaves_are_named(states, trackers, problem, groups):
    message = refusal(states, trackers)
    assert message.startswith(f"graphs.{problem}")
    assert f"there is no way {groups}" in message


def test_roots_without_a_common_one_are_explained_and_mended_by_the_remedy():
    path = weight_matrix(graph("directed_path"), 5)
    trackers = matrix({(0, 1): 1, (1, 2): 1, (2, 3): 1, (3, 4): 1, (4, 3): 1})
    said = refusal(path, trackers)
    assert "the states of {0} reach all others" in said and "{3, 4} are reached by all" in said
    check_common_root(path + matrix({(4, 0): 1}), trackers)
    check_common_root(path, trackers + matrix({(3, 0): 1}))


def test_long_lists_are_cut():
    nobody = np.zeros((30, 30))
    nobody[np.arange(1, 20), np.arange(19)] = 1  # a path of 20, and ten on their own
    nobody[0, 19] = 1
    message = refusal(nobody, nobody)
    assert "into {0, 1, 2, " in message
    assert "17, 18, 19}, {20}, {2… from outside" in message


# Undirected graphs


@given(matrices(), st.sampled_from([0.25, 0.125]))
def test_balanced_graphs_are_connected_ones(weights: np.ndarray, weight: float):
    symmetric = weight / 2 * ((weights + weights.T) > 0)
    if csgraph.connected_components(symmetric, directed=False)[0] == 1:
        check_connected_and_balanced(symmetric)
        return
    with pytest.raises(FedatlasError, match=r"^graphs.states: there is no way between "):
        check_connected_and_balanced(symmetric)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (
            {(0, 1): 0.5, (1, 0): 0.25},
            "agent 0 receives from 1 with the weight 0.25, but 1 from 0 with 0.5; ",
        ),
        (
            {(0, 1): 0.5, (1, 0): 0.5, (1, 2): 0.75, (2, 1): 0.75},
            "the weights that agent 1 receives sum to 1.25; ",
        ),
        (
            {(0, 1): 1, (1, 0): 1, (2, 3): 1, (3, 2): 1},
            "there is no way between {0, 1}, {2, 3}, {4}; ",
        ),
    ],
)
def test_graphs_that_are_not_balanced_are_explained(edges, message: str):
    with pytest.raises(FedatlasError) as error:
        check_connected_and_balanced(matrix(edges))
    assert str(error.value).startswith(f"graphs.states: {message}")


def test_rounding_is_not_a_sum_above_one():
    sums = [weight_matrix(graph("complete"), agents).sum(1).max() for agents in range(2, 60)]
    assert max(sums) > 1
    check_connected_and_balanced(weight_matrix(graph("complete"), 2 + int(np.argmax(sums))))
    check_connected_and_balanced(weight_matrix(graph("ring"), 4))
    with pytest.raises(FedatlasError, match="symmetric"):
        check_connected_and_balanced(weight_matrix(graph("star"), 4))


# Drawings

PAIR = {"states": matrix(STATES), "trackers": matrix(TRACKERS)}
EXPONENTIAL = {"states": weight_matrix(graph("exponential"), 20)}
_EDGES = (np.random.default_rng(0).random((6, 6)) < 0.5) & ~np.eye(6, dtype=bool)
CROWD = {"states": _EDGES / np.maximum(_EDGES.sum(1, keepdims=True), 1)}
STAR = {"states": weight_matrix(graph("star"), 5)}
CASES = {"pair": PAIR, "exponential": EXPONENTIAL, "crowd": CROWD, "star": STAR}


def drawn(graphs: dict[str, np.ndarray]):
    canvas = compose_graphs("Some experiment", graphs)
    FigureCanvasAgg(canvas).draw()
    return canvas


@cache
def of_case(case: str):
    return drawn(CASES[case])


def arrows_of(axes) -> list[FancyArrowPatch]:
    return [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]


def nodes_of(axes) -> np.ndarray:
    """Middles of the agents, in points."""
    (nodes,) = axes.collections
    return axes.transData.transform(nodes.get_offsets()) * 72 / axes.figure.dpi


def curve_of(arrow: FancyArrowPatch) -> np.ndarray:
    """The places (50, 2) along an arrow's line as it is drawn, in points."""
    line = arrow.get_path().vertices[:3]
    start, control, end = arrow.axes.transData.transform(line) * 72 / arrow.figure.dpi
    t = np.linspace(0, 1, 50)[:, None]
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end


def ends_of(arrow: FancyArrowPatch) -> tuple[int, int]:
    """The agents from whom and to whom an arrow leads."""
    curve, nodes = curve_of(arrow), nodes_of(arrow.axes)
    first, last = (int(np.linalg.norm(nodes - place, axis=1).argmin()) for place in curve[[0, -1]])
    return first, last


def is_two_headed(arrow: FancyArrowPatch) -> bool:
    return type(arrow.get_arrowstyle()).__name__ == "CurveFilledAB"


def labels_of(axes) -> list:
    return [text for text in axes.texts if text.get_bbox_patch() is not None]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", ["pair", "crowd", "star"])
def test_it_draws(case: str, tmp_path: Path):
    draw([tmp_path / "graphs.png"], compose_graphs, "Some experiment", CASES[case])
    pixels = matplotlib.image.imread(tmp_path / "graphs.png")[..., :3]
    assert pixels.shape[1] > 800
    assert 0.01 < (pixels < 0.9).any(axis=2).mean() < 0.5


@pytest.mark.parametrize("case", CASES)
def test_every_edge_is_an_arrow_from_sender_to_receiver(case: str):
    graphs = CASES[case]
    for axes, weights in zip(of_case(case).axes, graphs.values(), strict=True):
        edges = set()
        for arrow in arrows_of(axes):
            sender, receiver = ends_of(arrow)
            added = {(sender, receiver)}
            if is_two_headed(arrow):
                added.add((receiver, sender))
                assert weights[sender, receiver] == weights[receiver, sender]
            assert not edges & added
            edges |= added
        assert edges == edges_of(weights)
        names = [text.get_text() for text in axes.texts if text.get_bbox_patch() is None]
        assert names == [str(agent) for agent in range(len(weights))]


def test_opposite_edges_share_an_arrow_if_their_weights_are_equal():
    two_headed = [
        {ends_of(arrow) for arrow in arrows_of(axes) if is_two_headed(arrow)}
        for axes in of_case("pair").axes
    ]
    assert two_headed == [set(), {(0, 4)}]
    assert [len(arrows_of(axes)) for axes in of_case("pair").axes] == [7, 6]
    assert len(arrows_of(of_case("star").axes[0])) == 8


@pytest.mark.parametrize("case", CASES)
def test_arrows_pass_by_agents_and_by_each_other(case: str):
    for axes in of_case(case).axes:
        nodes, arrows = nodes_of(axes), arrows_of(axes)
        (circles,) = axes.collections
        radius = np.sqrt(circles.get_sizes()[0]) / 2
        apart = np.linalg.norm(nodes[:, None] - nodes, axis=2)
        assert apart[apart > 0].min() > 2 * radius + 10  # room for an arrow between neighbours
        middles: dict[frozenset[int], list[np.ndarray]] = {}
        for arrow in arrows:
            curve, ends = curve_of(arrow), ends_of(arrow)
            others = np.delete(nodes, ends, axis=0)
            assert np.linalg.norm(curve[:, None] - others, axis=2).min() > radius + 2
            # The whole arrow shows: it starts and ends where circles do.
            for place, agent in zip(curve[[0, -1]], ends, strict=True):
                assert radius - 0.5 < np.linalg.norm(place - nodes[agent]) < radius + 10
            middles.setdefault(frozenset(ends), []).append(curve[25])
        for opposite in middles.values():
            for one, other in itertools.combinations(opposite, 2):
                assert np.linalg.norm(one - other) > 8


@pytest.mark.parametrize("case", ["pair", "crowd", "star"])
def test_unequal_weights_stand_on_their_arrows_and_touch_nothing(case: str):
    graphs = CASES[case]
    for axes, weights in zip(of_case(case).axes, graphs.values(), strict=True):
        arrows, labels = arrows_of(axes), labels_of(axes)
        for arrow, label in zip(arrows, labels, strict=True):
            sender, receiver = ends_of(arrow)
            assert label.get_text() == f"{weights[receiver, sender]:.3g}"
            middle = axes.transData.transform(label.get_position()) * 72 / axes.figure.dpi
            assert np.linalg.norm(curve_of(arrow) - middle, axis=1).min() < 3
        boxes = [label.get_bbox_patch().get_window_extent() for label in labels]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        scale = axes.figure.dpi / 72
        for box in boxes:
            centre = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2
            assert np.linalg.norm(nodes_of(axes) * scale - centre, axis=1).min() > 16 * scale


@pytest.mark.parametrize(
    ("graphs", "titles"),
    [
        (PAIR, ["weights on the arrows"] * 2),
        (EXPONENTIAL, ["every weight is 0.2"]),
        ({"states": weight_matrix(graph("star", "sent"), 20)}, ["weights from 0.0526 to 1"]),
    ],
)
def test_weights_are_said_once_where_they_are_equal_or_many(graphs, titles):
    axes = drawn(graphs).axes
    assert [place.get_title().splitlines()[1] for place in axes] == titles
    for place, title in zip(axes, titles, strict=True):
        assert bool(labels_of(place)) == (title == "weights on the arrows")


def test_undirected_graphs_are_plain_lines():
    directed = weight_matrix(graph("directed_ring"), 6)
    canvas = drawn({"states": weight_matrix(graph("complete"), 6), "trackers": directed})
    arrows = arrows_of(canvas.axes[0])
    assert len(arrows) == 15
    assert {type(arrow.get_arrowstyle()).__name__ for arrow in arrows} == {"Curve"}
    assert caption(canvas).endswith("sender to receiver, plain lines both ways.")
    assert not caption(of_case("pair")).endswith("both ways.")


def test_roots_are_marked():
    canvas = of_case("pair")
    dark, light, white = "#0072b2", "#a6d3f0", "#ffffff"
    colours = [[to_hex(c) for c in axes.collections[0].get_facecolors()] for axes in canvas.axes]
    assert colours == [[light, dark, dark, white, white], [white, dark, dark, light, white]]
    (legend,) = canvas.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said == ["root of both graphs", "root of this graph only", "not a root"]
    marks = [to_hex(handle.get_markerfacecolor()) for handle in legend.legend_handles]
    assert marks == [dark, light, white]
    assert [axes.get_title().splitlines()[0] for axes in canvas.axes] == [
        "states: roots reach everyone",
        "trackers: everyone reaches roots",
    ]
    (legend,) = of_case("star").legends
    assert [text.get_text() for text in legend.get_texts()] == ["root"]
