"""The explorer of the traces and verdicts that the repository publishes."""

from pathlib import Path

from fedatlas.atlas.explorer import write_explorer

#: Holds a folder for each publication.
PUBLISHED = Path(__file__).parents[2] / "published"


def write(page: Path) -> None:
    """Write the page about all of them, and the folder of its curves."""
    page.parent.mkdir(parents=True, exist_ok=True)
    write_explorer(PUBLISHED, sorted(PUBLISHED.glob("*/verdicts.csv")), page)
