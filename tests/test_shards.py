"""Shards: what goes in comes out, client by client, and damage is named."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import from_table
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import read_shard
from fedatlas.files import file_digest
from fedatlas.schema.partitions import HorizontalPartition, TieredPartition, VerticalPartition
from fedatlas.shards.assignment import share_out
from fedatlas.shards.writing import write_shards
from prepared_files import as_dense, make_samples, shard, write_prepared


def test_sharding_dense_rows_loads_no_pandas_and_no_scipy(tmp_path):
    """They would take longer than the sharding."""
    write_prepared(tmp_path / "data.parquet", make_samples(12, 5, "dense"))
    specs = {
        "horizontal": HorizontalPartition(assignment="shuffled", clients=3, test=0.2),
        "vertical": VerticalPartition(parties=1, active=1, assignment="shuffled", test=0.2),
    }
    for kind, spec in specs.items():
        code = (
            "import sys; from fedatlas.cli import app; app(sys.argv[1:], standalone_mode=False); "
            "print({'pandas', 'scipy', 'torch', 'xarray'} & set(sys.modules))"
        )
        folder = tmp_path / kind
        given = {
            "prepared": str(tmp_path / "data.parquet"),
            "spec": spec.model_dump(mode="json"),
            "silos": str(folder / "silo-0.parquet"),
            "manifest": str(folder / "manifest.json"),
        }
        command = [sys.executable, "-c", code, "step", "shard_split", json.dumps(given)]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        assert found.stdout == "set()\n"


def assert_same_rows(actual: Samples, whole: Samples, rows: np.ndarray) -> None:
    np.testing.assert_array_equal(actual.sample_id, whole.sample_id[rows])
    np.testing.assert_array_equal(actual.label, whole.label[rows])
    np.testing.assert_array_equal(as_dense(actual), as_dense(whole)[rows])
    assert actual.is_sparse == whole.is_sparse


def shard_and_manifest(
    folder: Path, samples: Samples, spec: HorizontalPartition
) -> tuple[Path, dict]:
    (silo,) = shard(folder, samples, spec)
    return silo, json.loads(silo.with_name("manifest.json").read_text())


def partition(assignment: str, clients: int, samples: int | None = None) -> HorizontalPartition:
    concentration = 0.5 if assignment == "dirichlet" else None
    return HorizontalPartition(
        assignment=assignment, clients=clients, samples=samples, concentration=concentration
    )


@pytest.fixture
def silo(tmp_path) -> Path:
    """Six clients of five sparse rows each."""
    return shard(tmp_path, make_samples(30, 8, "sparse"), partition("consecutive", 6))[0]


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@settings(max_examples=30)
@given(data=st.data())
def test_every_kept_sample_comes_back_once_with_its_client(layout, tmp_path, data):
    rows = data.draw(st.integers(1, 40), "rows")
    kept = data.draw(st.integers(1, rows), "kept")
    spec = partition(
        data.draw(st.sampled_from(["consecutive", "shuffled", "dirichlet"])),
        data.draw(st.integers(1, kept), "clients"),
        data.draw(st.sampled_from([kept, None])),
    )
    samples = make_samples(
        rows,
        data.draw(st.integers(1, 6), "features"),
        layout,
        data.draw(st.sampled_from([0.0, 0.1, 1.0]), "density"),
    )
    check_shard(tmp_path, samples, spec)


@pytest.mark.parametrize("clients", [2, 700])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_thousands_of_rows_come_back_too(tmp_path, clients, layout):
    check_shard(tmp_path, make_samples(3000, 3, layout), partition("dirichlet", clients))


def check_shard(folder: Path, samples: Samples, spec: HorizontalPartition) -> None:
    """Every client of a shard holds the rows that it is dealt."""
    silo, manifest = shard_and_manifest(folder, samples, spec)
    clients, _, _ = share_out(spec, samples.label)
    rows = len(samples)
    read, file = read_shard(silo), pq.ParquetFile(silo)
    assert read.clients == spec.clients
    assert read.offsets.dtype == np.int64
    assert read.offsets[0] == 0
    np.testing.assert_array_equal(np.sort(read.samples.sample_id), np.arange(spec.samples or rows))
    assert_same_rows(read.samples, samples, np.concatenate(clients))
    for number, entry in enumerate(manifest["silos"][0]["clients"]):
        held = clients[number]
        assert read.offsets[number + 1] - read.offsets[number] == len(held) == entry["samples"]
        assert entry["row_group"] == number
        group = file.read_row_group(number)
        assert_same_rows(from_table(group, read.metadata["features"]), samples, held)


def test_manifest_and_metadata_tell_where_a_shard_comes_from(tmp_path):
    spec = HorizontalPartition(assignment="shuffled", clients=2, samples=5, seed=3)
    silo, manifest = shard_and_manifest(tmp_path, make_samples(6, 4), spec)
    prepared_digest = file_digest(tmp_path / "prepared.parquet")
    clients = manifest["silos"][0].pop("clients")
    assert [client["samples"] for client in clients] == [3, 2]
    assert manifest == {
        "dataset": "toy",
        "split": "train",
        "features": 4,
        "prepared_digest": prepared_digest,
        "partition": spec.model_dump(),
        "seed": 3,
        "constant_columns": [],
        "silos": [{"file": "silo-0.parquet", "digest": file_digest(silo), "test_samples": 0}],
    }
    assert read_shard(silo).metadata == {
        "dataset": "toy",
        "split": "train",
        "rows": 5,
        "features": 4,
        "layout": "dense",
        "partition": spec.model_dump(),
        "silo": 0,
        "client_samples": [3, 2],
        "test_samples": 0,
        "positive_rate": 0.8,
        "prepared_digest": prepared_digest,
        "test_digest": None,
    }


@pytest.mark.parametrize("layout", ["dense", "sparse", "float32", "uint8"])
@pytest.mark.parametrize(
    "spec",
    [
        partition("dirichlet", 4),
        VerticalPartition(parties=3, active=2, seed=4, test=0.2),
        TieredPartition(cut={"columns": 3}, clients=4),
    ],
)
def test_the_same_request_writes_the_same_bytes(tmp_path, spec, layout):
    samples = make_samples(40, 6, layout)
    for name in ("first", "second"):
        shard(tmp_path / name, samples, spec)
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()


def test_a_shard_has_the_prepared_columns_and_nothing_else_is_left_behind(tmp_path):
    (silo,) = shard(tmp_path, make_samples(9, 3, "sparse"), partition("shuffled", 3))
    prepared = pq.read_schema(tmp_path / "prepared.parquet")
    assert pq.read_schema(silo).equals(prepared, check_metadata=False)
    assert {path.name for path in tmp_path.iterdir()} == {
        "prepared.parquet",
        "silo-0.parquet",
        "manifest.json",
    }


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # The last byte of a row group, before the next one.
    content[pq.read_metadata(path).row_group(4).column(0).data_page_offset - 1] ^= 1
    path.write_bytes(content)


def with_metadata(**metadata: str) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pq.read_table(path).replace_schema_metadata(metadata), path)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (flip_a_bit, "is truncated, damaged"),
        (Path.unlink, "no such file"),
        (lambda path: shutil.copy(path.with_name("prepared.parquet"), path), ".*lack partition"),
        (with_metadata(), "lacks the schema metadata"),
        (with_metadata(fedatlas="not JSON"), "lacks the schema metadata"),
        (with_metadata(fedatlas="3"), "lacks the schema metadata"),
    ],
)
def test_a_damaged_shard_is_refused_by_name(silo, damage, problem):
    damage(silo)
    with pytest.raises(FedatlasError, match=rf"silo-0\.parquet: {problem}"):
        read_shard(silo)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.8, 0.999])
def test_a_truncated_shard_is_refused_by_name(silo, kept):
    content = silo.read_bytes()
    silo.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(FedatlasError, match=r"silo-0\.parquet: is truncated"):
        read_shard(silo)


def test_a_prepared_file_without_a_key_is_refused(tmp_path):
    prepared = write_prepared(tmp_path / "prepared.parquet", make_samples(9, 2), features=None)
    spec, silo = partition("consecutive", 3), tmp_path / "silo-0.parquet"
    with pytest.raises(FedatlasError, match=r"prepared\.parquet: .*lack features"):
        write_shards(prepared, spec, [silo], tmp_path / "manifest.json")
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize(
    ("spec", "files"),
    [
        (HorizontalPartition(clients=3), 1),
        (VerticalPartition(parties=3, active=2, seed=0), 3),
        (TieredPartition(cut={"columns": 2}, clients=2), 2),
    ],
)
@pytest.mark.parametrize(
    "names", [[], ["a", "b", "c", "d"], ["a", "b", "x/c"], ["x/a"], ["a", "x/b"]]
)
def test_every_silo_has_a_file_beside_the_manifest(tmp_path, spec, files, names):
    message = rf"manifest\.json: a {spec.kind} partition is {files} silo file"
    silos = [tmp_path / name for name in names]
    with pytest.raises(FedatlasError, match=message):
        write_shards(tmp_path / "prepared.parquet", spec, silos, tmp_path / "manifest.json")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (HorizontalPartition(clients=10), "clients 10 exceeds the 9 samples"),
        (VerticalPartition(parties=5, active=2), "5 parties cannot share 4 features"),
        (VerticalPartition(parties=3, active=2, samples=10), "samples 10 exceeds the 9 rows"),
        (VerticalPartition(parties=3, active=2, test=0.01), "test 0.01 of 9 rows leaves no row"),
        (VerticalPartition(parties=3, active=2, standardise=True), "'standardise' would make spa"),
        (TieredPartition(cut={"columns": 2}, clients=80), "clients 80 exceeds the 9 samples"),
        (TieredPartition(cut={"columns": 5}, clients=3), "cut.columns asks for 5 blocks"),
        (TieredPartition(cut={"width": 2}, clients=3), "names the axis 'width'"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_and_leaves_nothing(tmp_path, spec, message):
    with pytest.raises(FedatlasError, match=message):
        shard(tmp_path, make_samples(9, 4, "sparse"), spec)
    assert {path.name for path in tmp_path.iterdir()} == {"prepared.parquet"}
