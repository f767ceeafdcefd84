"""Commands: raw files to shards."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from fedatlas.cli.options import Catalogue, Output, Specification
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.config import MIRROR_VARIABLE
from fedatlas.schema.models import validated


def download(
    file: Annotated[str, typer.Argument(help="The file's path in the catalogue.")],
    output: Annotated[
        Path | None, typer.Option(help="File to write; results/raw/… by default.")
    ] = None,
    lock: Annotated[Path, typer.Option(help="Where sums of files without one are kept.")] = Path(
        "config/checksums.lock.json"
    ),
    archives: Annotated[
        Path, typer.Option(help="Where archives of single members are kept.")
    ] = Path("results/archives"),
    mirror: Annotated[
        Path | None, typer.Option(help="Folder looked into first.", envvar=MIRROR_VARIABLE)
    ] = None,
    catalogue: Catalogue = Path("config/datasets.yaml"),
) -> None:
    """Fetch a raw file, verify it and undo its compression."""
    from fedatlas.data.catalogue import load_catalogue
    from fedatlas.data.download import Fetching
    from fedatlas.data.download import download as fetch

    by_local_path = load_catalogue(catalogue).raw_files()
    files = {raw.path: raw for raw in by_local_path.values()} | by_local_path
    if file not in files:
        raise FedatlasError(f"{catalogue}: no raw file '{file}'{similar(file, files)}")
    destination = output or Path("results/raw") / files[file].local_path
    fetch(files[file], destination, Fetching(mirror, lock, archives))


def prepare(
    dataset: Annotated[str, typer.Argument(help="Name in the catalogue.")],
    split: Annotated[str, typer.Argument(help="Split of the data set.")],
    output: Output,
    raw: Annotated[list[Path] | None, typer.Argument(help="Raw files, in order.")] = None,
    train_split: Annotated[
        Path | None, typer.Option(help="Prepared split 'train', to scale by.")
    ] = None,
    catalogue: Catalogue = Path("config/datasets.yaml"),
) -> None:
    """Turn a split's raw files into one Parquet file."""
    from fedatlas.data.catalogue import load_catalogue
    from fedatlas.data.prepare import prepare as prepare_split

    entry = load_catalogue(catalogue)[dataset]
    prepare_split(entry, split, raw or [], output, train=train_split)


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
