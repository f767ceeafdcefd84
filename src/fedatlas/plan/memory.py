"""How much memory steps need, in MB, by the data that they read.

Measured (peak of the process, 0.3 to 2 million rows): sharding takes 3 to 6 times its samples,
training 3 to 10 times, both 6 KB a client besides; reading CSV takes 15 times the text, other
formats less. Where a file is not there yet, it counts nothing: Snakemake asks again before the job.
"""

from collections.abc import Iterable
from pathlib import Path

from fedatlas.data.catalogue import Catalogue
from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import HorizontalPartition, Partition, TieredPartition

_OF_SHARDING, _OF_TRAINING = 6, 10
_MB_OF_CLIENT = 0.006
_OF_READING = {"csv": 15}
_OF_OTHER_FORMATS = 4


def of_reading(catalogue: Catalogue, dataset: str, raw: Iterable[str]) -> float:
    """To prepare a split from these raw files; a folder of images is read one by one."""
    return _OF_READING.get(catalogue[dataset].format, _OF_OTHER_FORMATS) * _size(raw)


def of_sharding(partition: Partition, prepared: Iterable[str]) -> float:
    """To cut shards of prepared files."""
    return _OF_SHARDING * _of_samples(prepared) + _of_clients(partition)


def of_training(partitions: Iterable[Partition], prepared: Iterable[str]) -> float:
    """To train on shards of prepared files, one partition after the other."""
    clients = max(map(_of_clients, partitions), default=0.0)
    return _OF_TRAINING * _of_samples(prepared) + clients


def of_traces(traces: Iterable[str]) -> float:
    """To hold traces, which are not compressed."""
    return 2 * _size(traces)


def _size(names: Iterable[str]) -> float:
    files = [Path(name) for name in names]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def _of_clients(partition: Partition) -> float:
    if isinstance(partition, HorizontalPartition):
        return _MB_OF_CLIENT * partition.clients
    silos = partition.clients_by_silo if isinstance(partition, TieredPartition) else ()
    return _MB_OF_CLIENT * sum(silos)


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
