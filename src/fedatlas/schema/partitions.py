"""Who holds what: partition specifications."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, text_digest
from fedatlas.schema.models import find_repeated, in_full
from fedatlas.schema.rows import (
    BinaryClasses,
    OfEachClient,
    RowsPartition,
    shortened,
    slug_part,
)

# Labels count as classes when there are few of them and each is met repeatedly; otherwise they
# are the targets of a regression, where "skewed by label" has no meaning.
MOST_CLASSES = 1000

#: What each assignment takes of its own: keys that must be stated, and keys that may be.
OF_CLIENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "consecutive": ((), ()),
    "shuffled": ((), ()),
    "by_class": ((), ()),
    "by_column": (("column",), ("minimum",)),
    "shards": (("shards_per_client",), ()),
    "pathological": (("classes_per_client",), ()),
    "dirichlet": (("concentration",), ("minimum",)),
    "inner_dirichlet": (("concentration",), ()),
    "dirichlet_sizes": (("concentration",), ("minimum",)),
    "power_law_sizes": (("exponent",), ("minimum",)),
}
OF_PARTIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "consecutive": ((), ()),
    "shuffled": ((), ()),
    "listed": (("columns",), ()),
    "importance": (("concentration",), ()),
    "correlation": (("beta",), ()),
}
_WANTED = {
    "column": "the name of a column that the data set keeps",
    "columns": "a list of columns for each party",
    "beta": "one from 0 to 1",
    "shards_per_client": "a whole number, such as 2",
    "classes_per_client": "a whole number, such as 2",
    "concentration": "one above 0, such as 0.5",
    "exponent": "one above 0, such as 1",
}


def _check_keys(own: Any, table: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> None:
    """ValueError unless a partition states what its assignment takes, and nothing else."""
    needed, optional = table[own.assignment]
    for key in needed:
        if getattr(own, key) is None:
            raise ValueError(f"{key}: '{own.assignment}' needs {_WANTED[key]}")
    for key in _keys(table):
        if key not in (*needed, *optional) and getattr(own, key) is not None:
            raise ValueError(f"{key}: assignment '{own.assignment}' takes none; remove it")


def _keys(table: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> list[str]:
    """The keys that assignments of a table take of their own."""
    return sorted({key for keys in table.values() for key in (*keys[0], *keys[1])})


def _is_none(value: Any) -> bool:
    return value is None


class _ClientPartition(RowsPartition):
    """Further keys of partitions among clients.

    binary: turns labels into ±1, and can make one class rare; null leaves labels as they are.
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
        if getattr(self, "validation", None) is not None:
            raise FedatlasError(
                f"suboptimality of a {own.kind} partition needs the rows that others have: those "
                "of 'validation' are its own"
            )
        unequal = getattr(self, "assignment", "") in _UNEQUAL
        if self.binary is not None or unequal:
            why = f"the assignment '{own.assignment}'" if unequal else "'binary'"
            raise FedatlasError(
                f"suboptimality is measured where all rows count equally: not with {why}"
            )
        keys = ("samples", "test", "intercept", "instances")
        kept = {key: getattr(self, key) for key in keys}
        seed = self.seed if self.instances else 0
        return VerticalPartition(parties=1, active=1, seed=seed, **kept)


# Clients' sizes vary.
_UNEQUAL = ("by_column", "pathological", "dirichlet", "dirichlet_sizes", "power_law_sizes")


