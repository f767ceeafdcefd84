"""Command: derive a published number or figure again."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import Configuration
from fedatlas.extensions import projects
from fedatlas.plain_text import say

#: The longest training, in seconds, that runs without the user asking for it.
SECONDS = 120.0


def rederive(
    what: Annotated[
        str, typer.Argument(help="A published experiment, or one claim of it: EXPERIMENT/CLAIM.")
    ],
    config: Configuration,
    published: Annotated[
        Path, typer.Option(help="A published folder, or a folder of several.")
    ] = Path("published"),
    run: Annotated[
        str | None, typer.Option(help="Train a seed of this run; by default of the fastest run.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Train this seed; by default the fastest.")] = (
        None
    ),
    seconds: Annotated[
        float, typer.Option(help="Skip the training if it took longer when it was recorded.")
    ] = SECONDS,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the experiment's figure, .svg, .pdf or .png.")
    ] = None,
    results: Annotated[
        Path, typer.Option(help="Results folder that holds the prepared data sets.")
    ] = Path("results"),
    device: Annotated[str, typer.Option(help="Where to train, as for `run`.")] = "cpu",
) -> None:
    """Derive a published number again: judge its claim anew, and retrain one of its seeds.

    Exit status: 1 if the verdict or the training differs from what is published, else 0.
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
        say(f"{figure}: drawn from the published traces")
    name = f"seed {course.seed} of {course.place.partition('/')[2]}"
    if course.seconds > seconds:
        say(f"{name} took {course.seconds:.0f} s, so it is not trained; --seconds allows more")
    else:
        plan = rederiving.plan_again(found, course, results)
        say(f"training {name} again, which took {course.seconds:.1f} s …")
        line, equal = rederiving.trained_again(found, course, plan, results, device)
        say(line)
        same.append(equal)
    raise typer.Exit(not all(same))
