"""Commands that share results with others, and compare them with published ones."""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedatlas.cli.looking import check_folder
from fedatlas.cli.options import Configuration, Output
from fedatlas.errors import FedatlasError
from fedatlas.extensions import projects
from fedatlas.files import write_atomically, write_text
from fedatlas.plain_text import say
from fedatlas.plan.places import check_clone, files_named, where_published

if TYPE_CHECKING:
    from fedatlas.data.catalogue import Catalogue

Traces = Annotated[
    Path, typer.Argument(help="A results folder, published folder or an experiment's traces.nc.")
]
Experiments = Annotated[
    list[str] | None, typer.Option(help="Names or globs of experiments; by default all.")
]

Tables = Annotated[
    list[Path] | None,
    typer.Option(
        "--table", "--csv", help="Table to write: .tex for a paper, or .csv, .parquet, .json."
    ),
]


def export(
    traces: Traces,
    output: Annotated[Path, typer.Argument(help="Table to write: .parquet or .csv.")],
    config: Configuration,
    experiments: Experiments = None,
) -> None:
    """Write traces as one table, a row for each run, seed and record."""
    from fedatlas.store.atlas import open_marked
    from fedatlas.store.publishing import stale_points
    from fedatlas.store.table import export_table

    if output.suffix not in (".parquet", ".csv"):
        raise FedatlasError(f"{output}: must end in .parquet or .csv")
    atlas = open_marked(traces, config)
    places = atlas.places(experiments, all_points=True)
    rows = export_table(atlas, places, output, _licences(config))
    for one in stale_points(atlas, places):
        say(f"{one} (stale)", to_errors=True)
    say(f"{output}: {rows} rows of {len(places)} traces")


def import_runs(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files or folders of one format; docs/curves.md lists formats."),
    ],
    output: Annotated[Path, typer.Option(help="Results folder to write the runs to.")],
    mapping: Annotated[
        Path | None, typer.Option(help="YAML file that says what each column is.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(help="Format, where files do not show it: tensorboard, wandb, mlflow …"),
    ] = "",
) -> None:
    """Import runs made elsewhere, so that `compare`, `profile` and `export` can read them."""
    from fedatlas.schema.foreign import CurvesMapping
    from fedatlas.schema.models import read_yaml, validated
    from fedatlas.store.foreign import import_runs

    given = {} if mapping is None else read_yaml(mapping)
    named = validated(CurvesMapping, given, str(mapping)).model_dump(exclude_unset=True)
    if "problem" in named:
        _check_problem(named["problem"], str(mapping))
    atlas = import_runs(sources, output, format=format, **named)
    (experiment,) = atlas.names("ours")
    for note in str(atlas.attributes(f"ours/{experiment}")["notes"]).split("; "):
        say(note)
    say(f"{atlas.path}: {', '.join(atlas.names(f'ours/{experiment}'))}")


def _check_problem(problem: str, where: str) -> None:
    """FedatlasError for a name that is similar to that of a known experiment, but not the same.

    Known are the experiments of the configuration, of projects and of ./published.
    """
    from difflib import get_close_matches

    from fedatlas.plan.build import heads_in
    from fedatlas.plan.places import shipped_configuration
    from fedatlas.schema.experiment_files import names_in

    known = {
        file.name.partition(".")[0] for file in where_published(Path("published")).glob("*/*.nc*")
    }
    with suppress(FedatlasError):  # a package without the workflow
        known |= {*names_in(heads_in(shipped_configuration(), *projects()))}
    if problem not in known and (close := get_close_matches(problem, known, cutoff=0.8)):
        raise FedatlasError(
            f"{where}: problem: no experiment '{problem}' is in the configuration, in projects "
            f"or in ./published; similar: {', '.join(close)}"
        )


