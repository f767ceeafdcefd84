"""Small runs of every setting: prints the traces of those that are named, as JSON."""

import json
import sys
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

import fedatlas
from small_federations import (
    AUC,
    CLASSES,
    DIRECTED,
    LOCAL,
    MIXING,
    RING,
    SPARSE,
    STEPS,
    TIMED,
    TRACKING,
    WORKERS,
    images,
)  # fmt: skip

L2 = {"name": "logistic_l2", "weight": 0.01}
STAR = {"clients": 12, "samples": 240}
AGENTS = {"clients": 5, "samples": 200, "test": 0.2}
S1 = {
    "name": "s1", "alpha_factor": 0.6, "beta_factor": 0.6, "gamma_factor": 0.4, "p_alpha": 0.3,
    "samples_factor": 1.0, "p_beta": 0.3, "p_gamma": 0.4, "p_m": 0.1, "p_zeta": -0.3, "p_eta": -0.2,
}  # fmt: skip
IN_FLIGHT = {key: LOCAL[key] for key in ("local_steps", "batch_size", "local_step_size")}

# Method, partition, objective and the rest.
Run: TypeAlias = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]
LINEAR: dict[str, Run] = {
    "star": ("scaffold", STAR, L2, LOCAL | {"optimum": True}),
    "in flight": (
        *("fedbuff", STAR, L2),
        IN_FLIGHT
        | {"concurrency": 5, "buffer_size": 3, "staleness": {"kind": "polynomial", "power": 0.4}}
        | {"network": TIMED},
    ),
    "composite": ("fedmid", STAR, SPARSE, LOCAL | {"optimum": True}),
    "graph": ("extra", AGENTS, L2, MIXING | {"graphs": RING}),
    "noise": (
        *("dp_gradient_tracking", AGENTS, {"name": "robust_regression"}),
        TRACKING | {"scheme": S1, "graphs": DIRECTED, "clipping": "l2"},
    ),
    "tiers": (
        *("tdcd", {"kind": "tiered", "cut": {"columns": 2}, "clients": 3, "test": 0.2}, L2),
        {"step_size": 0.2, "local_steps": 2, "batch_size": 7},
    ),
    "parties": (
        *("vfb2_svrg", {"kind": "vertical", "parties": 3, "active": 2, "test": 0.25}, L2),
        {"step_size": 0.1, "optimum": True},
    ),
}
NETWORKS: dict[str, Run] = {
    "network": ("fedavg", {"clients": 9}, CLASSES, LOCAL),
    "min-max": ("local_sgda", WORKERS.model_dump(), AUC | {"model": "linear"}, STEPS),
}
RUNS = LINEAR | NETWORKS


def traces(names: Iterable[str]) -> dict[str, dict[str, list[Any]]]:
    """By run and variable, what was measured and what it cost; of two seeds."""
    random = np.random.default_rng(7)
    features = np.where(random.random((240, 30)) < 0.7, random.normal(size=(240, 30)), 0.0)
    label = np.where(features @ np.linspace(-1, 1, 30) + random.normal(size=240) > 0, 1.0, -1.0)
    pictures = images().features.reshape(-1, 1, 8, 8) / 4.0 - 1, images().label
    found = {}
    for name in names:
        method, partition, objective, rest = RUNS[name]
        trace = fedatlas.train(
            method, pictures if "model" in objective else (features, label), rounds=12,
            record_every=3, seeds=2, partition={"kind": "horizontal"} | partition,
            objective=objective, **rest,
        )  # fmt: skip
        found[name] = {
            str(key): values.to_numpy().tolist()
            for key, values in trace.variables.items()
            if key != "wall_time"
        }
    return found


if __name__ == "__main__":
    print(json.dumps(traces(sys.argv[1:])))
