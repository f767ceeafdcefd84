"""What the workflow costs around its jobs: parsing, nothing to do, a dry run of all papers.

Run after `make demo`, so that there is nothing left to do; jobs.py measures the jobs themselves.
Commands take turns; medians of wall time and of processor time, which other programs slow less.
Goals are for a machine with nothing else to do.

    python benchmarks/workflow.py [--repeats 5]
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # as jobs have it
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as make has it

SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet"]
PAPER = ["--configfile", "config/paper.yaml", "--dry-run", "--", "paper"]
EMPTY, PARSED = "snakemake, an empty workflow parsed", "snakemake, this workflow parsed"
NO_OP, ALL_PAPERS = "snakemake, nothing to do in the demo", "snakemake, a dry run of all papers"
PARSING = "parsing of this workflow, the difference"
COMMANDS = {
    "python, nothing imported": [sys.executable, "-c", "pass"],
    "import the plan": [sys.executable, "-c", "import fedatlas.plan.build"],
    "import training": [
        sys.executable,
        "-c",
        "import fedatlas.training.loop, fedatlas.federations.horizontal.cpu_engine",
    ],
    PARSED: [*SNAKEMAKE, "--list-rules"],
    NO_OP: SNAKEMAKE,
    ALL_PAPERS: [*SNAKEMAKE, *PAPER],
}
GOALS = {PARSING: 0.3, NO_OP: 2.0, ALL_PAPERS: 15.0}


class Seconds(NamedTuple):
    wall: float
    processor: float


def run(command: list[str]) -> Seconds:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Seconds(time.perf_counter() - began, used)


def is_made() -> bool:
    """Whether nothing is left to do in the demo."""
    command = [*SNAKEMAKE[:-1], "--dry-run"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return "Nothing to be done" in done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    measured: dict[str, list[Seconds]] = {}
    made = is_made()
    with tempfile.NamedTemporaryFile("w", suffix=".smk") as empty:
        empty.write("rule all:\n    shell: ''\n")
        empty.flush()
        commands = COMMANDS | {EMPTY: [*SNAKEMAKE, "--list-rules", "--snakefile", empty.name]}
        if not made:
            del commands[NO_OP]
        for _ in range(arguments.repeats):
            for name, command in commands.items():
                measured.setdefault(name, []).append(run(command))
    measured[PARSING] = [
        Seconds(whole.wall - empty.wall, whole.processor - empty.processor)
        for whole, empty in zip(measured[PARSED], measured[EMPTY], strict=True)
    ]
    print(f"{'':<42}{'wall':>9}{'processor':>12}")
    for name, values in measured.items():
        wall, processor = map(statistics.median, zip(*values, strict=True))
        goal = f"   goal {GOALS[name]:g} s" if name in GOALS else ""
        print(f"{name:<42}{wall:>7.2f} s{processor:>10.2f} s{goal}")
    if not made:
        print(f"{NO_OP}: not measured, as jobs are left; run `make demo`")
    print("nothing to do in all papers: not measured, as that needs all results   goal 6 s")


if __name__ == "__main__":
    main()
