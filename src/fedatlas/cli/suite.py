"""Commands of the suite: list its problems and methods, run methods, and score them."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from fedatlas.data.catalogue import load_catalogue
from fedatlas.errors import FedatlasError, similar
from fedatlas.extensions import projects
from fedatlas.plain_text import say
from fedatlas.plan.build import Plan, plan_of
from fedatlas.plan.places import catalogue_files, files_named, shipped_configuration
from fedatlas.schema.config import is_named
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import validated
from fedatlas.schema.suite import SUITE, SUITE_FILE, Suite, load_suite

#: Where results of the suite lie: apart from a workflow's, which would make them anew.
RESULTS = Path("results", SUITE)
# The group of experiments of no paper, in atlases.
_PAPER = "ours"
#: Seconds until a process has loaded and compiled the code that trains.
START_SECONDS = 20

app = typer.Typer(no_args_is_help=True, help="Run methods on the suite's problems, and score them.")

Problems = Annotated[
    list[str] | None,
    typer.Option("--problems", help="Names or globs of problems, or of groups; by default all."),
]

Archive = Annotated[
    list[Path] | None,
    typer.Option("--archive", help="More folders with results of methods that have run."),
]
Costs = Annotated[
    list[str] | None,
    typer.Option("--cost", help="Costs to compare by; by default exchanges, bytes, gradients."),
]


def declared_suite() -> Suite:
    """The suite of the workflow and of projects."""
    return load_suite(*_files())


def _files() -> list[Path]:
    return files_named(SUITE_FILE, shipped_configuration(), projects())


@app.command("list")
def list_problems(problems: Problems = None) -> None:
    """List problems with their groups, constants and methods, and the tries of each method."""
    suite = declared_suite()
    for name in _named(suite, problems):
        own = suite.problems[name]
        constants = {"smoothness": own.smoothness, **own.constants}
        values = ", ".join(f"{key} {value:g}" for key, value in constants.items())
        say(f"{name}: {own.title}")
        say(f"  {', '.join(own.groups)}; {values}; {own.rounds} rounds")
        say(f"  takes {', '.join(suite.methods_of(name))}")
    tries = {name: method.tries for name, method in suite.every_method.items()}
    say(f"tries: {', '.join(f'{name} {number}' for name, number in tries.items())}")


@app.command("run")
def run_methods(
    methods: Annotated[
        list[str] | None, typer.Argument(help="Methods of the suite; by default all.")
    ] = None,
    problems: Problems = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Run only the few problems of the smoke test.")
    ] = False,
    cores: Annotated[int, typer.Option(min=1, help="How many cores to use.")] = 2,
    results: Annotated[Path, typer.Option(help="Folder of the suite's results.")] = RESULTS,
    archive: Archive = None,
    cost: Costs = None,
) -> None:
    """Train methods on their problems, and score them beside other methods.

    Each method is trained with its declared tries. Seeds that have results are not trained again.
    Results of other methods in the folder stay.
    """
    suite = declared_suite()
    names = _named(suite, list(suite.smoke) if smoke else problems)
    jobs = [(name, own) for name in names if (own := _of_problem(suite, name, methods or []))]
    if not jobs:
        raise FedatlasError(
            "none of the problems takes one of the methods: `fedatlas suite list` says which do"
        )
    seconds = {name: sum(_seconds(suite, name, own)) for name, own in jobs}
    about = (sum(seconds.values()) / min(cores, len(jobs)) + START_SECONDS) / 60
    trained = {method for _, own in jobs for method in own}
    tries = sum(suite.every_method[method].tries for _, own in jobs for method in own)
    instances = len(suite.instances) + len(suite.tuning_instances)
    say(
        f"{len(jobs)} problems, {len(trained)} method{'s' * (len(trained) > 1)}, {tries} tries on "
        f"{instances} instances each: about {about:.1f} minutes on {cores} free cores"
    )
    # Like jobs of the workflow, so that numbers are the same: see `fedatlas.cli.main`.
    os.environ |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    jobs.sort(key=lambda job: -seconds[job[0]])  # the longest first
    with ProcessPoolExecutor(
        min(cores, len(jobs)), mp_context=get_context("spawn"), initializer=_log_errors_only
    ) as pool:
        waiting = {pool.submit(train_problem, name, own, results): name for name, own in jobs}
        try:
            for number, done in enumerate(as_completed(waiting), 1):
                took = done.result()
                at = time.monotonic() - started
                say(f"{number} of {len(jobs)}: {waiting[done]}, {took:.0f} s ({at:.0f} s in all)")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():  # they would finish their problem first
                process.terminate()
            raise
    say(f"Traces lie in {results / 'experiments'}\n")
    asked = {name for name, _ in jobs}
    for table in scores_of(
        suite, [name for name in names if name in asked], [results, *(archive or [])], cost
    ):
        say(f"{table}\n")


@app.command("score")
def score(
    problems: Problems = None,
    results: Annotated[Path, typer.Option(help="Folder of the suite's results.")] = RESULTS,
    archive: Archive = None,
    cost: Costs = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for a figure, a LaTeX table and all costs as CSV.")
    ] = None,
) -> None:
    """Score the methods that have run, by each cost, without training."""
    suite = declared_suite()
    folders = [*(archive or [])]
    if results.is_dir() or not archive:
        folders.insert(0, results)
    for table in scores_of(suite, _named(suite, problems), folders, cost, output):
        say(f"{table}\n")


def scores_of(
    suite: Suite,
    problems: Sequence[str],
    folders: Sequence[Path],
    costs: Sequence[str] | None,
    output: Path | None = None,
) -> Iterator[str]:
    """Tables of scores of the methods whose results lie in these folders.

    A table joins the problems that take the same methods and have the same measurement.
    output: the folder for a figure, a table and costs of each such group of problems.
    """
    from fedatlas.evaluation.profiles import NothingReachedError
    from fedatlas.store.atlas import open_atlas
    from fedatlas.store.comparison import USUAL_COSTS
    from fedatlas.store.profiling import profile

    atlases = [open_atlas(folder) for folder in folders]
    alike: dict[tuple[tuple[str, ...], str], dict[str, list[float]]] = {}
    for name in problems:
        own, experiment = suite.problems[name], f"{SUITE}-{name}"
        there = [atlas for atlas in atlases if experiment in atlas.names(_PAPER)]
        runs = [(atlas, run) for atlas in there for run in atlas.names(f"{_PAPER}/{experiment}")]
        if len(runs) < 2:
            continue
        atlas, run = runs[0]
        start = float(atlas.sel(experiment, run)[own.measurement][:, 0].median())
        levels = [float(f"{share * start:.3g}") for share in suite.targets_of(name)]
        alike.setdefault((own.takes, own.measurement), {})[experiment] = levels
    if not alike:
        yield (
            "No problem has two methods, and a score compares at least two: run others, or name "
            "folders with --archive"
        )
    for (takes, measurement), targets in alike.items():
        yield f"{' and '.join(takes)}, by {measurement}:"
        chosen = list(costs or USUAL_COSTS)
        try:
            found = profile(atlases, measurement, chosen, targets, experiments=[*targets])
        except NothingReachedError as error:
            yield str(error)
            continue
        yield str(found)
        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
            stem = output / "-".join([*takes, measurement])
            found.plot(f"The suite: {' and '.join(takes)}").save(stem.with_suffix(".svg"))
            found.save(stem.with_suffix(".tex"))
            found.save(stem.with_suffix(".csv"))


def _named(suite: Suite, patterns: Sequence[str] | None) -> list[str]:
    """The problems that names, groups or globs match; FedatlasError for one without a match."""
    chosen = []
    for pattern in patterns or ["*"]:
        found = [
            name
            for name, problem in suite.problems.items()
            if any(is_named(each, [pattern]) for each in (name, *problem.groups))
        ]
        if not found:
            groups = {group for problem in suite.problems.values() for group in problem.groups}
            known = [*suite.problems, *sorted(groups)]
            raise FedatlasError(
                f"'{pattern}' is no problem and no group of the suite{similar(pattern, known)}; "
                "`fedatlas suite list` lists all"
            )
        chosen += found
    return list(dict.fromkeys(chosen))


def _of_problem(suite: Suite, problem: str, methods: Sequence[str]) -> list[str]:
    """The methods, by default all of the suite's, that a problem takes."""
    for name in methods:
        if name not in suite.every_method:
            file = _files()[-1].with_name(SUITE_FILE)
            raise FedatlasError(
                f"the suite has no method '{name}'{similar(name, suite.every_method)}: declare its "
                f"tries, in {file.name} of your project: methods: {{clients: {{{name}: "
                "{hyper_parameters: {clients_per_round: $participants}, "
                "grid: {step_size: [0.1/L, 1/L]}}}}; tables of methods are "
                f"{', '.join(suite.methods)}"
            )
    return [name for name in suite.methods_of(problem) if not methods or name in methods]


