"""Name the process that works in a folder of results; Snakemake's lock does not.

While a run lasts, a hidden file in its results names it. That of a killed run stays, and knows by
what name SLURM has jobs that go on without it.
"""

import atexit
import getpass
import json
import os
import shlex
import socket
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.files import write_text
from fedatlas.plan.places import snakefile

_FILE = ".run-{host}-{process}.json"
_LOCKS = ".snakemake/locks/*.output.lock"
_LONGEST = 80  # characters of a command


@dataclass(frozen=True)
class Holder:
    """A run. began: of its process, in seconds since 1970. slurm: the name of its jobs, if any."""

    host: str
    process: int
    began: float
    user: str
    folder: str
    command: str
    slurm: str = ""

    @property
    def lives(self) -> bool | None:
        """Whether its process does; None on another machine, which cannot be asked."""
        import psutil

        if self.host != socket.gethostname():
            return None
        with suppress(psutil.Error):
            # Another process may have its number by now.
            return abs(psutil.Process(self.process).create_time() - self.began) < 1
        return False

    def jobs(self) -> list[str]:
        """The numbers of its jobs that SLURM has not ended; none without SLURM."""
        if not self.slurm:
            return []
        command = ["squeue", "--noheader", "--format=%i", "--name", self.slurm]
        with suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(
                command, capture_output=True, text=True, timeout=60
            ).stdout.split()
        return []

    def __str__(self) -> str:
        since = f"{datetime.fromtimestamp(self.began):%Y-%m-%d %H:%M}"
        return (
            f"process {self.process} on {self.host} of {self.user} since {since} ({self.command})"
        )


def hold(results: Path, slurm: str = "") -> None:
    """Name this process as one that works in the results, until it ends.

    FedatlasError where jobs of a killed run go on, as they would write the same files, and where
    a run of another folder, which has locks of its own, works in these results.
    """
    for file, holder in _holders(results):
        if holder.lives and holder.folder != str(Path.cwd()):
            raise FedatlasError(
                f"{results}: another run works in this folder of results: {holder}, in "
                f"{holder.folder}. Wait until it ends"
            )
        # A run on another machine lives as long as it has a lock beside ours.
        locked = holder.lives is None and len(list(Path().glob(_LOCKS))) > 1
        if not (holder.lives or locked):
            if jobs := holder.jobs():
                raise FedatlasError(f"{results}: {_orphans(holder, jobs)}. Then start again")
            file.unlink(missing_ok=True)
    import psutil

    process = psutil.Process()
    own = Holder(
        *(socket.gethostname(), process.pid, process.create_time(), getpass.getuser()),
        *(str(Path.cwd()), _command(_words(process.cmdline())), slurm),
    )
    path = results / _FILE.format(host=own.host, process=own.process)
    write_text(path, json.dumps(asdict(own)))

    def leave() -> None:
        if os.getpid() == own.process:  # not a fork of it
            path.unlink(missing_ok=True)

    atexit.register(leave)


def format_lock(results: Path = Path("results")) -> str:
    """Words about who works in this folder, or how to remove the lock of a killed run."""
    host, unlock = socket.gethostname(), shlex.join(["snakemake", *elsewhere(), "--unlock"])
    for _, holder in _holders(results):
        if holder.lives:
            return _active(holder)
        if holder.lives is None:
            return (
                f"a run on another machine works in this folder, or was killed: {holder}. Wait "
                f"until it ends, or end it there. Where it does not run any more, call: {unlock}"
            )
        if jobs := holder.jobs():
            return f"{_orphans(holder, jobs)}. Then call: {unlock}"
    if found := _active_here():  # jobs of a run that was killed, or one that begins
        return _active(found)
    return (
        f"the folder is locked, but no run is active in it on {host}: one was killed, or works on "
        f"another machine. Where none does, call: {unlock}"
    )


def elsewhere() -> list[str]:
    """Snakemake's option that says where the workflow is, if not in the working folder."""
    own = any(Path(name).is_file() for name in ("Snakefile", "workflow/Snakefile"))
    return [] if own else ["--snakefile", snakefile()]


def _active_here() -> Holder | None:
    """The first process of this machine that works in this folder, jobs of a killed run too."""
    import psutil

    found = []
    family = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter(["cmdline", "create_time", "cwd", "ppid", "username"]):
        told = process.info
        words = _words(told["cmdline"] or [])
        runs = "snakemake" in words[:1] or words[:2] in (["fedatlas", "run"], ["fedatlas", "step"])
        own = process.pid in family or told["ppid"] == os.getpid()
        if runs and not own and told["cwd"] == str(Path.cwd()):
            found.append((told["create_time"], process.pid, told["username"], _command(words)))
    if not found:
        return None
    began, process, user, command = min(found)
    return Holder(socket.gethostname(), process, began, user, str(Path.cwd()), command)


def _words(command: list[str]) -> list[str]:
    """A command of Python's without the interpreter and folders."""
    return [Path(word).name for word in command if word != "-m"][1:]


def _command(words: list[str]) -> str:
    return shlex.join(words)[:_LONGEST]


def _active(holder: Holder) -> str:
    # Snakemake alone waits for its jobs.
    alone = not holder.command.startswith("fedatlas run")
    whom = f"-- -{os.getpgid(holder.process)}" if alone else str(holder.process)
    if holder.slurm:
        whom = f"{holder.process}; scancel --name {holder.slurm}"
    return (
        f"a run is active in this folder: {holder}. Wait until it ends, or end it: kill {whom}. "
        "Trainings then go on from their checkpoints."
    )


def _holders(results: Path) -> list[tuple[Path, Holder]]:
    """The files of runs in the results but for this one's, and what they say."""
    found = []
    for file in sorted(results.glob(_FILE.format(host="*", process="*"))):
        with suppress(OSError, ValueError, TypeError):  # it ends just now, or is no such file
            holder = Holder(**json.loads(file.read_text(encoding="utf-8")))
            if holder.lives is None or holder.process != os.getpid():
                found.append((file, holder))
    return found


def _orphans(holder: Holder, jobs: list[str]) -> str:
    return (
        f"a run was killed, but SLURM goes on with its jobs {', '.join(jobs)}: {holder}. Wait "
        f"until they end, or end them: scancel --name {holder.slurm}"
    )
