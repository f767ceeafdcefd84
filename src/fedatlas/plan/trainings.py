"""Which points of a dry run would train, and why: a job trains no seed that has a result."""

import json
import re
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from fedatlas.code import code_digest
from fedatlas.files import text_digest
from fedatlas.plan.build import Plan
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import RunSpec

_TRACE = re.compile(r"experiments/([^/]+)/traces/([^/]+)/([^/]+)\.nc$")
#: Why a run may train whose inputs are made anew.
IF_INPUTS_DIFFER = "if inputs change"

#: Why the run of a trace trains, when these files are made anew; empty if no seed of it does.
Why = Callable[[str, Container[str]], str]


def why_trained(plan: Plan, results: Path, seeds: Path) -> Why:
    """What says which traces need training; FedatlasError where inputs of a run are not there yet.

    seeds: the folder of results of seeds.
    """
    shards: dict[Path, str] = {}  # digests by manifest

    def why(trace: str, remade: Container[str]) -> str:
        # They load numpy, which most plans do without.
        from fedatlas.algorithms import build_algorithm
        from fedatlas.training.seeds import FINISHED, header_of, seed_file, seed_identity

        place = _TRACE.search(trace)
        spec, inputs = plan.run(*place.groups() if place else (trace, "", "")), list[Path]()
        if spec.tuned_in is not None:
            inputs += [results / "experiments" / spec.tuned_in / "selection.json"]
            spec = spec.tuned(read_json(inputs[0]))
        folder, optima = (
            results / name / spec.dataset / spec.split for name in ("shards", "optima")
        )
        best, code = spec.read_optima(optima), code_digest(*spec.code)
        values = build_algorithm(spec).model_dump(mode="json")
        now: dict[str, Any] = {"code": code, "shards": {}, "optima": best}
        missing = []
        for seed in spec.seeds:
            manifest = folder / spec.partition.of_seed(seed).slug / "manifest.json"
            if manifest not in shards:
                files = read_json(manifest)["silos"]
                shards[manifest] = text_digest("".join(file["digest"] for file in files))
            inputs += filter(None, [manifest, spec.optimum_file(optima, seed)])
            own = seed_identity(spec, seed, values, code, shards[manifest], best.get(seed))
            if FINISHED not in header_of(seed_file(seeds, own)):
                missing.append(seed)
            now["shards"][seed] = shards[manifest]
        if missing:
            return _changed(Path(trace), spec, now)
        return IF_INPUTS_DIFFER if any(str(file) in remade for file in inputs) else ""

    return why


def _changed(trace: Path, spec: RunSpec, now: dict[str, Any]) -> str:
    """What is new since a trace was written, in a few words."""
    if not trace.exists():
        return "missing"
    from fedatlas.store.trace import read_trace

    made = read_trace(trace).attrs
    if made["source_digest"] != now["code"]:
        return "code changed"
    for name, recorded in (("shards", "shard_digests"), ("optima", "optima")):
        before = json.loads(made[recorded])
        if any(before.get(str(seed), one) != one for seed, one in now[name].items()):
            return "inputs changed"
    if json.loads(made["specification"]) != spec.model_dump(mode="json"):
        return "settings changed"
    return "results of seeds are gone"
