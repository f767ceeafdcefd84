"""Specifications and shards of small runs of every method, for tests that train."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.context import shard_files
from fedatlas.schema.partitions import HorizontalPartition, TieredPartition, VerticalPartition
from fedatlas.schema.rows import BinaryClasses
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.writing import write_shards
from prepared_files import write_prepared


def specification(algorithm: str, **values: Any) -> RunSpec:
    """A run of the experiment test-small with two seeds, unless the values say otherwise."""
    values = {
        "paper": "ours",
        "experiment": "test-small",
        "run": algorithm,
        "point": "only",
        "dataset": "toy",
        "split": "train",
        "algorithm": algorithm,
        "rounds": 7,
        "record_every": 3,
        "seeds": (3, 8),
        **values,
    }
    for key, value in values.items():
        values[key] = value.model_dump() if isinstance(value, BaseModel) else value
    return RunSpec.model_validate(values)


def share_out(
    folder: Path,
    partition: Any,
    samples: Samples,
    shape: tuple[int, ...] | None = None,
    seeds: Iterable[int] = (3, 8),
    **metadata: Any,
) -> Path:
    """The folder, with the partition's shards for all seeds in folders by their slugs."""
    prepared = write_prepared(folder / "train.parquet", samples, shape, **metadata)
    for seed in seeds:
        of_seed = partition.of_seed(seed)
        target = folder / of_seed.slug
        if not target.exists():
            target.mkdir()
            files = shard_files(target, of_seed.silos)
            write_shards(prepared, of_seed, files, target / "manifest.json", None)
    return folder


# ------------------------------------------------------------------------ a run of every method

ROWS, FEATURES, IMAGES = 120, 7, 90
CLIENTS = HorizontalPartition(clients=12)
PARTIES = VerticalPartition(parties=3, active=2, test=0.25)
AGENTS = HorizontalPartition(clients=5, samples=50, test=0.2)  # eight samples each
SILOS = TieredPartition(cut={"width": 2}, clients=3, samples=40, test=0.25)
WORKERS = HorizontalPartition(
    assignment="shuffled",
    clients=3,
    test=0.2,
    binary=BinaryClasses(positive=(5, 6, 7, 8, 9), keep_negative=0.5),
)

LINEAR = {"name": "logistic_nonconvex", "weight": 0.1}
SPARSE = {"name": "logistic_l2", "weight": 0.1, "nonsmooth": {"name": "l1", "weight": 0.01}}
CLASSES = {"name": "cross_entropy", "model": "cnn_8x8"}
AUC = {"name": "auc_min_max", "model": "cnn_8x8", "scores": "sigmoid"}
RING = {"states": {"kind": "ring", "weights": "metropolis"}}
DIRECTED = {
    "states": {"kind": "directed_ring", "weights": "received"},
    "trackers": {"kind": "complete", "weights": "sent"},
}
LOCAL = {"clients_per_round": 4, "local_steps": 3, "batch_size": 2, "local_step_size": 0.05}
NOISY = {
    "coupling": 0.3, "step_size": 0.15, "samples": 3, "gradient_bound": 0.6, "clipping": "l1",
    "noise": 0.4,
}  # fmt: skip
MIXING = {"coupling": 0.7, "step_size": 0.1}
STEPS = {"local_steps": 2, "batch_size": 4, "primal_step_size": 0.05, "dual_step_size": 0.05}
STAGES = {"proximal_weight": 0.4, "first_stage_rounds": 2, "stage_growth": 2}
TRACKING = {
    "horizon": 20,
    "clipping": "l1",
    "scheme": {
        "name": "constant", "alpha": 0.3, "beta": 0.2, "gamma": 0.15, "samples": 3,
        "state_noise_scale": 0.7, "tracker_noise_scale": 0.4,
    },
}  # fmt: skip
IN_FLIGHT = {key: value for key, value in LOCAL.items() if key != "clients_per_round"}
IN_FLIGHT |= {"concurrency": 5, "staleness": {"kind": "polynomial", "power": 0.5}}
#: Of clients around a server, with all that may happen.
TIMED = {
    "seconds_per_gradient": 0.01, "compute": {"kind": "lognormal", "spread": 0.5}, "spread": 0.4,
    "latency": 0.02, "bandwidth_up": 2000.0, "availability": 0.7, "deadline": 0.3,
    "loss": {"probability": 0.2, "burst": 3},
}  # fmt: skip
TERNARY = {key: value for key, value in NOISY.items() if key != "noise"} | {"quantiser_range": 9.5}

