import os
import pickle
import struct
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalogue_entry import PUBLISHED, image_entry, prepared, tiny_images
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.download import Fetching, download
from fedatlas.data.formats import dataset_of, read_raw
from fedatlas.data.prepare import prepare, read_prepared
from fedatlas.data.tables import from_table, to_table
from fedatlas.errors import FedatlasError

SHAPE = (3, 2, 2)
D = 12


def dataset(files=1, **changes):
    return tiny_images(files, **{"shape": SHAPE, **changes})


def some_pixels(n, d=D, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, d), dtype=np.uint8)


# ------------------------------------------------------------------------------------------- IDX


def idx_bytes(values, kind=8):
    header = bytes([0, 0, kind, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def idx_files(folder, images=None, labels=None):
    folder.mkdir(exist_ok=True)
    paths = [folder / "images", folder / "labels"]
    images = idx_bytes(some_pixels(3, 6).reshape(3, 2, 3)) if images is None else images
    labels = idx_bytes(np.array([2, 0, 1])) if labels is None else labels
    for path, content in zip(paths, (images, labels), strict=True):
        path.write_bytes(content)
    return paths


def idx_set(**changes):
    return dataset(**{"files": 2, "format": "idx", "shape": (1, 2, 3), "features": 6, **changes})


def test_idx_images_are_read_row_by_row(tmp_path):
    samples = read_raw(idx_set(), "train", idx_files(tmp_path))
    assert samples.features.dtype == np.uint8 and samples.layout == "tensor"
    assert np.array_equal(samples.features, some_pixels(3, 6))
    assert samples.label.tolist() == [2, 0, 1] and samples.label.dtype == np.float64
    assert samples.sample_id.tolist() == [0, 1, 2]


def test_idx_images_of_several_channels_hold_them_first(tmp_path):
    raw = idx_files(tmp_path, idx_bytes(some_pixels(3).reshape(3, *SHAPE)))
    assert np.array_equal(
        read_raw(idx_set(shape=SHAPE, features=D), "train", raw).features, some_pixels(3)
    )


def test_labels_of_images_may_be_mapped(tmp_path):
    signs = {"task": "binary", "classes": None, "labels": {0: -1, 1: 1, 2: -1}}
    samples = read_raw(idx_set(**signs), "train", idx_files(tmp_path))
    assert samples.label.tolist() == [-1, -1, 1]
    signs["labels"] = {0: -1, 1: 1}
    with pytest.raises(FedatlasError, match=r"labels: label 2 of sample 0 is not one of those"):
        read_raw(idx_set(**signs), "train", idx_files(tmp_path))


IMAGES = idx_bytes(some_pixels(3, 6).reshape(3, 2, 3))
LABELS = idx_bytes(np.array([2, 0, 1]))


@pytest.mark.parametrize(
    ("images", "labels", "problem"),
    [
        (b"", None, "images: starts with the bytes '', expected '00 00 08 03'"),
        (b"\x1f\x8b\x08\x00", None, "images: starts with the bytes '1f 8b 08 00'"),
        (b"\0\0\x0d" + IMAGES[3:], None, "images: starts with the bytes '00 00 0d 03'"),
        (LABELS, None, "images: starts with the bytes '00 00 08 01'"),
        (None, IMAGES, "labels: starts with the bytes '00 00 08 03', expected '00 00 08 01' or"),
        (None, b"\0\0\x0d" + LABELS[3:], "labels: starts with the bytes '00 00 0d 01'"),
        (IMAGES[:9], None, "images: .* and the 16 bytes of a header: it is cut short"),
        (IMAGES[:-1], None, "images: is 33 bytes long, but its header promises 3 .* in 34 bytes"),
        (IMAGES + b"\0", None, "images: is 35 bytes long"),
        (None, LABELS[:-1], "labels: is 10 bytes long"),
        (idx_bytes(np.zeros((3, 3, 2))), None, r"the shape \(3, 2\), expected \(2, 3\)"),
        (idx_bytes(np.zeros((0, 2, 3))), None, "images: .* promises 0 samples .* it is empty"),
        (None, idx_bytes(np.zeros(4)), "labels: holds 4 labels, but .*images holds 3 images"),
        (None, idx_bytes(np.array([0, 3, 1])), "label 3 of sample 1 is not .* a class"),
        (b"\0\0\x08\x03" + b"\xff" * 4 + IMAGES[8:], None, "promises 4294967295 samples"),
    ],
)
def test_idx_files_that_are_not_as_declared_are_refused(tmp_path, images, labels, problem):
    with pytest.raises(FedatlasError, match=problem):
        read_raw(idx_set(), "train", idx_files(tmp_path / "raw", images, labels))


@pytest.mark.parametrize(("kind", "dtype"), [(9, "i1"), (11, ">i2"), (12, ">i4")])
def test_idx_labels_may_be_of_other_widths(tmp_path, kind, dtype):
    labels = bytes([0, 0, kind, 1]) + struct.pack(">I", 3) + np.array([1, -2, 0], dtype).tobytes()
    coded = idx_set(labels={-2: 2, 0: 0, 1: 1})
    assert read_raw(coded, "train", idx_files(tmp_path, None, labels)).label.tolist() == [1, 2, 0]
    with pytest.raises(FedatlasError, match="bytes long, but its header promises 3 samples"):
        read_raw(coded, "train", idx_files(tmp_path, None, labels[:-1]))


# ------------------------------------------------------------------------------------------ CIFAR


def short(text):
    return b"U" + bytes([len(text)]) + text


def small(number):
    return b"K" + bytes([number])


def put(place):
    return b"q" + bytes([place]) if place < 256 else b"r" + struct.pack("<i", place)


def batch_bytes(pixels, labels, dtype=b"u1", shape=None, fortran=b"\x89", extra=b""):
    """A batch as Python 2 pickled it, opcode by opcode."""
    n, d = shape or pixels.shape
    puts = iter(range(1, 1000))
    content = pixels.tobytes()

    def kept(code):
        return code + put(next(puts))

    array = (
        kept(b"cnumpy.core.multiarray\n_reconstruct\n")
        + kept(b"cnumpy\nndarray\n")
        + small(0) + b"\x85" + short(b"b") + b"\x87R"
    )  # fmt: skip
    shape_code = b"(" + small(1) + b"".join(
        small(k) if k < 256 else b"M" + struct.pack("<H", k) for k in (n, d)
    ) + b"\x86"  # fmt: skip
    type_code = (
        kept(b"cnumpy\ndtype\n") + short(dtype) + small(0) + small(1) + b"\x87R"
        + b"(" + small(3) + short(b"|") + b"NNN" + 2 * (b"J" + b"\xff" * 4) + small(0) + b"tb"
    )  # fmt: skip
    pixel_code = b"T" + struct.pack("<i", len(content)) + content
    return (
        b"\x80\x02" + kept(b"}") + b"("
        + kept(short(b"batch_label")) + kept(short(b"training batch 1 of 5"))
        + kept(short(b"labels")) + kept(b"]") + b"(" + b"".join(map(small, labels)) + b"e"
        + kept(short(b"data")) + array + shape_code + type_code + fortran + pixel_code + b"tb"
        + kept(short(b"filenames")) + kept(b"]")
        + b"(" + b"".join(kept(short(b"%d.png" % k)) for k in range(n)) + b"e"
        + extra + b"u."
    )  # fmt: skip


def record_bytes(pixels, labels):
    return np.column_stack([np.array(labels, np.uint8), pixels]).tobytes()


def batch_file(folder, content, name="batch"):
    path = folder / name
    path.write_bytes(content)
    return path


def read_batches(*paths, **changes):
    return read_raw(dataset(files=len(paths), format="cifar", **changes), "train", list(paths))


PIXELS = some_pixels(4)
BATCH = batch_bytes(PIXELS, [0, 1, 2, 1])


def test_batches_are_read_in_order(tmp_path):
    other = some_pixels(2, seed=1)
    samples = read_batches(
        batch_file(tmp_path, BATCH, "a"), batch_file(tmp_path, batch_bytes(other, [2, 2]), "b")
    )
    assert samples.features.dtype == np.uint8
    assert np.array_equal(samples.features, np.concatenate([PIXELS, other]))
    assert samples.label.tolist() == [0, 1, 2, 1, 2, 2]
    assert samples.sample_id.tolist() == list(range(6))


def test_the_binary_version_holds_the_same(tmp_path):
    path = batch_file(tmp_path, record_bytes(PIXELS, [0, 1, 2, 1]), "a.bin")
    samples = read_batches(path, path)
    assert np.array_equal(samples.features, np.concatenate([PIXELS, PIXELS]))
    assert samples.label.tolist() == [0, 1, 2, 1] * 2
    assert np.array_equal(read_batches(path).features, PIXELS)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", r"a\.bin: is 0 bytes long, which is no multiple of the 13 bytes"),
        (record_bytes(PIXELS, [0] * 4)[:-1], r"a\.bin: is 51 bytes long, .*it is cut short"),
        (record_bytes(PIXELS, [0, 1, 3, 0]), r"a\.bin: label 3 of sample 2 is not .* a class"),
    ],
)
def test_records_that_are_not_as_declared_are_refused(tmp_path, content, problem):
    with pytest.raises(FedatlasError, match=problem):
        read_batches(batch_file(tmp_path, content, "a.bin"))


