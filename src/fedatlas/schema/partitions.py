"""Who holds what: typed partition specifications and the assignments they describe."""

import math
from itertools import product
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.files import text_digest
from fedatlas.schema.models import Model

# Labels count as classes when there are few of them and each is met repeatedly; otherwise they
# are the targets of a regression, where "skewed by label" has no meaning.
MOST_CLASSES = 1000
FEWEST_SAMPLES_PER_CLASS = 5


def _share_or_split(test: Any) -> Any:
    share = isinstance(test, float) and 0 < test < 1
    last = isinstance(test, int) and not isinstance(test, bool) and test > 0
    if not (test is None or share or last or (isinstance(test, str) and test)):
        raise ValueError(
            "must be a share between 0 and 1, a whole number of last rows, or the name of a split"
        )
    return test


#: Rows kept for testing: a share at random, the last so many, the name of a split, or None.
TestRows: TypeAlias = Annotated[int | float | str | None, BeforeValidator(_share_or_split)]


def _test_parts(test: float | str | None) -> list[str]:
    """Parts of a slug; they come last, as the name of a split may look like anything."""
    if test is None:
        return []
    if isinstance(test, int):
        return [f"last{test}"]
    return [f"test{test!r}" if isinstance(test, float) else f"on-{test}"]


def _a_sample_each(samples: int | None, info: ValidationInfo) -> int | None:
    clients = info.data.get("clients", 1)
    if samples is not None and samples < clients:
        raise ValueError(f"fewer than the {clients} clients, and each needs a sample")
    return samples


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
        if not isinstance(positive, dict):
            return positive
        if set(positive) != {"from", "to"} or not all(
            isinstance(n, int) for n in positive.values()
        ):
            raise ValueError("a range of labels is {from: first, to: last}, in whole numbers")
        return tuple(range(positive["from"], positive["to"] + 1))

    @field_validator("positive")
    @classmethod
    def _each_once(cls, positive: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(positive)) < len(positive):
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
        elif len(labels) > 40:  # file names have an end
            labels = text_digest(labels)[:16]
        return f"positive{labels}-keep{self.keep_negative!r}-{self.keep_positive!r}"

    def labels(self, raw: np.ndarray) -> np.ndarray:
        """±1 of each raw label, (n,) float64."""
        return np.where(np.isin(raw, self.positive), 1.0, -1.0)


class HorizontalPartition(Model):
    """Every client holds whole samples, in one silo.

    assignment:
        `consecutive`: equal blocks of consecutive rows; sizes differ by at most one, the first
        clients being the larger.
        `shuffled`: the same after a uniform random permutation of the rows.
        `by_class`: the same after sorting a permutation by label, so that a client holds few
        classes of the data set.
        `dirichlet`: skewed by label; see `share_out`.
    clients: number of clients, each with at least one sample.
    samples: keep only the first so many rows (before shuffling); null keeps all.
    test: what is kept for testing: a share of the rows at random (0.2), the last rows (100), the
        name of a split of the data set, or null for nothing. The other rows are for training.
    binary: labels made ±1, one class made rare; null leaves labels as they are.
    concentration: of the Dirichlet distribution: small is skewed, large is uniform.
    seed: of everything random here, 0 unless given; where nothing is, there is none, so that equal
        partitions have equal names.
    """

    kind: Literal["horizontal"] = "horizontal"
    assignment: Literal["consecutive", "shuffled", "by_class", "dirichlet"] = "consecutive"
    clients: int = Field(ge=1)
    samples: int | None = Field(default=None, ge=1, validate_default=True)
    test: TestRows = None
    binary: BinaryClasses | None = None
    # Far below the bound the split is uniform already; it keeps sums finite and slugs free of "+".
    concentration: float | None = Field(default=None, gt=0, le=1e9, validate_default=True)
    seed: int | None = Field(default=None, ge=0, validate_default=True)

    _enough_samples = field_validator("samples")(_a_sample_each)

    @field_validator("concentration")
    @classmethod
    def _only_for_dirichlet(cls, concentration: float | None, info: ValidationInfo) -> float | None:
        assignment = info.data.get("assignment")
        if assignment == "dirichlet" and concentration is None:
            raise ValueError("assignment 'dirichlet' needs a concentration above 0, such as 0.5")
        if assignment not in ("dirichlet", None) and concentration is not None:
            raise ValueError(f"assignment '{assignment}' takes no concentration; remove it")
        return concentration

    @field_validator("seed")
    @classmethod
    def _only_where_random(cls, seed: int | None, info: ValidationInfo) -> int | None:
        binary = info.data.get("binary")
        random = isinstance(info.data.get("test"), float) or (binary is not None and binary.thins)
        if info.data.get("assignment") == "consecutive" and not random:
            if seed is not None:
                raise ValueError("assignment 'consecutive' is not random; remove the seed")
            return None
        return 0 if seed is None else seed

    def of_trial(self, seed: int) -> "HorizontalPartition":
        """The partition of one trial: all share this one."""
        return self

    @property
    def silos(self) -> int:
        """Number of shard files: samples are not cut by columns."""
        return 1

    @property
    def test_split(self) -> str | None:
        """The split of the data set that is kept for testing, if it is a whole split."""
        return self.test if isinstance(self.test, str) else None

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        parts = [self.kind, self.assignment, str(self.clients)]
        if self.samples is not None:
            parts.append(f"first{self.samples}")
        if self.concentration is not None:
            # repr is exact, so close values keep distinct names.
            parts.append(f"concentration{self.concentration!r}")
        if self.binary is not None:
            parts.append(self.binary.slug)
        if self.seed is not None:
            parts.append(f"seed{self.seed}")
        return "-".join([*parts, *_test_parts(self.test)])


