"""Runs for others: a published folder, and one Parquet table.

The folder holds traces, verdicts, selections, checksums and RO-Crate metadata. `open_atlas` opens
it, and `compare` puts it beside other runs. A repository takes it with records thinned, a release
or an archive whole. The table has a row for each run, seed and record; costs and measurements are
columns, empty where a run does not count or measure them and NaN after a divergence.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from fedatlas import __version__
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.tables import read_budgets
from fedatlas.evaluation.verdicts import verdict_summary, verdicts_to_csv
from fedatlas.files import canonical_json, write_atomically, write_text
from fedatlas.markdown import counted, paragraph, text
from fedatlas.schema.config import Names, is_named, listed
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import read_json
from fedatlas.store.atlas import Atlas
from fedatlas.store.crate import describe_folder, is_published
from fedatlas.store.experiment import (
    SUFFIX,
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.netcdf import SUMS, not_vouched_for, write_netcdf, write_sums
from fedatlas.store.rejudging import (
    SELECTIONS,
    STUDIED,
    VERDICTS,
    Kept,
    Row,
    kept_in_results,
)
from fedatlas.store.trace import NUMBERS
from fedatlas.store.views import THINNED, six_digits, thinned

#: Of a file of thinned traces, so that a repository can hold it.
MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Publication:
    """What is published, and how.

    licences: of data sets, by name. records: kept of each trace, None for all; where a verdict
    needs more, its experiment has more. all_points: of grids, not only the selected ones and those
    that claims or figures look at. experiments: names or patterns, all by default. citation:
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
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".publish-") as temporary:
        folder = Path(temporary) / "new"
        folder.mkdir()
        kept = list(kept_in_results(experiments, known, publication.takes))
        traces = sum(_write_traces(atlas, folder, publication, kept))
        judged = _write_verdicts(experiments, folder, publication, kept)
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


def _write_traces(
    atlas: Atlas, folder: Path, publication: Publication, kept: Sequence[Kept]
) -> Iterator[int]:
    """A file for each experiment, or several; yields their numbers of traces."""
    there = [place for place in atlas.places() if publication.takes(place.split("/")[1])]
    if not there:
        held = ", ".join(dict.fromkeys(place.split("/")[1] for place in atlas.places()))
        raise FedatlasError(f"{atlas.path}: has no experiment that is asked for; it has {held}")
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
        file = folder / f"{experiment.partition('/')[2]}{SUFFIX}"
        _write_as_judged(atlas, places, file, publication, looking.get(experiment, ()))
        yield len(places)


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
    """One file or parts of it, with as many records as verdicts need to follow from it."""
    most = max(atlas.dataset(place).sizes["record"] for place in places)
    for records in _numbers_of_records(publication.records, most):
        files = list(_write_parts(atlas, places, file, replace(publication, records=records)))
        written = Atlas(file.parent, files)
        if records is None or not any(one.differences(one.runs(written)) for one in kept):
            return
        for part in files:
            part.unlink()


def _numbers_of_records(records: int | None, most: int) -> Iterator[int | None]:
    """Ever more records, at last all of them in full precision."""
    while records is not None:
        yield records
        records = min(2 * records, most) if records < most else None
    yield None


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
) -> Iterator[Path]:
    """One file, or halves of it as long as it is larger than a repository takes."""
    write_experiment(_published(atlas, places, publication), file)
    size = file.stat().st_size
    if publication.records is None or size <= MOST_BYTES:
        yield file
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
        for name in NUMBERS.keys() & joined.variables.keys():
            joined[name] = joined[name].copy(data=six_digits(joined[name].to_numpy()))
    return joined


def _write_verdicts(
    experiments: Path, folder: Path, publication: Publication, kept: Sequence[Kept]
) -> str:
    """All verdicts in one file, selections and studies in folders; returns how claims came out."""
    for file in sorted(experiments.glob("*/selection.json")):
        if publication.takes(file.parent.name):
            record = canonical_json(read_json(file))
            write_text(folder / SELECTIONS / f"{file.parent.name}.json", record + "\n")
    for one in kept:
        for file in one.studies.values():
            _write_study(file, folder / STUDIED / one.name / file.name)
    verdicts = [verdict for one in kept for verdict in one.verdicts]
    write_text(folder / VERDICTS, verdicts_to_csv(verdicts))
    return verdict_summary(verdicts)


def _write_study(file: Path, output: Path) -> None:
    """A study's file as it is; budgets are packed."""
    if file.suffix != SUFFIX:
        write_text(output, file.read_text(encoding="utf-8"))
        return
    budgets = read_budgets(file)
    packed = {"zlib": True, "complevel": 9, "shuffle": True}
    numbers = [str(name) for name, each in budgets.variables.items() if each.dtype.kind == "f"]
    output.parent.mkdir(parents=True, exist_ok=True)
    write_netcdf(budgets, output, dict.fromkeys(numbers, packed))