def test_of_two_labels_the_one_that_is_named_counts(tmp_path):
    coarse, fine = [0, 1, 1, 0], [2, 0, 1, 1]
    two = np.column_stack([coarse, fine, PIXELS]).astype(np.uint8).tobytes()
    binary = batch_file(tmp_path, two, "train.bin")
    second = short(b"coarse_labels") + b"](" + b"".join(map(small, coarse)) + b"e"
    pickled = batch_bytes(PIXELS, fine, extra=second).replace(
        short(b"labels"), short(b"fine_labels")
    )
    batch = batch_file(tmp_path, pickled, "train")
    for path in (binary, batch):
        assert read_batches(path, cifar_label="fine").label.tolist() == fine
        samples = read_batches(path, cifar_label="coarse")
        assert samples.label.tolist() == coarse
        assert np.array_equal(samples.features, PIXELS)
        with pytest.raises(FedatlasError, match=r"train.*state 'cifar_label: fine'"):
            read_batches(path)


NO_BATCH = "batch: is no Python batch of CIFAR .*refused"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", NO_BATCH),
        (BATCH[:-1], NO_BATCH),
        (batch_bytes(PIXELS, [0, 1, 2]), NO_BATCH),
        (batch_bytes(PIXELS, [0] * 4, shape=(5, 12)), NO_BATCH),
        (batch_bytes(PIXELS[:0], []), "holds 0 images"),
        (batch_bytes(PIXELS, [0] * 12, shape=(12, 4)), "12 images of 4 values, expected 12"),
        (batch_bytes(PIXELS, [0] * 4, dtype=b"i1"), NO_BATCH),
        (batch_bytes(PIXELS, [0, 1, 3, 0]), "batch: label 3 of sample 2 is not .* a class"),
        (BATCH.replace(b"labels", b"lapels"), NO_BATCH),
        (BATCH.replace(b"ndarray", b"loadtxt"), r"it asks for numpy\.loadtxt.*refused"),
        (b"\x80\x02]q\x01.", NO_BATCH),
        (b"\x80\x02r\xff\xff\xff\x7f.", NO_BATCH),  # a place in a memo of 2³¹
        (b"\x80\x02Pperson\n.", NO_BATCH),
        (b"\x80\x02U\x01aQ.", NO_BATCH),
    ],
)
def test_pickles_that_are_no_batches_are_refused(tmp_path, content, problem):
    with pytest.raises(FedatlasError, match=problem) as caught:
        read_batches(batch_file(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path / 'batch'}: ")


class Malicious:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path, protocol):
    trace = tmp_path / "executed"
    path = batch_file(tmp_path, pickle.dumps(Malicious(f"touch {trace}"), protocol))
    with pytest.raises(FedatlasError, match=r"batch: .*refused"):
        read_batches(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "name", [b"posix\nsystem", b"os\nsystem", b"builtins\neval", b"numpy\nload"]
)
def test_a_call_within_a_batch_is_refused_and_not_executed(tmp_path, name):
    # Made of opcodes that batches hold, so that only the names stand between it and a shell.
    trace = tmp_path / "executed"
    call = b"c" + name + b"\n" + short(f"touch {trace}".encode()) + b"\x85R0"
    with pytest.raises(FedatlasError, match="refused"):
        read_batches(batch_file(tmp_path, batch_bytes(PIXELS, [0] * 4, extra=call)))
    call = b"\x80\x02(c" + name + b"\n" + short(f"touch {trace}".encode()) + b"\x85Rt."
    module, function = name.decode().split("\n")
    with pytest.raises(FedatlasError, match=rf"it asks for {module}\.{function}.*refused"):
        read_batches(batch_file(tmp_path, call))
    assert not trace.exists()


