"""Publish runs: write a folder for others.

The folder holds traces, verdicts, selections, checksums and RO-Crate metadata. `open_atlas` opens
it, and `compare` puts it beside other runs. A repository takes it with fewer records and digits, a
release or an archive whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr

from fedatlas import __version__
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import Trace
from fedatlas.evaluation.sentences import joined
from fedatlas.evaluation.tables import read_budgets
from fedatlas.evaluation.verdicts import verdict_summary, verdicts_to_csv
from fedatlas.extensions import VARIABLE, projects
from fedatlas.files import canonical_json, folder_beside, put_in_place, write_text
from fedatlas.markdown import counted, item, paragraph, text
from fedatlas.schema.config import Names, is_named, listed
from fedatlas.schema.endings import MEASURED_TIMES
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import read_json
from fedatlas.schema.quantities import AXES
from fedatlas.store.atlas import Atlas
from fedatlas.store.crate import describe_folder, is_published
from fedatlas.store.experiment import (
    PUBLISHED,
    ExperimentHeading,
    StoredPoint,
    foreign_in,
    join_traces,
    write_experiment,
)
from fedatlas.store.netcdf import SUMS, not_vouched_for, write_sums
from fedatlas.store.packed import PACKED, write_file
from fedatlas.store.rejudging import (
    SELECTIONS,
    STUDIED,
    VERDICTS,
    Kept,
    Row,
    kept_in_results,
)
from fedatlas.store.trace import NUMBERS, judged
from fedatlas.store.views import THINNED, round_digits, thinned

#: Of a file of thinned traces: larger ones are divided, so that a repository can hold them.
MOST_BYTES = 1_000_000
#: Significant digits of measurements in thinned traces: more only where verdicts need them.
DIGITS = (3, 4, 6)
# Costs have more: they pack well. Of times that were measured the second digit is chance.
_DIGITS_OF_COSTS = dict.fromkeys(AXES, 4) | dict.fromkeys(MEASURED_TIMES, 2)


class Detail(NamedTuple):
    """How much of runs is published: records of each trace, digits of each measurement."""

    records: int
    digits: int


@dataclass(frozen=True)
class Publication:
    """What to publish, and in how much detail.

    licences: of data sets, by name. records: kept of each trace, None for all in full precision;
    where a verdict needs more, its experiment has more. all_points: of grids, not only the selected
    ones and those that claims or figures look at. experiments: names or patterns, all by default.
    citation: what a CITATION.cff states, whose title, licence and authors are taken. commit: of
    the repository that publishes; see `revision`. published: the day. stale: whether stale runs
    are published as well, marked.
    """

    licences: Mapping[str, str]
    records: int | None = 40
    all_points: bool = False
    experiments: Names = None
    citation: Mapping[str, Any] = field(default_factory=dict)
    commit: str = ""
    published: date = field(default_factory=date.today)
    stale: bool = False

    def takes(self, experiment: str) -> bool:
        """Whether the experiment is published."""
        patterns = listed(self.experiments)
        return patterns is None or is_named(experiment, patterns)


def publish(
    atlas: Atlas,
    experiments: Path,
    output: Path,
    publication: Publication,
    declared: Mapping[str, Experiment] | None = None,
) -> list[Path]:
    """Write the folder `output`, whole or not at all, and return its files.

    experiments: folder of experiments' results, with verdicts (claims.csv) and selections
    (selection.json) where they were judged. declared: experiments by name; verdicts of those are
    judged again by what is published, of which there is as much as that takes. A folder that was
    published before is replaced; FedatlasError if anything else lies there, if a file of it was
    changed, for stale runs, and for verdicts that do not follow from the results.
    """
    known = declared or {}
    output = output.resolve()  # a link stays, and so does a working directory's name
    require_replaceable(output)
    with folder_beside(output) as temporary:
        folder = temporary / "new"
        folder.mkdir()
        kept = list(kept_in_results(experiments, known, publication.takes))
        traces = sum(_write_traces(atlas, folder, publication, kept))
        outcomes = _write_verdicts(experiments, folder, publication, kept)
        example = min(folder.glob(f"*{PUBLISHED}")).name
        about = _about(traces, outcomes, publication, example, _needed(kept))
        if foreign := foreign_in(folder):
            told = "\n".join(item(text(one)) for one in foreign)
            about += f"\n## Runs made elsewhere\n\n{told}\n"
        write_text(folder / "README.md", about)
        write_text(folder / ".gitattributes", "* -text\n")
        who = publication.citation, publication.published, publication.commit
        describe_folder(folder, *who, foreign)
        write_sums(folder)
        require_replaceable(output)  # still: writing takes minutes
        put_in_place(folder, output)
    return sorted(file for file in output.rglob("*") if file.is_file())


def require_replaceable(output: Path) -> None:
    """FedatlasError unless the folder is missing, empty, or just as it was published."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not is_published(output):
        raise FedatlasError(
            f"{output}: exists and was not published by fedatlas; name a new folder"
        )
    if others := not_vouched_for(output):
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise FedatlasError(
            f"{output}: was published, but {', '.join(others[:3])}{more} is not as its {SUMS} "
            "says; keep files of your own elsewhere, or name a new folder"
        )


