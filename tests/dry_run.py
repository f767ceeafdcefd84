"""A process that has loaded Snakemake and forks: a graph of jobs is then built in half the time.

Reads lines of JSON: the workflow's `folder`, Snakemake's `arguments`, and a `log` for all output.
Answers with the exit status. The package is imported after the fork, from the workflow's folder.
"""

import json
import os
import sys

import pydantic  # noqa: F401
import snakemake.cli
import snakemake.dag
import snakemake.report


def main() -> None:
    """Fork for every line."""
    snakemake.cli.get_argument_parser()  # loads all plugins
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(request["folder"])
            sys.path.insert(0, f"{request['folder']}/src")
            sys.argv = ["snakemake", *request["arguments"]]
            snakemake.cli.main()
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
