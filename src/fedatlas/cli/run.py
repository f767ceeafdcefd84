"""Command: run experiments by name, with a bar in place of Snakemake's messages."""

import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer


def run(
    experiments: Annotated[
        list[str], typer.Argument(help="Names of experiments, or globs such as 'vfb2-*-d1'.")
    ],
    cores: Annotated[int, typer.Option(min=1, help="How many cores to use.")] = 2,
    mirror: Annotated[
        Path | None, typer.Option(help="Folder with raw files, used before any download.")
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
    from fedatlas.files import canonical_json

    settings = [f"experiments={canonical_json(experiments)}"]
    settings += [f"mirror={mirror}"] if mirror else []
    settings += [f"device={device}"] if device else []
    command = ["snakemake", *_elsewhere(), "--cores", str(cores), *(option or ())]
    command += ["--dry-run"] if dry_run else []
    command += ["--quiet", "rules", "--config", *settings]
    print(shlex.join(command), flush=True)
    if dry_run:  # what it prints is the answer
        raise typer.Exit(subprocess.call([sys.executable, "-m", *command]))
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    shown_with_a_bar(with_unlocking(process.stdout), Console())
    # Ctrl-C reaches Snakemake, too, which ends its jobs and then itself.
    if status := process.wait():
        raise typer.Exit(status)
    if diverged := diverged_of(experiments):
        print(diverged)
    print("What came out, and where to look: fedatlas summary")


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
