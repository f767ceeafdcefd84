"""Data without files: those that come with scikit-learn, and synthetic rows, noise and views.

Synthetic data are for trials where the real files are not at hand, and for functions whose noise is
part of their definition. They depend on the declared numbers and the name of the split alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.arithmetic.randomness import named_stream
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.data.formats.images import ImageDataset
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

if TYPE_CHECKING:
    from scipy import sparse

# By name of a bundled set: its file in scikit-learn, and how many lines are above its rows.
_FILES = {"breast_cancer": ("breast_cancer.csv", 1), "digits": ("digits.csv.gz", 0)}
CALIBRATION_ROWS = 2000
#: Classes of solids in the order of their labels.
SOLIDS = ("box", "ball", "cylinder", "cone", "torus", "pyramid", "capsule", "cross")
ELEVATION = np.deg2rad(30)
POINTS = 3000  # of a solid: enough to cover its pixels at 16 × 16


class BundledDataset(Dataset):
    """Data that come with scikit-learn, unscaled, or are written here.

    bundled: the name of the set.
    """

    files_of_split: ClassVar[Files] = "no files"

    format: Literal["bundled"]
    bundled: Literal["breast_cancer", "digits", "two_points"]

    def read(self, split: str, raw: list[Path]) -> Samples:
        if self.bundled == "two_points":
            features, target = np.array([[1.0], [-1.0]]), np.array([1, -1])
        else:
            features, target = _bundled(self.bundled)
        where = f"data set '{self.name}'"
        if features.shape[1] != self.features:
            raise FedatlasError(
                f"{where}: {self.features} features are declared, found {features.shape[1]}"
            )
        return Samples.numbered(self.labels_of(target, where), features.astype(np.float64))


def _bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and target of a set that comes with scikit-learn, whose import takes 0.8 s."""
    found = find_spec("sklearn")
    assert found is not None and found.submodule_search_locations is not None
    (package,) = found.submodule_search_locations
    file, heads = _FILES[name]
    rows = np.loadtxt(Path(package, "datasets", "data", file), delimiter=",", skiprows=heads)
    return rows[:, :-1], rows[:, -1].astype(int)


class Synthetic(Model):
    """Sparse rows like those of texts.

    Features are as popular as words are (Zipf's law): p_j is inversely proportional to the rank of
    feature j, ranks being dealt out at random. A row holds a Poisson number of words, each a
    feature drawn by popularity, so that feature j is in a row with probability 1 - exp(-words p_j),
    independently of the others; `words` is set so that these sum to the expected number of
    non-zeros. A value is (1 + log count) log(1 + 1 / probability), as tf-idf; rows have unit norm.
    The score of a row is its inner product with normal weights on few features, drawn by
    popularity, centred and scaled by what calibration rows score. Binary labels are the sign of the
    score, some flipped; regression labels are the score with normal noise, three deviations to each
    side filling the declared range, clipped to it.

    non_zeros_per_row: the expected number. informative: of features that labels depend on.
    noise: the share of flipped labels (binary), or the deviation of the noise in units of that of
        the noiseless score (regression).
    range: of regression labels.
    seed: of the model and of all splits.
    """

    seed: int = Field(ge=0)
    non_zeros_per_row: float = Field(gt=0)
    informative: int = Field(gt=0)
    noise: float = Field(ge=0)
    range: tuple[float, float] | None = None


class SyntheticDataset(Dataset):
    """synthetic: the numbers of the model."""

    files_of_split: ClassVar[Files] = "no files"
    makes_labels: ClassVar[bool] = True

    format: Literal["synthetic"]
    synthetic: Synthetic

    @model_validator(mode="after")
    def _can_be_made(self) -> Self:
        made = self.synthetic
        if (made.range is not None) != (self.task == "regression"):
            raise ValueError("'synthetic.range' goes with 'task: regression', and only with it")
        if made.range is not None and not made.range[0] < made.range[1]:
            raise ValueError("'synthetic.range' must ascend")
        if self.task == "binary" and made.noise >= 0.5:
            raise ValueError("'synthetic.noise' must be below 0.5, where labels say nothing")
        if not made.non_zeros_per_row <= self.features / 2:
            raise ValueError("'synthetic.non_zeros_per_row' must be at most half of 'features'")
        if made.informative > self.features:
            raise ValueError("'synthetic.informative' must be at most 'features'")
        return self

    def read(self, split: str, raw: list[Path]) -> Samples:
        return make_samples(self.synthetic, self.features, split, self.splits[split].rows or 0)


@dataclass(frozen=True)
class _Model:
    """The part of the model that all splits share.

    popularity, probability, weights: (d,). words: expected number per row.
    centre, deviation: of the scores; the centre is the median, so that labels are balanced.
    """

    popularity: np.ndarray
    words: float
    probability: np.ndarray
    weights: np.ndarray
    centre: float = 0.0
    deviation: float = 1.0

    def score(self, rows: sparse.csr_array) -> np.ndarray:
        return (rows @ self.weights - self.centre) / self.deviation


