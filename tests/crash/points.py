"""Every point of a job at which a file changes, and every fault there.

A job that was killed or failed leaves each file as it was or whole as it will be; the same command
then ends as if nothing had been, and leaves no other file.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np

from crash.jobs import Job, make_jobs
from fedatlas.store.packed import open_any
from fedatlas.training.seeds import FINISHED, content_digest, read_seed
from forking import Forks

#: What happens at a point, and its number in faults.c. A write is killed when half is written.
FAULTS = {"kill": 1, "no space": 2, "I/O error": 3, "short write": 4}
WRITES = {"write", "pwrite", "pwrite64", "sendfile", "sendfile64", "copy_file_range", "writev"}
REMOVES = {"unlink", "unlinkat", "rmdir"}
HIDDEN = re.compile(r"\..+\.[0-9a-f]{8}-\d+-[a-z0-9_]{8}(\.\w+)?")
REMEDY = re.compile(r"run again|and run|again once", re.IGNORECASE)

Tree = Mapping[str, bytes]


class Point(NamedTuple):
    """A call of a job: its number, its name and its file."""

    number: int
    call: str
    file: str

    @property
    def faults(self) -> list[str]:
        """What can happen there."""
        return [fault for fault in FAULTS if fault != "short write" or self.call in WRITES]


def tree(folder: Path) -> dict[str, bytes]:
    """Contents of all files by name; folders end in a slash."""
    return {
        file.relative_to(folder).as_posix() + "/" * file.is_dir(): (
            b"" if file.is_dir() else file.read_bytes()
        )
        for file in folder.rglob("*")
    }


def compiled(folder: Path) -> Path:
    """The library of faults.c."""
    library = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source, "-ldl"]
    subprocess.run(list(map(str, command)), check=True)
    return library


class Crashes:
    """A folder in which jobs run one after the other, and fail."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work, self.log = folder, folder / "work", folder / "log.txt"
        self._told = folder / "work.told"
        handler = partial(_Silent, directory=str(folder / "outside"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        Thread(target=self._server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{self._server.server_port}"
        self.jobs = make_jobs(folder / "outside", self.work, address)
        self._forks = Forks(compiled(folder))
        self._before: dict[str, Path] = {}
        self._points: dict[str, list[Point]] = {}
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._after: dict[str, dict[str, bytes]] = {}

    def close(self) -> None:
        self._server.shutdown()

    def points(self) -> Iterator[tuple[Job, list[Point]]]:
        """Run all jobs in their order; each with its points."""
        self.work.mkdir()
        for job in self.jobs:
            before = self.folder / "before" / job.name
            shutil.copytree(self.work, before)
            self._before[job.name] = before
            status, said = self.run(job)
            assert status == 0, said
            self._after[job.name] = self._meaning(tree(self.work))
            told = [line.split(" ", 1) for line in self._told.read_text().splitlines()]
            points = [Point(number, *each) for number, each in enumerate(told, 1)]
            self._points[job.name] = points
            if job.is_tried:
                # In the server, so that its forks have all loaded and compiled.
                self._restore(job)
                self._forks.load((), job.arguments)
                # Again: what is compared must not differ by itself.
                self._restore(job)
                assert self.run(job)[0] == 0
                assert len(self._told.read_text().splitlines()) == len(points)
                self._same(self._meaning(tree(self.work)), self._after[job.name])
                yield job, points

    def run(self, job: Job, number: int = 0, fault: int = 0) -> tuple[int, list[str]]:
        """Exit status, and what is printed."""
        self.log.unlink(missing_ok=True)
        self._told.unlink(missing_ok=True)
        fork = self._forks.start(job.arguments, self.log, [str(self.work), number, fault])
        status = fork.status()
        return status, self.log.read_text(encoding="utf-8").splitlines()

    def attempt(self, job: Job, point: Point, fault: str) -> None:
        """Fail at a point, then run again; AssertionError says what is lost or left."""
        self._restore(job)
        status, said = self.run(job, point.number, FAULTS[fault])
        try:
            told = self._told.read_text().split(" ")[0]
            assert told == point.call, f"the call there is {told}"
            now = tree(self.work)
            # HDF5 itself crashes where the last bytes of a file fail, while it closes that.
            killed = fault == "kill" or (status == -11 and point.call == "pwrite64")
            self._check_ending(status, said, fault, killed)
            # A disk that fails may refuse to remove what the failed write made.
            self._check_files(job, now, killed or point.call in REMOVES)
            named = (each for each in self._points[job.name] if each.call.startswith("rename"))
            for each in named:
                name = Path(each.file).relative_to(self.work).as_posix()
                if each.number < point.number and "/." not in f"/{name}":
                    assert name in now or f"{name}/" in now, f"{name} is gone"
            if status:
                finished, rounds = self._seeds()
                status, said = self.run(job)
                assert status == 0 and not any("not used" in line for line in said)
                again = {file for file, number in finished.items() if file.stat().st_ino != number}
                assert not again, f"trained again: {again}"
                resumed = [line for line in said if "resuming" in line]
                for number in rounds:
                    assert any(f"after round {number}" in line for line in resumed), "no resuming"
                now = tree(self.work)
            self._same(self._meaning(now), self._after[job.name])
        except AssertionError as error:
            error.add_note(f"{job.name}, {fault}, {point}\n" + "\n".join(said))
            raise

    def _check_ending(self, status: int, said: list[str], fault: str, killed: bool) -> None:
        if killed:
            assert status == (-9 if fault == "kill" else -11)
            return
        assert status in (0, 1)
        assert fault != "short write" or status == 0
        if status:
            assert not any("Traceback" in line for line in said), "a traceback"
            _, error, message = "\n".join(["", *said]).partition("\nerror: ")
            assert error, "no error message"
            assert str(self.work) in message, "no file is named"
            assert REMEDY.search(message), "no remedy"

    def _check_files(self, job: Job, now: Tree, may_leave: bool) -> None:
        """What stands under its name is as it was, or as it will be."""
        before, after = tree(self._before[job.name]), self._after[job.name]
        own = self._meaning(now)
        for name, content in now.items():
            if name.endswith("/") or before.get(name) == content or after.get(name) == own[name]:
                continue
            if "/seeds/" in name and not Path(name).name.startswith("."):
                read_seed(self.work / name)  # a checkpoint
                continue
            assert may_leave and any(map(HIDDEN.fullmatch, name.split("/"))), f"{name} is left"
        gone = {name for name in before.keys() - now.keys() if not name.startswith(job.may_go)}
        gone -= before.keys() - after.keys()
        if job.folder:
            found = _within(job.folder, now)
            assert found in ({}, _within(job.folder, before), _within(job.folder, after)), "mixed"
            assert found or not _within(job.folder, before), f"{job.folder} is gone"
            gone = {name for name in gone if not name.startswith(job.folder)}
        assert not gone, f"lost: {gone}"

    def _seeds(self) -> tuple[dict[Path, int], list[int]]:
        """Files of seeds that have a result, with their numbers, and rounds of all checkpoints."""
        files = self.work.glob("results/seeds/*/[!.]*.npz")
        headers = {file: read_seed(file)[0] for file in files}
        finished = {file: file.stat().st_ino for file, own in headers.items() if FINISHED in own}
        return finished, [own["round"] for own in headers.values() if FINISHED not in own]

    def _restore(self, job: Job) -> None:
        shutil.rmtree(self.work)
        shutil.copytree(self._before[job.name], self.work)

    def _meaning(self, files: Tree) -> dict[str, bytes]:
        """Contents of files, of which those that hold measured times do not count these."""
        return {name: self._without_times(name, content) for name, content in files.items()}

    def _without_times(self, name: str, content: bytes) -> bytes:
        if Path(name).name.startswith("."):
            return content
        known = name, sha256(content).digest()
        if known not in self._known:
            self._known[known] = self._read_without_times(name, content)
        return self._known[known]

    def _read_without_times(self, name: str, content: bytes) -> bytes:
        if "/seeds/" in name and name.endswith(".npz"):
            header, arrays = read_seed(self.work / name)
        elif "/traces/" in name and name.endswith(".nc"):
            with open_any(self.work / name) as file:
                header = {key: str(file.getncattr(key)) for key in file.ncattrs()}
                arrays = {key: np.asarray(value[:]) for key, value in file.variables.items()}
                texts = {key: own.astype(str) for key, own in arrays.items() if own.dtype == object}
                arrays |= texts
        elif name == "small.zip":  # holds when files were written
            with ZipFile(self.work / name) as archive:
                header = {member: str(archive.read(member)) for member in archive.namelist()}
            arrays = {}
        else:
            return content
        header.pop("wall_time", None)
        arrays = {key: array for key, array in arrays.items() if "wall_time" not in key}
        return content_digest(json.dumps(header, sort_keys=True), arrays).encode()

    def _same(self, now: Tree, after: Tree) -> None:
        assert not now.keys() - after.keys(), f"left over: {now.keys() - after.keys()}"
        assert not after.keys() - now.keys(), f"missing: {after.keys() - now.keys()}"
        assert not (other := [name for name in now if now[name] != after[name]]), (
            f"differs: {other}"
        )


def _within(folder: str, files: Tree) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name.startswith(f"{folder}/")}


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
