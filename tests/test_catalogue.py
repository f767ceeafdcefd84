import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from catalogue_entry import PUBLISHED, entry
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError
from fedatlas.plan.jobs import reading

ROOT = Path(__file__).parents[1]
ENTRY = entry(splits={"train": {"files": [{"path": "tiny/a", "urls": ["https://example.org/a"]}]}})


def catalogue_of(tmp_path, **entries):
    path = tmp_path / "datasets.yaml"
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    return load_catalogue(path)


def file_entry(**changes):
    return {"splits": {"train": {"files": [{"path": "tiny/a", **changes}]}}}


def test_every_data_set_of_the_papers_is_listed():
    assert set(PUBLISHED) >= {
        *("a9a", "w8a", "australian", "splice", "news20.binary", "webspam", "e2006-tfidf"),
        *("year-prediction-msd", "fashion-mnist", "mnist", "cifar-10", "cifar-10-binary"),
        "tiny-imagenet",
        *("uci-credit-card", "give-me-some-credit", "modelnet40"),
        *("mimic3-in-hospital-mortality", "breast-cancer", "digits"),
    }
    assert PUBLISHED["a9a"].features == 123
    assert PUBLISHED["a9a"].labels == {-1: -1.0, 1: 1.0}
    checksum = PUBLISHED["a9a"].split("train").files[0].checksum
    assert checksum == "md5:fb3596510d780aaf76a06dc721d49662"
    assert "a9a" in PUBLISHED and "nope" not in PUBLISHED
    assert PUBLISHED.get("nope") is None


def test_raw_files_are_listed_by_the_place_they_end_up_in():
    raw_files = PUBLISHED.raw_files()
    assert raw_files["libsvm/news20.binary"].path == "libsvm/news20.binary.bz2"
    assert raw_files["tiny-imagenet/tiny-imagenet-200"].unpack == "zip"
    assert raw_files["cifar/cifar-10-batches-py/test_batch"].unpack is None


def test_unknown_names_are_answered_with_the_known_ones(tmp_path):
    catalogue = catalogue_of(tmp_path, tiny=ENTRY, other={**ENTRY})
    with pytest.raises(
        FedatlasError, match=r"datasets\.yaml: no data set 'a9'; known: other, tiny"
    ):
        catalogue["a9"]
    with pytest.raises(FedatlasError, match="no data set 'othr'; similar: other; known: "):
        catalogue["othr"]
    with pytest.raises(FedatlasError, match="'tiny' has no split 'test'; it has: train"):
        catalogue["tiny"].split("test")


def test_what_the_workflow_parses_with_is_light():
    code = (
        "import sys, fedatlas.data.catalogue, fedatlas.plan.build, fedatlas.privacy.accountants; "
        "heavy = 'PIL matplotlib numba pandas pyarrow scipy sklearn torch xarray'.split(); "
        "print(set(heavy) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("path", "changes", "expected"),
    [
        ("a/b.bz2", {"decompress": "bz2"}, "a/b"),
        ("a/b.tar.gz", {"unpack": "tar"}, "a/b"),
        ("a/b.tgz", {"unpack": "tar"}, "a/b"),
        ("a/b.zip", {"unpack": "zip"}, "a/b"),
        ("a/b", {"unpack": "zip"}, "a/b.d"),
        ("a/b.gz", {}, "a/b.gz"),
    ],
)
def test_local_path_drops_only_what_is_undone(path, changes, expected):
    assert RawFile(path=path, urls=("https://example.org/x",), **changes).local_path == expected


URLS = ["https://example.org/a"]
ALL = {"splits": {"all": ENTRY["splits"]["train"]}}
IMAGES = {"format": "cifar", "shape": [3, 1, 1]}
HALF = {"mean": [0.5], "deviation": [0.5]}
TAR = {"path": "a", "urls": URLS, "unpack": "tar"}
SYNTHETIC = {"seed": 1, "non_zeros_per_row": 2, "informative": 5, "noise": 0}
MADE = {"format": "synthetic", "features": 20, "labels": None, "splits": {"train": {"rows": 9}}}


