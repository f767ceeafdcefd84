"""Tables in Parquet files are read as the same table in CSV would be."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue_entry import COLUMNS, tiny, written
from fedatlas.data.formats import read_raw
from fedatlas.data.formats.columns import Columns
from fedatlas.data.formats.csv import CsvTable, read_csv
from fedatlas.data.formats.parquet import read_table
from fedatlas.errors import FedatlasError

SIGNS = {0: -1.0, 1: 1.0}
KEPT = COLUMNS | {"keep": ["user"]}
TABLE = Columns.model_validate(KEPT)


def stored(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def small(path, **changes):
    columns = {
        "user": ["u", "v"],
        "id": [7, 8],
        "n": [0, 4],
        "c": ["z", "x"],
        "a": [-2.5, 1e5],
        "y": [1, 0],
    }
    return stored(path, **columns | changes)


def test_columns_are_encoded_in_the_order_of_the_catalogue(tmp_path):
    samples = read_table([small(tmp_path / "t")], TABLE, SIGNS)
    assert samples.features.tolist() == [[-2.5, 0, 0, 1, 1, 0, 0], [1e5, 1, 0, 0, 0, 1, 0]]
    assert samples.label.tolist() == [1, -1]
    assert samples.kept == {"user": ["u", "v"]}


rows = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-9, 9).map(float)),
        st.sampled_from(["x", "y", "z", None]),
        st.integers(0, 12),
        st.sampled_from(["ann", "bob", "NA", None]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=50, deadline=None)
@given(rows)
def test_a_table_is_the_same_in_parquet_and_in_csv(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    frame = pd.DataFrame(rows, columns=["y", "a", "c", "n", "user"]).assign(id=range(len(rows)))
    frame.to_parquet(folder / "t.parquet", index=False)
    frame.to_csv(folder / "t.csv", index=False)
    declared = KEPT | {"drop_missing": True}
    complete = (frame.notna() & (frame != "NA")).all(axis=1)
    if not complete.any():
        with pytest.raises(FedatlasError, match="every row lacks a value"):
            read_table([folder / "t.parquet"], Columns.model_validate(declared), SIGNS)
        return
    ours = read_table([folder / "t.parquet"], Columns.model_validate(declared), SIGNS)
    csv = read_csv(folder / "t.csv", CsvTable.model_validate(declared), SIGNS)
    assert len(ours) == complete.sum()
    np.testing.assert_array_equal(ours.features, csv.features)
    np.testing.assert_array_equal(ours.label, csv.label)
    assert ours.kept == csv.kept


@pytest.mark.parametrize(
    ("changes", "a", "label"),
    [
        ({"a": pa.array([1, 2], pa.int8())}, [1, 2], [1, -1]),
        ({"a": pa.array([0.5, 2], pa.float16())}, [0.5, 2], [1, -1]),
        ({"a": [Decimal("1.50"), Decimal("-2.25")]}, [1.5, -2.25], [1, -1]),
        ({"a": ["1e3", " 7 "]}, [1000, 7], [1, -1]),
        ({"a": [True, False]}, [1, 0], [1, -1]),
        ({"y": [True, False]}, [-2.5, 1e5], [1, -1]),
        ({"y": ["1", "0"]}, [-2.5, 1e5], [1, -1]),
        ({"c": pa.array(["z", "x"]).dictionary_encode()}, [-2.5, 1e5], [1, -1]),
        ({"c": pa.array(["z", "x"], pa.large_string())}, [-2.5, 1e5], [1, -1]),
    ],
)
def test_types_that_are_read(tmp_path, changes, a, label):
    samples = read_table([small(tmp_path / "t", **changes)], TABLE, SIGNS)
    assert samples.features[:, 0].tolist() == a
    assert samples.label.tolist() == label
    assert samples.features[:, 1:4].tolist() == [[0, 0, 1], [1, 0, 0]]


def test_days_are_kept_as_texts(tmp_path):
    days = [datetime.date(2026, 1, 2), datetime.date(2025, 12, 31)]
    samples = read_table([small(tmp_path / "t", user=days)], TABLE, SIGNS)
    assert samples.kept["user"] == ["2026-01-02", "2025-12-31"]


def test_files_of_a_split_follow_each_other(tmp_path):
    files = [{"path": name} for name in ("b", "a")]
    dataset = tiny(format="parquet", parquet=KEPT, features=7, splits={"train": {"files": files}})
    paths = [small(tmp_path / "b"), small(tmp_path / "a", user=["w", "u"], a=[3, 4])]
    samples = read_raw(dataset, "train", paths)
    assert samples.features[:, 0].tolist() == [-2.5, 1e5, 3, 4]
    assert samples.kept["user"] == ["u", "v", "w", "u"]
    assert dataset.feature_names[:2] == ["a", "c=x"] and dataset.numeric_columns == [0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"a": [1.0, None]}, "row 2: column 'a' lacks a value; 'drop_missing: true'"),
        ({"a": [float("nan"), 1.0]}, "row 1: column 'a' lacks a value"),
        ({"a": [1.0, float("inf")]}, "row 2: column 'a': 'inf' is not a finite number"),
        ({"c": ["z", "q"]}, "row 2: column 'c': 'q' is not one of those under 'values'"),
        ({"n": [-1, 3]}, "row 1: column 'n': '-1' is not a number from 0 on"),
        ({"y": [1, 2]}, "row 2: column 'y': '2' is not one of those under 'labels'"),
        ({"user": [["a"], ["b"]]}, "column 'user' holds list<"),
        ({"a": [b"1", b"2"]}, "column 'a' holds binary"),
        ({"more": [1, 2]}, "columns 'more' are not in the catalogue; the columns are: user, id"),
    ],
)
def test_errors_name_file_row_and_column(tmp_path, changes, told):
    with pytest.raises(FedatlasError) as error:
        read_table([small(tmp_path / "t", **changes)], TABLE, SIGNS)
    assert str(error.value).startswith(f"{tmp_path / 't'}: ") and told in str(error.value)


def test_a_column_that_is_missing_and_a_file_without_rows(tmp_path):
    path = stored(tmp_path / "t", y=[1], a=[1.0])
    with pytest.raises(FedatlasError, match=r"columns 'c', 'n', 'user', 'id' are missing"):
        read_table([path], TABLE, SIGNS)
    empty = stored(tmp_path / "e", y=pa.array([], pa.int8()), a=pa.array([], pa.float32()))
    with pytest.raises(FedatlasError, match="holds no samples"):
        read_table([empty], Columns(label="y", numeric=("a",)), SIGNS)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"y,a\n1,2\n", b"PAR1" + bytes(64) + b"PAR1"])
def test_what_is_no_parquet_is_an_error(tmp_path, content):
    with pytest.raises(FedatlasError, match=r"t: .*(no Parquet file|cannot be read)"):
        read_table([written(tmp_path / "t", content)], TABLE, SIGNS)
    with pytest.raises(FedatlasError, match=r"gone: cannot be read: No such file"):
        read_table([tmp_path / "gone"], TABLE, SIGNS)


def test_the_width_is_checked_before_anything_is_read():
    with pytest.raises(FedatlasError, match="columns under 'parquet' make 7 features"):
        tiny(format="parquet", parquet=KEPT, features=3)
