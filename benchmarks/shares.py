"""Where the time of a finished run of the workflow went; prints a table. Run it after `make demo`.

    python benchmarks/shares.py [FOLDER]

Jobs by rule, from Snakemake's records; of training jobs, how much was rounds (the traces'
wall_time: draws, messages, gradients) and how much all else: starting, loading compiled code,
evaluation at records, writing. Jobs run beside each other, so that seconds add up to more than the
run took.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

from fedatlas.traces.trace import read_trace


def jobs_of(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Start and end of every job, by rule."""
    jobs: dict[str, dict[tuple[int, float], float]] = defaultdict(dict)
    for file in (folder / ".snakemake" / "metadata").rglob("*"):
        if file.is_file():  # a record of one output: those of a job share hash and end
            record = json.loads(file.read_text(encoding="utf-8"))
            job = (record["job_hash"], record["endtime"])
            # Jobs of several points have rules of their own, train_EXPERIMENT_NUMBER.
            rule = "train" if record["rule"].startswith("train_") else record["rule"]
            jobs[rule][job] = record["starttime"]
    return {
        rule: sorted((start, end) for (_, end), start in found.items())
        for rule, found in jobs.items()
    }


def rounds_of(folder: Path) -> dict[str, float]:
    """Seconds that training jobs spent in rounds, by experiment."""
    spent: dict[str, float] = defaultdict(float)
    for file in (folder / "results" / "experiments").glob("*/traces/*/*.nc"):
        spent[file.parts[-4]] += float(read_trace(file)["wall_time"].max("record").sum())
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    folder = parser.parse_args().folder
    jobs = jobs_of(folder)
    spans = [span for times in jobs.values() for span in times]
    took = max(end for _, end in spans) - min(start for start, _ in spans)
    seconds = {rule: sum(end - start for start, end in times) for rule, times in jobs.items()}
    total = sum(seconds.values())
    print(f"{len(spans)} jobs took {total:.0f} s in {took:.0f} s of wall time\n")
    print(f"{'rule':<22}{'jobs':>5}{'seconds':>9}{'share':>7}{'a job':>8}")
    for rule, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        count = len(jobs[rule])
        print(f"{rule:<22}{count:>5}{spent:>9.1f}{spent / total:>7.0%}{spent / count:>8.2f}")
    rounds = rounds_of(folder)
    in_rounds = sum(rounds.values())
    others = seconds["train"] - in_rounds
    print(f"\nof training: {in_rounds:.1f} s in rounds, {others:.1f} s beside them")
    for experiment, spent in sorted(rounds.items(), key=lambda item: -item[1]):
        print(f"  {experiment:<20}{spent:>9.1f} s in rounds")


if __name__ == "__main__":
    main()
