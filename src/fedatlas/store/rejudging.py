"""Judge published verdicts again, and compare them with the recorded ones.

A verdict is recomputable if its claim, judged from what is published, has the outcome that is kept,
is as fragile, and has its effect to a tenth of the smallest effect that counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.tried_value import TriedValueTest
from fedatlas.evaluation.levels import Trace
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.verdicts import STUDIES, Verdict, judge, read_verdicts, results_of
from fedatlas.plan.places import no_project, where_published
from fedatlas.schema.claims import Claim, Effect
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.papers import OURS
from fedatlas.schema.studies import OF_PREDICTORS
from fedatlas.store.atlas import Atlas, open_atlas
from fedatlas.store.netcdf import SUMS, check_sums
from fedatlas.store.packed import PACKED
from fedatlas.store.trace import judged
from fedatlas.store.views import is_thinned

#: Of a published folder: verdicts, and folders of selections and of studies by experiment.
VERDICTS, SELECTIONS, STUDIED = "verdicts.csv", "selections", "studies"
#: By how much of the smallest effect that counts a recomputed effect may differ.
TOLERANCE = 0.1
_UNDECLARED = "the configuration declares no such experiment"

#: A claim or one of its cases: the columns `claim` and `case`.
Row = tuple[str, str]


class Points(Mapping[str, Trace]):
    """A run's traces of judged seeds, by point; each is read on first use."""

    def __init__(self, atlas: Atlas, place: str) -> None:
        self._atlas, self._place, self._names = atlas, place, atlas.names(place)
        self._read: dict[str, Trace] = {}

    @property
    def looked_at(self) -> list[str]:
        """Points that were read."""
        return [point for point in self._names if point in self._read]

    def __getitem__(self, point: str) -> Trace:
        if point not in self._names:
            run = self._place.rpartition("/")[2]
            raise FedatlasError(f"point '{point}' of run '{run}' is not published")
        if point not in self._read:
            self._read[point] = judged(self._atlas.dataset(f"{self._place}/{point}"))
        return self._read[point]

    def __contains__(self, point: object) -> bool:
        return point in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Runs(Mapping[str, Points]):
    """An experiment's runs by name."""

    def __init__(self, atlas: Atlas, *experiments: str) -> None:
        """experiments: of these the first that is in the atlas; there are no runs if none is."""
        places = {name: f"{paper}/{name}" for paper in atlas for name in atlas.names(paper)}
        self.place = next((places[name] for name in experiments if name in places), "")
        names = atlas.names(self.place) if self.place else ()
        self._runs = {run: Points(atlas, f"{self.place}/{run}") for run in names}

    def __getitem__(self, run: str) -> Points:
        if run not in self._runs:
            raise FedatlasError(f"no trace of run '{run}' is published")
        return self._runs[run]

    def __contains__(self, run: object) -> bool:
        return run in self._runs

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def looked_at(self) -> set[str]:
        """Places of the points that were asked for."""
        return {
            f"{self.place}/{run}/{point}"
            for run, points in self._runs.items()
            for point in points.looked_at
        }