def _write_traces(
    atlas: Atlas, folder: Path, publication: Publication, kept: Sequence[Kept]
) -> Iterator[int]:
    """A file for each experiment, or several; yields their numbers of traces."""
    there = [place for place in atlas.places() if publication.takes(place.split("/")[1])]
    if not there:
        held = ", ".join(dict.fromkeys(place.split("/")[1] for place in atlas.places()))
        raise FedatlasError(f"{atlas.path}: has none of the named experiments; it has {held}")
    chosen = {*atlas.places(all_points=publication.all_points)}
    looking: dict[str, list[Kept]] = {}  # by place of the experiment whose runs they look at
    for one in kept:
        if one.declared is not None:
            runs = one.runs(atlas)
            checked = _checked(one, one.differences(runs), publication)
            looking.setdefault(runs.place, []).append(checked)
            chosen |= runs.looked_at
            if one.declared.figure.shows_every_point:
                chosen |= {place for place in there if place.startswith(f"{runs.place}/")}
    by_experiment: dict[str, list[str]] = {}
    for place in there:
        if place in chosen:
            by_experiment.setdefault("/".join(place.split("/")[:2]), []).append(place)
    if not publication.stale:
        _require_fresh(atlas, [place for places in by_experiment.values() for place in places])
    for experiment, places in by_experiment.items():
        file = folder / f"{experiment.partition('/')[2]}{PUBLISHED}"
        _write_as_judged(atlas, places, file, publication, looking.pop(experiment, ()))
        yield len(places)
    for one in (one for others in looking.values() for one in others):  # about studies alone
        _write_as_judged(atlas, [], folder / f"{one.name}{PUBLISHED}", publication, [one])


def _checked(kept: Kept, why: Mapping[Row, str], publication: Publication) -> Kept:
    """The verdicts that follow from the results; FedatlasError if others are not asked for."""
    if why and not publication.stale:
        (claim, case), reason = next(iter(why.items()))
        raise FedatlasError(
            f"{kept.name}: {len(why)} of {len(kept.verdicts)} verdicts do not follow from its "
            f"results, the first of them {claim}{f', {case}' if case else ''}: {reason}\nJudge it "
            "again (fedatlas run), name other experiments (--experiments), or publish these, too "
            "(--stale)"
        )
    follow = [one for one in kept.verdicts if (one.claim, one.case) not in why]
    return replace(kept, verdicts=follow)


