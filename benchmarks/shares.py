"""Where the time of a finished run of the workflow went; prints a table. Run it after `make demo`.

    python benchmarks/shares.py [FOLDER] [--most-seconds 120]

Jobs by rule, from Snakemake's records; of training jobs, how much was rounds, how much measuring at
records, both from the jobs' logs, and how much all else: starting, reading, loading compiled code,
writing. Jobs run beside each other, so that seconds add up to more than the run took. "useful" is
rounds and measuring over the time of all cores, whether they worked or not.
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path

# As the training loop logs it.
_SEED = re.compile(r" seed \d+ (?:ok|diverged) in ([\d.]+) s, of which measuring ([\d.]+) s")


def jobs_of(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Start and end of every job, by rule."""
    jobs: dict[str, dict[tuple[int, float], float]] = defaultdict(dict)
    for file in (folder / ".snakemake" / "metadata").rglob("*"):
        if file.is_file():  # a record of one output: those of a job share hash and end
            record = json.loads(file.read_text(encoding="utf-8"))
            job = (record["job_hash"], record["endtime"])
            # Jobs of several points have rules of their own, train_EXPERIMENT_NUMBER, as numbers
            # of silos have, shard_into_NUMBER.
            rule = re.sub("^(train|shard)_.*", r"\1", record["rule"])
            jobs[rule][job] = record["starttime"]
    return {
        rule: sorted((start, end) for (_, end), start in found.items())
        for rule, found in jobs.items()
    }


def trained(folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds that training jobs spent in rounds and in measuring, by experiment."""
    spent: dict[str, tuple[float, float]] = {}
    for logs in (folder / "logs" / "train").iterdir():
        seeds = [
            (float(seed), float(measuring))
            for file in logs.rglob("*.log")  # single points lie deeper
            for seed, measuring in _SEED.findall(file.read_text(encoding="utf-8"))
        ]
        measuring = sum(part for _, part in seeds)
        spent[logs.name] = sum(whole for whole, _ in seeds) - measuring, measuring
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--cores", type=int, default=2, help="that the run had")
    parser.add_argument("--most-seconds", type=float, default=120, help="the goal for the run")
    parser.add_argument("--least-useful", type=float, default=80, help="the goal, in percent")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    jobs = jobs_of(folder)
    spans = [span for times in jobs.values() for span in times]
    if not spans:
        raise SystemExit(f"{folder.resolve()}: no run of the workflow has left records here")
    took = max(end for _, end in spans) - min(start for start, _ in spans)
    seconds = {rule: sum(end - start for start, end in times) for rule, times in jobs.items()}
    total = sum(seconds.values())
    print(f"{len(spans)} jobs took {total:.0f} s in {took:.0f} s of wall time\n")
    print(f"{'rule':<22}{'jobs':>5}{'seconds':>9}{'share':>7}{'a job':>8}")
    for rule, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        count = len(jobs[rule])
        print(f"{rule:<22}{count:>5}{spent:>9.1f}{spent / total:>7.0%}{spent / count:>8.2f}")
    science = trained(folder)
    rounds, measuring = (sum(part) for part in zip(*science.values(), strict=True))
    others = seconds["train"] - rounds - measuring
    print(
        f"\nof training: {rounds:.1f} s in rounds, {measuring:.1f} s measuring, {others:.1f} s else"
    )
    for experiment, (in_rounds, in_measuring) in sorted(science.items(), key=lambda item: item[0]):
        print(f"  {experiment:<20}{in_rounds:>9.1f} s in rounds{in_measuring:>9.1f} s measuring")
    useful = (rounds + measuring) / (took * arguments.cores)
    print(f"\nwall time {took:.0f} s   goal {arguments.most_seconds:.0f} s")
    print(
        f"useful    {useful:.0%} of {arguments.cores} cores   goal {arguments.least_useful:.0f} %"
    )


if __name__ == "__main__":
    main()
