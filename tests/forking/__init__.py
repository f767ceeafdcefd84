"""Commands that start at once: a server has loaded the libraries, and forks."""

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


class Forks:
    """A server, which ends with this process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fedatlas-")
        address = f"{self._folder.name}/socket"
        self._client = [sys.executable, "-IS", str(HERE / "client.py"), address]
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None and self._server.stdout.readline() == b"ready\n"
        self.programs = Path(self._folder.name) / "bin"
        self.programs.mkdir()
        script = f'#!/bin/sh\nexec {" ".join(self._client)} fedatlas "$@"\n'
        (self.programs / "fedatlas").write_text(script, encoding="utf-8")
        (self.programs / "fedatlas").chmod(0o755)

    def command(self, program: str, *arguments: str) -> list[str]:
        """A command line of `fedatlas` or `snakemake`."""
        return [*self._client, program, *arguments]


@cache
def forks() -> Forks:
    """The server of this process's tests."""
    return Forks()
