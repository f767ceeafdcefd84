"""Who holds what: partition specifications."""

import math
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.files import text_digest
from fedatlas.schema.models import Model, find_repeated, in_full

# Labels count as classes when there are few of them and each is met repeatedly; otherwise they
# are the targets of a regression, where "skewed by label" has no meaning.
MOST_CLASSES = 1000


def _part(prefix: str, number: float | None) -> list[str]:
    """A part of a slug, unless there is no number; repr is exact, so close ones differ."""
    return [] if number is None else [f"{prefix}{number!r}"]


def _shortened(text: str) -> str:
    """A list in a slug, or its digest if it is long: file names have an end."""
    return text if len(text) <= 40 else text_digest(text)[:16]


class BinaryClasses(Model):
    """Labels made binary, and one class made rare among the training rows.

    positive: labels of the data set that become +1, as a list or as {from: 5, to: 9}; all others
        become −1.
    keep_negative, keep_positive: share of the training rows of either class that is kept, drawn
        uniformly without replacement; test rows are all kept. The FMGDA paper thins negatives to
        0.2, the code of CODASCA positives.
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
        return f"positive{_shortened(labels)}-keep{self.keep_negative!r}-{self.keep_positive!r}"

    def labels(self, raw: np.ndarray) -> np.ndarray:
        """±1 of each raw label, (n,) float64."""
        return np.where(np.isin(raw, self.positive), 1.0, -1.0)


class _Partition(Model):
    """What all partitions state.

    samples: keep only the first so many rows (before shuffling); null keeps all.
    test: what is kept for testing: a share of the rows at random (0.2), the last rows (100), the
        name of a split of the data set, or null for nothing. The other rows are for training.
    intercept: adds a last column of ones, for linear models of rows without a shape. The first
        party or silo holds it. Objectives penalise its weight like any other.
    """

    test: int | float | str | None = None
    # Left out of specifications where it is off, so that those without the key stay as they are.
    intercept: bool = Field(default=False, exclude_if=lambda intercept: not intercept)
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
    def _last_parts(self) -> list[str]:
        """The last parts of a slug; `test` ends it, as the name of a split may be anything."""
        intercept = ["intercept"] if self.intercept else []
        if isinstance(self.test, str):
            return [*intercept, f"on-{self.test}"]
        return intercept + _part("test" if isinstance(self.test, float) else "last", self.test)

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


class _ClientPartition(_Partition):
    """What partitions among clients also state.

    binary: labels made ±1, one class made rare; null leaves labels as they are.
    """

    binary: BinaryClasses | None = None

    @model_validator(mode="after")
    def _samples_suffice(self) -> Self:
        if self.samples is not None and self.fewest_samples > self.samples:
            raise ValueError(
                f"samples: {self.samples}, fewer than the {self.fewest_samples} that clients need; "
                "lower 'clients'"
            )
        return self

    @property
    def _binary_part(self) -> list[str]:
        return [] if self.binary is None else [self.binary.slug]

    def pooled(self) -> "VerticalPartition":
        """The training rows in one party's hands, on which an optimum is found.

        Partitions of any kind with the same `samples` and `test` share it, and so one f*.
        Raises FedatlasError where the mean over clients is not that over rows, or rows differ by
        kind.
        """
        own: Any = self  # has a kind
        if isinstance(self.test, float):
            raise FedatlasError(
                f"suboptimality of a {own.kind} partition needs the rows that others have: 'test' "
                "as a share draws its own; state a number of last rows or the name of a split"
            )
        if self.binary is not None or getattr(self, "assignment", "") == "dirichlet":
            raise FedatlasError(
                "suboptimality is measured where all rows count equally: not with 'binary' or the "
                "assignment 'dirichlet'"
            )
        kept = {"samples": self.samples, "test": self.test, "intercept": self.intercept}
        return VerticalPartition(parties=1, active=1, seed=0, **kept)


class HorizontalPartition(_ClientPartition):
    """Every client holds whole samples, in one silo.

    clients: number of clients; each needs a sample.
    assignment:
        `consecutive`: equal blocks of consecutive rows; sizes differ by at most one, the first
        clients being the larger.
        `shuffled`: the same after a uniform random permutation of the rows.
        `by_class`: the same after sorting a permutation by label, so that a client holds few
        classes of the data set.
        `dirichlet`: skewed by label; see `share_out`.
    concentration: of the Dirichlet distribution: small is skewed, large is uniform.
    minimum: `dirichlet` draws again until every client has so many samples. Without it a client
        that the draw leaves empty takes one row of the largest client.
    seed: of everything random here; null lets every trial (seed of a run) have its own partition.
        Where nothing is random, there is none, so that equal partitions have equal names.
    """

    #: Number of shard files: samples are not cut by columns.
    silos: ClassVar[int] = 1

    kind: Literal["horizontal"] = "horizontal"
    clients: int = Field(ge=1)
    assignment: Literal["consecutive", "shuffled", "by_class", "dirichlet"] = "consecutive"
    # Far below the bound the split is uniform already; it keeps sums finite and slugs free of "+".
    concentration: float | None = Field(default=None, gt=0, le=1e9)
    # Left out of specifications without it, as above.
    minimum: int | None = Field(default=None, ge=1, exclude_if=lambda minimum: minimum is None)

    @model_validator(mode="after")
    def _suits_the_assignment(self) -> Self:
        skewed = self.assignment == "dirichlet"
        if skewed and self.concentration is None:
            raise ValueError("concentration: 'dirichlet' needs one above 0, such as 0.5")
        for key in ("concentration", "minimum"):
            if not skewed and getattr(self, key) is not None:
                raise ValueError(f"{key}: assignment '{self.assignment}' takes none; remove it")
        if self.seed is not None and not self._is_random:
            raise ValueError("seed: assignment 'consecutive' is not random; remove it")
        return self

    @property
    def clients_by_silo(self) -> tuple[int, ...]:
        """All clients, in the one silo."""
        return (self.clients,)

    @property
    def fewest_samples(self) -> int:
        """How many training samples the clients need together."""
        return self.clients * (self.minimum or 1)

    @property
    def _is_random(self) -> bool:
        thins = self.binary is not None and self.binary.thins
        return self.assignment != "consecutive" or isinstance(self.test, float) or thins

    def of_seed(self, seed: int) -> Self:
        return super().of_seed(seed) if self._is_random else self

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        parts = [self.kind, self.assignment, str(self.clients), *_part("first", self.samples)]
        parts += _part("concentration", self.concentration) + _part("minimum", self.minimum)
        parts += self._binary_part
        return "-".join(parts + _part("seed", self.seed) + self._last_parts)


class VerticalPartition(_Partition):
    """Every party holds some features of all samples; active parties hold the labels, too.

    parties, active: q and m of the VFB² paper; parties 0 to m − 1 are the active ones.
    assignment: blocks of features whose sizes differ by at most one, the first parties having the
        larger: `shuffled` after a uniform random permutation, or `consecutive`.
    label_holders: which blocks the active parties have: the `first`; or the k-th of all choices of
        m from q blocks, in lexicographic order, from 0. With `every_choice` trial s (seed of a run)
        has the choice s modulo their number, so that as many seeds as choices meet each once.
    standardise: numeric columns to zero mean and unit variance by the training rows' statistics,
        each party its own columns; indicator columns stay as they are.
    seed: of everything random here; null lets every trial (seed of a run) have its own partition.
    """

    kind: Literal["vertical"] = "vertical"
    parties: int = Field(ge=1)
    active: int = Field(ge=1)
    label_holders: Literal["first", "every_choice"] | Annotated[int, Field(ge=0)] = "first"
    assignment: Literal["shuffled", "consecutive"] = "shuffled"
    standardise: bool = False

    @model_validator(mode="after")
    def _active_parties_are_parties(self) -> Self:
        if self.active > self.parties:
            raise ValueError(
                f"'active' is {self.active}, but there are only {self.parties} parties"
            )
        if isinstance(self.label_holders, int) and self.label_holders >= self.choices:
            raise ValueError(
                f"'label_holders' is {self.label_holders}, but there are {self.choices} choices of "
                f"{self.active} from {self.parties} parties, counted from 0"
            )
        return self

    @property
    def choices(self) -> int:
        """How many ways there are to choose the active parties."""
        return math.comb(self.parties, self.active)

    def of_seed(self, seed: int) -> Self:
        """With the trial's seed, unless all share one, and with the trial's label holders."""
        own = super().of_seed(seed)
        if own.label_holders != "every_choice":
            return own
        return own.model_copy(update={"label_holders": seed % self.choices})

    @property
    def silos(self) -> int:
        """Number of shard files: one per party."""
        return self.parties

    @property
    def rows_slug(self) -> str:
        """A file-name-safe name of which rows train and which test, and how they are scaled."""
        # Nothing is random about them otherwise: all trials share one name.
        seed = [f"seed{self.seed}"] if isinstance(self.test, float) else []
        return "-".join(seed + self._rows_parts)

    @property
    def _rows_parts(self) -> list[str]:
        standardised = ["standardised"] if self.standardise else []
        return ["rows", str(self.samples or "all"), *standardised, *self._last_parts]

    def pooled(self) -> "VerticalPartition":
        """The same rows with one party; the same for all partitions that share a `rows_slug`."""
        seed = self.seed if isinstance(self.test, float) else 0
        return self.model_copy(
            update={
                "parties": 1,
                "active": 1,
                "label_holders": "first",
                "assignment": "shuffled",
                "seed": seed,
            }
        )

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        blocks = [self.kind, self.assignment, f"q{self.parties}", f"m{self.active}"]
        chosen = [] if self.label_holders == "first" else [f"holders{self.label_holders}"]
        return "-".join([*blocks, *chosen, f"seed{self.seed}", *self._rows_parts])


#: The axes of a sample that can be cut, by the length of its shape.
AXES: dict[int, tuple[str, ...]] = {
    1: ("columns",),
    2: ("time", "features"),
    3: ("channels", "height", "width"),
    4: ("views", "channels", "height", "width"),
}
# Each once, so that equal cuts have equal names.
_KNOWN_AXES = ("columns", "time", "features", "views", "channels", "height", "width")


class TieredPartition(_ClientPartition):
    """Every silo holds a slice of all samples, and each of its clients the slices of some.

    cut: into how many blocks each axis is cut; axes that are not named stay whole. The silos are
        all combinations of blocks, in C order of the data set's axes (`AXES`); of a data set
        without a shape the one axis is `columns`. The blocks of an axis are contiguous and their
        sizes differ by at most one, the first being the larger.
    clients: K of every silo, or a list with K_j of each silo j. A silo shares out the training
        samples after a uniform random permutation, in blocks whose sizes differ by at most one
        (Das et al. 2022, sections 2.1 and 5.2).
    permutation: `own` draws one in each silo; `shared` draws one for all, as the public code does:
        with as many clients everywhere, those of one number then hold the same samples.
    binary: under one seed a horizontal partition keeps the same rows.
    seed: of everything random here; null lets every trial (seed of a run) have its own partition.
    """

    kind: Literal["tiered"] = "tiered"
    cut: dict[str, Annotated[int, Field(ge=1)]]
    clients: Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=1)], ...]
    permutation: Literal["own", "shared"] = "own"

    @field_validator("cut")
    @classmethod
    def _of_known_axes(cls, cut: dict[str, int]) -> dict[str, int]:
        unknown = [axis for axis in cut if axis not in _KNOWN_AXES]
        if unknown:
            raise ValueError(f"there is no axis '{unknown[0]}'; axes are {', '.join(_KNOWN_AXES)}")
        if not cut:
            raise ValueError(
                "names no axis; say which to cut and into how many blocks, such as {width: 2}"
            )
        return {axis: cut[axis] for axis in _KNOWN_AXES if axis in cut}

    @model_validator(mode="after")
    def _clients_of_every_silo(self) -> Self:
        if not isinstance(self.clients, int) and len(self.clients) != self.silos:
            raise ValueError(
                f"clients: lists {len(self.clients)} numbers, but 'cut' makes {self.silos} silos"
            )
        return self

    @property
    def silos(self) -> int:
        """Number of silos N, each with a shard file."""
        return math.prod(self.cut.values())

    @property
    def clients_by_silo(self) -> tuple[int, ...]:
        """K_j of each silo."""
        return (self.clients,) * self.silos if isinstance(self.clients, int) else self.clients

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        blocks = [f"{axis}{blocks}" for axis, blocks in self.cut.items()]
        clients = {self.clients} if isinstance(self.clients, int) else self.clients
        parts = [
            self.kind,
            *blocks,
            f"k{_shortened('_'.join(map(str, clients)))}",
            f"seed{self.seed}",
        ]
        parts += ["shared"] if self.permutation == "shared" else []
        parts += _part("first", self.samples) + self._binary_part
        return "-".join(parts + self._last_parts)


Partition: TypeAlias = Annotated[
    HorizontalPartition | VerticalPartition | TieredPartition, Field(discriminator="kind")
]
