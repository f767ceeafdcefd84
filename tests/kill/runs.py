"""Small runs of every family of methods, on bundled data: a second or so each, of many rounds."""

from functools import cache
from pathlib import Path
from typing import Any

from experiment_files import plan_of_all
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.prepare import prepare
from fedatlas.federations.context import shard_files
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.writing import write_shards

CONFIG = Path(__file__).parents[2] / "config"
NOISY = {"clipping": "none", "coupling": 0.1, "step_size": 0.1, "samples": 20}
# Rounds of few steps, as networks take long.
MOMENTUM = {"local_steps": 3, "batch_size": 10, "primal_momentum": 0.9, "dual_momentum": 0.9}
MOMENTUM |= {"primal_step_size": 0.3, "dual_step_size": 0.01}
BLOCKS = {"local_steps": 2, "batch_size": 500, "step_size": 0.3}
NO_OPTIMUM = {"optimum": False}

# Method → the demo's run of it or of a similar one, rounds, rounds between records, other changes.
METHODS: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "fedavg": ("demo-fedpage/fedavg/local_step_size-0.01", 150, 20, {}),
    "scaffold": ("demo-fedpage/scaffold/local_step_size-0.01", 150, 20, {}),
    "fedpage": ("demo-fedpage/fedpage/global_step_size-0.1", 150, 20, {}),
    "vfb2_sgd": ("demo-vfb2/vfb2-sgd/step_size-0.1", 80, 7, NO_OPTIMUM),
    "vfb2_svrg": ("demo-vfb2/vfb2-svrg/step_size-0.1", 80, 7, NO_OPTIMUM),
    "vfb2_saga": ("demo-vfb2/vfb2-saga/step_size-0.1", 80, 7, NO_OPTIMUM),
    "fmgda": (
        *("demo-fmgda/fmgda/dual_step_size-0.01_primal_momentum-0.9", 10, 4),
        {"hyper_parameters": MOMENTUM},
    ),
    "coda": ("demo-fmgda/coda/dual_step_size-0.01_first_stage_rounds-6", 12, 4, {}),
    "momentum_local_sgda": ("demo-fmgda/momentum/dual_step_size-0.01_momentum-0.9", 8, 3, {}),
    "dp_gradient_tracking": ("demo-dpgt/large-noise/only", 16, 5, {}),
    "ternary_gradient_descent": (
        *("demo-dpgt/gaussian/only", 16, 5),
        {"hyper_parameters": NOISY | {"quantiser_range": 9.5}},
    ),
    "binomial_gradient_descent": (
        *("demo-dpgt/gaussian/only", 16, 5),
        {"hyper_parameters": NOISY | {"noise": 0.04}},
    ),
    "quantised_gradient_descent": ("demo-dpgt/quantised/only", 16, 5, {}),
    "tdcd": ("demo-tdcd/q10/only", 10, 4, {"hyper_parameters": BLOCKS}),
}


@cache
def specifications() -> dict[str, RunSpec]:
    """Every method's run, of two seeds."""
    demo = {run.name: run for run in plan_of_all().runs.values()}
    return {
        method: RunSpec.model_validate(
            demo[name].model_dump()
            | {"algorithm": method, "rounds": rounds, "record_every": every, "seeds": (0, 1)}
            | changes
        )
        for method, (name, rounds, every, changes) in METHODS.items()
    }


def make_shards(specs: list[RunSpec], folder: Path) -> None:
    """All shards that the runs read, at folder/data set/split/partition."""
    catalogue = load_catalogue(CONFIG / "datasets.yaml")
    for spec in specs:
        split = folder / spec.dataset / spec.split
        prepared = split.with_suffix(".parquet")
        if not prepared.exists():
            prepare(catalogue[spec.dataset], spec.split, [], prepared)
        for seed in spec.seeds:
            partition: Partition = spec.partition.of_seed(seed)
            manifest = split / partition.slug / "manifest.json"
            if not manifest.exists():
                silos = shard_files(manifest.parent, partition.silos)
                write_shards(prepared, partition, silos, manifest)
