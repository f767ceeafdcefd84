import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.preprocessing import StandardScaler

from catalogue_entry import FILES, entry, prepared, tiny, written
from fedatlas.data.catalogue import prepare_split
from fedatlas.data.prepare import prepare, read_prepared
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest


def dataset(**changes):
    splits = {"train": {"files": FILES}, "test": {"files": FILES}}
    return tiny(**{"features": 6, "splits": splits, **changes})


@pytest.fixture
def sparse_file(tmp_path):
    return written(tmp_path / "tiny", "1 2:0.5 6:-3\n0\n1 1:4\n0 3:1\n")


@pytest.fixture
def dense_file(tmp_path):
    return written(tmp_path / "dense", "1 1:1 2:7 3:0.1\n0 1:3 2:7 3:0.1\n0 1:8 2:7 3:0.1\n")


def test_columns_that_no_row_has_are_told(tmp_path, sparse_file, dense_file, caplog):
    prepare(dataset(), "train", [sparse_file], tmp_path / "all.parquet")
    assert not caplog.records
    prepare(dataset(features=200), "train", [dense_file], tmp_path / "few.parquet")
    assert f"{dense_file}: has values in columns 1 to 3 only" in caplog.text
    assert (
        "key 'tiny.features', value 200, is to be 3 unless another split than 'train' has more"
        in caplog.text
    )


