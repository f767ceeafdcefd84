"""Training that is killed, by SIGTERM or SIGKILL, at any moment.

A plain test run kills one method of every federation twice; `make kill-test` kills 100 processes of
all methods (FEDATLAS_KILLS says another number). `make crash-test` kills at every write.
"""

import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import threading
from itertools import cycle, islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import xarray as xr

from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.interruption import Interruption
from fedatlas.store.netcdf import write_netcdf
from fedatlas.training import loop as training
from fedatlas.training import seeds
from fedatlas.training.seeds import SeedPolicy
from kill.chains import HANGS, Chain, Counts, Runner, kill_often
from kill.runs import METHODS, make_shards, specifications

KILLS = int(os.environ.get("FEDATLAS_KILLS", "0"))
SEED = os.environ.get("FEDATLAS_KILL_SEED", "0")
SPECS = specifications()
# One method of each federation.
FAMILIES = ("scaffold", "vfb2_saga", "fmgda", "dp_gradient_tracking", "tdcd")
KILLED = tuple(METHODS) if KILLS else FAMILIES


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C as Python begins with it; what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    make_shards([SPECS[method] for method in KILLED], folder)
    return folder


@pytest.fixture(scope="module")
def runner(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    warm = [SPECS[method] for method in FAMILIES]
    return Runner(shards, warm, tmp_path_factory.mktemp("warm"))


def test_killed_at_any_moment_every_run_ends_with_the_same_trace(runner: Runner, tmp_path: Path):
    counts = Counts()
    for turn, method in enumerate(islice(cycle(KILLED), 4 * len(KILLED))):
        # How far training is when a signal arrives depends on the machine: some take more turns.
        if turn >= len(KILLED) and _hit_resumed_training(counts):
            break
        random = Random(f"{SEED} {method} {turn // len(KILLED)}")
        # After every round, so that many kills hit a checkpoint being written; or now and then.
        every = random.choice((0.0, 0.05))
        chain = Chain(runner, SPECS[method], tmp_path / f"{method}-{turn}", every)
        try:
            kill_often(chain, max(2, -(-KILLS // len(KILLED))), random, counts)
        except AssertionError as error:
            error.add_note(f"{method}, FEDATLAS_KILL_SEED={SEED}")
            raise
    print(f"\n{counts}")
    assert sum(counts.kills.values()) >= max(KILLS, 2 * len(KILLED))
    assert _hit_resumed_training(counts)


def _hit_resumed_training(counts: Counts) -> bool:
    """Whether kills of both kinds hit training that went on from its checkpoint, often enough."""
    both = min(counts.kills.values()) >= 2
    return both and counts.resumed >= len(KILLED) and counts.within_records >= 2


# ----------------------------------------------------------------------- within the process itself


@pytest.fixture
def interrupted_in_round(shards, tmp_path, monkeypatch):
    """Train SCAFFOLD, 30 rounds in one record, with a signal in round 17 of the second seed."""
    spec = SPECS["scaffold"].model_copy(update={"rounds": 30, "record_every": 30})
    policy = SeedPolicy(tmp_path / "seeds", 1e9)
    folder = shards / spec.dataset / spec.split
    round_of_method = Scaffold.round

    def run(number: signal.Signals | None, times: int = 1, checkpoint: bool = True):
        rounds = []

        def counted(self, *arguments):
            rounds.append(1)
            if len(rounds) == 2 + 30 + 17 and number is not None:  # two warm up
                for _ in range(times):
                    signal.raise_signal(number)
            return round_of_method(self, *arguments)

        monkeypatch.setattr(Scaffold, "round", counted)
        own = policy if checkpoint else None
        trace = training.train(spec, folder, tmp_path / "only.nc", device="cpu", seeds=own)
        return trace, len(rounds)

    return run


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_waits_for_the_end_of_its_round(
    interrupted_in_round, tmp_path, caplog, number, ending
):
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with caplog.at_level("INFO"), pytest.raises(ending) as ended:
        interrupted_in_round(number)
    assert getattr(ended.value, "code", 143) == 143
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
    said = [line for line in caplog.messages if number.name in line]
    assert len(said) == 1 and "ends after 1 seeds and 17 rounds" in said[0]
    assert [file.name for file in tmp_path.iterdir()] == ["seeds"]
    assert len(list(tmp_path.glob("seeds/*/*.npz"))) == 2
    caplog.clear()
    with caplog.at_level("INFO"):
        resumed, rounds = interrupted_in_round(None)
    assert rounds == 2 + 13
    assert any("resuming seed 1 after round 17" in line for line in caplog.messages)
    whole, _ = interrupted_in_round(None, checkpoint=False)
    assert resumed.drop_vars("wall_time").identical(whole.drop_vars("wall_time"))
    assert np.isfinite(resumed["wall_time"]).all()


def test_a_second_signal_does_not_wait(interrupted_in_round, tmp_path):
    with pytest.raises(SystemExit):
        interrupted_in_round(signal.SIGTERM, times=2)
    assert len(list(tmp_path.glob("seeds/*/*.npz"))) == 1  # that of the first seed


def test_without_a_checkpoint_nothing_waits(interrupted_in_round, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted_in_round(signal.SIGINT, checkpoint=False)
    assert list(tmp_path.iterdir()) == []


def test_other_threads_leave_signals_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def look():
        with Interruption() as interruption:
            seen.append((signal.getsignal(signal.SIGTERM), interruption.asked))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(before, None)]


def test_a_signal_while_the_trace_is_written_comes_too_late(
    interrupted_in_round, tmp_path, monkeypatch
):
    """All is done: the trace is there, and the process ends as if nothing had been."""
    to_netcdf = xr.Dataset.to_netcdf

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGTERM)
        return to_netcdf(*arguments, **options)

    monkeypatch.setattr(xr.Dataset, "to_netcdf", interrupted)
    trace, _ = interrupted_in_round(None)
    assert trace["status"].to_numpy().tolist() == ["ok", "ok"]
    assert {file.name for file in tmp_path.iterdir()} == {"only.nc", "seeds"}


def test_a_signal_while_another_file_is_written_leaves_none(tmp_path, monkeypatch):
    """netCDF files are written to the end, since what ends within xarray's locks may hang."""
    written = []
    to_netcdf = xr.Dataset.to_netcdf

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        written.append(to_netcdf(*arguments, **options))

    monkeypatch.setattr(xr.Dataset, "to_netcdf", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_netcdf(xr.Dataset({"x": ("i", np.arange(3))}), tmp_path / "x.nc")
    assert len(written) == 1
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------ which are not used

IDENTITY = {"specification": "a" * 64, "source code": "b" * 64, "numpy": "2.3.1", "device": "cpu"}
ARRAYS = {"state/x": np.arange(6.0).reshape(2, 3), "variable/y": np.array([1, 2], np.int16)}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "only.npz"
    seeds.write_checkpoint(path, IDENTITY, {"round": 3}, ARRAYS)
    return path


def reason(path, identity, caplog):
    """Why a checkpoint is not used: the only line that the log says of it."""
    caplog.clear()
    assert seeds.read_checkpoint(path, identity, {}) is None
    (line,) = caplog.messages
    head = f"{path}: is not used, training starts anew: "
    assert line.startswith(head) and "\n" not in line
    return line.removeprefix(head)


def test_a_whole_checkpoint_of_the_run_is_used(saved, tmp_path, caplog):
    environment = {name: IDENTITY[name] for name in ("numpy", "device")}
    own = {name: value for name, value in IDENTITY.items() if name not in environment}
    header, arrays = seeds.read_checkpoint(saved, own, environment)
    assert header["round"] == 3
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)
    assert seeds.read_checkpoint(tmp_path / "none.npz", IDENTITY, {}) is None
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"specification": "c" * 64}, "another specification"),
        ({"source code": "c" * 64, "device": "cuda"},
         "another source code, device 'cpu' instead of 'cuda'"),
        ({"numpy": "2.4.0"}, "numpy '2.3.1' instead of '2.4.0'"),
        ({"torch": "2.13.0"}, "torch 'None' instead of '2.13.0'"),
    ],
)  # fmt: skip
def test_what_has_changed_is_said(saved, caplog, changes, expected):
    assert reason(saved, IDENTITY | changes, caplog) == f"it was made with {expected}"


