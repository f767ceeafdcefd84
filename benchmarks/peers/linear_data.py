"""The rows of a job as fedatlas holds them."""

import numpy as np
from measuring import Job
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.shards import ClientSamples


def sparse_rows(job: Job) -> sparse.csr_array:
    """(n, d) CSR of the job's features, which its file holds as such."""
    arrays = job.arrays
    parts = (arrays["non_zeros"], arrays["indices"], arrays["indptr"])
    return sparse.csr_array(parts, shape=(len(arrays["label"]), job.values["features"]))


def client_samples(job: Job) -> ClientSamples:
    """All clients' rows, `samples_each` consecutive ones a client."""
    rows, label = sparse_rows(job), job.arrays["label"]
    offsets = np.arange(0, len(label) + 1, job.values["samples_each"])
    return ClientSamples(Samples(np.arange(len(label)), label, rows), offsets, {})
