"""Runs a command in a fork of the server, as if this process were it.

    python -IS client.py SOCKET PROGRAM [ARGUMENT …]

It loads as little as it can, not even pathlib: a workflow's jobs start it in place of `fedatlas`.
"""

import json
import os
import socket
import sys
from collections.abc import Sequence


def send(address: str, message: dict[str, object], descriptors: Sequence[int]) -> socket.socket:
    """The connection to the server after a message with open files."""
    text = json.dumps(message).encode()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(text))
    connection.connect(address)
    socket.send_fds(connection, [text], descriptors)
    return connection


def command(
    program: str, arguments: Sequence[str], fault: Sequence[object] = ()
) -> dict[str, object]:
    """The message that asks for a command here."""
    return {
        "program": program,
        "arguments": arguments,
        "folder": os.getcwd(),  # noqa: PTH109
        "environment": dict(os.environ),
        "fault": fault,
    }


def main() -> None:
    """End with the command's exit status; without an answer, with that of a crash."""
    address, program, *arguments = sys.argv[1:]
    # Pipes that the shell opened for the command: @<(…) is @/dev/fd/63.
    pipes = [int(word[9:]) for word in arguments if word.startswith("@/dev/fd/")]
    message = command(program, arguments) | {"pipes": pipes}
    with send(address, message, [0, 1, 2, *pipes]) as connection:
        connection.recv(16)  # its number
        status = int(connection.recv(16) or 1)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
