"""Training of several points in one process, which reads, compiles and loads once."""

import logging
from collections.abc import Sequence
from pathlib import Path

from fedatlas.arithmetic.out_of_memory import memory_explained
from fedatlas.federations.setting import open_setting
from fedatlas.files import canonical_json, require_writable
from fedatlas.plan.closure import code_digest
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import RunSpec
from fedatlas.training.failing import naming_run
from fedatlas.training.kept import finished_seeds, is_whole
from fedatlas.training.loop import train_in
from fedatlas.training.optimum import read_optima
from fedatlas.training.rehearsal import rehearse_once
from fedatlas.training.restart import CheckpointPolicy, trace_identity

log = logging.getLogger(__name__)

# What a setting does not depend on.
_OF_THE_METHOD = {
    "paper",
    "experiment",
    "run",
    "point",
    "algorithm",
    "hyper_parameters",
    "tuned_in",
}


def train_points(
    specs: Sequence[RunSpec], results: Path, *, device: str, checkpoint_every: float
) -> None:
    """Train, one after the other, the runs whose traces do not lie below `results` yet.

    Before a method trains it is rehearsed, once for its code and options; see `rehearsal`.

    results: has shards, optima, selections, checkpoints and traces where the workflow keeps them.
    A trace of the same specification, code, shards and optima is kept, with a new time stamp. Where
    only the seeds are others, those that it has are kept and the new ones are trained.
    New traces lie with the checkpoints until the last is finished: Snakemake removes what a
    failed job has made, and the next attempt goes on from them.
    device, checkpoint_every: see `train`.
    What is raised names the run that failed; see `naming_run`.
    """
    setting, opened = None, ""
    for number, spec in enumerate(specs, 1):
        with naming_run(spec.name):
            # The last such line says which run a job that was killed was at.
            log.info("%s: run %d of %d of this job", spec.name, number, len(specs))
            if spec.tuned_in is not None:
                selection = results / "experiments" / spec.tuned_in / "selection.json"
                spec = spec.tuned(read_json(selection))
            waiting, trace = _waiting(results, spec), spec.trace_file(results)
            for path in (waiting, trace):
                require_writable(path)
            split = Path(spec.dataset, spec.split)
            shared = canonical_json(spec.model_dump(mode="json", exclude=_OF_THE_METHOD))
            # What ran out of memory is a run's own: later ones must not start from it.
            if setting is None or opened != shared or setting.engine.memory is not None:
                setting = None  # before the next is read: memory holds one
                setting, opened = open_setting(spec, results / "shards" / split, device), shared
            best = read_optima(spec, results / "optima" / split)
            identity = trace_identity(spec, code_digest(*spec.code), setting.shard_digests, best)
            if is_whole(finished_seeds(waiting, spec, identity), identity):
                log.info("%s: was finished before the job ended", spec.name)
                continue
            kept = finished_seeds(trace, spec, identity)
            if is_whole(kept, identity):
                waiting.unlink(missing_ok=True)
                log.info("%s: is kept", spec.name)
            else:
                rehearse_once(spec, results / "shards" / split, results / "rehearsals")
                policy = CheckpointPolicy(waiting.with_suffix(".npz"), checkpoint_every)
                with memory_explained(spec.name, device):
                    train_in(setting, spec, waiting, best, policy, kept)
    for spec in specs:
        with naming_run(spec.name):
            waiting, trace = _waiting(results, spec), spec.trace_file(results)
            if waiting.exists():
                waiting.replace(trace)
            else:
                trace.touch()


def _waiting(results: Path, spec: RunSpec) -> Path:
    return results / "checkpoints" / f"{spec.name}.nc"
