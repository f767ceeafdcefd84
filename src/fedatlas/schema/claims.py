"""A paper's claims as data: what experiment files may state, and how it will be tested.

Every comparison is decided by one rule, `fedatlas.evaluation.comparison`: claims declare their
direction and the smallest effect that counts before any run.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self, cast, get_args

from pydantic import Field, ModelWrapValidatorHandler, SerializeAsAny
from pydantic import model_validator as validator

from fedatlas.extensions import import_extension
from fedatlas.schema.models import Model, only_subclass

#: What a verdict says, and what that means; the only place that explains it.
OUTCOMES = {
    "reproduced": "surely as claimed, by the smallest effect that counts or more",
    "smaller than claimed": "surely the claimed way, but surely by less than the smallest effect "
    "that counts, or than the paper prints",
    "no difference": "surely within the smallest effect that counts, either way",
    "contradicted": "surely the other way",
    "undecided": "the interval leaves more than one of these open; more seeds would tell",
    "not testable": "these data cannot speak about it, however many seeds there are",
    "compatible": "the published number lies within the prediction interval",
    "incompatible": "the published number lies outside the prediction interval",
}
Outcome = Literal[
    "reproduced",
    "smaller than claimed",
    "no difference",
    "contradicted",
    "undecided",
    "not testable",
    "compatible",
    "incompatible",
]
assert set(get_args(Outcome)) == set(OUTCOMES)

#: Of how many of its cases a sentence speaks: "faster", "in most cases faster".
Quantifier = Literal["all", "most"]

_KINDS = "fedatlas.evaluation.claims"  # a module each, named as the kind: adding one adds a kind


@dataclass(frozen=True)
class Effect:
    """How much a comparison found, in favour of the claim where positive.

    estimate: the median of the paired differences. low, high: its interval. smallest: the smallest
    effect that counts. published: the paper's, where it prints one. unit: "decades" of a ratio, or
    that of the measurement. seeds: pairs, each of which differs from all others. repeats: further
    pairs, which coincide with one of them. needed: seeds that would probably decide, where
    undecided and known. p: one-sided, of the sign test behind "reproduced" and "contradicted".
    """

    estimate: float
    low: float
    high: float
    smallest: float
    unit: str
    seeds: int
    published: float | None = None
    needed: int | None = None
    p: float | None = None
    repeats: int = 0

    @property
    def exact(self) -> bool:
        """Whether all seeds coincide: nothing is random, so there is no interval and no p."""
        return self.seeds == 1 and self.repeats > 0 and self.low == self.high


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case of a claim.

    fragile: where another target or budget gives another outcome, in words.
    """

    case: str
    outcome: Outcome
    evidence: str
    effect: Effect | None = None
    fragile: str = ""


class ClaimTest(Model, ABC):
    """What a kind of claim states, and its judge.

    Raises, when a mapping is validated as a ClaimTest, for a `kind` that no module has.

    kind: which test it is. measurement: what is compared of runs, or judged of one.
    cost: that at which runs are compared, or of which less is better.
    """

    #: Keys of the experiment without which there is nothing to judge.
    needs: ClassVar[tuple[str, ...]] = ("trained",)

    kind: str

    @property
    @abstractmethod
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds whose modules judge it."""
        return (self.kind,)

    @property
    def measured(self) -> tuple[str, ...]:
        """What the runs must measure: by default the key `measurement`, if there is one."""
        measurement = getattr(self, "measurement", None)
        return () if measurement is None else (measurement,)

    @property
    def counted(self) -> tuple[str, ...]:
        """What the runs must count: by default the key `cost`, if it is declared."""
        cost = getattr(self, "cost", None)
        return () if cost is None else (cost,)

    @property
    def has_slopes(self) -> bool:
        """Whether it judges slopes along runs of rising size, which a figure can draw."""
        return False

    @property
    def of_choice(self) -> bool:
        """Whether it looks at the points that a selection chose."""
        return "trained" in self.needs

    def check(self, experiment: Any) -> None:
        """Raise ValueError if the test does not fit the `Experiment` that states it."""

    @abstractmethod
    def judge(self, results: Any) -> Iterator[CaseOutcome]:
        """Findings, one per case, from the `fedatlas.evaluation.results.Results`."""

    @classmethod
    def variant(cls, value: Any) -> type[Model]:
        """The model of a mapping's `kind`."""
        kind = value.get("kind") if isinstance(value, Mapping) else None
        return _class_of(kind) if cls is ClaimTest and kind in claim_kinds() else cls

    @validator(mode="wrap")
    @classmethod
    def _by_kind(cls, value: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        if cls is not ClaimTest or isinstance(value, ClaimTest):
            return build(value)
        model = cls.variant(value)
        if model is ClaimTest:
            kind = value.get("kind") if isinstance(value, Mapping) else value
            raise ValueError(f"kind {kind!r}: must be one of {', '.join(claim_kinds())}")
        return cast(Self, model.model_validate(value))


class PairTest(ClaimTest, ABC):
    """A test of `first` against `second`.

    first, second: runs; the sentence is about the first.
    """

    first: str
    second: str

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.first, self.second)


class RunTest(ClaimTest, ABC):
    """A test of one run.

    run: that which the sentence is about.
    """

    run: str

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.run,)


class Claim(Model):
    """One sentence of a paper and its test.

    source: figure, table or section; for a question that the paper lacks it begins with "ours".
    cases: of how many of its cases the sentence speaks.
    id: by which tables and errors name it. statement: the sentence.
    test: its kind, and what that states.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    source: str
    statement: str
    cases: Quantifier = "all"
    test: SerializeAsAny[ClaimTest]

    @property
    def question(self) -> Literal["paper", "ours"]:
        """Whose it is; tallies count ours apart."""
        return "ours" if self.source.startswith("ours") else "paper"


@cache
def claim_kinds() -> tuple[str, ...]:
    """Names of all kinds of claims."""
    folder = importlib.import_module(_KINDS).__path__
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folder)))


def claim_module(kind: str) -> str:
    """The module that holds the model and the judge of a kind."""
    return f"{_KINDS}.{kind}"


@cache
def _class_of(kind: str) -> type[ClaimTest]:
    module = import_extension(claim_module(kind))
    return only_subclass(module, ClaimTest)  # type: ignore[type-abstract]
