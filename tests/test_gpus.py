"""GPUs are shared out by locks: real processes and real locks over stand-in identities."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from fedatlas.arithmetic import gpus
from fedatlas.arithmetic.gpus import Gpu, claim, driver_version, models
from fedatlas.errors import FedatlasError

FIRST, SECOND = Gpu("cuda:0", "GPU-a"), Gpu("cuda:1", "GPU-b")
SOURCES = str(Path(gpus.__file__).parents[2])

# Claims one of the GPUs, says which and when, keeps it for a while, says when that ended.
CHILD = """
import json, logging, sys, time
from pathlib import Path
from fedatlas.arithmetic.gpus import Gpu, claim
logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
folder, seconds, *rest = sys.argv[1:]
gpus = [Gpu(*pair.split("=")) for pair in rest]
found = claim(gpus, "job", Path(folder)).identity
print(json.dumps([found, time.monotonic()]), flush=True)
if seconds == "as parent":
    import subprocess
    print(subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL).pid, flush=True)
    seconds = 60
time.sleep(float(seconds))
print(json.dumps([found, time.monotonic()]), flush=True)
"""


@pytest.fixture
def children():
    """Ended at the end, whatever happens."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture(autouse=True)
def nothing_is_held(monkeypatch):
    """What a test claims in this process is free again after it."""
    held = {}
    monkeypatch.setattr(gpus, "_held", held)
    yield
    for handle in held.values():
        handle.close()


def start(children, folder, seconds, *of):
    arguments = [folder, seconds, *(f"{gpu.name}={gpu.identity}" for gpu in of)]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    children.append(child)
    return child


def claimed_by(child):
    """Waits for the child's claim."""
    identity, at = json.loads(child.stdout.readline())
    return identity, at


def test_many_jobs_share_few_gpus_one_at_a_time(children, tmp_path):
    for number in range(7):
        start(children, tmp_path, 0.1 + 0.05 * (number % 3), FIRST, SECOND)
    spans = []
    for child in children:
        output, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        (identity, begin), (_, end) = map(json.loads, output.splitlines())
        spans.append((identity, begin, end))
    assert len(spans) == 7
    assert {identity for identity, _, _ in spans} == {"GPU-a", "GPU-b"}
    for gpu in ("GPU-a", "GPU-b"):
        own = sorted((begin, end) for identity, begin, end in spans if identity == gpu)
        for (_, end), (begin, _) in pairwise(own):
            assert end < begin


def test_a_killed_job_frees_its_gpu_at_once_and_who_waits_says_for_whom(children, tmp_path):
    holder = start(children, tmp_path, "as parent", FIRST)
    assert claimed_by(holder)[0] == "GPU-a"
    asleep = int(holder.stdout.readline())
    waiting = start(children, tmp_path, 0, FIRST)
    expected = f"job: waits for a GPU: cuda:0 is held by process {holder.pid} (job)\n"
    assert waiting.stderr.readline() == expected
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    killed = time.monotonic()
    identity, at = claimed_by(waiting)
    os.kill(asleep, 0)  # what the job had started lives on, and holds nothing
    os.kill(asleep, signal.SIGKILL)
    assert identity == "GPU-a"
    assert at - killed < 5
    assert waiting.stderr.read() == "job: computes on cuda:0 (GPU-a)\n"


def test_a_gpu_that_is_named_is_waited_for_though_another_is_free(children, tmp_path):
    holder = start(children, tmp_path, 60, SECOND)
    assert claimed_by(holder)[0] == "GPU-b"
    waiting = start(children, tmp_path, 0, SECOND)
    assert waiting.stderr.readline().startswith("job: waits for a GPU: cuda:1 is held by")
    any_of_them = start(children, tmp_path, 0, SECOND, FIRST)
    assert claimed_by(any_of_them)[0] == "GPU-a"
    assert waiting.poll() is None
    holder.kill()
    assert claimed_by(waiting)[0] == "GPU-b"


def test_a_gpu_has_one_lock_whatever_processes_call_it(children, tmp_path):
    """CUDA_VISIBLE_DEVICES makes any GPU the first."""
    holder = start(children, tmp_path, 60, Gpu("cuda:1", "GPU-b"))
    claimed_by(holder)
    waiting = start(children, tmp_path, 0, Gpu("cuda:0", "GPU-b"))
    assert waiting.stderr.readline().startswith("job: waits for a GPU: cuda:0 is held by")


def test_a_process_keeps_what_it_has(tmp_path):
    assert claim([SECOND], "one", tmp_path) == SECOND
    assert claim([FIRST, SECOND], "two", tmp_path) == SECOND


