"""Full disks, read-only folders, files that vanish, damaged shards: one line, and nothing is left.

Each command is a process of its own. File systems are mounted for it: without the right to do so
these tests skip.
"""

import errno
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from atlas_factory import join_experiment
from fedatlas import files as writing
from fedatlas.data.catalogue import load_catalogue
from fedatlas.errors import FedatlasError
from fedatlas.files import (
    date_to_now,
    folder_beside,
    leftovers,
    put_in_place,
    temporary_prefix,
    write_atomically,
    write_text,
)
from fedatlas.schema.runs import RunSpec
from fedatlas.store.trace import read_trace
from kill.chains import Runner
from kill.runs import CONFIG, make_shards, specifications

SCAFFOLD = specifications()["scaffold"]
HORIZONTAL = SCAFFOLD.model_copy(update={"rounds": 40, "record_every": 1})
LONGER = HORIZONTAL.model_copy(update={"rounds": 400, "record_every": 10})
VERTICAL = specifications()["vfb2_sgd"].model_copy(update={"rounds": 10, "seeds": (0,)})


@dataclass(frozen=True)
class World:
    """Inputs of all commands, whole, in a folder from which tests copy."""

    folder: Path
    runner: Runner


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    make_shards([HORIZONTAL, VERTICAL], folder)
    runner = Runner(folder, [HORIZONTAL, VERTICAL], folder)
    trace = folder / "experiments" / "small" / "traces" / "scaffold" / "only.nc"
    trace.parent.mkdir(parents=True)
    own = HORIZONTAL.model_copy(update={"experiment": "small", "run": "scaffold", "point": "only"})
    assert runner.start(runner.arguments(own, trace), folder / "log.txt") and runner.status() == 0
    selection = {
        "rule": {},
        "runs": {
            "scaffold": {
                "selected": "only",
                "selected_by_seed": [],
                "at_edge": [],
                "tried": 1,
                "candidates": [],
            }
        },
    }
    (folder / "experiments" / "small" / "selection.json").write_text(json.dumps(selection))
    join_experiment(folder / "experiments" / "small", {"scaffold": "x"})
    return World(folder, runner)


SELECTION: dict[str, Any] = {
    "selection": {},
    "tuned": {},
    "tuning": [],
    "heading": {
        **{"paper": HORIZONTAL.paper, "experiment": "small"},
        **dict.fromkeys(("title", "source", "notes", "dataset"), "a test"),
    },
    "titles": {"scaffold": "x"},
}
FIGURE = {
    "title": "A test",
    "figure": {"measurement": "gradient_norm", "costs": ["round"]},
    "runs": {"scaffold": "x"},
}


def shard_folder(folder: Path, spec: RunSpec = HORIZONTAL) -> Path:
    slug = spec.partition.of_seed(spec.seeds[0]).slug
    return folder / spec.dataset / spec.split / slug


PREPARED = {
    "dataset": "breast-cancer",
    "split": "train",
    "catalogue": str(CONFIG / "datasets.yaml"),
}


def step(name: str, given: dict[str, Any], **files: Any) -> list[Any]:
    """The command of a step."""
    return ["step", name, json.dumps(given | {key: str(value) for key, value in files.items()})]


def prepare(inputs: Path, output: Path) -> list[Any]:
    return step("prepare_split", PREPARED, output=output / "x.parquet")


def shard(inputs: Path, output: Path) -> list[Any]:
    spec = {"spec": HORIZONTAL.partition.model_dump(mode="json")}
    prepared = inputs / "breast-cancer" / "train.parquet"
    files = {"silos": output / "silo-0.parquet", "manifest": output / "manifest.json"}
    return step("shard_split", spec, prepared=prepared, **files)


def train(inputs: Path, output: Path, spec: RunSpec = HORIZONTAL, **others: Any) -> list[Any]:
    shards = inputs / spec.dataset / spec.split
    given = {"spec": spec.model_dump(mode="json"), "device": "cpu"}
    return step("train_alone", given, shards=shards, output=output / "x.nc", **others)


