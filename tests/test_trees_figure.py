"""Drawings of aggregation trees: every party and message, nothing on top of another."""

from itertools import combinations
from pathlib import Path

import matplotlib.image
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fedatlas.federations.vertical.secure_sum import two_trees
from fedatlas.figures.graphs import compose_trees
from fedatlas.figures.style import draw

TITLES = ["masked shares", "masks"]


def nodes(axes):
    return [note for note in axes.texts if note.get_text()]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("parties", [2, 3, 16])
def test_it_draws(parties: int, tmp_path: Path):
    outputs = [tmp_path / "trees.svg", tmp_path / "trees.png"]
    draw(outputs, compose_trees, two_trees(parties), TITLES)
    assert outputs[0].read_text(encoding="utf-8").rstrip().endswith("</svg>")
    pixels = matplotlib.image.imread(outputs[1])[..., :3]
    assert pixels.shape[1] > 900
    assert 0.002 < (pixels < 0.9).any(axis=2).mean() < 0.5


@pytest.mark.parametrize("parties", [2, 3, 5, 8, 16])
def test_every_party_and_every_message_is_drawn_once(parties: int):
    trees = two_trees(parties)
    canvas = compose_trees(trees, TITLES)
    assert [axes.get_title() for axes in canvas.axes] == TITLES
    for axes, tree in zip(canvas.axes, trees, strict=True):
        leaves = [note.get_text() for note in nodes(axes) if note.xy[1] == 0]
        assert sorted(leaves, key=int) == [str(party) for party in range(parties)]
        above = [note.get_text() for note in nodes(axes) if note.xy[1] > 0]
        assert above == [str(receiver) for receiver, _ in tree.steps]
        assert len(axes.texts) - len(nodes(axes)) == len(axes.lines) == parties - 1


@pytest.mark.parametrize("parties", [4, 7, 16, 32])
def test_no_two_nodes_touch(parties: int):
    canvas = compose_trees(two_trees(parties), TITLES)
    FigureCanvasAgg(canvas).draw()
    for axes in canvas.axes:
        boxes = [note.get_bbox_patch().get_window_extent() for note in nodes(axes)]
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_lines_do_not_cross():
    """The children of a node stand side by side: what is below it fills a gapless range."""
    trees = two_trees(13)
    for axes, tree in zip(compose_trees(trees, TITLES).axes, trees, strict=True):
        place = {int(note.get_text()): note.xy[0] for note in nodes(axes) if note.xy[1] == 0}
        for part in tree.leaf_sets():
            places = sorted(place[party] for party in part)
            assert places[-1] - places[0] == len(part) - 1
