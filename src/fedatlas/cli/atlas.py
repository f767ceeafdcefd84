"""Commands: all papers on common axes."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import Configuration, Output, Specification, read_choices, read_json
from fedatlas.plain_text import say
from fedatlas.projects import projects
from fedatlas.schema.models import validated
from fedatlas.store.titles import described


def join_traces(
    spec: Specification,
    experiments: Annotated[Path, typer.Option(help="Folder of the experiments' results.")],
    output: Output,
) -> None:
    """Join a paper's traces into one file."""
    from fedatlas.store import joining

    paper = validated(joining.JoinedPaper, spec, "--spec")
    runs = [run for experiment in paper.experiments for run in experiment.runs]
    chosen = {
        (name, run): choice.point
        for name in {run.selected_in for run in runs}
        for run, choice in read_choices(experiments / name / "selection.json").items()
    }
    joining.join_traces(paper, chosen, experiments, output)


def join_papers(
    output: Output,
    papers: Annotated[list[Path] | None, typer.Argument(help="Files of papers (.nc).")] = None,
    kept: Annotated[
        str, typer.Option(help="JSON: experiment/run that the atlas keeps → whether it is stale.")
    ] = "{}",
    contents: Annotated[
        Path | None, typer.Option(help="Where to list the atlas's runs with their code (.json).")
    ] = None,
) -> None:
    """Join papers' files into the atlas, which keeps runs of earlier selections."""
    from fedatlas.store import joining

    joined = joining.join_papers(papers or [], output, read_json(kept), contents)
    say(f"{output}: {joined.told()}")


def report(
    experiments: Annotated[list[str], typer.Argument(help="Names of experiments that ran.")],
    output: Output,
    config: Configuration,
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    atlas: Annotated[
        Path | None, typer.Option(help="Atlas (.nc), for experiments across papers.", exists=True)
    ] = None,
) -> None:
    """Write what was run, published numbers beside ours, verdicts and errata, as Markdown."""
    from fedatlas.pages.scope import read_scope
    from fedatlas.pages.summary import write_report
    from fedatlas.plan.build import build_plan

    plan = build_plan(config, *projects(), names=experiments)
    write_report(read_scope(plan, experiments), results, output, atlas)


def explorer(
    atlas: Annotated[
        Path,
        typer.Argument(
            help="Atlas (.nc), table, published folders or results folder.", exists=True
        ),
    ],
    claims: Annotated[list[Path], typer.Argument(help="Verdicts (.csv).", exists=True)],
    output: Output,
    config: Configuration,
    shows: Annotated[
        str | None,
        typer.Option(
            help="JSON: experiments without own runs → the runs that they show, as "
            "experiment/run; or @FILE. The configuration says so by default."
        ),
    ] = None,
) -> None:
    """Write the page on which the atlas is explored."""
    from fedatlas.pages.explorer import write_explorer
    from fedatlas.plan.build import build_plan
    from fedatlas.plan.selected import runs_shown
    from fedatlas.store.checksums import check_sums

    for file in claims:
        check_sums(file.parent, [file])  # of a published folder
    if shows is None:
        plan = build_plan(config, *projects())
        shown = runs_shown(plan, plan.experiments)
    else:
        shown = read_json(shows)
    with described(atlas, config) as opened:
        write_explorer(opened, claims, output, shown)


COMMANDS = (join_traces, join_papers, report, explorer)
