"""The explorer of the traces and verdicts that the repository publishes."""

from pathlib import Path

from fedatlas.pages.explorer import write_explorer
from making.published import FOLDER


def write(page: Path) -> None:
    """Write the page about all of them, and the folder of its curves."""
    page.parent.mkdir(parents=True, exist_ok=True)
    write_explorer(FOLDER, sorted(FOLDER.glob("*/verdicts.csv")), page)
