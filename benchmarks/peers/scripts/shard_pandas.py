"""The same files by pandas (over pyarrow), from and to Parquet, with the same options."""

import pandas as pd
import pyarrow as pa
from measuring import Timed, job_of_command_line, repeated, report


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    job = job_of_command_line()
    values, arrays = job.values, job.arrays
    options = {
        "index": False,
        "compression": "lz4",
        "use_dictionary": False,
        "write_statistics": False,
        "write_page_checksum": True,
    }
    files = [job.output / name for name in values["files"]]

    def clients() -> None:
        frame = pd.read_parquet(job.folder / "prepared.parquet")
        dealt = frame.iloc[arrays["order"]]
        dealt.to_parquet(files[0], row_group_size=values["samples_each"], **options)

    def parties() -> None:
        frame = pd.read_parquet(job.folder / "prepared.parquet")
        # A line per non-zero value, and where its feature went.
        long = frame[["indices", "values"]].explode(["indices", "values"])
        feature = long["indices"].to_numpy(dtype="int64")
        long["party"] = arrays["party_of"][feature]
        long["indices"] = arrays["column_of"][feature]
        long["values"] = long["values"].astype("float64")
        for party, file in enumerate(files):
            own = long[long["party"] == party].groupby(level=0)
            lists = own.agg({"indices": list, "values": list}).reindex(frame.index)
            empty = lists["indices"].isna()
            lists.loc[empty, ["indices", "values"]] = [[[], []]] * int(empty.sum())
            kept = (
                ["sample_id", "label"] if party < values["partition"]["active"] else ["sample_id"]
            )
            frame[kept].join(lists).to_parquet(file, **options)

    write = clients if values["partition"]["kind"] == "horizontal" else parties
    write()
    with Timed() as timed:
        times = repeated(write)
    report(job, timed, times)


if __name__ == "__main__":
    main()
