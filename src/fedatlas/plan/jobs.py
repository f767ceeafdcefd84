"""Jobs that prepare, shard and train: their inputs, code and resources.

Measured (peak of the process, 0.3 to 2 million rows): sharding takes 3 to 6 times its samples,
training 3 to 10 times, both 6 KB a client besides; reading CSV takes 15 times the text, other
formats less. Where a file is not there yet, it counts nothing: Snakemake asks again before the job.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.data.catalogue import Catalogue
from fedatlas.data.raw_files import RawFile, content_of
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.plan.build import Plan
from fedatlas.plan.places import RESULTS
from fedatlas.schema.federation import federation_of
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import Points, RunSpec

_SERVED = {"path", "checksum", "decompress", "unpack", "member"}
_PROSE = {"title", "homepage", "licence", "citation", "note", "splits"}


def identity(raw: RawFile, mirror: Path | None, results: str) -> str:
    """The identity of a raw file: its checksum, but not its URLs or the mirror.

    Of a user's own file it is what the mirror holds, so that it is copied anew once that changed.
    """
    served = raw.model_dump(mode="json", include=_SERVED)
    if raw.is_own:
        served["content"] = content_of(raw, mirror, Path(results, "raw", raw.local_path))
    return canonical_json(served)


def raw_files(catalogue: Catalogue, dataset: str, split: str) -> list[str]:
    """Raw files of a split; none if the data come with a library."""
    files = catalogue[dataset].split(split).files
    return [f"{RESULTS}/raw/{file.local_path}" for file in files]


def reading(catalogue: Catalogue, dataset: str, split: str) -> str:
    """Keys that decide how raw files are read; titles and licences do not."""
    entry = catalogue[dataset]
    rows = entry.split(split).rows
    return canonical_json({**entry.model_dump(mode="json", exclude=_PROSE), "rows": rows})


def reading_code(catalogue: Catalogue, dataset: str) -> list[str]:
    """The modules that prepare a data set: of the readers only that of its format."""
    return ["fedatlas.data.prepare", type(catalogue[dataset]).__module__]


def prepared(dataset: str, split: str | None) -> list[str]:
    """The prepared file of a split; none without a split."""
    return [f"{RESULTS}/data/{dataset}/{split}.parquet"] if split else []


def prepared_for(*specs: RunSpec) -> list[str]:
    """The prepared files on which points of an experiment are trained and tested, each once."""
    dataset, splits = specs[0].dataset, [specs[0].split, *(s.partition.test_split for s in specs)]
    return [file for split in dict.fromkeys(splits) for file in prepared(dataset, split)]


def scaled_by(catalogue: Catalogue, dataset: str, split: str) -> list[str]:
    """The prepared split by whose statistics this split is scaled, if there is one."""
    scaled = catalogue[dataset].scaled_by_train and split != "train"
    return prepared(dataset, "train" if scaled else None)


def sharding_code(partition: Partition) -> str:
    """The module that cuts the shards of a partition."""
    return federation_of(partition.kind).sharding.partition(":")[0]


def shards(dataset: str, split: str, partition: Partition) -> list[str]:
    """The shard files of a partition, in the order of its silos."""
    folder = f"{RESULTS}/shards/{dataset}/{split}/{partition.slug}"
    return [f"{folder}/silo-{number}.parquet" for number in range(partition.silos)]


#: About how long a job of several points trains. Starting one takes one to three seconds.
JOB_SECONDS = 30.0


class SharedJob(NamedTuple):
    """A job that trains several points of an experiment. seconds: about how long it takes."""

    experiment: str
    number: int
    specs: tuple[RunSpec, ...]
    seconds: int


def shared_jobs(plan: Plan, names: Sequence[str]) -> list[SharedJob]:
    """All jobs of several points, of experiments whose runs these experiments need.

    An experiment shares jobs if a point takes at most half of `JOB_SECONDS`. Points that are not
    needed have jobs of their own, as Snakemake makes all files of a job or none.
    """
    needed: dict[str, set[str]] = {}
    for name in names:
        specs = plan.runs_of(name) if plan.experiments[name].trained else []
        tuned = {spec.tuned_in for spec in specs if spec.tuned_in}
        for spec in [*specs, *(spec for other in tuned for spec in plan.runs_of(other))]:
            needed.setdefault(spec.experiment, set()).add(spec.name)
    jobs = []
    for name, wanted in needed.items():
        seconds, specs = plan.experiments[name].point_seconds, plan.runs_of(name)
        if seconds is None or 2 * seconds > JOB_SECONDS or len(specs) < 2:
            continue
        parts = (
            [spec for spec in specs if spec.name in wanted],
            [spec for spec in specs if spec.name not in wanted],
        )
        groups = [group for part in parts for group in _about_equal(part, JOB_SECONDS / seconds)]
        jobs += [
            SharedJob(name, number, tuple(group), round(len(group) * seconds))
            for number, group in enumerate(groups, 1)
        ]
    return jobs


def _about_equal(specs: Sequence[RunSpec], most: float) -> list[Sequence[RunSpec]]:
    """The same in order, in as few groups of about equal size as hold at most so many."""
    count = ceil(len(specs) / most)
    ends = [len(specs) * number // count for number in range(count + 1)] if count else []
    return [specs[begin:end] for begin, end in pairwise(ends)]


def cores(*specs: RunSpec) -> int:
    """How many cores a job of these points can use: one for every process of a party."""
    return max(spec.processes for spec in specs)


def points(*specs: RunSpec) -> dict[str, Any]:
    """The argument of a job of these points."""
    return {"points": Points.of(specs).model_dump(mode="json")}


def inputs(*specs: RunSpec) -> dict[str, list[str]]:
    """Files that a job of these points depends on, each once.

    manifests: of all trials' shards, for which they vouch. optima: that sub-optimality is measured
    against. tuning: selections that hyper-parameters come from, of runs that are tuned elsewhere.
    """
    manifests, optima = set[str](), set[str]()
    for spec in specs:
        split = f"{spec.dataset}/{spec.split}"
        slugs = {spec.partition.of_seed(seed).slug for seed in spec.seeds}
        manifests |= {f"{RESULTS}/shards/{split}/{slug}/manifest.json" for slug in slugs}
        found = {spec.optimum_file(Path(RESULTS, "optima", split), seed) for seed in spec.seeds}
        optima |= {str(file) for file in found if file}
    tuned = {spec.tuned_in for spec in specs if spec.tuned_in}
    return {
        "manifests": sorted(manifests),
        "optima": sorted(optima),
        "tuning": [f"{RESULTS}/experiments/{name}/selection.json" for name in sorted(tuned)],
    }


def training_code(*specs: RunSpec) -> list[str]:
    """The modules that compute a job's runs, each once."""
    return sorted({module for spec in specs for module in spec.code})


