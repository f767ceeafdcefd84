"""The graphs of a run without a server."""

import numpy as np

from fedatlas.schema.graphs import weight_matrix
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import RunSpec


def graph_weights(spec: RunSpec) -> tuple[np.ndarray, np.ndarray | None]:
    """Weights (n, n) of the graph of states and of that of trackers, which a run may lack."""
    assert spec.graphs is not None and isinstance(spec.partition, HorizontalPartition)
    agents, trackers = spec.partition.clients, spec.graphs.trackers
    return (
        weight_matrix(spec.graphs.states, agents, "graphs.states"),
        None if trackers is None else weight_matrix(trackers, agents, "graphs.trackers"),
    )
