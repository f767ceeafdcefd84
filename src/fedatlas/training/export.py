"""Export the trained model of one seed, assembled from those who hold its parts.

Results keep measurements, not models. So the seed is trained again from its shards, and its trace
is held against the recorded one.
"""

import inspect
import json
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.architectures import architecture_module
from fedatlas.data.tables import PREPARED_KEYS, open_parquet, read_metadata, to_array
from fedatlas.errors import FedatlasError, similar
from fedatlas.extensions import import_extension
from fedatlas.federations.context import FederationContext, shard_files
from fedatlas.files import canonical_json, remove_folder, require_writable, write_atomically
from fedatlas.schema.federation import Assembled
from fedatlas.schema.models import read_json, validated
from fedatlas.schema.objectives import NetworkObjective
from fedatlas.schema.runs import RunSpec
from fedatlas.store.trace import read_trace, values_digest
from fedatlas.training.loop import train
from fedatlas.training.steps import naming_run, seed_policy

FORMAT = "fedatlas model 1"
#: Beside the arrays, JSON: what was trained, and what scoring samples takes.
METADATA = "__metadata__"
# Of the prepared split, as far as it is told.
_OF_DATA = ("features", "shape", "normalisation", "feature_names", "standardised", "scaled_labels")


def export_model(
    results: Path,
    experiment: str,
    run: str,
    output: Path,
    *,
    point: str | None = None,
    seed: int | None = None,
    device: str | None = None,
) -> str:
    """Train a seed of a recorded run again and write its model, .npz or .safetensors.

    point: by default that which the experiment chose, or the only one. seed: by default the first.
    device: by default of the recorded kind. Checkpoints lie in a folder beside the output, by which
    the same call resumes.

    Returns how the new trace compares with the recorded one. FedatlasError where a name is none,
    which says what there is, and where the two differ though nothing says why.
    """
    write = _writer(output)
    file = _trace_file(results, experiment, run, point)
    recorded = read_trace(file)
    spec = validated(RunSpec, json.loads(recorded.attrs["specification"]), str(file))
    seed = spec.seeds[0] if seed is None else seed
    _check(str(seed), map(str, spec.seeds), f"{spec.name}: there is no seed")
    # Sub-optimality, which needs f*, follows from the objective.
    spec = spec.model_copy(update={"seeds": (seed,), "tuning_seeds": (), "optimum": False})
    data = _told(results / "data" / spec.dataset / f"{spec.split}.parquet")
    shards = results / "shards" / spec.dataset / spec.split
    device = device or recorded.attrs["device"].partition(":")[0]
    require_writable(output)
    own, rounds = _ended(recorded.sel(seed=[seed]))
    # As many rounds as it took, whatever ended it.
    course = spec.model_copy(update={"rounds": rounds or spec.rounds, "until": {}})
    with naming_run(spec.name, device):
        trace, model = _trained(course, shards, data, output, device)
    found = _compared(own, trace, spec)
    last = {
        name: float(values[0, -1])
        for name, values in trace.data_vars.items()
        if values.ndim == 2 and np.isfinite(values[0, -1])
    }
    about = {
        "format": FORMAT,
        "specification": spec.model_dump(mode="json"),
        "seed": seed,
        "data": {key: data[key] for key in _OF_DATA if data.get(key) is not None},
        "network": _network(spec, shards),
        "measured": last,
        "compared": found,
        "method": trace.attrs["algorithm_title"],
        "code": trace.attrs["source_digest"],
        "shards": _shards_of(trace, seed),
        "device": trace.attrs["device"],
        "versions": json.loads(trace.attrs["versions"]),
        **model.about,
    }
    write(model.arrays, canonical_json(about))
    return found


def _ended(recorded: xr.Dataset) -> tuple[xr.Dataset, int]:
    """The records of one seed until it ended, and after how many rounds; 0 if it diverged."""
    rounds = recorded["round"].to_numpy()[0]
    if np.isnan(rounds[-1]):
        return recorded, 0
    return recorded.isel(record=slice(0, int(np.argmax(rounds == rounds[-1])) + 1)), int(rounds[-1])


def _trained(
    spec: RunSpec, shards: Path, data: dict[str, Any], output: Path, device: str
) -> tuple[xr.Dataset, Assembled]:
    """The trace of the one seed, and its model; FedatlasError if it diverges."""
    folder = output.with_name(f"{output.name}.training")
    context = FederationContext(spec, shards, device)
    told = [_told(silo) for silo in _shard_files(spec, shards)]
    shape = tuple(data.get("shape") or [data["features"]])
    models: list[Assembled] = []

    def keep(point: Any) -> None:
        models.append(spec.federation.assembled(spec, context.engine, point, told, shape))

    while True:
        policy, file = seed_policy(folder), folder / "trace.nc"
        trace = train(spec, shards, file, seeds=policy, context=context, keep=keep)
        remove_folder(folder)
        if trace["status"].item() != "ok":
            raise FedatlasError(f"seed {spec.seeds[0]} diverges and has no model: name another")
        if models:  # else it was killed when it had ended, and only its result was there
            return trace, models[0]


def _told(path: Path) -> dict[str, Any]:
    """What a file of samples says of itself."""
    with open_parquet(path) as file:
        return read_metadata(file, path, PREPARED_KEYS)


