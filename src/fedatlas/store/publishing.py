"""A folder of results to publish: traces, verdicts, selections, checksums and RO-Crate metadata.

`open_atlas` opens the folder, and `compare` puts it beside other runs. A repository takes it with
records thinned, a release or an archive whole.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import xarray as xr

from fedatlas import __version__
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.verdicts import read_verdicts, verdict_summary, verdicts_to_csv
from fedatlas.files import canonical_json, write_text
from fedatlas.markdown import counted, paragraph, text
from fedatlas.schema.config import Names, is_named, listed
from fedatlas.schema.models import read_json
from fedatlas.schema.quantities import COSTS, MEASUREMENTS
from fedatlas.store.atlas import Atlas
from fedatlas.store.checksums import NAME as SUMS
from fedatlas.store.checksums import not_vouched_for, write_sums
from fedatlas.store.crate import describe_folder, is_published
from fedatlas.store.experiment import (
    SUFFIX,
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.views import THINNED, six_digits, thinned

#: Of a file of thinned traces, so that a repository can hold it.
MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Publication:
    """What is published, and how.

    licences: of data sets, by name. records: kept of each trace at most, None for all. all_points:
    of grids, not the selected ones only. experiments: names or patterns, all by default. citation:
    what a CITATION.cff states, whose title, licence and authors are taken. commit: of the
    repository that publishes; see `revision`. published: the day. stale: whether stale runs are
    published as well, marked.
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


def publish(atlas: Atlas, experiments: Path, output: Path, publication: Publication) -> list[Path]:
    """Write the folder `output`, whole or not at all, and return its files.

    experiments: folder of experiments' results, with verdicts (claims.csv) and selections
    (selection.json) where they were judged. A folder that was published before is replaced;
    FedatlasError if anything else lies there, if a file of it was changed, and for stale runs.
    """
    output = output.resolve()  # a link stays, and so does a working directory's name
    require_replaceable(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".publish-") as temporary:
        folder = Path(temporary) / "new"
        folder.mkdir()
        traces = sum(_write_traces(atlas, folder, publication))
        judged = _write_verdicts(experiments, folder, publication)
        about = _about(traces, judged, publication)
        write_text(folder / "README.md", about)
        write_text(folder / ".gitattributes", "* -text\n")
        describe_folder(folder, publication.citation, publication.published, publication.commit)
        write_sums(folder)
        require_replaceable(output)  # still: writing takes minutes
        _swap(folder, output)
    return sorted(file for file in output.rglob("*") if file.is_file())


