"""A process that has loaded the libraries and forks: a command then starts in milliseconds.

A workflow's jobs load libraries for two seconds each, and compute for less. fedatlas itself is
imported after the fork, from the sources that PYTHONPATH names, unless the server was told to load
modules of it.

    python server.py SOCKET [steps]

With `steps` it loads what these need. See `Forks` for the messages. The server ends when its own
input does.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

# What steps load, and what others do.
OF_STEPS = (
    *("h5py", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
    *("matplotlib.figure", "netCDF4", "numba.core.caching", "pandas", "pyarrow.pandas_compat"),
    *("pyarrow.parquet", "scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.stats"),
    *("typer", "xarray"),
)
OF_OTHERS = (
    *("plotly.offline", "sklearn.datasets", "sklearn.metrics", "smart_open", "snakemake.cli"),
    *("snakemake.dag", "snakemake.report", "snakemake.storage", "torch.func"),
)
LONGEST = 1 << 18  # bytes of a message
SOCKET = Path(sys.argv[1])


def run(command: dict[str, Any]) -> None:
    """What `python -m program arguments` does."""
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    os.environ["PYTHONHASHSEED"] = "0"  # this process has it: none need start again for it
    sys.path[1:1] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.argv = [command["program"], *command["arguments"]]
    if command["fault"]:
        folder, number, kind = command["fault"]
        # The library was preloaded into this process. What it tells goes to a file of its own.
        told = os.open(folder + ".told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        ctypes.CDLL(None).arm_faults(folder.encode(), ctypes.c_long(number), kind, told)
    if command["program"] == "snakemake" or command["arguments"][:1] == ["run"]:
        # The workflow looks for `fedatlas` beside Python first.
        sys.executable = str(SOCKET.with_name("bin") / "python")
    if command["program"] == "snakemake":
        importlib.import_module("snakemake.cli").main()
    else:
        importlib.import_module("fedatlas.cli").main()


def run_to_the_end(command: dict[str, Any]) -> NoReturn:
    """Run, and end without tearing modules down, which takes a fork half a second."""
    status: Any = 0
    try:
        run(command)
    except SystemExit as stop:
        status = stop.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


def run_here(message: dict[str, Any]) -> None:
    """Load modules, and run a command so that its compiled code is loaded."""
    for module in message["modules"]:
        importlib.import_module(module)
    if message["arguments"]:
        cli = importlib.import_module("fedatlas.cli")
        cli.app(message["arguments"], standalone_mode=False)
    gc.freeze()


class Server:
    """Forks for every command, and answers with the process's number and its exit status."""

    def __init__(self, address: str) -> None:
        self._running: dict[int, socket.socket] = {}
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address)
        self._listener.listen()

    def serve(self) -> None:
        """Until the standard input ends."""
        sources = (sys.stdin.fileno(), self._listener.fileno(), self._wake)
        with selectors.DefaultSelector() as selector:
            for source in sources:
                selector.register(source, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if self._wake in ready:
                    os.read(self._wake, 4096)
                    self._tell_of_ends()
                if self._listener.fileno() in ready:
                    self._answer()
                elif sys.stdin.fileno() in ready:
                    return

    def _tell_of_ends(self) -> None:
        for process in list(self._running):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                with self._running.pop(process) as connection:
                    connection.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _answer(self) -> None:
        connection, _ = self._listener.accept()
        text, descriptors, *_ = socket.recv_fds(connection, LONGEST, 16)
        message = json.loads(text)
        if "program" in message:
            process = os.fork()
            if process == 0:
                self._forked(connection, descriptors, message)
            self._running[process] = connection
            connection.send(str(process).encode())
        elif "another" in message:
            if os.fork() == 0:
                self._close()
                server = Server(message["another"])
                connection.close()
                server.serve()
                os._exit(0)
            connection.close()
        else:
            run_here(message)
            connection.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def _close(self) -> None:
        """In a fork, which has nothing to do with this server's commands."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for own in (self._wake, self._woken, self._listener.fileno()):
            os.close(own)

    def _forked(
        self, connection: socket.socket, descriptors: list[int], command: dict[str, Any]
    ) -> NoReturn:
        self._close()
        os.close(connection.fileno())
        numbers = [0, 1, 2, *command.get("pipes", ())]
        for number, descriptor in zip(numbers, descriptors, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        run_to_the_end(command)


if __name__ == "__main__":
    for library in OF_STEPS:
        importlib.import_module(library)
    if sys.argv[2:] != ["steps"]:
        for library in OF_OTHERS:
            importlib.import_module(library)
        sys.modules["snakemake.cli"].get_argument_parser()  # loads all plugins
    cpu_target = importlib.import_module("numba.core.registry").cpu_target
    cpu_target.typing_context.refresh()  # loads what compiled code needs
    cpu_target.target_context.refresh()
    gc.freeze()  # or children copy what they look through
    server = Server(str(SOCKET))
    print("ready", flush=True)
    server.serve()
