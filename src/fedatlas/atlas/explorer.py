"""The atlas as one page to explore: plotting library, data and scripts in a single HTML file.

It asks for nothing over a network, and its content security policy forbids it to: what runs is
named by its digest, so that text out of traces stays text.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from fedatlas.atlas.explorer_data import ColumnStore, describe
from fedatlas.atlas.page import SCRIPTS, STYLE, TEMPLATE
from fedatlas.atlas.reading import open_atlas
from fedatlas.evaluation.verdicts import read_verdicts
from fedatlas.files import write_text


def write_explorer(
    atlas: Path, claims: Path, output: Path, shows: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Write the page about an atlas (atlas.nc) and its verdicts (claims.csv).

    The page holds every healthy seed of every grid point. shows: experiments that have no runs of
    their own → the runs of others that they show, as experiment/run. Raises FedatlasError where a
    file is not what it should be.
    """
    verdicts = read_verdicts(claims)
    store = ColumnStore()
    with open_atlas(atlas) as tree:
        described = describe(tree, verdicts, shows or {}, store)
    write_text(output, _page(described, store.planes()))


def _page(described: dict[str, Any], columns: bytes) -> str:
    library = get_plotlyjs()
    script = "\n".join(source.read_text(encoding="utf-8") for source in SCRIPTS)
    parts = {
        "allowed": f"{_digest(script)} {_digest(library)}",
        "style": STYLE.read_text(encoding="utf-8"),
        "description": _inert(json.dumps(described, ensure_ascii=False, allow_nan=False)),
        "columns": _packed(columns),
        "library": _packed(library.encode()),
        "script": script,
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    # In one pass: what is put in is not searched for further places.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _digest(script: str) -> str:
    """A script as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _inert(text: str) -> str:
    """JSON that no HTML parser takes for the end of its element, or the start of another."""
    return text.replace("<", "\\u003c")


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()
