"""A process that has loaded the libraries and forks: a command then starts in milliseconds.

A workflow's jobs load libraries for two seconds each, and compute for less. Only the libraries are
loaded here: fedatlas is imported after the fork, from the sources that PYTHONPATH names.

    python server.py SOCKET

A message of `client.py` holds a command; it takes over the client's input and output. The answer
is its exit status. The server ends when its own input does.
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import h5py  # noqa: F401
import matplotlib.figure  # noqa: F401
import netCDF4  # noqa: F401
import numba.core.caching  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.stats  # noqa: F401
import sklearn.datasets
import sklearn.metrics  # noqa: F401
import snakemake.cli
import snakemake.dag
import snakemake.report
import torch.func  # noqa: F401
import typer  # noqa: F401
import xarray  # noqa: F401

LONGEST = 1 << 18  # bytes of a message


def run(command: dict[str, Any]) -> None:
    """What `python -m program arguments` does."""
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    sys.path[1:1] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    programs = Path(sys.argv[1]).with_name("bin")
    sys.argv = [command["program"], *command["arguments"]]
    if command["program"] == "snakemake":
        # The workflow looks for `fedatlas` beside Python first.
        sys.executable = str(programs / "python")
        snakemake.cli.main()
    else:
        from fedatlas.cli import main

        main()


def end(run: Callable[[dict[str, Any]], None], command: dict[str, Any]) -> NoReturn:
    """End without tearing modules down, which takes a fork half a second."""
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


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A command, and the client's standard input, output and error."""
    message, descriptors, *_ = socket.recv_fds(connection, LONGEST, 3)
    return json.loads(message), descriptors


def main() -> None:
    """Fork for every message."""
    snakemake.cli.get_argument_parser()  # loads all plugins
    gc.freeze()  # or children copy what they look through
    running: dict[int, socket.socket] = {}
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(sys.argv[1])
    listener.listen()
    print("ready", flush=True)
    with selectors.DefaultSelector() as selector:
        for source in (sys.stdin.fileno(), listener.fileno(), wake):
            selector.register(source, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if wake in ready:
                os.read(wake, 4096)
                for process in list(running):
                    done, status = os.waitpid(process, os.WNOHANG)
                    if done:
                        with running.pop(process) as connection:
                            connection.send(str(os.waitstatus_to_exitcode(status)).encode())
            if listener.fileno() in ready:
                connection, _ = listener.accept()
                command, descriptors = receive(connection)
                process = os.fork()
                if process == 0:
                    break
                running[process] = connection
                for descriptor in descriptors:
                    os.close(descriptor)
            elif sys.stdin.fileno() in ready:
                return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for own in (wake, woken, listener.fileno(), connection.fileno()):
        os.close(own)
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
    end(run, command)


if __name__ == "__main__":
    main()
