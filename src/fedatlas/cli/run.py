"""Command: run experiments by name, with a progress bar in place of Snakemake's messages."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import Mirror, Seeds
from fedatlas.plain_text import say


def run(
    experiments: Annotated[
        list[str], typer.Argument(help="Names of experiments, or globs such as 'vfb2-*-d1'.")
    ],
    cores: Annotated[int, typer.Option(min=1, help="How many cores to use.")] = 2,
    mirror: Mirror = None,
    device: Annotated[
        str | None,
        typer.Option(help="Where to train: auto, cpu, cuda or cuda:N; cuda/M: M runs at a time."),
    ] = None,
    seeds: Seeds = None,
    decide: Annotated[
        bool, typer.Option("--decide", help="Add seeds until every claim is decided.")
    ] = False,
    most_seeds: Annotated[
        int, typer.Option(min=1, help="With --decide: the most seeds that an experiment may have.")
    ] = 24,
    report: Annotated[
        Path | None, typer.Option(help="Also pack figures, tables and claims into this zip file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Print what would run, and run nothing.")] = False,
) -> None:
    """Run experiments and all that they need; make figures, verdicts and the atlas."""
    from fedatlas.cli.deciding import with_added_seeds
    from fedatlas.errors import FedatlasError
    from fedatlas.plan.holders import elsewhere

    if report is not None and report.suffix != ".zip":
        raise FedatlasError(f"--report {report}: must end in .zip")
    command = ["snakemake", *elsewhere(), "--logger", "fedatlas", "--cores", str(cores)]
    command += ["--dry-run"] if dry_run else []
    settings = settings_of(experiments, mirror, device, seeds)
    added = with_added_seeds(Path("results"), experiments)
    if decide:
        _decide(experiments, [*command, "--config", *settings], most_seeds, dry_run)
    else:
        _call([*command, "--config", *settings])
    if dry_run:
        return
    from rich.console import Console

    from fedatlas.pages.terminal import print_claims

    if report is not None:
        from fedatlas.pages.report import open_on_claims

        asked = ["--report", str(report), "--quiet", "all", "--config", *settings]
        _call(["snakemake", *elsewhere(), *asked])
        open_on_claims(report)
    print_claims(Path("results"), experiments, Console())
    for name in sorted(added - with_added_seeds(Path("results"), experiments)):
        say(f"{name}: judged by a fixed number of seeds, those declared; --decide adds the others.")
    if diverged := diverged_of(experiments):
        say(diverged)
    say("`fedatlas summary` counts all verdicts, and says where files lie.")


def _decide(experiments: list[str], command: list[str], most: int, dry_run: bool) -> None:
    """Run, and add seeds until every claim is decided or no more seeds may be added."""
    from fedatlas.cli.deciding import look, to_decide
    from fedatlas.extensions import projects
    from fedatlas.files import canonical_json
    from fedatlas.plan.build import build_plan
    from fedatlas.plan.places import shipped_configuration

    plan = build_plan(shipped_configuration(), *projects(), names=experiments)
    found = list(to_decide(plan, experiments))
    added = {each.name: 0 for each in found}
    while True:
        _call([*command, f"added_seeds={canonical_json(added)}"])
        if dry_run:
            return
        after, lines = look(found, added, Path("results"), most)
        for line in lines:
            say(line)
        if after == added:
            return
        added = after


def _call(command: list[str]) -> None:
    """Run Snakemake; typer.Exit where it fails."""
    from fedatlas.interruption import HandingOn

    say(shlex.join(command))
    with HandingOn() as signals:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            process_group=0,  # with all jobs
        )
        signals.reach(process.pid)
        status = process.wait()
    signals.end()
    if status:
        raise typer.Exit(status)


def settings_of(
    experiments: list[str], mirror: Path | None, device: str | None, seeds: Path | None = None
) -> list[str]:
    """Values of Snakemake's option --config, which it reads as YAML."""
    from fedatlas.files import canonical_json

    settings = [f"experiments={canonical_json(experiments)}"]
    for key, path in (("mirror", mirror), ("seeds", seeds)):
        if path is None:
            continue
        folder = str(path.absolute())  # 2024_06 would be a number
        if not re.fullmatch(r"[\w./-]+", folder):
            # Snakemake strips quotes from both ends, so other characters must stand there.
            folder = f"!!str {json.dumps(folder, ensure_ascii=False)} #"
        settings.append(f"{key}={folder}")
    return settings + ([f"device={device}"] if device else [])


def diverged_of(experiments: list[str]) -> str:
    """Which runs of these experiments diverged: they did not fail, but cannot be judged."""
    from fedatlas.pages.terminal import format_divergence
    from fedatlas.schema.config import is_named

    tables = sorted(Path("results").glob("experiments/*/table.csv"))
    return format_divergence(file for file in tables if is_named(file.parent.name, experiments))
