"""What a training job reads."""

from pathlib import Path

from fedatlas.plan.data import shards
from fedatlas.schema.runs import RunSpec


def folder(kind: str, spec: RunSpec) -> str:
    """Where the split's "shards" or "optima" are."""
    return f"results/{kind}/{spec.dataset}/{spec.split}"


def shard_files(spec: RunSpec) -> list[str]:
    """The shards of all trials' partitions, each once."""
    partitions = [spec.partition.of_trial(seed) for seed in spec.seeds]
    trials = {partition.slug: partition for partition in partitions}
    return [
        file
        for partition in trials.values()
        for file in shards(spec.dataset, spec.split, partition)
    ]


def manifests(spec: RunSpec) -> list[str]:
    """The manifests that vouch for the shards."""
    return sorted({str(Path(file).with_name("manifest.json")) for file in shard_files(spec)})


def optima(spec: RunSpec) -> list[str]:
    """The optima that sub-optimality is measured against."""
    files = {spec.optimum_file(Path(folder("optima", spec)), seed) for seed in spec.seeds}
    return sorted(str(file) for file in files if file)


def tuning(spec: RunSpec) -> list[str]:
    """The selection that the hyper-parameters come from, if the run is tuned elsewhere."""
    return [f"results/experiments/{spec.tuned_in}/selection.json"] if spec.tuned_in else []
