"""Made data: sparse rows like those of texts, for trials where the real files are not at hand.

Features are as popular as words are (Zipf's law): p_j is inversely proportional to the rank of
feature j, ranks being dealt out at random. A row holds a Poisson number of words, each a feature
drawn by popularity, so that feature j is in a row with probability 1 - exp(-words p_j),
independently of the others; `words` is set so that these sum to the expected number of non-zeros.
A value is (1 + log count) log(1 + 1 / probability), as tf-idf; rows have unit norm. The score of a
row is its inner product with normal weights on few features, drawn by popularity, centred and
scaled by what calibration rows score. Binary labels are the sign of the score, some flipped;
regression labels are the score with normal noise, three deviations to each side filling the
declared range, clipped to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedatlas.arithmetic.randomness import named_stream
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

if TYPE_CHECKING:
    from scipy import sparse

CALIBRATION_ROWS = 2000


class Synthetic(Model):
    """The numbers of the model that the module describes.

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
    """What all splits share.

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