class VerticalPartition(Model):
    """Every party holds some features of all samples; active parties hold the labels, too.

    parties, active: q and m of the VFB² paper; parties 0 to m − 1 are the active ones.
    assignment: blocks of features whose sizes differ by at most one, the first parties having the
        larger: `shuffled` after a uniform random permutation, or `consecutive`.
    samples: keep only the first so many rows; null keeps all.
    test: what is kept for testing: a share of the rows at random (0.2), the last rows (100), the
        name of a split of the data set, or null for nothing. The other rows are for training.
    standardise: numeric columns to zero mean and unit variance by the training rows' statistics,
        each party its own columns; indicator columns stay as they are.
    seed: of everything random here; null lets every trial (seed of a run) have its own partition.
    """

    kind: Literal["vertical"] = "vertical"
    parties: int = Field(ge=1)
    active: int = Field(ge=1)
    assignment: Literal["shuffled", "consecutive"] = "shuffled"
    samples: int | None = Field(default=None, ge=1)
    test: TestRows = None
    standardise: bool = False
    seed: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _active_parties_are_parties(self) -> Self:
        if self.active > self.parties:
            raise ValueError(
                f"'active' is {self.active}, but there are only {self.parties} parties"
            )
        return self

    def of_trial(self, seed: int) -> "VerticalPartition":
        """The partition of one trial: with the trial's seed, unless all trials share one."""
        return self if self.seed is not None else self.model_copy(update={"seed": seed})

    @property
    def silos(self) -> int:
        """Number of shard files: one per party."""
        return self.parties

    @property
    def test_split(self) -> str | None:
        """The split of the data set that is kept for testing, if it is a whole split."""
        return self.test if isinstance(self.test, str) else None

    @property
    def rows_slug(self) -> str:
        """A file-name-safe name of which rows train and which test, and how they are scaled."""
        # Nothing is random about them otherwise: all trials share one name.
        seed = [f"seed{self.seed}"] if isinstance(self.test, float) else []
        return "-".join([*seed, *self._rows_parts])

    @property
    def _rows_parts(self) -> list[str]:
        parts = ["rows", "all" if self.samples is None else str(self.samples)]
        if self.standardise:
            parts.append("standardised")
        return [*parts, *_test_parts(self.test)]

    @property
    def pooled(self) -> "VerticalPartition":
        """The same rows with one party; the same for all partitions that share a `rows_slug`."""
        seed = self.seed if isinstance(self.test, float) else 0
        return self.model_copy(
            update={"parties": 1, "active": 1, "assignment": "shuffled", "seed": seed}
        )

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        blocks = [self.kind, self.assignment, f"q{self.parties}", f"m{self.active}"]
        return "-".join([*blocks, f"seed{self.seed}", *self._rows_parts])


#: The axes of a sample that can be cut, by the length of its shape.
AXES: dict[int, tuple[str, ...]] = {
    1: ("columns",),
    2: ("time", "features"),
    3: ("channels", "height", "width"),
    4: ("views", "channels", "height", "width"),
}
# Each once, so that equal cuts have equal names.
_KNOWN_AXES = ("columns", "time", "features", "views", "channels", "height", "width")


