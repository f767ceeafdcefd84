"""A process that has loaded what training needs, and forks: a run then starts within milliseconds.

Reads lines of JSON: `arguments` of the command line, `log` for all that it prints, and `die`, None
or where the process kills itself: [function, end of the file's name, how many calls before].
Answers with the number of the process, and with its exit status when it has ended. Without a `log`
the command runs in this process itself, so that its compiled code is loaded.
"""

import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedatlas import cli
from fedatlas.atlas import joining
from fedatlas.data import prepare
from fedatlas.federations.decentralised import setting as decentralised
from fedatlas.federations.horizontal import setting as horizontal
from fedatlas.federations.min_max import setting as horizontal_min_max
from fedatlas.federations.tiered import setting as tiered
from fedatlas.federations.vertical import setting as vertical
from fedatlas.figures import draw
from fedatlas.training.loop import train

TRAINING = (decentralised, horizontal, horizontal_min_max, tiered, vertical, train, torch)
LOADED = (*TRAINING, joining, prepare, draw)


def die(function: str, ending: str, before: int) -> None:
    """Make a function kill the process when it is called for a file whose name ends so."""
    owner: Any = np.lib.format if function == "write_array" else Path
    original = getattr(owner, function)
    calls = 0

    def fatal(first: Any, *others: Any, **options: Any) -> Any:
        nonlocal calls
        # Arrays go to members of an archive, which has no name here.
        calls += not isinstance(first, Path) or first.name.endswith(ending)
        if calls > before:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(first, *others, **options)

    setattr(owner, function, fatal)


def main() -> None:
    """Fork for every line."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["log"] is None:
            cli.app(request["arguments"], standalone_mode=False)
            # Or children spend a second on copying what they look through at their end.
            gc.freeze()
            print("warm", flush=True)
            continue
        child = os.fork()
        if child == 0:
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if request["die"]:
                die(*request["die"])
            sys.argv = ["fedatlas", *request["arguments"]]
            cli.main()
            return
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
