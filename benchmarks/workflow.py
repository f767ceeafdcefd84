"""What the workflow costs around its jobs: parsing, nothing to do, imports; seconds.

Run after `make demo`, so that there is nothing left to do; jobs.py measures the jobs themselves.

    python benchmarks/workflow.py [--repeats 5]
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"  # as jobs have it

COMMANDS = {
    "python, nothing imported": [sys.executable, "-c", "pass"],
    "import the plan": [sys.executable, "-c", "import fedatlas.plan"],
    "import training": [sys.executable, "-c", "import fedatlas.training, fedatlas.problems.on_cpu"],
    "snakemake, nothing to do": [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    for _ in range(arguments.repeats):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
    bare = statistics.median(seconds["python, nothing imported"])
    for name, values in seconds.items():
        middle = statistics.median(values)
        print(f"{name:<48}{middle:6.2f} s   {middle / bare:5.1f} × bare python")


if __name__ == "__main__":
    main()