class HorizontalPartition(_ClientPartition):
    """Every client holds whole samples, in one silo.

    clients: number of clients; each needs a sample. For `by_column` this is the number of the
        column's values, which is checked once data are prepared.
    assignment: docs/partitions.md has the law of each.
        `consecutive`: equal blocks of consecutive rows. Sizes differ by at most one; the first
        clients have the larger blocks.
        `shuffled`: the same after a uniform random permutation of the rows.
        `by_class`: the same after sorting a permutation by label, so that a client holds few
        classes of the data set.
        `by_column`: a client holds the rows with one value of a column, such as a writer's.
        `shards`: rows are sorted by label and cut into equal shards; each client gets some of
        these at random (McMahan et al. 2017).
        `pathological`: each client has rows of exactly `classes_per_client` classes (Li et al.
        2022).
        `dirichlet`: the rows of every class are shared out by a draw for that class; sizes vary
        (Yurochkin et al. 2019).
        `inner_dirichlet`: every client draws its mix of classes; sizes are equal (Hsu et al. 2019,
        Acar et al. 2021).
        `dirichlet_sizes`: rows do not differ by client; sizes are drawn from the Dirichlet
        distribution (Li et al. 2022).
        `power_law_sizes`: rows do not differ by client; the size of the k-th client falls as a
        power of k.
    column: for `by_column`: a column that the data set keeps.
    shards_per_client: for `shards`; 2 in the paper of FedAvg.
    classes_per_client: for `pathological`.
    concentration: parameter of the Dirichlet distribution: small is skewed, large is uniform.
    exponent: exponent of the power law: 0.1 is almost even; with 1 the first of a hundred clients
        holds a fifth of the rows.
    minimum: the fewest rows of a client. `dirichlet` and `dirichlet_sizes` draw again until every
        client has this many, and give up after 1000 draws. Without this key, a client that gets no
        row takes one from the largest client. `power_law_sizes` first gives each client this many,
        by default one. `by_column` leaves out values with fewer rows, as LEAF does.
    validation: rows that nobody trains on, drawn at random from those that are not for testing.
        A share such as 0.1 is taken of all rows before they are shared out, {by_client: 0.2} of
        each client's rows. Measurements named `validation_…` use these rows. Around a server only.
    seed: seed of all random choices here; null gives every trial (seed of a run) its own partition.
        Assignments without randomness have no seed, so that equal partitions have equal names.
    """

    #: Number of shard files: samples are not cut by columns.
    silos: ClassVar[int] = 1

    kind: Literal["horizontal"] = "horizontal"
    clients: int = Field(ge=1)
    assignment: Literal[
        "consecutive",
        "shuffled",
        "by_class",
        "by_column",
        "shards",
        "pathological",
        "dirichlet",
        "inner_dirichlet",
        "dirichlet_sizes",
        "power_law_sizes",
    ] = "consecutive"
    # Far below the bound the split is uniform already; it keeps sums finite and slugs free of "+".
    concentration: float | None = Field(default=None, gt=0, le=1e9)
    # Left out of specifications without them, as above.
    minimum: int | None = Field(default=None, ge=1, exclude_if=_is_none)
    column: str | None = Field(default=None, min_length=1, exclude_if=_is_none)
    shards_per_client: int | None = Field(default=None, ge=1, exclude_if=_is_none)
    classes_per_client: int | None = Field(default=None, ge=1, exclude_if=_is_none)
    exponent: float | None = Field(default=None, gt=0, le=100, exclude_if=_is_none)
    validation: Annotated[float, Field(gt=0, lt=1)] | OfEachClient | None = Field(
        default=None, exclude_if=_is_none
    )

    @model_validator(mode="after")
    def _suits_the_assignment(self) -> Self:
        _check_keys(self, OF_CLIENTS)
        if self.seed is not None and not self._is_random:
            raise ValueError(f"seed: assignment '{self.assignment}' is not random; remove it")
        return self

    @property
    def plain(self) -> dict[str, Any]:
        """Changes that make it one that needs nothing of the data."""
        keys = [*_keys(OF_CLIENTS), "validation"]
        return {"assignment": "consecutive", **dict.fromkeys(keys), "instances": False}

    @property
    def blocks(self) -> int:
        """How many equal blocks of rows are dealt out, where clients have equally many."""
        return self.clients * (self.shards_per_client or 1)

    @property
    def clients_by_silo(self) -> tuple[int, ...]:
        """All clients, in the one silo."""
        return (self.clients,)

    @property
    def fewest_samples(self) -> int:
        """How many training samples the clients need together."""
        each = self.minimum or self.shards_per_client or self.classes_per_client or 1
        return self.clients * each

    @property
    def _is_random(self) -> bool:
        thins = self.binary is not None and self.binary.thins
        drawn = self.assignment not in ("consecutive", "by_column")
        apart = self.validation is not None or self.instances
        return drawn or isinstance(self.test, float) or thins or apart

    def of_seed(self, seed: int) -> Self:
        return super().of_seed(seed) if self._is_random else self

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        parts = [self.kind, self.assignment, str(self.clients), *slug_part("first", self.samples)]
        parts += slug_part("concentration", self.concentration) + slug_part("minimum", self.minimum)
        parts += [] if self.column is None else [f"column{_plain(self.column)}"]
        parts += slug_part("shards", self.shards_per_client)
        parts += slug_part("classes", self.classes_per_client)
        parts += slug_part("exponent", self.exponent) + self._binary_part
        if isinstance(self.validation, OfEachClient):
            parts += slug_part("validationofeach", self.validation.by_client)
        else:
            parts += slug_part("validation", self.validation)
        return "-".join(parts + slug_part("seed", self.seed) + self.last_parts)


def _plain(name: str) -> str:
    """A name in a slug, or its digest where it is long or not plain."""
    return name if re.fullmatch(r"[A-Za-z0-9_]{1,40}", name) else text_digest(name)[:16]


def _in_full(columns: Any) -> Any:
    return in_full(columns, "columns")


#: The columns of one party: numbers from 0, or names; a range in full.
Columns: TypeAlias = Annotated[
    tuple[Annotated[int, Field(ge=0)] | str, ...], Field(min_length=1), BeforeValidator(_in_full)
]