def join(inputs: Path, output: Path) -> list[Any]:
    trace = inputs / "experiments" / "small" / "traces" / "scaffold" / "only.nc"
    files = {"output": output / "x.json", "joined": output / "x.nc"}
    return step("select_points", SELECTION | {"traces": [str(trace)]}, **files)


def figure(inputs: Path, output: Path) -> list[Any]:
    small = inputs / "experiments" / "small"
    drawn = [str(output / name) for name in ("x.svg", "x.png")]
    traces = small / "traces.nc"
    given = FIGURE | {"output": drawn}
    return step("draw_figure", given, traces=traces, selection=small / "selection.json")


COMMANDS = (prepare, shard, train, join, figure)
PAGE = 4096
commands = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)


def run(world: World, arguments: list[Any], log: Path) -> tuple[int, list[str]]:
    """Exit status, and what is printed besides information and warnings."""
    log.unlink(missing_ok=True)
    world.runner.start([str(argument) for argument in arguments], log)
    status = world.runner.status()
    lines = log.read_text(encoding="utf-8").splitlines()
    return status, [line for line in lines if " INFO " not in line and " WARNING " not in line]


def one_line(outcome: tuple[int, list[str]], *expected: Any) -> str:
    """The only line of a command that failed as it should."""
    status, lines = outcome
    assert status == 1 and len(lines) == 1, outcome
    assert lines[0].startswith("error: ")
    for text in expected:
        assert str(text) in lines[0]
    return lines[0]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a file system in memory with the given options; may be called again."""
    place = tmp_path / "disk"
    place.mkdir()

    def mounted(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            outcome = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no program mount")
        if outcome.returncode:
            pytest.skip(f"file systems cannot be mounted here: {outcome.stderr.strip()}")
        return place

    yield mounted
    subprocess.run(["umount", str(place)], capture_output=True)


def prefix_of(process: int, name: str) -> str:
    """How that process begins temporary names."""
    return temporary_prefix(name).replace(f"-{os.getpid()}-", f"-{process}-")


def prefix_of_a_dead(name: str) -> str:
    with subprocess.Popen(["true"]) as process:
        pass
    return prefix_of(process.pid, name)


OUTPUTS = {
    prepare: {"x.parquet"},
    shard: {"silo-0.parquet", "manifest.json"},
    train: {"x.nc"},
    join: {"x.json", "x.nc"},
    figure: {"x.svg", "x.png"},
}


@commands
def test_a_write_clears_leftovers_and_a_full_disk_is_one_line(world, mount, tmp_path, command):
    whole = tmp_path / "whole"
    whole.mkdir()
    # What killed writes left behind; of shards that of their manifest.
    for name in map(Path, OUTPUTS[command] - {"silo-0.parquet"}):
        (whole / f"{prefix_of_a_dead(name.stem)}abcdefgh{name.suffix}").write_bytes(b"half a file")
    assert run(world, command(world.folder, whole), tmp_path / "log.txt") == (0, [])
    assert {file.name for file in whole.iterdir()} == OUTPUTS[command]
    needed = sum(file.stat().st_size for file in whole.iterdir())
    for size in {PAGE, needed - PAGE}:
        disk = mount(f"size={size}")
        outcome = run(world, command(world.folder, disk), tmp_path / "log.txt")
        one_line(outcome, "cannot write", disk, "No space left on device. Free some space and run")
        # Of two files the first may be whole.
        assert {file.name for file in disk.iterdir()} <= {"silo-0.parquet", "x.svg"}
        subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_of_any_size_holds_a_whole_trace_or_none(world, mount, tmp_path):
    """Whatever the libraries do when their last bytes do not fit."""
    (tmp_path / "whole").mkdir()
    assert run(world, train(world.folder, tmp_path / "whole"), tmp_path / "log.txt") == (0, [])
    needed = (tmp_path / "whole" / "x.nc").stat().st_size
    whole = 0
    for pages in range(-2, 2):
        disk = mount(f"size={needed + pages * PAGE}")
        outcome = run(world, train(world.folder, disk), tmp_path / "log.txt")
        if (disk / "x.nc").exists():
            assert outcome == (0, [])
            assert read_trace(disk / "x.nc")["status"].to_numpy().tolist() == ["ok", "ok"]
            whole += 1
        else:
            one_line(outcome, "No space left on device")
        assert {file.name for file in disk.iterdir()} <= {"x.nc"}
        subprocess.run(["umount", str(disk)], check=True)
    assert 0 < whole < 4


def test_a_disk_that_fills_up_keeps_the_last_checkpoint(world, mount, tmp_path):
    disk, kept = mount("size=1m"), tmp_path / "kept"
    often = {"seeds": disk / "seeds", "checkpoint_every": 0, "spec": LONGER}
    arguments = [str(argument) for argument in train(world.folder, disk, **often)]
    process = world.runner.start(arguments, tmp_path / "log.txt")
    while not (files := list((disk / "seeds").glob("*/[!.]*.npz"))):
        time.sleep(0.001)
    os.kill(process, signal.SIGTERM)
    assert world.runner.status() == 143
    (checkpoint,) = files
    before = checkpoint.read_bytes()
    free = shutil.disk_usage(disk).free
    (disk / "other").write_bytes(bytes(free - 4096))
    outcome = run(world, train(world.folder, disk, **often), tmp_path / "log.txt")
    one_line(outcome, f"cannot write {checkpoint}", "Free some space and run again")
    assert {file.name for file in disk.iterdir()} == {"seeds", "other"}
    assert checkpoint.read_bytes() == before
    (disk / "other").unlink()
    assert run(world, train(world.folder, disk, **often), tmp_path / "log.txt") == (0, [])
    assert "resuming seed 0 after round" in (tmp_path / "log.txt").read_text()
    kept.mkdir()
    whole = train(world.folder, kept, spec=LONGER)
    assert run(world, whole, tmp_path / "log.txt") == (0, [])
    resumed, uninterrupted = (read_trace(folder / "x.nc") for folder in (disk, kept))
    assert resumed.drop_vars("wall_time").identical(uninterrupted.drop_vars("wall_time"))


@commands
def test_a_read_only_folder_is_one_line(world, mount, tmp_path, command):
    disk = mount("ro")
    output = disk / "new"
    outcome = run(world, command(world.folder, output), tmp_path / "log.txt")
    remedy = f"Make the folder {output} writable and run again."
    one_line(outcome, f"cannot write {output}/", "Read-only file system", remedy)
    assert list(disk.iterdir()) == []


def test_training_does_not_begin_where_it_cannot_write(world, mount, tmp_path):
    """Nor where it could write its trace, but no checkpoint."""
    disk = mount("ro")
    outcome = run(world, train(world.folder, tmp_path, seeds=disk), tmp_path / "log.txt")
    one_line(outcome, f"cannot write {disk}/")
    assert " rounds" not in (tmp_path / "log.txt").read_text()


VANISHING = [
    (shard, "breast-cancer/train.parquet"),
    (train, "breast-cancer/train"),
    (train, "breast-cancer/train/*/silo-0.parquet"),
    (train, "breast-cancer/train/*/manifest.json"),
    (join, "experiments/small/traces/scaffold/only.nc"),
    (figure, "experiments/small/traces.nc"),
    (figure, "experiments/small/selection.json"),
]


@pytest.mark.parametrize(("command", "vanished"), VANISHING)
def test_an_input_that_vanished_is_named(world, tmp_path, command, vanished):
    inputs, output = tmp_path / "inputs", tmp_path / "output"
    shutil.copytree(world.folder, inputs)
    output.mkdir()
    files = list(inputs.glob(vanished))
    assert files
    for file in files:
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    line = one_line(run(world, command(inputs, output), tmp_path / "log.txt"))
    assert str(inputs / vanished.partition("*")[0]) in line and Path(vanished).name in line
    assert list(output.iterdir()) == []


def test_a_raw_file_that_vanished_is_named(world, tmp_path):
    """Of a data set that is read from files."""
    catalogue = load_catalogue(CONFIG / "datasets.yaml")
    assert catalogue["a9a"].format == "libsvm"
    given = PREPARED | {"dataset": "a9a", "raw": str(tmp_path / "a9a")}
    arguments = step("prepare_split", given, output=tmp_path / "x.parquet")
    one_line(run(world, arguments, tmp_path / "log.txt"), tmp_path / "a9a")
    assert not (tmp_path / "x.parquet").exists()


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x04]) + content[place + 1 :]


def damaged(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Damage of every kind; Parquet's footer is at the end, behind the data."""
    footer = int.from_bytes(content[-8:-4], "little")
    yield "data", flipped(content, (len(content) - footer) // 2)
    yield "footer", flipped(content, len(content) - footer // 2 - 8)
    yield "last byte", flipped(content, len(content) - 1)
    # A number that the reader would take as it is.
    yield "metadata", content.replace(b'"test_samples":0', b'"test_samples":1', 1)
    yield "cut", content[: len(content) // 2]
    yield "empty", b""


@pytest.mark.parametrize("spec", [HORIZONTAL, VERTICAL], ids=lambda spec: spec.algorithm)
def test_a_damaged_shard_is_named(world, tmp_path, spec):
    inputs, output = tmp_path / "inputs", tmp_path / "output"
    shutil.copytree(world.folder, inputs)
    output.mkdir()
    file = shard_folder(inputs, spec) / "silo-0.parquet"
    whole = file.read_bytes()
    shards = str(inputs / spec.dataset / spec.split)
    arguments = world.runner.arguments(spec, output / "x.nc", shards=shards)
    kinds = dict(damaged(whole))
    if spec is VERTICAL:  # by the same check
        kinds = {kind: kinds[kind] for kind in ("data", "cut")}
    for content in kinds.values():
        assert content != whole
        file.write_bytes(content)
        outcome = run(world, arguments, tmp_path / "log.txt")
        remedy = f"Move the folder {file.parent} away and run again."
        one_line(outcome, f"{file}: is damaged or was replaced", remedy)
        assert list(output.iterdir()) == []
    file.write_bytes(whole)
    assert run(world, arguments, tmp_path / "log.txt") == (0, [])


def test_shards_of_another_data_set_are_refused(world, tmp_path):
    """A whole folder of them, or one file beside its neighbour's manifest."""
    inputs, output = tmp_path / "inputs", tmp_path / "output"
    shutil.copytree(world.folder, inputs)
    output.mkdir()
    folder = shard_folder(inputs)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"dataset": "digits"}))
    place = f"train/{folder.name}"
    outcome = run(world, train(inputs, output), tmp_path / "log.txt")
    one_line(outcome, f"describes digits/{place}, but breast-cancer/{place} is needed. Move the")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    shutil.copy(shard_folder(inputs, VERTICAL) / "silo-0.parquet", folder)
    outcome = run(world, train(inputs, output), tmp_path / "log.txt")
    one_line(outcome, f"{folder / 'silo-0.parquet'}: is damaged or was replaced")
    (folder / "manifest.json").write_text("[]")
    outcome = run(world, train(inputs, output), tmp_path / "log.txt")
    one_line(outcome, "manifest.json: is damaged or no manifest of shards. Move the folder")
    assert list(output.iterdir()) == []


