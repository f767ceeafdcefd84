"""Pages, summaries and tables for people.

This module is light to import, since the workflow names the explorer's sources as inputs.
"""

from pathlib import Path

_FOLDER = Path(__file__).parent / "page"
TEMPLATE, STYLE = _FOLDER / "page.html", _FOLDER / "page.css"
#: Scripts in the order in which they become one module.
SCRIPTS = tuple(_FOLDER / f"{name}.js" for name in ("data", "figure", "panels", "main"))
#: All sources of the page besides data and the plotting library.
SOURCES = (TEMPLATE, STYLE, *SCRIPTS)
