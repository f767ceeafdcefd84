"""What the wildcards of file names may stand for."""

import re
from collections.abc import Iterable

CONSTRAINTS = {
    "collection": r"[a-z0-9-]+",
    "dataset": r"[A-Za-z0-9.-]+",
    "experiment": r"[a-z0-9-]+",
    "partition": r"[A-Za-z0-9._-]+",
    "point": r"[A-Za-z0-9._+-]+",
    "run": r"[A-Za-z0-9._+-]+",
    "split": r"[A-Za-z0-9.-]+",
}


def one_of(names: Iterable[str]) -> str:
    """A constraint that admits these names only."""
    return "|".join(re.escape(name) for name in sorted(names)) or "(?!)"
