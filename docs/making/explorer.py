"""The explorer of the traces and verdicts that the repository publishes."""

from pathlib import Path

from fedatlas.pages.explorer import write_page
from fedatlas.plan.build import Plan
from making.published import FOLDER


def write(plan: Plan, page: Path) -> None:
    """Write the page about all of them, and the folder of its curves."""
    page.parent.mkdir(parents=True, exist_ok=True)
    shows = plan.runs_shown
    write_page(FOLDER, sorted(FOLDER.glob("*/verdicts.csv")), page, shows)
