"""The command line: one command per step of the workflow, each also usable by hand.

Heavy libraries are imported inside the commands, so that a step loads only what it needs.
"""

import difflib
import gc
import json
import logging
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from fedatlas.errors import FedatlasError
from fedatlas.schema.config import DEVICE_VARIABLE, MIRROR_VARIABLE

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

#: After so many Python looks for garbage among them, in place of 700. While modules load there is
#: hardly any: to look for it less often saves a tenth of a short job.
NEW_OBJECTS = 5_000

Specification = Annotated[
    str, typer.Option("--spec", help="JSON, or @FILE for JSON in a file.", show_default=False)
]
ObjectiveSpecification = Annotated[
    str,
    typer.Option(
        "--spec", help='Objective as JSON: {"name": "logistic_l2", "weight": 1e-4}; or @FILE.'
    ),
]
Catalogue = Annotated[Path, typer.Option(help="Catalogue of data sets.", exists=True)]
Output = Annotated[Path, typer.Option(help="File to write.")]
TraceFiles = Annotated[list[Path], typer.Argument(help="Trace files (.nc) of the experiment.")]
AnyTraceFiles = Annotated[
    list[Path] | None, typer.Argument(help="Trace files (.nc) of the experiment, if it has any.")
]


@app.callback()
def configure(verbose: Annotated[bool, typer.Option(help="Log details.")] = False) -> None:
    """fedatlas: convergence of federated and distributed optimisation, reproduced and judged."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    # These libraries' details drown ours.
    for name in ("numba", "matplotlib", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _json(text: str) -> Any:
    """Parse JSON from an argument, or from a file named after an @."""
    where = text[1:] if text.startswith("@") else "--spec"
    try:
        content = Path(where).read_text(encoding="utf-8") if text.startswith("@") else text
        return json.loads(content)
    except (OSError, ValueError) as error:
        raise FedatlasError(f"{where}: cannot be read as JSON: {error}") from None


def _members(text: str, *keys: str) -> dict[str, Any]:
    """A JSON object that has the keys."""
    content = _json(text)
    missing = [key for key in keys if not isinstance(content, dict) or key not in content]
    if missing:
        raise FedatlasError(f"--spec: missing {', '.join(missing)}")
    return content


def _similar(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name."""
    close = difflib.get_close_matches(name, known, n=5, cutoff=0.3)
    return f"similar: {', '.join(close) or 'none'}"


@app.command()
def spec(
    name: Annotated[
        str, typer.Argument(help="EXPERIMENT/RUN/POINT, as traces are filed; or EXPERIMENT.")
    ],
    config: Annotated[Path, typer.Option(help="Configuration folder.")] = Path("config"),
) -> None:
    """Print a run's specification for `train --spec`, or what an experiment's file expands to."""
    from fedatlas.files import canonical_json
    from fedatlas.plan.build import build_plan
    from fedatlas.schema.experiment_files import read_experiments
    from fedatlas.schema.models import as_yaml

    if "/" not in name:
        experiments = read_experiments(config / "experiments")
        if name not in experiments:
            raise FedatlasError(f"there is no experiment '{name}'; {_similar(name, experiments)}")
        where, content = experiments[name]
        typer.echo(f"# {where}\n{as_yaml(content)}", nl=False)
        return
    runs = {run.name: run for run in build_plan(config).runs.values()}
    if name not in runs:
        raise FedatlasError(f"there is no run '{name}'; {_similar(name, runs)}")
    typer.echo(canonical_json(runs[name].model_dump(mode="json")))


