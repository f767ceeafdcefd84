"""The GPUs of this machine: which process computes on which, and by what driver.

A GPU belongs to one process at a time, by a lock that the kernel frees when the process ends,
however it does. Locks are files in a folder of the user's, which stay; what they say is of who
holds, or last held, the lock.
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

# Not tempfile.gettempdir(): jobs may have temporary folders of their own.
_TEMPORARY = Path("/tmp")
_NVIDIA = Path("/proc/driver/nvidia")
# Seconds between two looks for a free one.
_PAUSE = 0.2

# What this process has locked, by identity: kept until it ends.
_held: dict[str, IO[str]] = {}


@dataclass(frozen=True)
class Gpu:
    """name: what torch calls it in this process, as cuda:0. identity: that no other GPU has."""

    name: str
    identity: str


def claim(gpus: Sequence[Gpu], purpose: str, folder: Path | None = None) -> Gpu:
    """One of these GPUs, at least one, that no other process has; waits for it, and says for whom.

    It is this process's own until it ends, and is given again if it asks again.

    purpose: what other processes read that wait. folder: of locks, if not the user's own.
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
    found = set()
    for file in driver.glob("gpus/*/information"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model":
                found.add(value.strip())
    return found


def _lock(folder: Path, identity: str, purpose: str) -> bool:
    path = _path(folder, identity)
    handle = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A file that was deleted in between locks nothing out.
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