def _about(traces: int, judged: str, publication: Publication) -> str:
    records = publication.records
    kept = (
        "All records in full precision."
        if records is None
        else f"Records are thinned: {THINNED.format(records=records)}. Where a verdict needs more "
        "to follow from them, the experiment has more, which its file says."
    )
    holds = paragraph(
        f"{counted(traces, 'trace')}, in a netCDF file for each experiment: costs and measurements "
        f"over point, seed and record. {kept} `verdicts.csv` says how each claim came out "
        f"({judged}); `selections/` which point of a grid was chosen, with the score of every one "
        f"that was tried; `{STUDIED}/` what claims are about besides runs, if anything; `{SUMS}` "
        "the checksum of every file; `ro-crate-metadata.json` what each "
        "file and column is."
    )
    return f"""# Published traces and verdicts

{holds}

{paragraph(_origin(publication))}

```sh
sha256sum --check {SUMS}
fedatlas verify .
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


# Texts repeat from row to row.
_TYPES = {
    "text": pa.dictionary(pa.int32(), pa.string()),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}


class Described(NamedTuple):
    """A column that tells which run a row is of."""

    long_name: str
    dtype: str = "text"


#: Columns besides costs and measurements.
KEYS = {
    "paper": Described("paper, or ours"),
    "experiment": Described("name of the experiment"),
    "run": Described("run of the experiment"),
    "point": Described("point of the run's grid"),
    "seed": Described("random seed", "int64"),
    "record": Described("position in the record schedule", "int64"),
    "title": Described("what figures call the run"),
    "method": Described("name of the method"),
    "selected": Described("whether the experiment chose this point", "bool"),
    "tuning": Described("whether the seed chose a point, so that no verdict looks at it", "bool"),
    "status": Described("outcome of the seed: ok or diverged"),
    "dataset": Described("data set, as the catalogue names it"),
    "hyper_parameters": Described("hyper-parameters, as JSON"),
    "source_digest": Described("digest of the code that made the trace"),
    "shard_digest": Described("digest of all shard files that the seed read"),
    "values_digest": Described("digest of the trace's values as they were measured"),
    "optimum": Described("f* of the seed, where sub-optimality is measured", "float64"),
}


def export_table(
    atlas: Atlas, places: Sequence[str], output: Path, licences: Mapping[str, str]
) -> int:
    """Write the traces at these places; return how many rows there are.

    places: paper/experiment/run/point. licences: of the data sets, by name. FedatlasError if there
    is no trace.
    """
    if not places:
        raise FedatlasError(f"{output}: not written, as {atlas.path} holds no trace to write")
    traces = {place: atlas.dataset(place) for place in places}
    numbers = [name for name in NUMBERS if any(name in trace for trace in traces.values())]
    datasets = {str(atlas.attributes(place.rsplit("/", 2)[0])["dataset"]) for place in places}
    own = {name: licences.get(name, "not in the catalogue") for name in sorted(datasets)}
    about = {"fedatlas": json.dumps({"version": __version__, "licences": own})}
    schema = pa.schema(
        [_field(name, one.dtype, one.long_name) for name, one in KEYS.items()]
        + [_field(name, "float64", *NUMBERS[name][:2]) for name in numbers],
        about,
    )
    rows = 0
    with (
        write_atomically(output) as temporary,
        # By the extremes of numbers, which NaN is none of, DuckDB 2.0 skips rows with NaN.
        pq.ParquetWriter(
            temporary, schema, compression="zstd", write_statistics=list(KEYS)
        ) as file,
    ):
        for place, trace in traces.items():
            table = _table(atlas, place, trace.compute(), schema)
            file.write_table(table)
            rows += len(table)
    return rows


def _field(name: str, dtype: str, long_name: str, units: str = "1") -> pa.Field:
    return pa.field(name, _TYPES[dtype], metadata={"long_name": long_name, "units": units})


def _table(atlas: Atlas, place: str, trace: xr.Dataset, schema: pa.Schema) -> pa.Table:
    seeds, records = trace.sizes["seed"], trace.sizes["record"]
    columns: dict[str, Any] = {one.name: [None] * (seeds * records) for one in schema}
    constant = _of_run(atlas, place, trace)
    columns |= {name: [value] * (seeds * records) for name, value in constant.items()}
    columns |= {
        name: [value for value in values for _ in range(records)]
        for name, values in _by_seed(trace).items()
    }
    columns["record"] = np.tile(trace["record"].to_numpy(), seeds)
    for name in columns.keys() & NUMBERS.keys() & trace.variables.keys():
        columns[name] = trace[name].transpose("seed", "record").to_numpy().ravel()
    return pa.table(columns, schema=schema)


def _of_run(atlas: Atlas, place: str, trace: xr.Dataset) -> dict[str, Any]:
    paper, experiment, run, point = place.split("/")
    outer = place.rpartition("/")[0]
    specification = json.loads(trace.attrs.get("specification", "{}"))
    usual = atlas.attributes(f"{paper}/{experiment}")["dataset"]
    return {
        "paper": paper,
        "experiment": experiment,
        "run": run,
        "point": point,
        "title": atlas.title(outer, point),
        "method": trace.attrs.get("algorithm", ""),
        "selected": atlas.attributes(outer)["selected"] == point,
        "dataset": specification.get("dataset", usual),
        "hyper_parameters": canonical_json(specification.get("hyper_parameters", {})),
        "source_digest": trace.attrs.get("source_digest"),
        "values_digest": trace.attrs.get("values_digest"),
    }


def _by_seed(trace: xr.Dataset) -> dict[str, list[Any]]:
    specification, shards, optima = (
        json.loads(trace.attrs.get(name, "{}"))
        for name in ("specification", "shard_digests", "optima")
    )
    seeds = trace["seed"].to_numpy().tolist()
    tuned = set(specification.get("tuning_seeds", ()))
    return {
        "seed": seeds,
        "tuning": [seed in tuned for seed in seeds],
        "status": trace["status"].to_numpy().tolist(),
        "shard_digest": [shards.get(str(seed)) for seed in seeds],
        "optimum": [optima.get(str(seed)) for seed in seeds],
    }
