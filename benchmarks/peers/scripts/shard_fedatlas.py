"""Shards by fedatlas: Parquet files and a manifest with their digests, each written whole."""

from measuring import Timed, job_of_command_line, repeated, report

from fedatlas.schema.partitions import HorizontalPartition, VerticalPartition
from fedatlas.shards.writing import write_shards


def main() -> None:
    job = job_of_command_line()
    values = job.values
    silos = [job.output / name for name in values["files"]]
    prepared, manifest = job.folder / "prepared.parquet", job.output / "manifest.json"
    kinds = {"horizontal": HorizontalPartition, "vertical": VerticalPartition}
    partition = kinds[values["partition"]["kind"]](**values["partition"])

    def written() -> None:
        write_shards(prepared, partition, silos, manifest)

    written()
    with Timed() as timed:
        times = repeated(written)
    report(job, timed, times)


if __name__ == "__main__":
    main()
