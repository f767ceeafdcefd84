import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets
from sklearn.datasets import dump_svmlight_file

from catalogue_entry import FILES, PUBLISHED, tiny, written
from fedatlas.data.formats import libsvm, read_raw
from fedatlas.data.formats.libsvm import read_libsvm
from fedatlas.data.reading import count_non_zeros
from fedatlas.errors import FedatlasError

SIGNS = {-1: -1.0, 1: 1.0}


def plain_parse(text, features):
    """What the format means, for text that is known to be well formed."""
    labels, rows = [], []
    for line in text.splitlines():
        label, *fields = line.split("#")[0].split()
        row = [0.0] * features
        for field in fields:
            index, value = field.split(":")
            row[int(index) - 1] = float(value)
        labels.append(float(label))
        rows.append(row)
    return np.array(labels), np.array(rows)


def dataset(**changes):
    return tiny(**{"labels": {-1: -1, 1: 1}, **changes})


FEATURES = 9
values = st.floats(allow_nan=False, allow_infinity=False)
rows = st.dictionaries(st.integers(1, FEATURES), values, max_size=FEATURES)


@settings(max_examples=100)
def dense(features):
    return features if isinstance(features, np.ndarray) else features.toarray()


@given(
    st.lists(st.tuples(st.sampled_from([-1.0, 1.0]), rows), min_size=1, max_size=12),
    st.sampled_from(["\n", "\r\n", " \n", " # note 1:2\n"]),
    st.booleans(),
    st.sampled_from([1, 20, 1 << 20]),
)
def test_what_is_written_is_read_back(tmp_path, data, ending, final_line_end, at_once):
    lines = [
        " ".join([f"{label:+g}", *(f"{i}:{row[i]!r}" for i in sorted(row))]) for label, row in data
    ]
    text = ending.join(lines) + (ending if final_line_end else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libsvm, "_READ_BYTES", at_once)
        patch.setattr(libsvm, "_PARSED_BYTES", at_once)
        samples = read_libsvm(written(tmp_path / "data", text), FEATURES, SIGNS)
    label, features = plain_parse("\n".join(lines), FEATURES)
    assert samples.label.tolist() == label.tolist()
    assert np.array_equal(dense(samples.features), features)
    assert samples.sample_id.tolist() == list(range(len(data)))
    assert count_non_zeros(samples.features) == np.count_nonzero(features)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 3:", "'3:' is not index:value; is the line cut short?"),
        ("1 1:0.5 2", "'2' is not index:value; is the line cut short?"),
        ("1 :2", "':2' is not index:value"),
        ("1 0:1", "feature index 0; indices start at 1"),
        ("1 -1:1", "feature index -1; indices start at 1"),
        ("1 5:1", "feature index 5, but 4 features are declared"),
        ("1 " + "9" * 5000 + ":1", "but 4 features are declared"),
        ("1 1:" + "9" * 5000, "is not a finite number"),
        ("1 \u0661:\u0661", "is not a"),
        ("1 2:1 1:1", "feature index 1 after 2; sort them"),
        ("1 1:1 1:2", "feature index 1 occurs twice"),
        ("1 1.5:2", "feature index '1.5' is not a whole number"),
        ("1 1_0:2", "feature index '1_0' is not a whole number"),
        ("1 1:1 qid:3", "feature index 'qid' is not a whole number"),
        ("1 qid:a 1:1", "feature index 'qid' is not a whole number"),
        ("1 3: 4:1", "value '4:1' is not a finite number"),
        ("1 1:abc", "value 'abc' is not a finite number"),
        ("1 1:nan", "value 'nan' is not a finite number"),
        ("1 1:-inf", "value '-inf' is not a finite number"),
        ("1 1:1e400", "value '1e400' is not a finite number"),
        ("1 1:1_0", "value '1_0' is not a finite number"),
        ("1 1:2:3", "value '2:3' is not a finite number"),
        ("1 1:\uff11", "value '\uff11' is not a finite number"),
        ("2 1:1", "label '2' is not one of those under 'labels' in the catalogue: -1, 1"),
        ("abc 1:1", "label 'abc' is not a finite number"),
        ("nan 1:1", "label 'nan' is not a finite number"),
        ("1e999 1:1", "label '1e999' is not a finite number"),
        ("1:1 2:1", "missing label: the line starts with '1:1'"),
        ("", "missing label: the line is blank"),
        (" \t", "missing label: the line is blank"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(tmp_path, line, problem):
    path = written(tmp_path / "a9a", f"+1 1:1 4:1\n{line}\n-1\n")
    with pytest.raises(FedatlasError) as caught:
        read_libsvm(path, 4, SIGNS)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing here\n", " \r\n"])
def test_a_file_without_samples_is_refused(tmp_path, content):
    path = written(tmp_path / "a9a", content)
    with pytest.raises(FedatlasError, match="a9a: holds no samples"):
        read_libsvm(path, 4, SIGNS)


CSV = {"format": "csv", "csv": {"label": "y", "numeric": ["a", "b", "c"]}}
IDX, CIFAR = ({"format": format, "shape": (3, 1, 1)} for format in ("idx", "cifar"))


@pytest.mark.parametrize(
    ("changes", "name"),
    [({}, "a"), (CSV, "a.csv"), (IDX, "a"), (CIFAR, "batch"), (CIFAR, "batch.bin")],
)
def test_missing_files_folders_and_other_numbers_of_files_are_refused(tmp_path, changes, name):
    files = FILES * 2 if changes is IDX else FILES
    described = dataset(**changes, splits={"train": {"files": files}})
    (tmp_path / "folder" / name).mkdir(parents=True)
    for path in (tmp_path / name, tmp_path / "folder" / name):
        with pytest.raises(FedatlasError, match=rf"{path}: cannot be read: (No such|Is a direc)"):
            read_raw(described, "train", [path] * len(files))
    with pytest.raises(FedatlasError, match=f"expected {len(files)} raw files, got 0"):
        read_raw(described, "train", [])


def test_blank_lines_at_the_end_comments_and_explicit_zeros_are_tolerated(tmp_path):
    text = "# header\r\n1 1:0 2:5 # first\r\n# between\r\n-1.0\r\n\r\n \r\n"
    samples = read_libsvm(written(tmp_path / "a", text), 3, {1: 1.0, -1: -1.0})
    assert samples.label.tolist() == [1, -1]
    assert dense(samples.features).tolist() == [[0, 5, 0], [0, 0, 0]]
    assert count_non_zeros(samples.features) == 1


def test_labels_are_compared_as_numbers_and_regression_labels_pass(tmp_path):
    path = written(tmp_path / "a", "+1 1:1\n1 1:1\n1.0 1:1\n2e0 1:1\n")
    assert read_libsvm(path, 1, {1: -1.0, 2: 1.0}).label.tolist() == [-1, -1, -1, 1]
    path = written(tmp_path / "b", "1998.5 1:1\n-3 1:1\n")
    assert read_libsvm(path, 1, None).label.tolist() == [1998.5, -3]


def test_a_mark_at_the_start_blanks_in_pairs_and_queries_are_read(tmp_path, caplog):
    text = "\ufeff1 1:2 3: .50\r\n-1 qid:4 2:\t7 3:1e0 # 5: 6\n1  qid:12\n"
    samples = read_libsvm(written(tmp_path / "a", text), 3, SIGNS)
    assert samples.label.tolist() == [1, -1, 1]
    assert dense(samples.features).tolist() == [[2, 0, 0.5], [0, 7, 1], [0, 0, 0]]
    assert caplog.text.count("a: its queries, 'qid:…', are left out") == 1


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-1.0, 1.0]), st.dictionaries(st.integers(1, 9), st.floats(-9, 9))
        ),
        min_size=1,
        max_size=9,
    ),
    st.booleans(),
)
def test_indices_may_start_at_0(tmp_path, data, zero_based):
    features = np.zeros((len(data), FEATURES))
    for row, (_, pairs) in zip(features, data, strict=True):
        row[[i - 1 for i in pairs]] = list(pairs.values())
    path = tmp_path / "a"
    dump_svmlight_file(features, [label for label, _ in data], str(path), zero_based=zero_based)
    first = 0 if zero_based else 1
    samples = read_libsvm(path, FEATURES, SIGNS, first)
    assert np.allclose(dense(samples.features), features, rtol=1e-14, atol=0)
    over = written(path, f"1 {FEATURES + first}:1\n")
    with pytest.raises(FedatlasError, match=f"index {FEATURES + first}, but 9 .*, from {first} on"):
        read_libsvm(over, FEATURES, SIGNS, first)