@app.command()
def download(
    file: Annotated[str, typer.Argument(help="The file's path in the catalogue.")],
    output: Annotated[
        Path | None, typer.Option(help="File to write; results/raw/… by default.")
    ] = None,
    lock: Annotated[Path, typer.Option(help="Where sums of files without one are kept.")] = Path(
        "config/checksums.lock.json"
    ),
    archives: Annotated[
        Path, typer.Option(help="Where archives of single members are kept.")
    ] = Path("results/archives"),
    mirror: Annotated[
        Path | None, typer.Option(help="Folder looked into first.", envvar=MIRROR_VARIABLE)
    ] = None,
    catalogue: Catalogue = Path("config/datasets.yaml"),
) -> None:
    """Fetch a raw file, verify it and undo its compression."""
    from fedatlas.data.catalogue import load_catalogue
    from fedatlas.data.download import download as fetch

    by_local_path = load_catalogue(catalogue).raw_files()
    files = {raw.path: raw for raw in by_local_path.values()} | by_local_path
    if file not in files:
        raise FedatlasError(f"{catalogue}: no raw file '{file}'; {_similar(file, files)}")
    destination = output or Path("results/raw") / files[file].local_path
    fetch(files[file], destination, mirror=mirror, lock=lock, archives=archives)


@app.command()
def prepare(
    dataset: Annotated[str, typer.Argument(help="Name in the catalogue.")],
    split: Annotated[str, typer.Argument(help="Split of the data set.")],
    output: Output,
    raw: Annotated[list[Path] | None, typer.Argument(help="Raw files, in order.")] = None,
    train_split: Annotated[
        Path | None, typer.Option(help="Prepared split 'train', to scale by.")
    ] = None,
    catalogue: Catalogue = Path("config/datasets.yaml"),
) -> None:
    """Turn a split's raw files into one Parquet file."""
    from fedatlas.data.catalogue import load_catalogue
    from fedatlas.data.prepare import prepare as prepare_split

    entry = load_catalogue(catalogue)[dataset]
    prepare_split(entry, split, raw or [], output, train=train_split)


@app.command()
def shard(
    data: Annotated[Path, typer.Argument(help="Prepared Parquet file.")],
    spec: Specification,
    silo: Annotated[list[Path], typer.Option(help="Shard file of each silo to write, in order.")],
    manifest: Annotated[Path, typer.Option(help="Manifest to write.")],
    test: Annotated[
        Path | None, typer.Option(help="Prepared split to test on, if the partition names one.")
    ] = None,
) -> None:
    """Share out a prepared split over clients, parties, or silos with clients."""
    from fedatlas.schema.models import validated
    from fedatlas.schema.partitions import HorizontalPartition, Partition, TieredPartition

    partition = validated(cast(Any, Partition), _json(spec), "--spec")
    if isinstance(partition, HorizontalPartition):
        from fedatlas.shards.clients import write_shards

        write_shards(data, partition, silo, manifest, test)
    elif isinstance(partition, TieredPartition):
        from fedatlas.shards.silos import write_tiered_shards

        write_tiered_shards(data, partition, silo, manifest, test)
    else:
        from fedatlas.shards.parties import write_party_shards

        write_party_shards(data, partition, silo, manifest, test)


@app.command()
def optimum(
    shards: Annotated[list[Path], typer.Argument(help="Files of all parties, in order.")],
    spec: ObjectiveSpecification,
    output: Output,
) -> None:
    """Find an objective's optimum on pooled training rows."""
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.schema.models import validated
    from fedatlas.schema.objectives import LinearObjective
    from fedatlas.training.optimum import write_optimum
    from fedatlas.training.solver import solve

    objective = validated(LinearObjective, _json(spec), "--spec")
    _, found = solve(read_party_shards(shards).train, objective)
    write_optimum(found, output)
    logging.getLogger(__name__).info("%s", found)


@app.command()
def leaks(
    shards: Annotated[list[Path], typer.Argument(help="Files of all parties, in order.")],
    spec: ObjectiveSpecification,
    output: Output,
) -> None:
    """Tabulate what curious or colluding parties learn from a vertical method's messages."""
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.schema.models import validated
    from fedatlas.schema.objectives import LinearObjective
    from fedatlas.studies.leaks import find_leaks, write_leaks
    from fedatlas.training.solver import solve

    objective = validated(LinearObjective, _json(spec), "--spec")
    data = read_party_shards(shards)
    rows, active = data.train, data.metadata["partition"]["active"]
    w, _ = solve(rows, objective)
    findings = find_leaks(
        objective, rows.label, 0 * rows.label, rows.features @ w, rows.parties, active
    )
    write_leaks(findings, output)


