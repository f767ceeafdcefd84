"""Try every crash point of every kind of job, or some; print a table, fail if one is not survived.

    python tests/crash/check_crashes.py [--some N] [--cores N] [--jobs NAME …]

--some: faults of each kind of job, the same in every run, so that a commit fails for what it
changed. It needs a compiler of C, and Linux.
"""

import os
import sys
import tempfile
import traceback
from argparse import ArgumentParser
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ["OMP_NUM_THREADS"] = "1"

from crash.points import FAULTS, Crashes

Tried = tuple[dict[str, int], Counter[tuple[str, str]], list[str]]


def tried(part: int, parts: int, some: int, names: list[str]) -> Tried:
    """Points by job; faults tried, by job and kind; those not survived. Of every parts-th fault."""
    points, faults, lost = {}, Counter[tuple[str, str]](), list[str]()
    with tempfile.TemporaryDirectory(prefix="fedatlas-crash-") as folder:
        crashes = Crashes(Path(folder))
        for job, own in list(crashes.points()):
            points[job.name] = len(own)
            attempts = [(point, fault) for point in own for fault in point.faults]
            if some:
                attempts = Random(job.name).sample(attempts, min(some, len(attempts)))
            for point, fault in attempts[part::parts] if not names or job.name in names else ():
                faults[job.name, fault] += 1
                if sum(faults.values()) % 100 == 0:
                    print(f"{job.name}, {point}", file=sys.stderr)
                try:
                    crashes.attempt(job, point, fault)
                except Exception:
                    lost.append(traceback.format_exc(limit=-1))
    return points, faults, lost


def main() -> None:
    options = ArgumentParser(description=__doc__)
    options.add_argument("--some", type=int, default=0)
    options.add_argument("--cores", type=int, default=1)
    options.add_argument("--jobs", nargs="*", default=[])
    given = options.parse_args()
    points, faults, lost = dict[str, int](), Counter[tuple[str, str]](), list[str]()
    with ProcessPoolExecutor(given.cores) as pool:
        asked = [(part, given.cores, given.some, given.jobs) for part in range(given.cores)]
        for there, own, failed in pool.map(tried, *zip(*asked, strict=True)):
            points |= there
            faults += own
            lost += failed
    print("\n".join(lost))
    print(f"{'job':<20}{'points':>8}" + "".join(f"{fault:>13}" for fault in FAULTS))
    for job, number in points.items():
        row = "".join(f"{faults[job, fault]:>13}" for fault in FAULTS)
        print(f"{job:<20}{number:>8}{row}")
    count = sum(faults.values())
    print(f"{sum(points.values())} points, {count} faults tried, {count - len(lost)} survived")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