# ---------------------------------------------------------------------------------------- storage


def tensor_table(n=7):
    return to_table(Samples(np.arange(n), np.arange(n) % 3.0, some_pixels(n)), SHAPE)


def test_images_are_tensors_of_their_shape():
    table = tensor_table()
    assert table.schema.field("features").type == pa.fixed_shape_tensor(pa.uint8(), SHAPE)
    assert np.array_equal(
        table["features"].chunk(0).to_numpy_ndarray(), some_pixels(7).reshape(7, *SHAPE)
    )
    plain = to_table(Samples(np.arange(7), np.zeros(7), some_pixels(7)))
    assert plain.schema.field("features").type == pa.fixed_shape_tensor(pa.uint8(), (D,))
    with pytest.raises(FedatlasError, match=r"samples of shape \(2, 2\) do not hold 12"):
        to_table(Samples(np.arange(7), np.zeros(7), some_pixels(7)), (2, 2))


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (lambda table: table, range(7)),
        (lambda table: table.take([5, 0, 0]), [5, 0, 0]),
        (lambda table: table.take(pa.array([], pa.int64())), []),
        (lambda table: table.slice(2, 3), [2, 3, 4]),
        (lambda table: table.slice(2).take([1, 0]), [3, 2]),
        (lambda table: pa.concat_tables([table.slice(5), table]), [5, 6, *range(7)]),
        (lambda table: pa.concat_tables([table, table.slice(3)]).take([8, 1]), [4, 1]),
        (lambda table: pa.concat_tables([table, table]).combine_chunks().slice(6, 2), [6, 0]),
        (lambda table: table.slice(1, 2).combine_chunks(), [1, 2]),
    ],
)
def test_images_survive_what_is_done_to_tables(change, rows):
    samples = from_table(change(tensor_table()), D)
    assert samples.features.dtype == np.uint8
    assert samples.features.shape == (len(rows), D)
    assert np.array_equal(samples.features, some_pixels(7)[list(rows)])
    assert samples.sample_id.tolist() == list(rows)