def _shard_files(spec: RunSpec, shards: Path) -> list[Path]:
    partition = spec.partition.of_seed(spec.seeds[0])
    return shard_files(shards / partition.slug, partition.silos)


def _network(spec: RunSpec, shards: Path) -> dict[str, Any] | None:
    """What builds the network: build(shape, outputs), or its function of that name in `definition`.

    labels: of outputs, in order; a single one is of the larger label.
    """
    objective = spec.objective
    if not isinstance(objective, NetworkObjective):
        return None
    with open_parquet(_shard_files(spec, shards)[0]) as file:
        labels = np.unique(to_array(file.read(columns=["label"])["label"])).tolist()
    return {
        "name": objective.model,
        "hidden": getattr(objective, "hidden", None),
        "outputs": len(labels) if "multiclass" in objective.tasks else 1,
        "labels": labels,
        "definition": inspect.getsource(import_extension(architecture_module(objective.model))),
    }


def _trace_file(results: Path, experiment: str, run: str, point: str | None) -> Path:
    """The recorded trace; FedatlasError names what there is."""
    folder = results / "experiments"
    traced = (traces.parent.name for traces in folder.glob("*/traces"))
    _check(experiment, traced, f"{folder}: there is no experiment with traces")
    folder = folder / experiment / "traces"
    _check(run, (own.name for own in folder.iterdir()), f"{experiment}: there is no run")
    points = sorted(file.stem for file in (folder / run).glob("*.nc"))
    selection = folder.parent / "selection.json"
    if point is None and selection.exists():
        point = read_json(selection)["runs"].get(run, {}).get("selected")
    if point is None:
        if len(points) != 1:
            known = ", ".join(points)
            raise FedatlasError(f"{experiment}/{run}: no point is chosen: name one of {known}")
        (point,) = points
    _check(point, points, f"{experiment}/{run}: there is no point")
    return folder / run / f"{point}.nc"


def _check(name: str, known: Iterable[str], otherwise: str) -> None:
    known = sorted(known)
    if name not in known:
        there = ", ".join(known) or "none"
        raise FedatlasError(f"{otherwise} '{name}'{similar(name, known)}; there are: {there}")


def _compared(recorded: xr.Dataset, again: xr.Dataset, spec: RunSpec) -> str:
    """How two traces of the one seed compare; FedatlasError for a difference without a reason."""
    names = (set(recorded.variables) & set(again.variables)) - {"wall_time"}
    first, second = ({name: of[name].to_numpy() for name in names} for of in (recorded, again))
    if values_digest(first) == values_digest(second):
        return "its trace equals the recorded one, bit for bit"
    apart = {str(name): _apart(first[name], second[name]) for name in names - {"status"}}
    name, most = max(apart.items(), key=lambda item: item[1])
    found = f"its trace differs from the recorded one by up to {most:.2g} in {name}, relative"
    reasons = [
        f"{what} differs"
        for what, key in (("code", "source_digest"), ("versions", "versions"), ("device", "device"))
        if recorded.attrs[key] != again.attrs[key]
    ]
    shards = {_shards_of(trace, spec.seeds[0]) for trace in (recorded, again)}
    reasons += ["shards differ"] if len(shards) > 1 else []
    reasons += (
        ["versions of seeds differ"] if "were trained with" in recorded.attrs["warnings"] else []
    )
    reasons += ["processes are never twice alike"] if spec.backend == "processes" else []
    if not reasons:
        raise FedatlasError(
            f"{spec.name}: {found}, though code, versions, device and shards are the same: set "
            "OMP_NUM_THREADS to the threads of the recorded training (1 unless a profile says "
            "'set-threads'), or check the trace (fedatlas verify)"
        )
    return f"{found}: {', '.join(reasons)}"


def _shards_of(trace: xr.Dataset, seed: int) -> str:
    """The digest of all that the seed reads."""
    return str(json.loads(trace.attrs["shard_digests"])[str(seed)])


def _apart(first: np.ndarray, second: np.ndarray) -> float:
    """The largest relative difference; infinite where only one of two values is NaN."""
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.abs(first - second) / np.maximum(np.abs(first), np.abs(second))
    return float(np.where(same, 0.0, np.nan_to_num(relative, nan=np.inf)).max(initial=0.0))


def _writer(output: Path) -> Callable[[dict[str, np.ndarray], str], None]:
    """What writes arrays and metadata, whole or not at all, by the name of the file."""
    if output.suffix not in (".npz", ".safetensors"):
        raise FedatlasError(f"{output}: must end in .npz or .safetensors")
    if output.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise FedatlasError(
            f"{output}: needs the package safetensors: pip install safetensors, or name a file "
            "that ends in .npz"
        )

    def write(arrays: dict[str, np.ndarray], metadata: str) -> None:
        with write_atomically(output) as temporary:
            if output.suffix == ".npz":
                with temporary.open("wb") as stream:
                    np.savez(stream, allow_pickle=False, **{METADATA: np.array(metadata)}, **arrays)
                return
            from safetensors.numpy import save_file

            own = {name: np.array(array, order="C") for name, array in arrays.items()}
            save_file(own, temporary, {"fedatlas": metadata})

    return write
