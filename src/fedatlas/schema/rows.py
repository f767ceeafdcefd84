"""Which rows of a data set are for training and testing, and what their labels become."""

from typing import Any, Self

import numpy as np
from pydantic import Field, field_validator

from fedatlas.files import text_digest
from fedatlas.schema.models import Model, find_repeated, in_full

#: The column that says of which instance of made data a row is.
INSTANCE = "instance"


def slug_part(prefix: str, number: float | None) -> list[str]:
    """A part of a slug, unless there is no number; repr is exact, so close ones differ."""
    return [] if number is None else [f"{prefix}{number!r}"]


def shortened(text: str) -> str:
    """A list in a slug, or its digest if it is long: file names have an end."""
    return text if len(text) <= 40 else text_digest(text)[:16]


class BinaryClasses(Model):
    """Labels made binary; one class can be made rare among the training rows.

    positive: labels of the data set that become +1, as a list or as {from: 5, to: 9}; all others
        become −1.
    keep_negative, keep_positive: share of the training rows of either class that is kept, drawn
        uniformly without replacement. All test rows are kept. The FMGDA paper thins negatives to
        0.2; the code of CODASCA thins positives.
    """

    positive: tuple[float, ...] = Field(min_length=1)
    keep_negative: float = Field(default=1.0, gt=0, le=1)
    keep_positive: float = Field(default=1.0, gt=0, le=1)

    @field_validator("positive", mode="before")
    @classmethod
    def _range(cls, positive: Any) -> Any:
        return in_full(positive, "labels")

    @field_validator("positive")
    @classmethod
    def _each_once(cls, positive: tuple[float, ...]) -> tuple[float, ...]:
        if find_repeated(positive) is not None:
            raise ValueError("a label is listed twice")
        return tuple(sorted(label + 0.0 for label in positive))  # of zeros the positive one

    @property
    def thins(self) -> bool:
        """Whether training rows are left out."""
        return self.keep_negative < 1 or self.keep_positive < 1

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has."""
        first, last = self.positive[0], self.positive[-1]
        whole = all(label.is_integer() for label in self.positive)
        names = [str(int(label) if label.is_integer() else label) for label in self.positive]
        labels = "_".join(names)
        if whole and len(names) > 2 and last - first == len(names) - 1:
            labels = f"{names[0]}to{names[-1]}"
        return f"positive{shortened(labels)}-keep{self.keep_negative!r}-{self.keep_positive!r}"

    def labels(self, raw: np.ndarray) -> np.ndarray:
        """±1 of each raw label, (n,) float64."""
        return np.where(np.isin(raw, self.positive), 1.0, -1.0)


class OfEachClient(Model):
    """Validation rows that every client takes from its own rows.

    by_client: the share of a client's rows, rounded; at least one row remains for training.
    """

    by_client: float = Field(gt=0, lt=1)


class RowsPartition(Model):
    """Keys that all partitions have.

    samples: keep only this many rows, the first ones before shuffling; null keeps all.
    test: rows for testing: a random share (0.2), the last rows (100), a split of the data set by
        its name, or null for none. The other rows are for training.
    intercept: adds a last column of ones, for linear models of rows without a shape. The first
        party or silo holds it. Objectives penalise its weight like any other.
    instances: for generated data, whether every trial has its own instance: trial s (seed of a run)
        has the instance s modulo the number of instances.
    """

    test: int | float | str | None = None
    # Left out of specifications where it is off, so that those without the key stay as they are.
    intercept: bool = Field(default=False, exclude_if=lambda intercept: not intercept)
    instances: bool = Field(default=False, exclude_if=lambda instances: not instances)
    samples: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0)

    @field_validator("test", mode="before")
    @classmethod
    def _share_number_or_split(cls, test: Any) -> Any:
        share = isinstance(test, float) and 0 < test < 1
        last = isinstance(test, int) and not isinstance(test, bool) and test > 0
        if not (test is None or share or last or (isinstance(test, str) and test)):
            raise ValueError(
                "must be a share between 0 and 1, a whole number of last rows, or the name of a "
                "split"
            )
        return test

    @property
    def last_parts(self) -> list[str]:
        """The last parts of a slug; `test` ends it, as the name of a split may be anything."""
        parts = ["instance"] if self.instances else []
        parts += ["intercept"] if self.intercept else []
        if isinstance(self.test, str):
            return [*parts, f"on-{self.test}"]
        return parts + slug_part("test" if isinstance(self.test, float) else "last", self.test)

    @property
    def clients_by_silo(self) -> tuple[int, ...]:
        """How many clients each silo has; none where silos themselves compute."""
        return ()

    @property
    def fewest_samples(self) -> int:
        """How many training samples there must be."""
        return max(self.clients_by_silo, default=1)

    @property
    def test_split(self) -> str | None:
        """The split of the data set that is kept for testing, if it is a whole split."""
        return self.test if isinstance(self.test, str) else None

    def of_seed(self, seed: int) -> Self:
        """The partition of one trial: with the trial's seed, unless all trials share one."""
        return self if self.seed is not None else self.model_copy(update={"seed": seed})
