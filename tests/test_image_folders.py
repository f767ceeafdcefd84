"""Folders of images: JPEG of one size, by class or list, PNG of several views; broken ones."""

import contextlib
import io
import math
import shutil
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from catalogue_entry import PUBLISHED, image_entry, prepared, tiny_images
from fedatlas.data.formats import dataset_of, read_raw
from fedatlas.errors import FedatlasError

COLOURS = {"n03": (250, 0, 0), "n01": (0, 250, 0), "n02": (0, 0, 250)}


def jpeg(path, colour, size=(4, 2), mode="RGB", **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, "JPEG", **options)
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder laid out as Tiny-ImageNet: three classes, each of one colour."""
    top = tmp_path / "unpacked" / "tiny"
    for name, colour in COLOURS.items():
        for number in range(2):
            jpeg(top / "train" / name / "images" / f"{name}_{number}.JPEG", colour)
        (top / "train" / name / f"{name}_boxes.txt").write_text("no image")
    for number, colour in enumerate(COLOURS.values()):
        jpeg(top / "val" / "images" / f"val_{number}.JPEG", colour)
    (top / "wnids.txt").write_text("n03\nn01\nn02\n")
    (top / "val" / "val_annotations.txt").write_text(
        "val_2.JPEG\tn02\t0\t0\t1\t1\nval_0.JPEG\tn03\t0\t0\t1\t1\nval_1.JPEG\tn01\n"
    )
    return top.parent


def folder_set(**changes):
    plain = image_entry(name="tiny", files=1, shape=(3, 2, 4), format="image_folder")
    file = {**plain["splits"]["train"]["files"][0], "unpack": "zip"}
    plain["splits"] = {"train": {"files": [file]}, "test": {"files": [file]}}
    plain["image_folder"] = {
        "classes": "tiny/wnids.txt",
        "splits": {
            "train": {"images": "tiny/train/{class}/images"},
            "test": {"images": "tiny/val/images", "labels": "tiny/val/val_annotations.txt"},
        },
    }
    return dataset_of({**plain, **changes}, "catalogue")


def channel_means(samples):
    return samples.features.reshape(len(samples), 3, 8).mean(axis=2).round(-1).tolist()


def test_a_folder_of_classes_is_read_in_the_order_of_their_names(folder):
    samples = read_raw(folder_set(), "train", [folder])
    assert samples.features.shape == (6, 24) and samples.layout == "tensor"
    assert samples.label.tolist() == [0, 0, 1, 1, 2, 2]
    green, blue, red = [0, 250, 0], [0, 0, 250], [250, 0, 0]
    assert channel_means(samples) == [green, green, blue, blue, red, red]


def test_a_list_of_labels_gives_order_and_classes(folder):
    samples = read_raw(folder_set(), "test", [folder])
    assert samples.label.tolist() == [1, 2, 0]
    assert channel_means(samples) == [[0, 0, 250], [250, 0, 0], [0, 250, 0]]


def test_pixels_are_those_that_pillow_decodes(folder):
    path = folder / "tiny" / "train" / "n01" / "images" / "n01_1.JPEG"
    noise = np.random.default_rng(0).integers(0, 256, (2, 4, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, "JPEG", quality=95)
    samples = read_raw(folder_set(), "train", [folder])
    expected = np.asarray(Image.open(path)).transpose(2, 0, 1)
    assert np.array_equal(samples.features[1].reshape(3, 2, 4), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_stand_as_viewers_show_them(folder, orientation):
    noise = np.random.default_rng(0).integers(0, 256, (2, 4, 3), dtype=np.uint8)
    image, exif = Image.fromarray(noise), Image.Exif()
    exif[0x112] = orientation
    if orientation > 4:  # lies on its side
        image = image.transpose(Image.Transpose.ROTATE_90)
    path = folder / TRAIN / "n02_0.JPEG"
    image.save(path, "PNG", exif=exif)  # without loss
    samples = read_raw(folder_set(), "train", [folder])
    shown = {
        1: noise, 2: noise[:, ::-1], 3: noise[::-1, ::-1], 4: noise[::-1],
        5: noise[:, ::-1], 6: noise, 7: noise[::-1], 8: noise[::-1, ::-1],
    }[orientation]  # fmt: skip
    assert np.array_equal(samples.features[2].reshape(3, 2, 4), shown.transpose(2, 0, 1))
    image.save(path, "JPEG", quality=100, subsampling=0, exif=exif)
    samples = read_raw(folder_set(), "train", [folder])
    lossy = samples.features[2].reshape(3, 2, 4).transpose(1, 2, 0).astype(int)
    assert np.abs(lossy - shown).max() < 9


@pytest.mark.parametrize("name", ["013.Bobolink", "sea lion", "Käfer", "a{b}", "x..y"])
def test_classes_are_called_as_folders_may_be(folder, name):
    (folder / TRAIN).parent.rename(folder / "tiny" / "train" / name)
    (folder / "tiny" / "wnids.txt").write_text(f"\ufeffn03\nn01\n{name}\n")
    samples = read_raw(folder_set(), "train", [folder])
    assert [0, 0, 250] in channel_means(samples) and len(samples) == 6


def test_grey_images_become_rgb(folder):
    jpeg(folder / "tiny" / "train" / "n01" / "images" / "n01_0.JPEG", 90, mode="L")
    samples = read_raw(folder_set(), "train", [folder])
    assert samples.features[0].tolist() == [90] * 24


TRAIN = "tiny/train/n02/images"
ONE = f"{TRAIN}/n02_0.JPEG"
NAMES = "tiny/wnids.txt"
LISTED = "tiny/val/val_annotations.txt"


def with_size(content, width, height):
    """A JPEG file that claims another size."""
    start = content.index(b"\xff\xc0") + 5
    return content[:start] + struct.pack(">HH", height, width) + content[start + 4 :]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("file", "change", "problem"),
    [
        (ONE, lambda x: x[:-30], "cannot be read as a JPEG or PNG image"),
        (ONE, lambda x: b"", "cannot be read as a JPEG or PNG image"),
        (ONE, lambda x: b"\x89PNG\r\n" + x, "cannot be read as a JPEG"),
        (TRAIN + "/x.jpg", lambda x: b"GIF89a", "cannot be read as a JPEG"),
        (ONE, lambda x: with_size(x, 9, 5), "9 × 5 pixels, expected 4 × 2"),
        (ONE, lambda x: with_size(x, 11000, 11000), "11000 × 11000 pixels are too many"),
        (ONE, lambda x: with_size(x, 60000, 60000), "decompression bomb"),
        (NAMES, lambda x: x + b"n04\n", "lists 4 classes, expected 3"),
        (NAMES, lambda x: b"n01\nn02\nn01\n", "'n01' is listed twice, or"),
        (NAMES, lambda x: b"n01\nn02\n..\n", "'..' is .* no name of a folder"),
        (NAMES, lambda x: b"n01\nn02\nn/3", "'n/3' is .* no name of a folder"),
        (NAMES, lambda x: b"\xff", "is not UTF-8 text"),
        (NAMES, lambda x: b"n01\nn02\nn09", "n09.images: cannot be read: No such"),
        (LISTED, lambda x: b"", "lists no class of 'val_0.JPEG' in .*images; it may be cut"),
        (LISTED, lambda x: x[:-10], "txt:3: .* is not the name of one more JPEG"),
        (LISTED, lambda x: x[:-1] + b"1", "txt:3: .* is not the name of one more JPEG"),
        (LISTED, lambda x: x + b"val_0.JPEG\tn01", "txt:4: 'val_0.JPEG.* is not the name of one"),
        (
            LISTED,
            lambda x: b"../val_0.JPEG\tn01\n" + x,
            "txt:1: .* is not the name of one more JPEG",
        ),
    ],
)
def test_folders_that_are_not_as_declared_are_refused(folder, file, change, problem):
    path = folder / file
    path.write_bytes(change(path.read_bytes() if path.exists() else b""))
    with pytest.raises(FedatlasError, match=problem) as caught:
        read_raw(folder_set(), "test" if file == LISTED else "train", [folder])
    assert str(caught.value).startswith(str(folder / "tiny"))


def test_images_for_printers_and_png_called_jpg_are_read_by_what_they_hold(folder):
    jpeg(folder / TRAIN / "n02_0.JPEG", (5, 255, 255, 0), mode="CMYK")
    Image.new("RGBA", (4, 2), (0, 250, 0, 99)).save(folder / TRAIN / "n02_1.JPEG", "PNG")
    samples = read_raw(folder_set(), "train", [folder])
    assert channel_means(samples)[2:4] == [[250, 0, 0], [0, 250, 0]]
    Image.new("I;16", (4, 2)).save(folder / TRAIN / "n02_1.JPEG", "PNG")
    with pytest.raises(FedatlasError, match=r"n02_1\.JPEG: .*Pillow's kind I;16, .* RGB"):
        read_raw(folder_set(), "train", [folder])


def test_hidden_files_are_no_images(folder):
    (folder / TRAIN / "._n02_0.JPEG").write_bytes(b"\0\5\26\7" + bytes(99))
    assert len(read_raw(folder_set(), "train", [folder])) == 6
    for number in range(2):
        (folder / TRAIN / f"n02_{number}.JPEG").unlink()
    with pytest.raises(FedatlasError, match="n02/images: holds no such images"):
        read_raw(folder_set(), "train", [folder])


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "unpacked").write_text("x")
    with pytest.raises(FedatlasError, match=r"wnids\.txt: cannot be read: Not a directory"):
        read_raw(folder_set(), "train", [tmp_path / "unpacked"])


def test_a_prepared_folder_says_which_files_it_was_made_of(folder, tmp_path):
    images = folder_set(normalise="from_train")
    found = prepared(images, tmp_path, train=[folder], test=[folder])
    samples, metadata = found["test"]
    assert samples.label.tolist() == [1, 2, 0] and metadata["layout"] == "tensor"
    assert metadata["normalisation"]["mean"] == pytest.approx([250 / 3] * 3, abs=2)
    assert metadata["normalisation"] == found["train"][1]["normalisation"]
    assert metadata["raw"] == found["train"][1]["raw"]
    (folder / "tiny" / "words.txt").write_text("one file more")
    assert prepared(images, tmp_path, train=[folder])["train"][1]["raw"] != metadata["raw"]


# ------------------------------------------------------------------------------------------ views

VIEWS, HEIGHT, WIDTH = 3, 4, 2
SHAPE = (VIEWS, 3, HEIGHT, WIDTH)
FACTOR = 3
# Neither in alphabetical order nor without names that start alike.
CLASSES = ("night_stand", "cup", "cup-2")
TOP = "images_12x"


def view_name(shape, view):
    return f"{shape}.obj.shaded_v{view:03}.png"


def random_pixels(random, height=FACTOR * HEIGHT, width=FACTOR * WIDTH):
    return random.integers(0, 256, (height, width, 3), dtype=np.uint8)


def write_png(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_views(folder, shapes, split="train", seed=0):
    """Views of shapes by class; returns their pixels, (shapes, views, height, width, 3)."""
    random = np.random.default_rng(seed)
    pixels = []
    for name in CLASSES:
        for shape in sorted(shapes[name]):
            drawn = [random_pixels(random) for _ in range(VIEWS)]
            # Written backwards: no order of files may matter.
            for view in range(VIEWS, 0, -1):
                place = folder / TOP / name / split
                write_png(place / view_name(shape, view), drawn[view - 1])
            pixels.append(drawn)
    return np.array(pixels)


def plainly_reduced(pixels):
    """(height, width, 3) → (3, HEIGHT, WIDTH): means of squares of FACTOR × FACTOR pixels."""
    reduced = np.empty((3, HEIGHT, WIDTH), np.int64)
    for channel in range(3):
        for row in range(HEIGHT):
            for column in range(WIDTH):
                total = sum(
                    int(pixels[FACTOR * row + i, FACTOR * column + j, channel])
                    for i in range(FACTOR)
                    for j in range(FACTOR)
                )
                reduced[channel, row, column] = math.floor(total / FACTOR**2 + 0.5)
    return reduced


def views_set(**changes):
    raw = {"path": "modelnet40/shaded.tar.gz", "urls": ["https://example.org/a"], "unpack": "tar"}
    plain = {
        "shape": SHAPE,
        "format": "image_views",
        "image_views": {"folder": TOP, "classes": CLASSES},
        "splits": {"train": {"files": [raw]}, "test": {"files": [raw]}},
    }
    return tiny_images(1, **plain | {"features": math.prod(SHAPE)} | changes)


SHAPES = {
    "night_stand": ["night_stand_0002", "night_stand_0001", "night_stand_0010"],
    "cup": ["cup_0001"],
    "cup-2": ["cup-2_0007", "cup-2_0001"],
}


@pytest.fixture
def views(tmp_path):
    write_views(tmp_path / "raw", SHAPES)
    write_views(tmp_path / "raw", {name: [f"{name}_0100"] for name in CLASSES}, "test", seed=1)
    return tmp_path / "raw"


VIEW = f"{TOP}/cup/train/{view_name('cup_0001', 2)}"


def cup_view(folder, view=2):
    return folder / TOP / "cup" / "train" / view_name("cup_0001", view)


def by_view(samples):
    return samples.features.reshape(len(samples), *SHAPE)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), counts=st.tuples(*[st.integers(1, 3)] * 3))
def test_views_come_in_order_and_are_means_of_what_they_cover(tmp_path_factory, seed, counts):
    folder = tmp_path_factory.mktemp("views")
    shapes = {
        name: [f"{name}_{number:04}" for number in range(count)]
        for name, count in zip(CLASSES, counts, strict=True)
    }
    pixels = write_views(folder, shapes, seed=seed)
    samples = read_raw(views_set(), "train", [folder])
    assert samples.features.dtype == np.uint8 and samples.layout == "tensor"
    assert samples.label.tolist() == [n for n, count in enumerate(counts) for _ in range(count)]
    expected = np.array([[plainly_reduced(view) for view in shape] for shape in pixels])
    # Rows and columns are reduced, and rounded, one after the other.
    np.testing.assert_allclose(by_view(samples).astype(int), expected, atol=1)
    assert np.mean(by_view(samples) == expected) > 0.8


def test_images_of_the_wanted_size_are_taken_as_they_are(tmp_path):
    random = np.random.default_rng(3)
    drawn = random.integers(0, 256, (len(CLASSES), VIEWS, HEIGHT, WIDTH, 3), dtype=np.uint8)
    for name, shape in zip(CLASSES, drawn, strict=True):
        for view, pixels in enumerate(shape, start=1):
            write_png(tmp_path / TOP / name / "train" / view_name(f"{name}_1", view), pixels)
    samples = read_raw(views_set(), "train", [tmp_path])
    assert np.array_equal(by_view(samples), drawn.transpose(0, 1, 4, 2, 3))


def test_splits_are_folders_of_their_own(views):
    test = read_raw(views_set(), "test", [views])
    assert test.label.tolist() == [0, 1, 2]
    train = read_raw(views_set(), "train", [views])
    assert len(train) == 6
    assert not (train.features[:, np.newaxis] == test.features).all(axis=2).any()


def test_other_kinds_of_pixels_become_colours(views):
    place = views / TOP / "cup" / "train"
    grey = np.arange(FACTOR * HEIGHT * FACTOR * WIDTH, dtype=np.uint8).reshape(-1, FACTOR * WIDTH)
    for view, kind in enumerate(("L", "LA", "RGBA"), start=1):
        Image.fromarray(grey).convert(kind).save(place / view_name("cup_0001", view))
    cup = by_view(read_raw(views_set(), "train", [views]))[3]
    expected = plainly_reduced(np.stack([grey] * 3, axis=2))
    for view in cup:
        np.testing.assert_allclose(view.astype(int), expected, atol=1)


def test_a_palette_is_looked_up_before_pixels_are_reduced(views):
    # Of two colours whose places in the palette mean nothing.
    image = Image.new("P", (FACTOR * WIDTH, FACTOR * HEIGHT), 7)
    image.putpalette([0] * 21 + [30, 60, 90] + [0] * 600 + [90, 0, 30])
    image.paste(208, (0, 0, FACTOR * WIDTH, 1))
    image.save(cup_view(views, 1))
    view = by_view(read_raw(views_set(), "train", [views]))[3, 0]
    assert (view[:, 1:] == np.array([30, 60, 90])[:, None, None]).all()
    assert (view[:, 0] == np.array([50, 40, 70])[:, None]).all()


def test_files_of_other_kinds_are_no_views(views):
    for name in ("Thumbs.db", "cup_0001.off", ".DS_Store"):
        (views / TOP / "cup" / "train" / name).write_bytes(b"x")
    (views / TOP / "README").write_text("about")
    assert len(read_raw(views_set(), "train", [views])) == 6


def test_statistics_are_of_channels_over_views(views, tmp_path):
    dataset = views_set(normalise="from_train")
    samples, metadata = prepared(dataset, tmp_path, train=[views], test=[views])["test"]
    raw = by_view(read_raw(dataset, "train", [views])).astype(np.float64)
    for channel in range(3):
        values = raw[:, :, channel].ravel().tolist()
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / len(values))
        assert metadata["normalisation"]["mean"][channel] == pytest.approx(mean, rel=1e-12)
        assert metadata["normalisation"]["deviation"][channel] == pytest.approx(
            deviation, rel=1e-12
        )
    assert len(metadata["normalisation"]["mean"]) == 3
    assert metadata["shape"] == list(SHAPE) and metadata["layout"] == "tensor"
    stored = pq.read_schema(tmp_path / "test.parquet").field("features").type
    assert stored == pa.fixed_shape_tensor(pa.uint8(), SHAPE)
    assert np.array_equal(samples.features, read_raw(dataset, "test", [views]).features)


def failure(folder, dataset=None):
    with pytest.raises(FedatlasError) as caught:
        read_raw(dataset or views_set(), "train", [folder])
    return str(caught.value)


def as_jpeg(path):
    Image.fromarray(random_pixels(np.random.default_rng(0))).save(path, "JPEG")


def of_size(height, width, dtype=np.uint8, channels=(3,)):
    return lambda path: write_png(path, np.zeros((height, width, *channels), dtype))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda path: path.unlink(), "v002.png: is missing; 'shape' in the catalogue says 3 views"),
        (lambda path: shutil.copy(path, path.with_name(view_name("cup_0001", 0))), "one too many"),
        (lambda path: shutil.copy(path, path.with_name(view_name("cup_0001", 4))), "one too many"),
        (lambda path: shutil.copy(path, path.with_name("x_v001.PNG")), "not called as a view is"),
        (lambda path: shutil.copy(path, path.with_name("cup.png")), "not called as a view is"),
        (lambda path: (path.parents[2] / "chair").mkdir(), "chair: is a folder of no class that"),
        (lambda path: [view.unlink() for view in path.parent.iterdir()], "holds no such images"),
        (of_size(HEIGHT * 3, WIDTH * 3 + 1), "holds 7 × 12 pixels, which cannot be"),
        (of_size(HEIGHT // 2, WIDTH // 2), "holds 1 × 2 pixels, which cannot be"),
        (of_size(WIDTH * 3, HEIGHT * 3), "holds 12 × 6 pixels, which cannot be"),
        (of_size(HEIGHT * 3, WIDTH * 3, np.uint16, ()), "of Pillow's kind I;16, none of"),
        (as_jpeg, "v002.png: cannot be read as a PNG image"),
    ],
)
def test_views_that_are_not_as_declared_are_refused(views, change, problem):
    change(cup_view(views))
    message = failure(views)
    assert message.startswith(str(views / TOP)) and problem in message


@pytest.mark.parametrize("missing", ["", TOP, f"{TOP}/cup", f"{TOP}/cup/train"])
def test_a_missing_folder_of_views_is_named(views, missing):
    shutil.rmtree(views / missing)
    message = failure(views)
    assert str(views / missing) in message and "cannot be read: No such file" in message


def test_another_number_of_shapes_is_refused_before_images_are_read(views):
    cup_view(views).write_bytes(b"")
    splits = views_set().model_dump()["splits"]
    splits["train"]["rows"] = 7
    message = failure(views, views_set(splits=splits))
    assert f"{views}: holds 6 samples of split 'train', expected 7" in message


def test_damage_that_unpacking_overlooks_is_refused(views):
    smooth = np.tile(np.arange(FACTOR * HEIGHT, dtype=np.uint8)[:, None, None], (1, 6, 3))
    path = cup_view(views)
    write_png(path, smooth)
    whole = path.read_bytes()
    for place, bit in np.ndindex(len(whole), 8):
        damaged = whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
        with contextlib.suppress(Exception), Image.open(io.BytesIO(damaged)) as image:
            if not np.array_equal(np.asarray(image), smooth):
                break
    else:
        pytest.fail("every flipped bit is noticed anyway")
    path.write_bytes(damaged)
    assert f"{path}: cannot be read as a PNG image" in failure(views)


def test_modelnet40_is_as_published_but_for_its_size():
    dataset = PUBLISHED["modelnet40"]
    assert (dataset.format, dataset.shape, dataset.classes) == ("image_views", (12, 3, 64, 64), 40)
    names = dataset.image_views.classes
    assert list(names) == sorted(names) and names[0] == "airplane" and names[-1] == "xbox"
    assert (dataset.splits["train"].rows, dataset.splits["test"].rows) == (9843, 2468)
    assert "224 × 224 to 64 × 64" in " ".join(dataset.note.split())
    assert dataset.normalise.mean is None and dataset.channels == 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"shape": (9, HEIGHT, WIDTH)}, r"need 'shape': \[views, channels, height, width\]"),
        ({"shape": ()}, r"need 'shape': \[views, channels, height, width\]"),
        ({"shape": (9, 1, HEIGHT, WIDTH)}, "have 3 channels"),
        ({"classes": 4}, "lists 3 classes, 'classes' says 4"),
        ({"image_views": {"folder": TOP, "classes": ["a", "b", "a"]}}, "'a' is named twice"),
        ({"image_views": {"folder": TOP, "classes": ["a", "b", "../c"]}}, "must match pattern"),
        ({"image_views": {"folder": "../a", "classes": CLASSES}}, "plain relative path"),
        ({"splits": {"train": {"files": [{"path": "a.png"}]}}}, "takes one archive to 'unpack'"),
        ({"normalise": {"mean": [0.5], "deviation": [0.5]}}, "has 1 channels, 'shape' 3"),
    ],
)
def test_a_wrong_entry_of_views_is_refused(changes, problem):
    with pytest.raises(FedatlasError, match=problem):
        views_set(**changes)
