"""Command: the trained model of a recorded run, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.plain_text import say


def export_model(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment that ran.")],
    run: Annotated[str, typer.Argument(help="Its run.")],
    point: Annotated[
        str | None, typer.Option(help="Point of the run's grid; by default the tuned one.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed to train; by default the first.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .npz or .safetensors.")
    ] = Path("model.npz"),
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    device: Annotated[
        str | None, typer.Option(help="Where to train, as for `run`; by default as recorded.")
    ] = None,
) -> None:
    """Train one seed again, and write the whole trained model to a file."""
    from fedatlas.cli.looking import check_folder
    from fedatlas.training.export import export_model

    check_folder(results)
    found = export_model(results, experiment, run, output, point=point, seed=seed, device=device)
    say(f"{output}: {found}")