def test_an_index_of_0_asks_for_its_key(tmp_path):
    path = written(tmp_path / "a", "1 0:1 1:2\n-1 0:3\n")
    with pytest.raises(FedatlasError, match=r"a:1: feature index 0; .* state 'first_index: 0' if"):
        read_raw(dataset(), "train", [path])
    samples = read_raw(dataset(first_index=0), "train", [path])
    assert dense(samples.features).tolist() == [[1, 2, 0], [3, 0, 0]]


def test_the_bundled_sets_hold_what_their_publishers_say():
    samples = read_raw(PUBLISHED["breast-cancer"], "train", [])
    assert samples.features.shape == (569, 30)
    assert (samples.label == -1).sum() == 212  # malignant
    assert (samples.label == 1).sum() == 357
    assert samples.features[0, 0] == 17.99  # raw values, not scaled ones
    samples = read_raw(PUBLISHED["digits"], "train", [])
    assert samples.features.shape == (1797, 64)
    assert samples.features.min() == 0 and samples.features.max() == 16
    assert np.bincount(samples.label.astype(int)).tolist() == [
        *(178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
    ]
    for name in ("breast_cancer", "digits"):
        raw = read_raw(PUBLISHED[name.replace("_", "-")], "train", [])
        features, _ = getattr(datasets, f"load_{name}")(return_X_y=True)
        np.testing.assert_array_equal(raw.features, features)
    # FMGDA section 5.3: x = 1 is positive, x = -1 negative.
    samples = read_raw(PUBLISHED["two-points"], "train", [])
    assert samples.features.tolist() == [[1.0], [-1.0]]
    assert samples.label.tolist() == [1.0, -1.0]


def test_bundled_data_that_the_entry_describes_wrongly_are_refused():
    bundled = {"format": "bundled", "bundled": "breast_cancer", "splits": {"train": {}}}
    with pytest.raises(FedatlasError, match="29 features are declared, found 30"):
        read_raw(dataset(**bundled, features=29, labels={0: -1, 1: 1}), "train", [])
    with pytest.raises(FedatlasError, match="label 0 of sample 0 is not one of those"):
        read_raw(dataset(**bundled, features=30, labels={2: -1, 1: 1}), "train", [])


def test_the_number_of_rows_is_checked(tmp_path):
    path = written(tmp_path / "a", "1 1:1\n-1 2:1\n")
    short = {"train": {"rows": 3, "files": FILES}}
    with pytest.raises(FedatlasError, match=r"expected 3 rows, found 2 in .*cut short"):
        read_raw(dataset(splits=short), "train", [path])


def test_multiclass_labels_must_be_classes(tmp_path):
    path = written(tmp_path / "a", "1 1:1\n3 2:1\n")
    many = {"task": "multiclass", "classes": 3}
    with pytest.raises(FedatlasError, match=r"label 3 of sample 1 is not .* a class from 0 to 2"):
        read_raw(dataset(**many, labels=None), "train", [path])
    mapped = read_raw(dataset(**many, labels={1: 0, 2: 1, 3: 2}), "train", [path])
    assert mapped.label.tolist() == [0, 2]
