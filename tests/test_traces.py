"""The trace file: what it describes, that it survives a round trip, what is refused."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.schema.quantities import COSTS, MEASUREMENTS
from fedatlas.schema.runs import RecordEvery, record_schedule
from fedatlas.store.netcdf import seal, write_netcdf
from fedatlas.store.trace import FORMAT, build_trace, read_trace, write_trace
from fedatlas.training import seeds
from trace_factory import auroc_trace, falling_trace, linear_trace, make_trace, tiered_trace


@given(rounds=st.integers(1, 5000), every=st.integers(1, 6000))
def test_record_schedule_starts_at_zero_ends_at_the_last_round_and_never_skips(rounds, every):
    schedule = record_schedule(rounds, every)
    steps = np.diff(schedule)
    assert schedule[0] == 0
    assert schedule[-1] == rounds
    assert (steps > 0).all()
    assert (steps[:-1] == every).all()
    assert steps[-1] <= every


@given(
    rounds=st.integers(1, 300),
    every=st.dictionaries(st.integers(1, 400), st.integers(1, 50), max_size=3),
    first=st.integers(1, 50),
)
def test_record_schedules_by_first_rounds(rounds, every, first):
    """From a first round on records are as far apart as declared, counted from that round."""
    declared = {0: first} | dict(sorted(every.items()))
    expected, due, distance = [], 0, first
    for number in range(rounds + 1):
        if number in declared:
            due, distance = number, declared[number]
        if number == due:
            expected.append(number)
            due += distance
    assert record_schedule(rounds, declared).tolist() == sorted({*expected, rounds})


def test_a_record_schedule_is_in_the_order_of_rounds():
    """As JSON has its keys: "0", "100", "20"."""
    found = TypeAdapter(RecordEvery).validate_json('{"0": 1, "100": 10, "20": 5}')
    assert list(found.items()) == [(0, 1), (20, 5), (100, 10)]


@pytest.mark.parametrize("every", [{1: 2}, {0: 0}, {}])
def test_a_record_schedule_begins_with_round_0(every):
    with pytest.raises(ValidationError, match=r"must begin with round 0|greater than"):
        TypeAdapter(RecordEvery).validate_python(every)


def test_a_trace_is_read_however_large_but_not_what_only_claims_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr("fedatlas.store.netcdf._MOST_BYTES", 1000)
    trace = falling_trace([0.5] * 40)
    write_trace(trace, tmp_path / "large.nc")
    assert read_trace(tmp_path / "large.nc").identical(trace)
    with h5py.File(tmp_path / "claims.nc", "w") as file:
        file.create_dataset("objective", (10**5, 10**5), "f8", chunks=(10, 10))  # nothing written
    seal(tmp_path / "claims.nc")
    with pytest.raises(FedatlasError, match="claims 80000000000 bytes"):
        read_trace(tmp_path / "claims.nc")


@pytest.mark.parametrize(
    "trace",
    [
        falling_trace([0.5, 0.6]),
        linear_trace([0.1, 0.2]),
        auroc_trace([[0.5, 0.9]]),
        tiered_trace([[2.0, 1.0]], test_f1=[[0.1, 0.5]], test_top5_accuracy=[[0.5, 0.9]]),
    ],
)
def test_every_variable_and_coordinate_says_what_it_is_in_which_unit(trace: xr.Dataset):
    for name in [*trace.data_vars, *trace.coords]:
        assert trace[name].attrs["long_name"], name
        assert trace[name].attrs["units"], name
    assert set(trace.data_vars) <= {*MEASUREMENTS, "status"}
    assert set(trace.coords) <= {*COSTS, "seed", "record"}
    assert trace["bytes_up"].attrs["units"] == "byte"
    assert trace["wall_time"].attrs["units"] == "s"
    assert trace["round"].dims == ("seed", "record")
    assert trace["status"].dims == ("seed",)


def test_a_subset_of_variables_makes_a_trace_and_an_unknown_one_does_not():
    values = np.zeros((1, 3))
    trace = build_trace({"round": values}, ["ok"], [7], {})
    assert trace.sizes == {"seed": 1, "record": 3}
    assert trace.seed.item() == 7
    with pytest.raises(KeyError, match="temperature"):
        build_trace({"temperature": values}, ["ok"], [7], {})


def test_a_trace_survives_the_file_with_divergences_and_greek(tmp_path: Path):
    values = np.array([[1.0, 0.1, 1e-12], [1.0, np.nan, np.nan]])
    trace = make_trace(values, run="∇ζ")
    path = tmp_path / "nested" / "run.nc"
    write_trace(trace, path)
    loaded = read_trace(path)
    xr.testing.assert_identical(loaded, trace)
    assert loaded["status"].to_numpy().tolist() == ["ok", "diverged"]
    assert loaded.attrs["run"] == "∇ζ"
    assert loaded.attrs["format"] == FORMAT
    assert [file.name for file in path.parent.iterdir()] == ["run.nc"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "run.nc"
    write_trace(falling_trace([0.5]), path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_trace(falling_trace([0.9]).assign_attrs(unwritable={}), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def cut_off(share: float):
    def cut(path: Path) -> None:
        write_trace(falling_trace([0.5, 0.6]), path)
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])

    return cut


def foreign(**attributes: str):
    rain = xr.Dataset({"rain": ("day", [1.0, 2.0])}, attrs=attributes)
    return lambda path: write_netcdf(rain, path)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.write_bytes(b""), "not a readable"),
        (lambda path: path.write_bytes(b"round,objective\n0,1\n"), "not a readable"),
        (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n junk"), "not a readable"),
        *((cut_off(share), "not a readable") for share in (0.05, 0.5, 0.95)),
        (foreign(), "is not a trace of this version"),
        (foreign(format="fedatlas trace 0"), "is not a trace of this version"),
    ],
)
def test_what_is_no_whole_trace_is_refused_by_name(tmp_path: Path, write, said: str):
    write(tmp_path / "run.nc")
    with pytest.raises(FedatlasError, match=rf"run\.nc.*{said}"):
        read_trace(tmp_path / "run.nc")


# Each is read where the memory for its array is missing, and once more where it is there.
_IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
import h5py, netCDF4, pyarrow.parquet, xarray
from fedatlas.data.tables import open_parquet, read_rows
from fedatlas.errors import FedatlasError
from fedatlas.store.trace import read_trace
from fedatlas.training import seeds

def prepared(path):
    with open_parquet(path) as file:
        return read_rows(file)

folder = Path(sys.argv[1])
def resumed(path):
    return seeds.read_checkpoint(path, {}, {})

readers = {"a.nc": read_trace, "a.parquet": prepared, "a.npz": resumed}
for name, read in readers.items():
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (10 << 20), -1))
    try:
        print(name, "read" if read(folder / name) else "nothing")
    except FedatlasError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    assert read(folder / name)
"""


def test_a_sound_file_is_not_called_damaged_where_memory_runs_out(tmp_path):
    numbers = np.ones(2_000_000)
    large = xr.Dataset({"a": ("record", numbers)}, attrs={"format": FORMAT})
    write_netcdf(large, tmp_path / "a.nc")
    pq.write_table(pa.table({"a": numbers}), tmp_path / "a.parquet", use_dictionary=False)
    seeds.write_checkpoint(tmp_path / "a.npz", {}, {}, {"a": numbers})
    command = [sys.executable, "-c", _IN_LITTLE_MEMORY, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for name, line in zip(("a.nc", "a.parquet", "a.npz"), told, strict=True):
        assert f"{name}: cannot be read now (" in line and "may be sound" in line
