"""Made solids: what is drawn, and from where."""

import numpy as np
import pytest

from catalogue_entry import entry
from fedatlas.data.formats import dataset_of
from fedatlas.data.formats.synthetic import SOLIDS, shaded, surface
from fedatlas.errors import FedatlasError

SHAPES = {key: value for key, value in entry().items() if key != "labels"} | {
    "name": "shapes",
    "format": "synthetic_views",
    "synthetic_views": {"seed": 3},
    "task": "multiclass",
    "features": 4 * 16 * 16,
    "shape": [4, 1, 16, 16],
    "classes": 8,
    "normalise": "from_train",
    "splits": {"train": {"rows": 16}, "test": {"rows": 8}},
}


@pytest.mark.parametrize("solid", SOLIDS)
def test_points_lie_on_closed_surfaces_with_unit_normals(solid):
    points, normals = surface(solid, np.random.default_rng(0))
    assert points.shape == normals.shape
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    assert np.linalg.norm(points, axis=1).max() < 1.01  # stays within the image from all sides
    assert (np.ptp(points, axis=0) > 0.4).all()


def test_a_ball_is_lit_in_its_middle_and_hides_what_is_behind():
    points, normals = surface("ball", np.random.default_rng(1))
    image = shaded(points, normals, 16, 16)
    assert image[8, 8] > 245  # turned to the viewer
    assert image[0, 0] == 0  # empty
    assert 55 <= image[8, 2] < 200  # its edge
    behind = shaded(np.array([[-0.5, 0, 0], [0.5, 0, 0]]), np.eye(3)[[0, 1]], 4, 4)
    assert behind[2, 2] == 55  # the nearer of the two, which is turned away


def test_rows_are_of_all_classes_and_of_the_seed_and_split_alone():
    dataset = dataset_of(SHAPES, "shapes")
    train, again, test = (dataset.read(split, []) for split in ("train", "train", "test"))
    assert train.features.shape == (16, 4 * 16 * 16)
    assert train.features.dtype == np.uint8
    assert np.bincount(train.label.astype(int)).tolist() == [2] * 8
    np.testing.assert_array_equal(train.features, again.features)
    assert not (train.features[:8] == test.features).all(axis=1).any()


def test_views_need_an_axis_of_views():
    with pytest.raises(FedatlasError, match="channels, height, width"):
        dataset_of(SHAPES | {"shape": [1, 16, 64]}, "shapes")
