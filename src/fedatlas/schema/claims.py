"""A paper's claims as data: what experiment files may declare, and how it is tested.

One rule decides every comparison, see `fedatlas.evaluation.comparison`. Claims declare their
direction and the smallest effect that counts before any run.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    "reproduced": "every effect in the interval is on the claimed side and at least the smallest "
    "that counts; if the paper prints an effect, the interval contains it or lies beyond it",
    "smaller than claimed": "every effect in the interval is on the claimed side, but smaller than "
    "the smallest that counts, or than the one that the paper prints",
    "no difference": "the interval is not wholly on the claimed side, and every effect in it is "
    "close to a tie: within a factor of 1.05 or a difference of 0.005 (or within the smallest "
    "effect that counts, if that is less)",
    "contradicted": "every effect in the interval is on the other side, and some are not close to "
    "a tie",
    "undecided": "the interval allows more than one of these outcomes; more seeds would decide",
    "not testable": "these runs cannot test the claim, and the evidence says why",
    "not covered": "the runs do not meet the conditions of the theorem that the claim is about",
    "compatible": "the printed number lies within the prediction interval",
    "incompatible": "the printed number lies outside the prediction interval",
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
#: Outcomes of cases that do not count if other cases of the claim have another outcome.
SILENT: tuple[Outcome, ...] = ("not testable", "not covered")

#: How many of its cases a claim is about: "faster", "in most cases faster", "can be faster".
Quantifier = Literal["all", "most", "any"]


@dataclass(frozen=True)
class Effect:
    """The size of a compared difference; it is positive in favour of the claim.

    estimate: the median of the paired differences. low, high: its interval. smallest: the smallest
    effect that counts. published: the paper's effect, where it prints one. unit: "decades" of a
    ratio, or the measurement's unit. seeds: number of pairs that all differ. repeats: number of
    further pairs, each equal to one of these. needed: number of seeds that would probably decide,
    where the outcome is undecided and the number known. p: one-sided, of the sign test behind
    "reproduced" and "contradicted". seeds_added: whether seeds were added after a verdict; if so,
    interval and p hold at whatever number of seeds one stops. bound: of a ratio to which levels at
    their floor contribute: "at most", "at least" or, if both runs have some, "about".
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
    bound: str = ""

    @property
    def exact(self) -> bool:
        """Whether all seeds coincide: nothing is random, so there is no interval and no p."""
        return self.seeds == 1 and self.repeats > 0 and self.low == self.high


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case of a claim.

    fragile: which target or budget near the declared one gives another outcome, in words; empty if
    none does. horizon: the outcomes at other budgets or targets, where there are any. tries: how
    tuned runs compare by the number of configurations tried, in words. why: of runs that are
    compared, why the claim is not testable or not covered, which the evidence says as well.
    """

    case: str
    outcome: Outcome
    evidence: str
    effect: Effect | None = None
    fragile: str = ""
    horizon: "Strip | None" = None
    tries: str = ""
    why: str = ""

    def not_testable(self, why: str) -> "CaseOutcome":
        """The case if its runs are compared, but cannot test the claim."""
        evidence = f"{self.evidence}; {why}"
        return replace(self, outcome="not testable", evidence=evidence, fragile="", why=why)


@dataclass(frozen=True)
class Strip:
    """The outcomes of a case at a row of budgets or targets.

    of: what is scaled, a budget or a target. cells: the outcome at each scale, beginning with the
    smallest budget or the easiest target; the scale 1 is the declared one.
    """

    of: Literal["budget", "target"]
    cells: tuple[tuple[float, CaseOutcome], ...]

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales alone."""
        return tuple(scale for scale, _ in self.cells)


@dataclass(frozen=True)
class Kind:
    """A kind of test: the name in experiment files, its keys, and the values that it sets.

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
    """The keys that a kind of claim declares, and its judge.

    A class serves the kinds in `kinds`, and its docstring has a paragraph for each. Without `kinds`
    it serves one, named as its module.

    kind: which test it is. measurement: what is compared between runs, or judged of one run.
    cost: the cost at which runs are compared, or that should be smaller.
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
    def levels(self) -> tuple[float, ...]:
        """Levels of its measurement that curves are to reach: by default the key `target`."""
        target = getattr(self, "target", None)
        return () if target is None else (target,)

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

    @property
    def tuned_runs(self) -> tuple[str, ...]:
        """Runs without a tuned configuration of which there is nothing to judge."""
        return self.runs if self.of_choice else ()

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
    """A claim and its test: a sentence of a paper, as it is read here, or our own question.

    sentence: the paper's sentence, by its id in sentences.yaml; a claim without one is our own
    question.
    source: figure, table or section of the paper, or where a question of ours comes from.
    cases: how many of its cases the claim is about: all, most or any.
    id: the name in tables and errors. statement: what is tested, in words.
    covered_by: the theorem that the claim is about, as the experiment's table of theorems names it,
    such as "Theorem 3", or "Theorem 3 (as printed)" for one version. Runs that do not meet its
    conditions are "not covered", whatever they show.
    test: its kind, with the keys of that kind.
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
