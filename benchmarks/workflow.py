"""What the workflow costs around its jobs: parsing, nothing to do, imports; seconds.

Run after `make demo`, so that there is nothing left to do; jobs.py measures the jobs themselves.

    python benchmarks/workflow.py [--repeats 5]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"  # as jobs have it

SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet"]
EMPTY, PARSED = "snakemake, an empty workflow parsed", "snakemake, this workflow parsed"
COMMANDS = {
    "python, nothing imported": [sys.executable, "-c", "pass"],
    "import the plan": [sys.executable, "-c", "import fedatlas.plan.build"],
    "import training": [
        sys.executable,
        "-c",
        "import fedatlas.training.loop, fedatlas.federations.horizontal.cpu_engine",
    ],
    PARSED: [*SNAKEMAKE, "--list-rules"],
    "snakemake, nothing to do": SNAKEMAKE,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    with tempfile.NamedTemporaryFile("w", suffix=".smk") as empty:
        empty.write("rule all:\n    shell: ''\n")
        empty.flush()
        commands = COMMANDS | {EMPTY: [*SNAKEMAKE, "--list-rules", "--snakefile", empty.name]}
        for _ in range(arguments.repeats):
            for name, command in commands.items():
                began = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                seconds.setdefault(name, []).append(time.perf_counter() - began)
    bare = statistics.median(seconds["python, nothing imported"])
    for name, values in seconds.items():
        middle = statistics.median(values)
        print(f"{name:<48}{middle:6.2f} s   {middle / bare:5.1f} × bare python")
    parsing = [whole - empty for whole, empty in zip(seconds[PARSED], seconds[EMPTY], strict=True)]
    print(f"{'parsing of this workflow, the difference':<48}{statistics.median(parsing):6.2f} s")


if __name__ == "__main__":
    main()
