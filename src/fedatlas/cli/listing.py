"""Command: which experiments there are."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import Configuration
from fedatlas.errors import FedatlasError
from fedatlas.plain_text import say


def list_experiments(
    config: Configuration,
    names: Annotated[str, typer.Argument(help="A name, or a glob such as 'vfb2-*'.")] = "*",
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
) -> None:
    """List experiments: what each shows, of which figure, and whether it has verdicts here."""
    from fedatlas.plan.build import build_plan
    from fedatlas.projects import projects
    from fedatlas.schema.config import is_named

    plan = build_plan(config, *projects(), names=[names])
    found = {name: each for name, each in plan.experiments.items() if is_named(name, [names])}
    if not found:
        raise FedatlasError(f"'{names}' matches no experiment; `fedatlas list` names all")
    width = max(map(len, found))
    judged = {file.parent.name for file in results.glob("experiments/*/claims.csv")}
    for name, each in found.items():
        mark = "*" if name in judged else " "
        say(f"{mark} {name:<{width}}  {each.title} ({each.source})")
    if judged.intersection(found):
        say(f"* has verdicts in {results}, which `fedatlas summary` tells of.")
