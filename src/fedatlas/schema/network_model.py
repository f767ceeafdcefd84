"""What an experiment declares of the simulated machines and links."""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, PositiveInt

from fedatlas.schema.models import Model


def _whole_nanoseconds(seconds: float) -> float:
    if 0 < seconds < 1e-9:
        raise ValueError("times are simulated in whole nanoseconds: 0, or at least 1e-9")
    return seconds


Seconds = Annotated[float, Field(ge=0), AfterValidator(_whole_nanoseconds)]


#: Whether parties are simulated, or are processes that talk to each other.
Backend: TypeAlias = Literal["simulated", "processes"]


class RealMasks(Model):
    """Masks of Algorithm 1 that are uniform on [−scale, scale].

    Shares that differ by more than twice the scale can be told apart; a larger one costs digits.
    """

    kind: Literal["real"] = "real"
    scale: float = Field(default=1.0, ge=0)


class RingMasks(Model):
    """Masks that are uniform on the integers modulo 2^64, see `federations.vertical.ring`.

    fraction_bits: f; shares are rounded to multiples of 2^-f. A larger f rounds less and leaves
    room for smaller shares only: below 2^(63 − f) / q.
    """

    kind: Literal["ring"]
    fraction_bits: int = Field(ge=1, le=52)


Masks: TypeAlias = Annotated[RealMasks | RingMasks, Field(discriminator="kind")]


class NetworkModel(Model):
    """Speeds of parties and links; all choices of ours, as no paper states its own.

    seconds_per_feature: of one pass of one sample's features over a processor.
    latency: seconds from sender to receiver, of any message.
    threads: of each party, to apply collaborative updates; null is one per dominator, as the paper.
    straggler: how many times slower the last of several parties computes; 1 is as fast as others.
    masks: the law of the random numbers that hide shares in Algorithm 1.
    """

    seconds_per_feature: Annotated[Seconds, Field(gt=0)] = 1e-6
    latency: Seconds = 1e-6
    threads: PositiveInt | None = None
    straggler: float = Field(default=1.0, ge=1)
    masks: Masks = RealMasks()
