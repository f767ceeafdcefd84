"""Runs of every setting, small: prints their traces, for a process that is told of a processor."""

import json
import sys
from typing import Any

import numpy as np

import fedatlas
from small_federations import (
    AUC, CLASSES, DIRECTED, LOCAL, MIXING, RING, STEPS, TIMED, TRACKING, WORKERS, images,
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
LINEAR: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "star": ("scaffold", STAR, L2, LOCAL | {"optimum": True}),
    "in flight": (
        *("fedbuff", STAR, L2 | {"nonsmooth": {"name": "l1", "weight": 0.01}}),
        IN_FLIGHT
        | {"concurrency": 5, "buffer_size": 3, "staleness": {"kind": "polynomial", "power": 0.4}}
        | {"network": TIMED},
    ),
    "graph": ("extra", AGENTS, {"name": "robust_regression"}, MIXING | {"graphs": RING}),
    "noise": (
        *("dp_gradient_tracking", AGENTS, L2),
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
NETWORKS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "network": ("fedavg", {"clients": 9, "test": 0.2}, CLASSES, LOCAL),
    "min-max": ("local_sgda", WORKERS.model_dump(), AUC | {"model": "linear"}, STEPS),
}


def main() -> None:
    random = np.random.default_rng(7)
    features = np.where(random.random((240, 30)) < 0.7, random.normal(size=(240, 30)), 0.0)
    label = np.where(features @ np.linspace(-1, 1, 30) + random.normal(size=240) > 0, 1.0, -1.0)
    samples = images()
    pictures = samples.features.reshape(-1, 1, 8, 8), samples.label
    found = {}
    for name in sys.argv[1:]:
        runs, data = (LINEAR, (features, label)) if name in LINEAR else (NETWORKS, pictures)
        method, partition, objective, rest = runs[name]
        trace = fedatlas.train(
            method, data, partition={"kind": "horizontal"} | partition, objective=objective,
            rounds=12, record_every=3, seeds=2, **rest,
        )  # fmt: skip
        of = {"digest": trace.attrs["values_digest"]}
        found[name] = of | {
            str(key): values.to_numpy().tolist()
            for key, values in trace.variables.items()
            if key != "wall_time"
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
