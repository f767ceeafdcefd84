"""Who holds which samples: typed partition specifications and the assignment they describe."""

from typing import Literal, TypeAlias

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from fedatlas.errors import FedatlasError
from fedatlas.models import Model

# Labels count as classes when there are few of them and each is met repeatedly; otherwise they
# are the targets of a regression, where "skewed by label" has no meaning.
MOST_CLASSES = 1000
FEWEST_SAMPLES_PER_CLASS = 5


class HorizontalPartition(Model):
    """Every client holds whole samples, in one silo.

    assignment:
        `consecutive`: equal blocks of consecutive rows; sizes differ by at most one, the first
        clients being the larger.
        `shuffled`: the same after a uniform random permutation of the rows.
        `dirichlet`: skewed by label; see `assign`.
    clients: number of clients, each with at least one sample.
    samples: keep only the first so many rows (before shuffling); null keeps all.
    concentration: of the Dirichlet distribution: small is skewed, large is uniform.
    seed: of the random assignments, 0 unless given; `consecutive` has none, so that equal
        partitions have equal names.
    """

    kind: Literal["horizontal"] = "horizontal"
    assignment: Literal["consecutive", "shuffled", "dirichlet"] = "consecutive"
    clients: int = Field(ge=1)
    samples: int | None = Field(default=None, ge=1, validate_default=True)
    # Far below the bound the split is uniform already; it keeps sums finite and slugs free of "+".
    concentration: float | None = Field(default=None, gt=0, le=1e9, validate_default=True)
    seed: int | None = Field(default=None, ge=0, validate_default=True)

    @field_validator("samples")
    @classmethod
    def _enough_samples(cls, samples: int | None, info: ValidationInfo) -> int | None:
        clients = info.data.get("clients", 1)
        if samples is not None and samples < clients:
            raise ValueError(f"fewer than the {clients} clients, and each needs a sample")
        return samples

    @field_validator("concentration")
    @classmethod
    def _only_for_dirichlet(cls, concentration: float | None, info: ValidationInfo) -> float | None:
        assignment = info.data.get("assignment")
        if assignment == "dirichlet" and concentration is None:
            raise ValueError("assignment 'dirichlet' needs a concentration above 0, such as 0.5")
        if assignment in ("consecutive", "shuffled") and concentration is not None:
            raise ValueError(f"assignment '{assignment}' takes no concentration; remove it")
        return concentration

    @field_validator("seed")
    @classmethod
    def _only_where_random(cls, seed: int | None, info: ValidationInfo) -> int | None:
        assignment = info.data.get("assignment")
        if assignment == "consecutive" and seed is not None:
            raise ValueError("assignment 'consecutive' is not random; remove the seed")
        if assignment in ("shuffled", "dirichlet") and seed is None:
            return 0
        return seed

    @property
    def silos(self) -> int:
        """Number of shard files: samples are not cut by columns."""
        return 1

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other specification has; not meant to be parsed."""
        parts = [self.kind, self.assignment, str(self.clients)]
        if self.samples is not None:
            parts.append(f"first{self.samples}")
        if self.concentration is not None:
            # repr is exact, so close values keep distinct names.
            parts.append(f"concentration{self.concentration!r}")
        if self.seed is not None:
            parts.append(f"seed{self.seed}")
        return "-".join(parts)


# Grows into a union with the discriminator `kind` when there is a second kind of partition.
Partition: TypeAlias = HorizontalPartition


def assign(spec: Partition, labels: np.ndarray) -> np.ndarray:
    """Client of each kept row, (n,) int64, where n is `spec.samples` or all rows.

    `labels` (rows,) are those of the whole data set, in row order. The result depends on nothing
    but the arguments (PCG64 under `spec.seed`), and every client gets at least one sample.

    `dirichlet` follows Yurochkin et al. (2019): for every class, the proportions of its samples
    that go to the clients are drawn from Dirichlet(concentration, …, concentration), so client
    sizes vary. (Hsu et al. 2019 draw the class mix of equally sized clients instead.) A client
    left empty takes the last row of the then largest client.

    Raises FedatlasError when there are fewer rows than `samples` or `clients`, or when a
    `dirichlet` assignment meets labels that are not classes.
    """
    if spec.samples is not None and spec.samples > len(labels):
        raise FedatlasError(
            f"partition: samples {spec.samples} exceeds the {len(labels)} rows of the data set; "
            "lower samples or remove it"
        )
    kept = labels[: spec.samples]
    if spec.clients > len(kept):
        raise FedatlasError(
            f"partition: clients {spec.clients} exceeds the {len(kept)} samples to share out; "
            "lower clients"
        )
    blocks = np.repeat(np.arange(spec.clients), _near_equal_sizes(len(kept), spec.clients))
    if spec.assignment == "consecutive":
        return blocks
    # PCG64 by name: numpy may change what `default_rng` stands for.
    generator = np.random.Generator(np.random.PCG64(spec.seed))
    if spec.assignment == "shuffled":
        client = np.empty_like(blocks)
        client[generator.permutation(len(kept))] = blocks
        return client
    assert spec.concentration is not None  # the model guarantees it for dirichlet
    return _skewed_by_label(kept, spec.clients, spec.concentration, generator)


def _near_equal_sizes(samples: int, clients: int) -> np.ndarray:
    """(clients,) sizes that add up to `samples` and differ by at most one, larger ones first."""
    smaller, larger_clients = divmod(samples, clients)
    return smaller + (np.arange(clients) < larger_clients)


def _skewed_by_label(
    labels: np.ndarray, clients: int, concentration: float, generator: np.random.Generator
) -> np.ndarray:
    classes, class_of_row = np.unique(labels, return_inverse=True)
    _require_classes(len(classes), len(labels))
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


def _require_classes(classes: int, samples: int) -> None:
    # Two values are classes however few the samples.
    if classes > 2 and (classes > MOST_CLASSES or classes * FEWEST_SAMPLES_PER_CLASS > samples):
        raise FedatlasError(
            f"partition: assignment 'dirichlet' skews by class, but the {samples} samples have "
            f"{classes} distinct labels (at most {MOST_CLASSES}, with {FEWEST_SAMPLES_PER_CLASS} "
            "samples each on average): this looks like regression; use 'consecutive' or 'shuffled'"
        )
