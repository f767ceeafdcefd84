"""The manifest beside shards: it is written after them and vouches for them when a run reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest
from fedatlas.schema.models import read_json, validated
from fedatlas.schema.partitions import Partition


def verify_manifest(
    files: Sequence[Path], dataset: str, split: str, partition: Partition
) -> list[str]:
    """The digests of a partition's shard files, which must be those that its manifest names.

    files: all of the partition, in order. FedatlasError names the file that is missing, damaged, or
    belongs to another data set, split or partition. A Parquet file's footer has no
    checksum: only these digests find damage to it.
    """
    folder = files[0].parent
    remedy = f"Move the folder {folder} away and run again."
    manifest = folder / "manifest.json"
    if not manifest.exists():
        raise FedatlasError(
            f"{manifest}: no such file, so that nothing vouches for the shards. {remedy}"
        )
    content = read_json(manifest)
    try:
        described = validated(cast(Any, Partition), content["partition"], "partition")
        found = f"{content['dataset']}/{content['split']}/{described.slug}"
        listed = {entry["file"]: entry["digest"] for entry in content["silos"]}
    except (KeyError, TypeError, FedatlasError):
        raise FedatlasError(f"{manifest}: is damaged or no manifest of shards. {remedy}") from None
    expected = f"{dataset}/{split}/{partition.slug}"
    if found != expected:
        raise FedatlasError(f"{manifest}: describes {found}, but {expected} is needed. {remedy}")
    digests = []
    for file in files:
        if not file.exists():
            raise FedatlasError(f"{file}: no such file. {remedy}")
        digests.append(file_digest(file))
        if listed.get(file.name) != digests[-1]:
            raise FedatlasError(
                f"{file}: is damaged or was replaced: it is not the file that manifest.json "
                f"describes. {remedy}"
            )
    return digests
