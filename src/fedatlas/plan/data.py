"""Raw, prepared and sharded data: their files, and what decides how they are made."""

from pathlib import Path

from fedatlas.data.catalogue import Catalogue
from fedatlas.data.raw_files import RawFile, content_of
from fedatlas.files import canonical_json
from fedatlas.plan.places import RESULTS
from fedatlas.schema.federation import federation_of
from fedatlas.schema.partitions import Partition

_SERVED = {"path", "checksum", "decompress", "unpack", "member"}
_PROSE = {"title", "homepage", "licence", "citation", "note", "splits"}


def identity(raw: RawFile, mirror: Path | None, results: str) -> str:
    """What makes a raw file the one it is: its checksum does, URLs and the mirror do not.

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
    """What decides how raw files are read; titles and licences do not."""
    entry = catalogue[dataset]
    rows = entry.split(split).rows
    return canonical_json({**entry.model_dump(mode="json", exclude=_PROSE), "rows": rows})


def reading_code(catalogue: Catalogue, dataset: str) -> list[str]:
    """The modules that prepare a data set: of the readers only that of its format."""
    return ["fedatlas.data.prepare", type(catalogue[dataset]).__module__]


def prepared(dataset: str, split: str | None) -> list[str]:
    """The prepared file of a split; none without a split."""
    return [f"{RESULTS}/data/{dataset}/{split}.parquet"] if split else []


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
