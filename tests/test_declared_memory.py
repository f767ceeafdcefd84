"""How much memory steps ask for follows what they read, and covers what was measured."""

import pytest

from catalogue_entry import PUBLISHED
from fedatlas.plan import memory
from fedatlas.schema.partitions import HorizontalPartition, TieredPartition, VerticalPartition
from prepared_files import make_samples, write_prepared

FEW = HorizontalPartition(clients=3)


@pytest.mark.parametrize("layout", ["dense", "sparse", "uint8", "float32"])
def test_memory_grows_with_samples_as_they_are_in_memory(tmp_path, layout):
    found = []
    for rows in (500, 1500):
        samples = make_samples(rows, 40, layout)
        stored = samples.features.nnz if layout == "sparse" else None
        prepared = write_prepared(
            tmp_path / f"{rows}.parquet",
            samples,
            (1, 5, 8) if layout in ("uint8", "float32") else None,
            non_zeros=stored or 0,
        )
        values = samples.features.data if layout == "sparse" else samples.features
        own = values.nbytes + (samples.features.indices.nbytes if layout == "sparse" else 0)
        for asked in (
            memory.of_sharding(FEW, [str(prepared)]),
            memory.of_training([FEW], [str(prepared)]),
        ):
            assert 5 * own < 1e6 * asked - 20_000 < 13 * own + 24 * 10 * rows
        found.append(memory.of_training([FEW], [str(prepared)]))
    assert found[1] == pytest.approx(3 * found[0], rel=0.1)
    whole = memory.of_training(
        [FEW], [str(tmp_path / "500.parquet"), str(tmp_path / "1500.parquet")]
    )
    assert whole == pytest.approx(sum(found), rel=0.1)


def test_a_million_clients_take_gigabytes_and_missing_files_nothing(tmp_path):
    missing = [str(tmp_path / "missing.parquet")]
    many = HorizontalPartition(clients=1_000_000)
    assert memory.of_training([FEW, many], missing) > 4_400 - 2_000
    assert memory.of_sharding(
        TieredPartition(cut={"columns": 2}, clients=[200, 400]), missing
    ) == pytest.approx(3.6)
    assert memory.of_sharding(VerticalPartition(parties=2, active=1), missing) == 0


def test_reading_goes_by_the_text(tmp_path):
    text = tmp_path / "rows.csv"
    text.write_bytes(b"1,2,3\n" * 500_000)
    assert memory.of_reading(PUBLISHED, "uci-credit-card", [str(text)]) == pytest.approx(45)
    assert memory.of_reading(PUBLISHED, "a9a", [str(text), str(tmp_path)]) == pytest.approx(12)