def test_sparse_rows_come_back_with_their_description(tmp_path, sparse_file):
    output = tmp_path / "prepared" / "train.parquet"
    prepare(dataset(), "train", [sparse_file], output)
    samples, metadata = read_prepared(output)
    assert samples.is_sparse
    assert samples.label.tolist() == [1, -1, 1, -1]
    assert samples.sample_id.tolist() == [0, 1, 2, 3]
    assert samples.features.toarray().tolist() == [
        [0, 0.5, 0, 0, 0, -3],
        [0, 0, 0, 0, 0, 0],
        [4, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
    ]
    assert metadata == {
        "dataset": "tiny",
        "split": "train",
        "task": "binary",
        "classes": None,
        "shape": None,
        "rows": 4,
        "features": 6,
        "non_zeros": 4,
        "layout": "sparse",
        "labels": {"0": -1.0, "1": 1.0},
        "raw": [{"file": "tiny", "sha256": file_digest(sparse_file)}],
        "feature_names": None,
        "numeric_columns": None,
        "standardised": None,
        "normalisation": None,
        "scaled_labels": None,
    }
    text = pq.read_schema(output).metadata[b"fedatlas"].decode()
    assert text == json.dumps(metadata, sort_keys=True, separators=(",", ":"))
    assert pq.read_schema(output).names == ["sample_id", "label", "indices", "values"]


def test_more_than_half_non_zeros_is_stored_dense(tmp_path):
    raw = tmp_path / "half"
    raw.write_text("1 1:1\n0 2:1\n")
    prepare(dataset(features=2), "train", [raw], tmp_path / "half.parquet")
    assert read_prepared(tmp_path / "half.parquet")[1]["layout"] == "sparse"
    raw.write_text("1 1:1\n0 1:2 2:1\n")
    prepare(dataset(features=2), "train", [raw], tmp_path / "more.parquet")
    samples, metadata = read_prepared(tmp_path / "more.parquet")
    assert metadata["layout"] == "dense"
    assert samples.features.tolist() == [[1, 0], [2, 1]]
    assert pq.read_schema(tmp_path / "more.parquet").names == ["sample_id", "label", "features"]


def test_the_same_input_gives_the_same_bytes(tmp_path, sparse_file):
    for name in ("a", "b"):
        prepare(dataset(), "train", [sparse_file], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_standardising_uses_the_statistics_of_train(tmp_path, dense_file, caplog):
    other = written(tmp_path / "other", "1 1:5 2:9 3:1\n")
    scaled = dataset(features=3, standardise=True)
    found = prepared(scaled, tmp_path, train=[dense_file], test=[other])
    samples, metadata = found["train"]
    deviation = np.sqrt(((1 - 4) ** 2 + (3 - 4) ** 2 + (8 - 4) ** 2) / 3)
    expected = np.array([[-3, 0, 0], [-1, 0, 0], [4, 0, 0]]) / deviation
    np.testing.assert_allclose(samples.features, expected, rtol=1e-14)
    # 0.1 is no binary fraction: its mean is off by rounding, yet the column is exactly 0.
    assert not samples.features[:, 1:].any()
    assert metadata["standardised"]["scale"] == pytest.approx([deviation, 0, 0], rel=1e-14)
    assert (
        "split 'train': constant columns (counted from 0), which 'standardise' makes 0: 1, 2"
        in caplog.text
    )
    np.testing.assert_allclose(found["test"][0].features, [[1 / deviation, 0, 0]], rtol=1e-14)


def test_standardising_a_table_is_that_of_scikit_learn_and_leaves_indicators(tmp_path):
    random = np.random.default_rng(1)
    numbers = random.normal([40, 3e4, 1], [15, 2e4, 1e-3], (60, 3))
    grades = random.choice(["a", "b", "c"], 60)
    for name, rows in (("train", range(40)), ("test", range(40, 60))):
        lines = [f"{i % 2},{','.join(map(repr, numbers[i].tolist()))},{grades[i]}" for i in rows]
        (tmp_path / name).write_text("\n".join(["y,age,income,rate,grade", *lines]))
    columns = {"label": "y", "numeric": ["age", "income", "rate"]}
    columns["one_hot"] = [{"column": "grade", "values": ["a", "b", "c"]}]
    table = dataset(format="csv", features=6, csv=columns, standardise=True)
    found = prepared(table, tmp_path, train=[tmp_path / "train"], test=[tmp_path / "test"])
    expected = StandardScaler().fit(numbers[:40])
    for name, rows in (("train", slice(40)), ("test", slice(40, 60))):
        features = found[name][0].features
        np.testing.assert_allclose(features[:, :3], expected.transform(numbers[rows]), rtol=1e-9)
        assert (features[:, 3:] == (grades[rows, np.newaxis] == ["a", "b", "c"])).all()


YEARS = {"features": 3, "task": "regression", "labels": None}


def test_other_splits_need_the_split_train(tmp_path):
    raw, output = written(tmp_path / "raw", "1950 1:3\n2010 2:5\n"), tmp_path / "out.parquet"
    with pytest.raises(FedatlasError, match="'test': scaling needs the prepared split 'train'"):
        prepare(dataset(**YEARS, scale_labels="min_max"), "test", [raw], output)
    assert not output.exists()


@pytest.mark.parametrize("scaling", [{"standardise": True}, {"normalise": "from_train"}])
def test_sparse_rows_are_not_made_dense(tmp_path, sparse_file, scaling):
    sparse = dataset(**scaling, **({"shape": (1, 2, 3)} if "normalise" in scaling else {}))
    with pytest.raises(
        FedatlasError, match=f"'{next(iter(scaling))}' would make sparse rows dense"
    ):
        prepare(sparse, "train", [sparse_file], tmp_path / "out.parquet")


@pytest.mark.parametrize("split", ["train", "test"])
def test_values_too_large_to_be_scaled_are_named(tmp_path, split):
    table = {"label": "y", "numeric": ["age", "income"]}
    huge = dataset(
        format="csv", features=2, csv=table, standardise=True, task="regression", labels=None
    )
    plain, bad, train = (tmp_path / name for name in ("plain", "bad", "train.parquet"))
    plain.write_text("y,age,income\n1,1,3\n0,2,5\n")
    bad.write_text("y,age,income\n1,1,3\n0,2,-1e200\n3e300,1,1\n")
    prepare(huge, "train", [plain], train)
    with pytest.raises(FedatlasError, match=r"bad: column 'income': the value -1e\+200 is too lar"):
        prepare(huge, split, [bad], tmp_path / "out.parquet", train=train)
    labels = huge.model_copy(update={"standardise": False, "scale_labels": "min_max"})
    with pytest.raises(FedatlasError, match=r"bad: column 'label': the value 3e\+300 is too large"):
        prepare(labels, "train", [bad], tmp_path / "out.parquet")
    prepare(
        labels.model_copy(update={"scale_labels": None}), split, [bad], tmp_path / "out.parquet"
    )


def test_labels_are_scaled_by_the_extremes_of_train(tmp_path):
    years = dataset(**YEARS, scale_labels="min_max")
    raw = written(tmp_path / "raw", "1950 1:3\n2010 2:5\n1980 1:1\n")
    other = written(tmp_path / "other", "2040 1:1\n1950 1:1\n")
    found = prepared(years, tmp_path, train=[raw], test=[other])
    samples, metadata = found["train"]
    assert samples.label.tolist() == [0, 1, 0.5]
    assert samples.features.toarray().tolist() == [[3, 0, 0], [0, 5, 0], [1, 0, 0]]
    assert metadata["scaled_labels"] == {"minimum": 1950, "maximum": 2010}
    assert metadata["standardised"] is None
    assert found["test"][0].label.tolist() == [1.5, 0]


def test_labels_that_are_all_equal_cannot_be_scaled(tmp_path):
    raw = written(tmp_path / "raw", "1950 1:3\n1950 2:5\n")
    years = dataset(**YEARS, scale_labels="min_max")
    with pytest.raises(FedatlasError, match="'train': every label is 1950, which 'scale_labels"):
        prepare(years, "train", [raw], tmp_path / "out.parquet")


def test_a_table_says_which_features_are_numbers(tmp_path):
    raw = tmp_path / "raw.csv"
    raw.write_text("colour,y,size\nred,1,5\nblue,0,\ngreen,0,7\n")
    table = dataset(
        format="csv",
        features=4,
        csv={
            "label": "y",
            "numeric": ["size"],
            "one_hot": [{"column": "colour", "values": ["red", "green", "blue"]}],
            "drop_missing": True,
        },
    )
    prepare(table, "train", [raw], tmp_path / "out.parquet")
    samples, metadata = read_prepared(tmp_path / "out.parquet")
    assert samples.features.tolist() == [[5, 1, 0, 0], [7, 0, 1, 0]]
    assert samples.sample_id.tolist() == [0, 1] and samples.label.tolist() == [1, -1]
    assert metadata["layout"] == "dense" and metadata["rows"] == 2
    assert metadata["feature_names"] == ["size", "colour=red", "colour=green", "colour=blue"]
    assert metadata["numeric_columns"] == [0]


def test_row_groups_are_bounded_in_bytes(tmp_path, monkeypatch):
    raw = tmp_path / "wide"
    values = " ".join(f"{j}:0.5" for j in range(1, 9))
    raw.write_text("".join(f"{i % 2} {values}\n" for i in range(300)))
    row_bytes = 8 * (1 + 1 + 8)  # sample_id, label and eight features
    monkeypatch.setattr("fedatlas.data.prepare.ROW_GROUP_BYTES", 100 * row_bytes)
    prepare(dataset(features=8), "train", [raw], tmp_path / "wide.parquet")
    metadata = pq.read_metadata(tmp_path / "wide.parquet")
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sum(groups) == 300
    assert len(groups) >= 3 and 90 <= max(groups) <= 100
    samples, _ = read_prepared(tmp_path / "wide.parquet")
    assert samples.features.tolist() == [[0.5] * 8] * 300


def test_a_malformed_raw_file_leaves_nothing(tmp_path, sparse_file):
    sparse_file.write_text("1 2:0.5\n1 7:1\n")
    output = tmp_path / "prepared" / "train.parquet"
    with pytest.raises(FedatlasError, match="tiny:2: feature index 7, but 6"):
        prepare(dataset(), "train", [sparse_file], output)
    assert not output.parent.exists()


def test_files_that_are_not_prepared_are_refused_by_name(tmp_path):
    path = tmp_path / "seed=1" / "x.parquet"
    path.parent.mkdir()
    with pytest.raises(FedatlasError, match=r"x\.parquet: no such file"):
        read_prepared(path)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(
        FedatlasError, match=r"x\.parquet: is truncated, damaged or no Parquet file"
    ):
        read_prepared(path)
    table = pa.table({"sample_id": [0], "label": [1.0]})
    for metadata in (None, {"fedatlas": "not JSON"}, {"fedatlas": "[]"}, {"fedatlas": "{}"}):
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(
            FedatlasError,
            match=r"x\.parquet: (lacks the schema metadata|its 'fedatlas' metadata lack)",
        ):
            read_prepared(path)


def test_flipped_bits_are_noticed(tmp_path, sparse_file):
    path = tmp_path / "train.parquet"
    prepare(dataset(), "train", [sparse_file], path)
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(
        FedatlasError, match=r"train\.parquet: is truncated, damaged or no Parquet file"
    ):
        read_prepared(path)


OWN = {"path": "libsvm/own"}
SHARED = {"path": "libsvm/own", "urls": ["https://example.org/own"]}


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        (OWN, ["Where the file is at fault, mend mirror/libsvm/own; copy is its copy"]),
        (SHARED, ["To take another libsvm/own than the first, delete copyLINE, and run again"]),
        (SHARED | {"checksum": f"md5:{'0' * 32}"}, []),
    ],
)
@pytest.mark.parametrize("line", ["", " and the line of libsvm/own in lock"])
def test_a_malformed_file_is_traced_to_where_it_is_to_be_mended(tmp_path, file, remedy, line):
    if line:
        written(tmp_path / "lock", json.dumps({"libsvm/own": f"sha256:{'0' * 64}"}))
    fault = "copy:2: missing label: the line is blank"
    for rows, content in ((None, "1 1:1\n\n0 1:2\n"), (9, "1 1:1\n0 1:2\n")):
        tiny = entry(splits={"train": {"files": [file], "rows": rows}})
        catalogue = written(tmp_path / "datasets.yaml", yaml.safe_dump({"tiny": tiny}))
        places = {name: tmp_path / name for name in ("mirror", "lock", "output")}
        raw = [written(tmp_path / "copy", content)]
        with pytest.raises(FedatlasError) as caught:
            prepare_split("tiny", "train", [catalogue], raw=raw, **places)
        first, *told = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
        assert (first == fault) == (rows is None)
        assert told == [text.replace("LINE", line) for text in remedy]
