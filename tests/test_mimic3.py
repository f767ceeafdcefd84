"""MIMIC-III's benchmark: folders as its scripts leave them, with made values, and broken ones."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue_entry import PUBLISHED, tiny
from fedatlas.data.formats import read_raw
from fedatlas.errors import FedatlasError

HEADER = (
    "Hours,Capillary refill rate,Diastolic blood pressure,Fraction inspired oxygen,"
    "Glascow coma scale eye opening,Glascow coma scale motor response,Glascow coma scale total,"
    "Glascow coma scale verbal response,Glucose,Heart Rate,Height,Mean blood pressure,"
    "Oxygen saturation,Respiratory rate,Systolic blood pressure,Temperature,Weight,pH"
)
# As the benchmark's discretiser numbers them.
CATEGORIES = {
    number: names.split("|")
    for number, names in {
        0: "0.0|1.0",
        3: "To Pain|3 To speech|1 No Response|4 Spontaneously|None|To Speech|Spontaneously|"
        "2 To pain",
        4: "1 No Response|3 Abnorm flexion|Abnormal extension|No response|4 Flex-withdraws|"
        "Localizes Pain|Flex-withdraws|Obeys Commands|Abnormal Flexion|6 Obeys Commands|"
        "5 Localizes Pain|2 Abnorm extensn",
        5: "11|10|13|12|15|14|3|5|4|7|6|9|8",
        6: "1 No Response|No Response|Confused|Inappropriate Words|Oriented|No Response-ETT|"
        "5 Oriented|Incomprehensible sounds|1.0 ET/Trach|4 Confused|2 Incomp sounds|"
        "3 Inapprop words",
    }.items()
}
NORMAL = [
    *("0.0", "59.0", "0.21", "4 Spontaneously", "6 Obeys Commands", "15", "5 Oriented"),
    *("128.0", "86", "170.0", "77.0", "98.0", "19", "118.0", "36.6", "81.0", "7.4"),
]

Stay = list[tuple[str, list[str]]]
"""The lines of a stay: a time and 17 fields."""


def line(time, **measured):
    """Fields of the channels that are given by number, as `c8="90"`."""
    return str(time), [measured.get(f"c{channel}", "") for channel in range(17)]


def plainly_discretised(stay: Stay) -> np.ndarray:
    """(48, 76): the hours of one stay, value by value."""
    hours: list[list[str]] = [[""] * 17 for _ in range(48)]
    for time, fields in stay:
        for hour in range(48):
            first = hour == 0 and abs(float(time)) <= 1e-6
            if first or hour + 1e-6 < float(time) <= hour + 1 + 1e-6:
                for channel, field in enumerate(fields):
                    hours[hour][channel] = field or hours[hour][channel]
    rows = []
    latest = list(NORMAL)
    for hour in hours:
        row: list[float] = []
        for channel, field in enumerate(hour):
            latest[channel] = field or latest[channel]
            if channel in CATEGORIES:
                row += [float(latest[channel] == name) for name in CATEGORIES[channel]]
            else:
                row.append(float(latest[channel]))
        rows.append(row + [float(field != "") for field in hour])
    return np.array(rows)


def random_stay(random: np.random.Generator, lines: int = 25) -> Stay:
    whole = random.integers(0, 49, lines).astype(float)
    times = np.sort(np.where(random.random(lines) < 0.3, whole, random.uniform(0, 48, lines)))
    stay = []
    for time in times:
        fields = []
        for channel in range(17):
            if random.random() < 0.6:
                fields.append("")
            elif channel in CATEGORIES:
                fields.append(str(random.choice(CATEGORIES[channel])))
            else:
                fields.append(f"{float(NORMAL[channel]) * random.uniform(0.5, 2):.4g}")
        stay.append((repr(float(time)), fields))
    return stay


def write_benchmark(
    folder: Path, splits: dict[str, list[tuple[str, Stay, int]]], *, newline: str = "\n"
) -> Path:
    """A folder as an unpacked archive leaves it; returns it."""
    top = folder / "in-hospital-mortality"
    for split, stays in splits.items():
        (top / split).mkdir(parents=True)
        for name, stay, _ in stays:
            rows = [",".join([time, *fields]) for time, fields in stay]
            text = newline.join([HEADER, *rows]) + newline
            (top / split / name).write_bytes(text.encode())
        listed = [f"{name},{label}" for name, _, label in stays]
        text = newline.join(["stay,y_true", *listed]) + newline
        (top / f"{split}_listfile.csv").write_text(text)
        (top / split / "listfile.csv").write_text(text)
    (top / "val_listfile.csv").write_text("stay,y_true\n")
    return folder


RAW = {"path": "mimic3/a.tar.gz", "unpack": "tar", "login": "ask"}


def benchmark_set(**changes):
    splits = {"train": {"files": [RAW]}, "test": {"files": [RAW]}}
    plain = {"features": 3648, "shape": (48, 76), "splits": splits}
    return tiny(format="mimic3", **plain | changes)


def stays(random: np.random.Generator, count: int) -> list[tuple[str, Stay, int]]:
    # The list's order is shuffled in the benchmark: it is not that of names.
    return [
        (f"{count - n}_episode1_timeseries.csv", random_stay(random), int(n % 3 == 0))
        for n in range(count)
    ]


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(5)
    return write_benchmark(tmp_path / "a", {"train": stays(random, 7), "test": stays(random, 4)})


def by_hour(samples):
    return samples.features.reshape(len(samples), 48, 76)


# ------------------------------------------------------------------------------------------ reading


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), windows=st.booleans())
def test_stays_are_discretised_as_plain_loops_do(tmp_path_factory, seed, windows):
    random = np.random.default_rng(seed)
    written = {"train": stays(random, 3), "test": stays(random, 2)}
    folder = write_benchmark(
        tmp_path_factory.mktemp("benchmark"), written, newline="\r\n" if windows else "\n"
    )
    for split, listed in written.items():
        samples = read_raw(benchmark_set(), split, [folder])
        assert samples.features.dtype == np.float32
        expected = np.array([plainly_discretised(stay) for _, stay, _ in listed])
        np.testing.assert_array_equal(by_hour(samples), expected.astype(np.float32))
        assert samples.label.tolist() == [1.0 if label else -1.0 for _, _, label in listed]
        assert samples.sample_id.tolist() == list(range(len(listed)))


def read_one(tmp_path, *lines_of_stay):
    folder = write_benchmark(tmp_path / "one", {"train": [("1_a.csv", list(lines_of_stay), 1)]})
    return by_hour(read_raw(benchmark_set(), "train", [folder]))[0]


def test_the_last_value_of_an_hour_counts_and_holds_until_the_next(tmp_path):
    hours = read_one(
        tmp_path,
        line(0.2, c8="100", c3="To Pain"),
        line(0.9, c8="110"),
        line("1.0", c8="120"),
        line(3.5, c8="90", c3="None"),
        line("48.0", c8="60"),
    )
    heart_rate = 2 + 1 + 1 + 8 + 12 + 13 + 12 + 1
    assert hours[:, heart_rate].tolist() == [120, 120, 120] + [90] * 44 + [60]
    assert hours[:, 59 + 8].nonzero()[0].tolist() == [0, 3, 47]
    eyes = hours[:, 4:12]
    assert eyes.argmax(axis=1).tolist() == [0, 0, 0] + [4] * 45 and (eyes.sum(axis=1) == 1).all()
    assert hours[:, 59 + 3].nonzero()[0].tolist() == [0, 3]
    assert (hours[:, 57] == np.float32(81)).all() and (hours[:, 58] == np.float32(7.4)).all()


@pytest.mark.parametrize(
    ("time", "hour"),
    [
        (0, 0),
        ("1e-7", 0),
        (1, 0),
        ("1.0000005", 0),
        (1.00001, 1),
        (47.5, 47),
        ("48.00000099999999", 47),
    ],
)
def test_a_whole_hour_belongs_to_the_step_that_it_ends(tmp_path, time, hour):
    assert read_one(tmp_path, line(time, c16="7.1"))[:, 75].nonzero()[0].tolist() == [hour]


def test_numbers_of_categories_are_compared_as_numbers(tmp_path):
    hours = read_one(tmp_path, line(0.5, c0="1", c5="15.0"), line(1.5, c0="0", c5="3.0"))
    assert hours[:2, :2].tolist() == [[0, 1], [1, 0]]
    assert hours[:2, 24:37].argmax(axis=1).tolist() == [4, 6]


def test_pickles_beside_the_data_are_left_alone(folder):
    class Bomb:
        def __reduce__(self):
            return (open, (str(folder / "executed"), "w"))

    top = folder / "in-hospital-mortality"
    for place in (top, top / "train"):
        (place / "ihm_ts1.0.normalizer").write_bytes(pickle.dumps(Bomb()))
    before = read_raw(benchmark_set(), "train", [folder])
    assert len(before) == 7 and not (folder / "executed").exists()


# ----------------------------------------------------------------------------------- broken folders


TOP = "in-hospital-mortality"
LISTED = f"{TOP}/train_listfile.csv"
STAY = f"{TOP}/train/7_episode1_timeseries.csv"


def failure(folder, split="train", dataset=None):
    with pytest.raises(FedatlasError) as caught:
        read_raw(dataset or benchmark_set(), split, [folder])
    return str(caught.value)


def edit(folder, relative, old, new, count=1):
    path = folder / relative
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


@pytest.mark.parametrize("removed", [LISTED, STAY])
def test_a_missing_file_is_named(folder, removed):
    (folder / removed).rename(folder / "elsewhere")
    assert f"{folder / removed}: cannot be read: No such file" in failure(folder)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("stay,y_true", "stay,y", ":1: the header is 'stay,y', expected 'stay,y_true'"),
        ("stay,y_true\n", "", ":1: the header is '7_episode1_timeseries.csv,1'"),
        ("6_episode1_timeseries.csv,0", "6_episode1_timeseries.csv", ":3: 1 fields, but"),
        ("6_episode1_timeseries.csv,0", "6_episode1_timeseries.csv,0,3.5", ":3: 3 fields"),
        ("6_episode1_timeseries.csv,0", "../train/6_episode1_timeseries.csv,0", ":3: '../train"),
        ("6_episode1_timeseries.csv,0", "", ":3: 1 fields, but the header has 2"),
        ("6_episode1_timeseries.csv,0", "7_episode1_timeseries.csv,0", "is listed twice"),
        ("6_episode1_timeseries.csv,0", "6_episode1_timeseries.csv,2", "column 'y_true' holds '2'"),
    ],
)
def test_a_broken_list_is_refused(folder, old, new, problem):
    edit(folder, LISTED, old, new)
    message = failure(folder)
    assert message.startswith(str(folder / LISTED)) and problem in message
    assert message.endswith("run the benchmark's scripts again")


@pytest.mark.parametrize("content", [b"", b"stay,y_true\n"])
def test_a_list_without_stays_is_refused(folder, content):
    (folder / LISTED).write_bytes(content)
    assert str(folder / LISTED) in failure(folder)


def test_another_number_of_stays_is_refused(folder):
    splits = benchmark_set().model_dump()["splits"]
    splits["train"]["rows"] = 8
    message = failure(folder, dataset=benchmark_set(splits=splits))
    assert f"{folder / LISTED}: lists 7 stays, expected 8; it may be cut short" in message


HEADER_ERROR = ":1: the header is 'Hours,Capillary"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (HEADER.replace("Glucose,Heart Rate", "Heart Rate,Glucose"), HEADER_ERROR),
        (HEADER.removesuffix(",pH"), HEADER_ERROR),
        (HEADER, ": holds nothing but a header; run the benchmark's scripts again"),
        ("", ":1: the header is '', expected 'Hours,Capillary"),
        (f"{HEADER}\n1.0{',' * 17}\n2.0{',' * 16}", ":3: 17 fields, but the header has 18"),
        (f"{HEADER}\n1.0{',' * 18}", ":2: 19 fields, but the header has 18"),
        (f"{HEADER}\n{',' * 17}", ":2: column 'Hours' holds '', which is no number from 0 to 48"),
        (f"{HEADER}\nnan{',' * 17}", "column 'Hours' holds 'nan'"),
        (f"{HEADER}\n48.1{',' * 17}", "column 'Hours' holds '48.1'"),
        (f"{HEADER}\n-0.5{',' * 17}", "column 'Hours' holds '-0.5'"),
        (f"{HEADER}\n2{',' * 17}\n1{',' * 17}", ":3: column 'Hours' holds '1' after 2: times must"),
        (f"{HEADER}\n1{',' * 17}4,3", ":2: 19 fields"),
        (
            f"{HEADER}\n1{',' * 9}fast{',' * 8}",
            ":2: column 'Heart Rate' holds 'fast', which is no",
        ),
        (f"{HEADER}\n1{',' * 9}nan{',' * 8}", "column 'Heart Rate' holds 'nan'"),
        (f"{HEADER}\n1{',' * 9}1_0{',' * 8}", "column 'Heart Rate' holds '1_0'"),
        (f"{HEADER}\n1{',' * 4}to pain{',' * 13}", "column 'Glascow coma scale eye opening' holds"),
        (f"{HEADER}\n1{',' * 6}16{',' * 11}", "none of its categories: 11, 10, 13,"),
        (HEADER.encode() + b"\n\xff", ": is not UTF-8 text"),
    ],
)
def test_a_broken_stay_is_refused(folder, content, problem):
    (folder / STAY).write_bytes(content if isinstance(content, bytes) else content.encode())
    message = failure(folder)
    assert message.startswith(str(folder / STAY)) and problem in message
    assert isinstance(content, bytes) or message.endswith("run the benchmark's scripts again")


def test_the_benchmark_of_the_catalogue_is_as_published():
    dataset = PUBLISHED["mimic3-in-hospital-mortality"]
    assert (dataset.format, dataset.shape, dataset.features) == ("mimic3", (48, 76), 3648)
    assert {name: split.rows for name, split in dataset.splits.items()} == {
        "train": 14681,
        "test": 3236,
    }
    assert dataset.labels == {0: -1.0, 1: 1.0} and dataset.standardise
    assert "Never share" in dataset.note and "3222 validation stays" in dataset.note
    assert all(
        split.files[0].login and not split.files[0].urls for split in dataset.splits.values()
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"shape": (24, 76), "features": 24 * 76}, r"'format: mimic3' needs 'shape': \[48, 76\]"),
        ({"shape": ()}, r"need 'shape': \[steps, 76\]"),
        ({"labels": None}, "must map to -1 and 1"),
        ({"task": "regression", "labels": None}, "time series have 'task: binary'"),
        ({"splits": {"train": {"files": [{"path": "a.csv"}]}}}, "takes one archive to 'unpack'"),
        ({"splits": {"val": {"files": [RAW]}}}, "'val': 'format: mimic3' has the splits"),
    ],
)
def test_a_wrong_entry_is_refused(changes, problem):
    with pytest.raises(FedatlasError, match=problem):
        benchmark_set(**changes)
