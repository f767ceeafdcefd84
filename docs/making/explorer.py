"""The explorer of the traces and verdicts that the repository publishes."""

from pathlib import Path

from fedatlas.atlas.explorer import write_explorer
from fedatlas.plan.build import build_plan
from fedatlas.plan.selected import runs_shown

_ROOT = Path(__file__).parents[2]
#: Holds a folder for each publication.
PUBLISHED = _ROOT / "published"


def write(page: Path) -> None:
    """Write the page about all of them, and the folder of its curves."""
    page.parent.mkdir(parents=True, exist_ok=True)
    plan = build_plan(_ROOT / "config")
    shows = runs_shown(plan, plan.experiments)
    write_explorer(PUBLISHED, sorted(PUBLISHED.glob("*/verdicts.csv")), page, shows)
