"""The rows of all tasks on a9a: the real ones, or made up with their shape."""

from pathlib import Path

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.download import Fetching, download
from fedatlas.data.formats import read_raw

CLIENTS, SAMPLES_EACH, FEATURES, NON_ZEROS = 3250, 10, 123, 14
_REPOSITORY = Path(__file__).parents[2]


def real_rows(mirror: Path | None) -> Samples:
    """The first 32,500 rows of a9a, from the mirror or downloaded into results/raw."""
    dataset = load_catalogue(_REPOSITORY / "config/datasets.yaml")["a9a"]
    (file,) = dataset.splits["train"].files
    raw = _REPOSITORY / "results/raw" / file.local_path
    if not raw.exists():
        lock = _REPOSITORY / "config/checksums.lock.json"
        download(file, raw, Fetching(mirror, lock, _REPOSITORY / "results/archives"))
    return first_rows(read_raw(dataset, "train", [raw]), CLIENTS * SAMPLES_EACH)


def made_up_rows(clients: int = CLIENTS) -> Samples:
    """Binary rows with as many features and non-zeros as a9a's, labels by a noisy linear rule."""
    generator = np.random.default_rng(0)
    n = clients * SAMPLES_EACH
    columns = generator.permuted(np.tile(np.arange(FEATURES), (n, 1)), axis=1)[:, :NON_ZEROS]
    indptr = np.arange(0, n * NON_ZEROS + 1, NON_ZEROS)
    rows = sparse.csr_array(
        (np.ones(n * NON_ZEROS), np.sort(columns, axis=1).ravel(), indptr), shape=(n, FEATURES)
    )
    margins = rows @ generator.normal(size=FEATURES) + generator.normal(size=n) - 3
    return Samples(np.arange(n), np.where(margins > 0, 1.0, -1.0), rows)


def first_rows(samples: Samples, count: int) -> Samples:
    """So many rows from the first on."""
    features = sparse.csr_array(samples.features[:count])
    return Samples(samples.sample_id[:count], samples.label[:count], features)


def row_arrays(samples: Samples) -> dict[str, np.ndarray]:
    """What a job's file holds of the rows: label and the parts of a CSR matrix."""
    rows = sparse.csr_array(samples.features)
    return {
        "label": samples.label,
        "indptr": rows.indptr.astype(np.int64),
        "indices": rows.indices.astype(np.int32),
        "non_zeros": rows.data.astype(np.float64),
    }