@app.command()
def trees(
    parties: Annotated[int, typer.Argument(help="Number of parties.")],
    output: Annotated[list[Path], typer.Option(help="Files to write, .svg or .png.")],
) -> None:
    """Draw the two trees along which parties sum."""
    from fedatlas.federations.vertical.secure_sum import two_trees
    from fedatlas.figures.trees import draw_trees

    titles = ("masked shares, to party 0", "masks, to party 0")
    draw_trees(two_trees(parties), titles, output)


@app.command()
def landscape(
    shard: Annotated[Path, typer.Argument(help="Shard file of all clients.")],
    spec: Annotated[
        str,
        typer.Option(
            "--spec", help="JSON with objective and landscape, or @FILE for one in a file."
        ),
    ],
    output: Output,
) -> None:
    """Compute the loss surface of a network with two parameters and its stationary points."""
    from fedatlas.evaluation.stationary_points import described, write_surface
    from fedatlas.federations.client_shards import read_shard
    from fedatlas.schema.models import validated
    from fedatlas.schema.objectives import AucObjective
    from fedatlas.schema.studies import Landscape
    from fedatlas.studies.landscape import AucSurface, explore

    content = _members(spec, "objective", "landscape")
    objective = validated(AucObjective, content["objective"], "--spec: objective")
    region = validated(Landscape, content["landscape"], "--spec: landscape")
    surface = explore(AucSurface(read_shard(shard), objective), region)
    write_surface(surface, output)
    for point in surface.stationary_points:
        logging.getLogger(__name__).info("%s", described(point))


@app.command()
def landscape_figure(
    surface: Annotated[Path, typer.Argument(help="Landscape (.json).", exists=True)],
    title: Annotated[str, typer.Option(help="Title of the figure.")],
    output: Annotated[list[Path], typer.Option(help="Files to write, .svg or .png.")],
) -> None:
    """Draw a loss surface with its stationary points."""
    from fedatlas.evaluation.stationary_points import read_surface
    from fedatlas.figures.landscape import draw_landscape

    draw_landscape(title, read_surface(surface), output)


