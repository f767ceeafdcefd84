"""Commands: raw files to shards."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from fedatlas.cli.options import Catalogues, Lock, Mirror, Output, Specification
from fedatlas.data.raw_files import LOCK
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.models import validated


def download(
    file: Annotated[str, typer.Argument(help="The file's path in the catalogue.")],
    catalogue: Catalogues,
    output: Annotated[
        Path | None, typer.Option(help="File to write; results/raw/… by default.")
    ] = None,
    lock: Lock = LOCK,
    archives: Annotated[
        Path, typer.Option(help="Where archives of single members are kept.")
    ] = Path("results/archives"),
    mirror: Mirror = None,
) -> None:
    """Fetch a raw file, verify it and undo its compression."""
    from fedatlas.data.catalogue import load_catalogue
    from fedatlas.data.download import Fetching
    from fedatlas.data.download import download as fetch

    known = load_catalogue(*catalogue)
    by_local_path = known.raw_files()
    files = {raw.path: raw for raw in by_local_path.values()} | by_local_path
    if file not in files:
        where = " and ".join(map(str, known.paths))
        raise FedatlasError(f"{where}: no raw file '{file}'{similar(file, files)}")
    destination = output or Path("results/raw") / files[file].local_path
    fetch(files[file], destination, Fetching(mirror, lock, archives))


def prepare(
    dataset: Annotated[str, typer.Argument(help="Name in the catalogue.")],
    split: Annotated[str, typer.Argument(help="Split of the data set.")],
    output: Output,
    catalogue: Catalogues,
    raw: Annotated[list[Path] | None, typer.Argument(help="Raw files, in order.")] = None,
    train_split: Annotated[
        Path | None, typer.Option(help="Prepared split 'train', to scale by.")
    ] = None,
    mirror: Mirror = None,
    lock: Lock = LOCK,
) -> None:
    """Turn a split's raw files into one Parquet file, and record their sums."""
    from fedatlas.data.catalogue import load_catalogue, with_remedies
    from fedatlas.data.prepare import prepare as prepare_split
    from fedatlas.data.raw_files import record_read

    known = load_catalogue(*catalogue)
    entry = known[dataset]
    with with_remedies(entry, split, raw or [], known.described[dataset], mirror, lock):
        prepare_split(entry, split, raw or [], output, train=train_split)
    record_read(zip(entry.split(split).files, raw or [], strict=True), lock)


def shard(
    data: Annotated[Path, typer.Argument(help="Prepared Parquet file.")],
    spec: Specification,
    silo: Annotated[list[Path], typer.Option(help="Shard file of each silo to write, in order.")],
    manifest: Annotated[Path, typer.Option(help="Manifest to write.")],
    test: Annotated[
        Path | None, typer.Option(help="Prepared split to test on, if the partition names one.")
    ] = None,
) -> None:
    """Share out a prepared split over clients, parties, or silos with clients."""
    from fedatlas.schema.partitions import Partition
    from fedatlas.shards.writing import write_shards

    partition = validated(cast(Any, Partition), spec, "--spec")
    write_shards(data, partition, silo, manifest, test)


COMMANDS = (download, prepare, shard)
