"""Run experiments through profiles/slurm on a SLURM of one node, and compare with a local run.

usage: check_slurm.py [--keep FOLDER] [--way WAY]… [EXPERIMENT…]

Ways are plain jobs, and training in arrays, to whose traces the same applies; and faults, which
hit a training of their own: see `cluster_faults`. All, unless some are named. Where SLURM cannot
be started it fails and says why.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from fedatlas.provenance import difference

sys.path.insert(0, str(Path(__file__).parent.parent))
from slurm.cluster_faults import Faults, copy_prepared, make_reference
from slurm.one_node_slurm import OneNodeSlurm, Unavailable
from workflow_copy import copy_workflow

# A part of the demo: rounds with a server; silos, parties, agents and an optimum on one objective.
EXPERIMENTS = ("demo-fedpage", "demo-crosspaper")
WAYS = {
    "slurm": (),
    "slurm-arrays": ("--slurm-array-jobs", "train_run"),
}
FAULTS = "faults"
HOST = {"device", "versions"}  # attributes of traces that may differ


def run_workflow(folder: Path, environment: dict[str, str], *options: str) -> None:
    """Snakemake to its end; its output is shown if it fails."""
    folder.mkdir()
    copy_workflow(folder)
    if "--slurm-array-jobs" in options:
        # Arrays are made of points that train alone.
        for file in (folder / "config" / "experiments").rglob("*.yaml"):
            text = file.read_text(encoding="utf-8")
            file.write_text(re.sub(r"(?m)^ *point_seconds: .*\n", "", text), encoding="utf-8")
    start = time.monotonic()
    outcome = subprocess.run(
        [sys.executable, "-m", "snakemake", "--quiet", "rules", *options],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if outcome.returncode:
        raise SystemExit(f"{outcome.stdout}\nFAILED: {folder.name}, exit {outcome.returncode}")
    print(f"{folder.name}: {time.monotonic() - start:.0f} s", flush=True)


def judgements_in(folder: Path) -> dict[str, bytes]:
    """What is concluded from traces, by its place in the results."""
    results = folder / "results" / "experiments"
    files = [*results.glob("*/selection.json"), *results.glob("*/claims.csv")]
    return {str(file.relative_to(results)): file.read_bytes() for file in files}


def compare(reference: Path, other: Path) -> int:
    """How many traces two folders have; ends the program where any result is not in both."""
    found = difference.compare(reference / "results", other / "results", difference.Tolerance())
    if found.exit_status or not {name for name, *_ in found.attributes} <= HOST:
        difference.print_comparison(found, Console())
        raise SystemExit(f"FAILED: traces of {other.name} are not those that were made locally")
    if judgements_in(reference) != judgements_in(other):
        raise SystemExit(f"FAILED: traces of {other.name} are equal, but what is concluded is not")
    return len(found.compared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiments", nargs="*", default=EXPERIMENTS, metavar="EXPERIMENT")
    parser.add_argument("--keep", type=Path, help="a new folder, kept when done")
    parser.add_argument("--way", choices=[*WAYS, FAULTS], action="append", help="this one only")
    chosen = parser.parse_args()
    ways = [way for way in WAYS if way in (chosen.way or WAYS)]
    faults = FAULTS in (chosen.way or [FAULTS])
    # So that daemons are stopped then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: terminated"))
    names = ",".join(f'"{name}"' for name in chosen.experiments)
    selection = ("--config", f"experiments=[{names}]")
    with tempfile.TemporaryDirectory(prefix="fedatlas-slurm-") as temporary:
        base = chosen.keep.resolve() if chosen.keep else Path(temporary) / "runs"
        base.mkdir(parents=True)
        if faults:
            make_reference(base / "faults-local")
        try:
            # All jobs that faults hit run at once.
            with OneNodeSlurm(Path(temporary) / "slurm", 8 if faults else None) as slurm:
                before = 0
                for way in ways:
                    run_workflow(
                        base / way,
                        slurm.environment,
                        *("--profile", "profiles/slurm", *selection, *WAYS[way]),
                        *("--slurm-init-seconds-before-status-checks", "2"),
                    )
                    # Numbers are given in turn; each task of an array has one.
                    last = max(map(int, slurm.ask("squeue", "-ht", "all", "-o", "%A").split()))
                    print(f"{last - before} jobs were submitted to SLURM", flush=True)
                    before = last
                if faults:
                    start = time.monotonic()
                    copy_prepared(base / "faults-local", base / FAULTS)
                    Faults(base / FAULTS, slurm).hit()
                    count = compare(base / "faults-local", base / FAULTS)
                    print(f"faults: {count} traces equal the local run's,", end=" ")
                    print(f"{time.monotonic() - start:.0f} s", flush=True)
        except Unavailable as reason:
            raise SystemExit(f"FAILED: SLURM cannot be started: {reason}") from None
        if ways:
            run_workflow(base / "local", dict(os.environ), *selection, "--cores", "2")
        for way in ways:
            count = compare(base / "local", base / way)
            print(f"{way}: {count} traces, selections and verdicts equal the local run's")


if __name__ == "__main__":
    main()
