"""Command: run experiments by name, with a bar in place of Snakemake's messages."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from datetime import datetime
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
        str | None, typer.Option(help="Where to train: auto, cpu, cuda, cuda:N, or cuda/M.")
    ] = None,
    seeds: Seeds = None,
    decide: Annotated[
        bool, typer.Option("--decide", help="Add seeds until every claim is decided.")
    ] = False,
    most_seeds: Annotated[
        int, typer.Option(min=1, help="With --decide: how many seeds an experiment has at most.")
    ] = 24,
    report: Annotated[
        Path | None, typer.Option(help="Pack figures, tables and claims into this zip file, too.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Say what would run; run nothing.")] = False,
) -> None:
    """Run experiments: figures, verdicts, the atlas; all that they need first."""
    from fedatlas.errors import FedatlasError

    if report is not None and report.suffix != ".zip":
        raise FedatlasError(f"--report {report}: name a .zip file")
    command = ["snakemake", *_elsewhere(), "--logger", "fedatlas", "--cores", str(cores)]
    command += ["--dry-run"] if dry_run else []
    settings = settings_of(experiments, mirror, device, seeds)
    if decide:
        _decide(experiments, [*command, "--config", *settings], most_seeds, dry_run)
    else:
        _call([*command, "--config", *settings])
    if dry_run:
        return
    from rich.console import Console

    from fedatlas.pages.report import open_on_claims
    from fedatlas.pages.terminal import print_claims

    if report is not None:
        asked = ["--report", str(report), "--quiet", "all", "--config", *settings]
        _call(["snakemake", *_elsewhere(), *asked])
        open_on_claims(report)
    print_claims(Path("results"), experiments, Console())
    if diverged := diverged_of(experiments):
        say(diverged)
    say("All verdicts and where files lie: fedatlas summary")


def _decide(experiments: list[str], command: list[str], most: int, dry_run: bool) -> None:
    """Run, and add seeds to what is undecided until nothing is, or no more may be added."""
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
    """Values of --config, which Snakemake reads as YAML."""
    from fedatlas.files import canonical_json

    settings = [f"experiments={canonical_json(experiments)}"]
    for key, path in (("mirror", mirror), ("seeds", seeds)):
        if path is None:
            continue
        folder = str(path.absolute())  # 2024_06 would be a number
        if not re.fullmatch(r"[\w./-]+", folder):
            # Snakemake takes quotes off both ends, so something else must stand there.
            folder = f"!!str {json.dumps(folder, ensure_ascii=False)} #"
        settings.append(f"{key}={folder}")
    return settings + ([f"device={device}"] if device else [])


def diverged_of(experiments: list[str]) -> str:
    """Which runs of these experiments diverged: no failure, but nothing that could be judged."""
    from fedatlas.pages.terminal import format_divergence
    from fedatlas.schema.config import is_named

    tables = sorted(Path("results").glob("experiments/*/table.csv"))
    return format_divergence(file for file in tables if is_named(file.parent.name, experiments))


def format_lock() -> str:
    """Which process works in this folder, or how to remove the lock of one that was killed."""
    import psutil

    found = []
    for process in psutil.process_iter(["cmdline", "create_time", "cwd", "ppid"]):
        told = process.info
        words = [Path(word).name for word in told["cmdline"] or () if word != "-m"][1:]
        runs = "snakemake" in words[:1] or words[:2] in (["fedatlas", "run"], ["fedatlas", "step"])
        own = os.getpid() in (process.pid, told["ppid"])
        if runs and not own and told["cwd"] == str(Path.cwd()):
            found.append((told["create_time"], process.pid, shlex.join(words)[:80]))
    host = socket.gethostname()
    if found:
        since, process, command = min(found)
        # Snakemake alone would wait for its jobs.
        whom = process if command.startswith("fedatlas run") else f"-- -{os.getpgid(process)}"
        return (
            f"a run is active in this folder: process {process} on {host} since "
            f"{datetime.fromtimestamp(since):%Y-%m-%d %H:%M} ({command}). Wait until it ends, or "
            f"end it: kill {whom}. Trainings then go on from their checkpoints."
        )
    unlock = shlex.join(["snakemake", *_elsewhere(), "--unlock"])
    return (
        f"the folder is locked, but no run is active in it on {host}: one was killed, or works on "
        f"another machine. Where none does, call: {unlock}"
    )


def _elsewhere() -> list[str]:
    """Where the workflow is, if not in the working folder."""
    from fedatlas.plan.places import snakefile

    own = any(Path(name).is_file() for name in ("Snakefile", "workflow/Snakefile"))
    return [] if own else ["--snakefile", snakefile()]
