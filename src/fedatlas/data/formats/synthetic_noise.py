"""Made data: noise ξ of known law, a number for each sample, whose mean in every block is declared.

Rows are dealt to as many consecutive blocks as there are means. The draws of a block are centred,
so that its mean is the declared one to rounding. For functions whose noise is part of their
definition, such as those of DP-GT's Remark 4.
"""

from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.arithmetic.randomness import named_stream
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.schema.models import Model


class SyntheticNoise(Model):
    """The numbers of the model that the module describes.

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