# ------------------------------------------------------------------- what killed writes left behind


def test_leftovers_of_a_file_are_its_own(tmp_path):
    dead = prefix_of_a_dead("x")
    names = [f"{dead}abcd_123.nc", f"{dead}zzzzzzzz.nc"]
    others = ["x.nc", ".x.nc", f"{prefix_of_a_dead('y')}abcd_123.nc", f"{dead}abcd_123.npz"]
    others += [f"{dead}ABCD_123.nc", f"{dead}abcd_12.nc", f"{dead}abcd_123.nc.abcd_123.nc"]
    others += [f"{dead[1:]}abcd_123.nc"]
    for name in names + others:
        (tmp_path / name).write_text("")
    folder = f"{prefix_of_a_dead('x.nc')}abcd_123"
    (tmp_path / folder).mkdir()
    assert {file.name for file in leftovers(tmp_path / "x.nc")} == set(names)
    assert [file.name for file in leftovers(tmp_path / "x.nc", folders=True)] == [folder]


def test_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    """As two trainings that rehearse the same method at once: the last one counts."""
    path = tmp_path / "x.txt"
    with write_atomically(path) as first:
        first.write_text("first")
        with write_atomically(path) as second:
            second.write_text("second")
            write_text(path, "third")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("refusal", [None, OSError(22, "not here"), AttributeError("no such call")])
