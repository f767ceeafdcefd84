"""Command: the trained model of a recorded run, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.plain_text import say


def export_model(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment that ran.")],
    run: Annotated[str, typer.Argument(help="Its run.")],
    point: Annotated[
        str | None, typer.Option(help="Point of the run's grid; the chosen one by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The first one by default.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .npz or .safetensors.")
    ] = Path("model.npz"),
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    device: Annotated[
        str | None, typer.Option(help="Where to train, as of `run`; as recorded by default.")
    ] = None,
) -> None:
    """Train one seed again, and write its model: all parts of it together."""
    from fedatlas.cli.looking import check_folder
    from fedatlas.training.export import export_model

    check_folder(results)
    found = export_model(results, experiment, run, output, point=point, seed=seed, device=device)
    say(f"{output}: {found}")
