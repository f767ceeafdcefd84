"""A federation of generated samples for a run, small enough to rehearse a method.

It has the run's agents, parties or silos (around a server, some of its clients), its graphs, loss
and times, and few features. A network is replaced by a linear one. No number depends on the run's
data, but for how many samples a client has where methods refuse fewer than they draw.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import METADATA_KEY, to_table
from fedatlas.federations.context import FederationContext, shard_files
from fedatlas.federations.shards import client_sizes
from fedatlas.files import canonical_json
from fedatlas.schema.objectives import NetworkObjective, PolyakObjective
from fedatlas.schema.partitions import AXES
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.writing import write_shards

_EACH = 1000  # samples of a client where no data are at hand


class TinyFederation:
    """What a run is rehearsed on. spec: of the rehearsal, with one seed, 0. clients: how many."""

    def __init__(self, spec: RunSpec, shards: Path | None) -> None:
        """shards: the folder of the run's partitions, of which only client sizes are read.

        Without it clients have as many samples as the largest whole number among hyper-parameters.
        """
        partition, objective = spec.partition, spec.objective

        def sizes() -> np.ndarray:
            if shards is not None:
                folder = shards / partition.of_seed(spec.seeds[0]).slug
                return client_sizes(shard_files(folder, partition.silos)[0])
            numbers = [one for one in spec.hyper_parameters.values() if isinstance(one, int)]
            return np.full(partition.clients_by_silo[0], max([_EACH, *numbers]))

        self._tiny = spec.federation.tiny(partition, spec.hyper_parameters, sizes)
        self.clients = self._tiny.clients
        if isinstance(objective, NetworkObjective):
            linear = {"model": "linear"} | ({"hidden": None} if "hidden" in vars(objective) else {})
            objective = objective.model_copy(update=linear)
        weights = getattr(objective, "client_weights", "equal")
        if isinstance(weights, tuple):
            fewer = {"client_weights": weights[: self.clients]}
            objective = objective.model_copy(update=fewer)
        self.spec = spec.model_copy(
            update={
                "dataset": "rehearsal",
                "partition": partition.model_copy(update=self._tiny.changes),
                "objective": objective,
                "backend": "simulated",
                "optimum": False,
                "tuned_in": None,
                "seeds": (0,),
                "tuning_seeds": (),
            }
        )

    def opened(self, folder: Path, others: np.ndarray) -> FederationContext:
        """The federation on the CPU.

        folder: to write shards to. others: (clients,), who have other features than usual.
        """
        samples, shape = self._samples(others)
        metadata: dict[str, Any] = {
            "dataset": self.spec.dataset,
            "split": self.spec.split,
            "rows": len(samples),
            "features": samples.features.shape[1],
            "layout": samples.layout,
            "shape": shape,
        }
        folder.mkdir()
        prepared = folder / "prepared.parquet"
        own = {METADATA_KEY: canonical_json(metadata)}
        pq.write_table(to_table(samples, shape).replace_schema_metadata(own), prepared)
        partition = self.spec.partition.of_seed(0)
        target = folder / partition.slug
        target.mkdir()
        files = shard_files(target, partition.silos)
        write_shards(prepared, partition, files, target / "manifest.json")
        return FederationContext(self.spec, folder, "cpu")

    def _samples(self, others: np.ndarray) -> tuple[Samples, tuple[int, ...] | None]:
        """The samples, and the shape of one if networks take them."""
        shape, number = self._shape, self._tiny.rows
        columns = int(np.prod(shape)) if shape else self._tiny.columns
        is_noise = isinstance(self.spec.objective, PolyakObjective)
        if is_noise:  # one number, with the mean 0 on every client
            columns = 1
        rows = np.arange(number)
        client = rows * self.clients // number
        # Small, so that no step size makes a rehearsal overflow.
        features, changed = 0.1 * np.random.default_rng(0).standard_normal((2, number, columns))
        taken = others[client]
        features[taken] = changed[taken]
        if is_noise:
            of_clients = features.reshape(self.clients, -1)
            of_clients -= of_clients.mean(axis=1, keepdims=True)
        if shape is not None:
            features = features.astype(np.float32)
        # Every client has both, as far as it has two samples.
        tasks = self.spec.objective.tasks
        label = np.where(rows % 2, 1.0, -1.0)
        if "multiclass" in tasks or tasks == ("regression",):  # classes, or counts
            label = (rows % 2).astype(np.float64)
        return Samples(rows, label, features), shape

    @property
    def _shape(self) -> tuple[int, ...] | None:
        """The shape of a network's sample; axes that are cut have two places for each block."""
        if not isinstance(self.spec.objective, NetworkObjective):
            return None
        cut = self._tiny.cut
        axes = next(axes for axes in AXES.values() if set(cut) <= set(axes))
        return tuple(2 * cut.get(axis, 1) if axis in cut else 1 for axis in axes)