# ------------------------------------------------------------------------------------ preparation


def binary_set(**changes):
    plain = image_entry(name="tiny", files=1, shape=SHAPE, format="cifar")
    plain["splits"]["test"] = plain["splits"]["train"]
    return dataset_of({**plain, **changes}, "catalogue")


@pytest.fixture
def records(tmp_path):
    return batch_file(tmp_path, record_bytes(PIXELS, [0, 1, 2, 1]), "a.bin")


def test_prepared_images_come_back_with_their_description(tmp_path, records):
    output = tmp_path / "train.parquet"
    prepare(binary_set(), "train", [records], output)
    samples, metadata = read_prepared(output)
    assert np.array_equal(samples.features, PIXELS) and samples.features.dtype == np.uint8
    assert samples.label.tolist() == [0, 1, 2, 1]
    assert metadata["layout"] == "tensor" and metadata["shape"] == list(SHAPE)
    assert metadata["features"] == D and metadata["classes"] == 3
    assert metadata["non_zeros"] == np.count_nonzero(PIXELS)
    assert metadata["normalisation"] is None
    stored = pq.read_schema(output).field("features").type
    assert stored == pa.fixed_shape_tensor(pa.uint8(), SHAPE)


def test_stated_statistics_are_given_in_units_of_the_pixels(tmp_path, records):
    declared = {"mean": [0.1, 0.2, 0.5], "deviation": [0.3, 0.4, 1]}
    images = binary_set(normalise=declared)
    for split in ("train", "test"):  # the second one needs no first
        prepare(images, split, [records], tmp_path / split)
        samples, metadata = read_prepared(tmp_path / split)
        assert np.array_equal(samples.features, PIXELS)
        assert metadata["normalisation"]["mean"] == pytest.approx([25.5, 51, 127.5], rel=1e-15)
        assert metadata["normalisation"]["deviation"] == pytest.approx([76.5, 102, 255], rel=1e-15)