@app.command()
def budgets(
    spec: Annotated[
        str,
        typer.Option("--spec", help="JSON with budgets and runs, or @FILE for one in a file."),
    ],
    output: Output,
    conditions: Annotated[Path, typer.Option(help="Table of theorems' conditions to write.")],
) -> None:
    """Compute what runs spend of privacy, and list theorems' conditions; nothing is trained."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.files import write_text
    from fedatlas.schema.models import validated
    from fedatlas.schema.runs import RunSpec
    from fedatlas.schema.studies import BudgetStudy
    from fedatlas.studies.budgets import (
        CONDITION_COLUMNS,
        compute_budgets,
        tabulate_conditions,
        write_budgets,
    )

    content = _members(spec, "budgets", "runs")
    runs = [validated(RunSpec, run, "--spec: runs") for run in content["runs"]]
    study = validated(BudgetStudy, content["budgets"], "--spec: budgets")
    write_budgets(compute_budgets(runs, study), output)
    write_text(conditions, to_csv(tabulate_conditions(runs, study), CONDITION_COLUMNS))


@app.command()
def attacks(
    spec: Annotated[
        str,
        typer.Option(
            "--spec", help="JSON with privacy_audit and runs, or @FILE for one in a file."
        ),
    ],
    output: Output,
) -> None:
    """Attack what runs claim of privacy, on a tiny problem."""
    from fedatlas.schema.models import validated
    from fedatlas.schema.runs import RunSpec
    from fedatlas.schema.studies import PrivacyAudit
    from fedatlas.studies.attacks import tabulate_attacks, write_attacks

    content = _members(spec, "privacy_audit", "runs")
    runs = [validated(RunSpec, run, "--spec: runs") for run in content["runs"]]
    study = validated(PrivacyAudit, content["privacy_audit"], "--spec: privacy_audit")
    write_attacks(tabulate_attacks(runs, study), output)


@app.command()
def budgets_figure(
    budgets: Annotated[Path, typer.Argument(help="Budgets (.nc).", exists=True)],
    spec: Annotated[
        str, typer.Option("--spec", help="JSON with title and runs, or @FILE for one in a file.")
    ],
    output: Annotated[list[Path], typer.Option(help="Files to write, .svg or .png.")],
) -> None:
    """Draw privacy budgets by iteration and by horizon."""
    from fedatlas.evaluation.budgets import read_budgets
    from fedatlas.figures.budgets import draw_budgets

    content = _members(spec, "title", "runs")
    draw_budgets(content["title"], content["runs"], read_budgets(budgets), output)


@app.command()
def graphs(
    spec: Annotated[
        str, typer.Option("--spec", help="JSON with title, graphs and agents, or @FILE.")
    ],
    output: Annotated[list[Path], typer.Option(help="Files to write, .svg or .png.")],
) -> None:
    """Draw who sends to whom."""
    from fedatlas.figures.graphs import draw_graphs
    from fedatlas.schema.graphs import Graphs, weight_matrix
    from fedatlas.schema.models import validated

    content = _members(spec, "title", "graphs", "agents")
    pair = validated(Graphs, content["graphs"], "--spec: graphs")
    weights = {
        name: weight_matrix(graph, content["agents"], name)
        for name, graph in (("states", pair.states), ("trackers", pair.trackers))
        if graph is not None
    }
    draw_graphs(content["title"], weights, output)


@app.command()
def train(
    spec: Specification,
    shards: Annotated[Path, typer.Option(help="Folder of the split's partitions.")],
    output: Output,
    optima: Annotated[
        Path | None, typer.Option(help="Folder of the split's optima, if f* is needed.")
    ] = None,
    tuning: Annotated[
        Path | None,
        typer.Option(help="Selection record of the experiment in which the run is tuned."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or cuda:N.", envvar=DEVICE_VARIABLE)
    ] = "auto",
    checkpoint: Annotated[Path | None, typer.Option(help="Where to resume from.")] = None,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints.", envvar="FEDATLAS_CHECKPOINT_EVERY")
    ] = 60.0,
) -> None:
    """Train one run with all its seeds and write its trace."""
    from fedatlas.arithmetic.out_of_memory import is_out_of_memory
    from fedatlas.schema.models import validated
    from fedatlas.schema.runs import RunSpec
    from fedatlas.training.loop import CheckpointPolicy
    from fedatlas.training.loop import train as train_run

    run = validated(RunSpec, _json(spec), "--spec")
    if (tuning is None) != (run.tuned_in is None):
        raise FedatlasError(
            f"{run.name}: is tuned in {run.tuned_in or 'no other experiment'}: "
            f"{'remove' if tuning else 'give'} --tuning"
        )
    if tuning is not None:
        run = run.tuned(_json(f"@{tuning}"))
    policy = CheckpointPolicy(checkpoint, checkpoint_every) if checkpoint else None
    try:
        train_run(run, shards, output, optima=optima, device=device, checkpoint=policy)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        # Gradients and evaluations say more, see `fedatlas.arithmetic.memory`.
        raise FedatlasError(
            f"{run.name}: ran out of memory beside gradients and evaluations, on device '{device}':"
            f" {str(error).splitlines()[0].rstrip('.') if str(error) else 'no room'}. Give the "
            "job more memory, or lower the numbers of clients and samples"
        ) from None


@app.command()
def select(spec: Specification, output: Output, traces: AnyTraceFiles = None) -> None:
    """Choose each run's grid point by the experiment's rule."""
    from fedatlas.evaluation.selection import select as select_points
    from fedatlas.files import write_text
    from fedatlas.schema.models import validated
    from fedatlas.schema.selection import Selection

    rule = validated(Selection, _json(spec), "--spec")
    record = select_points(_traces(traces or []), rule)
    write_text(output, json.dumps(record, indent=2) + "\n")


@app.command()
def judge(
    spec: Specification,
    selection: Annotated[Path, typer.Option(help="Selection record.")],
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
) -> None:
    """Judge an experiment's claims."""
    from fedatlas.evaluation import judge as judging
    from fedatlas.evaluation.audit_table import read_audit
    from fedatlas.evaluation.budgets import read_budgets
    from fedatlas.evaluation.results import Results
    from fedatlas.evaluation.selection import choices
    from fedatlas.evaluation.stationary_points import read_surface
    from fedatlas.evaluation.verdicts import verdict_summary, verdicts_to_csv
    from fedatlas.files import write_text
    from fedatlas.schema.claims import Claim
    from fedatlas.schema.models import validated
    from fedatlas.schema.selection import Selection

    content = _members(spec, "experiment", "paper", "claims")
    record = _json(f"@{selection}")
    verdicts = judging.judge(
        content["experiment"],
        content["paper"],
        [validated(Claim, claim, "--spec") for claim in content["claims"]],
        Results(
            traces=_traces(traces or []),
            chosen=choices(record),
            window=validated(Selection, record["rule"], str(selection)).window,
            landscape=read_surface(landscape) if landscape else None,
            budgets=read_budgets(budgets) if budgets else None,
            attacks=read_audit(attacks) if attacks else None,
        ),
    )
    write_text(output, verdicts_to_csv(verdicts))
    logging.getLogger(__name__).info("%s", verdict_summary(verdicts))