def image_folder(split="train", **places):
    return (
        IMAGES
        | file_entry(urls=URLS, unpack="zip")
        | {
            "format": "image_folder",
            "image_folder": {"classes": "names.txt", "splits": {split: places}},
        }
    )


def table(**columns):
    return {"format": "csv", "csv": {"label": "y", "numeric": ["a"], **columns}}


def categories(*values, **more):
    return table(numeric=[], one_hot=[{"column": "a", "values": values, **more}])


def made(changes, **block):
    return {**MADE, "synthetic": {**SYNTHETIC, **block}, **changes}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"labels": {0: -1, 1: 2}}, "'labels' of a binary data set must map to -1 and 1"),
        ({"labels": None}, "'labels' of a binary data set must map to -1 and 1"),
        ({"labels": {"1": 1, 2: -1}}, "'labels': maps '1', but the labels of this format are"),
        ({"labels": {True: 1, 2: -1}}, "'labels.1.[key]', value True: YAML reads yes"),
        ({"labels": {False: 1, 2: -1}}, "'labels.0.[key]', value False: YAML reads"),
        ({"task": "regression"}, "leave 'labels' out"),
        ({"task": "multiclass"}, "'classes' goes with"),
        ({"task": "multiclass", "classes": 2, "labels": {1: 2}}, "'labels' must map to classes 0"),
        ({"shape": [2, 2]}, "shape (2, 2) does not hold 3 features"),
        ({"format": "hdf9"}, "key 'format', value 'hdf9': must be one of bundled, chain, cifar"),
        ({"csv": {"label": "y"}}, "unknown key 'csv'"),
        ({"scale_labels": "min_max"}, "'scale_labels' goes with 'task: regression' only"),
        ({"centre": False}, "'centre: false' goes with 'standardise: true'"),
        ({"standardise": True, **ALL}, "a split named 'train'"),
        ({"splits": {"train": {}}}, "split 'train': 'format: libsvm' takes one file"),
        (
            {"splits": {"train": {"files": [{"path": "bank"}, {"path": "telecom"}]}}},
            "takes one file: join them first, as docs/adding/dataset.md shows",
        ),
        ({"format": "idx", "shape": [3, 1, 1]}, "'format: idx' takes two files"),
        ({"format": "cifar"}, "images need 'shape': [channels, height, width]"),
        ({"format": "cifar", "shape": [3]}, "images need 'shape'"),
        (image_folder(images="a/b"), "give 'labels', or '{class}' within 'images'"),
        (image_folder(images="{class}", labels="a"), "give 'labels', or '{class}' within 'images'"),
        (image_folder(images="../{class}"), "train.images', value '../{class}': must be a plain"),
        (image_folder(split="test", images="{class}"), "'image_folder' has the splits test"),
        (
            image_folder(images="{class}") | {"splits": ENTRY["splits"]},
            "'format: image_folder' takes one archive to 'unpack'",
        ),
        (image_folder(images="{class}") | {"shape": [1, 1, 3]}, "have 3 channels in 'shape'"),
        ({"normalise": "from_train"}, "'normalise' needs 'shape': [channels, height, width]"),
        ({"normalise": "train"}, "key 'normalise', value 'train': must be 'from_train'"),
        ({"normalise": {**HALF, "deviation": [0.5, 0.5]}}, "key 'normalise': 'mean' and 'dev"),
        ({"normalise": {**HALF, "deviation": None}}, "key 'normalise': 'mean' and 'deviation'"),
        ({"normalise": {**HALF, "mean": [127]}}, "key 'normalise.mean.0', value 127: "),
        ({"normalise": {**HALF, "deviation": [0]}}, "key 'normalise.deviation.0', value 0: "),
        ({**IMAGES, "format": "libsvm", "normalise": HALF}, "'normalise: from_train'"),
        ({**IMAGES, "normalise": HALF}, "'normalise' has 1 channels, 'shape' 3"),
        ({**IMAGES, "normalise": "from_train", "standardise": True}, "'standardise', by column"),
        ({**IMAGES, "normalise": "from_train", **ALL}, "a split named 'train'"),
        (file_entry(urls=["ftp://example.org/a"]), "files.0.urls.0"),
        *((file_entry(urls=URLS, path=path), "files.0.path") for path in ("../a", "/a", "a\\b")),
        (file_entry(path="a{b}"), "files.0.path', value 'a{b}': must hold no braces"),
        (file_entry(urls=URLS, checksum="md5:12"), "files.0.checksum"),
        (file_entry(urls=URLS, decompress="gz"), "'path' must end in .gz"),
        (file_entry(urls=URLS, path="a.gz", decompress="gz", unpack="tar"), "not several"),
        (file_entry(urls=URLS, member="x"), "'archive' and 'member' belong together"),
        (file_entry(member="x", archive={"path": "a.tar", "urls": URLS}), "unpack: tar"),
        (file_entry(urls=URLS, member="x", archive=TAR), "belong to its archive"),
        (table(numeric=["a", "b"]), "make 2 features, 'features' says 3"),
        (table(numeric=["a", "b", "a"]), "column 'a' is named twice"),
        (table(numeric=["a", "b", "y"]), "column 'y' is named twice"),
        (categories(1, 2, 1.0), "'csv.one_hot.0.values'"),
        (categories(7, 2, "7"), "7 and '7' stand for the same value"),
        (categories(False, "c"), "'csv.one_hot.0.values.0', value False: YAML reads"),
        (table(missing=["?", " ?"]), "'?' and ' ?' stand for the same value"),
        (table(missing=[None]), "'csv.missing.0', value None: YAML reads"),
        (table(missing=[True]), "'csv.missing.0', value True: YAML reads"),
        (table(encoding="klingon"), "'csv.encoding', value 'klingon': is no encoding"),
        (table(encoding="rot13"), "'csv.encoding', value 'rot13': is no encoding"),
        (table(decimal=","), "'decimal' and 'delimiter' are the same mark"),
        (table(header=["y", "b"]), "'header': columns 'a' are missing"),
        (table(header=["y", "a", "a"]), "'header': columns 'a' occur twice"),
        (categories(2, 1, 3, otherwise="next_below"), "column 'a': 'otherwise: next_below'"),
        (categories(1, 2, "3", otherwise="next_below"), "column 'a': 'otherwise: next_below'"),
        (made({"splits": ENTRY["splits"]}), "'format: synthetic' takes no files"),
        (made({"splits": {"train": {}}}), "split 'train': synthetic data need 'rows'"),
        (made({"labels": {0: -1, 1: 1}}), "leave 'labels' out"),
        (made({"task": "multiclass", "classes": 2}), "synthetic labels are ±1 or real numbers"),
        (made({"task": "regression"}), "'synthetic.range' goes with"),
        (made({}, range=[0, 1]), "'synthetic.range' goes with"),
        (made({"task": "regression"}, range=[1, 1]), "'synthetic.range' must ascend"),
        (made({}, noise=0.5), "'synthetic.noise' must be below 0.5"),
        (made({}, non_zeros_per_row=11), "'synthetic.non_zeros_per_row' must be at most half"),
        (made({}, informative=21), "'synthetic.informative' must be at most 'features'"),
    ],
)
def test_a_wrong_entry_is_refused_by_name(tmp_path, changes, problem):
    with pytest.raises(FedatlasError) as caught:
        catalogue_of(tmp_path, tiny={**ENTRY, **changes})
    assert "datasets.yaml: tiny: " in str(caught.value)
    assert problem in str(caught.value)