def _seconds(suite: Suite, problem: str, methods: Sequence[str]) -> list[float]:
    each = suite.problems[problem].point_seconds
    return [each * suite.every_method[method].tries for method in methods]


def _log_errors_only() -> None:
    """Silence warnings in a process of tries: that some steps are too large is expected."""
    logging.getLogger().setLevel(logging.ERROR)


def train_problem(problem: str, methods: Sequence[str], results: Path) -> float:
    """Make a problem's data, train methods on it and choose their tries; return seconds taken.

    These are the steps of the workflow, one after the other in this process. Data are made anew,
    which takes less than a second. Seeds that have results are not trained again.
    """
    from fedatlas.evaluation.selection import select_points
    from fedatlas.notebook import find_optima, share_out
    from fedatlas.plan.results import selection_spec
    from fedatlas.schema.runs import Points, Selection
    from fedatlas.training.steps import train_run

    started = time.monotonic()
    name = f"{SUITE}-{problem}"
    folder = results.absolute() / "experiments" / name
    suite = declared_suite()
    there = {trace.name for trace in (folder / "traces").glob("*")} & {*suite.methods_of(problem)}
    plan = _plan(suite, problem, [*methods, *sorted(there)])
    specs = [spec for spec in plan.runs_of(name) if spec.run in methods]
    with TemporaryDirectory() as temporary:
        place = Path(temporary)
        data = Path(specs[0].dataset, specs[0].split)
        files = share_out(plan, place / "shards" / data, Path("results"))
        find_optima(plan, files, place / "optima" / data)
        folder.mkdir(parents=True, exist_ok=True)
        (place / "experiments").symlink_to(folder.parent)
        (results / "rehearsals").mkdir(exist_ok=True)
        (place / "rehearsals").symlink_to((results / "rehearsals").absolute())
        train_run(Points.of(specs), place, device="cpu", seeds=results / "seeds")
    choice = selection_spec(plan, name)
    traces = [spec.trace_file(results) for spec in plan.runs_of(name)]
    select_points(
        traces=[trace for trace in traces if trace.is_file()], tuning=[], tuned={},
        selection=Selection.model_validate(choice["selection"]), heading=choice["heading"],
        titles=choice["titles"], output=folder / "selection.json", joined=folder / "traces.nc",
    )  # fmt: skip
    return time.monotonic() - started


def _plan(suite: Suite, problem: str, methods: Sequence[str]) -> Plan:
    """The plan of a problem with these methods."""
    name = f"{SUITE}-{problem}"
    where = f"{' and '.join(map(str, _files()))}: problem '{problem}'"
    content = suite.experiment(problem, methods)
    experiment = validated(Experiment, content, where, {"where": where, "inherited": {}})
    return plan_of({name: experiment}, load_catalogue(*catalogue_files()))