@dataclass(frozen=True)
class Kept:
    """Verdicts of an experiment, and what they follow from besides traces.

    declared: the experiment; None if the configuration has none of this name. selection: the file
    of chosen points, or where it should be. studies: files by their names in `STUDIES`.
    """

    name: str
    declared: Experiment | None
    verdicts: Sequence[Verdict]
    selection: Path
    studies: Mapping[str, Path]

    def runs(self, atlas: Atlas) -> Runs:
        """The runs that claims are about: its own, or those of the experiment whose it shows."""
        owner = self.declared and self.declared.runs_of
        return Runs(atlas, *([owner] if owner else []), self.name)

    @property
    def _seeds_added(self) -> bool:
        """Whether seeds were added: as declared, or by `fedatlas run --decide`, as verdicts say."""
        effects = [one.effect for one in self.verdicts]
        declared = self.declared is not None and self.declared.seeds_added
        return declared or any(effect is not None and effect.seeds_added for effect in effects)

    def differences(self, runs: Runs) -> dict[Row, str]:
        """Why verdicts do not follow from these runs; those that do have no entry."""
        rows = {(one.claim, one.case): one for one in self.verdicts}
        if self.declared is None:
            return dict.fromkeys(rows, _UNDECLARED)
        if not self.selection.is_file():
            return dict.fromkeys(rows, "the record of chosen points is not there")
        claims = {f"{self.name}/{claim.id}": claim for claim in self.declared.claims}
        try:
            results = results_of(runs, self.selection, self._seeds_added, self.studies, {})
        except FedatlasError as error:  # such as a study in the format of another version
            return dict.fromkeys(rows, str(error))
        found: dict[Row, str] = {}
        for name in dict.fromkeys(one.claim for one in self.verdicts):
            own = {row: verdict for row, verdict in rows.items() if row[0] == name}
            if name not in claims:
                found |= dict.fromkeys(own, "the configuration declares no such claim")
            else:
                found |= self._of_claim(claims[name], own, results)
        return found

    def _of_claim(
        self, claim: Claim, own: Mapping[Row, Verdict], results: Results
    ) -> dict[Row, str]:
        assert self.declared is not None
        whole = own.get((f"{self.name}/{claim.id}", ""))
        words = (claim.statement, claim.source, claim.sentence or "")
        if whole and (whole.statement, whole.source, whole.sentence) != words:
            return dict.fromkeys(own, "the claim is declared otherwise since")
        missing = "; ".join(_missing(claim, results))
        try:
            judged_again = judge(self.name, self.declared.paper or OURS, [claim], results)
        except FedatlasError as error:
            why = missing or str(error).removeprefix(f"claim '{claim.id}': ")
            return dict.fromkeys(own, why)
        again = {(one.claim, one.case): one for one in judged_again}
        if others := [case for _, case in again.keys() - own.keys()]:
            why = f"it has further cases: {', '.join(sorted(others))}"
            return dict.fromkeys(own, missing or why)
        found = {
            row: difference(verdict, again[row]) if row in again else "it has no such case"
            for row, verdict in own.items()
        }
        return {row: f"{missing}; {why}" if missing else why for row, why in found.items() if why}


def _missing(claim: Claim, results: Results) -> Iterator[str]:
    """Points of grids, records and studies that a claim may look at and that are not there."""
    runs = [run for run in claim.test.runs if run in results.traces]
    there = {run: len(results.traces[run]) for run in runs}
    tried = {run: len(results.chosen[run].scores) for run in runs if run in results.chosen}
    # Tests of chosen points look at no others, but for those of a value that was chosen.
    by_choice = claim.test.of_choice and not isinstance(claim.test, TriedValueTest)
    lacking = [run for run in tried if there[run] < tried[run]]
    if lacking and not by_choice:
        of = f"{sum(there[run] for run in lacking)} of {sum(tried[run] for run in lacking)}"
        yield f"{of} configurations are there"
    if results.constants is None and not OF_PREDICTORS.isdisjoint(claim.test.measured):
        yield "the record of constant predictors is not there"
    if any(is_thinned(trace) for run in runs for trace in results.traces[run].values()):
        yield "records are thinned"


def difference(kept: Verdict, again: Verdict) -> str:
    """How a verdict that was judged again differs from the one that is kept; empty if it does not.

    Evidence may differ in its last digits, and the number of seeds that would decide with it.
    """
    for key in ("outcome", "fragile", "cases"):
        first, second = getattr(kept, key), getattr(again, key)
        # A claim as a whole only lists its fragile cases, which are compared one by one.
        listing = key == "fragile" and first.startswith("in ") and second.startswith("in ")
        if first != second and not listing:
            return f"{key}: {first or 'none'} → {second or 'none'}"
    own, other = kept.effect, again.effect
    if own is None or other is None:
        return "" if own is other else "only one of the two has an effect"
    for key in ("unit", "seeds", "repeats", "smallest", "published"):
        first, second = getattr(own, key), getattr(other, key)
        if first != second:
            return f"{key}: {first} → {second}"
    for key in ("estimate", "low", "high"):
        first, second = getattr(own, key), getattr(other, key)
        if not _is_near(first, second, own):
            return f"{key}: {first:.6g} → {second:.6g} ({own.unit})"
    return ""


def _is_near(first: float, second: float, effect: Effect) -> bool:
    allowed = TOLERANCE * abs(effect.smallest)
    return bool(np.isclose(first, second, rtol=1e-3, atol=allowed, equal_nan=True))