_OF_SHARDING, _OF_TRAINING = 6, 10
_MB_OF_CLIENT = 0.006
_OF_READING = {"csv": 15}
_OF_OTHER_FORMATS = 4


def memory_of_reading(catalogue: Catalogue, dataset: str, raw: Iterable[str]) -> float:
    """Memory to prepare a split from these raw files; images of a folder are read one by one."""
    return _OF_READING.get(catalogue[dataset].format, _OF_OTHER_FORMATS) * _size(raw)


def memory_of_sharding(partition: Partition, prepared: Iterable[str]) -> float:
    """Memory to cut shards of prepared files."""
    return _OF_SHARDING * _of_samples(prepared) + _of_clients(partition)


def memory_of_training(partitions: Iterable[Partition], prepared: Iterable[str]) -> float:
    """Memory to train on shards of prepared files, one partition after the other."""
    clients = max(map(_of_clients, partitions), default=0.0)
    return _OF_TRAINING * _of_samples(prepared) + clients


def memory_of_traces(traces: Iterable[str]) -> float:
    """To hold traces, which are not compressed, and an experiment's in one, which is padded."""
    return 4 * _size(traces)


def _size(names: Iterable[str]) -> float:
    files = [Path(name) for name in names]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def _of_clients(partition: Partition) -> float:
    return _MB_OF_CLIENT * sum(partition.clients_by_silo)


def _of_samples(prepared: Iterable[str]) -> float:
    """The samples of prepared files in memory; compressed files say little of that."""
    return sum(map(_of_file, dict.fromkeys(prepared)))


def _of_file(prepared: str) -> float:
    # Loads for a fifth of a second, which plans without such jobs need not wait for.
    from fedatlas.data.tables import PREPARED_KEYS, open_parquet, read_metadata

    try:
        with open_parquet(Path(prepared)) as file:
            metadata = read_metadata(file, Path(prepared), (*PREPARED_KEYS, "non_zeros"))
            values = metadata["rows"] * metadata["features"]
            if metadata["layout"] == "sparse":
                return (12 * metadata["non_zeros"] + 24 * metadata["rows"]) / 1e6
            if metadata["layout"] == "tensor":
                bits = file.schema_arrow.field("features").type.value_type.bit_width
                return values * bits / 8e6
            return 8 * values / 1e6
    except FedatlasError:  # the job itself says what is wrong
        return 0.0