# Data, partition, objective, graphs and hyper-parameters.
Small = tuple[str, Any, dict[str, Any], dict[str, Any] | None, dict[str, Any]]
SMALL: dict[str, Small] = {
    "fedavg": ("sparse", CLIENTS, LINEAR, None, LOCAL),
    "fedprox": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"proximal_weight": 0.3}),
    "dp_fedavg": (
        *("sparse", CLIENTS, LINEAR, None),
        LOCAL | {"clip_bound": 0.05, "noise_multiplier": 0.8},
    ),
    "dp_local_sgd": (
        *("sparse", CLIENTS, LINEAR, None),
        LOCAL | {"clip_bound": 0.05, "noise_multiplier": 0.8, "proximal_weight": 0.3},
    ),
    "fedpaq": (
        *("sparse", CLIENTS, LINEAR, None),
        LOCAL | {"compressor": {"kind": "quantised", "levels": 2}},
    ),
    "mifa": ("sparse", CLIENTS, LINEAR, None, LOCAL),
    "amplified_fedavg": (
        *("sparse", CLIENTS, LINEAR, None),
        LOCAL | {"period": 2, "amplification": 1.5, "proximal_weight": 0.3},
    ),
    "power_of_choice": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"candidates": 5}),
    "fedsam": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"radius": 0.1}),
    "scaffold": ("sparse", CLIENTS, LINEAR, None, LOCAL),
    "fedavgm": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"momentum": 0.6}),
    "fedadagrad": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"global_step_size": 0.1}),
    "fedadam": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"global_step_size": 0.1}),
    "fedyogi": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"global_step_size": 0.1}),
    "feddyn": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"regularisation": 0.5}),
    "fednova": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"local_unit": "epochs"}),
    "scaffnew": (
        *("sparse", CLIENTS, LINEAR, None),
        {"step_size": 0.1, "communication_probability": 0.4, "batch_size": 2},
    ),
    "mime": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"momentum": 0.6}),
    "feddane": ("sparse", CLIENTS, LINEAR, None, LOCAL | {"proximal_weight": 0.3}),
    "fedlin": ("sparse", CLIENTS, LINEAR, None, LOCAL),
    "cyclic": (
        *("sparse", CLIENTS, LINEAR, None),
        {key: value for key, value in LOCAL.items() if key != "clients_per_round"},
    ),
    "fedmid": ("sparse", CLIENTS, SPARSE, None, LOCAL),
    "fed_dual_avg": ("sparse", CLIENTS, SPARSE, None, LOCAL),
    "pooled": (
        *("sparse", CLIENTS, LINEAR | {"client_weights": "size"}, None),
        {"local_steps": 3, "batch_size": 4, "local_step_size": 0.05},
    ),
    "fedpage": (
        *("sparse", CLIENTS, LINEAR, None),
        {"clients_per_round": 3, "local_steps": 3, "global_step_size": 0.2},
    ),
    "ef21": (
        *("sparse", CLIENTS, LINEAR, None),
        {"clients_per_round": 4, "step_size": 0.1, "compressor": {"kind": "top_k", "k": 2}},
    ),
    "diana": (
        *("sparse", CLIENTS, LINEAR, None),
        {"clients_per_round": 5, "step_size": 0.1, "batch_size": 3}
        | {"compressor": {"kind": "quantised", "levels": 2}},
    ),
    "marina": (
        *("sparse", CLIENTS, LINEAR, None),
        {"clients_per_round": 5, "step_size": 0.1, "full_round_probability": 0.3}
        | {"batch_size": 3, "compressor": {"kind": "rand_k", "k": 3}},
    ),
    "dasha": (
        *("sparse", CLIENTS, LINEAR, None),
        {"clients_per_round": 12, "step_size": 0.1, "full_gradient_probability": 0.3}
        | {"batch_size": 3, "compressor": {"kind": "rand_k", "k": 3}},
    ),
    "ef14": (
        *("sparse", CLIENTS, LINEAR, None),
        {"clients_per_round": 5, "step_size": 0.1, "batch_size": 3, "compressor": {"kind": "sign"}},
    ),
    "fedasync": ("sparse", CLIENTS, LINEAR, None, IN_FLIGHT | {"mixing": 0.6}),
    "fedbuff": ("sparse", CLIENTS, LINEAR, None, IN_FLIGHT | {"buffer_size": 3}),
    "vfb2_sgd": ("sparse", PARTIES, LINEAR, None, {"step_size": 0.02}),
    "vfb2_svrg": ("dense", PARTIES, LINEAR, None, {"step_size": 0.1, "synchronous": True}),
    "vfb2_saga": ("dense", PARTIES, LINEAR, None, {"step_size": 0.1}),
    "afsvrg_vp": ("sparse", PARTIES, LINEAR, None, {"step_size": 0.1, "synchronous": True}),
    "local_sgda": ("images", WORKERS, AUC, None, STEPS),
    "momentum_local_sgda": ("images", WORKERS, AUC, None, STEPS | {"momentum": 0.3}),
    "fmgda": (
        *("images", WORKERS, AUC, None),
        STEPS | {"primal_momentum": 0.2, "dual_momentum": 0.6},
    ),
    "coda": ("images", WORKERS, AUC, None, STEPS | STAGES),
    "coda_plus": ("images", WORKERS, AUC, None, STEPS | STAGES),
    "codasca": ("images", WORKERS, AUC, None, STEPS | STAGES | {"global_step_size": 0.7}),
    "dp_gradient_tracking": ("sparse", AGENTS, LINEAR, DIRECTED, TRACKING),
    "gaussian_gradient_descent": ("dense", AGENTS, LINEAR, RING, NOISY),
    "ternary_gradient_descent": ("dense", AGENTS, LINEAR, RING, TERNARY),
    "binomial_gradient_descent": ("dense", AGENTS, LINEAR, RING, NOISY),
    "online_gradient_descent": ("dense", AGENTS, LINEAR, RING, NOISY),
    "growing_samples_descent": ("images", AGENTS, CLASSES, RING, NOISY | {"growth": 1.07}),
    "quantised_gradient_descent": ("images", AGENTS, CLASSES, RING, NOISY | {"spacing": 0.25}),
    "choco_sgd": (
        *("images", AGENTS, CLASSES, RING),
        {"coupling": 0.3, "step_size": 0.15, "samples": 3, "compressor": {"kind": "natural"}},
    ),
    "local_dsgd": ("dense", AGENTS, LINEAR, RING, MIXING | {"local_steps": 2, "samples": 3}),
    "extra": ("dense", AGENTS, LINEAR, RING, MIXING),
    "nids": ("dense", AGENTS, LINEAR, RING, MIXING),
    "gt_sarah": ("dense", AGENTS, LINEAR, RING, MIXING | {"inner_steps": 2, "samples": 3}),
    "sgp": (
        *("images", AGENTS, CLASSES, {"states": {"kind": "exponential", "weights": "sent"}}),
        {"coupling": 0.6, "step_size": 0.15, "samples": 3},
    ),
    "tdcd": (
        *("images", SILOS, CLASSES | {"model": "cnn_strided"}, None),
        {"step_size": 0.2, "local_steps": 2, "batch_size": 7},
    ),
}