def make_samples(synthetic: Synthetic, features: int, split: str, rows: int) -> Samples:
    """Draw one split, (n, d) CSR features; splits of one seed share the model and no rows.

    features: d. rows: n. The same arguments give the same samples. Raises FedatlasError when the
    labels would depend on nothing.
    """
    model = _model(synthetic, features)
    random = named_stream(synthetic.seed, split)
    matrix = _rows(model, rows, random)
    score = model.score(matrix)
    if synthetic.range is None:
        flipped = random.random(rows) < synthetic.noise
        label = np.where((score > 0) != flipped, 1.0, -1.0)
    else:
        low, high = synthetic.range
        noisy = score + synthetic.noise * random.standard_normal(rows)
        spread = 6 * np.hypot(1, synthetic.noise)
        label = np.clip((low + high) / 2 + (high - low) / spread * noisy, low, high)
    return Samples.numbered(label, matrix)


def _model(synthetic: Synthetic, features: int) -> _Model:
    from scipy import optimize

    # No split is called so: names in the catalogue are not empty.
    random = named_stream(synthetic.seed, "")
    popularity = random.permuted(1 / np.arange(1, features + 1))
    popularity /= popularity.sum()

    def excess(words: float) -> float:
        return float(-np.expm1(-words * popularity).sum() - synthetic.non_zeros_per_row)

    # The rarest feature bounds the number of words from above.
    words = optimize.brentq(excess, 0, 1 / popularity.min())
    weights = np.zeros(features)
    informative = random.choice(features, synthetic.informative, replace=False, p=popularity)
    weights[informative] = random.standard_normal(synthetic.informative)
    model = _Model(popularity, words, -np.expm1(-words * popularity), weights)
    scores = model.score(_rows(model, CALIBRATION_ROWS, random))
    if scores.min() == scores.max():
        raise FedatlasError(
            f"synthetic data: rows hardly ever hold the {synthetic.informative} features that "
            "labels depend on; raise 'informative' or 'non_zeros_per_row' in the catalogue"
        )
    return replace(model, centre=float(np.median(scores)), deviation=float(scores.std()))


def _rows(model: _Model, rows: int, random: np.random.Generator) -> sparse.csr_array:
    """(rows, d) CSR of unit rows with sorted indices."""
    from scipy import sparse

    # A row without any word would have no norm.
    words = np.maximum(random.poisson(model.words, rows), 1)
    row = np.repeat(np.arange(rows, dtype=np.int32), words)
    feature = random.choice(len(model.popularity), len(row), p=model.popularity).astype(np.int32)
    shape = (rows, len(model.popularity))
    matrix = sparse.coo_array((np.ones(len(row)), (row, feature)), shape).tocsr()
    matrix.data = (1 + np.log(matrix.data)) * np.log1p(1 / model.probability[matrix.indices])
    matrix.data /= np.repeat(sparse.linalg.norm(matrix, axis=1), np.diff(matrix.indptr))
    return matrix


class SyntheticNoise(Model):
    """Noise ξ of known law, a number for each sample, whose mean in every block is declared.

    Rows are dealt to as many consecutive blocks as there are means. The draws of a block are
    centred, so that its mean is the declared one to rounding. For functions whose noise is part of
    their definition, such as those of DP-GT's Remark 4.

    law: of ξ. scale: of `laplace` the scale, whose square is half the variance; of `normal` the
        deviation.
    means: of the blocks; they sum to 0.
    seed: of all splits.
    """

    seed: int = Field(ge=0)
    law: Literal["laplace", "normal"]
    scale: PositiveFloat
    means: tuple[float, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _means_cancel(self) -> Self:
        if abs(sum(self.means)) > 1e-12:
            raise ValueError(f"means: must sum to 0, not to {sum(self.means):g}")
        return self


class SyntheticNoiseDataset(Dataset):
    """synthetic_noise: the numbers of the model."""

    files_of_split: ClassVar[Files] = "no files"
    makes_labels: ClassVar[bool] = True

    format: Literal["synthetic_noise"]
    synthetic_noise: SyntheticNoise

    @model_validator(mode="after")
    def _blocks_are_equal(self) -> Self:
        blocks = len(self.synthetic_noise.means)
        for name, split in self.splits.items():
            if not split.rows or split.rows % blocks:
                raise ValueError(f"splits.{name}.rows: must be a multiple of the {blocks} means")
        if self.features != 1 or self.task != "regression":
            raise ValueError("a sample of noise has 'features: 1' and 'task: regression'")
        return self

    def read(self, split: str, raw: list[Path]) -> Samples:
        return make_noise(self.synthetic_noise, split, self.splits[split].rows or 0)


def make_noise(noise: SyntheticNoise, split: str, rows: int) -> Samples:
    """Draw one split: features (rows, 1) hold ξ, labels are 0."""
    random = named_stream(noise.seed, split)
    blocks = (len(noise.means), rows // len(noise.means))
    drawn = getattr(random, noise.law)(0.0, noise.scale, blocks)
    drawn += np.array(noise.means)[:, None] - drawn.mean(axis=1, keepdims=True)
    return Samples.numbered(np.zeros(rows), drawn.reshape(-1, 1))


class SyntheticViews(Model):
    """Solids seen from several sides, for trials without ModelNet40's views.

    A sample is a solid of one of eight classes, its surface sampled by random points with normals.
    Its three sides are scaled by factors of their own, of 0.6 to 1, and it is turned about the
    vertical axis by a random angle. View v of n looks at it from 30° above, at an angle of 360°
    v/n. A pixel is as bright as the nearest point that falls on it is turned to a light at the
    viewer; empty pixels are 0.

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