@app.command()
def table(
    traces: TraceFiles,
    selection: Annotated[Path, typer.Option(help="Selection record.")],
    output: Output,
) -> None:
    """Tabulate where every grid point of an experiment ended and what it cost."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.evaluation.results_table import results_table
    from fedatlas.evaluation.selection import choices
    from fedatlas.files import write_text

    write_text(output, to_csv(results_table(_traces(traces), choices(_json(f"@{selection}")))))


@app.command()
def figure(
    spec: Specification,
    traces: TraceFiles,
    selection: Annotated[Path, typer.Option(help="Selection record.")],
    output: Annotated[list[Path], typer.Option(help="Files to write, .svg or .png.")],
) -> None:
    """Draw an experiment's figure."""
    from fedatlas.evaluation.selection import choices
    from fedatlas.figures.draw import draw
    from fedatlas.schema.figures import Figure
    from fedatlas.schema.models import validated

    content = _members(spec, "title", "figure", "runs")
    draw(
        content["title"],
        validated(Figure, content["figure"], "--spec"),
        content["runs"],
        _traces(traces),
        choices(_json(f"@{selection}")),
        output,
    )


@app.command()
def claims(
    files: Annotated[list[Path], typer.Argument(help="claims.csv files of experiments.")],
    csv: Annotated[Path, typer.Option(help="Joined table to write.")],
    html: Annotated[Path, typer.Option(help="Page to write.")],
) -> None:
    """Join experiments' verdicts into one table and one page."""
    from fedatlas.evaluation.claims_page import verdicts_to_html
    from fedatlas.evaluation.verdicts import read_verdicts, verdict_summary, verdicts_to_csv
    from fedatlas.files import write_text

    verdicts = [verdict for file in files for verdict in read_verdicts(file)]
    write_text(csv, verdicts_to_csv(verdicts))
    write_text(html, verdicts_to_html(verdicts))
    logging.getLogger(__name__).info("%s", verdict_summary(verdicts))


@app.command()
def join_traces(
    spec: Specification,
    experiments: Annotated[Path, typer.Option(help="Folder of the experiments' results.")],
    output: Output,
) -> None:
    """Join a paper's traces into one file."""
    from fedatlas.atlas import joining
    from fedatlas.evaluation.selection import choices
    from fedatlas.schema.models import validated

    paper = validated(joining.JoinedPaper, _json(spec), "--spec")
    runs = [run for experiment in paper.experiments for run in experiment.runs]
    chosen = {
        (name, run): choice.point
        for name in {run.selected_in for run in runs}
        for run, choice in choices(_json(f"@{experiments / name / 'selection.json'}")).items()
    }
    joining.join_traces(paper, chosen, experiments, output)


@app.command()
def join_papers(
    output: Output,
    papers: Annotated[list[Path] | None, typer.Argument(help="Files of papers (.nc).")] = None,
) -> None:
    """Join papers' files into the atlas."""
    from fedatlas.atlas import joining

    joining.join_papers(papers or [], output)


