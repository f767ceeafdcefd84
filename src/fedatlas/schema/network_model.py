"""Simulated machines and links, and measured times, as an experiment declares them."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

from fedatlas.schema.models import Model, fault_of

#: As many equally likely times stand for any number of measured ones.
MOST_TIMES = 512
#: Of a trace of availability: specifications of runs travel in commands.
MOST_SPELLS = 2000
#: Kinds of times that the law is about, as `validate-parties` names them; others are left out.
COMPUTED = ("share", "update")


def relative_times(groups: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Times over the average of their group, all groups together, in ascending order.

    More than `MOST_TIMES` become so many equally likely quantiles. ValueError if there are none, or
    one is not positive.
    """
    found = sorted(time / (math.fsum(group) / len(group)) for group in groups for time in group)
    if not found:
        raise ValueError("there are no measured times")
    if not (found[0] > 0 and math.isfinite(found[-1])):
        raise ValueError("measured times must be positive and finite")
    kept = min(len(found), MOST_TIMES)
    places = ((2 * number + 1) * len(found) // (2 * kept) for number in range(kept))
    return tuple(float(f"{found[place]:.6g}") for place in places)


def times_in(path: Path) -> tuple[float, ...]:
    """`relative_times` of a CSV file with a column `seconds`.

    Rows of one `kind` and `party`, where there are such columns, are a group; of kinds only
    `COMPUTED` count. ValueError for a file that cannot be read, or has no such times.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                kind = row.get("kind") or ""
                if not kind or kind in COMPUTED:
                    groups.setdefault((kind, row.get("party") or ""), []).append(
                        float(row["seconds"])
                    )
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, UnicodeDecodeError, ValueError, csv.Error):
        raise ValueError(f"{path}: must be CSV with a column 'seconds' of numbers") from None
    try:
        return relative_times(groups.values())
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"{path}: {error}") from None


def _whole_nanoseconds(seconds: float) -> float:
    if 0 < seconds < 1e-9:
        raise ValueError("times are simulated in whole nanoseconds: 0, or at least 1e-9")
    return seconds


Seconds = Annotated[float, Field(ge=0), AfterValidator(_whole_nanoseconds)]


#: Whether parties are simulated, or are processes that talk to each other.
Backend: TypeAlias = Literal["simulated", "processes"]


class RealMasks(Model):
    """Masks of Algorithm 1 that are uniform on [−scale, scale].

    Shares that differ by more than twice the scale can be distinguished. A larger scale costs
    digits.

    scale: half the width of the interval, in units of shares.
    """

    kind: Literal["real"] = "real"
    scale: float = Field(default=1.0, ge=0)


class RingMasks(Model):
    """Masks that are uniform on the integers modulo 2^64, see `federations.vertical.secure_sum`.

    fraction_bits: f. Shares are rounded to multiples of 2^-f, and must be smaller than
    2^(63 − f) / q: a larger f rounds less, but allows smaller shares only.
    """

    kind: Literal["ring"]
    fraction_bits: int = Field(ge=1, le=52)


Masks: TypeAlias = Annotated[RealMasks | RingMasks, Field(discriminator="kind")]


class ConstantTimes(Model):
    """All shares and updates of a party take equally long."""

    kind: Literal["constant"] = "constant"


class LognormalTimes(Model):
    """Times of mean 1 whose logarithms are normal."""

    kind: Literal["lognormal"]
    spread: NonNegativeFloat = Field(description="standard deviation of the natural logarithm")


class ShiftedExponentialTimes(Model):
    """Times of mean 1: a share that is always needed, and an exponential rest."""

    kind: Literal["shifted_exponential"]
    fixed: float = Field(ge=0, le=1, description="share of the mean that is always needed")


def _read_from_file(value: Any, key: str, read: Callable[[Path], Any]) -> Any:
    """A declaration with what is read from its `file`, if it has one, as the list `key`."""
    if not isinstance(value, dict) or "file" not in value:
        return value
    if key in value:
        raise ValueError(f"'{key}' and 'file' are both declared; state one")
    rest = {name: own for name, own in value.items() if name != "file"}
    return rest | {key: read(Path(str(value["file"])))}


class MeasuredTimes(Model):
    """Times drawn with replacement from a list, divided by its mean (a bootstrap).

    `file` names a CSV file in place of the list, see `measured_times`. Its path is relative to the
    folder of the experiment's own file.
    """

    kind: Literal["measured"]
    times: tuple[PositiveFloat, ...] = Field(
        min_length=1, description="measured times, in any unit: only their ratios count"
    )

    @model_validator(mode="before")
    @classmethod
    def _times_of_a_file(cls, value: Any) -> Any:
        return _read_from_file(value, "times", times_in)


ComputeTimes = Annotated[
    ConstantTimes | LognormalTimes | ShiftedExponentialTimes | MeasuredTimes,
    Field(discriminator="kind"),
]


class Drift(Model):
    """A party's speed over time: a lognormal factor of mean 1, the same for a whole period."""

    spread: PositiveFloat = Field(description="standard deviation of the natural logarithm")
    period: Annotated[Seconds, Field(gt=0)] = Field(
        description="simulated seconds after which every party draws its factor anew"
    )


class NetworkModel(Model):
    """Speeds of parties and links. All are our own choices, since no paper states its own."""

    seconds_per_feature: Annotated[Seconds, Field(gt=0)] = Field(
        default=1e-6,
        description="of one pass of a sample's features over a processor, on average",
    )
    compute: ComputeTimes = Field(
        default=ConstantTimes(),
        description="how single shares and updates vary about the average, each on its own",
    )
    drift: Drift | None = Field(default=None, description="how the speed of a party varies slowly")
    latency: Seconds = Field(
        default=1e-6, description="seconds from sender to receiver, of any message"
    )
    threads: PositiveInt | None = Field(
        default=None,
        description="of each party, to apply collaborative updates; null is one per dominator, as "
        "the paper",
    )
    cores: PositiveInt | None = Field(
        default=None,
        description="of each party, shared by all that it computes at once; null is one for each",
    )
    straggler: float = Field(
        default=1.0, ge=1, description="how many times slower one party computes; 1: none does"
    )
    straggler_party: NonNegativeInt | None = Field(
        default=None,
        description="which party that is, counted from 0, dominators first; null is the last of "
        "several",
    )
    masks: Masks = Field(
        default=RealMasks(),
        description="the law of the random numbers that hide shares in Algorithm 1",
    )

    @property
    def varies(self) -> bool:
        """Whether equal work may take different times."""
        return not (
            isinstance(self.compute, ConstantTimes) and self.drift is None and self.cores is None
        )


class AvailabilityTrace(Model):
    """When clients are available: spells of simulated time. After the last, they start over.

    `file` names a CSV file in place of the list, with the columns `client` (counted from 0), `from`
    and `until`. Its path is relative to the folder of the experiment's own file.
    """

    kind: Literal["trace"]
    spells: tuple[tuple[NonNegativeInt, NonNegativeFloat, PositiveFloat], ...] = Field(
        min_length=1,
        max_length=MOST_SPELLS,
        description="client, and the simulated seconds from and until which it is there; clients "
        "without one are never there",
    )

    @model_validator(mode="before")
    @classmethod
    def _spells_of_a_file(cls, value: Any) -> Any:
        return _read_from_file(value, "spells", _sound_spells_in)

    @model_validator(mode="after")
    def _spells_last(self) -> Self:
        _check_spells(self.spells)
        return self


def _sound_spells_in(path: Path) -> list[tuple[int, float, float]]:
    try:
        spells = spells_in(path)
        _check_spells(spells)
    except ValueError as error:
        raise fault_of("file", str(path), str(error)) from None
    return spells


def _check_spells(spells: Iterable[tuple[int, float, float]]) -> None:
    for client, begins, ends in spells:
        if begins >= ends:
            raise ValueError(
                f"client {client} is there from {begins:g} until {ends:g} s: 'from' must be less"
            )


def spells_in(path: Path) -> list[tuple[int, float, float]]:
    """Client, from and until of a CSV file's rows; ValueError for a file that has no such rows."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return [
                (int(row["client"]), float(row["from"]), float(row["until"]))
                for row in csv.DictReader(stream)
            ]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, UnicodeDecodeError, ValueError, csv.Error):
        raise ValueError(
            f"{path}: must be CSV with the columns 'client', 'from' and 'until', of numbers"
        ) from None


class MessageLoss(Model):
    """Loss of clients' answers: independently, or in bursts.

    Bursts follow Gilbert's two-state chain. Every answer of a client is a step of the chain; one
    state loses all answers, the other none.
    """

    probability: float = Field(gt=0, lt=1, description="share of answers that are lost")
    burst: float | None = Field(
        default=None,
        description="answers of a client in a row that are lost, on average, once one is; null: "
        "each is lost independently, which makes this 1/(1 − probability)",
    )

    @property
    def memory(self) -> float:
        """With which probability an answer fares as the client's last one did, whatever chance."""
        return 0.0 if self.burst is None else 1 - 1 / (self.burst * (1 - self.probability))

    @model_validator(mode="after")
    def _bursts_are_long_enough(self) -> Self:
        if self.memory < 0:
            raise ValueError(
                f"burst: {self.burst:g} is shorter than chance makes it, "
                f"{1 / (1 - self.probability):.4g}; leave it out for independent losses"
            )
        return self


class StarNetworkModel(Model):
    """Speeds and links of clients around a server, their availability, and the server's patience.

    Every client has a link of its own. Only `seconds_per_gradient` is required. On graphs, agents
    are clients of each other, and a failure concerns the exchange between two neighbours. Silos and
    workers of min–max problems have speeds and links only.
    """

    seconds_per_gradient: Annotated[Seconds, Field(gt=0)] = Field(
        description="of a per-sample gradient of the whole model, of the average client"
    )
    compute: ComputeTimes = Field(
        default=ConstantTimes(),
        description="how a client's work varies from answer to answer about its average",
    )
    spread: NonNegativeFloat = Field(
        default=0.0,
        description="standard deviation of the natural logarithm of clients' times per gradient, "
        "which are lognormal with this average, drawn once for a seed",
    )
    latency: Seconds = Field(default=0.0, description="seconds of a message each way")
    bandwidth_down: PositiveFloat | None = Field(
        default=None, description="bytes per second from the server to each client; null: no limit"
    )
    bandwidth_up: PositiveFloat | None = Field(
        default=None, description="bytes per second from each client to the server; null: no limit"
    )
    availability: Annotated[float, Field(gt=0, le=1)] | AvailabilityTrace = Field(
        default=1.0,
        description="probability that a client is there when the server chooses, each time and of "
        "each client on its own, or that an agent can be reached in an exchange; or a trace",
    )
    loss: MessageLoss | None = Field(
        default=None, description="answers, or exchanges of two neighbours, that never arrive"
    )
    deadline: Annotated[Seconds, Field(gt=0)] | None = Field(
        default=None,
        description="seconds for which the server waits for an answer, or an agent for its "
        "neighbours; null: until it arrives",
    )

    @property
    def misses(self) -> bool:
        """Whether an answer may not come."""
        return self.availability != 1 or self.loss is not None or self.deadline is not None

    @property
    def spells(self) -> tuple[tuple[int, float, float], ...]:
        """Those of a trace; empty without one."""
        traced = self.availability
        return traced.spells if isinstance(traced, AvailabilityTrace) else ()

    @model_validator(mode="after")
    def _nothing_is_waited_for_forever(self) -> Self:
        if self.deadline is None and (self.loss is not None or self.spells):
            raise ValueError(
                f"'{'availability' if self.spells else 'loss'}': the server would wait forever for "
                "answers that never arrive, or agents for neighbours: state a 'deadline'"
            )
        return self


def _whose(value: Any) -> str:
    """Whether a network is that of clients, which says how long a gradient takes, or of parties."""
    of_clients = isinstance(value, Mapping) and "seconds_per_gradient" in value
    star = of_clients or isinstance(value, StarNetworkModel)
    return (StarNetworkModel if star else NetworkModel).__name__


#: A network that an experiment declares.
AnyNetworkModel: TypeAlias = Annotated[
    Annotated[NetworkModel, Tag("NetworkModel")]
    | Annotated[StarNetworkModel, Tag("StarNetworkModel")],
    Discriminator(_whose),
]
