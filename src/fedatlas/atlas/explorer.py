"""The atlas as one page to explore: plotting library, data and scripts in a single HTML file.

The page needs no network, and its content security policy forbids any. The policy names scripts by
their digests, so that text out of traces stays text.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

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

    The page holds every healthy seed of every grid point. shows: experiment without runs of its own
    → the runs that it shows, as experiment/run. FedatlasError names a damaged or foreign file.
    """
    verdicts = read_verdicts(claims)
    store = ColumnStore()
    with open_atlas(atlas) as tree:
        described = describe(tree, verdicts, shows or {}, store)
    library = get_plotlyjs()
    script = "\n".join(source.read_text(encoding="utf-8") for source in SCRIPTS)
    parts = {
        "allowed": f"{_digest(script)} {_digest(library)}",
        "style": STYLE.read_text(encoding="utf-8"),
        # HTML parsers find in it neither the end of its element nor the start of another.
        "description": json.dumps(described, ensure_ascii=False, allow_nan=False).replace(
            "<", "\\u003c"
        ),
        "columns": _packed(store.planes()),
        "library": _packed(library.encode()),
        "script": script,
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    # One pass does not search the inserted parts for further places.
    write_text(output, re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template))


def _digest(script: str) -> str:
    """The name of a script in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()
