"""Commands: traces to verdicts."""

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from fedatlas.cli.options import (
    AnyTraceFiles,
    Configuration,
    Output,
    ResultsFolder,
    SelectionRecord,
    Specification,
    TraceFiles,
    json_with,
    read_choices,
    read_traces,
)
from fedatlas.errors import FedatlasError
from fedatlas.files import write_text
from fedatlas.plain_text import say
from fedatlas.schema.models import read_json, validated

log = logging.getLogger(__name__)


def select(
    spec: Specification,
    output: Output,
    traces: AnyTraceFiles = None,
    tuning: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN=FILE", help="Selection record of the experiment in which a run is tuned."
        ),
    ] = None,
    declared: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN=NAME", help="A hyper-parameter that such a run states: it was not tuned."
        ),
    ] = None,
) -> None:
    """Choose each run's grid point by the experiment's rule."""
    from fedatlas.evaluation.selection import select as select_points
    from fedatlas.schema.runs import Selection

    rule = validated(Selection, spec, "--spec")
    pairs = [given.partition("=") for given in tuning or ()]
    records = {run: read_json(Path(file)) for run, _, file in pairs}
    loaded = read_traces(traces or [], tuning=True)
    unknown = sorted(set(records).difference(loaded))
    if unknown:
        raise FedatlasError(f"--tuning: no trace is of the run '{unknown[0]}'")
    own: dict[str, set[str]] = {}
    for run, _, name in (given.partition("=") for given in declared or ()):
        own.setdefault(run, set()).add(name)
    record = select_points(loaded, rule, records, own)
    write_text(output, json.dumps(record, indent=2) + "\n")


def judge(
    spec: Annotated[Any, json_with("experiment", "paper", "claims", "looks")],
    selection: SelectionRecord,
    output: Output,
    traces: AnyTraceFiles = None,
    landscape: Annotated[
        Path | None, typer.Option(help="Landscape (.json), if a claim is about one.")
    ] = None,
    budgets: Annotated[
        Path | None, typer.Option(help="Budgets (.nc), if a claim is about them.")
    ] = None,
    attacks: Annotated[
        Path | None, typer.Option(help="Attacks on budgets (.csv), if a claim is about them.")
    ] = None,
    leaks: Annotated[
        Path | None, typer.Option(help="What parties learn (.csv), if a claim is about it.")
    ] = None,
) -> None:
    """Judge an experiment's claims."""
    from fedatlas.evaluation import verdicts as judging
    from fedatlas.evaluation.results import Results
    from fedatlas.evaluation.selection import choices
    from fedatlas.evaluation.study_files import (
        read_attacks,
        read_budgets,
        read_leaks,
        read_surface,
    )
    from fedatlas.evaluation.verdicts import verdict_summary, verdicts_to_csv
    from fedatlas.schema.claims import Claim
    from fedatlas.schema.runs import Selection

    record = read_json(selection)
    rule = validated(Selection, record["rule"], str(selection))
    verdicts = judging.judge(
        spec["experiment"],
        spec["paper"],
        [validated(Claim, claim, "--spec") for claim in spec["claims"]],
        Results(
            traces=read_traces(traces or []),
            chosen=choices(record),
            window=rule.window,
            selected_by=rule.measurement,
            looks=spec["looks"],
            landscape=read_surface(landscape) if landscape else None,
            budgets=read_budgets(budgets) if budgets else None,
            attacks=read_attacks(attacks) if attacks else None,
            leaks=read_leaks(leaks) if leaks else None,
        ),
    )
    write_text(output, verdicts_to_csv(verdicts))
    log.info("%s", verdict_summary(verdicts))


def table(traces: TraceFiles, selection: SelectionRecord, output: Output) -> None:
    """Tabulate where every grid point of an experiment ended and what it cost."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.pages.results_table import results_table

    write_text(output, to_csv(results_table(read_traces(traces), read_choices(selection))))


def claims(
    files: Annotated[list[Path], typer.Argument(help="claims.csv files of experiments.")],
    csv: Annotated[Path, typer.Option(help="Joined table to write.")],
    html: Annotated[Path, typer.Option(help="Page to write.")],
) -> None:
    """Join experiments' verdicts into one table and one page."""
    from fedatlas.evaluation.verdicts import read_verdicts, verdict_summary, verdicts_to_csv
    from fedatlas.pages.claims_page import verdicts_to_html

    verdicts = [verdict for file in files for verdict in read_verdicts(file)]
    write_text(csv, verdicts_to_csv(verdicts))
    write_text(html, verdicts_to_html(verdicts))
    log.info("%s", verdict_summary(verdicts))


def summary(results: ResultsFolder = Path("results")) -> None:
    """Say what there is in the results folder and where to look."""
    from rich.console import Console

    from fedatlas.pages.terminal import print_summary

    _check_folder(results)
    print_summary(results, Console())


def power(results: ResultsFolder = Path("results")) -> None:
    """Say how many seeds would decide each undecided claim."""
    from rich.console import Console

    from fedatlas.pages.terminal import print_power

    _check_folder(results)
    print_power(results, Console())


def coverage(
    config: Configuration,
    results: Annotated[
        list[Path] | None, typer.Argument(help="Results folders from which to take verdicts.")
    ] = None,
    readme: Annotated[Path, typer.Option(help="README to write the table into.")] = Path(
        "README.md"
    ),
) -> None:
    """Take verdicts into config/verdicts.csv, and write README's table of what ran."""
    from fedatlas.pages import repository as kept
    from fedatlas.plan.build import build_plan
    from fedatlas.schema.papers import load_coverage

    plan = build_plan(config)
    covered = load_coverage(config / "coverage.yaml", plan.papers, plan.experiments)
    verdicts = kept.read_kept(config / "verdicts.csv")
    for folder in results or ():
        _check_folder(folder)
        verdicts = kept.joined(verdicts, kept.taken_from(folder), plan.experiments)
    write_text(config / "verdicts.csv", kept.kept_to_csv(verdicts))
    table = kept.readme_table(plan.papers, covered, verdicts, plan.experiments)
    text = readme.read_text(encoding="utf-8")
    write_text(readme, kept.with_table(text, table, readme))
    say(f"{config / 'verdicts.csv'}: {len(verdicts)} sentences; {readme}: the table")


def _check_folder(results: Path) -> None:
    if results.exists() and not results.is_dir():
        raise FedatlasError(f"{results}: is not a folder; name the folder of results")
    if not results.is_dir():
        raise FedatlasError(
            f"{results}: there is no such folder in {Path.cwd()}: run an experiment first "
            "(fedatlas run NAME), go to the folder where one ran, or name its folder of results"
        )


COMMANDS = (select, judge, table, claims)