@app.command()
def report(
    experiments: Annotated[list[str], typer.Argument(help="Names of experiments that ran.")],
    output: Output,
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    config: Annotated[Path, typer.Option(help="Configuration folder.")] = Path("config"),
    atlas: Annotated[
        Path | None, typer.Option(help="Atlas (.nc), for experiments across papers.", exists=True)
    ] = None,
) -> None:
    """Write what was run, published numbers beside ours, verdicts and errata, as Markdown."""
    from fedatlas.atlas.report import write_report
    from fedatlas.atlas.scope import read_scope
    from fedatlas.plan.build import build_plan

    write_report(read_scope(build_plan(config), experiments), results, output, atlas)


@app.command()
def explorer(
    atlas: Annotated[Path, typer.Argument(help="Atlas (.nc).", exists=True)],
    claims: Annotated[Path, typer.Argument(help="Verdicts (.csv).", exists=True)],
    output: Output,
    shows: Annotated[
        str,
        typer.Option(help="JSON: experiments without own runs → those they show; or @FILE."),
    ] = "{}",
) -> None:
    """Write the page on which the atlas is explored."""
    from fedatlas.atlas.explorer import write_explorer

    write_explorer(atlas, claims, output, _json(shows))


@app.command()
def summary(
    results: Annotated[Path, typer.Argument(help="Results folder.")] = Path("results"),
) -> None:
    """Say what there is in the results folder and where to look."""
    from rich.console import Console

    from fedatlas.evaluation.summary import print_summary

    if not results.is_dir():
        raise FedatlasError(f"{results}: is not a folder; run snakemake first")
    print_summary(results, Console())


@app.command()
def verify(
    results: Annotated[Path, typer.Argument(help="Results folder.")] = Path("results"),
    config: Annotated[Path, typer.Option(help="Configuration folder.")] = Path("config"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check all digests again. Exit status: 0 as recorded, 1 drift, 2 a file cannot be read."""
    from rich.console import Console
    from rich.progress import track

    from fedatlas.provenance import findings, printing, verification

    terminal = Console(stderr=True)
    with _unreadable_is_two():
        files = verification.verify(
            results,
            config,
            lambda checks: track(
                checks,
                "Verifying",
                console=terminal,
                transient=True,
                disable=not terminal.is_terminal,
            ),
        )
    if as_json:
        typer.echo(json.dumps(findings.as_plain(files), indent=2))
    else:
        printing.print_verification(files, printing.wide_console())
    raise typer.Exit(findings.exit_status(files))


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="Trace, atlas, experiment's or results folder.")],
    second: Annotated[Path, typer.Argument(help="What to compare it with, of any such kind.")],
    relative_tolerance: Annotated[float, typer.Option(help="Of the larger of two values.")] = 0.0,
    absolute_tolerance: Annotated[float, typer.Option(help="In the variable's units.")] = 0.0,
    wall_time: Annotated[bool, typer.Option(help="Compare times measured here, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare results value by value. Exit status: 0 equal, 1 different, 2 cannot be read."""
    from fedatlas.provenance import difference, printing

    with _unreadable_is_two():
        tolerance = difference.Tolerance(relative_tolerance, absolute_tolerance, wall_time)
        found = difference.compare(first, second, tolerance)
    if as_json:
        typer.echo(json.dumps(printing.comparison_as_plain(found), indent=2))
    else:
        printing.print_comparison(found, printing.wide_console())
    raise typer.Exit(found.exit_status)


@contextmanager
def _unreadable_is_two() -> Iterator[None]:
    """Of commands whose exit status 1 means something else than an error."""
    try:
        yield
    except FedatlasError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _traces(files: list[Path]) -> Any:
    from fedatlas.evaluation.selection import by_run
    from fedatlas.traces.trace import read_trace

    return by_run([read_trace(file) for file in files])


def main() -> None:
    """Run the command line; errors that users can act on are printed without a traceback."""
    # A cluster's SIGTERM must clean up like any exit; by default Python just ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    gc.set_threshold(NEW_OBJECTS)
    try:
        app()
    except FedatlasError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    finally:
        # All is done but the interpreter's own end: it would look through all that was loaded for
        # garbage, which takes half a second, and torch still needs some time.
        gc.freeze()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
