"""Where the time of training jobs goes, from the start of the process to its end; prints a table.

Run after `make demo`, or whatever has made the shards of the runs that are named:

    python benchmarks/jobs.py [--one-round] [--repeats 3] [EXPERIMENT/RUN …]

With --one-round a job has one seed and one round, which leaves the fixed cost; beside it, a job of
several such points shows what one more costs in a job that has begun. Numbers are processor time,
which other programs slow less: medians of all repetitions, which take turns.
"digest" is that of the code, "rehearsal" that of the method; "loading" is what two rounds for
nothing take, when compiled code is loaded; "evaluation" is what records measure, "writing" the
trace. "start" is all else: Python's own start and end, the command line, the specification.
"""

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

RUNS = (
    *("demo-fedpage/fedpage", "demo-vfb2/vfb2-svrg", "demo-crosspaper/gradient-tracking"),
    *("demo-crosspaper/tdcd", "demo-fmgda/fmgda", "demo-dpgt/small-noise", "demo-tdcd/q10"),
)
PARTS = ("imports", "digest", "reading", "rehearsal", "loading", "rounds", "evaluation", "writing")
GOALS = {False: 1.5, True: 2.5}  # seconds of one round, without and with torch
POINTS, SHARED = 5, ", shared"


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
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}  # as jobs have it
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as make has it
    alone = {name: first_point(name, arguments.one_round) for name in arguments.runs}
    jobs = {name: [spec] for name, spec in alone.items()}
    if arguments.one_round:
        jobs |= {
            name + SHARED: [named(spec, n) for n in range(POINTS)] for name, spec in alone.items()
        }
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    for _ in range(arguments.repeats):
        for name, specs in jobs.items():
            measured[name].append(job(specs))
    print("".join(f"{name:>12}" for name in ("job", "start", *PARTS)), "  run")
    middle = {
        name: {part: statistics.median(job[part] for job in found) for part in found[0]}
        for name, found in measured.items()
    }
    for name, spec in alone.items():
        goal = f"   goal {GOALS[is_in_torch(spec)]:g} s" if arguments.one_round else ""
        print(
            "".join(f"{seconds:>10.2f} s" for seconds in middle[name].values()), f"  {name}{goal}"
        )
    if arguments.one_round:
        print("\none more point in a job that has begun, over a job of its own   goal below 1")
        for name in alone:
            own = middle[name]["job"]
            more = (middle[name + SHARED]["job"] - own) / (POINTS - 1)
            print(f"{more:>10.2f} s{more / own:>8.2f}   {name}")


def first_point(name: str, one_round: bool) -> Any:
    """The first of a run's points."""
    from fedatlas.plan.build import build_plan  # which no job imports

    experiment, run = name.split("/")
    spec = next(spec for spec in build_plan(Path("config")).runs_of(experiment) if spec.run == run)
    if not one_round:
        return spec
    return spec.model_copy(update={"seeds": spec.seeds[:1], "rounds": 1, "record_every": 1})


def named(spec: Any, number: int) -> Any:
    """The same under the name of another point."""
    return spec.model_copy(update={"point": f"{spec.point}-{number}"})


def is_in_torch(spec: Any) -> bool:
    """Whether the run's job needs torch."""
    from fedatlas.schema.objectives import NetworkObjective

    return isinstance(spec.objective, NetworkObjective)


def job(specs: Sequence[Any]) -> dict[str, float]:
    """Seconds of the job as a whole and of its parts."""
    from fedatlas.plan.jobs import points

    with tempfile.TemporaryDirectory() as folder:
        for made in ("shards", "optima"):
            (Path(folder) / made).symlink_to(Path("results", made).resolve())
        file = Path(folder) / "parts.json"
        command = [sys.executable, __file__, "--within", str(file), "step", "train_run"]
        command.append(json.dumps(points(*specs) | {"results": folder}))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"a job failed; was `make demo` run?\n{done.stderr}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        parts = json.loads(file.read_text())
    return {"job": took, "start": took - sum(parts.values())} | parts


def measure(file: Path, command: list[str]) -> None:
    """Be the command line; parts go to the file."""
    began = time.process_time()
    from fedatlas import cli

    gc.set_threshold(cli.NEW_OBJECTS)  # as the command line does before it imports anything else
    from fedatlas.federations import context
    from fedatlas.training import loop, rehearsal

    parts = dict.fromkeys(PARTS, 0.0)

    def timed(owner: Any, name: str, part: str, within: str = "") -> None:
        """Add what a function takes to a part; if it runs within another, take it off there."""
        original: Callable[..., Any] = getattr(owner, name)

        @wraps(original)
        def call(*arguments: Any, **options: Any) -> Any:
            before = time.process_time()
            try:
                return original(*arguments, **options)
            finally:
                took = time.process_time() - before
                parts[part] += took
                if within:
                    parts[within] -= took

        setattr(owner, name, call)

    timed(loop, "code_digest", "digest")
    timed(context.FederationContext, "__init__", "reading")
    timed(rehearsal, "rehearse_once", "rehearsal")
    timed(loop._Run, "train", "rounds")
    timed(loop._Run, "_warm_up", "loading", within="rounds")
    timed(loop._Run, "_measured", "evaluation", within="rounds")
    timed(loop, "write_trace", "writing")
    parts["imports"] = time.process_time() - began
    sys.argv = ["fedatlas", *command]
    try:
        cli.main()
    finally:
        file.write_text(json.dumps(parts))


if __name__ == "__main__":
    main()
