"""Finished seeds of a trace, which are kept when seeds are added to its run or removed from it."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.schema.runs import RunSpec
from fedatlas.traces.trace import build_trace, read_trace, record_schedule, values_digest

log = logging.getLogger(__name__)

#: Keys of a specification that say which seeds there are; none of them changes another's records.
_SEEDS = ("seeds", "tuning_seeds")


def finished_seeds(path: Path, spec: RunSpec, identity: Mapping[str, str]) -> xr.Dataset | None:
    """The seeds of a trace that the run would train again, bit for bit; None without any.

    identity: of the run's trace, see `trace_identity`. Seeds are kept whose specification, code,
    shards and optima are those of the run. A file that is damaged, or no trace, holds none.
    """
    if not path.exists():
        return None
    try:
        trace = read_trace(path)
    except FedatlasError as error:
        log.warning("%s", error)
        return None
    try:
        old, new = _depends_on(trace.attrs), _depends_on(identity)
        digest, seeds = trace.attrs["values_digest"], trace["seed"].to_numpy().tolist()
    except (KeyError, ValueError, TypeError, AttributeError):  # of another version, or foreign
        return None
    records = len(record_schedule(spec.rounds, spec.record_every))
    if old[0] != new[0] or dict(trace.sizes) != {"seed": len(seeds), "record": records}:
        return None
    if digest != values_digest(trace.variables):
        log.warning("%s: its values are not those that were written; all seeds train anew", path)
        return None
    same = [
        seed in spec.seeds and _of_seed(old[1], seed) == _of_seed(new[1], seed) for seed in seeds
    ]
    return trace.isel(seed=np.flatnonzero(same)) if any(same) else None


def is_whole(kept: xr.Dataset | None, identity: Mapping[str, str]) -> bool:
    """Whether what is kept is the run's whole trace."""
    return kept is not None and all(kept.attrs.get(key) == of for key, of in identity.items())


def assembled(
    parts: Sequence[xr.Dataset], seeds: Sequence[int], attributes: Mapping[str, Any]
) -> xr.Dataset:
    """One trace of these seeds, in this order, each in one of the parts."""
    found = np.concatenate([part["seed"].to_numpy() for part in parts]).tolist()
    places = [found.index(seed) for seed in seeds]
    names = [
        name for name, values in parts[0].variables.items() if values.dims == ("seed", "record")
    ]
    variables = {
        str(name): np.concatenate([part.variables[name].to_numpy() for part in parts])[places]
        for name in names
    }
    status = np.concatenate([part["status"].to_numpy().astype(str) for part in parts])[places]
    trace = build_trace(variables, status.tolist(), list(seeds), dict(attributes))
    trace.attrs["values_digest"] = values_digest(trace.variables)
    return trace


def with_budgets(kept: xr.Dataset, spent: Mapping[str, np.ndarray]) -> xr.Dataset:
    """The same with the budgets of privacy that hold for all seeds now; see `Privacy.spent`.

    They are the same unless a new trial has an agent with fewer samples.
    """
    rounds = kept["round"].to_numpy()
    present = ~np.isnan(rounds)
    now = {}
    for name, budget in spent.items():
        values = np.full(rounds.shape, np.nan)
        values[present] = budget[rounds[present].astype(np.int64)]
        now[name] = kept.variables[name].copy(data=values)
    return kept.assign_coords({name: of for name, of in now.items() if name in kept.coords}).assign(
        {name: of for name, of in now.items() if name not in kept.coords}
    )


def warnings_of(kept: xr.Dataset, attributes: Mapping[str, Any]) -> str:
    """The warnings of both, as JSON, and one if other versions trained what is kept."""
    told = [*json.loads(kept.attrs.get("warnings", "[]")), *json.loads(attributes["warnings"])]
    if any(kept.attrs.get(name) != attributes[name] for name in ("versions", "device")):
        seeds = ", ".join(map(str, kept["seed"].to_numpy()))
        told.append(
            f"the seeds {seeds} were trained with {kept.attrs.get('versions')} on "
            f"{kept.attrs.get('device')}"
        )
    return canonical_json(list(dict.fromkeys(told)))


def _depends_on(attributes: Mapping[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """What all seeds of a trace depend on, and mappings of what each depends on."""
    specification = json.loads(attributes["specification"])
    shared = {key: value for key, value in specification.items() if key not in _SEEDS}
    by_seed = [dict(json.loads(attributes[key])) for key in ("shard_digests", "optima")]
    return (shared, attributes["source_digest"]), by_seed


def _of_seed(by_seed: list[dict[str, Any]], seed: int) -> list[Any]:
    return [values.get(str(seed)) for values in by_seed]
