"""Runs a command in a fork of the server, as if this process were it.

    python -IS client.py SOCKET PROGRAM [ARGUMENT …]

It loads as little as it can: a workflow's jobs start it in place of `fedatlas`.
"""

import json
import os
import socket
import sys
from pathlib import Path


def main() -> None:
    """End with the command's exit status; without an answer, with that of a crash."""
    address, program, *arguments = sys.argv[1:]
    command = {
        "program": program,
        "arguments": arguments,
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
    }
    message = json.dumps(command).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(message))
        connection.connect(address)
        socket.send_fds(connection, [message], [0, 1, 2])
        sys.exit(int(connection.recv(16) or 1))


if __name__ == "__main__":
    main()
