"""Commands that show and check what there is: experiments, verdicts, digests, differences."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedatlas.cli.options import Configuration, Lock, Mirror, ResultsFolder, Seeds
from fedatlas.data.raw_files import LOCK
from fedatlas.errors import FedatlasError, similar
from fedatlas.extensions import projects
from fedatlas.plain_text import say
from fedatlas.schema.experiment_files import Head
from fedatlas.schema.runs import RunSpec

if TYPE_CHECKING:
    from rich.console import Console

_PIPED = 200  # columns where there is no terminal
_NAMED = 8  # runs, in errors


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
        say(f"* has verdicts in {results}, which `fedatlas summary` prints.")


def rehearse(
    name: Annotated[str, typer.Argument(help="The method, as its file is named.")],
    config: Configuration,
) -> None:
    """Check in a second, without data, that a method does what every method promises.

    It is rehearsed as a run of an experiment declares it.
    """
    from fedatlas.training.rehearsal import rehearse_without_data

    say(rehearse_without_data(_run_of(name, config)))


def _run_of(algorithm: str, config: Path) -> RunSpec:
    """A run of the method, from a file that names it if one does, the shortest first."""
    from fedatlas.algorithms import algorithm_names
    from fedatlas.plan.build import build_plan, heads_in

    def order(head: Head) -> tuple[bool, bool, int]:
        text = head.path.read_text(encoding="utf-8", errors="replace")
        named = re.search(rf"\balgorithm: *{re.escape(algorithm)}\b", text)
        return not named, algorithm not in text, len(text)

    if algorithm not in (known := algorithm_names()):
        raise FedatlasError(f"there is no method '{algorithm}'{similar(algorithm, known)}")
    for head in sorted(heads_in(config, *projects()), key=order):
        for run in build_plan(config, *projects(), names=[head.name]).runs.values():
            if run.algorithm == algorithm and run.tuned_in is None:
                return run
    raise FedatlasError(f"no run of an experiment names the method '{algorithm}': declare one")


def spec(
    name: Annotated[
        str, typer.Argument(help="EXPERIMENT/RUN/POINT, as traces are filed; or EXPERIMENT.")
    ],
    config: Configuration,
) -> None:
    """Print a run's specification for the step train_alone, or an experiment's file expanded."""
    from fedatlas.files import canonical_json
    from fedatlas.schema.models import as_yaml

    experiment = name.partition("/")[0]
    where, content, _ = _declared(experiment, config)
    if name == experiment:
        say(f"# {where}\n{as_yaml(content)}".rstrip())
        return
    say(canonical_json(run_named(name, config).model_dump(mode="json")))


def run_named(name: str, config: Path) -> RunSpec:
    """The run EXPERIMENT/RUN/POINT; FedatlasError names similar ones."""
    from fedatlas.plan.build import build_plan

    experiment = name.partition("/")[0]
    _declared(experiment, config)
    plan = build_plan(config, *projects(), names=[experiment])
    runs = {run.name: run for run in plan.runs.values()}
    if name not in runs:
        some = ", ".join([*runs][:_NAMED]) + ", …" * (len(runs) > _NAMED)
        told = similar(name, runs) or f"; there are {some}"
        raise FedatlasError(f"there is no run '{name}'{told}")
    return runs[name]


def _declared(experiment: str, config: Path) -> Any:
    """The experiment as its file declares it; FedatlasError names similar ones."""
    from fedatlas.plan.build import heads_in
    from fedatlas.schema.experiment_files import names_in, read_experiments

    folders = (folder / "experiments" for folder in (config, *projects()))
    experiments = read_experiments(*folders, names=[experiment])
    if experiment not in experiments:
        told = similar(experiment, names_in(heads_in(config, *projects())))
        raise FedatlasError(f"there is no experiment '{experiment}'{told}")
    return experiments[experiment]


def summary(
    results: ResultsFolder = Path("results"),
    experiments: Annotated[
        list[str] | None,
        typer.Option(help="Print each claim of these experiments, names or globs, instead."),
    ] = None,
) -> None:
    """Say what there is in the results folder and where to look."""
    from rich.console import Console

    from fedatlas.pages.terminal import print_claims, print_summary

    check_folder(results)
    if experiments:
        print_claims(results, experiments, Console())
    else:
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


def verify(
    config: Configuration,
    results: ResultsFolder = Path("results"),
    lock: Lock = LOCK,
    mirror: Mirror = None,
    seeds: Seeds = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check digests, or verdicts if published. Exit status: 0 as recorded, 1 not, 2 unreadable.

    Of a results folder all digests are computed again; of a published folder, or of several in one,
    all verdicts, by what is published.
    """
    from rich.console import Console
    from rich.progress import track

    from fedatlas.provenance import verification
    from fedatlas.store.rejudging import published_folders

    if published_folders(results):
        _verify_verdicts(results, config, as_json)

    terminal = Console(stderr=True)
    progress = partial(
        track,
        description="Verifying",
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
    )
    with _unreadable_is_two():
        files = verification.verify(results, config, lock, progress, mirror, seeds)
    if as_json:
        say(json.dumps(verification.as_plain(files), indent=2))
    else:
        verification.print_verification(files, _wide_console())
    raise typer.Exit(verification.exit_status(files))


def _verify_verdicts(published: Path, config: Path, as_json: bool) -> None:
    """Print which verdicts do not follow from what is published, and why; exit."""
    from fedatlas.plan.build import build_plan
    from fedatlas.store import rejudging

    with _unreadable_is_two():
        plan = build_plan(config, *projects(), names=rejudging.judged_in(published))
        found = list(rejudging.rejudge(published, plan.experiments))
    if as_json:
        say(json.dumps(rejudging.as_plain(found), indent=2))
    else:
        for line in rejudging.told(found):
            say(line)
    raise typer.Exit(int(any(one.fails for one in found)))


def diff(
    first: Annotated[Path, typer.Argument(help="Trace, experiment's or results folder.")],
    second: Annotated[Path, typer.Argument(help="What to compare it with, of any such kind.")],
    relative_tolerance: Annotated[
        float, typer.Option(min=0, help="Of the larger of two values.")
    ] = 0.0,
    absolute_tolerance: Annotated[
        float, typer.Option(min=0, help="In the variable's units.")
    ] = 0.0,
    wall_time: Annotated[
        bool, typer.Option("--wall-time", help="Compare times measured here, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare results value by value. Exit status: 0 equal, 1 different, 2 cannot be read."""
    from fedatlas.provenance import difference

    if not math.isfinite(relative_tolerance + absolute_tolerance):
        raise typer.BadParameter("tolerances must be finite numbers")
    tolerance = difference.Tolerance(relative_tolerance, absolute_tolerance, wall_time)
    with _unreadable_is_two():
        found = difference.compare(first, second, tolerance)
    if as_json:
        say(json.dumps(difference.as_plain(found), indent=2))
    else:
        difference.print_comparison(found, _wide_console())
    raise typer.Exit(found.exit_status)


def _wide_console() -> "Console":
    """The console of standard output; wide if that is no terminal, so that paths stay whole."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_PIPED)


@contextmanager
def _unreadable_is_two() -> Iterator[None]:
    """Of commands whose exit status 1 means something else than an error."""
    try:
        yield
    except FedatlasError as error:
        say(f"error: {error}", to_errors=True)
        raise typer.Exit(2) from None