def test_all_wrong_entries_are_reported_at_once(tmp_path):
    with pytest.raises(FedatlasError) as caught:
        catalogue_of(tmp_path, one={**ENTRY, "features": -1}, two=3)
    assert "one: key 'features'" in str(caught.value)
    assert "two: must be a mapping, not 3" in str(caught.value)


def test_one_file_described_in_two_ways_is_refused(tmp_path):
    other = {**ENTRY, **file_entry(urls=["https://example.org/b"])}
    with pytest.raises(FedatlasError, match=r"other: 'tiny/a' is described twice"):
        catalogue_of(tmp_path, first=ENTRY, other=other)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("labels: {07: -1, 2: 1}", 'reads 07 as 7: write that, or "07" in quotes'),
        ("labels: {1:20: -1, 2: 1}", 'reads 1:20 as 80: write that, or "1:20" in quotes'),
        ("features: 010", 'reads 010 as 8: write that, or "010" in quotes'),
    ],
)
def test_numbers_that_yaml_reads_otherwise_than_written_are_refused(tmp_path, written, told):
    path = tmp_path / "datasets.yaml"
    path.write_text(f"tiny:\n  {written}\n")
    with pytest.raises(
        FedatlasError, match=f"datasets.yaml, line 2: is not valid YAML: YAML {told}"
    ):
        load_catalogue(path)


