"""A paper's claims as data: what experiment files may state, and how it will be tested.

Every comparison is decided by one rule, `fedatlas.evaluation.comparison`: claims declare their
direction and the smallest effect that counts before any run.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from pydantic import (
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from fedatlas.schema.models import KindModel, Model

#: What a verdict says, and what that means; the only place that explains it.
OUTCOMES = {
    "reproduced": "the whole interval shows the claimed effect, by at least the smallest that "
    "counts",
    "smaller than claimed": "the whole interval lies on the claimed side, but below the smallest "
    "effect that counts, or below what the paper prints",
    "no difference": "the interval lies within ± the smallest relevant effect: a factor of 1.05, a "
    "difference of 0.005, or what counts if that is less",
    "contradicted": "the whole interval lies on the other side",
    "undecided": "the interval allows more than one of these; more seeds would tell",
    "not testable": "these data cannot speak about it, however many seeds there are",
    "not covered": "the runs lie outside the conditions of the theorem that it is about, and speak "
    "neither for nor against it",
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
    "not covered",
    "compatible",
    "incompatible",
]
assert set(get_args(Outcome)) == set(OUTCOMES)
#: Of cases that do not count where others speak.
SILENT: tuple[Outcome, ...] = ("not testable", "not covered")

#: Of how many of its cases a claim speaks: "faster", "in most cases faster", "can be faster".
Quantifier = Literal["all", "most", "any"]


@dataclass(frozen=True)
class Effect:
    """How much a comparison found, in favour of the claim where positive.

    estimate: the median of the paired differences. low, high: its interval. smallest: the smallest
    effect that counts. published: the paper's, where it prints one. unit: "decades" of a ratio, or
    that of the measurement. seeds: pairs, each of which differs from all others. repeats: further
    pairs, which coincide with one of them. needed: seeds that would probably decide, where
    undecided and known. p: one-sided, of the sign test behind "reproduced" and "contradicted".
    seeds_added: whether interval and p hold whenever one stops, as seeds were added.
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
    seeds_added: bool = False

    @property
    def exact(self) -> bool:
        """Whether all seeds coincide: nothing is random, so there is no interval and no p."""
        return self.seeds == 1 and self.repeats > 0 and self.low == self.high


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case of a claim.

    fragile: where a target or budget near the declared one gives another outcome, in words.
    horizon: the outcomes at other budgets or targets, where there are any. tries: how tuned runs
    compare by the number of configurations that were tried, in words.
    """

    case: str
    outcome: Outcome
    evidence: str
    effect: Effect | None = None
    fragile: str = ""
    horizon: "Strip | None" = None
    tries: str = ""


@dataclass(frozen=True)
class Strip:
    """How a case comes out along a row of budgets or targets.

    of: what is scaled. cells: scales, from a small budget or an easy target on, and the outcome
    at each; 1 is the declared budget or target.
    """

    of: Literal["budget", "target"]
    cells: tuple[tuple[float, CaseOutcome], ...]

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales alone."""
        return tuple(scale for scale, _ in self.cells)


@dataclass(frozen=True)
class Kind:
    """A name by which files ask for a test: the keys that it has there, and those that it sets.

    requires, takes: keys that files must and may declare. sets: values of other keys, and defaults
    of those that it takes.
    """

    requires: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    sets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that files may have."""
        return ("kind", *self.requires, *self.takes)

    def complete(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """All declared keys and those that the kind sets; ValidationError for other ones."""
        unknown = PydanticCustomError(
            "extra_forbidden", "Extra inputs are not permitted", {"allowed": self.keys}
        )
        wrong: list[InitErrorDetails] = [
            {"type": unknown, "loc": (key,), "input": of}
            for key, of in value.items()
            if key not in self.keys
        ]
        wrong += [
            {"type": "missing", "loc": (key,), "input": value}
            for key in self.requires
            if value.get(key) is None
        ]
        if wrong:
            raise ValidationError.from_exception_data("ClaimTest", wrong)
        return {**self.sets, **value}


class ClaimTest(KindModel):
    """What a kind of claim states, and its judge.

    A class serves the kinds in `kinds`, of each of which its docstring has a paragraph, or one that
    is named as its module.

    kind: which test it is. measurement: what is compared of runs, or judged of one.
    cost: that at which runs are compared, or of which less is better.
    """

    #: What files call it → what that declares and sets.
    kinds: ClassVar[Mapping[str, Kind]] = {}
    package = "fedatlas.evaluation.claims"

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at: by default those of the keys `run`, `first` and `second`."""
        named = (getattr(self, key, "") for key in ("run", "first", "second"))
        return tuple(filter(None, named))

    @property
    def needs(self) -> tuple[str, ...]:
        """Keys of the experiment without which there is nothing to judge."""
        return ("trained",)

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that judge it."""
        return (type(self).__module__,)

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
    def stops_at(self) -> tuple[tuple[str, float], ...]:
        """Measurements and targets at which runs may stop; by default none, as it looks further."""
        return ()

    @property
    def has_slopes(self) -> bool:
        """Whether it judges slopes along runs of rising size, which a figure can draw."""
        return False

    @property
    def of_choice(self) -> bool:
        """Whether it looks at the points that a selection chose."""
        return "trained" in self.needs

    def lines(self, selected: Callable[..., list[Any]]) -> Iterator[Any]:
        """The `Line`s whose slopes it judges, if `has_slopes`.

        selected: runs → traces at their tuned configurations.
        """
        return iter(())

    def check(self, experiment: Any) -> None:
        """Raise ValueError if the test does not fit the `Experiment` that states it."""

    @abstractmethod
    def judge(self, results: Any) -> Iterator[CaseOutcome]:
        """Outcomes, one per case, from the `fedatlas.evaluation.results.Results`."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        kind = cls.kinds.get(cls.kind_of(value)) if isinstance(value, Mapping) else None
        return kind.complete(value) if kind else value

    @model_serializer(mode="wrap")
    def _declared(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keys that files have; what its kind sets stays out."""
        found: dict[str, Any] = dump(self)
        kind = self.kinds.get(self.kind)
        return {key: of for key, of in found.items() if kind is None or key in kind.keys}


class Claim(Model):
    """A claim and its test: a sentence of a paper as it is read here, or a question of ours.

    sentence: the paper's, by its id in sentences.yaml; a claim without one is a question of ours.
    source: figure, table or section; of a question of ours it begins with "ours".
    cases: of how many of its cases the claim speaks.
    id: by which tables and errors name it. statement: what is tested, in words: the reading.
    covered_by: the theorem that it is about, as the experiment's table of theorems names it, such
    as "Theorem 3", or "Theorem 3 (as printed)" of one version: runs outside its conditions are "not
    covered", whatever they show.
    test: its kind, and what that states.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    sentence: str | None = None
    source: str
    statement: str
    cases: Quantifier = "all"
    covered_by: str | None = None
    test: SerializeAsAny[ClaimTest]

    @property
    def question(self) -> Literal["paper", "ours"]:
        """Whose it is; tallies count ours apart."""
        return "paper" if self.sentence else "ours"