def test_statistics_of_train_normalise_every_split(tmp_path, records, monkeypatch):
    monkeypatch.setattr("fedatlas.data.scaling.BLOCK_VALUES", D)  # every row is a block
    other = batch_file(tmp_path, record_bytes(some_pixels(2, seed=5), [0, 1]), "b.bin")
    images = binary_set(normalise="from_train")
    splits = prepared(images, tmp_path, train=[records], test=[other])
    samples, metadata = splits["train"]
    assert np.array_equal(samples.features, PIXELS)
    channels = PIXELS.reshape(4, 3, 4).astype(np.float64)
    found = metadata["normalisation"]
    np.testing.assert_allclose(found["mean"], channels.mean(axis=(0, 2)), rtol=1e-14)
    np.testing.assert_allclose(found["deviation"], channels.std(axis=(0, 2)), rtol=1e-14)
    assert splits["test"][1]["normalisation"] == found


def test_a_constant_channel_cannot_be_normalised(tmp_path):
    pixels = some_pixels(3)
    pixels[:, 4:8] = 7
    path = batch_file(tmp_path, record_bytes(pixels, [0, 1, 2]), "a.bin")
    problem = "'tiny', split 'train': channel 1 is 7 in every image: its deviation is 0"
    with pytest.raises(FedatlasError, match=problem):
        prepare(binary_set(normalise="from_train"), "train", [path], tmp_path / "out.parquet")


def test_values_that_are_no_bytes_are_normalised_too(tmp_path):
    digits = PUBLISHED["digits"]
    samples, metadata = prepared(digits, tmp_path, train=[])["train"]
    assert metadata["layout"] == "dense" and samples.features.max() == 16
    assert metadata["normalisation"] == {
        "mean": [pytest.approx(samples.features.mean(), rel=1e-13)],
        "deviation": [pytest.approx(samples.features.std(), rel=1e-13)],
    }


# --------------------------------------------------------------------------------- published files


def published(name, split, folder):
    """The raw files of a split, from the mirror."""
    mirror = os.environ.get("FEDATLAS_MIRROR")
    images = PUBLISHED[name]
    raw = images.split(split).files
    missing = [file.path for file in raw if not mirror or not Path(mirror, file.path).is_file()]
    if missing or mirror is None:
        pytest.skip(f"needs {missing[0]} in the folder that FEDATLAS_MIRROR names")
    how = Fetching(Path(mirror), folder / "checksums.lock.json", folder / "archives")
    for file in raw:
        download(file, folder / file.local_path, how)
    return images, [folder / file.local_path for file in raw]


@pytest.mark.parametrize(
    ("name", "mean", "deviation"),
    [("fashion-mnist", 0.2860, 0.3530), ("mnist", 0.1307, 0.3081)],
)
def test_published_idx_files_are_read_in_time(tmp_path, name, mean, deviation):
    images, raw = published(name, "train", tmp_path)
    start = time.perf_counter()
    prepare(images, "train", raw, tmp_path / "train.parquet")
    assert time.perf_counter() - start < 10
    samples, metadata = read_prepared(tmp_path / "train.parquet")
    assert samples.features.shape == (60000, 784) and samples.features.dtype == np.uint8
    assert metadata["layout"] == "tensor"
    assert samples.features.mean() / 255 == pytest.approx(mean, abs=5e-5)
    assert samples.features.std() / 255 == pytest.approx(deviation, abs=5e-5)
    counts = np.bincount(samples.label.astype(int))
    ones = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert counts.tolist() == ([6000] * 10 if name == "fashion-mnist" else ones)


def test_published_batches_are_read(tmp_path):
    images, raw = published("cifar-10", "train-batch-1", tmp_path)
    samples = read_raw(images, "train-batch-1", raw)
    assert samples.features.shape == (10000, 3072)
    counts = [1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981]
    assert np.bincount(samples.label.astype(int)).tolist() == counts
    # What the unpickler of the library makes of this file, whose checksum was verified.
    batch = pickle.loads(raw[0].read_bytes(), encoding="bytes")
    assert np.array_equal(samples.features, batch[b"data"])
    assert samples.label.tolist() == batch[b"labels"]
