"""Steps that write what people look at; see `fedatlas.steps`."""

import logging
from pathlib import Path

from fedatlas.extensions import projects
from fedatlas.files import write_text
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import shipped_configuration

log = logging.getLogger(__name__)


def tabulate_results(traces: Path, selection: Path, output: Path) -> None:
    """Tabulate where every grid point of an experiment ended and what it cost."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.evaluation.steps import read_choices, read_runs
    from fedatlas.pages.results_table import results_table

    write_text(output, to_csv(results_table(read_runs(traces), read_choices(selection))))


def collect_claims(claims: list[Path], csv: Path, html: Path) -> None:
    """Join experiments' verdicts into one table and one page."""
    from fedatlas.evaluation.verdicts import read_verdicts, verdict_summary, verdicts_to_csv
    from fedatlas.pages.claims_page import verdicts_to_html

    verdicts = [verdict for file in claims for verdict in read_verdicts(file)]
    write_text(csv, verdicts_to_csv(verdicts))
    write_text(html, verdicts_to_html(verdicts))
    log.info("%s", verdict_summary(verdicts))


def write_summary(experiments: list[str], results: Path, output: Path) -> None:
    """Write what was run, published numbers beside ours, verdicts and errata, as Markdown."""
    from fedatlas.pages.scope import read_scope
    from fedatlas.pages.summary import write_report

    plan = build_plan(shipped_configuration(), *projects(), names=experiments)
    write_report(read_scope(plan, experiments), results, output)


def write_explorer(
    atlas: Path, claims: list[Path], output: Path, config: Path | None = None
) -> None:
    """Write the page on which the atlas is explored, and its curves beside it.

    atlas: folder of results or of what was published. claims: verdicts. config: the folder of the
    configuration, if not the workflow's.
    """
    from fedatlas.pages.explorer import write_explorer as write
    from fedatlas.plan.selected import runs_shown
    from fedatlas.store.atlas import open_marked
    from fedatlas.store.checksums import check_sums

    for file in claims:
        check_sums(file.parent, [file])  # of a published folder
    with open_marked(atlas, config) as opened:
        shows = opened.shows
        if not (atlas / "experiments").is_dir():
            plan = build_plan(config or shipped_configuration(), *projects())
            shows = runs_shown(plan, plan.experiments)
        write(opened, claims, output, shows)
