"""The plan as it was built before, if all that it follows from is as it was.

Building the plan takes most of the time of a start of Snakemake that is ours, reading it a fifth of
that. It follows from the configuration folder, projects and the package's code, and from Python and
three libraries: a digest of all their bytes, or versions, vouches for it. Like Python's own
compiled files, beside which it lies, it is missing without harm, and to be trusted as much as they
are.
"""

import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path

import numpy as np
import pydantic
import yaml

from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, write_atomically
from fedatlas.plan.build import Plan, build_valid_plan
from fedatlas.projects import added_sources
from fedatlas.schema.experiment_files import files_below

_PACKAGE = Path(__file__).parents[1]
_DIGEST = sha256().digest_size


def load_plan(config_folder: Path, package: Path = _PACKAGE, projects: Sequence[Path] = ()) -> Plan:
    """`build_valid_plan`, or what it gave before. package: whose code is running."""
    stored = Path(cache_from_source(str(package / "__init__.py"))).with_name("plan.pickle")
    folders = (config_folder, *projects)
    key = _key(folders, package)
    with suppress(OSError):
        content = stored.read_bytes()
        plan = content[2 * _DIGEST :]
        if key and content[: 2 * _DIGEST] == key + sha256(plan).digest():
            found: Plan = pickle.loads(plan)
            return found
    built = build_valid_plan(*folders)
    # A fault may lie in what no digest covers, such as a library that is not installed yet. And
    # somebody may have edited a file meanwhile.
    if key and not built.faults and key == _key(folders, package):
        plan = pickle.dumps(built)
        with suppress(FedatlasError, OSError), write_atomically(stored) as temporary:
            temporary.write_bytes(key + sha256(plan).digest() + plan)
    return built


def _key(folders: Sequence[Path], package: Path) -> bytes:
    """A digest of all that a plan follows from; empty if a file cannot be read.

    Messages name the folders, so that their names count, too.
    """
    below = [folder / "experiments" for folder in folders]
    declared = files_below(below, "yaml", "yml", "csv")  # tables: measured times
    files = [folder / name for folder in folders for name in ("datasets.yaml", "papers.yaml")]
    declared += filter(Path.exists, files)
    sources = [package, *(folder for _, folder in added_sources(folders[1:]))]
    code = [file for folder in sources for file in sorted(folder.rglob("*.py"))]
    versions = sys.version, pydantic.VERSION, yaml.__version__, np.__version__
    digest = sha256(repr((versions, list(map(str, folders)))).encode())
    try:
        for file in [*sorted(declared), *code]:
            digest.update(f"{file} {file_digest(file)}\n".encode())
    except OSError:
        return b""
    return digest.digest()