def test_quoted_and_bare_labels_are_prepared_anew_where_they_change(tmp_path):
    plain = {**ENTRY, **table(numeric=["a", "b", "c"])}
    read = {
        reading(catalogue_of(tmp_path, tiny={**plain, "labels": labels}), "tiny", "train")
        for labels in ({0: -1, 1: 1}, {"0": -1, "1": 1}, {"0": -1, 1: 1})
    }
    assert len(read) == 3


def test_the_tables_of_the_papers_add_up_to_their_features():
    assert _widths(PUBLISHED["uci-credit-card"].csv) == (14, [1, 7, 4, 11, 11, 11, 11, 10, 10])
    assert PUBLISHED["uci-credit-card"].features == 90
    assert _widths(PUBLISHED["give-me-some-credit"].csv) == (5, [16, 19, 26, 13, 13])
    assert PUBLISHED["give-me-some-credit"].features == 92


def _widths(table):
    return len(table.numeric), [len(one.feature_names) for one in table.one_hot]


def test_the_page_on_data_has_the_bundled_sets_as_the_catalogue_has_them():
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    rows = []
    for name, one in yaml.safe_load((ROOT / "config/datasets.yaml").read_text("utf-8")).items():
        if one["format"] == "bundled":
            task, count = one["task"], one["splits"]["train"]["rows"]
            label = {"binary": "−1 or 1", "multiclass": f"0 to {one.get('classes', 0) - 1}"}[task]
            rows.append(f"| `{name}` | {count} | {one['features']} | {task} | {label} |")
    assert "\n".join(["|---|---|---|---|---|", *rows, "", "`digits` are"]) in page


def test_synthetic_sets_say_what_they_are():
    made = [one for one in PUBLISHED.values() if one.format == "synthetic"]
    assert made
    for one in made:
        assert one.title.startswith("Synthetic") and one.note.startswith("Synthetic")
        assert one.name.startswith(("standin-", "synthetic-", "suite-"))


def test_images_are_normalised_by_channel():
    assert PUBLISHED["mnist"].normalise.mean == (0.1307,)
    assert PUBLISHED["cifar-10"].normalise == PUBLISHED["cifar-10-binary"].normalise
    assert len(PUBLISHED["cifar-10"].normalise.deviation) == 3
    assert not PUBLISHED["cifar-10"].scaled_by_train
    assert PUBLISHED["digits"].normalise.mean is None and PUBLISHED["digits"].scaled_by_train
    assert PUBLISHED["a9a"].normalise is None
    assert PUBLISHED["tiny-imagenet"].normalise.mean is None


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "a9a"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text):
    path = tmp_path / "datasets.yaml"
    path.write_text(text)
    with pytest.raises(FedatlasError, match=r"datasets\.yaml: must map names"):
        load_catalogue(path)