def _write_as_judged(
    atlas: Atlas,
    places: Sequence[str],
    file: Path,
    publication: Publication,
    kept: Sequence[Kept],
) -> None:
    """One file or parts of it, and studies, in as much detail as verdicts need to follow from it.

    places: of points, of which there may be none. kept: verdicts that look at these.
    """
    files: list[Path] = []
    traces = {place: atlas.dataset(place).compute() for place in places}

    def written(detail: Detail | None) -> bool:
        """Whether verdicts follow from what is in the files now."""
        for part in files:
            part.unlink()
        files[:] = _write_parts(atlas, traces, file, publication, detail) if traces else []
        published = [_with_studies(one, file.parent, detail) for one in kept]
        runs = Atlas(file.parent, files)
        return not any(one.differences(one.runs(runs)) for one in published)

    most = max((trace.sizes["record"] for trace in traces.values()), default=0)
    records, digits = publication.records, DIGITS[0]
    if records is None:
        written(None)
        return
    if kept and not any(written(Detail(most, digits := more)) for more in DIGITS):
        written(None)
        return
    while not written(Detail(min(records, most), digits)):
        records *= 2


def _require_fresh(atlas: Atlas, places: Sequence[str]) -> None:
    """FedatlasError names what is stale."""
    if stale := stale_points(atlas, places):
        more = f"\nand {len(stale) - 5} more" if len(stale) > 5 else ""
        raise FedatlasError(
            f"{atlas.path}: {len(stale)} of {len(places)} traces are stale:\n"
            + "\n".join(stale[:5])
            + f"{more}\nRun them again, name other experiments (--experiments), or publish these, "
            "too, marked (--stale)"
        )


def stale_points(atlas: Atlas, places: Sequence[str]) -> list[str]:
    """Which of these points are stale, each as experiment/run/point with what has changed."""
    return [
        f"{place.partition('/')[2]}: {why}" for place in places if (why := atlas.why_stale(place))
    ]


def _write_parts(
    atlas: Atlas,
    traces: Mapping[str, Trace],
    file: Path,
    publication: Publication,
    detail: Detail | None,
) -> Iterator[Path]:
    """One file, or halves of it as long as they are large and hold more than one point."""
    write_experiment(_published(atlas, traces, publication, detail), file)
    if detail is None or len(traces) == 1 or file.stat().st_size <= MOST_BYTES:
        yield file
        return
    file.unlink()
    places, half = [*traces], len(traces) // 2
    for number, part in enumerate((places[:half], places[half:]), start=1):
        name = f"{file.name.removesuffix(PUBLISHED)}-part{number}{PUBLISHED}"
        own = {place: traces[place] for place in part}
        yield from _write_parts(atlas, own, file.with_name(name), publication, detail)


def _published(
    atlas: Atlas, traces: Mapping[str, Trace], publication: Publication, detail: Detail | None
) -> xr.Dataset:
    """The traces, by place, of one experiment; thinned and rounded unless whole."""
    paper, experiment, *_ = next(iter(traces)).split("/")
    declared = atlas.attributes(f"{paper}/{experiment}")
    dataset = str(declared["dataset"])
    heading = ExperimentHeading(
        paper=paper,
        experiment=experiment,
        thinned="" if detail is None else THINNED.format(**detail._asdict()),
        **declared | {"licence": publication.licences.get(dataset, "not in the catalogue")},
    )
    points = []
    for place, trace in traces.items():
        run, _, point = place.rpartition("/")
        own = atlas.attributes(run)
        points.append(
            StoredPoint(
                trace if detail is None else thinned(judged(trace), detail.records),
                own["title"],
                own["selected"] == point,
                atlas.why_stale(place),
            )
        )
    runs = join_traces(heading, points)
    return runs if detail is None else _rounded(runs, NUMBERS.keys(), detail.digits)


def _rounded(dataset: xr.Dataset, names: Iterable[str], digits: int) -> xr.Dataset:
    """The data set, of these names with so many significant digits, but costs with their own."""
    rounded = dataset.drop_encoding()
    for name in set(names).intersection(map(str, dataset.variables)):
        own = _DIGITS_OF_COSTS.get(name, digits)
        rounded[name] = dataset[name].copy(data=round_digits(dataset[name].to_numpy(), own))
    return rounded


