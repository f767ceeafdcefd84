"""What a run of the workflow made and where it lies, for the last lines on a terminal."""

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedatlas.evaluation.verdicts import read_verdicts

_KINDS = ("reproduced", "not reproduced", "inconclusive")


def print_summary(results: Path, console: Console) -> None:
    """Print verdict counts by experiment and the places to look at."""
    claims = results / "claims.csv"
    if claims.is_file():
        counts: dict[str, Counter[str]] = {}
        for verdict in read_verdicts(claims):
            counts.setdefault(verdict.claim.split("/")[0], Counter())[verdict.verdict] += 1
        table = Table(title="Claims judged", title_justify="left")
        table.add_column("experiment")
        for kind in _KINDS:
            table.add_column(kind, justify="right")
        for experiment, counter in counts.items():
            table.add_row(experiment, *(str(counter[kind]) for kind in _KINDS))
        console.print(table)
    # Not wrapped: a path is to be copied.
    heading = "Where to look:" if any(results.iterdir()) else f"{results}: nothing yet"
    console.print(heading, soft_wrap=True)
    places = (
        ("figures and tables", results / "experiments"),
        ("verdicts", claims),
        ("verdicts to read", claims.with_suffix(".html")),
        ("report, offline", results / "report.zip"),
    )
    for name, path in places:
        if path.exists():
            # A report of other results misleads: say so rather than hide it.
            stale = claims.exists() and path.stat().st_mtime < claims.stat().st_mtime
            note = "  (older than the verdicts)" if path.suffix == ".zip" and stale else ""
            console.print(f"  {name:<20}{path}{note}", highlight=False, soft_wrap=True)
