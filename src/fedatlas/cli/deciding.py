"""`fedatlas run --decide`: between two runs it prints which claims are decided, and adds seeds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedatlas.evaluation.tables import read_rows
from fedatlas.evaluation.verdicts import Verdict, cases_of, read_verdicts, whole_claims
from fedatlas.pages.terminal import format_open, format_silent, undecided
from fedatlas.plan.build import Plan
from fedatlas.schema.claims import SILENT
from fedatlas.schema.config import is_named

#: Seeds grow by at most this share at once, since few seeds only give a guess of how many it takes.
_AT_ONCE = 0.5


@dataclass(frozen=True)
class Deciding:
    """An experiment that trains runs, and the experiments whose claims are about these runs.

    name: the experiment to which seeds are added. judged: names of the experiments with claims.
    declared: how many seeds the experiment declares.
    """

    name: str
    judged: tuple[str, ...]
    declared: int

    def further(self, results: Path, seeds: int, most: int) -> tuple[int, list[str]]:
        """The number of seeds to judge with next, and lines to print; the same number ends it.

        seeds: how many there are. most: how many there may be.
        """
        verdicts = [
            verdict
            for experiment in self.judged
            for verdict in read_verdicts(results / "experiments" / experiment / "claims.csv")
        ]
        wholes = whole_claims(verdicts)
        names = {whole.claim for whole in wholes if whole.outcome == "undecided"}
        left = [verdict for verdict in undecided(verdicts) if verdict.claim in names]
        decided = [v for v in wholes if v.outcome not in ("undecided", *SILENT)]
        lines = [f"{self.name}: {seeds} seeds, {len(decided)} of {len(wholes)} claims decided"]
        lines += [f"  {v.claim}: {v.outcome}" for v in decided]
        lines += [f"  no seeds are added for {line}" for line in format_silent(verdicts)]
        for verdict in left:
            case = f", {verdict.case}" if verdict.case else ""
            lines.append(f"  {verdict.claim}{case}: undecided, {format_open(verdict)}")
        mendable = [verdict for verdict in left if seeds_may_decide(verdict, verdicts)]
        if not mendable or seeds >= most:
            if left:
                why = "no seed would decide the rest" if not mendable else "the budget is used up"
                lines.append(f"  no more seeds: {why}")
            return seeds, lines
        enough = min(most, next_number(mendable, seeds))
        why = "at most half more at once, as few seeds give a rough estimate"
        lines.append(f"  next: {enough} seeds ({why})")
        return enough, lines


def seeds_may_decide(verdict: Verdict, verdicts: Sequence[Verdict]) -> bool:
    """Whether more seeds may decide an undecided verdict; they cannot where a run has no value.

    verdicts: these hold the cases of its claim. More seeds may also decide a claim that has
    contradicted cases which do not survive Holm's correction.
    """
    if verdict.effect is not None:
        return math.isfinite(verdict.effect.estimate)
    own = cases_of(verdicts).get(verdict.claim, []) if verdict.is_whole else []
    return any(case.outcome == "contradicted" for case in own)


def next_number(left: Sequence[Verdict], seeds: int) -> int:
    """The number of seeds to judge with next: as many as the next claim would probably need.

    It exceeds the present number by at least one seed, and by at most half.
    """
    known = [verdict.effect.needed for verdict in left if verdict.effect and verdict.effect.needed]
    most = math.ceil((1 + _AT_ONCE) * seeds)
    return max(seeds + 1, min([*known, most]))


def to_decide(plan: Plan, names: Sequence[str]) -> Iterator[Deciding]:
    """The experiments that train the runs which claims of the named experiments are about.

    names: of experiments, or globs.
    """
    judged: dict[str, list[str]] = {}
    for name, experiment in plan.experiments.items():
        if is_named(name, names) and experiment.claims and experiment.trained:
            judged.setdefault(experiment.runs_of or name, []).append(name)
    for owner, own in judged.items():
        yield Deciding(owner, tuple(own), len(plan.experiments[owner].seeds))


def with_added_seeds(results: Path, names: Sequence[str]) -> set[str]:
    """The named experiments whose verdicts in a results folder hold for added seeds."""
    return {
        file.parent.name
        for file in results.glob("experiments/*/claims.csv")
        if is_named(file.parent.name, names)
        and any(row.get("seeds_added") == "True" for row in read_rows(file))
    }


def look(
    experiments: Sequence[Deciding], added: Mapping[str, int], results: Path, most: int
) -> tuple[dict[str, int], list[str]]:
    """How many seeds each experiment gets beyond its declared ones, and lines to print."""
    after, said = {}, []
    for each in experiments:
        enough, lines = each.further(results, each.declared + added[each.name], most)
        after[each.name] = enough - each.declared
        said += lines
    return after, said
