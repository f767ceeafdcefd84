"""A paper's claims as data: what experiment files may state, and how it will be tested.

Every test compares a number per seed with a declared region, by one rule: `reproduced` if the 95 %
interval is inside the region, `not reproduced` if it is outside, `inconclusive` if it is across the
border. Regions are fixed before any run.
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

from fedatlas.schema.models import Model, only_subclass

#: The claimed region holds the whole interval, none of it, or a part of it.
Outcome = Literal["reproduced", "not reproduced", "inconclusive"]
VERDICTS: tuple[Outcome, ...] = get_args(Outcome)

_KINDS = "fedatlas.evaluation.claims"  # a module each, named as the kind: adding one adds a kind


@dataclass(frozen=True)
class Finding:
    """The outcome of one case of a claim."""

    case: str
    verdict: Outcome
    evidence: str


class ClaimTest(Model, ABC):
    """What a kind of claim states, and its judge.

    Raises, when a mapping is validated as a ClaimTest, for a `kind` that no module has.
    """

    #: Keys of the experiment without which there is nothing to judge.
    needs: ClassVar[tuple[str, ...]] = ("trained",)

    kind: str

    @property
    @abstractmethod
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""

    @property
    def measured(self) -> tuple[str, ...]:
        """What the runs must measure: by default the key `measurement`, if there is one."""
        measurement = getattr(self, "measurement", None)
        return () if measurement is None else (measurement,)

    @property
    def counted(self) -> tuple[str, ...]:
        """What the runs must count: by default the key `cost`, if it is stated."""
        cost = getattr(self, "cost", None)
        return () if cost is None else (cost,)

    def check(self, experiment: Any) -> None:
        """Raise ValueError if the test does not fit the `Experiment` that states it."""

    @abstractmethod
    def judge(self, results: Any) -> Iterator[Finding]:
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
    """A test of `first` against `second`."""

    first: str
    second: str

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.first, self.second)


class RunTest(ClaimTest, ABC):
    """A test of one run."""

    run: str

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.run,)


class Claim(Model):
    """One sentence of a paper and its test."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    source: str  # figure, table or section; "ours" for a claim that the paper lacks
    statement: str
    test: SerializeAsAny[ClaimTest]


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
    module = importlib.import_module(claim_module(kind))
    return only_subclass(module, ClaimTest)  # type: ignore[type-abstract]
