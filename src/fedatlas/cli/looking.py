"""Commands that show and check experiments, verdicts, digests and differences."""

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
from fedatlas.schema.experiment_files import Head, meant_in
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
    """List experiments: what each shows, its source, and whether it has verdicts here."""
    from fedatlas.pages.terminal import verdicts_in
    from fedatlas.plan.build import build_plan

    plan = build_plan(config, *projects(), names=[names])
    found = {name: plan.experiments[name] for name in plan.select([names])}
    width = max(map(len, found))
    judged = {name for name, own in verdicts_in(results).items() if own}
    for name, each in found.items():
        mark = "*" if name in judged else " "
        say(f"{mark} {name:<{width}}  {each.title} ({each.source})")
    if judged.intersection(found):
        say(f"* has verdicts in {results}, which `fedatlas summary` prints.")


def rehearse(
    name: Annotated[str, typer.Argument(help="The method: its file's name without .py.")],
    config: Configuration,
) -> None:
    """Check in a second, without data, that a method keeps the promises of every method.

    The hyper-parameters are those of an experiment's run that names the method.
    """
    from fedatlas.training.rehearsal import rehearse_without_data

    say(rehearse_without_data(_run_of(name, config)))


def _run_of(algorithm: str, config: Path) -> RunSpec:
    """A run of the method, from the shortest experiment file that names it."""
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
    raise FedatlasError(
        f"no experiment has a run with `algorithm: {algorithm}`: declare one, in experiments/"
    )


def spec(
    name: Annotated[str, typer.Argument(help="A run, as EXPERIMENT/RUN/POINT, or an EXPERIMENT.")],
    config: Configuration,
) -> None:
    """Print a run's specification for `fedatlas step train_alone`, or a whole experiment.

    An experiment is printed as YAML, with everything that it inherits written out.
    """
    from fedatlas.files import canonical_json
    from fedatlas.plan.build import build_plan
    from fedatlas.schema.models import as_yaml

    experiment = name.partition("/")[0]
    where, content, _ = _declared(experiment, config)
    if name == experiment:
        build_plan(config, *projects(), names=[name])  # refuses what `run` refuses
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
        hint = similar(name, runs) or f"; there are {some}"
        raise FedatlasError(f"there is no run '{name}'{hint}")
    return runs[name]


def _declared(experiment: str, config: Path) -> Any:
    """The experiment as its file declares it; FedatlasError names similar ones."""
    from fedatlas.plan.build import heads_in
    from fedatlas.schema.experiment_files import read_experiments

    folders = (folder / "experiments" for folder in (config, *projects()))
    experiments = read_experiments(*folders, names=[experiment])
    if experiment not in experiments:
        hint = meant_in(experiment, heads_in(config, *projects()))
        raise FedatlasError(f"there is no experiment '{experiment}'{hint}")
    return experiments[experiment]


def summary(
    results: ResultsFolder = Path("results"),
    experiments: Annotated[
        list[str] | None,
        typer.Option(help="Print only the claims of these experiments, by names or globs."),
    ] = None,
) -> None:
    """Print what the results folder holds: verdicts, figures, tables, and where they lie."""
    from rich.console import Console

    from fedatlas.pages.terminal import print_claims, print_summary

    check_folder(results)
    if experiments:
        print_claims(results, experiments, Console())
    else:
        print_summary(results, Console())


def power(results: ResultsFolder = Path("results")) -> None:
    """Print how many seeds would decide each undecided claim."""
    from rich.console import Console

    from fedatlas.pages.terminal import print_power

    check_folder(results)
    print_power(results, Console())


def check_folder(results: Path) -> None:
    """Raise FedatlasError unless this is a folder."""
    if results.exists() and not results.is_dir():
        raise FedatlasError(f"{results}: is not a folder; name the folder of results")
    if not results.is_dir():
        raise FedatlasError(
            f"{results}: there is no such folder in {Path.cwd()}: run an experiment first "
            "(fedatlas run NAME), go to the folder where one ran, or name its folder of results"
        )


def verify(
    config: Configuration,
    results: Annotated[
        Path, typer.Argument(help="Results folder, published folder, or a folder of several.")
    ] = Path("results"),
    lock: Lock = LOCK,
    mirror: Mirror = None,
    seeds: Seeds = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the digests of a results folder, or the verdicts of published folders.

    In a results folder all digests are computed again. In a published folder, or a folder of
    several, all verdicts are judged again from the published traces. Exit status: 0 all as
    recorded, 1 something differs, 2 something cannot be read.
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
        check_folder(results)
        files = verification.verify(results, config, lock, progress, mirror, seeds)
    if as_json:
        say(json.dumps(verification.as_plain(files), indent=2))
    else:
        verification.print_verification(files, _wide_console())
    raise typer.Exit(verification.exit_status(files))


def _verify_verdicts(published: Path, config: Path, as_json: bool) -> None:
    """Print which verdicts do not follow from the published traces, and why; exit."""
    from fedatlas.plan.build import build_plan
    from fedatlas.store import rejudging

    with _unreadable_is_two():
        plan = build_plan(config, *projects(), names=rejudging.judged_in(published))
        found = list(rejudging.rejudge(published, plan.experiments))
    if as_json:
        say(json.dumps(rejudging.as_plain(found), indent=2))
    else:
        for line in rejudging.format_rejudged(found):
            say(line)
        if not found:
            say(f"{published}: has no verdicts, so there is nothing to judge again")
    raise typer.Exit(int(any(one.why for one in found)))


def diff(
    first: Annotated[
        Path, typer.Argument(help="A trace, an experiment's folder or a results folder.")
    ],
    second: Annotated[Path, typer.Argument(help="The trace or folder to compare it with.")],
    relative_tolerance: Annotated[
        float, typer.Option(min=0, help="Allowed difference, relative to the larger value.")
    ] = 0.0,
    absolute_tolerance: Annotated[
        float, typer.Option(min=0, help="Allowed difference, in the variable's units.")
    ] = 0.0,
    wall_time: Annotated[
        bool, typer.Option("--wall-time", help="Also compare measured wall times.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare results value by value. Exit status: 0 equal, 1 different, 2 unreadable."""
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
    """The console of standard output; wide where it is no terminal, so that paths stay whole."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_PIPED)


@contextmanager
def _unreadable_is_two() -> Iterator[None]:
    """Exit with status 2 on errors, for commands whose status 1 means something else."""
    try:
        yield
    except FedatlasError as error:
        say(f"error: {error}", to_errors=True)
        raise typer.Exit(2) from None
