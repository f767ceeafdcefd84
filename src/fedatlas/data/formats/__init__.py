"""The formats of raw data: a module each, with the options of its catalogue entries and its reader.

A module holds one subclass of Dataset, which `format` finds by the module's name: adding a module
adds a format. Catalogues import all modules, so these import scipy, scikit-learn, pyarrow and
Pillow only where they read.
"""

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset
from fedatlas.errors import FedatlasError
from fedatlas.extensions import import_extension
from fedatlas.schema.models import only_subclass, validated

FORMATS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def dataset_of(entry: Mapping[str, Any], where: str) -> Dataset:
    """The data set of a catalogue entry; FedatlasError lists everything that is wrong with it.

    entry: with its `name`. where: starts each line of the error.
    """
    name = entry.get("format")
    if name not in FORMATS:
        raise FedatlasError(
            f"{where}: key 'format', value {name!r}: must be one of {', '.join(FORMATS)}"
        )
    for key in entry:
        if key in FORMATS and key != name:
            raise FedatlasError(f"{where}: '{key}' goes with 'format: {key}', and only with it")
    module = import_extension(f"{__name__}.{name}")
    model = only_subclass(module, Dataset)  # type: ignore[type-abstract]
    return validated(model, entry, where)


def read_raw(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    """Read one split, with labels mapped as the catalogue says.

    raw: its files, in the order of the catalogue; empty for bundled and synthetic data.
    Raises FedatlasError when a file is malformed, or the numbers of files, features or rows are
    not those of the catalogue.
    """
    declared = dataset.split(split)
    where = f"data set '{dataset.name}', split '{split}'"
    if len(raw) != len(declared.files):
        raise FedatlasError(f"{where}: expected {len(declared.files)} raw files, got {len(raw)}")
    samples = dataset.read(split, raw)
    if declared.rows not in (None, len(samples)):
        raise FedatlasError(
            f"{where}: expected {declared.rows} rows, found {len(samples)} in "
            f"{', '.join(map(str, raw)) or 'the bundled data'}; the file may be cut short"
        )
    dataset.check_classes(samples.label, ", ".join(map(str, raw)) or where)
    return samples
