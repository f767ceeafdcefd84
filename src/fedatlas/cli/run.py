"""Command: run experiments by name, with a bar in place of Snakemake's messages."""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from fedatlas.plain_text import say


def run(
    experiments: Annotated[
        list[str], typer.Argument(help="Names of experiments, or globs such as 'vfb2-*-d1'.")
    ],
    cores: Annotated[int, typer.Option(min=1, help="How many cores to use.")] = 2,
    mirror: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Folder with raw files, used before any download."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to train: auto, cpu, cuda or cuda:N.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Say what would run; run nothing.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", help="One more word for snakemake, such as --option=--forceall."
        ),
    ] = None,
) -> None:
    """Run experiments: figures, verdicts, the atlas; all that they need first."""
    from rich.console import Console

    from fedatlas.cli.progress import shown_with_a_bar
    from fedatlas.errors import FedatlasError
    from fedatlas.files import canonical_json
    from fedatlas.schema.config import check_device

    try:
        check_device(device or "auto")
    except ValueError as error:
        raise FedatlasError(f"--device '{device}': {error}") from None
    settings = [f"experiments={canonical_json(experiments)}"]
    settings += [f"mirror={mirror}"] if mirror else []
    settings += [f"device={device}"] if device else []
    command = ["snakemake", *_elsewhere(), "--cores", str(cores), *(option or ())]
    command += ["--dry-run"] if dry_run else []
    command += ["--config", *settings]
    say(shlex.join(command))
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    lines = with_unlocking(process.stdout)
    if dry_run:
        raise typer.Exit(_say_what_would_run(list(lines), process.wait))
    shown_with_a_bar(lines, Console(), cores)
    # Ctrl-C reaches Snakemake, too, which ends its jobs and then itself.
    if status := process.wait():
        raise typer.Exit(status)
    if diverged := diverged_of(experiments):
        say(diverged)
    say("What came out, and where to look: fedatlas summary")


def _say_what_would_run(lines: list[str], status: Callable[[], int]) -> int:
    """Print what a dry run would make, and what else it says; its exit status."""
    from fedatlas.cli.planned import planned_jobs, planned_told
    from fedatlas.cli.steps import Steps

    jobs, others = planned_jobs(line.rstrip("\n") for line in lines)
    if ended := status():
        steps = Steps()
        heeded = [steps.heed(line, now=0.0) for line in others]
        say("\n".join(line for line in heeded if line is not None))
        return ended
    warnings = [line for line in others if line.startswith("Left out: ")]
    say("\n".join([*warnings, *planned_told(jobs)]))
    return 0


def diverged_of(experiments: list[str]) -> str:
    """Which runs of these experiments diverged: no failure, but nothing that could be judged."""
    from fedatlas.evaluation.divergence import divergence_told
    from fedatlas.schema.names import is_named

    tables = sorted(Path("results").glob("experiments/*/table.csv"))
    return divergence_told(file for file in tables if is_named(file.parent.name, experiments))


def with_unlocking(lines: Iterable[str]) -> Iterator[str]:
    """Snakemake's lines; where one names its argument --unlock, the command after it."""
    for line in lines:
        yield line
        if "--unlock argument" in line:
            yield f"Call: {shlex.join(['snakemake', *_elsewhere(), '--unlock'])}\n"


def _elsewhere() -> list[str]:
    """Where the workflow is, if not in the working folder."""
    from fedatlas.plan.places import snakefile

    own = any(Path(name).is_file() for name in ("Snakefile", "workflow/Snakefile"))
    return [] if own else ["--snakefile", snakefile()]