def publish(
    traces: Traces,
    output: Annotated[Path, typer.Argument(help="Folder to write.")],
    config: Configuration,
    records: Annotated[
        int,
        typer.Option(min=2, help="Records to keep of each trace; more where a verdict needs them."),
    ] = 40,
    whole: Annotated[bool, typer.Option(help="Keep all records and all points of grids.")] = False,
    all_points: Annotated[
        bool, typer.Option(help="Keep all points of grids, even if no claim looks at them.")
    ] = False,
    experiments: Experiments = None,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale", help="Include runs whose code or experiment changed since, and mark them."
        ),
    ] = False,
    archive: Annotated[
        Path | None, typer.Option(help="Also pack the folder into one file (.zip).")
    ] = None,
    citation: Annotated[
        Path, typer.Option(help="File that names authors and licence of the published folder.")
    ] = Path("CITATION.cff"),
    day: Annotated[
        datetime | None,
        typer.Option("--date", formats=["%Y-%m-%d"], help="Date of publication; by default today."),
    ] = None,
) -> None:
    """Write traces, verdicts, checksums and RO-Crate metadata into a folder to publish."""
    from fedatlas.plan.build import build_plan
    from fedatlas.store.atlas import open_marked
    from fedatlas.store.crate import read_citation, revision
    from fedatlas.store.publishing import Publication, publish

    cited = read_citation(citation)
    if not cited:
        why = "is not filled in" if citation.is_file() else "does not exist"
        say(
            f"{citation}: {why}, so {output} names no author and no licence; archives need both",
            to_errors=True,
        )
    publication = Publication(
        _licences(config),
        records=None if whole else records,
        all_points=whole or all_points,
        experiments=experiments,
        citation=cited,
        commit=revision(Path()),
        stale=stale,
        **({} if day is None else {"published": day.date()}),
    )
    atlas = open_marked(traces, config)
    judged = [file.parent.name for file in traces.glob("experiments/*/claims.csv")]
    plan = build_plan(config, *projects(), names=judged)
    files = publish(atlas, traces / "experiments", output, publication, plan.experiments)
    largest = max(files, key=lambda file: file.stat().st_size)
    size = sum(file.stat().st_size for file in files)
    say(
        f"{output}: {len(files)} files, {size / 1e6:.2f} MB; the largest is {largest.name}, "
        f"{largest.stat().st_size / 1e6:.2f} MB"
    )
    if archive is not None:
        packed = archive.with_suffix(".zip")
        with write_atomically(packed) as temporary:
            shutil.make_archive(str(temporary.with_suffix("")), "zip", output)
        say(f"{packed}: the same files in one archive")


def compare(
    traces: Traces,
    metric: Annotated[str, typer.Option(help="Measurement to compare by, such as gradient_norm.")],
    target: Annotated[float, typer.Option(help="Value of the measurement that runs should reach.")],
    config: Configuration,
    against: Annotated[
        Path | None,
        typer.Option(help="Published runs on the same problem: a folder, or a folder of several."),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated; by default exchanges, bytes, gradient_evaluations."),
    ] = None,
    experiments: Experiments = None,
    runs: Annotated[
        list[str] | None, typer.Option(help="Only these of your runs: RUN or EXPERIMENT/RUN.")
    ] = None,
    all_points: Annotated[
        bool, typer.Option(help="Your runs at all points of grids, not only at the tuned ones.")
    ] = False,
    whole: Annotated[
        bool, typer.Option(help="Your runs with all records, even if published ones are thinned.")
    ] = False,
    figure: Annotated[
        list[Path] | None,
        typer.Option(help="File for curves: .svg, .pdf, .png, or .tex with .dat for pgfplots."),
    ] = None,
    style: Annotated[
        str, typer.Option(help="Figure's style: `column` for a journal's, or a file .mplstyle.")
    ] = "",
    table: Tables = None,
) -> None:
    """Print what runs spend to reach a target, alone or beside published runs."""
    from fedatlas.store.atlas import open_marked
    from fedatlas.store.comparison import USUAL_COSTS, compare
    from fedatlas.store.plotting import plot

    _check_apart(figure or (), table or ())
    costs = cost or USUAL_COSTS
    ours = open_marked(traces, config)
    theirs = None if against is None else open_marked(against, config)
    chosen: dict[str, Any] = {
        "experiments": experiments,
        "runs": runs,
        "all_points": all_points,
        "against": theirs,
        "whole": whole,
    }
    found = compare(ours, metric, costs, target, **chosen)
    if figure:
        drawn = plot(ours, metric, costs, style=style, **chosen)
    for path in figure or ():
        drawn.save(path)
    for path in table or ():
        found.save(path)
    say(found)
    if figure:
        say(f"figure: {drawn.note}")


