"""Sources of the explorer's page; light to import, as the workflow names these files as inputs."""

from pathlib import Path

_FOLDER = Path(__file__).parent
TEMPLATE = _FOLDER / "page.html"
STYLE = _FOLDER / "page.css"
#: Scripts in the order in which they become one module.
SCRIPTS = tuple(
    _FOLDER / f"{name}.js"
    for name in (
        "unpack",
        "curves",
        "numbers",
        "numbers_panel",
        "state",
        "figure",
        "panels",
        "intervals",
        "claims",
        "holdings",
        "main",
    )
)
#: All that the page is made of besides data and the plotting library.
SOURCES = (TEMPLATE, STYLE, *SCRIPTS)