class VerticalPartition(RowsPartition):
    """Every party holds some features of all samples; active parties hold the labels, too.

    parties, active: q and m of the VFB² paper; parties 0 to m − 1 are the active ones.
    assignment: docs/partitions.md has the law of each. `shuffled` and `consecutive`: blocks of
        features, after a uniform random permutation or in their order. Sizes of blocks differ by
        at most one; the first parties have the larger blocks. `listed`: the blocks of `columns`.
        `importance` and `correlation`: as VertiBench draws and searches them (Wu et al. 2024).
    columns: for `listed`: for each party a list of the data set's columns. A column is given by its
        number from 0, by its name (in a CSV file, with all of its indicators), or in a range
        {from: 0, to: 60}. Each column occurs once.
    concentration: for `importance`: the parties' chances to get a feature are drawn from a
        Dirichlet distribution. With a small one, few parties hold most important features.
    beta: for `correlation`: 0 puts correlated features into one party, 1 spreads them over parties.
    label_holders: which blocks the active parties have. `first` gives them the first blocks; a
        number k, from 0, gives the k-th of all choices of m from q blocks in lexicographic order.
        With `every_choice`, trial s (seed of a run) has the choice s modulo the number of choices,
        so that as many seeds as choices meet each choice once.
    standardise: each party scales its numeric columns to zero mean and unit variance, by statistics
        of the training rows. Indicator columns stay as they are.
    seed: seed of all random choices here; null gives every trial (seed of a run) its own partition.
    """

    kind: Literal["vertical"] = "vertical"
    parties: int = Field(ge=1)
    active: int = Field(ge=1)
    label_holders: Literal["first", "every_choice"] | Annotated[int, Field(ge=0)] = "first"
    assignment: Literal["shuffled", "consecutive", "listed", "importance", "correlation"] = (
        "shuffled"
    )
    # Left out of specifications without them, as above.
    columns: tuple[Columns, ...] | None = Field(default=None, exclude_if=_is_none)
    concentration: float | None = Field(default=None, gt=0, le=1e9, exclude_if=_is_none)
    beta: float | None = Field(default=None, ge=0, le=1, exclude_if=_is_none)
    standardise: bool = False

    @model_validator(mode="after")
    def _suits_the_assignment(self) -> Self:
        _check_keys(self, OF_PARTIES)
        if self.columns is not None and len(self.columns) != self.parties:
            raise ValueError(
                f"columns: lists those of {len(self.columns)} parties, but 'parties' is "
                f"{self.parties}"
            )
        named = [column for own in self.columns or () for column in own]
        if (twice := find_repeated(named)) is not None:
            raise ValueError(f"columns: {twice!r} is listed twice; a column has one party")
        return self

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
        seed = [f"seed{self.seed}"] if self._draws_rows else []
        return "-".join(seed + self._rows_parts)

    @property
    def _draws_rows(self) -> bool:
        return isinstance(self.test, float) or self.instances

    @property
    def _rows_parts(self) -> list[str]:
        standardised = ["standardised"] if self.standardise else []
        return ["rows", str(self.samples or "all"), *standardised, *self.last_parts]

    def pooled(self) -> "VerticalPartition":
        """The same rows with one party; the same for all partitions that share a `rows_slug`."""
        seed = self.seed if self._draws_rows else 0
        one = {"parties": 1, "active": 1, "label_holders": "first", "assignment": "shuffled"}
        return self.model_copy(update={**one, "seed": seed, **dict.fromkeys(_keys(OF_PARTIES))})

    @property
    def plain(self) -> dict[str, Any]:
        """Changes that make it one that needs nothing of the data."""
        drawn = self.assignment in ("shuffled", "consecutive")
        kept = {} if drawn else {"assignment": "consecutive"}
        return {**kept, **dict.fromkeys(_keys(OF_PARTIES)), "instances": False}

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        blocks = [self.kind, self.assignment, f"q{self.parties}", f"m{self.active}"]
        if self.columns is not None:
            blocks.append(f"columns{text_digest(canonical_json(self.columns))[:16]}")
        blocks += slug_part("concentration", self.concentration) + slug_part("beta", self.beta)
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
    """Every silo holds a slice of each sample; its clients share out the samples.

    cut: into how many blocks each axis is cut; axes that are not named stay whole. The silos are
        all combinations of blocks, in C order of the data set's axes (`AXES`). A data set without a
        shape has one axis, `columns`. The blocks of an axis are contiguous; their sizes differ by
        at most one, and the first are the larger.
    clients: K, the number in every silo, or a list with K_j for each silo j. A silo shares out the
        training samples after a uniform random permutation, in blocks whose sizes differ by at
        most one (Das et al. 2022, sections 2.1 and 5.2).
    permutation: `own` draws one in each silo. `shared` draws one for all, as the public code does;
        if all silos have as many clients, those with the same number then hold the same samples.
    binary: with the same seed, a horizontal partition keeps the same rows.
    seed: seed of all random choices here; null gives every trial (seed of a run) its own partition.
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
            f"k{shortened('_'.join(map(str, clients)))}",
            f"seed{self.seed}",
        ]
        parts += ["shared"] if self.permutation == "shared" else []
        parts += slug_part("first", self.samples) + self._binary_part
        return "-".join(parts + self.last_parts)


Partition: TypeAlias = Annotated[
    HorizontalPartition | VerticalPartition | TieredPartition, Field(discriminator="kind")
]
