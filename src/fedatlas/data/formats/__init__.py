"""Formats of raw data, by family: options of catalogue entries, and readers.

Every subclass of Dataset whose `format` is a literal is a format of that name: adding one touches
one file. Catalogues import all modules, so these import scipy, scikit-learn, pyarrow and Pillow
only where they read.
"""

import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset
from fedatlas.errors import FedatlasError
from fedatlas.extensions import import_extension
from fedatlas.schema.models import validated
from fedatlas.schema.rows import INSTANCE


@cache
def formats() -> dict[str, type[Dataset]]:
    """The model of the entries of each format, sorted by name."""
    modules = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    found = {
        name: member
        for module in modules
        for member in vars(import_extension(module)).values()
        if isinstance(member, type) and issubclass(member, Dataset)
        for name in get_args(member.model_fields["format"].annotation)
    }
    return dict(sorted(found.items()))


def dataset_of(entry: Mapping[str, Any], where: str) -> Dataset:
    """The data set of a catalogue entry; FedatlasError lists everything that is wrong with it.

    entry: with its `name`. where: starts each line of the error.
    """
    name = entry.get("format")
    if not isinstance(name, str) or name not in formats():
        raise FedatlasError(
            f"{where}: key 'format', value {name!r}: must be one of {', '.join(formats())}"
        )
    return validated(formats()[name], entry, where)


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
    read = [one.read(split, raw) for one in dataset.each_instance()]
    for samples in read:
        if declared.rows not in (None, len(samples)):
            raise FedatlasError(
                f"{where}: expected {declared.rows} rows, found {len(samples)} in "
                f"{', '.join(map(str, raw)) or 'the bundled data'}; the file may be cut short"
            )
        dataset.check_classes(samples.label, ", ".join(map(str, raw)) or where)
    return read[0] if dataset.instances is None else _together(read)


def _together(instances: list[Samples]) -> Samples:
    """All rows, instance by instance, with the column that says whose a row is."""
    from scipy import sparse

    features: Any = [samples.features for samples in instances]
    joined = sparse.csr_array(sparse.vstack(features)) if instances[0].is_sparse else None
    kept = {name: [x for one in instances for x in one.kept[name]] for name in instances[0].kept}
    numbers = np.repeat(np.arange(len(instances)), [len(samples) for samples in instances])
    return Samples.numbered(
        np.concatenate([samples.label for samples in instances]),
        np.concatenate(features) if joined is None else joined,
        kept | {INSTANCE: numbers.tolist()},
    )