def _write_verdicts(
    experiments: Path, folder: Path, publication: Publication, kept: Sequence[Kept]
) -> str:
    """All verdicts in one file, selections and studies in folders; returns how claims came out."""
    for file in sorted(experiments.glob("*/selection.json")):
        if publication.takes(file.parent.name):
            record = canonical_json(read_json(file))
            write_text(folder / SELECTIONS / f"{file.parent.name}.json", record + "\n")
    for one in kept:
        if not (folder / STUDIED / one.name).exists():  # as no run that is published decides on it
            _with_studies(one, folder, None)
    verdicts = [verdict for one in kept for verdict in one.verdicts]
    write_text(folder / VERDICTS, verdicts_to_csv(verdicts))
    return verdict_summary(joined(verdicts))


def _with_studies(kept: Kept, folder: Path, detail: Detail | None) -> Kept:
    """Write what verdicts are about besides runs into a published folder; they follow from that."""
    written = {}
    for name, file in kept.studies.items():
        own = folder / STUDIED / kept.name / file.name
        if file.suffix == ".nc":
            own = own.with_name(own.name + PACKED)
            own.parent.mkdir(parents=True, exist_ok=True)
            write_file(_study(file, detail), own)
        else:
            write_text(own, file.read_text(encoding="utf-8"))
        written[name] = own
    return replace(kept, studies=written)


def _study(file: Path, detail: Detail | None) -> xr.Dataset:
    """Budgets, rounded unless whole."""
    budgets = read_budgets(file)
    if detail is None:
        return budgets
    names = [str(name) for name, each in budgets.variables.items() if each.dtype.kind == "f"]
    return _rounded(budgets, names, detail.digits)


def _needed(kept: Iterable[Kept]) -> str:
    """What README.md says of claims that a project declares; empty where none does."""
    declared = [Path(one.declared.where).resolve() for one in kept if one.declared]
    folders = [folder.resolve() for folder in projects()]
    if not any(file.is_relative_to(folder) for file in declared for folder in folders):
        return ""
    told = paragraph(
        "`fedatlas verify` needs the project that declares these claims: call it in the project's "
        f"folder, or put `{VARIABLE}=/path/to/project` before it."
    )
    return f"\n{told}\n"


def _about(traces: int, outcomes: str, publication: Publication, example: str, needed: str) -> str:
    """README.md; example: the name of a file of traces. needed: see `_needed`."""
    records = publication.records
    kept = (
        "All records in full precision."
        if records is None
        else f"Records are thinned: {THINNED.format(records=records, digits=DIGITS[0])}. Where a "
        "verdict needs more to follow from them, the experiment has more, which its file says."
    )
    holds = paragraph(
        f"{counted(traces, 'trace')}, in a netCDF-4 file for each experiment, packed by xz: costs "
        f"and measurements over point, seed and record. {kept} `verdicts.csv` says how each claim "
        f"came out ({outcomes}); `{SELECTIONS}/` which point of a grid was chosen, with the score "
        f"of every one that was tried; `{STUDIED}/` what claims are about besides runs, if "
        f"anything; `{SUMS}` the checksum of every file; `ro-crate-metadata.json` what each file "
        "and column is."
    )
    return f"""# Published traces and verdicts

{holds}

{paragraph(_origin(publication))}

```sh
sha256sum --check {SUMS}
fedatlas verify .
fedatlas compare mine/results --against . --metric suboptimality --cost bytes --target 1e-3
```
{needed}
```py
import fedatlas

atlas = fedatlas.open_atlas(".")
atlas.runs()
```

Without fedatlas:

```py
import lzma

import xarray as xr

runs = xr.open_dataset(lzma.open("{example}").read())
```
"""


def _origin(publication: Publication) -> str:
    """Which code published, and under which licence."""
    declared = publication.citation
    told = [f"Published by fedatlas {__version__}"]
    if publication.commit:
        repository = declared.get("repository-code", "a repository")
        told.append(f" from {text(str(repository))} at commit {publication.commit}")
    told.append(f"; licence: {text(str(declared['license']))}" if "license" in declared else "")
    return f"{''.join(told)}."
