"""Shards by fedatlas: Parquet files and a manifest with their digests, each written whole."""

from measuring import Timed, job_of_command_line, repeated, report

from fedatlas.schema.partitions import HorizontalPartition, VerticalPartition
from fedatlas.shards.clients import write_shards
from fedatlas.shards.parties import write_party_shards


def main() -> None:
    job = job_of_command_line()
    values = job.values
    silos = [job.output / name for name in values["files"]]
    prepared, manifest = job.folder / "prepared.parquet", job.output / "manifest.json"

    def written() -> None:
        if values["partition"]["kind"] == "horizontal":
            write_shards(prepared, HorizontalPartition(**values["partition"]), silos, manifest)
        else:
            write_party_shards(prepared, VerticalPartition(**values["partition"]), silos, manifest)

    written()
    with Timed() as timed:
        times = repeated(written)
    report(job, timed, times)


if __name__ == "__main__":
    main()
