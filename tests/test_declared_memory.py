"""How much memory steps ask for follows what they read, and covers what was measured."""

import pytest

from catalogue_entry import PUBLISHED
from fedatlas.plan import jobs
from fedatlas.schema.partitions import HorizontalPartition, TieredPartition, VerticalPartition
from prepared_files import make_samples, write_prepared

PARTIES = VerticalPartition(parties=2, active=1)  # without clients


@pytest.mark.parametrize(("layout", "value"), [("dense", 8), ("uint8", 1), ("float32", 4)])
def test_memory_grows_with_values_as_they_are_in_memory(tmp_path, layout, value):
    files = []
    for rows in (50, 150):
        samples = make_samples(rows, 40, layout)
        shape = None if layout == "dense" else (1, 5, 8)
        file = write_prepared(tmp_path / f"{rows}.parquet", samples, shape, non_zeros=0)
        files.append(str(file))
    one, other = (jobs.memory_of_sharding(PARTIES, [file]) for file in files)
    assert one == pytest.approx(6 * 50 * 40 * value / 1e6)
    assert jobs.memory_of_sharding(PARTIES, files) == pytest.approx(one + other)
    assert jobs.memory_of_training([PARTIES], files) > jobs.memory_of_sharding(PARTIES, files)


def test_sparse_rows_count_by_what_they_store(tmp_path):
    asked = []
    for features in (30, 3_000):
        samples = make_samples(60, features, "sparse", density=15 / features)
        stored = samples.features.nnz
        file = write_prepared(tmp_path / f"{features}.parquet", samples, non_zeros=stored)
        asked.append(jobs.memory_of_training([PARTIES], [str(file)]) / (stored + 120))
    assert asked[0] == pytest.approx(asked[1])


def test_a_million_clients_take_gigabytes_and_missing_files_nothing(tmp_path):
    missing = [str(tmp_path / "missing.parquet")]
    few, many = HorizontalPartition(clients=3), HorizontalPartition(clients=1_000_000)
    assert 2_000 + jobs.memory_of_training([few, many], missing) > 4_400  # which it took
    tiers = TieredPartition(cut={"columns": 2}, clients=[200, 400])
    assert jobs.memory_of_sharding(tiers, missing) == pytest.approx(3.6)
    assert jobs.memory_of_sharding(PARTIES, missing) == 0


def test_reading_goes_by_the_size_of_raw_files(tmp_path):
    text = tmp_path / "rows.csv"
    text.write_bytes(b"1,2,3\n" * 500_000)
    assert jobs.memory_of_reading(PUBLISHED, "uci-credit-card", [str(text)]) == pytest.approx(45)
    assert jobs.memory_of_reading(PUBLISHED, "a9a", [str(text), str(tmp_path)]) == pytest.approx(12)
    assert jobs.memory_of_traces([str(text), str(tmp_path / "later.nc")]) == pytest.approx(12)
