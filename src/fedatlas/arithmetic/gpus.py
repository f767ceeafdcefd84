"""The GPUs of this machine: which process computes on which, and by what driver.

A GPU belongs to one process at a time, by a file lock that the kernel frees when the process ends.
The files stay in a folder of the user's and name who holds, or last held, the lock.
"""

import fcntl
import logging
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fedatlas.errors import FedatlasError

log = logging.getLogger(__name__)

# Not tempfile.gettempdir(), as jobs may have temporary folders of their own.
_TEMPORARY = Path("/tmp")
_NVIDIA = Path("/proc/driver/nvidia")
_PAUSE = 0.2  # seconds between two looks for a free GPU

# Locks of this process by identity, kept until it ends.
_held: dict[str, IO[str]] = {}


@dataclass(frozen=True)
class Gpu:
    """name: what torch calls it in this process, such as cuda:0. identity: unique to the GPU."""

    name: str
    identity: str

    def places(self, runs: int) -> list["Gpu"]:
        """The GPU once for each run that it takes at a time; every place has a lock of its own."""
        return [self, *(Gpu(self.name, f"{self.identity}-{place}") for place in range(1, runs))]


def claim(gpus: Sequence[Gpu], purpose: str, folder: Path | None = None) -> Gpu:
    """Lock one of these GPUs until the process ends; wait for it, and log who holds it.

    A process that asks again is given its own. purpose: for the logs of processes that wait.
    folder: of locks, by default the user's.
    """
    folder = folder or _user_folder()
    said = None
    while True:
        for gpu in sorted(gpus, key=lambda gpu: gpu.identity not in _held):
            if gpu.identity in _held or _lock(folder, gpu.identity, purpose):
                log.info("%s: computes on %s (%s)", purpose, gpu.name, gpu.identity)
                return gpu
        holders = "; ".join(f"{gpu.name} is held by {_holder(folder, gpu)}" for gpu in gpus)
        if holders != said:
            log.info("%s: waits for a GPU: %s", purpose, holders)
            said = holders
        time.sleep(_PAUSE)


def driver_version(driver: Path = _NVIDIA) -> str | None:
    """The NVIDIA driver's version, such as 550.54.15; None without one."""
    try:
        text = (driver / "version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)*\b", text)
    return found.group() if found else None


def models(driver: Path = _NVIDIA) -> set[str]:
    """The models of this machine's NVIDIA GPUs, such as NVIDIA A100-SXM4-40GB."""
    texts = (
        file.read_text(encoding="utf-8", errors="replace")
        for file in driver.glob("gpus/*/information")
    )
    return {model for text in texts for model in re.findall(r"^Model:\s*(.*\S)", text, re.M)}


def _lock(folder: Path, identity: str, purpose: str) -> bool:
    path = _path(folder, identity)
    handle = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock on a file that was deleted in between keeps nobody out.
        locked = path.exists() and path.stat().st_ino == os.fstat(handle.fileno()).st_ino
    except BlockingIOError:
        locked = False
    if not locked:
        handle.close()
        return False
    handle.truncate(0)
    handle.write(f"process {os.getpid()} ({purpose})\n")
    handle.flush()
    _held[identity] = handle
    return True


def _holder(folder: Path, gpu: Gpu) -> str:
    try:
        text = _path(folder, gpu.identity).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    return text.strip() or "a process that is starting"


def _path(folder: Path, identity: str) -> Path:
    return folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', identity)}.lock"


def _user_folder() -> Path:
    folder = _TEMPORARY / f"fedatlas-gpus-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FedatlasError(
            f"{folder}: cannot be made, where locks of GPUs lie: {error.strerror}"
        ) from None
    # Anyone may make such a folder, or a link of that name.
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise FedatlasError(
            f"{folder}: is another user's or a link, but must be a folder of your own, where locks "
            "of GPUs lie. Have it removed."
        )
    return folder
