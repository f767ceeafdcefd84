"""Where the time of training jobs goes, from the start of the process to its end; prints a table.

Run after `make demo`, or whatever has made the shards of the runs that are named:

    python benchmarks/jobs.py [--one-round] [--repeats 3] [EXPERIMENT/RUN …]

With --one-round a job has one seed and one round, which leaves the fixed cost: 1.5 s is the bound
without torch, 2.5 s with it. Every number is the median of all repetitions, which take turns.
"digest" is that of the code; "loading" is what two rounds for nothing take, when compiled code is
loaded; "evaluation" is what records measure, "writing" the trace. "start" is all else: Python's own
start and end, the command line, the specification.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

RUNS = ("demo-fedpage/fedpage", "demo-vfb2/vfb2-svrg", "demo-crosspaper/gradient-tracking")
RUNS += ("demo-crosspaper/tdcd", "demo-fmgda/fmgda", "demo-dpgt/small-noise", "demo-tdcd/q10")
PARTS = ("imports", "digest", "reading", "loading", "rounds", "evaluation", "writing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", default=RUNS, metavar="EXPERIMENT/RUN")
    parser.add_argument("--one-round", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--within", metavar="FILE", help="this process is the job")
    arguments, command = parser.parse_known_args()
    if arguments.within:
        measure(Path(arguments.within), [*arguments.runs, *command])
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # as jobs have it
    print("".join(f"{name:>12}" for name in ("job", "start", *PARTS)), "  run")
    specs = {name: spec_of(name, arguments.one_round) for name in arguments.runs}
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in specs}
    for _ in range(arguments.repeats):
        for name, spec in specs.items():
            measured[name].append(job(spec))
    for name, jobs in measured.items():
        medians = (statistics.median(job[part] for job in jobs) for part in jobs[0])
        print("".join(f"{seconds:>10.2f} s" for seconds in medians), f"  {name}")


def spec_of(name: str, one_round: bool) -> Any:
    """The first of a run's points."""
    from fedatlas.plan.build import build_plan  # which no job imports

    experiment, run = name.split("/")
    spec = next(spec for spec in build_plan(Path("config")).runs_of(experiment) if spec.run == run)
    if not one_round:
        return spec
    return spec.model_copy(update={"seeds": spec.seeds[:1], "rounds": 1, "record_every": 1})


def job(spec: Any) -> dict[str, float]:
    """Seconds of the job as a whole and of its parts."""
    split = f"{spec.dataset}/{spec.split}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "parts.json"
        command = [sys.executable, __file__, "--within", str(file), "train"]
        command += ["--spec", spec.model_dump_json(), "--shards", f"results/shards/{split}"]
        command += ["--output", f"{folder}/trace.nc"]
        if spec.optimum:
            command += ["--optima", f"results/optima/{split}"]
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        took = time.perf_counter() - began
        parts = json.loads(file.read_text())
    return {"job": took, "start": took - sum(parts.values())} | parts


def measure(file: Path, command: list[str]) -> None:
    """Be the command line; parts go to the file."""
    began = time.perf_counter()
    from fedatlas import cli

    gc.set_threshold(cli.NEW_OBJECTS)  # as the command line does before it imports anything else
    from fedatlas.training import loop as training

    parts = dict.fromkeys(PARTS, 0.0)

    def timed(owner: Any, name: str, part: str, within: str = "") -> None:
        """Add what a function takes to a part; if it runs within another, take it off there."""
        original: Callable[..., Any] = getattr(owner, name)

        @wraps(original)
        def call(*arguments: Any, **options: Any) -> Any:
            before = time.perf_counter()
            try:
                return original(*arguments, **options)
            finally:
                took = time.perf_counter() - before
                parts[part] += took
                if within:
                    parts[within] -= took

        setattr(owner, name, call)

    timed(training, "code_digest", "digest")
    timed(training, "open_setting", "reading")
    timed(training._Run, "warm_up", "loading")
    timed(training._Run, "train", "rounds")
    timed(training._Run, "_record", "evaluation", within="rounds")
    timed(training, "write_trace", "writing")
    parts["imports"] = time.perf_counter() - began
    sys.argv = ["fedatlas", *command]
    try:
        cli.main()
    finally:
        file.write_text(json.dumps(parts))


if __name__ == "__main__":
    main()