def small(algorithm: str, hyper: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    """The method's small run, with other hyper-parameters and keys where declared."""
    _, partition, objective, graphs, own = SMALL[algorithm]
    values = {"partition": partition, "objective": objective, "graphs": graphs}
    values["hyper_parameters"] = own | (hyper or {})
    if "concurrency" in own:
        values["network"] = TIMED
    return specification(algorithm, **values | changes)


def small_shards(folder: Path, algorithm: str) -> Path:
    """The shards of the method's small run; the folder is shared by all methods."""
    data, partition, *_ = SMALL[algorithm]
    target = folder / data
    target.mkdir(exist_ok=True)
    if data == "images":
        return share_out(target, partition, images(), (1, 8, 8), normalisation=NORMALISATION)
    random = np.random.default_rng(5)
    features = np.where(random.random((ROWS, FEATURES)) < 0.4, random.normal(size=(ROWS, 7)), 0.0)
    label = np.where(features @ random.normal(size=FEATURES) > 0.1, 1.0, -1.0)
    stored = sparse.csr_array(features) if data == "sparse" else features
    return share_out(target, partition, Samples(np.arange(ROWS), label, stored), task="binary")


NORMALISATION = {"mean": [4.0], "deviation": [4.0]}


def images() -> Samples:
    """Grey 8 × 8 images of ten classes, each a bright cell of its own on noise."""
    label = np.arange(IMAGES) % 10.0
    pixels = np.random.default_rng(0).integers(0, 9, (IMAGES, 64), dtype=np.uint8)
    pixels[np.arange(IMAGES), 6 * (np.arange(IMAGES) % 10)] = 16
    return Samples(np.arange(IMAGES), label, pixels)
