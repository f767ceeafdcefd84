"""Views of shapes: PNG images of several sides, reduced to one size, and broken folders of them."""

import contextlib
import io
import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from catalogue_entry import PUBLISHED, tiny_images
from fedatlas.data.formats import read_raw
from fedatlas.data.prepare import prepare, read_prepared
from fedatlas.errors import FedatlasError

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
def folder(tmp_path):
    write_views(tmp_path / "raw", SHAPES)
    write_views(tmp_path / "raw", {name: [f"{name}_0100"] for name in CLASSES}, "test", seed=1)
    return tmp_path / "raw"


def cup_view(folder, view=2):
    return folder / TOP / "cup" / "train" / view_name("cup_0001", view)


def by_view(samples):
    return samples.features.reshape(len(samples), *SHAPE)


# ------------------------------------------------------------------------------------------ reading


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


def test_splits_are_folders_of_their_own(folder):
    test = read_raw(views_set(), "test", [folder])
    assert test.label.tolist() == [0, 1, 2]
    train = read_raw(views_set(), "train", [folder])
    assert len(train) == 6
    assert not (train.features[:, np.newaxis] == test.features).all(axis=2).any()


def test_other_kinds_of_pixels_become_colours(folder):
    place = folder / TOP / "cup" / "train"
    grey = np.arange(FACTOR * HEIGHT * FACTOR * WIDTH, dtype=np.uint8).reshape(-1, FACTOR * WIDTH)
    for view, kind in enumerate(("L", "LA", "RGBA"), start=1):
        Image.fromarray(grey).convert(kind).save(place / view_name("cup_0001", view))
    cup = by_view(read_raw(views_set(), "train", [folder]))[3]
    expected = plainly_reduced(np.stack([grey] * 3, axis=2))
    for view in cup:
        np.testing.assert_allclose(view.astype(int), expected, atol=1)


def test_a_palette_is_looked_up_before_pixels_are_reduced(folder):
    # Of two colours whose places in the palette mean nothing.
    image = Image.new("P", (FACTOR * WIDTH, FACTOR * HEIGHT), 7)
    image.putpalette([0] * 21 + [30, 60, 90] + [0] * 600 + [90, 0, 30])
    image.paste(208, (0, 0, FACTOR * WIDTH, 1))
    image.save(cup_view(folder, 1))
    view = by_view(read_raw(views_set(), "train", [folder]))[3, 0]
    assert (view[:, 1:] == np.array([30, 60, 90])[:, None, None]).all()
    assert (view[:, 0] == np.array([50, 40, 70])[:, None]).all()


def test_files_of_other_kinds_are_no_views(folder):
    for name in ("Thumbs.db", "cup_0001.off", ".DS_Store"):
        (folder / TOP / "cup" / "train" / name).write_bytes(b"x")
    (folder / TOP / "README").write_text("about")
    assert len(read_raw(views_set(), "train", [folder])) == 6


def test_statistics_are_of_channels_over_views(folder, tmp_path):
    dataset = views_set(normalise="from_train")
    prepare(dataset, "train", [folder], tmp_path / "train")
    prepare(dataset, "test", [folder], tmp_path / "test", train=tmp_path / "train")
    samples, metadata = read_prepared(tmp_path / "test")
    raw = by_view(read_raw(dataset, "train", [folder])).astype(np.float64)
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
    stored = pq.read_schema(tmp_path / "test").field("features").type
    assert stored == pa.fixed_shape_tensor(pa.uint8(), SHAPE)
    assert np.array_equal(samples.features, read_raw(dataset, "test", [folder]).features)


# ----------------------------------------------------------------------------------- broken folders


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
def test_views_that_are_not_as_declared_are_refused(folder, change, problem):
    change(cup_view(folder))
    message = failure(folder)
    assert message.startswith(str(folder / TOP)) and problem in message


@pytest.mark.parametrize("missing", ["", TOP, f"{TOP}/cup", f"{TOP}/cup/train"])
def test_a_missing_folder_is_named(folder, missing):
    shutil.rmtree(folder / missing)
    message = failure(folder)
    assert str(folder / missing) in message and "cannot be read: No such file" in message


def test_another_number_of_shapes_is_refused_before_images_are_read(folder):
    cup_view(folder).write_bytes(b"")
    splits = views_set().model_dump()["splits"]
    splits["train"]["rows"] = 7
    message = failure(folder, views_set(splits=splits))
    assert f"{folder}: holds 6 samples of split 'train', expected 7" in message


def test_damage_that_unpacking_overlooks_is_refused(folder):
    smooth = np.tile(np.arange(FACTOR * HEIGHT, dtype=np.uint8)[:, None, None], (1, 6, 3))
    path = cup_view(folder)
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
    assert f"{path}: cannot be read as a PNG image" in failure(folder)


@pytest.mark.parametrize("linked", [TOP, f"{TOP}/cup", f"{TOP}/cup/train", None])
def test_links_are_refused(folder, linked):
    path = folder / linked if linked else cup_view(folder)
    path.rename(folder / "real")
    path.symlink_to(folder / "real")
    message = failure(folder)
    assert str(path) in message and "link" in message and "refused" in message


# ------------------------------------------------------------------------------------ the catalogue


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
        ({"image_views": {"folder": TOP, "classes": ["a", "b", "../c"]}}, "must have the form"),
        ({"image_views": {"folder": "../a", "classes": CLASSES}}, "plain relative path"),
        ({"splits": {"train": {"files": [{"path": "a.png"}]}}}, "takes one archive to 'unpack'"),
        ({"normalise": {"mean": [0.5], "deviation": [0.5]}}, "has 1 channels, 'shape' 3"),
    ],
)
def test_a_wrong_entry_is_refused(changes, problem):
    with pytest.raises(FedatlasError, match=problem):
        views_set(**changes)
