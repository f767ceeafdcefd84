"""The atlas as a page to explore: plotting library, scripts and names in one HTML file.

Curves lie in files of their own in a folder beside it and are read when they are shown. Browsers
let a page that is opened as a file read nothing but scripts, so these files are scripts, which hand
over their content. The page needs no network: its content security policy allows scripts beside it
and those that it holds itself, which are named by their digests; text out of traces stays text.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from fedatlas.atlas.explorer_data import describe
from fedatlas.atlas.page import SCRIPTS, STYLE, TEMPLATE
from fedatlas.atlas.reading import opened
from fedatlas.atlas.runs import Atlas
from fedatlas.evaluation.interval_drawing import STYLE as INTERVAL_STYLE
from fedatlas.evaluation.verdicts import read_verdicts
from fedatlas.files import text_digest, write_text


def write_explorer(
    atlas: Atlas | Path,
    claims: Iterable[Path],
    output: Path,
    shows: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write the page about an atlas and its verdicts, and its folder.

    atlas: open, or what `open_atlas` opens. claims: files of verdicts (.csv). The folder has the
    page's name without .html. It holds every healthy seed of every grid point, a file for the
    selected point of a run and one for all others.
    shows: experiment without runs of its own → the runs that it shows, as experiment/run.
    FedatlasError names a damaged or foreign file.
    """
    verdicts = [verdict for file in claims for verdict in read_verdicts(file)]
    folder = output.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)  # also of an atlas without runs
    before = set(folder.glob("*.js"))
    written: set[Path] = set()

    def keep(columns: bytes) -> str:
        packed = _packed(columns)
        # Named by its content: a page never shows the curves of another.
        name = text_digest(packed, 16)
        file = folder / f"{name}.js"
        if file not in written:
            write_text(file, f'hand("{name}", "{packed}");\n')
            written.add(file)
        return name

    with opened(atlas) as tree:
        names = {"folder": folder.name, "atlas": tree.path.resolve().name}
        described = names | describe(tree, verdicts, shows or {}, keep)
    library = get_plotlyjs()
    script = "\n".join(source.read_text(encoding="utf-8") for source in SCRIPTS)
    parts = {
        "allowed": f"{_digest(script)} {_digest(library)}",
        "style": STYLE.read_text(encoding="utf-8") + INTERVAL_STYLE,
        # HTML parsers find in it neither the end of its element nor the start of another.
        "description": json.dumps(described, ensure_ascii=False, allow_nan=False).replace(
            "<", "\\u003c"
        ),
        "library": _packed(library.encode()),
        "script": script,
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    # One pass does not search the inserted parts for further places.
    write_text(output, re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template))
    for leftover in before - written:
        leftover.unlink(missing_ok=True)  # another process may have removed it


def _digest(script: str) -> str:
    """The name of a script in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()