def test_what_a_killed_job_wrote_does_not_stay(tmp_path):
    (tmp_path / "GPU-a.lock").write_text("process 99999999 (a run with a long name)\n")
    assert claim([FIRST], "run", tmp_path) == FIRST
    assert (tmp_path / "GPU-a.lock").read_text() == f"process {os.getpid()} (run)\n"


def test_a_lock_file_that_was_deleted_in_between_locks_nothing_out(tmp_path, monkeypatch):
    flock, deleted = fcntl.flock, []

    def delete_first(handle, operation):
        if not deleted:
            deleted.append((tmp_path / "GPU-a.lock").unlink())
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", delete_first)
    claim([FIRST], "run", tmp_path)
    with (tmp_path / "GPU-a.lock").open() as again, pytest.raises(BlockingIOError):
        flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_identities_cannot_name_other_files(tmp_path):
    claim([Gpu("cuda:0", "../MIG-1/2")], "run", tmp_path / ".")
    assert [path.name for path in tmp_path.iterdir()] == ["___MIG-1_2.lock"]


def test_locks_lie_in_a_folder_of_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "_TEMPORARY", tmp_path)
    claim([FIRST], "run")
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["GPU-a.lock"]
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    with pytest.raises(FedatlasError, match="another user's or a link"):
        claim([SECOND], "run")
    folder.unlink()
    folder.write_text("")
    with pytest.raises(FedatlasError, match="cannot be made"):
        claim([SECOND], "run")


def test_the_driver_and_the_models_are_those_that_the_kernel_names(tmp_path):
    assert driver_version(tmp_path) is None
    assert models(tmp_path) == set()
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
    )
    assert driver_version(tmp_path) == "550.54.15"
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86  Release Build\n"
    )
    assert driver_version(tmp_path) == "570.86"
    for bus, model in (("0000:17:00.0", "NVIDIA A100-SXM4-40GB"), ("0000:65:00.0", "Tesla T4")):
        (tmp_path / "gpus" / bus).mkdir(parents=True)
        text = f"Model: \t\t {model}\nIRQ:   \t\t 131\nGPU UUID: \t GPU-1\n"
        (tmp_path / "gpus" / bus / "information").write_text(text)
    assert models(tmp_path) == {"NVIDIA A100-SXM4-40GB", "Tesla T4"}


# ------------------------------------------------------------------------- what a device means


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """As if torch saw two; torch's own calls to them are not made."""
    from fedatlas.arithmetic import torch_device

    monkeypatch.setattr(torch_device, "visible_gpus", lambda: [FIRST, SECOND])
    monkeypatch.setattr(gpus, "_TEMPORARY", tmp_path)
    for name in ("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return torch_device


def test_a_device_is_a_free_gpu_or_the_one_that_is_named(two_gpus, children, tmp_path):
    folder = tmp_path / f"fedatlas-gpus-{os.getuid()}"
    folder.mkdir()
    claimed_by(start(children, folder, 60, FIRST))
    assert two_gpus.claimed("cuda", "run") == "cuda:1"
    assert two_gpus.claimed("auto", "run") == "cuda:1"
    assert two_gpus.claimed("cuda:1", "run") == "cuda:1"
    assert two_gpus.claimed("cpu", "run") == "cpu"
    with pytest.raises(FedatlasError, match="device 'cuda:2' cannot be used"):
        two_gpus.claimed("cuda:2", "run")


def test_a_gpu_takes_as_many_runs_as_declared(two_gpus, children, tmp_path):
    """Empty GPUs come first; once all places are taken, a run waits for one."""
    folder = tmp_path / f"fedatlas-gpus-{os.getuid()}"
    folder.mkdir()
    for gpu in (FIRST, *SECOND.places(3)[:2]):
        claimed_by(start(children, folder, 60, gpu))
    gpus._held.clear()
    assert two_gpus.claimed("cuda/2", "run") == "cuda:0"
    gpus._held.clear()
    assert two_gpus.claimed("cuda/3", "run") == "cuda:0"
    gpus._held.clear()
    assert two_gpus.claimed("cuda:1/3", "run") == "cuda:1"
    assert len({place.identity for place in FIRST.places(9)}) == 9


def test_automatic_jobs_of_slurm_use_gpus_that_they_were_given_only(two_gpus, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert two_gpus.claimed("auto", "run") == "cpu"
    assert two_gpus.claimed("cuda", "run") == "cuda:0"  # was asked for
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert two_gpus.claimed("auto", "run") == "cuda:0"


def test_without_gpus_automatic_is_the_cpu(two_gpus, monkeypatch):
    monkeypatch.setattr(two_gpus, "visible_gpus", list)
    assert two_gpus.claimed("auto", "run") == "cpu"
    with pytest.raises(FedatlasError, match="device 'cuda' cannot be used"):
        two_gpus.claimed("cuda", "run")
