"""The same files by DuckDB, from and to Parquet; it writes row groups of whole vectors of rows."""

import duckdb
import numpy as np
from measuring import Timed, job_of_command_line, repeated, report


def main() -> None:
    job = job_of_command_line()
    values, arrays = job.values, job.arrays
    database = duckdb.connect(config={"threads": 1})
    source = f"read_parquet('{job.folder / 'prepared.parquet'}')"
    files = [job.output / name for name in values["files"]]

    def clients() -> None:
        row, place = arrays["order"], np.arange(len(arrays["order"]))
        database.execute(
            f"COPY (SELECT sample_id, label, indices, values FROM {source} AS held "
            "JOIN (SELECT unnest($row) AS row, unnest($place) AS place) AS dealt "
            "ON held.sample_id = dealt.row ORDER BY place) "
            f"TO '{files[0]}' (FORMAT parquet, COMPRESSION lz4_raw, "
            f"ROW_GROUP_SIZE {values['samples_each']})",
            {"row": row, "place": place},
        )

    def a_file_each() -> None:
        row, client = arrays["order"], arrays["client"]
        database.execute(
            f"COPY (SELECT sample_id, label, indices, values, client FROM {source} AS held "
            "JOIN (SELECT unnest($row) AS row, unnest($client) AS client) AS dealt "
            "ON held.sample_id = dealt.row ORDER BY client, sample_id) "
            f"TO '{job.output / 'clients'}' (FORMAT parquet, COMPRESSION lz4_raw, "
            "PARTITION_BY (client), OVERWRITE)",
            {"row": row, "client": client},
        )

    def parties() -> None:
        features = {
            "party_of": arrays["party_of"].tolist(),
            "column_of": arrays["column_of"].tolist(),
        }
        for party, file in enumerate(files):
            label = "label, " if party < values["partition"]["active"] else ""
            # Lists are counted from 1.
            is_own = f"lambda pair: $party_of[pair[1] + 1] = {party}"
            column = "lambda pair: $column_of[pair[1] + 1]::INTEGER"
            database.execute(
                "COPY (WITH own AS (SELECT sample_id, label, "
                f"list_filter(list_zip(indices, values), {is_own}) AS pairs FROM {source}) "
                f"SELECT sample_id, {label}list_transform(pairs, {column}) AS indices, "
                "list_transform(pairs, lambda pair: pair[2]) AS values FROM own "
                f"ORDER BY sample_id) TO '{file}' (FORMAT parquet, COMPRESSION lz4_raw)",
                features,
            )

    if values["partition"]["kind"] == "vertical":
        write = parties
    else:
        write = a_file_each if values.get("files_of_clients") else clients
    write()
    with Timed() as timed:
        times = repeated(write)
    report(job, timed, times)


if __name__ == "__main__":
    main()