class TieredPartition(Model):
    """Every silo holds a slice of all samples, and each of its clients the slices of some.

    cut: into how many blocks each axis is cut; axes that are not named stay whole. The silos are
        all combinations of blocks, in C order of the data set's axes (`AXES`); of a data set
        without a shape the one axis is `columns`. The blocks of an axis are contiguous and their
        sizes differ by at most one, the first being the larger.
    clients: number of clients of each silo, each with at least one sample. Every silo shares out
        the training samples after a uniform random permutation of its own, in blocks whose sizes
        differ by at most one (Das et al. 2022, section 5.2).
    samples: keep only the first so many rows; null keeps all.
    test: what is kept for testing: a share of the rows at random (0.2), the last rows (100), the
        name of a split of the data set, or null for nothing. The other rows are for training.
    binary: labels made ±1, one class made rare; null leaves labels as they are. Under one seed a
        horizontal partition keeps the same rows.
    seed: of everything random here.
    """

    kind: Literal["tiered"] = "tiered"
    cut: dict[str, Annotated[int, Field(ge=1)]]
    clients: int = Field(ge=1)
    samples: int | None = Field(default=None, ge=1)
    test: TestRows = None
    binary: BinaryClasses | None = None
    seed: int = Field(default=0, ge=0)

    _enough_samples = field_validator("samples")(_a_sample_each)

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

    def of_trial(self, seed: int) -> "TieredPartition":
        """The partition of one trial: all share this one."""
        return self

    @property
    def silos(self) -> int:
        """Number of silos N, each with a shard file."""
        return math.prod(self.cut.values())

    @property
    def test_split(self) -> str | None:
        """The split of the data set that is kept for testing, if it is a whole split."""
        return self.test if isinstance(self.test, str) else None

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        blocks = [f"{axis}{blocks}" for axis, blocks in self.cut.items()]
        parts = [self.kind, *blocks, f"k{self.clients}", f"seed{self.seed}"]
        if self.samples is not None:
            parts.append(f"first{self.samples}")
        if self.binary is not None:
            parts.append(self.binary.slug)
        return "-".join([*parts, *_test_parts(self.test)])


Partition: TypeAlias = Annotated[
    HorizontalPartition | VerticalPartition | TieredPartition, Field(discriminator="kind")
]


def pooled_rows(spec: Partition) -> VerticalPartition:
    """The training rows of a partition in one party's hands, on which an optimum is found.

    Partitions of any kind with the same `samples` and `test` share it, and so one f*.

    Raises FedatlasError where the mean over clients is not that over rows, or rows differ by kind.
    """
    if isinstance(spec, VerticalPartition):
        return spec.pooled
    if isinstance(spec.test, float):
        raise FedatlasError(
            f"suboptimality of a {spec.kind} partition needs the rows that others have: 'test' as "
            "a share draws its own; state a number of last rows or the name of a split"
        )
    if spec.binary is not None or getattr(spec, "assignment", None) == "dirichlet":
        raise FedatlasError(
            "suboptimality is measured where all rows count equally: not with 'binary' or the "
            "assignment 'dirichlet'"
        )
    return VerticalPartition(parties=1, active=1, samples=spec.samples, test=spec.test, seed=0)


# Independent streams of one partition seed: rows must not depend on the number of parties. The
# first is also that of clients' assignments, which take the seed itself: rows shared out to clients
# have the fourth. Of the last every silo has its own.
_ROWS, _FEATURES, _THINNING, _ROWS_OF_CLIENTS, _SILOS = 0, 1, 2, 3, 4


