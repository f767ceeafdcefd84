"""Made solids seen from several sides, for trials without ModelNet40's views.

A sample is a solid of one of eight classes, its surface sampled by random points with normals. Its
three sides are scaled by factors of their own, of 0.6 to 1, and it is turned about the vertical
axis by a random angle. View v of n looks at it from 30° above, at an angle of 360° v/n. A pixel is
as bright as the nearest point that falls on it is turned to a light at the viewer; empty pixels
are 0.
"""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedatlas.arithmetic.randomness import named_stream
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Files
from fedatlas.data.image_datasets import ImageDataset
from fedatlas.schema.models import Model

#: Classes in the order of their labels.
SOLIDS = ("box", "ball", "cylinder", "cone", "torus", "pyramid", "capsule", "cross")
ELEVATION = np.deg2rad(30)
POINTS = 3000  # of a solid: enough to cover its pixels at 16 × 16


class SyntheticViews(Model):
    """The seed of all solids.

    seed: of all solids.
    """

    seed: int = Field(ge=0)


class SyntheticViewsDataset(ImageDataset):
    """synthetic_views: the seed. `shape` is (views, 1, height, width)."""

    files_of_split: ClassVar[Files] = "no files"
    image_axes: ClassVar[int] = 4

    format: Literal["synthetic_views"]
    synthetic_views: SyntheticViews

    def read(self, split: str, raw: list[Path]) -> Samples:
        """Classes take turns, so that all are about as frequent."""
        rows, (views, _, height, width) = self.splits[split].rows or 0, self.shape
        random = named_stream(self.synthetic_views.seed, split)
        label = np.arange(rows) % len(SOLIDS)
        pixels = np.empty((rows, views, height, width), np.uint8)
        for number, solid in enumerate(label):
            points, normals = surface(SOLIDS[solid], random)
            sides = random.uniform(0.6, 1, 3)
            normals = normals / sides
            normals /= np.linalg.norm(normals, axis=1, keepdims=True)
            turned = random.uniform(0, 2 * np.pi)
            for view in range(views):
                seen = _camera(turned + 2 * np.pi * view / views)
                pixels[number, view] = shaded(points * sides @ seen, normals @ seen, height, width)
        return Samples.numbered(self.labels_of(label, self.name), pixels.reshape(rows, -1))


def surface(solid: str, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points (p, 3) on a solid within the unit ball, z being up, and unit normals (p, 3)."""
    angle = random.uniform(0, 2 * np.pi, POINTS)
    around = np.stack([np.cos(angle), np.sin(angle), np.zeros(POINTS)], axis=1)
    share = random.uniform(0, 1, POINTS)
    up = np.array([0.0, 0.0, 1.0])
    if solid == "ball":
        normals = _directions(random)
        return 0.8 * normals, normals
    if solid == "torus":
        tube = random.uniform(0, 2 * np.pi, POINTS)[:, None]
        normals = np.cos(tube) * around + np.sin(tube) * up
        return 0.55 * around + 0.25 * normals, normals
    if solid == "capsule":
        normals = _directions(random)
        return 0.35 * normals + 0.5 * np.sign(normals[:, 2:]) * share[:, None] * up, normals
    if solid == "cone":
        normals = (around + 0.5 * up) / np.linalg.norm([1, 0.5])
        radius = 0.65 * np.sqrt(share)[:, None]
        return radius * around + (0.65 - 2 * radius) * up, normals
    if solid == "cylinder":
        cap = random.random(POINTS) < 0.25
        height = np.where(cap, np.sign(share - 0.5), 2 * share - 1)[:, None]
        radius = np.where(cap, np.sqrt(random.random(POINTS)), 1.0)[:, None]
        normals = np.where(cap[:, None], height * up, around)
        return 0.5 * radius * around + 0.75 * height * up, normals
    if solid == "box":
        return _box(np.array([0.55, 0.55, 0.55]), random)
    if solid == "pyramid":
        flat, normals = _box(np.array([0.55, 0.55, 0.55]), random)
        flat[:, :2] *= (0.55 - flat[:, 2:]) / 1.1  # ever narrower upwards
        return flat, normals
    beams = np.array([[0.8, 0.2, 0.2], [0.2, 0.8, 0.2], [0.2, 0.2, 0.8]])  # cross
    parts = [_box(beam, random) for beam in beams]
    chosen = random.integers(0, 3, POINTS)
    points, normals = (
        np.stack(each)[chosen, np.arange(POINTS)] for each in zip(*parts, strict=True)
    )
    return points, normals


def shaded(points: np.ndarray, normals: np.ndarray, height: int, width: int) -> np.ndarray:
    """(height, width) uint8 of points (p, 3) seen along the first axis, from its positive end."""
    column = np.floor((points[:, 1] + 1) / 2 * width).astype(int).clip(0, width - 1)
    row = np.floor((1 - points[:, 2]) / 2 * height).astype(int).clip(0, height - 1)
    light = 55 + 200 * normals[:, 0].clip(0, 1)
    image = np.zeros((height, width), np.uint8)
    order = np.argsort(points[:, 0])  # the nearest last, which stays
    image[row[order], column[order]] = light[order].astype(np.uint8)
    return image


def _camera(angle: float) -> np.ndarray:
    """(3, 3): rows of points times it are seen along the first axis."""
    cos, sin = np.cos(angle), np.sin(angle)
    about = np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])
    cos, sin = np.cos(ELEVATION), np.sin(ELEVATION)
    above = np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]])
    seen: np.ndarray = about.T @ above
    return seen


def _directions(random: np.random.Generator) -> np.ndarray:
    """(p, 3) uniform unit vectors."""
    drawn = random.standard_normal((POINTS, 3))
    directions: np.ndarray = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return directions


def _box(half: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points and normals of a box whose sides are twice `half`."""
    points = random.uniform(-1, 1, (POINTS, 3)) * half
    axis = random.integers(0, 3, POINTS)
    sign = random.choice([-1.0, 1.0], POINTS)
    rows, normals = np.arange(POINTS), np.zeros((POINTS, 3))
    points[rows, axis] = sign * half[axis]
    normals[rows, axis] = sign
    return points, normals