def test_a_checkpoint_that_names_more_is_not_used(saved, caplog):
    less = {name: value for name, value in IDENTITY.items() if name != "device"}
    assert reason(saved, less, caplog) == "it was made with more than is known"


def test_another_format_is_not_used(saved, caplog):
    seeds.write_checkpoint(saved, IDENTITY, {"format": "fedatlas checkpoint 1"}, ARRAYS)
    assert "no file of a seed" in reason(saved, IDENTITY, caplog)


def test_any_damaged_byte_is_found_or_means_nothing(saved, caplog):
    """Bytes of the archive's own bookkeeping, such as times, may change without effect."""
    whole = saved.read_bytes()
    used = 0
    for place in range(0, len(whole), 3):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        loaded = seeds.read_checkpoint(saved, IDENTITY, {})
        if loaded is not None:
            used += 1
            assert loaded[0]["round"] == 3 and loaded[1].keys() == ARRAYS.keys()
            assert all(np.array_equal(loaded[1][name], ARRAYS[name]) for name in ARRAYS)
    assert used < len(whole) / 15
    for length in range(0, len(whole), 31):
        saved.write_bytes(whole[:length])
        assert "it is damaged" in reason(saved, IDENTITY, caplog)


def test_content_exchanged_behind_the_archives_own_checksums_is_found(saved, caplog):
    """As a digest that covers names, types, shapes, values and the header finds it."""
    text = '{"format": "x"}'
    digest = seeds.content_digest(text, ARRAYS)
    x, y = ARRAYS["state/x"], ARRAYS["variable/y"]
    others = [
        (text + " ", ARRAYS),
        (text, {"state/z": x, "variable/y": y}),
        (text, {"state/x": x}),
        (text, {"state/x": x.reshape(3, 2), "variable/y": y}),
        (text, {"state/x": x.view(np.int64), "variable/y": y}),
        (text, {"state/x": np.nextafter(x, 9.0), "variable/y": y}),
        (text, {"state/x": x, "variable/y": y[::-1]}),
    ]
    assert digest not in {seeds.content_digest(*other) for other in others}
    assert digest == seeds.content_digest(text, dict(reversed(ARRAYS.items())))
    with np.load(saved) as archive:
        members = dict(archive)
    np.savez(saved, **(members | {"state/x": x + 1}))
    assert "it is damaged" in reason(saved, IDENTITY, caplog)


