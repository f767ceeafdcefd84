"""What the workflow costs around the training: parsing, no-ops, imports, fixed costs; seconds.

Run after `make demo`, so that there is nothing left to do. The fixed cost of a job is what a
training takes from the start of its process to its end with one seed and one round, of a run of
each demo: 1.5 s is the bound without torch, 2.5 s with it.

    python benchmarks/workflow.py [--repeats 5]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fedatlas.plan import build_plan
from fedatlas.specs import RunSpec

os.environ["OMP_NUM_THREADS"] = "1"  # as jobs have it

COMMANDS = {
    "python, nothing imported": [sys.executable, "-c", "pass"],
    "import the plan": [sys.executable, "-c", "import fedatlas.plan"],
    "import training": [sys.executable, "-c", "import fedatlas.training, fedatlas.problems.on_cpu"],
    "snakemake, nothing to do": [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet"],
}
RUNS = ("demo-fedpage/fedpage", "demo-vfb2/vfb2-svrg", "demo-crosspaper/gradient-tracking")
RUNS += ("demo-crosspaper/tdcd", "demo-fmgda/fmgda", "demo-dpgt/small-noise", "demo-tdcd/q10")


def one_round(spec: RunSpec, output: Path) -> list[str]:
    """A training of one seed and one round."""
    short = spec.model_copy(update={"seeds": spec.seeds[:1], "rounds": 1, "record_every": 1})
    split = f"{spec.dataset}/{spec.split}"
    command = [sys.executable, "-m", "fedatlas", "train", "--spec", short.model_dump_json()]
    command += ["--shards", f"results/shards/{split}", "--output", str(output)]
    return [*command, "--optima", f"results/optima/{split}"] if spec.optimum else command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    plan = build_plan(Path("config"))
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "trace.nc"
        jobs = {
            f"one round of {name}": one_round(plan.runs_of(experiment)[at], output)
            for name in RUNS
            for experiment, run in [name.split("/")]
            for at in [[spec.run for spec in plan.runs_of(experiment)].index(run)]
        }
        for _ in range(arguments.repeats):
            for name, command in (COMMANDS | jobs).items():
                began = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                seconds.setdefault(name, []).append(time.perf_counter() - began)
    bare = statistics.median(seconds["python, nothing imported"])
    for name, values in seconds.items():
        middle = statistics.median(values)
        print(f"{name:<48}{middle:6.2f} s   {middle / bare:5.1f} × bare python")


if __name__ == "__main__":
    main()