def profile(
    traces: Annotated[
        list[Path], typer.Argument(help="Results or published folders; all are compared together.")
    ],
    metric: Annotated[str, typer.Option(help="Measurement to compare by, such as gradient_norm.")],
    targets: Annotated[
        str, typer.Option(help="Values, as 0.1,0.01, or FROM:TO:NUMBER, evenly spaced in level.")
    ],
    config: Configuration,
    of_start: Annotated[
        bool, typer.Option("--of-start", help="Targets are shares of the distance at the start.")
    ] = False,
    cost: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated; by default exchanges, bytes, gradient_evaluations."),
    ] = None,
    experiments: Experiments = None,
    runs: Annotated[
        list[str] | None, typer.Option(help="Methods to compare: RUN or EXPERIMENT/RUN.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="File for profiles: .svg or .png.")] = None,
    table: Tables = None,
) -> None:
    """Compare methods over many problems (experiments) and targets, one cost at a time."""
    from fedatlas.store.atlas import open_marked
    from fedatlas.store.comparison import USUAL_COSTS
    from fedatlas.store.profiling import profile

    _check_apart([figure] if figure else (), table or ())
    opened = [open_marked(folder, config) for folder in traces]
    chosen: dict[str, Any] = {"of_start": of_start, "experiments": experiments, "runs": runs}
    found = profile(opened, metric, cost or USUAL_COSTS, targets, **chosen)
    if figure is not None:
        found.plot().save(figure)
    for path in table or ():
        found.save(path)
    say(found)


def _check_apart(figures: Iterable[Path], tables: Iterable[Path]) -> None:
    """FedatlasError if one file would be a figure and a table."""
    if both := {path.resolve() for path in figures} & {path.resolve() for path in tables}:
        raise FedatlasError(f"--table {min(both)}: is the file of --figure, too: name another file")


def data_card(output: Output, config: Configuration) -> None:
    """Describe the columns of exported tables and the licences of data sets, as Markdown."""
    from fedatlas.pages.repository import data_card

    write_text(output, data_card(_catalogue(config)))


def coverage(
    config: Configuration,
    results: Annotated[
        list[Path] | None, typer.Argument(help="Results folders from which to take verdicts.")
    ] = None,
    readme: Annotated[Path, typer.Option(help="README to write the table into.")] = Path(
        "README.md"
    ),
) -> None:
    """Copy verdicts into config/verdicts.csv, and update README's table of what ran."""
    from fedatlas.pages import repository as kept
    from fedatlas.plan.build import build_plan
    from fedatlas.schema.papers import load_coverage

    check_clone(config)
    plan = build_plan(config)
    covered = load_coverage(config / "coverage.yaml", plan.papers, plan.experiments)
    verdicts = kept.read_kept(config / "verdicts.csv")
    for folder in results or ():
        check_folder(folder)
        verdicts = kept.joined(verdicts, kept.taken_from(folder), plan.experiments)
    write_text(config / "verdicts.csv", kept.kept_to_csv(verdicts))
    table = kept.readme_table(plan.papers, plan.sentences, covered, verdicts, plan.experiments)
    text = readme.read_text(encoding="utf-8")
    write_text(readme, kept.with_table(text, table, readme))
    say(f"{config / 'verdicts.csv'}: {len(verdicts)} claims; {readme}: the table")


def _catalogue(config: Path) -> "Catalogue":
    from fedatlas.data.catalogue import load_catalogue

    return load_catalogue(*files_named("datasets.yaml", config, projects()))


def _licences(config: Path) -> dict[str, str]:
    return {name: dataset.licence for name, dataset in _catalogue(config).items()}
