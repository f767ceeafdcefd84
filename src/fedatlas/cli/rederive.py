"""Command: a published number or figure, made anew."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import Configuration
from fedatlas.extensions import projects
from fedatlas.plain_text import say

#: The longest training that is done without being asked for.
SECONDS = 120.0


def rederive(
    what: Annotated[
        str, typer.Argument(help="An experiment, or EXPERIMENT/CLAIM, that is published.")
    ],
    config: Configuration,
    published: Annotated[
        Path, typer.Option(help="A published folder, or one that holds several.")
    ] = Path("published"),
    run: Annotated[
        str | None, typer.Option(help="Train a seed of this run; by default of the quickest.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Train this seed; by default the quickest.")] = (
        None
    ),
    seconds: Annotated[
        float, typer.Option(help="Train no seed that took longer when it was recorded.")
    ] = SECONDS,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the experiment's figure, .svg, .pdf or .png.")
    ] = None,
    results: Annotated[
        Path, typer.Option(help="Results folder with the data sets that are needed.")
    ] = Path("results"),
    device: Annotated[str, typer.Option(help="Where to train, as of `run`.")] = "cpu",
) -> None:
    """Make a published number anew: judge it again, and train a seed behind it again.

    Exit status: 1 if either differs from what is published.
    """
    from fedatlas import rederiving

    found = rederiving.find(what, published, config, *projects())
    same = []
    for line, follows in rederiving.judged_again(found):
        say(line)
        same.append(follows)
    say(f"published in {found.folder}; {rederiving.format_origin(found)}")
    course = rederiving.quickest(found, run=run, seed=seed)
    if figure is not None:
        rederiving.draw(found, figure)
        say(f"{figure}: drawn from what is published")
    name = f"seed {course.seed} of {course.place.partition('/')[2]}"
    if course.seconds > seconds:
        say(f"{name} took {course.seconds:.0f} s and is not trained: see --seconds")
    else:
        say(f"{name}, which took {course.seconds:.1f} s, is trained again …")
        line, equal = rederiving.trained_again(found, course, results, device)
        say(line)
        same.append(equal)
    raise typer.Exit(not all(same))