def test_a_checkpoint_of_another_environment_is_not_continued(
    interrupted_in_round, tmp_path, caplog
):
    with pytest.raises(SystemExit):
        interrupted_in_round(signal.SIGTERM)
    for file in tmp_path.glob("seeds/*/*.npz"):
        with np.load(file) as archive:
            header = json.loads(str(archive["header"]))
        if seeds.FINISHED not in header:
            break
    identity = header["identity"]
    header, arrays = seeds.read_checkpoint(file, identity, {})
    own = identity["numba"]
    rest = {key: header[key] for key in header if key not in ("format", "identity")}
    seeds.write_checkpoint(file, identity | {"numba": "0.0"}, rest, arrays)
    trace, rounds = interrupted_in_round(None)
    assert rounds == 2 + 30  # from the second seed's start
    (said,) = [line for line in caplog.messages if "not used" in line]
    assert said.endswith(f"it was made with numba '0.0' instead of '{own}'")
    assert trace["status"].to_numpy().tolist() == ["ok", "ok"]


# ---------------------------------------------------------------------- fedatlas run, which waits

WAITS = """
import signal, subprocess, sys
from fedatlas.interruption import HandingOn
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as tests may run under nohup
with HandingOn() as signals:
    process = subprocess.Popen(["sh", "-c", sys.argv[1], "job", sys.argv[1]], process_group=0)
    signals.reach(process.pid)
    process.wait()
signals.end()
"""
# A job and its child, each of which saves its work first.
SAVES = """
for each in INT TERM; do trap "sleep 0.1; echo saved > $0.$each; exit" $each; done
if [ $0 = job ]; then sh -c "$1" child; else echo ready; while :; do sleep 0.02; done; fi
"""


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (signal.SIGTERM, "TERM"),
        (signal.SIGINT, "INT"),
        (signal.SIGHUP, "TERM"),
    ],
)
def test_a_signal_reaches_all_jobs_and_the_command_ends_after_them(tmp_path, sent, arrives):
    command = [sys.executable, "-c", WAITS, SAVES]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(sent)
        assert process.wait(HANGS) == 128 + sent
    assert {file.name for file in tmp_path.iterdir()} == {f"child.{arrives}", f"job.{arrives}"}


# ---------------------------------------------------------------- a pod, whose first process waits

WORKS = """
import signal, sys, time
from pathlib import Path

def save(*_):
    time.sleep(0.1)
    Path("saved").touch()
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while not Path("done").exists():
    time.sleep(0.01)
"""


@pytest.mark.parametrize("asked", [True, False])
def test_a_pod_that_is_asked_to_end_waits_until_training_has_saved_its_work(tmp_path, asked):
    command = runpy.run_path("profiles/kubernetes/submit")["COMMAND"]
    (tmp_path / "works.py").write_text(WORKS)
    job = tmp_path / "job script"
    job.write_text(f"cd {shlex.quote(str(tmp_path))} && {sys.executable} works.py || exit 1\n")
    pod = ["/bin/sh", "-c", command, str(job)]
    with subprocess.Popen(
        pod, start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate() if asked else (tmp_path / "done").touch()
        assert process.wait(HANGS) == asked
        assert (tmp_path / "saved").exists() == asked
