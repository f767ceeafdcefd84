"""What people look at besides figures: pages, summaries and tables.

Light to import: the workflow names the sources of the explorer's page as inputs.
"""

from pathlib import Path

_FOLDER = Path(__file__).parent / "page"
TEMPLATE, STYLE = _FOLDER / "page.html", _FOLDER / "page.css"
#: Scripts in the order in which they become one module.
SCRIPTS = tuple(_FOLDER / f"{name}.js" for name in ("data", "figure", "panels", "main"))
#: All that the page is made of besides data and the plotting library.
SOURCES = (TEMPLATE, STYLE, *SCRIPTS)
