"""Commands that show what there is: experiments, verdicts, what seeds would decide."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import Configuration, ResultsFolder
from fedatlas.errors import FedatlasError, similar
from fedatlas.plain_text import say
from fedatlas.projects import projects


def list_experiments(
    config: Configuration,
    names: Annotated[str, typer.Argument(help="A name, or a glob such as 'vfb2-*'.")] = "*",
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
) -> None:
    """List experiments: what each shows, of which figure, and whether it has verdicts here."""
    from fedatlas.plan.build import build_plan
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


def spec(
    name: Annotated[
        str, typer.Argument(help="EXPERIMENT/RUN/POINT, as traces are filed; or EXPERIMENT.")
    ],
    config: Configuration,
) -> None:
    """Print a run's specification for the step train_alone, or an experiment's file expanded."""
    from fedatlas.files import canonical_json
    from fedatlas.plan.build import build_plan, heads_in
    from fedatlas.schema.experiment_files import read_experiments
    from fedatlas.schema.models import as_yaml

    experiment = name.partition("/")[0]
    folders = (folder / "experiments" for folder in (config, *projects()))
    experiments = read_experiments(*folders, names=[experiment])
    if experiment not in experiments:
        known = [head.name for head in heads_in(config, *projects())]
        raise FedatlasError(f"there is no experiment '{experiment}'{similar(experiment, known)}")
    if name == experiment:
        where, content, _ = experiments[name]
        say(f"# {where}\n{as_yaml(content)}".rstrip())
        return
    plan = build_plan(config, *projects(), names=[experiment])
    runs = {run.name: run for run in plan.runs.values()}
    if name not in runs:
        raise FedatlasError(f"there is no run '{name}'{similar(name, runs)}")
    say(canonical_json(runs[name].model_dump(mode="json")))


def summary(results: ResultsFolder = Path("results")) -> None:
    """Say what there is in the results folder and where to look."""
    from rich.console import Console

    from fedatlas.pages.terminal import print_summary

    check_folder(results)
    print_summary(results, Console())


def power(results: ResultsFolder = Path("results")) -> None:
    """Say how many seeds would decide each undecided claim."""
    from rich.console import Console

    from fedatlas.pages.terminal import print_power

    check_folder(results)
    print_power(results, Console())


def check_folder(results: Path) -> None:
    """Raise FedatlasError for what is no folder of results."""
    if results.exists() and not results.is_dir():
        raise FedatlasError(f"{results}: is not a folder; name the folder of results")
    if not results.is_dir():
        raise FedatlasError(
            f"{results}: there is no such folder in {Path.cwd()}: run an experiment first "
            "(fedatlas run NAME), go to the folder where one ran, or name its folder of results"
        )
