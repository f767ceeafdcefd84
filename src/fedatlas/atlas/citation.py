"""Who publishes, and under which licence: a CITATION.cff."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import read_yaml

#: Stands in a new project's file where something is to be filled in.
BLANK = "FILL IN"


def read_citation(path: Path) -> Mapping[str, Any]:
    """What the file states; empty if there is none, or if it is not filled in yet.

    FedatlasError if it is no CITATION.cff.
    """
    if not path.is_file():
        return {}
    declared = read_yaml(path)
    if not isinstance(declared, dict) or "title" not in declared:
        raise FedatlasError(f"{path}: has no 'title': it is no CITATION.cff")
    return {} if BLANK in str(declared) else declared
