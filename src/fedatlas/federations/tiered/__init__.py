"""Silos that hold columns, each with clients around its hub that hold some of its samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.federations.context import timed
from fedatlas.federations.parts import TimedCounters, by_column, linear_model
from fedatlas.federations.tiered.hubs import TieredCounters, TieredNetwork, TieredProblem
from fedatlas.schema.federation import Assembled, Federation, Sizes, Tiny, format_span
from fedatlas.schema.network_model import StarNetworkModel
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective
from fedatlas.shards.assignment import silo_blocks


@dataclass
class TimedSilos(TimedCounters, TieredCounters):
    """Counters of runs that state a network."""


class Tiered(Federation):
    """Hubs talk to each other and to the clients of their silos."""

    partition_kind = "tiered"
    objectives = (LinearObjective, ClassificationObjective)
    sharding = "fedatlas.shards.cutting:cut_silos"
    holders = "silos"
    counters = TieredCounters
    network_model, timed_counters = StarNetworkModel, TimedSilos
    inwards, outwards = ("exchange", "collect_models"), ("send_models",)
    needed = ("collect_models",)
    silent = "hubs are sent nothing: call network.collect_models"
    rehearsal = ("inwards",)
    rounds = 2  # their networks are computed in turn
    model, inward_call = "a hub's model", "network.collect_models"

    @classmethod
    def check_columns(cls, partition: Any, shape: tuple[int, ...]) -> None:
        silo_blocks(partition, shape)

    @classmethod
    def describe(cls, partitions: Sequence[Any]) -> str:
        silos = format_span((each.silos for each in partitions), "silo")
        clients = (own for each in partitions for own in each.clients_by_silo)
        return f"{silos}, {format_span(clients, 'client')} in each"

    @classmethod
    def read(cls, files: Sequence[Path]) -> Any:
        from fedatlas.federations.shards import read_tiered_shards

        return read_tiered_shards(files)

    @classmethod
    def tiny(cls, partition: Any, hyper_parameters: Mapping[str, Any], sizes: Sizes) -> Tiny:
        """With all samples, and two columns for each silo."""
        changes = {"samples": None, "test": None, "binary": None, "seed": 0, "instances": False}
        found = sizes()
        return Tiny(changes, len(found), int(found.sum()), 2 * partition.silos, partition.cut)

    @classmethod
    def engine(cls, spec: Any, files: Sequence[Path], device: str) -> TieredProblem:
        if isinstance(spec.objective, LinearObjective):
            from fedatlas.federations.tiered.linear_engine import LinearSilos

            return LinearSilos(cls.read(files), spec.objective)
        from fedatlas.federations.tiered.torch_engine import NetworkSilos

        return NetworkSilos(cls.read(files), spec.objective, device)

    @classmethod
    def assembled(
        cls, spec: Any, engine: Any, point: Any, shards: Sequence[Any], shape: tuple[int, ...]
    ) -> Assembled:
        """All silos' blocks; of networks also where silos' slices lie, and how they look."""
        if isinstance(spec.objective, LinearObjective):
            return linear_model(spec, by_column(np.concatenate(point.weights), shards))
        arrays: dict[str, np.ndarray] = {}
        silos: list[dict[str, Any]] = []
        for number, block in enumerate(silo_blocks(spec.partition, shape)):
            found = engine.state_dict(number, point)
            arrays |= {f"silo{number}.{name}": part for name, part in found.items()}
            own = {key: shards[number][key] for key in ("shape", "normalisation")}
            silos.append({"block": [[along.start, along.stop] for along in block], **own})
        return Assembled(arrays, {"silos": silos})

    @classmethod
    def network(cls, spec: Any, engine: Any, counters: Any, seed: int) -> Any:
        network = TieredNetwork(engine.clients, counters)
        return timed(network, counters, spec, seed, sum(engine.clients), down=cls.outwards)