def train_and_test_rows(spec: Partition, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending row numbers for training and for testing, out of `rows`; a cover without overlap.

    They depend on `samples`, `test` and `seed` only: partitions among other numbers of parties
    have the same. Raises FedatlasError when one of the two would be empty.
    """
    if spec.samples is not None and spec.samples > rows:
        raise FedatlasError(
            f"partition: samples {spec.samples} exceeds the {rows} rows of the data set; lower "
            "samples or remove it"
        )
    kept = spec.samples or rows
    if not isinstance(spec.test, int | float):
        return np.arange(kept), np.arange(0)
    held_out = spec.test if isinstance(spec.test, int) else round(spec.test * kept)
    if not 0 < held_out < kept:
        raise FedatlasError(
            f"partition: test {spec.test} of {kept} rows leaves no row for "
            f"{'training' if held_out else 'testing'}"
        )
    if isinstance(spec.test, int):
        return np.arange(kept - held_out), np.arange(kept - held_out, kept)
    stream = _ROWS if isinstance(spec, VerticalPartition) else _ROWS_OF_CLIENTS
    order = _generator(spec, stream).permutation(kept)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def feature_blocks(spec: VerticalPartition, features: int) -> list[np.ndarray]:
    """Ascending column numbers of each party; every column is in one block.

    Raises FedatlasError when there are more parties than features.
    """
    if spec.parties > features:
        raise FedatlasError(
            f"partition: {spec.parties} parties cannot share {features} features: each needs one; "
            "lower parties"
        )
    order = np.arange(features)
    if spec.assignment == "shuffled":
        order = _generator(spec, _FEATURES).permutation(features)
    cuts = np.cumsum(_near_equal_sizes(features, spec.parties))[:-1]
    return [np.sort(block) for block in np.split(order, cuts)]


def silo_blocks(spec: TieredPartition, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Where each silo's block lies in samples of this shape: a slice along every axis.

    The blocks cover a sample without overlap. Raises FedatlasError when samples lack an axis of the
    cut, or when it has fewer places than blocks.
    """
    axes = AXES.get(len(shape), ())
    for axis, blocks in spec.cut.items():
        if axis not in axes:
            raise FedatlasError(
                f"partition: cut names the axis '{axis}', but samples of shape {shape} have "
                f"{', '.join(axes) or 'no axis that can be cut'}"
            )
        length = shape[axes.index(axis)]
        if blocks > length:
            raise FedatlasError(
                f"partition: cut.{axis} asks for {blocks} blocks, but samples of shape {shape} "
                f"have {length} along '{axis}', and each silo needs one; lower it"
            )
    lengths = zip(axes, shape, strict=True)
    return list(product(*(_blocks(length, spec.cut.get(axis, 1)) for axis, length in lengths)))


def _blocks(length: int, blocks: int) -> list[slice]:
    """Contiguous near equal blocks of an axis."""
    sizes = _near_equal_sizes(length, blocks)
    stops = np.cumsum(sizes)
    return [slice(*ends) for ends in zip((stops - sizes).tolist(), stops.tolist(), strict=True)]


def share_out_by_silo(
    spec: TieredPartition, labels: np.ndarray
) -> tuple[list[list[np.ndarray]], np.ndarray]:
    """Of each silo the ascending row numbers of each client; and the rows kept for testing.

    `labels` (rows,) are those of the whole data set, in row order. Every training row is at one
    client of each silo, but rows of a class that is made rare may be nobody's. A silo's permutation
    depends on `seed`, the silo's number and the number of training rows only: not on the other
    silos nor on the number of clients.

    Raises FedatlasError when there are fewer rows than `samples` or `clients`, or when a class of
    `binary` has no training row.
    """
    train, test = train_and_test_rows(spec, len(labels))
    if spec.binary is not None:
        train = _thinned(spec, spec.binary, train, labels)
    _require_a_sample_each(spec.clients, len(train))
    return [
        _by_client(
            train, _dealt(_generator(spec, _SILOS, silo).permutation(len(train)), spec.clients)
        )
        for silo in range(spec.silos)
    ], test


def _generator(spec: Partition, *stream: int) -> np.random.Generator:
    # PCG64 by name: numpy may change what `default_rng` stands for.
    return np.random.Generator(np.random.PCG64([spec.seed or 0, *stream]))


def share_out(spec: HorizontalPartition, labels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Ascending row numbers of each client, and those kept for testing; no row is in two of them.

    `labels` (rows,) are those of the whole data set, in row order. The result depends on nothing
    but the arguments (PCG64 under `spec.seed`), and every client gets at least one sample. Rows
    beyond `samples`, and rows of a class that is made rare, are nobody's.

    `dirichlet` follows Yurochkin et al. (2019): for every class, the proportions of its samples
    that go to the clients are drawn from Dirichlet(concentration, …, concentration), so client
    sizes vary. (Hsu et al. 2019 draw the class mix of equally sized clients instead.) A client
    left empty takes the last row of the then largest client.

    Raises FedatlasError when there are fewer rows than `samples` or `clients`, when `by_class` or
    `dirichlet` meet labels that are not classes, or when a class of `binary` has no training row.
    """
    train, test = train_and_test_rows(spec, len(labels))
    if spec.assignment in ("by_class", "dirichlet"):
        _require_classes(spec, labels[train])
    if spec.binary is not None:
        train = _thinned(spec, spec.binary, train, labels)
    return _by_client(train, _assigned(spec, labels[train])), test


def _by_client(rows: np.ndarray, client: np.ndarray) -> list[np.ndarray]:
    """The rows of each client, of which none is without, in their order."""
    return np.split(rows[np.argsort(client, kind="stable")], np.cumsum(np.bincount(client))[:-1])


def _thinned(
    spec: HorizontalPartition | TieredPartition,
    binary: BinaryClasses,
    rows: np.ndarray,
    labels: np.ndarray,
) -> np.ndarray:
    """The rows that are kept, ascending: the declared share of either class."""
    unknown = sorted(set(binary.positive) - set(labels.tolist()))
    if unknown:
        raise FedatlasError(
            f"partition: binary.positive names the label {unknown[0]:g}, which no row has; labels "
            f"are {', '.join(f'{label:g}' for label in np.unique(labels)[:20])}"
        )
    generator = _generator(spec, _THINNING)
    sign = binary.labels(labels[rows])
    kept = []
    for value, share in ((-1.0, binary.keep_negative), (1.0, binary.keep_positive)):
        of_class = rows[sign == value]
        size = round(share * len(of_class))
        if size == 0:
            name = "positive" if value > 0 else "negative"
            raise FedatlasError(
                f"partition: no {name} row is left to train on: {len(of_class)} rows, of which "
                f"binary.keep_{name} keeps {share:g}; both classes are needed"
            )
        kept.append(generator.choice(of_class, size, replace=False))
    return np.sort(np.concatenate(kept))


def _assigned(spec: HorizontalPartition, labels: np.ndarray) -> np.ndarray:
    """Client of each row, (n,) int64."""
    _require_a_sample_each(spec.clients, len(labels))
    if spec.assignment == "consecutive":
        return _dealt(np.arange(len(labels)), spec.clients)
    # PCG64 by name: numpy may change what `default_rng` stands for.
    generator = np.random.Generator(np.random.PCG64(spec.seed))
    if spec.assignment == "dirichlet":
        assert spec.concentration is not None  # the model guarantees it
        return _skewed_by_label(labels, spec.clients, spec.concentration, generator)
    order = generator.permutation(len(labels))
    if spec.assignment == "by_class":
        order = order[np.argsort(labels[order], kind="stable")]
    return _dealt(order, spec.clients)


def _dealt(order: np.ndarray, clients: int) -> np.ndarray:
    """Client of each row, (n,) int64: near equal blocks of the rows in this order."""
    client = np.empty(len(order), np.int64)
    client[order] = np.repeat(np.arange(clients), _near_equal_sizes(len(order), clients))
    return client


def _require_a_sample_each(clients: int, samples: int) -> None:
    if clients > samples:
        raise FedatlasError(
            f"partition: clients {clients} exceeds the {samples} samples to share out; lower "
            "clients"
        )


def _near_equal_sizes(samples: int, clients: int) -> np.ndarray:
    """(clients,) sizes that add up to `samples` and differ by at most one, larger ones first."""
    smaller, larger_clients = divmod(samples, clients)
    return smaller + (np.arange(clients) < larger_clients)


def _skewed_by_label(
    labels: np.ndarray, clients: int, concentration: float, generator: np.random.Generator
) -> np.ndarray:
    classes, class_of_row = np.unique(labels, return_inverse=True)
    client = np.empty(len(labels), np.int64)
    for number in range(len(classes)):
        rows = generator.permutation(np.flatnonzero(class_of_row == number))
        proportions = generator.dirichlet(np.full(clients, concentration))
        cuts = np.floor(np.cumsum(proportions)[:-1] * len(rows)).astype(np.int64)
        sizes = np.diff(cuts, prepend=0, append=len(rows))
        client[rows] = np.repeat(np.arange(clients), sizes)
    sizes = np.bincount(client, minlength=clients)
    for empty in np.flatnonzero(sizes == 0):
        largest = sizes.argmax()
        client[np.flatnonzero(client == largest)[-1]] = empty
        sizes[largest] -= 1
        sizes[empty] = 1
    return client


def _require_classes(spec: HorizontalPartition, labels: np.ndarray) -> None:
    classes, samples = len(np.unique(labels)), len(labels)
    # Two values are classes however few the samples.
    if classes > 2 and (classes > MOST_CLASSES or classes * FEWEST_SAMPLES_PER_CLASS > samples):
        raise FedatlasError(
            f"partition: assignment '{spec.assignment}' goes by class, but the {samples} samples "
            f"have {classes} distinct labels (at most {MOST_CLASSES}, with "
            f"{FEWEST_SAMPLES_PER_CLASS} samples each on average): this looks like regression; use "
            "'consecutive' or 'shuffled'"
        )
