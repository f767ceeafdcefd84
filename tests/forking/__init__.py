"""Commands that start at once: a server has loaded the libraries, and forks."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from copy import copy
from functools import cache
from itertools import count
from pathlib import Path
from typing import Self

from forking.client import command, send

HERE = Path(__file__).parent
_NUMBERS = count()


class Fork:
    """A command of `fedatlas` that runs; all that it prints is added to a file."""

    def __init__(
        self, address: str, arguments: Sequence[str], log: Path, fault: Sequence[object]
    ) -> None:
        with Path(os.devnull).open() as nothing, log.open("ab") as output:
            files = [nothing.fileno(), output.fileno(), output.fileno()]
            self._connection = send(address, command("fedatlas", arguments, fault), files)
        self.process = int(self._connection.recv(16))

    def status(self) -> int:
        """Wait for its end: the exit status, negative if a signal ended it."""
        with self._connection:
            return int(self._connection.recv(16))


class Forks:
    """A server, which ends with this process."""

    def __init__(self, preloaded: Path | None = None) -> None:
        """preloaded: a library that the server, which then is for steps alone, is started with."""
        self._folder = tempfile.TemporaryDirectory(prefix="fedatlas-")
        self._address = f"{self._folder.name}/socket"
        self._client = [sys.executable, "-IS", str(HERE / "client.py"), self._address]
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), self._address, *["steps"] * bool(preloaded)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if preloaded else None,
            env=os.environ
            | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
            | ({"LD_PRELOAD": str(preloaded)} if preloaded else {}),
        )
        assert self._server.stdout is not None and self._server.stdout.readline() == b"ready\n"
        programs = Path(self._folder.name) / "bin"
        programs.mkdir()
        client = " ".join(self._client)
        # What `fedatlas run` takes for Python: it calls `python -m snakemake`.
        python = f'[ "$2" = snakemake ] && shift && exec {client} "$@"\nexec {sys.executable} "$@"'
        for name, line in (("fedatlas", f'exec {client} fedatlas "$@"'), ("python", python)):
            (programs / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
            (programs / name).chmod(0o755)

    def another(self) -> Self:
        """A server that is a fork of this one; it ends with this one."""
        other = copy(self)
        other._address = f"{self._address}-{next(_NUMBERS)}"
        with send(self._address, {"another": other._address}, []) as connection:
            connection.recv(16)  # until it is closed
        return other

    def load(self, modules: Sequence[str], arguments: Sequence[str] = ()) -> None:
        """Load modules of fedatlas in the server, and run a command there that compiles."""
        message = {"modules": modules, "arguments": arguments}
        with send(self._address, message, []) as connection:
            connection.recv(16)  # until it is closed

    def start(self, arguments: Sequence[str], log: Path, fault: Sequence[object] = ()) -> Fork:
        """Start `fedatlas`; fault: see `crash.points`."""
        return Fork(self._address, arguments, log, fault)

    def command(self, program: str, *arguments: str) -> list[str]:
        """The command line that runs `fedatlas` or `snakemake` as a fork."""
        return [*self._client, program, *arguments]


@cache
def forks() -> Forks:
    """The server of this process's tests."""
    return Forks()