def require_replaceable(output: Path) -> None:
    """FedatlasError unless the folder is missing, empty, or just as it was published."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not is_published(output):
        raise FedatlasError(
            f"{output}: exists, and is no folder that fedatlas published; name a new one"
        )
    if others := not_vouched_for(output):
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise FedatlasError(
            f"{output}: was published, but {', '.join(others[:3])}{more} is not as its {SUMS} "
            "says; keep files of your own elsewhere, or name a new folder"
        )


def _swap(folder: Path, output: Path) -> None:
    """Put the folder in the place of the one that is there, which stays if that fails."""
    former = folder.parent / "former"
    if output.exists():
        output.rename(former)
    try:
        folder.rename(output)
    except BaseException:
        if former.exists():
            former.rename(output)
        raise


def _write_traces(atlas: Atlas, folder: Path, publication: Publication) -> Iterator[int]:
    """A file for each experiment, or several; yields their numbers of traces."""
    there = [place for place in atlas.places() if publication.takes(place.split("/")[1])]
    if not there:
        held = ", ".join(dict.fromkeys(place.split("/")[1] for place in atlas.places()))
        raise FedatlasError(f"{atlas.path}: has no experiment that is asked for; it has {held}")
    names = dict.fromkeys(place.split("/")[1] for place in there)
    by_name = {name: atlas.places([name], all_points=publication.all_points) for name in names}
    if not publication.stale:
        _require_fresh(atlas, [place for places in by_name.values() for place in places])
    for name, places in by_name.items():
        if places:
            yield from _write_parts(atlas, places, folder / f"{name}{SUFFIX}", publication)


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
    atlas: Atlas, places: Sequence[str], file: Path, publication: Publication
) -> Iterator[int]:
    """One file, or halves of it as long as it is larger than a repository takes."""
    write_experiment(_published(atlas, places, publication), file)
    size = file.stat().st_size
    if publication.records is None or size <= MOST_BYTES:
        yield len(places)
        return
    if len(places) == 1:
        raise FedatlasError(
            f"{places[0]}: takes {size} bytes with {publication.records} records, more than "
            f"{MOST_BYTES}; keep fewer (--records)"
        )
    file.unlink()
    half = len(places) // 2
    for number, part in enumerate((places[:half], places[half:]), start=1):
        yield from _write_parts(
            atlas, part, file.with_name(f"{file.stem}-part{number}{SUFFIX}"), publication
        )


def _published(atlas: Atlas, places: Sequence[str], publication: Publication) -> xr.Dataset:
    """The traces at these places, of one experiment; thinned and rounded unless whole."""
    paper, experiment, *_ = places[0].split("/")
    declared = atlas.attributes(f"{paper}/{experiment}")
    records, dataset = publication.records, str(declared["dataset"])
    heading = ExperimentHeading(
        paper=paper,
        experiment=experiment,
        thinned="" if records is None else THINNED.format(records=records),
        **declared | {"licence": publication.licences.get(dataset, "not in the catalogue")},
    )
    points = []
    for place in places:
        run, _, point = place.rpartition("/")
        own, trace = atlas.attributes(run), atlas.dataset(place).compute()
        points.append(
            StoredPoint(
                trace if records is None else thinned(trace, records),
                own["title"],
                own["selected"] == point,
                atlas.why_stale(place),
            )
        )
    joined = join_traces(heading, points)
    if records is not None:
        for name in {*COSTS, *MEASUREMENTS} & {*map(str, joined.variables)}:
            joined[name] = joined[name].copy(data=six_digits(joined[name].to_numpy()))
    return joined


def _write_verdicts(experiments: Path, folder: Path, publication: Publication) -> str:
    """All verdicts in one file, a file for each selection; returns how claims came out."""
    verdicts = []
    for own in sorted(experiments.iterdir()) if experiments.is_dir() else ():
        if not publication.takes(own.name):
            continue
        if (own / "claims.csv").is_file():
            verdicts += read_verdicts(own / "claims.csv")
        if (own / "selection.json").is_file():
            record = canonical_json(read_json(own / "selection.json"))
            write_text(folder / "selections" / f"{own.name}.json", record + "\n")
    write_text(folder / "verdicts.csv", verdicts_to_csv(verdicts))
    return verdict_summary(verdicts)


def _about(traces: int, judged: str, publication: Publication) -> str:
    records = publication.records
    kept = (
        "All records in full precision."
        if records is None
        else f"Records are thinned: {THINNED.format(records=records)}."
    )
    holds = paragraph(
        f"{counted(traces, 'trace')}, in a netCDF file for each experiment: costs and measurements "
        f"over point, seed and record. {kept} `verdicts.csv` says how each claim came out "
        f"({judged}); `selections/` which point of a grid was chosen, with the score of every one "
        f"that was tried; `{SUMS}` the checksum of every file; `ro-crate-metadata.json` what each "
        "file and column is."
    )
    return f"""# Published traces and verdicts

{holds}

{paragraph(_origin(publication))}

```sh
sha256sum --check {SUMS}
fedatlas compare mine/results --against . --metric suboptimality --cost bytes --target 1e-3
```

```py
import fedatlas

atlas = fedatlas.open_atlas(".")
atlas.runs()
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
