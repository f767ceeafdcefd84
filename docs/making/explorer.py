"""The explorer of the traces and verdicts that the repository publishes."""

from pathlib import Path

from fedatlas.pages.explorer import write_page
from fedatlas.plan.build import Plan
from fedatlas.plan.selected import runs_shown
from making.published import FOLDER


def write(plan: Plan, page: Path) -> None:
    """Write the page about all of them, and the folder of its curves."""
    page.parent.mkdir(parents=True, exist_ok=True)
    shows = runs_shown(plan, plan.experiments)
    write_page(FOLDER, sorted(FOLDER.glob("*/verdicts.csv")), page, shows)