def kept_in_results(
    experiments: Path, declared: Mapping[str, Experiment], takes: Callable[[str], bool]
) -> Iterator[Kept]:
    """Verdicts of each experiment of a results folder that was judged and is taken."""
    for file in sorted(experiments.glob("*/claims.csv")):
        own = file.parent
        if takes(own.name):
            yield Kept(
                own.name,
                declared.get(own.name),
                read_verdicts(file),
                own / "selection.json",
                _studies(own),
            )


def kept_in_published(folder: Path, declared: Mapping[str, Experiment]) -> Iterator[Kept]:
    """Verdicts of each experiment of a published folder; FedatlasError for a changed file."""
    files = [folder / VERDICTS, *folder.glob(f"{SELECTIONS}/*.json")]
    check_sums(folder, [*files, *folder.glob(f"{STUDIED}/*/*")])
    by_name: dict[str, list[Verdict]] = {}
    for verdict in read_verdicts(folder / VERDICTS):
        by_name.setdefault(verdict.claim.partition("/")[0], []).append(verdict)
    for name, verdicts in by_name.items():
        selection = folder / SELECTIONS / f"{name}.json"
        yield Kept(name, declared.get(name), verdicts, selection, _studies(folder / STUDIED / name))


def _studies(folder: Path) -> dict[str, Path]:
    """Those that are there; published ones may be packed."""
    return {
        name: file
        for name, study in STUDIES.items()
        for file in (folder / study.file, folder / f"{study.file}{PACKED}")
        if file.is_file()
    }


class Rejudged(NamedTuple):
    """A verdict of a published folder, and why it does not follow from that; empty if it does."""

    folder: Path
    verdict: Verdict
    why: str


def published_folders(path: Path) -> list[Path]:
    """The folder if it is a published one, or those in it that are."""
    path = where_published(path)
    return [sums.parent for sums in (*path.glob(SUMS), *sorted(path.glob(f"*/{SUMS}")))]


def judged_in(path: Path) -> list[str]:
    """Names of experiments whose verdicts are published in a folder, or in those in it."""
    files = (folder / VERDICTS for folder in published_folders(path))
    found = (one.claim.partition("/")[0] for file in files for one in read_verdicts(file))
    return list(dict.fromkeys(found))


def rejudge(path: Path, declared: Mapping[str, Experiment]) -> Iterator[Rejudged]:
    """Judge all verdicts of a published folder, or of all in it, again by what is published."""
    atlas = open_atlas(path)
    for folder in published_folders(path):
        for kept in kept_in_published(folder, declared):
            why = kept.differences(kept.runs(atlas))
            for verdict in kept.verdicts:
                row = verdict.claim, verdict.case
                yield Rejudged(folder, verdict, why.get(row, ""))


def as_plain(found: Sequence[Rejudged]) -> list[dict[str, str]]:
    """A row for each verdict; `why` is empty where it follows."""
    return [
        {
            "folder": one.folder.name,
            "claim": one.verdict.claim,
            "case": one.verdict.case,
            "outcome": one.verdict.outcome,
            "why": one.why,
        }
        for one in found
    ]


def format_rejudged(found: Sequence[Rejudged]) -> Iterator[str]:
    """How many verdicts of each folder follow from it, and why others do not."""
    for folder in dict.fromkeys(one.folder for one in found):
        own = [one for one in found if one.folder == folder]
        follow = sum(not one.why for one in own)
        yield f"{folder}: {follow} of {len(own)} verdicts follow from what is published"
        reasons: dict[tuple[str, str], list[Rejudged]] = {}
        for one in own:
            if one.why:
                reasons.setdefault((one.verdict.claim, _general(one.why)), []).append(one)
        for (claim, why), alike in reasons.items():
            several = f" ({len(alike)} rows)" if len(alike) > 1 else ""
            yield f"  {claim}{several}: {alike[0].why if not several else why}"
    if any(one.why == _UNDECLARED for one in found) and (told := no_project()):
        yield f"Claims of a project need the project{told}"


def _general(why: str) -> str:
    """The reason without the numbers of one row."""
    return why.partition("; ")[0]