def test_a_folder_takes_the_place_of_another(tmp_path, monkeypatch, refusal):
    """At once where the system can exchange two names, else one after the other."""
    if refusal:
        monkeypatch.setattr(writing, "_exchange", Mock(side_effect=refusal))
    path = tmp_path / "published"
    (tmp_path / f"{prefix_of_a_dead(path.name)}abcd_123" / "new").mkdir(parents=True)
    for content in ("first", "second"):
        with folder_beside(path) as folder:
            (folder / "new").mkdir()
            (folder / "new" / content).write_text(content)
            put_in_place(folder / "new", path)
        assert [file.name for file in path.iterdir()] == [content]
        assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_one_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_exchange", Mock(side_effect=OSError))
    path = tmp_path / "published"
    path.mkdir()
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "none", path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fails_is_told_from_an_input_that_cannot_be_read(tmp_path):
    failed = pytest.raises(FedatlasError, match=r"x: Input/output error\. .* run again")
    with failed, write_atomically(tmp_path / "x"):
        raise OSError(errno.EIO, "anything")
    with pytest.raises(OSError, match="input"), write_atomically(tmp_path / "x"):
        raise OSError(errno.EIO, "anything", "/else/input")
    assert list(tmp_path.iterdir()) == []


def test_only_what_surely_dead_writers_left_is_removed(tmp_path):
    """One that lives, or that may live on another machine, still needs its file."""
    week = 7 * 86_400
    elsewhere = f".x.{'0' * 8}-1-"
    with subprocess.Popen(["sleep", "60"]) as alive:
        ages = {
            f"{prefix_of(alive.pid, 'x')}abcd_123.nc": 0.0,
            f"{elsewhere}abcd_123.nc": 0.9 * week,
            f"{prefix_of_a_dead('x')}abcd_123.nc": 0.0,
            f"{elsewhere}dcba_123.nc": 1.1 * week,
            ".x.abcd_123.nc": 1.1 * week,  # named as older versions did
        }
        now = tmp_path.stat().st_mtime
        for name, age in ages.items():
            (tmp_path / name).write_text("half a")
            os.utime(tmp_path / name, (now - age, now - age))
        write_text(tmp_path / "x.nc", "whole")
        alive.kill()
    assert {file.name for file in tmp_path.iterdir()} == {"x.nc", *list(ages)[:2]}
    write_text(tmp_path / "x.nc", "whole")
    assert {file.name for file in tmp_path.iterdir()} == {"x.nc", list(ages)[1]}


# ----------------------------------------------------------------------- a clock that was set back


def test_files_from_the_future_are_dated_now_and_no_others(tmp_path, caplog):
    """Snakemake deletes what it makes from them, as it looks older."""
    ages = {"ahead": -2 * 86_400, "further": -9 * 86_400, "past": 3600}
    now = time.time()
    for name, age in ages.items():
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (now - age, now - age))
    date_to_now([*map(tmp_path.joinpath, ages), tmp_path / "missing"])
    dates = {name: (tmp_path / name).stat().st_mtime for name in ages}
    assert dates["past"] == pytest.approx(now - 3600)
    assert now - 1 <= dates["ahead"] <= dates["further"] <= time.time()
    assert f"{tmp_path / 'ahead'}: dated in the future, set to now (2 such files)" in caplog.text
    date_to_now(tmp_path.iterdir())
    assert dates == {name: (tmp_path / name).stat().st_mtime for name in ages}
